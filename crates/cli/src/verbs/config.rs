//! `config`: every effective value and where it came from.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::Table;
use loopwright_core::config::{Origin, Setting};
use serde::Serialize;
use serde_json::Value;

/// The document of `config --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    settings: Vec<Setting>,
}

pub(crate) async fn run(cx: &Context) -> Ended {
    // Outside a repository the user's own configuration is still worth printing.
    let repo = cx.repo().await.ok();
    let effective = cx.config(repo.as_ref().map(|repo| repo.work_tree.as_path()))?;
    let mut settings = effective.settings();
    add_state(cx, &mut settings)?;
    add_keys(cx, &mut settings)?;
    settings.sort_by(|a, b| a.key.cmp(&b.key));
    let document = Document { schema: 1, settings };
    cx.out.answer(&document, || page(&document));
    Ok(Exit::DONE)
}

/// The state directory as it is used, also when nobody named one.
fn add_state(cx: &Context, settings: &mut Vec<Setting>) -> Result<(), crate::error::CommandError> {
    let (dir, _) = cx.state_dir()?;
    let value = Value::String(dir.to_string_lossy().into_owned());
    match settings.iter_mut().find(|setting| setting.key == "state_dir") {
        Some(setting) => setting.value = value,
        None => settings.push(Setting { key: "state_dir".to_owned(), value, origin: Origin::Default }),
    }
    Ok(())
}

/// Where each provider's key was found, or why it was not; never the key.
fn add_keys(cx: &Context, settings: &mut [Setting]) -> Result<(), crate::error::CommandError> {
    for known in cx.access()?.known {
        let key = format!("providers.{}", known.name);
        let setting = settings.iter_mut().find(|setting| setting.key == key);
        if let Some(Value::Object(value)) = setting.map(|setting| &mut setting.value) {
            let told = known.found.map_or_else(|why| format!("missing: {why}"), |place| format!("found in {place}"));
            value.insert("key".to_owned(), Value::String(told));
        }
    }
    Ok(())
}

fn page(document: &Document) -> String {
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for setting in &document.settings {
        let value = match &setting.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.row([setting.key.as_str(), &value, origin(setting.origin)]);
    }
    table.render()
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Default => "default",
        Origin::User => "user",
        Origin::Repository => "repository",
        Origin::Environment => "environment",
        Origin::Flag => "flag",
    }
}

//! `config`: every effective value and its source.

use super::{CommandContext, CommandError, VerbResult};
use crate::context::ModelAccess;
use crate::output::{CommandOutput, TextStyle, TextTable};
use loopwright_core::config::{ConfigOrigin, EffectiveSetting};
use serde_json::{Value, json};

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    // Outside a repository, print the user's own configuration.
    let repo = cx.repo().await.ok();
    let effective = cx.config(repo.as_ref().map(|repo| repo.work_tree.as_path()))?;
    let mut settings = effective.settings();
    add_state(cx, &mut settings)?;
    add_keys(cx, &mut settings)?;
    settings.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(cx.out.answer(&json!({"schema": 1, "settings": settings}), || page(&settings, &cx.out)))
}

/// The state directory in use, also when it is the default.
fn add_state(cx: &CommandContext, settings: &mut Vec<EffectiveSetting>) -> Result<(), CommandError> {
    let (dir, _) = cx.state_dir()?;
    let value = Value::String(dir.to_string_lossy().into_owned());
    match settings.iter_mut().find(|setting| setting.key == "state_dir") {
        Some(setting) => setting.value = value,
        None => settings.push(EffectiveSetting { key: "state_dir".to_owned(), value, origin: ConfigOrigin::Default }),
    }
    Ok(())
}

/// The source of each provider's key, or why there is none; never the key.
fn add_keys(cx: &CommandContext, settings: &mut [EffectiveSetting]) -> Result<(), CommandError> {
    for known in ModelAccess::read(cx)?.providers {
        let key = format!("providers.{}", known.name);
        let setting = settings.iter_mut().find(|setting| setting.key == key);
        if let Some(Value::Object(value)) = setting.map(|setting| &mut setting.value) {
            let source = match known.key_source {
                Ok(Some(place)) => format!("found in {place}"),
                Ok(None) => "not needed".to_owned(),
                Err(why) => format!("missing: {why}"),
            };
            value.insert("key".to_owned(), Value::String(source));
        }
    }
    Ok(())
}

fn page(settings: &[EffectiveSetting], out: &CommandOutput) -> String {
    let row = |setting: &EffectiveSetting| {
        let value = setting.value.as_str().map_or_else(|| setting.value.to_string(), str::to_owned);
        [setting.key.clone(), value, origin(setting.origin).to_owned()]
    };
    TextTable::new(["KEY", "VALUE", "FROM"], settings.iter().map(row)).with_look(2, origin_look).render_for(out)
}

/// The values that a file, a variable or a flag set stand out.
fn origin_look(origin: &str) -> Option<TextStyle> {
    Some(if origin == "default" { TextStyle::Dim } else { TextStyle::Green })
}

fn origin(origin: ConfigOrigin) -> &'static str {
    match origin {
        ConfigOrigin::Default => "default",
        ConfigOrigin::User => "user",
        ConfigOrigin::Repository => "repository",
        ConfigOrigin::Environment => "environment",
        ConfigOrigin::Flag => "flag",
    }
}

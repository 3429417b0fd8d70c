//! `forget`: a loop starts over with all its items, or with one, and drops its memory. The record of its rounds stays.

use super::{CommandContext, CommandError, VerbResult, close, safe};
use crate::error::with_count;
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use loopwright::forget::{ForgetReport, ForgetRequest};
use serde_json::json;

/// The most keys listed for people; a document has them all.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    pub(crate) name: String,
    /// Forget only this item, so that the loop takes it again
    #[arg(long, value_name = "ID")]
    pub(crate) item: Option<String>,
}

pub(crate) async fn run(args: ForgetArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    is_known(cx, &repo, &args.name).await?;
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let forget = ForgetRequest {
        repo: repo.id.clone(),
        loop_name: args.name.clone(),
        item: args.item.clone(),
        actor: cx.actor_name(),
    };
    let forgotten = close(&engine, loopwright::forget::forget(&engine, forget).await).await?;
    if let (Some(item), true) = (&args.item, forgotten.is_empty()) {
        return Err(CommandError::unknown(format!("{} has no item `{item}` to forget", args.name))
            .hint(format!("see what it has with `loopwright show {}`", args.name)));
    }
    let document = json!({
        "schema": SCHEMA, "loop": args.name, "item": args.item,
        "items": forgotten.items.iter().map(|row| &row.key).collect::<Vec<_>>(),
        "memories": forgotten.memories.iter().map(|row| &row.key).collect::<Vec<_>>(),
        "questions": forgotten.questions,
    });
    Ok(cx.out.answer(&document, || page(&args.name, &forgotten)))
}

/// A loop with a file here, or one that ran here and whose file is gone.
async fn is_known(cx: &CommandContext, repo: &loopwright::git::UserRepo, name: &str) -> Result<(), CommandError> {
    let unknown = match cx.loops(repo)?.find(name) {
        Ok(_) => return Ok(()),
        Err(unknown) => unknown,
    };
    let Some(store) = super::status::open_store_if_any(cx).await? else { return Err(unknown) };
    match store.loop_row(&repo.id, name).await? {
        Some(_) => Ok(()),
        None => Err(unknown),
    }
}

fn page(name: &str, forgotten: &ForgetReport) -> String {
    if forgotten.is_empty() {
        return format!("{} has nothing to forget", safe(name));
    }
    let mut page = String::new();
    let items = forgotten.items.iter().map(|row| ("item", row.key.as_str()));
    let lines: Vec<_> = items.chain(forgotten.memories.iter().map(|row| ("memory", row.key.as_str()))).collect();
    for (what, key) in lines.iter().take(SHOWN) {
        page.push_str(&format!("forgot {what} {}\n", safe(key)));
    }
    if lines.len() > SHOWN {
        page.push_str(&format!("and {} more\n", lines.len() - SHOWN));
    }
    let (items, memories) = (forgotten.items.len(), forgotten.memories.len());
    let memories = if memories == 1 { "1 memory".to_owned() } else { format!("{memories} memories") };
    page + &format!("{} forgot {} and {memories}; its rounds stay on record", safe(name), with_count(items, "item"))
}

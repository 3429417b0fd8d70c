//! `inbox`: list what waits for a human.

use super::VerbResult;
use crate::context::CommandContext;
use crate::exit::CommandExit;
use crate::view::inbox::InboxView;
use crate::view::time::now_ms;

#[derive(Debug, clap::Args)]
pub(crate) struct InboxArgs {}

pub(crate) async fn run(_: InboxArgs, cx: &CommandContext) -> VerbResult {
    let store = super::status::open_store_if_any(cx).await?;
    let inbox = InboxView::read(store.as_deref()).await?;
    let page = match &store {
        Some(store) if !inbox.items.is_empty() && !cx.out.is_json() => inbox.render(store.as_ref(), now_ms()).await?,
        _ => "nothing waits for you".to_owned(),
    };
    cx.out.answer(&inbox, || page);
    Ok(CommandExit::DONE)
}

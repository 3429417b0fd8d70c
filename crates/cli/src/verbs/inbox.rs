//! `inbox`: list what waits for a human.

use super::{CommandContext, VerbResult};
use crate::view::inbox::{InboxOrder, InboxView};
use crate::view::list_page::ListWindow;
use crate::view::time::now_ms;

#[derive(Debug, clap::Args)]
pub(crate) struct InboxArgs {
    /// The order of the list
    #[arg(long, value_enum, default_value_t = InboxOrder::Loop)]
    sort: InboxOrder,
    #[command(flatten)]
    window: ListWindow,
}

pub(crate) async fn run(args: InboxArgs, cx: &CommandContext) -> VerbResult {
    let store = super::status::open_store_if_any(cx).await?;
    let repo = if cx.has_explicit_repo() { Some(cx.repo().await?.id) } else { None };
    let inbox = InboxView::read(store.as_deref(), repo.as_deref()).await?.arranged(args.sort, args.window);
    let page = match &store {
        Some(store) if !inbox.items.is_empty() && !cx.out.is_json() => {
            inbox.render(cx, store.as_ref(), now_ms()).await?
        }
        _ => "nothing waits for you".to_owned(),
    };
    Ok(if cx.out.is_json() { cx.out.document(&inbox) } else { cx.out.paged(&page, &cx.env) })
}

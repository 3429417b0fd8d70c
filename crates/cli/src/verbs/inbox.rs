//! `inbox`: list what waits for a human.

use super::{CommandContext, VerbResult};
use crate::view::inbox::InboxView;
use crate::view::time::now_ms;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let store = super::status::open_store_if_any(cx).await?;
    let inbox = InboxView::read(store.as_deref()).await?;
    let page = match &store {
        Some(store) if !inbox.items.is_empty() && !cx.out.is_json() => {
            inbox.render(cx, store.as_ref(), now_ms()).await?
        }
        _ => "nothing waits for you".to_owned(),
    };
    Ok(if cx.out.is_json() { cx.out.document(&inbox) } else { cx.out.paged(&page, &cx.env) })
}

//! `inbox`: list what waits for a human.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use crate::view::inbox::Inbox;
use crate::view::time::now_ms;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args, cx: &Context) -> Ended {
    let store = super::status::store_if_any(cx).await?;
    let inbox = Inbox::read(store.as_deref()).await?;
    let page = match &store {
        Some(store) if !inbox.items.is_empty() && !cx.out.is_json() => inbox.render(store.as_ref(), now_ms()).await?,
        _ => "nothing waits for you".to_owned(),
    };
    cx.out.answer(&inbox, || page);
    Ok(Exit::DONE)
}

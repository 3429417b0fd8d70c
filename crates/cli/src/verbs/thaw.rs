//! `thaw`: ends the global stop, also one that was made by the file.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use loopwright::proc::Cancel;
use serde_json::json;

pub(crate) async fn run(cx: &Context) -> Ended {
    let was_stopped = match cx.daemon() {
        Some(daemon) => {
            let was = daemon.snapshot().await?.frozen.is_some();
            daemon.thaw(&cx.actor()).await?;
            was
        }
        None => {
            let engine = cx.owner(None, &Cancel::new()).await?;
            let thawed = match cx.entries().await {
                Ok(entries) => engine.thaw_all(entries, &cx.actor()).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            engine.close().await?;
            thawed?
        }
    };
    cx.out.answer(&json!({"schema": 1, "thawed": was_stopped}), || match was_stopped {
        true => "loops start again; what was due meanwhile stays undone".to_owned(),
        false => "nothing was stopped".to_owned(),
    });
    Ok(Exit::DONE)
}

//! `thaw`: ends the global stop, also one that was made by the file, and takes a clock as it is that was not believed.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use loopwright::daemon::Thawed;
use loopwright::proc::Cancel;
use serde_json::json;

pub(crate) async fn run(cx: &Context) -> Ended {
    let thawed = match cx.daemon() {
        Some(daemon) => daemon.thaw(&cx.actor_name()).await?,
        None => {
            let engine = cx.owner(None, &Cancel::new()).await?;
            let thawed = match cx.entries().await {
                Ok(entries) => engine.thaw_all(entries, &cx.actor_name()).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            engine.close().await?;
            thawed?
        }
    };
    let document = json!({"schema": 1, "thawed": thawed.is_something(), "clock_taken": thawed.was_clock_behind});
    cx.out.answer(&document, || told(thawed).to_owned());
    Ok(Exit::DONE)
}

fn told(thawed: Thawed) -> &'static str {
    match (thawed.was_stopped, thawed.was_clock_behind) {
        (true, false) => "loops start again; what was due meanwhile stays undone",
        (false, true) => "the clock is taken as it is; loops start again",
        (true, true) => "the clock is taken as it is, and loops start again; what was due meanwhile stays undone",
        (false, false) => "nothing was stopped",
    }
}

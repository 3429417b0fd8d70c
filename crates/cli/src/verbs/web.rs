//! `web`: a link that opens the dashboard of the running daemon in a browser. The link works once, for two minutes.

use super::{CommandContext, CommandError, VerbResult};
use serde_json::json;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let Some(resources) = cx.daemon_resources() else {
        return Err(CommandError::refused("no daemon runs here, so nothing serves the dashboard")
            .hint("start it with: loopwright up"));
    };
    let Some(web) = &resources.web else {
        return Err(CommandError::refused("the daemon serves no dashboard")
            .hint("remove `web: { enabled: false }` from your configuration, and start the daemon again"));
    };
    let link = web.create(&cx.actor())?;
    let document = json!({"schema": 1, "url": link, "address": web.origin()});
    Ok(cx.out.answer(&document, || format!("{link}\nopen it within two minutes; it works once")))
}

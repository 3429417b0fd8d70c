//! `notifications`: the messages that were sent, wait or failed; a test of a route; a failed message again. The daemon
//! sends what is in the queue.

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::notify::{NotificationFile, queue_document};
use crate::output::{CommandOutput, TextTable};
use crate::view::time::{date_and_time, now_ms};
use loopwright_core::config::NotifyRoute;
use loopwright_core::notify::{
    NotificationFact, NotificationQueue, NotificationState, NotifySeverity, QueuedNotification,
};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Debug, clap::Args)]
pub(crate) struct NotificationsArgs {
    #[command(subcommand)]
    action: Option<NotificationsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum NotificationsCommand {
    /// Send a test message over a route now, and report its receiver's answer
    Test {
        /// The name of the route in your configuration
        #[arg(value_name = "ROUTE")]
        route: String,
    },
    /// Send a message again that failed; the daemon does it within a minute
    Retry {
        /// The id of the message
        #[arg(value_name = "ID")]
        id: String,
    },
}

impl NotificationsArgs {
    /// Whether the command only reads.
    pub(crate) fn is_list(&self) -> bool {
        self.action.is_none()
    }
}

pub(crate) async fn run(args: NotificationsArgs, cx: &CommandContext) -> VerbResult {
    let routes = cx.config(None)?.config().notify.clone();
    let file = NotificationFile::new(&cx.state_dir()?.0);
    match args.action {
        None => {
            let queue = file.read()?;
            Ok(cx.out.answer(&queue_document(&routes, &queue), || render(&routes, &queue, &cx.out)))
        }
        Some(NotificationsCommand::Test { route }) => test(cx, &routes, &route).await,
        Some(NotificationsCommand::Retry { id }) => retry(cx, &file, &id),
    }
}

async fn test(cx: &CommandContext, routes: &BTreeMap<String, NotifyRoute>, name: &str) -> VerbResult {
    let Some(route) = routes.get(name) else {
        let known = routes.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = if known.is_empty() { NO_ROUTES.to_owned() } else { format!("the routes are {known}") };
        return Err(CommandError::unknown(format!("there is no route `{}`", safe(name))).hint(hint));
    };
    let at_ms = now_ms();
    let fact = NotificationFact {
        at_ms,
        severity: NotifySeverity::Info,
        loop_name: String::new(),
        round: None,
        text: format!("this is a test of the route {}", safe(name)),
    };
    let item = QueuedNotification {
        id: "n-test".to_owned(),
        route: name.to_owned(),
        state: NotificationState::Waiting,
        created_ms: at_ms,
        due_ms: at_ms,
        attempts: 0,
        error: None,
        facts: vec![fact],
        more: 0,
    };
    let kind = route.receiver.kind();
    cx.send_notification(route, &item).await.map_err(|error| {
        CommandError::failed(format!("the route {} ({kind}) does not work: {}", safe(name), error.text))
    })?;
    let document = json!({"schema": 1, "route": name, "kind": kind, "sent": true});
    Ok(cx.out.answer(&document, || format!("sent over {} ({kind})", safe(name))))
}

fn retry(cx: &CommandContext, file: &NotificationFile, id: &str) -> VerbResult {
    if file.read()?.item(id).is_none() || !file.change(|queue| queue.retry(id, now_ms()))? {
        let text = format!("no message `{}` waits or failed", safe(id));
        return Err(CommandError::unknown(text).hint("see `loopwright notifications`"));
    }
    let document = json!({"schema": 1, "id": id, "state": NotificationState::Waiting});
    Ok(cx.out.answer(&document, || format!("{} is sent again by the daemon", safe(id))))
}

/// The hint for a configuration without routes.
const NO_ROUTES: &str =
    "write into your own configuration: `notify: { team: { slack: { webhook_env: SLACK_WEBHOOK_URL } } }`";

fn render(routes: &BTreeMap<String, NotifyRoute>, queue: &NotificationQueue, out: &CommandOutput) -> String {
    if routes.is_empty() && queue.items.is_empty() {
        return format!("no notifications\n{NO_ROUTES}");
    }
    let mut text = String::new();
    if !routes.is_empty() {
        let row = |(name, route): (&String, &NotifyRoute)| {
            let loops = if route.loops.is_empty() { "all".to_owned() } else { route.loops.join(", ") };
            let digest = route.digest.map_or("–".to_owned(), |span| span.to_string());
            let quiet = route.quiet.map_or("–".to_owned(), |hours| hours.to_string());
            [name.clone(), route.receiver.kind().to_owned(), route.severity.to_string(), loops, digest, quiet]
        };
        let headings = ["ROUTE", "TO", "FROM SEVERITY", "LOOPS", "DIGEST", "QUIET"];
        text.push_str(&TextTable::new(headings, routes.iter().map(row)).render_for(out));
    }
    if queue.items.is_empty() {
        return format!("{}\n\nno messages yet; try a route: loopwright notifications test ROUTE", text.trim_end());
    }
    let row = |item: &QueuedNotification| {
        let when = date_and_time(item.due_ms);
        let state = match item.state {
            NotificationState::Waiting if item.attempts > 0 => format!("tried again {when}"),
            NotificationState::Waiting => format!("due {when}"),
            NotificationState::Sent => format!("sent {when}"),
            NotificationState::Failed => "failed".to_owned(),
        };
        let error = item.error.as_deref().map_or(String::new(), |error| format!(" – {error}"));
        [item.id.clone(), item.route.clone(), state, format!("{}{error}", item.subject())]
    };
    let table = TextTable::new(["ID", "ROUTE", "STATE", "MESSAGE"], queue.items.iter().rev().map(row));
    format!("{}\n\n{}", text.trim_end(), table.render_for(out)).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_routes_says_how_to_write_one() {
        let out = CommandOutput::new(&crate::args::GlobalFlags::default(), &Default::default(), None);
        let text = render(&BTreeMap::new(), &NotificationQueue::default(), &out);
        assert!(text.contains("webhook_env"), "{text}");
    }
}

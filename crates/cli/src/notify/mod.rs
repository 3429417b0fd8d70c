//! Notifications: the queue in the state directory, its document, and the facts that go into it. The daemon sends; this
//! module does not.

mod facts;

pub(crate) use facts::{FactCollector, HeardFacts, Switch};

use crate::error::CommandError;
use crate::locked_file::LockedFile;
use crate::view::time::Moment;
use loopwright_core::config::NotifyRoute;
use loopwright_core::notify::{NotificationFact, NotificationQueue, NotificationState, QueuedNotification};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file in the state directory.
const FILE: &str = "notifications.json";

/// The most bytes of the file: fifty routes with two full messages each, and the failed ones.
const FILE_MAX: u64 = 8 << 20;

/// The queue of a state directory.
#[derive(Debug, Clone)]
pub(crate) struct NotificationFile(LockedFile<NotificationQueue>);

impl NotificationFile {
    /// The queue of a state directory; it need not exist.
    pub(crate) fn new(state: &Path) -> Self {
        Self(LockedFile::new(state, FILE, FILE_MAX))
    }

    /// The queue as it is now.
    pub(crate) fn read(&self) -> Result<NotificationQueue, CommandError> {
        self.0.read().map_err(|error| self.failed(&error))
    }

    /// Changes the queue; the change is on the disk when this returns.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut NotificationQueue) -> R) -> Result<R, CommandError> {
        self.0.change(change).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> CommandError {
        CommandError::failed(format!("the queue of notifications, {}: {error}", self.0.path().display()))
            .hint("remove the file to start with an empty queue")
    }
}

/// A message as receivers get it.
pub(crate) fn message_document(item: &QueuedNotification) -> Value {
    json!({
        "schema": 1,
        "id": item.id,
        "route": item.route,
        "severity": item.severity(),
        "subject": item.subject(),
        "text": item.text(),
        "facts": item.facts.iter().map(fact_document).collect::<Vec<_>>(),
        "more": item.more,
    })
}

fn fact_document(fact: &NotificationFact) -> Value {
    json!({
        "at": Moment(fact.at_ms), "severity": fact.severity, "loop": fact.loop_name, "round": fact.round,
        "text": fact.text,
    })
}

/// The routes and the messages, newest first.
pub(crate) fn queue_document(routes: &BTreeMap<String, NotifyRoute>, queue: &NotificationQueue) -> Value {
    let route = |(name, route): (&String, &NotifyRoute)| {
        json!({
            "route": name, "kind": route.receiver.kind(), "severity": route.severity, "loops": route.loops,
            "digest": route.digest, "quiet": route.quiet,
        })
    };
    let count = |state: NotificationState| queue.items.iter().filter(|item| item.state == state).count();
    json!({
        "schema": 1,
        "routes": routes.iter().map(route).collect::<Vec<_>>(),
        "waiting": count(NotificationState::Waiting),
        "failed": count(NotificationState::Failed),
        "notifications": queue.items.iter().rev().map(line_document).collect::<Vec<_>>(),
    })
}

fn line_document(item: &QueuedNotification) -> Value {
    let is_sent = item.state == NotificationState::Sent;
    json!({
        "id": item.id,
        "route": item.route,
        "state": item.state,
        "severity": item.severity(),
        "subject": item.subject(),
        "created": Moment(item.created_ms),
        "sent": is_sent.then_some(Moment(item.due_ms)),
        "next": (item.state == NotificationState::Waiting).then_some(Moment(item.due_ms)),
        "attempts": item.attempts,
        "error": item.error,
        "facts": item.facts.len() as u64 + item.more,
    })
}

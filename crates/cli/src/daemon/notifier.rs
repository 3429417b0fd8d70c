//! The daemon's notifier: moves new facts into the queue and sends what is due. Without a route it only waits for a new
//! configuration. It decides nothing about rounds, and no round waits for it.

use super::daemon_log::DaemonLog;
use crate::context::CommandContext;
use crate::error::{CommandError, with_count};
use crate::notify::{FactCollector, HeardFacts, NotificationFile, Switch};
use crate::view::time::{minute_of_day, now_ms};
use loopwright::Engine;
use loopwright::deliver::DeliverError;
use loopwright::events::EventSink;
use loopwright::proc::CancelToken;
use loopwright_core::config::NotifyRoute;
use loopwright_core::notify::{NotificationState, QueuedNotification};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

/// The record is also read this often while a route exists, because another process may write to it.
const POLL_MS: i64 = 60_000;

/// The queue is also read this often while it has unsent messages, because a person may have one sent again.
const POLL_UNSENT_MS: i64 = 15_000;

/// How long messages that are being sent may take when the daemon ends; they are sent again by the next one.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The running notifier.
pub(super) struct DaemonNotifier {
    task: JoinHandle<()>,
    cancel: CancelToken,
}

impl DaemonNotifier {
    /// Starts it.
    pub(super) fn start(cx: CommandContext, engine: &Engine, log: &Arc<DaemonLog>) -> Result<Self, CommandError> {
        let file = NotificationFile::new(&cx.state_dir()?.0);
        let heard = Arc::new(HeardFacts::default());
        engine.events().attach(Arc::clone(&heard) as Arc<dyn EventSink>).keep();
        let cancel = CancelToken::new();
        let worker = NotifierWorker {
            collector: FactCollector::new(file.clone()),
            file,
            heard,
            cx: Arc::new(cx),
            engine: engine.clone(),
            log: Arc::clone(log),
            cancel: cancel.clone(),
            last_problem: None,
        };
        Ok(Self { task: tokio::spawn(worker.run()), cancel })
    }

    /// Ends it.
    pub(super) async fn stop(mut self) {
        self.cancel.cancel();
        if tokio::time::timeout(STOP_GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

struct NotifierWorker {
    cx: Arc<CommandContext>,
    engine: Engine,
    log: Arc<DaemonLog>,
    file: NotificationFile,
    heard: Arc<HeardFacts>,
    collector: FactCollector,
    cancel: CancelToken,
    last_problem: Option<String>,
}

impl NotifierWorker {
    async fn run(mut self) {
        let clock = Arc::clone(&self.engine.settings().clock);
        loop {
            let next = self.pass_or_warn().await;
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = self.heard.wait() => {}
                () = async { match next {
                    Some(at) => clock.until(at).await,
                    None => std::future::pending().await,
                } } => {}
            }
        }
    }

    /// One pass; a problem is reported once and tried again with the next pass.
    async fn pass_or_warn(&mut self) -> Option<i64> {
        match self.pass().await {
            Ok(next) => {
                self.last_problem = None;
                next
            }
            Err(error) => {
                let text = format!("notifications: {}", error.text);
                if self.last_problem.as_ref() != Some(&text) {
                    self.log.warn(&text);
                    self.last_problem = Some(text);
                }
                Some(now_ms().saturating_add(POLL_MS))
            }
        }
    }

    /// Collects facts and sends what is due; returns when to look again.
    async fn pass(&self) -> Result<Option<i64>, CommandError> {
        let routes = self.cx.config(None)?.config().notify.clone();
        self.heard.set_on(if routes.is_empty() { Switch::Off } else { Switch::On });
        if routes.is_empty() {
            return Ok(None);
        }
        // A store that fails does not keep the messages of the queue back.
        let collected = self.collector.collect(self.engine.store().as_ref(), &self.heard, &routes).await;
        loop {
            let (queue, now) = (self.file.read()?, now_ms());
            let minute = |at| minute_of_day(at);
            let (due, later): (Vec<_>, Vec<_>) =
                queue.waiting(&routes, now, &minute).partition(|(at, _)| *at <= now && !self.cancel.is_cancelled());
            if due.is_empty() {
                collected?;
                let next = later.iter().map(|(at, _)| *at).min().unwrap_or(i64::MAX);
                let has_unsent = queue.items.iter().any(|item| item.state != NotificationState::Sent);
                let poll = if has_unsent { POLL_UNSENT_MS } else { POLL_MS };
                return Ok(Some(next.min(now.saturating_add(poll))));
            }
            self.send_all(&routes, due.into_iter().map(|(_, item)| item.clone()).collect()).await?;
        }
    }

    /// Sends messages at once, so that a slow receiver delays no other one, and stores the result of each.
    async fn send_all(
        &self,
        routes: &BTreeMap<String, NotifyRoute>,
        items: Vec<QueuedNotification>,
    ) -> Result<(), CommandError> {
        self.file.change(|queue| items.iter().for_each(|item| queue.begun(&item.id)))?;
        let mut sending = JoinSet::new();
        for item in items {
            let (cx, route) = (Arc::clone(&self.cx), routes.get(&item.route).cloned());
            sending.spawn(async move {
                let sent = match route {
                    Some(route) => cx.send_notification(&route, &item).await,
                    None => Err(DeliverError::blocked("the configuration has no such route any more")),
                };
                (item, sent)
            });
        }
        while let Some(ended) = sending.join_next().await {
            let (item, sent) = ended.map_err(|error| CommandError::failed(format!("send a message: {error}")))?;
            self.store_result(&item, sent)?;
        }
        Ok(())
    }

    fn store_result(&self, item: &QueuedNotification, sent: Result<(), DeliverError>) -> Result<(), CommandError> {
        let now = now_ms();
        match sent {
            Ok(()) => {
                self.file.change(|queue| queue.delivered(&item.id, now))?;
                let facts = with_count(item.facts.len() + usize::try_from(item.more).unwrap_or(0), "fact");
                self.log.log("notified", &format!("{} over {} ({facts})", item.id, item.route));
            }
            Err(error) => {
                let state = self.file.change(|queue| {
                    queue.failed(&item.id, &error.text, error.retry_at_ms, now);
                    queue.item(&item.id).map(|item| item.state)
                })?;
                let further = match state {
                    Some(NotificationState::Waiting) => "it is tried again",
                    _ => "it is not tried again; see: loopwright notifications",
                };
                self.log.warn(&format!("{} was not sent over {}: {}; {further}", item.id, item.route, error.text));
            }
        }
        Ok(())
    }
}

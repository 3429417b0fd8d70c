//! The watch over all repositories: one task that sleeps until the kernel has news, and lets a burst of them settle into one
//! look. What a look does is [`super::hub`]'s.

use super::signal::Signals;
use super::trigger_hub::TriggerHub;
use super::watched_repos::{WatchedFolder, WatchedRepo};
use crate::clock::Clock;
use crate::git::Git;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long nothing must happen before a burst is over: editors write a file in several steps, git moves many.
const SETTLE: Duration = Duration::from_millis(250);
/// A burst that does not end is looked at all the same.
const BURST_MAX: Duration = Duration::from_secs(5);
/// What could not be recorded is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// Orders that wait.
const ORDERS: usize = 16;

/// A running watch; it ends when this is dropped.
#[derive(Debug)]
pub struct TriggerWatch {
    orders: mpsc::Sender<Order>,
    task: JoinHandle<()>,
}

struct Order {
    wanted: Wanted,
    done: oneshot::Sender<()>,
}

enum Wanted {
    Triggers(Vec<WatchedRepo>),
    Folders(Vec<WatchedFolder>),
}

impl TriggerWatch {
    /// Starts it with nothing to watch. `state` is the state directory, whose own changes are nobody's trigger.
    #[must_use]
    pub fn start(git: Git, state: &Path, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> Self {
        let (orders, inbox) = mpsc::channel(ORDERS);
        let hub = TriggerHub::new(git, state, clock, signals);
        Self { orders, task: tokio::spawn(run(hub, inbox)) }
    }

    /// Watches these repositories and no others. When it returns, every change from now on is seen, and branches that moved
    /// while nobody watched are signalled. What is watched already goes on without a gap.
    pub async fn watch_only(&self, watched: Vec<WatchedRepo>) {
        self.order(Wanted::Triggers(watched)).await;
    }

    /// Watches these folders besides, and no others. When it returns, every change from now on is seen.
    pub async fn set_folders(&self, folders: Vec<WatchedFolder>) {
        self.order(Wanted::Folders(folders)).await;
    }

    async fn order(&self, wanted: Wanted) {
        let (done, stands) = oneshot::channel();
        if self.orders.send(Order { wanted, done }).await.is_ok() {
            // An answer that never comes means that the task has ended, with its runtime.
            let _ = stands.await;
        }
    }
}

impl Drop for TriggerWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// When the news that came will be looked at.
#[derive(Debug, Clone, Copy)]
struct Burst {
    first: Instant,
    last: Instant,
}

async fn run(mut hub: TriggerHub, mut orders: mpsc::Receiver<Order>) {
    let mut burst: Option<Burst> = None;
    loop {
        let due = burst.map(|burst| (burst.last + SETTLE).min(burst.first + BURST_MAX));
        tokio::select! {
            news = hub.next_events() => {
                if hub.record_events(news) {
                    let now = Instant::now();
                    burst = Some(Burst { first: burst.map_or(now, |burst| burst.first), last: now });
                }
            }
            order = orders.recv() => {
                let Some(Order { wanted, done }) = order else { return };
                let is_whole = match wanted {
                    Wanted::Triggers(watched) => hub.watch_only(watched).await,
                    Wanted::Folders(folders) => hub.set_folders(folders),
                };
                if !is_whole {
                    burst = burst.or_else(later);
                }
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
            () = until(due) => burst = if hub.process_pending().await { None } else { later() },
        }
    }
}

/// A burst that is over when it is time to try again.
fn later() -> Option<Burst> {
    let last = Instant::now() + AGAIN - SETTLE;
    Some(Burst { first: last, last })
}

async fn until(due: Option<Instant>) {
    match due {
        // Nothing ever comes, so that only the time does.
        Some(at) => drop(tokio::time::timeout_at(at, std::future::pending::<()>()).await),
        None => std::future::pending().await,
    }
}

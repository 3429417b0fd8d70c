//! The watch over all repositories: one task that sleeps until the kernel reports events, and combines a burst of
//! events into one pass. [`super::trigger_hub`] processes a pass.

use super::Signals;
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

/// The time without events after which a burst is over: editors write a file in several steps, git moves many.
const SETTLE: Duration = Duration::from_millis(250);
/// A burst that does not end is processed after this time anyway.
const BURST_MAX: Duration = Duration::from_secs(5);
/// Signals that could not be recorded are tried again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// The most queued orders.
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
    /// Starts with nothing to watch. `state` is the state directory; its own changes trigger no loop.
    #[must_use]
    pub fn start(git: Git, state: &Path, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> Self {
        let (orders, inbox) = mpsc::channel(ORDERS);
        let hub = TriggerHub::new(git, state, clock, signals);
        Self { orders, task: tokio::spawn(run(hub, inbox)) }
    }

    /// Watches these repositories and no others. When it returns, every later change is seen, and branches that moved
    /// while nothing watched them are signalled. Repositories that are watched already stay watched without a gap.
    pub async fn watch_only(&self, watched: Vec<WatchedRepo>) {
        self.order(Wanted::Triggers(watched)).await;
    }

    /// Watches these folders additionally, and no others. When it returns, every later change is seen.
    pub async fn set_folders(&self, folders: Vec<WatchedFolder>) {
        self.order(Wanted::Folders(folders)).await;
    }

    async fn order(&self, wanted: Wanted) {
        let (done, stands) = oneshot::channel();
        if self.orders.send(Order { wanted, done }).await.is_ok() {
            // If the sender is dropped, the task has ended with its runtime.
            let _ = stands.await;
        }
    }
}

impl Drop for TriggerWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The first and the last event of a burst, which decide when it is processed.
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
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
            () = until(due) => burst = if hub.process_pending().await { None } else { later() },
        }
    }
}

/// A burst that ends at the time of the next try.
fn later() -> Option<Burst> {
    let last = Instant::now() + AGAIN - SETTLE;
    Some(Burst { first: last, last })
}

async fn until(due: Option<Instant>) {
    match due {
        // The future never completes, so that only the timeout does.
        Some(at) => drop(tokio::time::timeout_at(at, std::future::pending::<()>()).await),
        None => std::future::pending().await,
    }
}

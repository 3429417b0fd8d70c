//! The open connections of a listener: a limited number, of which slow senders cannot hold up a whole request. Listeners
//! accept and answer themselves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;

/// Whether the request of a connection has arrived whole, so that it is being answered.
#[derive(Debug, Clone, Default)]
pub struct RequestProgress(Arc<AtomicBool>);

impl RequestProgress {
    /// The request is here, and its answer is being made.
    pub fn set_whole(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// The answer is made; the next request may follow.
    pub fn set_waiting(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_whole(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The open connections, the oldest first.
#[derive(Debug)]
pub struct ConnectionTable {
    open: VecDeque<(JoinHandle<()>, RequestProgress)>,
    limit: usize,
}

impl ConnectionTable {
    /// A table for at most this many connections.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { open: VecDeque::new(), limit }
    }

    /// Starts the task of a connection. If all places are taken, ends the oldest connection that still sends; if every
    /// request is being answered, waits for the oldest.
    pub async fn start<F>(&mut self, task: impl FnOnce(RequestProgress) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.make_room().await;
        let progress = RequestProgress::default();
        self.open.push_back((tokio::spawn(task(progress.clone())), progress));
    }

    async fn make_room(&mut self) {
        self.open.retain(|(task, _)| !task.is_finished());
        if self.open.len() < self.limit {
            return;
        }
        let sending = self.open.iter().position(|(_, progress)| !progress.is_whole());
        match sending.and_then(|at| self.open.remove(at)) {
            Some((oldest, _)) => oldest.abort(),
            None => {
                if let Some((oldest, _)) = self.open.pop_front() {
                    // A panic of one connection affects no other.
                    let _ = oldest.await;
                }
            }
        }
    }
}

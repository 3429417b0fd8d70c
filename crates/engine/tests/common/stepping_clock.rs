//! A clock that moves when it is read.

use loopwright::BoxFuture;
use loopwright::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that moves one step each time it is read, for repeatable transcripts.
#[derive(Debug, Clone)]
pub(crate) struct SteppingClock {
    next: Arc<AtomicI64>,
    step_ms: i64,
}

impl SteppingClock {
    /// A clock that starts at a moment and advances by a step.
    #[must_use]
    pub(crate) fn new(start_ms: i64, step_ms: i64) -> Self {
        Self { next: Arc::new(AtomicI64::new(start_ms)), step_ms }
    }
}

impl Clock for SteppingClock {
    fn now_ms(&self) -> i64 {
        self.next.fetch_add(self.step_ms, Ordering::SeqCst)
    }

    /// Jumps to the moment.
    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        self.next.fetch_max(at_ms, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

//! A switch that is thrown once and seen by everybody who holds a clone. Says nothing about why.

use std::sync::Arc;
use tokio::sync::watch;

/// A cloneable request to stop; once cancelled it stays cancelled.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    /// A switch that has not been thrown.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Throws the switch; every present and future `cancelled()` returns.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether the switch was thrown.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the switch is thrown, at once if it already was.
    pub async fn cancelled(&self) {
        let mut seen = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = seen.wait_for(|thrown| *thrown).await;
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

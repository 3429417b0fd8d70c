//! A switch that is thrown once and seen by everybody who holds a clone; whoever throws it may say why.

use std::sync::Arc;
use tokio::sync::watch;

/// A cloneable request to stop; once cancelled it stays cancelled.
#[derive(Clone, Debug)]
pub struct CancelToken(Arc<watch::Sender<CancelState>>);

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CancelState {
    Not,
    Yes(Option<Arc<str>>),
}

impl CancelToken {
    /// A switch that has not been thrown.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(CancelState::Not)))
    }

    /// Throws the switch; every present and future `cancelled()` returns.
    pub fn cancel(&self) {
        self.throw(None);
    }

    /// The same by somebody who says why. What was said first stays.
    pub fn cancel_because(&self, why: &str) {
        self.throw(Some(why.into()));
    }

    fn throw(&self, why: Option<Arc<str>>) {
        self.0.send_if_modified(|thrown| {
            let is_first = *thrown == CancelState::Not;
            if is_first {
                *thrown = CancelState::Yes(why);
            }
            is_first
        });
    }

    /// Why the switch was thrown, where somebody said it.
    pub fn why(&self) -> Option<Arc<str>> {
        match &*self.0.borrow() {
            CancelState::Not => None,
            CancelState::Yes(why) => why.clone(),
        }
    }

    /// Whether the switch was thrown.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() != CancelState::Not
    }

    /// Returns when the switch is thrown, at once if it already was.
    pub async fn cancelled(&self) {
        let mut seen = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = seen.wait_for(|thrown| *thrown != CancelState::Not).await;
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

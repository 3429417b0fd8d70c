//! A cancellation switch that all holders of a clone observe; the canceller may give a reason.

use std::sync::Arc;
use tokio::sync::watch;

/// A cloneable request to stop; once cancelled it stays cancelled.
#[derive(Clone, Debug)]
pub struct CancelToken(Arc<watch::Sender<CancelState>>);

/// The state of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CancelState {
    Not,
    Yes(Option<Arc<str>>),
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(CancelState::Not)))
    }

    /// Cancels; every present and future `cancelled()` returns.
    pub fn cancel(&self) {
        self.throw(None);
    }

    /// Cancels with a reason. The first reason stays.
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

    /// The reason of the cancellation, if one was given.
    pub fn why(&self) -> Option<Arc<str>> {
        match &*self.0.borrow() {
            CancelState::Not => None,
            CancelState::Yes(why) => why.clone(),
        }
    }

    /// Whether the token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() != CancelState::Not
    }

    /// Returns when the token is cancelled, at once if it already is.
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

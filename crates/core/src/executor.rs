//! Action executors: an embedder's code that performs approved actions. The engine's own outputs go through the outbox
//! ([`crate::deliver`]); executors perform all other actions.

use crate::BoxFuture;
use crate::human_gate::ProposedAction;
use crate::spec::LoopSpec;
use serde::{Deserialize, Serialize};

/// The effect that an executor reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionReceipt {
    /// The action's kind.
    pub kind: String,
    /// One line for people.
    pub summary: String,
}

/// The reason why an executor did nothing, or not everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The action failed and had no effect; it may be tried again with the same key.
    #[error("action failed: {0}")]
    Exec(String),
    /// The executor refuses this action; do not retry.
    #[error("action refused: {0}")]
    Refused(String),
    /// It is not known whether the action took effect; a person must check.
    #[error("action in doubt: {0}")]
    InDoubt(String),
}

/// Performs an approved action.
///
/// The `key` identifies the action: all attempts at it share the key, and no other action has it. The engine retries an
/// attempt that ended with [`Exec`](ActionError::Exec), at most three times. An engine that crashed during a call does
/// not call again, because it cannot know whether the action took effect: the action is in doubt and a person must
/// check.
pub trait ActionExecutor: Send + Sync {
    /// Performs one action of a loop.
    fn execute<'a>(
        &'a self,
        spec: &'a LoopSpec,
        action: &'a ProposedAction,
        key: &'a str,
    ) -> BoxFuture<'a, Result<ActionReceipt, ActionError>>;
}

/// Does nothing and reports that; the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApprovalOnlyExecutor;

impl ActionExecutor for ApprovalOnlyExecutor {
    fn execute<'a>(
        &'a self,
        _spec: &'a LoopSpec,
        action: &'a ProposedAction,
        _key: &'a str,
    ) -> BoxFuture<'a, Result<ActionReceipt, ActionError>> {
        let summary = "no external action executor configured".to_owned();
        let receipt = ActionReceipt { kind: action.kind.clone(), summary };
        Box::pin(std::future::ready(Ok(receipt)))
    }
}

/// An executor made from a function.
#[derive(Debug, Clone, Copy)]
pub struct CallbackActionExecutor<F>(pub F);

impl<F> ActionExecutor for CallbackActionExecutor<F>
where
    F: Fn(&LoopSpec, &ProposedAction, &str) -> Result<ActionReceipt, ActionError> + Send + Sync,
{
    fn execute<'a>(
        &'a self,
        spec: &'a LoopSpec,
        action: &'a ProposedAction,
        key: &'a str,
    ) -> BoxFuture<'a, Result<ActionReceipt, ActionError>> {
        Box::pin(async move { (self.0)(spec, action, key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LoopLevel;
    use std::task::{Context, Poll, Waker};

    fn now<T>(mut future: BoxFuture<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the future waits for nothing"),
        }
    }

    #[test]
    fn approval_only_executor_reports_that_it_has_no_effect() {
        let spec = LoopSpec::new("hello", "say hello", LoopLevel::L2Assisted);
        let action = ProposedAction::new("deploy", "ship it", true);
        let receipt = now(ApprovalOnlyExecutor.execute(&spec, &action, "k1")).expect("it cannot fail");
        assert_eq!(receipt.kind, "deploy");
        assert_eq!(receipt.summary, "no external action executor configured");
    }

    #[test]
    fn callback_receives_the_idempotency_key() {
        let spec = LoopSpec::new("hello", "say hello", LoopLevel::L2Assisted);
        let action = ProposedAction::new("deploy", "ship it", true);
        let executor = CallbackActionExecutor(|spec: &LoopSpec, action: &ProposedAction, key: &str| match key {
            "k1" => Ok(ActionReceipt { kind: action.kind.clone(), summary: spec.name.clone() }),
            _ => Err(ActionError::Exec("unknown key".to_owned())),
        });
        assert_eq!(now(executor.execute(&spec, &action, "k1")).expect("the key is known").summary, "hello");
        let error = now(executor.execute(&spec, &action, "k2")).expect_err("the key is unknown");
        assert_eq!(error.to_string(), "action failed: unknown key");
    }
}

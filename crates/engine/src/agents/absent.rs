//! An agent that is not available. It takes the place of a missing one, so that the round ends as failed with the
//! reason.

use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{CancelToken, ProcessRunner, StartedProcess};
use loopwright_core::BoxFuture;

/// An agent whose every start fails with the reason.
#[derive(Debug, Clone)]
pub struct AbsentAgent {
    name: String,
    what: String,
    hint: String,
}

impl AbsentAgent {
    /// An absent agent with this name; `what` is missing, and `hint` is the fix.
    #[must_use]
    pub fn new(name: &str, what: &str, hint: &str) -> Self {
        Self { name: name.to_owned(), what: what.to_owned(), hint: hint.to_owned() }
    }
}

impl Agent for AbsentAgent {
    fn name(&self) -> &str {
        &self.name
    }

    /// It starts nothing, so nothing of it runs outside the sandbox.
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { confined: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        _: &'a AgentInvocation,
        _: &'a ProcessRunner,
        _: &'a mut dyn AgentLog,
        _: &'a CancelToken,
        _: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        let error = AgentError::Unavailable { what: self.what.clone(), hint: self.hint.clone() };
        Box::pin(std::future::ready(Err(error)))
    }
}

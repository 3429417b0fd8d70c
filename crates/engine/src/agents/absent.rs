//! An agent that is not to be had. It stands where one is missed, so that a round ends as failed and says why.

use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{CancelToken, ProcessRunner, StartedProcess};
use loopwright_core::BoxFuture;

/// Every start of it fails with the reason.
#[derive(Debug, Clone)]
pub struct AbsentAgent {
    name: String,
    what: String,
    hint: String,
}

impl AbsentAgent {
    /// Under this name; what is missing, and what to do about it.
    #[must_use]
    pub fn new(name: &str, what: &str, hint: &str) -> Self {
        Self { name: name.to_owned(), what: what.to_owned(), hint: hint.to_owned() }
    }
}

impl Agent for AbsentAgent {
    fn name(&self) -> &str {
        &self.name
    }

    /// It starts nothing, so nothing of it is outside the walls.
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

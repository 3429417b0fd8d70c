//! An agent that is not to be had. It stands where one is missed, so that a round ends as failed and says why.

use super::{Agent, AgentError, AgentLog, AgentOutcome, Capabilities, Invocation};
use crate::proc::{Cancel, Proc, Started};
use loopwright_core::BoxFuture;

/// Every start of it fails with the reason.
#[derive(Debug, Clone)]
pub struct Absent {
    name: String,
    what: String,
    hint: String,
}

impl Absent {
    /// Under this name; what is missing, and what to do about it.
    #[must_use]
    pub fn new(name: &str, what: &str, hint: &str) -> Self {
        Self { name: name.to_owned(), what: what.to_owned(), hint: hint.to_owned() }
    }
}

impl Agent for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    /// It starts nothing, so nothing of it is outside the walls.
    fn capabilities(&self) -> Capabilities {
        Capabilities { confined: true, ..Capabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        _: &'a Invocation,
        _: &'a Proc,
        _: &'a mut dyn AgentLog,
        _: &'a Cancel,
        _: &'a mut (dyn FnMut(&Started) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        let error = AgentError::Unavailable { what: self.what.clone(), hint: self.hint.clone() };
        Box::pin(std::future::ready(Err(error)))
    }
}

//! Why an agent could not start. The behaviour of a started agent is an outcome, never an error.

use crate::proc::{SpawnError, SpawnErrorKind};

/// An agent that did not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program is not on this host.
    #[error("agent program `{program}` not found; `loopwright doctor` shows how to install it")]
    NotFound {
        /// The requested program.
        program: String,
        /// The fix.
        hint: String,
    },
    /// Nothing was started, because the agent is unavailable.
    #[error("{what}")]
    Unavailable {
        /// The unavailable thing.
        what: String,
        /// The fix; may be empty.
        hint: String,
    },
    /// Loopwright or its environment failed.
    #[error("{what}")]
    Failed {
        /// The failure.
        what: String,
        /// The fix; may be empty.
        hint: String,
    },
    /// A script has no block left for this start.
    #[error("script exhausted: no block is left for the {who}")]
    Exhausted {
        /// The role and its attempt.
        who: String,
        /// The fix.
        hint: String,
    },
    /// A script that cannot be read.
    #[error("script line {line}: {text}")]
    Script {
        /// The line, from 1.
        line: usize,
        /// The problem with it.
        text: String,
    },
}

impl AgentError {
    /// A failure with a hint.
    pub(crate) fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: hint.into() }
    }

    /// The fix, if it is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotFound { hint, .. }
            | Self::Unavailable { hint, .. }
            | Self::Failed { hint, .. }
            | Self::Exhausted { hint, .. } => Some(hint.as_str()).filter(|hint| !hint.is_empty()),
            Self::Script { .. } => None,
        }
    }
}

impl From<SpawnError> for AgentError {
    fn from(error: SpawnError) -> Self {
        let program = error.program.display().to_string();
        match &error.kind {
            SpawnErrorKind::NotFound => Self::NotFound {
                hint: format!("install `{program}`, or name another agent under `agents:` in the loop file"),
                program,
            },
            SpawnErrorKind::NotExecutable => {
                Self::failed(error.to_string(), format!("make `{program}` executable in the repository (chmod +x)"))
            }
            // Nothing was started, so nothing was used.
            SpawnErrorKind::Boundary => Self::Unavailable {
                what: error.to_string(),
                hint: "`loopwright doctor` checks every part of the sandbox".to_owned(),
            },
            SpawnErrorKind::Cwd | SpawnErrorKind::Resources | SpawnErrorKind::Other => {
                Self::failed(error.to_string(), "")
            }
        }
    }
}

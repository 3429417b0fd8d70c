//! Why an agent could not play its role at all. What a started agent does is an outcome, never an error.

use crate::proc::{SpawnError, SpawnErrorKind};

/// An agent that did not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program is not on this host.
    #[error("agent program `{program}` not found")]
    NotFound {
        /// The program that was asked for.
        program: String,
        /// What to do about it.
        hint: String,
    },
    /// Nothing was started, because there is nothing that could be.
    #[error("{what}")]
    Unavailable {
        /// What is not to be had.
        what: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// We or the world broke.
    #[error("{what}")]
    Failed {
        /// What went wrong.
        what: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// A script has no block left for this start.
    #[error("script exhausted: no block is left for the {who}")]
    Exhausted {
        /// For whom.
        who: String,
        /// What to do about it.
        hint: String,
    },
    /// A script that cannot be read.
    #[error("script line {line}: {text}")]
    Script {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        text: String,
    },
}

impl AgentError {
    /// A failure with advice.
    pub(crate) fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: hint.into() }
    }

    /// What to do about it, where that is known.
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
            SpawnErrorKind::Boundary => {
                Self::Unavailable { what: error.to_string(), hint: "`loopwright doctor` tries every wall".to_owned() }
            }
            SpawnErrorKind::Cwd | SpawnErrorKind::Resources | SpawnErrorKind::Other => {
                Self::failed(error.to_string(), "")
            }
        }
    }
}

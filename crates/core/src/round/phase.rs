//! Where a round stands. A phase carries proof of what came before: a round cannot be checking without the gates' token,
//! nor sending without an approval.

use super::approve::Approved;
use super::check::Verified;
use super::event::Stage;
use super::gate::Passed;
use super::trouble::Due;
use crate::outcome::RoundOutcome;

/// Where a round stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Reading what the loop remembers.
    Recalling,
    /// Asking whether there is work.
    Probing,
    /// Making the workspace.
    Isolating,
    /// Running gates on base.
    Baselining,
    /// Waiting for a maker.
    Making(AgentRun),
    /// Waiting for a provider, until a moment in milliseconds since 1970.
    Held(Due, i64),
    /// At rest with its work kept, by a provider or a ceiling; a person may let it go on.
    Suspended(RoundOutcome, Due),
    /// Freezing the candidate.
    Sealing,
    /// Running gates on the candidate.
    Gating,
    /// Waiting for a checker.
    Checking(Passed, AgentRun),
    /// Asking the human gate of the level.
    Approving(Verified),
    /// Waiting for a person.
    Waiting(Verified),
    /// Delivering.
    Sending(Approved),
    /// Waiting for a person to say whether something arrived.
    Doubting(Approved),
    /// Writing the report.
    Recording(RoundOutcome),
    /// Over.
    Ended(RoundOutcome),
}

/// Whether an agent was started in this phase: a started maker is never started again after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentRun {
    /// Not yet.
    Due,
    /// Its start is on record.
    Started,
    /// The last start of this attempt was kept from its work; another is due on what it left.
    Again,
}

impl Phase {
    /// The stage this phase belongs to.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Recalling => Stage::Recall,
            Self::Probing => Stage::Probe,
            Self::Isolating | Self::Baselining => Stage::Isolate,
            Self::Making(_) => Stage::Make,
            Self::Held(due, _) | Self::Suspended(_, due) => due.stage(),
            Self::Sealing => Stage::Seal,
            Self::Gating => Stage::Gate,
            Self::Checking(..) => Stage::Check,
            Self::Approving(_) | Self::Waiting(_) => Stage::Approve,
            Self::Sending(_) | Self::Doubting(_) => Stage::Send,
            Self::Recording(_) | Self::Ended(_) => Stage::Record,
        }
    }

    /// The word shown in lists.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting(_) | Self::Doubting(_) => "waiting",
            Self::Held(..) => "held",
            Self::Suspended(..) => "suspended",
            Self::Ended(_) => "ended",
            Self::Recalling
            | Self::Probing
            | Self::Isolating
            | Self::Baselining
            | Self::Making(_)
            | Self::Sealing
            | Self::Gating
            | Self::Checking(..)
            | Self::Approving(_)
            | Self::Sending(_)
            | Self::Recording(_) => self.stage().word(),
        }
    }
}

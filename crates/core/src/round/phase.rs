//! The phase of a round. A phase carries proof of the earlier ones: a round cannot be checking without the token of
//! gates, proof and attack, nor sending without an approval.

use super::approve::ApprovedCandidate;
use super::attack::PassedCandidate;
use super::check::VerifiedCandidate;
use super::event::Stage;
use super::gate::GatedCandidate;
use super::prove::ProvenCandidate;
use super::provider_waits::ResumePoint;
use crate::outcome::RoundOutcome;

/// The phase of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Reading the loop's memory.
    Recalling,
    /// Asking whether there is work.
    Probing,
    /// Making the workspace.
    Isolating,
    /// Running gates on base.
    Baselining,
    /// Waiting for a planner.
    Planning(AgentRun),
    /// Waiting for a maker.
    Making(AgentRun),
    /// Waiting for a provider, until a moment in milliseconds since 1970.
    Held(ResumePoint, i64),
    /// Suspended by a provider or a ceiling, with its work kept; a person may resume it.
    Suspended(RoundOutcome, ResumePoint),
    /// Planting a known-bad change for a calibration.
    Planting,
    /// Running gates on a planted change; carries no proof.
    PlantGating,
    /// Waiting for a checker's answer to a planted change; carries no proof, so nothing can be sent from here.
    Calibrating(AgentRun),
    /// Freezing the candidate.
    Sealing,
    /// Running gates on the candidate.
    Gating,
    /// Exercising the application.
    Proving(GatedCandidate),
    /// Waiting for attackers.
    Attacking(ProvenCandidate),
    /// Running the reproductions of findings.
    Reproducing(ProvenCandidate),
    /// Waiting for a checker.
    Checking(PassedCandidate, AgentRun),
    /// Asking the human gate of the level.
    Approving(VerifiedCandidate),
    /// Waiting for a person.
    Waiting(VerifiedCandidate),
    /// Delivering.
    Sending(ApprovedCandidate),
    /// Waiting for a person to state whether a delivery arrived.
    Doubting(ApprovedCandidate),
    /// Writing the report.
    Recording(RoundOutcome),
    /// Over.
    Ended(RoundOutcome),
}

/// Whether an agent was started in this phase. A started maker is never started again after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentRun {
    /// Not yet.
    Due,
    /// Its start is on record.
    Started,
    /// A provider blocked the last start of this attempt; another start continues from its files.
    Again,
    /// The last phase is sealed; a start for the next phase of the same attempt is due.
    NextPhase,
}

impl Phase {
    /// The stage this phase belongs to.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Recalling => Stage::Recall,
            Self::Probing => Stage::Probe,
            Self::Isolating | Self::Baselining => Stage::Isolate,
            Self::Planning(_) => Stage::Plan,
            Self::Making(_) => Stage::Make,
            Self::Held(due, _) | Self::Suspended(_, due) => due.stage(),
            Self::Planting | Self::Sealing => Stage::Seal,
            Self::PlantGating | Self::Gating => Stage::Gate,
            Self::Proving(_) => Stage::Prove,
            Self::Attacking(_) | Self::Reproducing(_) => Stage::Attack,
            Self::Calibrating(_) | Self::Checking(..) => Stage::Check,
            Self::Approving(_) | Self::Waiting(_) => Stage::Approve,
            Self::Sending(_) | Self::Doubting(_) => Stage::Send,
            Self::Recording(_) | Self::Ended(_) => Stage::Record,
        }
    }

    /// Its name in records and lists.
    #[must_use]
    pub fn name(&self) -> RoundPhase {
        match self {
            Self::Waiting(_) | Self::Doubting(_) => RoundPhase::Waiting,
            Self::Held(..) => RoundPhase::Held,
            Self::Suspended(..) => RoundPhase::Suspended,
            Self::Ended(_) => RoundPhase::Ended,
            // `stage` lists every phase, so a new one is never forgotten there.
            _ => RoundPhase::At(self.stage()),
        }
    }

    /// The word shown in lists.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.name().word()
    }
}

/// The name of a phase, as stored and listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundPhase {
    /// A stage is running.
    At(Stage),
    /// It waits for a provider and continues by itself.
    Held,
    /// It waits for a person.
    Waiting,
    /// It is suspended with its work kept.
    Suspended,
    /// It is over.
    Ended,
}

impl RoundPhase {
    /// Whether nothing more happens by itself: the round has ended, is suspended, or waits for a person. This is the
    /// one definition; a round at rest has no lease.
    #[must_use]
    pub fn is_at_rest(self) -> bool {
        matches!(self, Self::Waiting | Self::Suspended | Self::Ended)
    }

    /// The phase as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::At(stage) => stage.word(),
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
        }
    }

    /// Parses the word of a phase.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let named = [Self::Held, Self::Waiting, Self::Suspended, Self::Ended];
        let all = Stage::ALL.into_iter().map(Self::At).chain(named);
        all.into_iter().find(|phase| phase.word() == word)
    }
}

impl std::fmt::Display for RoundPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_phase_reads_back() {
        let named = [RoundPhase::Held, RoundPhase::Waiting, RoundPhase::Suspended, RoundPhase::Ended];
        for phase in Stage::ALL.into_iter().map(RoundPhase::At).chain(named) {
            assert_eq!(RoundPhase::parse(phase.word()), Some(phase));
        }
        assert_eq!(RoundPhase::parse("resting"), None);
    }
}

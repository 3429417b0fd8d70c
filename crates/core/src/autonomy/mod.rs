//! Earned autonomy: the evidence about a loop's work, the level that the evidence supports, and the two debts.
//!
//! Everything here is a pure function over counted facts. The engine counts and writes; `docs/levels.md` describes the
//! rules for users.

mod debts;
mod policy;
mod track_record;

pub use debts::{ComprehensionDebt, IntentConfirmation, IntentDebt, IntentFingerprint, LoopDebts};
pub use policy::{
    AutonomyRules, Demotion, DemotionCause, LevelCeiling, LevelHistory, PromotionProposal, Requirement, demotion,
    level_ceiling, next_level, propose,
};
pub use track_record::{CatchRate, KindRecord, TrackRecord, WorkDecision, WorkFact, WorkFate};

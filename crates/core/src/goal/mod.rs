//! Goals: the text and the contract with which a person states the end of some work. This module decides, reads and
//! writes text; it starts nothing. A goal that runs is an ordinary loop.

mod contract;
mod draft;
mod export;
mod length;

pub use contract::{CriterionProof, GoalContract, GoalCriterion, read_goal_file};
pub use draft::{CriterionDraft, GateDraft, GoalDraft, MissingAnswer};
pub use export::{ExportedGoal, export_goal};
pub use length::{GoalLengthCheck, GoalLengthLimits, GoalLengthLimitsError, GoalLengthVerdict};

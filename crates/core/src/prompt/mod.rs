//! The briefs of the roles, made from data: the same data gives the same bytes.
//!
//! A brief begins with the fixed text, then the loop's text, then the data of this round, so that the prefix can be
//! cached. Text of others is fenced with the round's mark, limited in size per source, and shown without invisible
//! characters. A brief only asks: the engine enforces levels, gates and the outbox.

mod attacker;
mod checker;
mod clean;
mod maker;
mod planner;
mod read;
mod steers;
mod texts;

pub use attacker::AttackerBrief;
pub use checker::{CheckerBrief, FileDiff, GateEvidence};
pub use clean::{clip, visible};
pub use maker::{AttemptStart, BriefFeedback, BriefPlan, MakerBrief, WorkItem};
pub use planner::PlannerBrief;
pub use read::{ROLE_LINE, VerdictBinding, read_binding, read_diff_line, read_item_line, read_role, role_line};
pub use texts::{BriefText, OWN_MAX, VerdictChannel};

/// A text with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedText {
    /// A file's or an item's name.
    pub name: String,
    /// Its content.
    pub text: String,
}
pub use steers::with_steers;

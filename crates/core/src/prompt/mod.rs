//! What roles are told: the briefs, made from data, byte for byte the same for the same data.
//!
//! A brief begins with what never changes, then says what the loop says, then what this round brings, so that the same
//! prefix can be cached. Text that others wrote is fenced with the round's mark, bounded per source, and shown without
//! invisible characters. A brief asks; it enforces nothing: levels, gates and the outbox are enforced by the engine.

mod checker;
mod clean;
mod maker;
mod read;
mod texts;

pub use checker::{CheckerBrief, FileDiff, GateEvidence};
pub use clean::{clip, visible};
pub use maker::{AttemptStart, BriefFeedback, MakerBrief, WorkItem};
pub use read::{ROLE_LINE, VerdictBinding, read_binding, read_diff_line, read_item_line, read_role, role_line};
pub use texts::{BriefText, OWN_MAX, VerdictChannel};

/// A text with the name it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedText {
    /// A file's or an item's name.
    pub name: String,
    /// What it says.
    pub text: String,
}

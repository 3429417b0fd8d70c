//! The checker's judgement: the strict reading of its file, and the rules that turn a reading into a decision.
//!
//! Pure: the bytes come from the engine, and citations are looked up through [`Resolve`]. Whatever is missing, late,
//! malformed, duplicate or conflicting is never a pass; only [`judge`] can say [`Judgement::Pass`].

mod answer;
mod file;
mod judge;
mod rubric;
mod schema;

pub use answer::in_answer;
pub use file::{BYTES_MAX, Evidence, Malformed, Score, VerdictFile, VerdictWord};
pub use judge::{Cited, Counts, Expected, Judgement, Resolve, Resolved, Scored, ScoredDimension, judge};
pub use rubric::{TreeChange, dimensions};
pub use schema::schema;

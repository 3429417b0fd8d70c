//! The checker's judgement: the strict reading of its file, and the rules that turn a reading into a decision.
//!
//! Pure: the bytes come from the engine, and citations are looked up through [`CitationResolver`]. Whatever is missing, late,
//! malformed, duplicate or conflicting is never a pass; only [`judge`] can say [`Judgement::ProviderGrant`].

mod answer;
mod file;
mod judge;
mod rubric;
mod schema;

pub use answer::find_verdict;
pub use file::{BYTES_MAX, DimensionScore, MalformedVerdict, VerdictCitation, VerdictFile, VerdictWord};
pub use judge::{
    CitationMatch, CitationResolver, Judgement, ResolvedCitation, ScoreCounts, ScoredDimension, ScoredVerdict,
    VerdictExpectation, judge,
};
pub use rubric::{TreeChange, dimensions};
pub use schema::schema;

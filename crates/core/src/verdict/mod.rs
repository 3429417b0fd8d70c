//! The checker's judgement: the strict parser of its file, and the rules that turn it into a decision.
//!
//! Pure: the engine supplies the bytes, and citations are looked up through [`CitationResolver`]. A verdict that is
//! missing, late, malformed, duplicate or conflicting is never a pass; only [`judge`] returns [`Judgement::Pass`].

mod answer;
mod file;
mod judge;
mod schema;

pub use answer::find_verdict;
pub use file::{BYTES_MAX, DimensionScore, MalformedVerdict, VerdictCitation, VerdictFile, VerdictWord};
pub use judge::{
    CitationMatch, CitationResolver, Judgement, ResolvedCitation, ScoreCounts, ScoredDimension, ScoredVerdict,
    TreeChange, VerdictExpectation, dimensions, judge,
};
pub use schema::schema;

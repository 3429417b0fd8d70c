//! Counting what models' answers cost while they pass: by the provider's own figures, in bounded memory, and without holding a
//! byte back. [docs/design/0008](../../../../../docs/design/0008-usage-counted-in-the-proxy.md) says what the count is for.

mod answer;
mod document;
mod fields;
mod splitter;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use answer::AnswerUsage;
pub(crate) use splitter::Form;
pub(crate) use tally::{RequestRefusal, UsageBounds, UsageCount, UsageTally};

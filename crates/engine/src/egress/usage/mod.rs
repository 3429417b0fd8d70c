//! Counts the usage of models' answers as they pass: by the provider's own figures, in bounded memory, and without
//! delaying a byte. [docs/design/0008](../../../../../docs/design/0008-usage-counted-in-the-proxy.md) explains the
//! purpose of the count.

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

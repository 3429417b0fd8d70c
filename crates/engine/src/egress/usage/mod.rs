//! Counts the usage of models' answers as they pass: by the provider's own figures, in bounded memory, and without
//! delaying a byte. [docs/design/0008](../../../../../docs/design/0008-usage-counted-in-the-proxy.md) explains the
//! purpose of the count.

mod answer;
mod answer_shape;
mod document;
mod fields;
mod frames;
mod request_copy;
mod splitter;
mod stop_fields;
mod tally;
#[cfg(test)]
mod tests;
mod text_bytes;

pub(crate) use answer::AnswerUsage;
pub(crate) use request_copy::RequestCopy;
pub(crate) use splitter::Form;
pub(crate) use tally::{RequestRefusal, UsageBounds, UsageCount, UsageTally};

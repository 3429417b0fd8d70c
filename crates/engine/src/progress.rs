//! What a round tells while it runs. For people's eyes only: nothing is decided from it and losing it loses nothing.

use crate::sink::SinkError;
use loopwright_core::gate::GateResult;
use loopwright_core::round::{Round, Stage};
use loopwright_core::spec::Role;

/// One thing worth showing.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A stage begins.
    Stage {
        /// Which.
        stage: Stage,
        /// What it is about.
        text: String,
    },
    /// An agent wrote a line.
    Agent {
        /// In which role.
        role: Role,
        /// The line, without control characters.
        line: &'a str,
    },
    /// A gate ended.
    Gate(&'a GateResult),
    /// The round moved.
    Moved(&'a Round),
    /// The round waits for a provider; told once a wait.
    Waits {
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
        /// What the provider said.
        why: &'a str,
    },
    /// A sink did not take a report; the round is at rest and on record all the same.
    SinkFailed {
        /// The round whose report it was.
        round: &'a str,
        /// What the sink said.
        error: &'a SinkError,
    },
}

/// Watches a round.
pub trait Progress: Send + Sync {
    /// Called for each notice, in order. It must not block.
    fn notice(&self, notice: &Notice<'_>);
}

/// Watches nothing.
impl Progress for () {
    fn notice(&self, _: &Notice<'_>) {}
}

//! What makes a loop due, as declared. When that is, is the scheduler's business.

use super::Argv;
use crate::units::Span;
use schemars::JsonSchema;
use serde::Serialize;

/// The `on:` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Triggers {
    /// Fixed intervals, a grid anchored at 1970-01-01T00:00Z.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub every: Vec<Span>,
    /// Five-field cron lines: names, ranges, steps, `L`, `LW`, `15W`, `mon#2`, `friL`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    /// Times of day, `08:00` or `08:00,17:30`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub daily: Vec<String>,
    /// Weekdays and times, `mon 09:30` or `mon,wed 09:30,17:00`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weekly: Vec<String>,
    /// Inbound events, such as `github.workflow_run`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub webhook: Vec<String>,
    /// Branches whose movement counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub push: Vec<String>,
    /// Globs of files whose change counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The free question "is there work?".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeSpec>,
    /// Loops whose outcome makes this one due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// IANA zone of the built-in database; the system's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What happens to missed occurrences.
    #[serde(skip_serializing_if = "super::is_default")]
    pub catch_up: CatchUp,
    /// What happens when a round is still running.
    #[serde(skip_serializing_if = "super::is_default")]
    pub overlap: Overlap,
    /// Most random delay, stable per loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Hours in which nothing starts, `22:00-06:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// Nothing is due before this moment, or this day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Nothing is due after this moment, or after this day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl Triggers {
    /// Whether the loop starts by hand only.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What branches of this program's own making begin with; what happens on them makes no loop due.
pub const OWN_BRANCHES: [&str; 2] = ["loop/", "take/"];

/// What happens to missed occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CatchUp {
    /// They are dropped.
    Skip,
    /// They become one.
    #[default]
    Once,
    /// At most so many are made up.
    All(u32),
}

/// What happens when the loop is due while a round of it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The new occurrence is skipped.
    #[default]
    Skip,
    /// One waits.
    Queue,
    /// The running round is cancelled.
    Cancel,
}

/// A probe: a command, or a built-in by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ProbeSpec {
    /// A built-in probe, such as `open-prs`.
    Named(String),
    /// A command.
    Run {
        /// The command.
        run: Argv,
        /// What its output means.
        items: ItemsForm,
        /// How many items one round takes.
        batch: u32,
    },
}

/// How a probe's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ItemsForm {
    /// Not at all.
    #[default]
    None,
    /// A key a line.
    Lines,
    /// A list of `{key, title?, data?}`.
    Json,
}

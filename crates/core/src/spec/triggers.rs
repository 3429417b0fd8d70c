//! The triggers of a loop, as declared. The scheduler decides when the loop is due.

use super::Argv;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `on:` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Triggers {
    /// Fixed intervals, a grid anchored at 1970-01-01T00:00Z.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub every: Vec<TimeSpan>,
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
    /// Branches whose new commits make the loop due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub push: Vec<String>,
    /// Globs of files whose changes make the loop due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A free check for work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeSpec>,
    /// Loops whose outcome makes this one due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// IANA zone of the built-in database; the system's zone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// How missed occurrences are handled.
    #[serde(skip_serializing_if = "super::is_default")]
    pub catch_up: CatchUp,
    /// How late an occurrence may start and still count as on time; one minute if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<TimeSpan>,
    /// How an occurrence is handled while a round is still running.
    #[serde(skip_serializing_if = "super::is_default")]
    pub overlap: Overlap,
    /// The maximum of a random delay that is stable for each loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<TimeSpan>,
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
    /// How many items one round takes, from the probe or from events.
    #[must_use]
    pub fn batch(&self) -> usize {
        match &self.probe {
            Some(ProbeSpec::Run { batch, .. }) => usize::try_from(*batch).unwrap_or(usize::MAX).max(1),
            Some(ProbeSpec::Ask(ask)) => usize::try_from(ask.batch).unwrap_or(usize::MAX).max(1),
            Some(ProbeSpec::Named(_)) | None => 1,
        }
    }
}

/// The prefixes of branches that Loopwright creates; changes on them make no loop due.
pub const OWN_BRANCHES: [&str; 2] = ["loop/", "take/"];

/// How missed occurrences are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CatchUp {
    /// They are dropped.
    Skip,
    /// They become one occurrence.
    #[default]
    Once,
    /// At most this many are caught up.
    All(u32),
}

/// How an occurrence is handled while a round of the loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The new occurrence is skipped.
    #[default]
    Skip,
    /// One occurrence waits.
    Queue,
    /// The running round is cancelled.
    Cancel,
}

/// A probe: a command, or a built-in by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProbeSpec {
    /// A built-in probe, such as `open-prs`.
    Named(String),
    /// A built-in probe with a query: `{ use: open-issues, labels: [bug] }`.
    Ask(Box<Ask>),
    /// A command.
    Run {
        /// The command.
        run: Argv,
        /// How its output is read.
        items: ItemsForm,
        /// How many items one round takes.
        batch: u32,
    },
}

/// A built-in probe and a filter for its results. Each probe supports some of these keys; a list matches any of its
/// words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The probe, such as `open-issues`.
    #[serde(rename = "use")]
    pub probe: String,
    /// `open-prs`, `open-issues`: every one of these labels is on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// `open-prs`, `open-issues`: none of these labels is on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_labels: Vec<String>,
    /// `open-prs`, `open-issues`: one of these people wrote it; the author of a loop's item is the loop's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub author: Vec<String>,
    /// `open-prs`, `open-issues`: this account is assigned to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// `open-prs`, `open-issues`: its text mentions this account, `@name`, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mention: Option<String>,
    /// `open-prs`, `open-issues`: its title or text contains this, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `commits`, `files`: the branch to check, instead of base. `open-prs`: the target branch. `failing-ci`: the
    /// branch whose last commit was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `files`: the globs, instead of those of `on.files`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// `failing-ci`: globs of the checks' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// `outdated`: globs of the packages' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// `open-prs`: pull requests that loops opened are followed. Each failed check and each comment of a person on one
    /// is an item, and nothing else of it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_own: bool,
    /// How many items one round takes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub batch: u32,
}

fn one() -> u32 {
    1
}

fn is_one(batch: &u32) -> bool {
    *batch == 1
}

impl Ask {
    /// Every key of a query except `use`.
    pub const KEYS: [&str; 12] = [
        "labels",
        "not_labels",
        "author",
        "assignee",
        "mention",
        "text",
        "branch",
        "paths",
        "checks",
        "packages",
        "follow_own",
        "batch",
    ];

    /// A built-in probe without a query.
    #[must_use]
    pub fn new(probe: &str) -> Self {
        Self { probe: probe.to_owned(), batch: 1, ..Self::default() }
    }

    /// The keys that a built-in probe supports; `None` if the name is unknown.
    #[must_use]
    pub fn known_keys(probe: &str) -> Option<&'static [&'static str]> {
        Some(match probe {
            "commits" => &["branch"],
            "files" => &["branch", "paths"],
            "open-prs" => {
                &["labels", "not_labels", "author", "assignee", "mention", "text", "branch", "follow_own", "batch"]
            }
            "open-issues" => &["labels", "not_labels", "author", "assignee", "mention", "text", "batch"],
            "failing-ci" => &["checks", "branch", "batch"],
            "outdated" => &["packages", "batch"],
            _ => return None,
        })
    }

    /// The keys that are used: those that are written.
    #[must_use]
    pub fn used_keys(&self) -> Vec<String> {
        let query = serde_json::to_value(self).expect("a query is data that JSON can hold");
        query.as_object().into_iter().flatten().map(|(key, _)| key.clone()).filter(|key| key != "use").collect()
    }
}

/// How a probe's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ItemsForm {
    /// It is ignored.
    #[default]
    None,
    /// One key on each line.
    Lines,
    /// A list of `{key, title?, data?}`.
    Json,
}

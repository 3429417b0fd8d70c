//! The `workflow:` block: which items a dynamic workflow covers, how many at once, and how their results come together.

use super::{LoopMode, OnOff};
use crate::words::worded;
use schemars::JsonSchema;
use serde::Serialize;

/// How many items run at once if the loop does not say.
const AT_ONCE: u32 = 4;

worded! {
    /// How the results of items come together.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ItemJoin {
        /// No item sends anything. When all have ended, their changes become one candidate, which is verified as a whole.
        #[default]
        Barrier = "barrier",
        /// The items are variants: the one with the best score of the first gate with a `score` is verified again and sent.
        Best = "best",
        /// Each item goes through all stages by itself and sends its own result.
        Pipeline = "pipeline",
    }
}

/// The items of a dynamic workflow. They come from exactly one of `items`, `files`, `goals`, `plan` and `on.probe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkflowSpec {
    /// The items, written out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
    /// Globs: one item for each file of base that matches one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Globs of contracts in base: each is a goal of its own, and all of them land together, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<String>,
    /// Whether the planner lists the items, as JSON.
    #[serde(skip_serializing_if = "super::is_default")]
    pub plan: OnOff,
    /// How many items run at once.
    pub at_once: u32,
    /// How the results come together.
    #[serde(skip_serializing_if = "super::is_default")]
    pub join: ItemJoin,
    /// The mode of each item's round: `single-run` or `goal-loop`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub each: LoopMode,
    /// How often an item is tried. A start that a crash interrupted does not count.
    pub tries: u32,
    /// How many items may fail without failing the workflow.
    #[serde(skip_serializing_if = "super::is_default")]
    pub may_fail: u32,
    /// L1 only: the maker's prompt for the one report over the reports of all items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Default for WorkflowSpec {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            files: Vec::new(),
            goals: Vec::new(),
            plan: OnOff::Off,
            at_once: AT_ONCE,
            join: ItemJoin::Barrier,
            each: LoopMode::SingleRun,
            tries: 1,
            may_fail: 0,
            summary: None,
        }
    }
}

//! The ceilings that hold at this moment. A round keeps the loop as it was at its start, with one exception: people may
//! lower a budget while it runs, and every later start of an agent keeps to the lower one.

use loopwright_core::config::SharedBudget;
use loopwright_core::spec::BudgetSpec;
use std::path::Path;

/// The ceilings in people's files, as far as they can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PresentCeilings {
    /// The budget in the loop's file.
    pub own: Option<BudgetSpec>,
    /// The ceilings that loops share.
    pub shared: Option<SharedBudget>,
}

/// Reads the ceilings that hold now.
pub trait CeilingSource: Send + Sync {
    /// The ceilings for a loop of the repository with this work tree.
    fn present_ceilings(&self, work_tree: &Path, loop_name: &str) -> PresentCeilings;
}

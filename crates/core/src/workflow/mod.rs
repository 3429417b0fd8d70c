//! Dynamic workflows: which part of a workflow starts next, with which share of the budget, and how the whole ends.
//! Each part (the planner's list, an item, the merge) is an ordinary round; this module only decides about them.
//!
//! The ceiling of the workflow is divided and never passed: a part starts only if its share fits beside the spend of
//! the ended parts and the shares of the running ones.

mod goal_group;
mod item_list;
mod landing;
mod part_spec;

pub use goal_group::{GOALS_MAX, GoalGroupError, goal_group, goal_item_spec, join_group, landing_spec};
pub use item_list::{ItemListError, read_item_list};
pub use landing::{LandingTrial, SearchMove, base_trial_spec, is_rejected_by_gates, next_search};
pub use part_spec::{item_spec, merge_spec, merged_request, plan_spec};

use crate::budget::{Reservation, SpendAllowance};
use crate::outcome::RoundOutcome;
use crate::spec::{BudgetSpec, ItemJoin, WorkflowSpec};
use crate::units::Usd;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The most items of a workflow.
pub const ITEMS_MAX: usize = 5000;
/// The most rounds that land the items of one workflow, with all that search for an item to blame.
pub const MERGES_MAX: usize = 1000;
/// How often a part may be interrupted before it counts as failed.
pub const INTERRUPTIONS_MAX: u32 = 20;

worded! {
    /// The part of a workflow that a round plays.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WorkflowPart {
        /// The planner lists the items.
        Plan = "plan",
        /// One item.
        Item = "item",
        /// The results of all items come together.
        Merge = "merge",
    }
}

/// A round's place in a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowPlace {
    /// The workflow.
    pub id: String,
    /// The part.
    pub part: WorkflowPart,
}

worded! {
    /// The state of a part.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PartState {
        /// It waits for its turn.
        Queued = "queued",
        /// Its round has an id and may have begun.
        Running = "running",
        /// Its round reached its end with a result that counts.
        Done = "done",
        /// It has no result, and no further try.
        Failed = "failed",
    }
}

/// The record of a part, as far as decisions need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartProgress {
    /// Its state.
    pub state: PartState,
    /// The share of the budget that its running round holds.
    pub reserved: Reservation,
    /// The spend of all its rounds.
    pub spent: Reservation,
    /// The outcome of its last round.
    pub outcome: Option<RoundOutcome>,
}

/// The record of a workflow, as far as decisions need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowProgress {
    /// Its items, in order.
    pub items: Vec<PartProgress>,
    /// The spend of its plan and its merge.
    pub overhead: Reservation,
    /// Whether its time is used up.
    pub is_late: bool,
}

/// The next step of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowMove {
    /// Start the round of this item with this ceiling.
    Start {
        /// The item's position, from 0.
        position: usize,
        /// The most that its round may cost.
        share: SpendAllowance,
    },
    /// Wait for running items.
    Wait,
    /// All items have ended: bring their results together, with this ceiling.
    Merge {
        /// The most that the merge may cost.
        share: SpendAllowance,
    },
    /// The workflow has ended.
    End {
        /// Its outcome.
        outcome: RoundOutcome,
        /// Why.
        why: &'static str,
    },
}

/// The meaning of a round's end for its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartVerdict {
    /// It has its result.
    Done,
    /// A crash or a signal ended the round before it had a result; it does not count as a try.
    Interrupted,
    /// It may be tried again.
    Missed,
    /// Another try would not help.
    Failed,
}

/// Judges the outcome of a part's round. A round that sends nothing by itself has no result until it has passed
/// everything; one that waits for a person has sent its question, so a part that sends for itself is done.
#[must_use]
pub fn judge_part(outcome: RoundOutcome, join: ItemJoin, part: WorkflowPart) -> PartVerdict {
    let sends = part == WorkflowPart::Merge || (part == WorkflowPart::Item && join == ItemJoin::Pipeline);
    match outcome {
        RoundOutcome::Shipped | RoundOutcome::Reported | RoundOutcome::NothingToDo => PartVerdict::Done,
        RoundOutcome::Escalated if sends => PartVerdict::Done,
        RoundOutcome::Interrupted => PartVerdict::Interrupted,
        RoundOutcome::Rejected | RoundOutcome::Plateaued | RoundOutcome::Empty | RoundOutcome::Failed => {
            PartVerdict::Missed
        }
        RoundOutcome::Escalated
        | RoundOutcome::Cannot
        | RoundOutcome::OverBudget
        | RoundOutcome::RateLimited
        | RoundOutcome::Refused
        | RoundOutcome::Cancelled => PartVerdict::Failed,
    }
}

/// The share of the planner's next round: as much as an item would get of two, less what its earlier rounds have cost.
/// `None` if nothing of it is left.
#[must_use]
pub fn plan_share(budget: &BudgetSpec, spent: Reservation) -> Option<SpendAllowance> {
    ItemShares::new(budget, ItemJoin::Barrier, 1).left(spent)
}

/// Whether an item that has cost this much may be tried again. An even share may be exceeded by what the other items
/// leave, the ceiling of one item never.
#[must_use]
pub fn may_try_again(budget: &BudgetSpec, spent: Reservation) -> bool {
    let item = budget.item.allowance();
    !item.is_exceeded_by(spent) && item.usd != Some(spent.usd) && item.tokens != Some(spent.tokens)
}

/// The shares of a workflow's ceiling.
struct ItemShares {
    /// The whole.
    whole: SpendAllowance,
    /// The most for one item over all its tries.
    item: SpendAllowance,
    /// Kept for the merge.
    kept: Reservation,
}

impl ItemShares {
    fn new(budget: &BudgetSpec, join: ItemJoin, items: usize) -> Self {
        let (whole, item) = (budget.round.allowance(), budget.item.allowance());
        let parts =
            u64::try_from(items).unwrap_or(u64::MAX).saturating_add(u64::from(join != ItemJoin::Pipeline)).max(1);
        let part = |whole: Option<u64>| whole.map(|whole| whole / parts);
        let even = SpendAllowance { usd: part(whole.usd.map(|usd| usd.0)).map(Usd), tokens: part(whole.tokens) };
        let kept = match join {
            ItemJoin::Barrier | ItemJoin::Best => amount(even.tightest(item)),
            ItemJoin::Pipeline => Reservation::default(),
        };
        // A declared share of an item replaces the even one, as long as the merge keeps its own.
        let declared = SpendAllowance { usd: item.usd.or(even.usd), tokens: item.tokens.or(even.tokens) };
        Self { whole, item: declared.tightest(whole.less(kept)), kept }
    }

    /// The rest of an item's share, if there is one.
    fn left(&self, spent: Reservation) -> Option<SpendAllowance> {
        let share = self.item.less(spent);
        let is_empty = share.usd == Some(Usd(0)) || share.tokens == Some(0);
        (!is_empty).then_some(share)
    }

    /// The rest of the others for an item that has used up its even share, at most another share.
    fn spare(&self, held: Reservation) -> Option<SpendAllowance> {
        let room = self.whole.less(held.plus(self.kept));
        let share = self.item.tightest(room);
        (share.usd != Some(Usd(0)) && share.tokens != Some(0)).then_some(share)
    }

    /// The share of the next round of an item, if there is room for it.
    fn fitting(&self, held: Reservation, part: &PartProgress) -> Option<SpendAllowance> {
        let room = self.whole.less(held.plus(self.kept));
        self.left(part.spent).filter(|share| !room.is_exceeded_by(amount(*share)))
    }
}

/// The limited amounts of a ceiling.
fn amount(allowance: SpendAllowance) -> Reservation {
    Reservation { usd: allowance.usd.unwrap_or_default(), tokens: allowance.tokens.unwrap_or_default() }
}

/// The reservation of a running part.
#[must_use]
pub fn reserved_for(share: SpendAllowance) -> Reservation {
    amount(share)
}

/// The next steps, in order. Starts come first; then the workflow waits, merges or ends.
#[must_use]
pub fn next_moves(spec: &WorkflowSpec, budget: &BudgetSpec, progress: &WorkflowProgress) -> Vec<WorkflowMove> {
    let shares = ItemShares::new(budget, spec.join, progress.items.len());
    let count = |state: PartState| progress.items.iter().filter(|item| item.state == state).count();
    // A variant that fails is not chosen; that is all.
    let is_lost =
        spec.join != ItemJoin::Best && count(PartState::Failed) > usize::try_from(spec.may_fail).unwrap_or(usize::MAX);
    let mut held = progress.overhead;
    for item in &progress.items {
        held = held.plus(item.spent).plus(if item.state == PartState::Running {
            item.reserved
        } else {
            Reservation::default()
        });
    }
    let mut moves = Vec::new();
    let mut free = usize::try_from(spec.at_once).unwrap_or(usize::MAX).saturating_sub(count(PartState::Running));
    let mut is_short = false;
    let queued = progress.items.iter().enumerate().filter(|(_, item)| item.state == PartState::Queued);
    for (position, item) in queued.filter(|_| !is_lost && !progress.is_late) {
        match shares.fitting(held, item) {
            Some(share) if free > 0 => {
                free -= 1;
                held = held.plus(amount(share));
                moves.push(WorkflowMove::Start { position, share });
            }
            Some(_) => break,
            None => is_short = true,
        }
    }
    if moves.is_empty() {
        let more = is_short.then(|| shares.spare(held)).flatten();
        let retried = progress.items.iter().position(|item| {
            let is_used_up = item.state == PartState::Queued && shares.left(item.spent).is_none();
            is_used_up && may_try_again(budget, item.spent)
        });
        moves.push(match (retried, more) {
            _ if count(PartState::Running) > 0 => WorkflowMove::Wait,
            _ if is_lost => end(RoundOutcome::Rejected, "more items failed than may fail"),
            _ if progress.is_late => end(RoundOutcome::OverBudget, "its time is used up"),
            (Some(position), Some(share)) => WorkflowMove::Start { position, share },
            _ if is_short => end(RoundOutcome::OverBudget, "the budget has no room for another item"),
            _ => join_results(spec, progress, shares.whole.less(held)),
        });
    }
    moves
}

fn end(outcome: RoundOutcome, why: &'static str) -> WorkflowMove {
    WorkflowMove::End { outcome, why }
}

/// The step after every item has ended.
fn join_results(spec: &WorkflowSpec, progress: &WorkflowProgress, left: SpendAllowance) -> WorkflowMove {
    let done: Vec<_> = progress.items.iter().filter(|item| item.state == PartState::Done).collect();
    let has = |outcome: RoundOutcome| done.iter().any(|item| item.outcome == Some(outcome));
    if progress.items.is_empty() {
        return end(RoundOutcome::NothingToDo, "it has no items");
    }
    if done.is_empty() {
        return end(RoundOutcome::Rejected, "no item has a result");
    }
    match spec.join {
        ItemJoin::Barrier | ItemJoin::Best if left.usd == Some(Usd(0)) || left.tokens == Some(0) => {
            end(RoundOutcome::OverBudget, "the budget has no room for the merge")
        }
        ItemJoin::Barrier | ItemJoin::Best => WorkflowMove::Merge { share: left },
        ItemJoin::Pipeline if has(RoundOutcome::Escalated) => end(RoundOutcome::Escalated, "items wait for a person"),
        ItemJoin::Pipeline if has(RoundOutcome::Shipped) => end(RoundOutcome::Shipped, "every item went through"),
        ItemJoin::Pipeline => end(RoundOutcome::Reported, "every item went through"),
    }
}

#[cfg(test)]
mod tests;

//! The problems of all loops, in groups: loops that cannot start, and loops whose last round ended badly. The counters of
//! loops name that round, so the cost does not grow with history.

use super::list_page::ListPage;
use super::status::{LoopLine, LoopStatus};
use super::{CommandError, Serialize, Store};
use loopwright_core::outcome::RoundOutcome;
use std::collections::BTreeMap;

/// The loops that a group names.
const NAMED_MAX: usize = 5;

/// A loop without a file may be gone for good; its last failure is a problem for a week.
const GONE_AFTER_MS: i64 = 7 * 86_400_000;

/// The loops with the same problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProblemGroup {
    /// The state of the loops, or the outcome of their last round.
    pub(crate) status: &'static str,
    page: ListPage,
    /// The first loops by name.
    loops: Vec<ProblemLine>,
}

/// A loop with a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ProblemLine {
    #[serde(rename = "loop")]
    name: String,
    repo: Option<String>,
    why: Option<String>,
    round: Option<String>,
}

/// The last round of a loop that is not over by a success, as the store has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastTrouble {
    /// An open round that no process runs.
    pub(crate) open: Option<(&'static str, String)>,
    /// Whether any round is open.
    pub(crate) has_open: bool,
    /// The last round that ended.
    pub(crate) ended: Option<(RoundOutcome, String)>,
}

/// Counts the problems of these loops, and names the first loops of each group.
pub(crate) async fn read_problems(
    store: Option<&Store>,
    loops: &[LoopLine],
    now: i64,
    last: impl Fn(&LoopLine) -> LastTrouble,
) -> Result<Vec<ProblemGroup>, CommandError> {
    let mut groups = BTreeMap::<&'static str, ProblemGroup>::new();
    for line in loops {
        let Some((status, round)) = problem_of(line, now, last(line)) else { continue };
        let new = ProblemGroup { status, page: ListPage::default(), loops: Vec::new() };
        let group = groups.entry(status).or_insert(new);
        group.page.total += 1;
        if group.loops.len() < NAMED_MAX {
            let (name, repo, why) = (line.name.clone(), line.repo.clone(), line.paused_reason.clone());
            group.loops.push(ProblemLine { name, repo, why, round });
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    let Some(store) = store else { return Ok(groups) };
    for line in groups.iter_mut().flat_map(|group| &mut group.loops).filter(|line| line.why.is_none()) {
        let Some(round) = &line.round else { continue };
        line.why = store.round(round).await?.map(|row| row.summary);
    }
    Ok(groups)
}

/// The problem of a loop in one word, and its round.
fn problem_of(line: &LoopLine, now: i64, last: LastTrouble) -> Option<(&'static str, Option<String>)> {
    let ended = last.ended.filter(|(outcome, _)| is_bad(*outcome));
    if matches!(line.status, LoopStatus::Invalid | LoopStatus::CoolingDown) {
        return Some((line.status.word(), ended.map(|(_, round)| round)));
    }
    if let Some((word, round)) = last.open {
        return Some((word, Some(round)));
    }
    let is_recent = line.last_run.is_some_and(|at| at.0 > now.saturating_sub(GONE_AFTER_MS));
    let (outcome, round) = ended.filter(|_| !last.has_open && (line.cadence.is_some() || is_recent))?;
    Some((outcome.word(), Some(round)))
}

fn is_bad(outcome: RoundOutcome) -> bool {
    match outcome {
        RoundOutcome::Failed
        | RoundOutcome::OverBudget
        | RoundOutcome::Interrupted
        | RoundOutcome::Refused
        | RoundOutcome::Rejected
        | RoundOutcome::Cannot
        | RoundOutcome::Plateaued => true,
        RoundOutcome::Shipped
        | RoundOutcome::Reported
        | RoundOutcome::NothingToDo
        | RoundOutcome::Empty
        | RoundOutcome::Escalated
        | RoundOutcome::RateLimited
        | RoundOutcome::Cancelled => false,
    }
}

//! Tasks: the rules of the registry. A task has one id, which is also the id of its first round, of its lease and of
//! its branch. This module decides who may do what and which task is next; the store makes each change atomic.

use crate::outcome::RoundOutcome;
use crate::words::worded;
use std::collections::{BTreeMap, BTreeSet};

/// The longest title, in characters.
pub const TITLE_MAX: usize = 200;
/// The most tasks that one task may need.
pub const NEEDS_MAX: usize = 50;
/// The lowest and the highest priority; 0 comes first.
pub const PRIORITY_MAX: i64 = 4;

worded! {
    /// The recorded state of a task.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TaskState {
        /// It waits for a claim.
        Open = "open",
        /// An owner claimed it until its lease ends.
        Claimed = "claimed",
        /// Its work has begun.
        Started = "started",
        /// It is done.
        Done = "done",
    }
}

worded! {
    /// The place of a task in the registry's list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TaskStanding {
        /// An owner works on it.
        InFlight = "in-flight",
        /// Its round waits for a person.
        Waiting = "waiting",
        /// It can be claimed.
        Ready = "ready",
        /// It needs a task that is not done.
        Blocked = "blocked",
        /// A person holds it until a moment.
        Held = "held",
        /// It is done.
        Done = "done",
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTask {
    /// Its id.
    pub id: String,
    /// One line.
    pub title: String,
    /// Further text.
    pub body: String,
    /// From 0, first, to 4.
    pub priority: i64,
    /// Its state.
    pub state: TaskState,
    /// Ids of tasks that have to be done before.
    pub needs: Vec<String>,
    /// The owner of the claim.
    pub owner: Option<String>,
    /// The number of claims so far; a command with an older number is refused.
    pub fence: i64,
    /// The end of the claim, in milliseconds since 1970.
    pub lease_until_ms: Option<i64>,
    /// The end of the hold, in milliseconds since 1970.
    pub hold_until_ms: Option<i64>,
    /// The reason of the hold.
    pub hold_why: Option<String>,
    /// Where it came from, such as `goal:FILE` or `issue-7`.
    pub source: Option<String>,
    /// A note of the last change.
    pub note: Option<String>,
    /// When it was added, in milliseconds since 1970.
    pub created_ms: i64,
    /// The number of changes; a change that was decided on an older number is refused.
    pub version: i64,
}

/// Why a change of a task is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    /// It is done.
    #[error("task {id} is done")]
    Done {
        /// The task.
        id: String,
    },
    /// Another owner has it.
    #[error("task {id} belongs to {owner}")]
    Owned {
        /// The task.
        id: String,
        /// The owner.
        owner: String,
    },
    /// The claim is older than the present one.
    #[error("claim {given} of task {id} is not valid any more; the present one is {fence}")]
    Fenced {
        /// The task.
        id: String,
        /// The number of the command.
        given: i64,
        /// The present number.
        fence: i64,
    },
    /// It cannot be claimed now.
    #[error("task {id} is {standing}: {why}")]
    NotReady {
        /// The task.
        id: String,
        /// Its place.
        standing: TaskStanding,
        /// The reason.
        why: String,
    },
    /// The dependency would lead back to the task.
    #[error("task {id} would need itself: {path}")]
    Cycle {
        /// The task.
        id: String,
        /// The ids on the way.
        path: String,
    },
    /// A value is outside its limits.
    #[error("{0}")]
    Limit(String),
}

/// The person or program that changes a task, and the number of its claim, if it gave one.
#[derive(Debug, Clone, Copy)]
pub struct TaskActor<'a> {
    /// The name.
    pub name: &'a str,
    /// The number of its claim.
    pub fence: Option<i64>,
}

impl WorkTask {
    /// A new open task.
    ///
    /// # Errors
    /// A title that is empty or too long, and a priority outside its range.
    pub fn new(id: &str, title: &str, priority: i64, now_ms: i64) -> Result<Self, TaskRefusal> {
        let task = Self {
            id: id.to_owned(),
            title: checked_title(title)?,
            body: String::new(),
            priority: checked_priority(priority)?,
            state: TaskState::Open,
            needs: Vec::new(),
            owner: None,
            fence: 0,
            lease_until_ms: None,
            hold_until_ms: None,
            hold_why: None,
            source: None,
            note: None,
            created_ms: now_ms,
            version: 1,
        };
        Ok(task)
    }

    /// The task after its latest round: a round that ended decides the state of a task that was started.
    #[must_use]
    pub fn after_round(self, outcome: Option<RoundOutcome>) -> Self {
        let (TaskState::Started, Some(outcome)) = (self.state, outcome) else { return self };
        match outcome {
            RoundOutcome::Escalated => self,
            outcome if outcome.is_success() => Self { state: TaskState::Done, ..self },
            outcome => {
                let note = Some(format!("its round ended as {outcome}"));
                Self { state: TaskState::Open, owner: None, lease_until_ms: None, note, ..self }
            }
        }
    }

    /// Whether an owner has it now. A claim ends with its lease, started work does not.
    #[must_use]
    pub fn is_owned(&self, now_ms: i64) -> bool {
        match self.state {
            TaskState::Claimed => self.lease_until_ms.is_some_and(|until_ms| until_ms > now_ms),
            TaskState::Started => true,
            TaskState::Open | TaskState::Done => false,
        }
    }

    fn may_change(&self, actor: TaskActor<'_>, now_ms: i64) -> Result<(), TaskRefusal> {
        let id = self.id.clone();
        if self.state == TaskState::Done {
            return Err(TaskRefusal::Done { id });
        }
        if let Some(given) = actor.fence.filter(|given| *given != self.fence) {
            return Err(TaskRefusal::Fenced { id, given, fence: self.fence });
        }
        match &self.owner {
            Some(owner) if self.is_owned(now_ms) && owner != actor.name => {
                Err(TaskRefusal::Owned { id, owner: owner.clone() })
            }
            _ => Ok(()),
        }
    }

    fn changed(self) -> Self {
        Self { version: self.version + 1, ..self }
    }

    /// Claims it for an owner until a moment.
    ///
    /// # Errors
    /// When it is not ready.
    pub fn claim(self, standing: TaskStanding, why: &str, actor: &str, until_ms: i64) -> Result<Self, TaskRefusal> {
        if standing != TaskStanding::Ready {
            return Err(TaskRefusal::NotReady { id: self.id, standing, why: why.to_owned() });
        }
        let (owner, lease_until_ms, fence) = (Some(actor.to_owned()), Some(until_ms), self.fence + 1);
        Ok(Self { state: TaskState::Claimed, owner, lease_until_ms, fence, ..self }.changed())
    }

    /// Begins its work. A task without a live claim is claimed by that.
    ///
    /// # Errors
    /// When another owner has it, or the claim is not valid any more.
    pub fn start(self, actor: TaskActor<'_>, now_ms: i64) -> Result<Self, TaskRefusal> {
        self.may_change(actor, now_ms)?;
        let fence = if self.is_owned(now_ms) { self.fence } else { self.fence + 1 };
        let owner = Some(actor.name.to_owned());
        Ok(Self { state: TaskState::Started, owner, lease_until_ms: None, fence, ..self }.changed())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it is done, another owner has it, or the claim is not valid any more.
    pub fn done(self, actor: TaskActor<'_>, note: Option<String>, now_ms: i64) -> Result<Self, TaskRefusal> {
        self.may_change(actor, now_ms)?;
        Ok(Self { state: TaskState::Done, lease_until_ms: None, note, ..self }.changed())
    }

    /// Holds it until a moment, or ends its hold. A claim ends with a hold.
    ///
    /// # Errors
    /// When it is done, another owner has it, or the claim is not valid any more.
    pub fn hold(self, actor: TaskActor<'_>, hold: Option<(i64, String)>, now_ms: i64) -> Result<Self, TaskRefusal> {
        self.may_change(actor, now_ms)?;
        let (hold_until_ms, hold_why) = hold.map_or((None, None), |(until_ms, why)| (Some(until_ms), Some(why)));
        let released = Self { state: TaskState::Open, owner: None, lease_until_ms: None, ..self };
        Ok(Self { hold_until_ms, hold_why, ..released }.changed())
    }

    /// Replaces the tasks that it needs.
    ///
    /// # Errors
    /// Too many of them, or a way back to itself. `tasks` are all open tasks.
    pub fn need(self, needs: Vec<String>, tasks: &[Self]) -> Result<Self, TaskRefusal> {
        if needs.len() > NEEDS_MAX {
            return Err(TaskRefusal::Limit(format!("a task needs at most {NEEDS_MAX} others")));
        }
        if let Some(path) = path_back(&self.id, &needs, tasks) {
            return Err(TaskRefusal::Cycle { id: self.id, path: path.join(" → ") });
        }
        Ok(Self { needs, ..self }.changed())
    }

    /// Changes its title and its priority.
    ///
    /// # Errors
    /// As [`WorkTask::new`].
    pub fn edit(self, title: &str, priority: i64) -> Result<Self, TaskRefusal> {
        Ok(Self { title: checked_title(title)?, priority: checked_priority(priority)?, ..self }.changed())
    }
}

fn checked_title(title: &str) -> Result<String, TaskRefusal> {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match title.chars().count() {
        0 => Err(TaskRefusal::Limit("the title is empty".to_owned())),
        count if count > TITLE_MAX => Err(TaskRefusal::Limit(format!("a title has at most {TITLE_MAX} characters"))),
        _ => Ok(title),
    }
}

fn checked_priority(priority: i64) -> Result<i64, TaskRefusal> {
    match (0..=PRIORITY_MAX).contains(&priority) {
        true => Ok(priority),
        false => Err(TaskRefusal::Limit(format!("a priority is a number from 0 to {PRIORITY_MAX}"))),
    }
}

/// The way from new needs back to a task, if there is one.
fn path_back(id: &str, needs: &[String], tasks: &[WorkTask]) -> Option<Vec<String>> {
    let by_id: BTreeMap<&str, &WorkTask> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let mut seen = BTreeSet::new();
    let mut ways: Vec<Vec<&str>> = needs.iter().map(|need| vec![id, need.as_str()]).collect();
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == id {
            return Some(way.into_iter().map(str::to_owned).collect());
        }
        if seen.insert(last) {
            let next = by_id.get(last).into_iter().flat_map(|task| &task.needs);
            ways.extend(next.map(|need| way.iter().copied().chain([need.as_str()]).collect()));
        }
    }
    None
}

/// The open tasks of a repository, with the place of each.
#[derive(Debug, Clone, Default)]
pub struct TaskBoard {
    tasks: Vec<WorkTask>,
    waiting: BTreeSet<String>,
}

impl TaskBoard {
    /// A board of all tasks that are not recorded as done, with the outcome of each one's round. A task that is not on
    /// the board is done.
    #[must_use]
    pub fn new(tasks: Vec<(WorkTask, Option<RoundOutcome>)>) -> Self {
        let is_waiting = |(_, outcome): &&(WorkTask, Option<RoundOutcome>)| *outcome == Some(RoundOutcome::Escalated);
        let waiting = tasks.iter().filter(is_waiting).map(|(task, _)| task.id.clone()).collect();
        let tasks = tasks.into_iter().map(|(task, outcome)| task.after_round(outcome)).collect();
        Self { tasks, waiting }.sorted()
    }

    /// The board with tasks that are recorded as done.
    #[must_use]
    pub fn with_done(mut self, done: Vec<WorkTask>) -> Self {
        self.tasks.extend(done);
        self.sorted()
    }

    fn sorted(mut self) -> Self {
        self.tasks.sort_by(|a, b| (a.priority, a.created_ms, &a.id).cmp(&(b.priority, b.created_ms, &b.id)));
        self
    }

    /// All tasks, by priority and age.
    #[must_use]
    pub fn tasks(&self) -> &[WorkTask] {
        &self.tasks
    }

    /// The place of a task, and why.
    #[must_use]
    pub fn standing(&self, task: &WorkTask, now_ms: i64) -> (TaskStanding, String) {
        if task.state == TaskState::Done {
            return (TaskStanding::Done, task.note.clone().unwrap_or_default());
        }
        if task.is_owned(now_ms) {
            let standing = if self.waiting.contains(&task.id) { TaskStanding::Waiting } else { TaskStanding::InFlight };
            return (standing, format!("{} has it", task.owner.as_deref().unwrap_or("an owner")));
        }
        if task.hold_until_ms.is_some_and(|until_ms| until_ms > now_ms) {
            return (TaskStanding::Held, task.hold_why.clone().unwrap_or_default());
        }
        let is_open = |id: &&String| self.tasks.iter().any(|one| one.id == **id && one.state != TaskState::Done);
        let open: Vec<&str> = task.needs.iter().filter(is_open).map(String::as_str).collect();
        match open.is_empty() {
            true => (TaskStanding::Ready, task.note.clone().unwrap_or_default()),
            false => (TaskStanding::Blocked, format!("needs {}", open.join(", "))),
        }
    }

    /// The tasks that can be claimed, first the most important.
    #[must_use]
    pub fn ready(&self, now_ms: i64) -> Vec<&WorkTask> {
        self.tasks.iter().filter(|task| self.standing(task, now_ms).0 == TaskStanding::Ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str) -> WorkTask {
        WorkTask::new(id, id, 2, 0).expect("a task")
    }

    fn board(tasks: Vec<WorkTask>) -> TaskBoard {
        TaskBoard::new(tasks.into_iter().map(|task| (task, None)).collect())
    }

    const ADA: TaskActor<'static> = TaskActor { name: "ada", fence: None };
    const BOB: TaskActor<'static> = TaskActor { name: "bob", fence: None };

    #[test]
    fn ready_tasks_come_by_priority_and_age_without_blocked_and_held_ones() {
        let first = WorkTask { priority: 0, created_ms: 9, ..task("first") };
        let blocked = WorkTask { needs: vec!["first".to_owned(), "gone".to_owned()], priority: 0, ..task("blocked") };
        let held = WorkTask { hold_until_ms: Some(100), ..task("held") };
        let board = board(vec![task("old"), blocked, held, first]);
        let ids = |now_ms| board.ready(now_ms).iter().map(|task| task.id.as_str()).collect::<Vec<_>>();
        assert_eq!(ids(50), ["first", "old"]);
        assert_eq!(ids(100), ["first", "held", "old"], "a hold ends by itself");
    }

    #[test]
    fn claim_lasts_until_its_lease_and_an_older_claim_is_fenced() {
        let claim = |task: WorkTask, who: &str, now_ms: i64| {
            let board = board(vec![task.clone()]);
            let (standing, why) = board.standing(&task, now_ms);
            task.claim(standing, &why, who, now_ms + 10)
        };
        let ada = claim(task("t"), "ada", 0).expect("it is ready");
        assert!(matches!(claim(ada.clone(), "bob", 5), Err(TaskRefusal::NotReady { .. })));
        let bob = claim(ada, "bob", 10).expect("the lease has ended");
        assert_eq!((bob.fence, bob.owner.as_deref()), (2, Some("bob")));
        let late = TaskActor { name: "ada", fence: Some(1) };
        assert!(matches!(bob.clone().done(late, None, 11), Err(TaskRefusal::Fenced { given: 1, fence: 2, .. })));
        assert!(matches!(bob.clone().start(ADA, 11), Err(TaskRefusal::Owned { .. })));
        let done = bob.start(BOB, 11).and_then(|task| task.done(BOB, None, 999)).expect("the owner may");
        assert!(matches!(done.start(BOB, 999), Err(TaskRefusal::Done { .. })), "done is final");
    }

    #[test]
    fn needs_never_lead_back_to_a_task() {
        let b = WorkTask { needs: vec!["c".to_owned()], ..task("b") };
        let all = [task("a"), b, task("c")];
        let needs = |id: &str, on: &str| task(id).need(vec![on.to_owned()], &all).map(drop);
        assert_eq!(needs("a", "b"), Ok(()));
        assert_eq!(needs("a", "a").map_err(|why| why.to_string()), Err("task a would need itself: a → a".to_owned()));
        assert_eq!(
            needs("c", "b").map_err(|why| why.to_string()),
            Err("task c would need itself: c → b → c".to_owned())
        );
    }

    #[test]
    fn end_of_a_round_decides_the_state_of_its_task() {
        let started = task("t").start(ADA, 0).expect("it is open");
        let state = |outcome| started.clone().after_round(outcome).state;
        assert_eq!(state(None), TaskState::Started);
        assert_eq!(state(Some(RoundOutcome::Shipped)), TaskState::Done);
        assert_eq!(state(Some(RoundOutcome::Escalated)), TaskState::Started);
        assert_eq!(state(Some(RoundOutcome::Interrupted)), TaskState::Open, "a killed round does not keep its task");
        let board = TaskBoard::new(vec![(started, Some(RoundOutcome::Escalated))]);
        assert_eq!(board.standing(&board.tasks()[0], 0).0, TaskStanding::Waiting);
    }

    #[test]
    fn titles_and_priorities_have_limits() {
        assert!(WorkTask::new("t", " \n", 0, 0).is_err());
        assert!(WorkTask::new("t", &"x".repeat(TITLE_MAX + 1), 0, 0).is_err());
        assert!(WorkTask::new("t", "x", 5, 0).is_err() && WorkTask::new("t", "x", -1, 0).is_err());
        assert_eq!(task("t").edit("a\n b", 0).map(|task| task.title), Ok("a b".to_owned()));
    }
}

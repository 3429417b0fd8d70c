//! `tasks`: the registry of work. One id names a task, its first round, its lease and its branch. The rules are in
//! `core`; each change is decided on the task as it is, and decided again if another process was faster.

mod list;
mod run_link;
mod sync_list;

pub(super) use run_link::{register_run, start_for_run, task_for_run};

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, close, safe};
use crate::view::time::now_ms;
use clap::Subcommand;
use loopwright::git::UserRepo;
use loopwright::round::new_round_id;
use loopwright::store::{RowChange, Store, StoreError, StoreErrorKind, TaskRow};
use loopwright::{Engine, EngineError};
use loopwright_core::task::{TaskActor, TaskBoard, TaskRefusal, TaskState, WorkTask};
use loopwright_core::units::TimeSpan;
use serde_json::{Value, json};
use std::path::PathBuf;

/// How often a change is decided again.
const TRIES: usize = 50;
/// A shorter beginning of an id is more likely a typo.
const BEGINNING_MIN: usize = 4;

#[derive(Debug, clap::Args)]
pub(crate) struct TasksArgs {
    #[command(subcommand)]
    what: TasksCommand,
}

#[derive(Debug, Subcommand)]
enum TasksCommand {
    /// Add a task
    Add {
        /// One line
        #[arg(value_name = "TITLE")]
        title: String,
        /// From 0, first, to 4
        #[arg(long, value_name = "N", default_value_t = 2)]
        priority: i64,
        /// A task that has to be done before
        #[arg(long = "needs", value_name = "ID")]
        needs: Vec<String>,
        /// Further text
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
    },
    /// List the tasks that can be claimed, first the most important
    Ready,
    /// Claim a task for a time; without an id, the first one that is ready
    Claim {
        /// The id of the task, or its first characters
        #[arg(value_name = "ID")]
        id: Option<String>,
        /// How long the claim lasts
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        lasts: TimeSpan,
    },
    /// Record that the work on a task has begun
    Start(TaskTarget),
    /// Record that a task is done
    Done {
        #[command(flatten)]
        task: TaskTarget,
        /// A note, such as the address of the change
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Let a task wait for another one
    Block {
        #[command(flatten)]
        task: TaskTarget,
        /// The task that has to be done before
        #[arg(long, value_name = "ID")]
        by: String,
    },
    /// Remove a dependency of a task
    Unblock {
        #[command(flatten)]
        task: TaskTarget,
        /// The dependency [default: all of them]
        #[arg(long, value_name = "ID")]
        by: Option<String>,
    },
    /// Hold a task for a time, so that no one claims it
    Hold {
        #[command(flatten)]
        task: TaskTarget,
        /// How long, such as 3d, or a moment such as 2026-12-01T09:00:00Z; `none` ends the hold
        #[arg(long, value_name = "TIME", value_parser = parse_until)]
        until: HoldEnd,
        /// The reason
        #[arg(long, value_name = "TEXT", default_value = "held manually")]
        why: String,
    },
    /// List the tasks by their places
    List {
        /// Also list the tasks that are done
        #[arg(long)]
        all: bool,
    },
    /// Show one task
    Show {
        /// The id of the task, or its first characters
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Write the tasks as a Markdown list
    Export {
        /// The file, which is replaced if it is such a list [default: standard output]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Read an edited Markdown list, or the open issues of a forge
    Import {
        /// The list
        #[arg(value_name = "FILE", required_unless_present = "issues")]
        file: Option<PathBuf>,
        /// Import the open issues of this forge of your configuration
        #[arg(long, value_name = "FORGE", conflicts_with = "file")]
        issues: Option<String>,
        /// Only issues with this label
        #[arg(long = "label", value_name = "LABEL", requires = "issues")]
        labels: Vec<String>,
    },
}

/// A task, and the claim of the command.
#[derive(Debug, clap::Args)]
struct TaskTarget {
    /// The id of the task, or its first characters
    #[arg(value_name = "ID")]
    id: String,
    /// The number that `claim` printed: a claim that another one replaced is refused
    #[arg(long, value_name = "N")]
    fence: Option<i64>,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy)]
enum HoldEnd {
    After(TimeSpan),
    At(i64),
    Now,
}

pub(crate) async fn run(args: TasksArgs, cx: &CommandContext) -> VerbResult {
    let registry = TaskRegistry { cx, repo: cx.repo().await? };
    match args.what {
        TasksCommand::Ready => list::ready(&registry).await,
        TasksCommand::List { all } => list::list(&registry, all).await,
        TasksCommand::Show { id } => list::show(&registry, &id).await,
        TasksCommand::Export { file } => sync_list::export(&registry, file).await,
        TasksCommand::Import { issues: Some(forge), labels, .. } => {
            sync_list::import_issues(&registry, &forge, &labels).await
        }
        TasksCommand::Import { file, .. } => sync_list::import(&registry, &file.unwrap_or_default()).await,
        TasksCommand::Add { title, priority, needs, body } => registry.add(&title, priority, &needs, body).await,
        TasksCommand::Claim { id, lasts } => registry.claim(id.as_deref(), lasts).await,
        other => registry.change_one(other).await,
    }
}

/// The tasks of one repository.
struct TaskRegistry<'c> {
    cx: &'c CommandContext,
    repo: UserRepo,
}

impl TaskRegistry<'_> {
    /// The board as it is now; an empty one if nothing has been recorded yet.
    async fn read(&self) -> Result<TaskBoard, CommandError> {
        match super::status::open_store_if_any(self.cx).await? {
            Some(store) => self.board(&store).await,
            None => Ok(TaskBoard::default()),
        }
    }

    async fn board(&self, store: &Store) -> Result<TaskBoard, CommandError> {
        let mut tasks = Vec::new();
        for row in store.open_tasks(&self.repo.id).await? {
            let task = row.into_task()?;
            let round = if task.state == TaskState::Started { store.round(&task.id).await? } else { None };
            tasks.push((task, round.and_then(|round| round.outcome)));
        }
        Ok(TaskBoard::new(tasks))
    }

    async fn add(&self, title: &str, priority: i64, needs: &[String], body: String) -> VerbResult {
        let engine = self.open().await?;
        let id = new_round_id()?.to_string();
        let added = self
            .decide(&engine, |board, graph| {
                let task = WorkTask::new(&id, title, priority, now_ms()).map_err(refused)?;
                let task = WorkTask { body: body.clone(), ..task };
                let needs = needs.iter().map(|need| Ok(find(board.tasks(), need)?.id.clone()));
                let needs = needs.collect::<Result<Vec<_>, CommandError>>()?;
                let changes = self.graph_change(&needs, graph);
                let task = WorkTask { version: 1, ..task.need(needs, board.tasks()).map_err(refused)? };
                Ok((task.clone(), [vec![RowChange::NewTask(TaskRow::new(&self.repo.id, task))], changes].concat()))
            })
            .await;
        let task = close(&engine, added).await?;
        Ok(self.cx.out.answer(&task_document(&task), || format!("added {}: {}", task.id, safe(&task.title))))
    }

    async fn claim(&self, id: Option<&str>, lasts: TimeSpan) -> VerbResult {
        let actor = self.cx.actor_name();
        let lasts_ms = i64::try_from(lasts.duration().as_millis()).unwrap_or(i64::MAX);
        let engine = self.open().await?;
        let claimed = self
            .decide(&engine, |board, _| {
                let now = now_ms();
                let task = match id {
                    Some(id) => find(board.tasks(), id)?.clone(),
                    None => board.ready(now).first().copied().cloned().ok_or_else(|| {
                        CommandError::new(CommandErrorKind::Unknown, "no task is ready")
                            .hint("see `loopwright tasks list`")
                    })?,
                };
                let (standing, why) = board.standing(&task, now);
                let task = task.claim(standing, &why, &actor, now.saturating_add(lasts_ms)).map_err(refused)?;
                Ok(self.changed(task))
            })
            .await;
        let task = close(&engine, claimed).await?;
        Ok(self.cx.out.answer(&task_document(&task), || {
            let (id, fence) = (&task.id, task.fence);
            format!(
                "claimed {id}: {}\nclaim {fence}; start it: loopwright tasks start {id} --fence {fence}",
                safe(&task.title)
            )
        }))
    }

    /// A change of one task.
    async fn change_one(&self, command: TasksCommand) -> VerbResult {
        let actor = self.cx.actor_name();
        let engine = self.open().await?;
        let changed = self.decide(&engine, |board, graph| self.apply(&command, &actor, board, graph)).await;
        let task = close(&engine, changed).await?;
        Ok(self.cx.out.answer(&task_document(&task), || format!("{} {}: {}", task.state, task.id, safe(&task.title))))
    }

    fn apply(
        &self,
        command: &TasksCommand,
        actor: &str,
        board: &TaskBoard,
        graph: i64,
    ) -> Result<(WorkTask, Vec<RowChange>), CommandError> {
        let now = now_ms();
        let target = |task: &TaskTarget| {
            let actor = TaskActor { name: actor, fence: task.fence };
            Ok::<_, CommandError>((find(board.tasks(), &task.id)?.clone(), actor))
        };
        match command {
            TasksCommand::Start(task) => {
                let (task, actor) = target(task)?;
                Ok(self.changed(task.start(actor, now).map_err(refused)?))
            }
            TasksCommand::Done { task, note } => {
                let (task, actor) = target(task)?;
                Ok(self.changed(task.done(actor, note.clone(), now).map_err(refused)?))
            }
            TasksCommand::Hold { task, until, why } => {
                let (task, actor) = target(task)?;
                let hold = until.moment(now).map(|until_ms| (until_ms, why.clone()));
                Ok(self.changed(task.hold(actor, hold, now).map_err(refused)?))
            }
            TasksCommand::Block { task, by } => {
                let (task, _) = target(task)?;
                let by = find(board.tasks(), by)?.id.clone();
                let needs = task.needs.iter().filter(|need| **need != by).cloned().chain([by.clone()]).collect();
                self.with_needs(task, needs, board, graph)
            }
            TasksCommand::Unblock { task, by } => {
                let (task, _) = target(task)?;
                let needs = match by {
                    Some(by) => without(&task, by)?,
                    None => Vec::new(),
                };
                self.with_needs(task, needs, board, graph)
            }
            _ => Err(CommandError::failed("this command changes no task")),
        }
    }

    fn with_needs(
        &self,
        task: WorkTask,
        needs: Vec<String>,
        board: &TaskBoard,
        graph: i64,
    ) -> Result<(WorkTask, Vec<RowChange>), CommandError> {
        let task = task.need(needs, board.tasks()).map_err(refused)?;
        let (task, mut changes) = self.changed(task);
        changes.push(RowChange::TaskGraph { repo: self.repo.id.clone(), version: graph });
        Ok((task, changes))
    }

    fn graph_change(&self, needs: &[String], graph: i64) -> Vec<RowChange> {
        let change = RowChange::TaskGraph { repo: self.repo.id.clone(), version: graph };
        if needs.is_empty() { Vec::new() } else { vec![change] }
    }

    fn changed(&self, task: WorkTask) -> (WorkTask, Vec<RowChange>) {
        (task.clone(), vec![RowChange::Task(TaskRow::new(&self.repo.id, task))])
    }

    /// Opens the store for writing. The rounds of other processes are not touched.
    async fn open(&self) -> Result<Engine, CommandError> {
        Ok(Engine::open(self.cx.settings(Some(&self.repo))?).await?)
    }

    /// Decides a change on the present board and writes it; decides again if another process was faster.
    async fn decide(
        &self,
        engine: &Engine,
        mut change: impl FnMut(&TaskBoard, i64) -> Result<(WorkTask, Vec<RowChange>), CommandError>,
    ) -> Result<WorkTask, CommandError> {
        for _ in 0..TRIES {
            let graph = engine.store().task_graph_version(&self.repo.id).await?;
            let board = self.board(engine.store()).await?;
            let (task, changes) = change(&board, graph)?;
            match engine.write_rows(changes).await {
                Ok(()) => return Ok(task),
                Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommandError::failed("other processes changed the tasks all the time").hint("try again"))
    }
}

/// A task by its id or its first characters.
fn find<'t>(tasks: &'t [WorkTask], id: &str) -> Result<&'t WorkTask, CommandError> {
    if let Some(task) = tasks.iter().find(|task| task.id == id) {
        return Ok(task);
    }
    let found: Vec<_> = tasks.iter().filter(|task| id.len() >= BEGINNING_MIN && task.id.starts_with(id)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            Err(CommandError::unknown(format!("no open task is called `{id}`"))
                .hint("see `loopwright tasks list --all`"))
        }
        _ => {
            Err(CommandError::unknown(format!("several tasks begin with `{id}`"))
                .hint("give more characters of the id"))
        }
    }
}

/// The dependencies of a task without one of them, given by its id or its first characters.
fn without(task: &WorkTask, by: &str) -> Result<Vec<String>, CommandError> {
    let is_meant = |need: &&String| **need == by || (by.len() >= BEGINNING_MIN && need.starts_with(by));
    match task.needs.iter().filter(is_meant).count() {
        1 => Ok(task.needs.iter().filter(|need| !is_meant(need)).cloned().collect()),
        0 => Err(CommandError::unknown(format!("task {} does not wait for `{by}`", task.id))
            .hint(format!("see `loopwright tasks show {}`", task.id))),
        _ => Err(CommandError::unknown(format!("several dependencies of task {} begin with `{by}`", task.id))
            .hint("give more characters of the id")),
    }
}

fn refused(error: TaskRefusal) -> CommandError {
    let kind = match error {
        TaskRefusal::Limit(_) | TaskRefusal::Cycle { .. } => CommandErrorKind::Usage,
        TaskRefusal::Done { .. }
        | TaskRefusal::Owned { .. }
        | TaskRefusal::Fenced { .. }
        | TaskRefusal::NotReady { .. } => CommandErrorKind::Refused,
    };
    CommandError::new(kind, error.to_string())
}

/// A task as JSON.
fn task_json(task: &WorkTask) -> Value {
    let moment = |ms: Option<i64>| ms.map(crate::view::time::timestamp);
    json!({
        "id": task.id, "title": task.title, "body": task.body, "priority": task.priority, "state": task.state.word(),
        "needs": task.needs, "owner": task.owner, "fence": task.fence, "lease_until": moment(task.lease_until_ms),
        "hold_until": moment(task.hold_until_ms), "hold_why": task.hold_why, "source": task.source, "note": task.note,
        "created": moment(Some(task.created_ms)),
    })
}

fn task_document(task: &WorkTask) -> Value {
    json!({"schema": 1, "task": task_json(task)})
}

impl HoldEnd {
    fn moment(self, now_ms: i64) -> Option<i64> {
        match self {
            Self::After(span) => {
                Some(now_ms.saturating_add(i64::try_from(span.duration().as_millis()).unwrap_or(i64::MAX)))
            }
            Self::At(ms) => Some(ms),
            Self::Now => None,
        }
    }
}

fn parse_until(text: &str) -> Result<HoldEnd, String> {
    if text == "none" {
        return Ok(HoldEnd::Now);
    }
    let moment = || text.parse::<jiff::Timestamp>().ok().map(|moment| HoldEnd::At(moment.as_millisecond()));
    TimeSpan::parse(text)
        .map(HoldEnd::After)
        .or_else(moment)
        .ok_or_else(|| "a span such as `3d`, a moment such as `2026-12-01T09:00:00Z`, or `none`".to_owned())
}

//! The tasks of goals that run: a run registers its own task, or is the work on a given one. The round gets the id of the
//! task, so one id names both, the lease and the branch.

use super::{CommandContext, CommandError, TaskRegistry, close, find, now_ms, refused};
use loopwright::Engine;
use loopwright::git::UserRepo;
use loopwright::store::{RowChange, TaskRow};
use loopwright_core::name::RoundId;
use loopwright_core::task::{TaskActor, WorkTask};

/// Registers a goal's run as a started task with the id of its round, unless the task exists.
pub(in crate::verbs) async fn register_run(
    cx: &CommandContext,
    repo: &UserRepo,
    id: &str,
    title: &str,
    source: String,
) -> Result<(), CommandError> {
    let engine = Engine::open(cx.settings(Some(repo))?).await?;
    let title: String = title.chars().take(loopwright_core::task::TITLE_MAX).collect();
    let actor = cx.actor_name();
    let task = WorkTask::new(id, &title, 2, now_ms()).and_then(|task| {
        let actor = TaskActor { name: &actor, fence: None };
        WorkTask { source: Some(source), ..task }.start(actor, now_ms())
    });
    let written = match task {
        Ok(task) => {
            engine.write_rows(vec![RowChange::NewTask(TaskRow::new(&repo.id, task))]).await.map_err(CommandError::from)
        }
        Err(error) => Err(refused(error)),
    };
    close(&engine, written).await
}

/// The id of the round that is the work on this task. A task has one such round.
pub(in crate::verbs) async fn task_for_run(
    cx: &CommandContext,
    repo: &UserRepo,
    text: &str,
) -> Result<RoundId, CommandError> {
    let registry = TaskRegistry { cx, repo: repo.clone() };
    let id = find(registry.read().await?.tasks(), text)?.id.clone();
    let store = cx.open_store_read_only().await?;
    if store.round(&id).await?.is_some() || store.workflow(&id).await?.is_some_and(|row| row.id == id) {
        return Err(CommandError::refused(format!("task {id} has a round already"))
            .hint(format!("see `loopwright show {id}`, or start another round: loopwright retry {id}")));
    }
    RoundId::parse(&id).map_err(|error| CommandError::failed(error.to_string()))
}

/// Records that the work on a task has begun, with the goal as its source.
pub(in crate::verbs) async fn start_for_run(
    cx: &CommandContext,
    repo: &UserRepo,
    id: &str,
    fence: Option<i64>,
    source: String,
) -> Result<(), CommandError> {
    let registry = TaskRegistry { cx, repo: repo.clone() };
    let (actor, engine) = (cx.actor_name(), registry.open().await?);
    let started = registry
        .decide(&engine, |board, _| {
            let actor = TaskActor { name: &actor, fence };
            let task = find(board.tasks(), id)?.clone().start(actor, now_ms()).map_err(refused)?;
            Ok(registry.changed(WorkTask { source: Some(source.clone()), ..task }))
        })
        .await;
    close(&engine, started).await.map(drop)
}

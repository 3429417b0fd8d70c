//! The rows of the task registry. `core` decides each change; this module makes it atomic: a change that was decided on
//! an older version of its task, or of the dependencies, is a conflict.

use super::Store;
use super::append::put_new;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::{StoreError, StoreErrorKind};
use super::rows::{SqlTable, table};
use loopwright_core::task::{TaskState, WorkTask};

/// The most tasks of one repository that are read.
const TASKS_MAX: i64 = 10_000;

word_column!(TaskState, "state of a task");

table! {
    /// A task of a repository.
    TaskRow in "tasks" by ["id"], since 10;
    /// Its id.
    id: String,
    /// The repository's id.
    repo: String,
    /// One line.
    title: String,
    /// Further text.
    body: String,
    /// From 0, first, to 4.
    priority: i64,
    /// Its state.
    state: TaskState,
    /// The ids of tasks that it needs, as a JSON list.
    needs: String,
    /// The owner of the claim.
    owner: Option<String>,
    /// The number of claims so far.
    fence: i64,
    /// The end of the claim.
    lease_until_ms: Option<i64>,
    /// The end of the hold.
    hold_until_ms: Option<i64>,
    /// The reason of the hold.
    hold_why: Option<String>,
    /// Where it came from.
    source: Option<String>,
    /// A note of the last change.
    note: Option<String>,
    /// When it was added.
    created_ms: i64,
    /// The number of changes.
    version: i64,
}

impl TaskRow {
    /// The row of a task.
    #[must_use]
    pub fn new(repo: &str, task: WorkTask) -> Self {
        let WorkTask { id, title, body, priority, state, needs, owner, fence, lease_until_ms, .. } = task;
        let WorkTask { hold_until_ms, hold_why, source, note, created_ms, version, .. } = task;
        let needs = serde_json::to_string(&needs).expect("a list of texts can be written as JSON");
        let repo = repo.to_owned();
        Self {
            id,
            repo,
            title,
            body,
            priority,
            state,
            needs,
            owner,
            fence,
            lease_until_ms,
            hold_until_ms,
            hold_why,
            source,
            note,
            created_ms,
            version,
        }
    }

    /// The task of the row.
    ///
    /// # Errors
    /// When its needs are damaged.
    pub fn into_task(self) -> Result<WorkTask, StoreError> {
        let Self { id, title, body, priority, state, needs, owner, fence, lease_until_ms, hold_until_ms, .. } = self;
        let Self { hold_why, source, note, created_ms, version, .. } = self;
        let damaged = |why: serde_json::Error| {
            StoreErrorKind::Corrupt(format!("the needs of task {id}: {why}")).during("read tasks")
        };
        let needs = serde_json::from_str(&needs).map_err(damaged)?;
        Ok(WorkTask {
            id,
            title,
            body,
            priority,
            state,
            needs,
            owner,
            fence,
            lease_until_ms,
            hold_until_ms,
            hold_why,
            source,
            note,
            created_ms,
            version,
        })
    }
}

/// Inserts a task; one with its id, or of its issue, is a conflict.
pub(super) async fn put_task(conn: &mut SqlConnection, row: &TaskRow) -> SqlResult<()> {
    match put_new(conn, row).await? {
        true => Ok(()),
        false => Err(StoreErrorKind::Conflict(format!("task `{}` exists", row.source.as_ref().unwrap_or(&row.id)))),
    }
}

/// Replaces a task, if it still has the version before this one.
pub(super) async fn change_task(conn: &mut SqlConnection, row: &TaskRow) -> SqlResult<()> {
    let sets: Vec<String> =
        TaskRow::COLUMNS.iter().enumerate().map(|(at, column)| format!("{column} = ${}", at + 1)).collect();
    let count = TaskRow::COLUMNS.len();
    let sql = format!("UPDATE tasks SET {} WHERE id = ${} AND version = ${}", sets.join(", "), count + 1, count + 2);
    let mut values = row.args();
    values.push(SqlArg::from(&row.id));
    values.push(SqlArg::from(row.version - 1));
    match conn.exec(sql, &values).await? {
        0 => Err(StoreErrorKind::Conflict(format!("task `{}` has changed", row.id))),
        _ => Ok(()),
    }
}

/// Counts a change of dependencies that was decided on this version of them.
pub(super) async fn change_graph(conn: &mut SqlConnection, repo: &str, version: i64) -> SqlResult<()> {
    let begin = "INSERT INTO task_graphs (repo, version) VALUES ($1, 0) ON CONFLICT DO NOTHING";
    conn.exec(begin, args![repo]).await?;
    let sql = "UPDATE task_graphs SET version = version + 1 WHERE repo = $1 AND version = $2";
    match conn.exec(sql, args![repo, version]).await? {
        0 => Err(StoreErrorKind::Conflict("the dependencies of tasks have changed".to_owned())),
        _ => Ok(()),
    }
}

/// The task registry.
impl Store {
    /// The tasks of a repository that are not recorded as done.
    pub async fn open_tasks(&self, repo: &str) -> Result<Vec<TaskRow>, StoreError> {
        let rest = "WHERE repo = $1 AND state <> 'done' ORDER BY priority, created_ms, id LIMIT $2";
        self.all(rest, args![repo, TASKS_MAX]).await
    }

    /// All tasks of a repository, newest first.
    pub async fn tasks(&self, repo: &str) -> Result<Vec<TaskRow>, StoreError> {
        self.all("WHERE repo = $1 ORDER BY created_ms DESC, id DESC LIMIT $2", args![repo, TASKS_MAX]).await
    }

    /// The version of a repository's dependencies between tasks.
    pub async fn task_graph_version(&self, repo: &str) -> Result<i64, StoreError> {
        let sql = "SELECT version FROM task_graphs WHERE repo = $1".to_owned();
        let read = |row: &SqlRow| row.get::<i64>(0);
        Ok(self.fetch(("task_graphs", TaskRow::SINCE), sql, args![repo], read).await?.pop().unwrap_or_default())
    }
}

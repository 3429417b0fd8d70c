//! The rows of dynamic workflows and their parts. `core` decides each change; this module makes it count once: a change
//! that was decided on an older version of its row is a conflict.

use super::Store;
use super::append::put_new;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::{StoreError, StoreErrorKind};
use super::rows::{SqlTable, table};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::worded;
use loopwright_core::workflow::{ITEMS_MAX, MERGES_MAX, PartState, WorkflowPart};

/// The most workflows of one repository that are listed.
const WORKFLOWS_MAX: i64 = 100;
/// The most parts of one workflow: the plan, its items, and the rounds that land them.
const PARTS_MAX: usize = 1 + ITEMS_MAX + MERGES_MAX;

worded! {
    /// The state of a workflow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WorkflowState {
        /// Its items are not known yet.
        Listing = "listing",
        /// Its items run.
        Running = "running",
        /// It has ended.
        Ended = "ended",
    }
}

word_column!(WorkflowState, "state of a workflow");
word_column!(WorkflowPart, "part of a workflow");
word_column!(PartState, "state of a part");

table! {
    /// A dynamic workflow.
    WorkflowRow in "workflows" by ["id"], since 12;
    /// Its id.
    id: String,
    /// The repository's id.
    repo: String,
    /// The path of the repository.
    repo_path: String,
    /// The loop's name.
    loop_name: String,
    /// The loop as it was when the workflow started, as canonical JSON.
    spec: String,
    /// Its hash.
    spec_hash: String,
    /// The commit that its items start from.
    base: String,
    /// The person or program that started it.
    actor: String,
    /// 1 if nothing is sent.
    dry_run: i64,
    /// Its state.
    state: WorkflowState,
    /// How it ended.
    outcome: Option<RoundOutcome>,
    /// Why; empty while it is open.
    why: String,
    /// How long processes have worked on it, in milliseconds.
    used_ms: i64,
    /// When it started.
    started_ms: i64,
    /// When it ended.
    ended_ms: Option<i64>,
    /// The number of changes.
    version: i64,
}

table! {
    /// A part of a workflow.
    WorkflowPartRow in "workflow_parts" by ["workflow", "position"], since 12;
    /// The workflow.
    workflow: String,
    /// Items have 0 and more, the plan has -1, and the merge the number of items.
    position: i64,
    /// The part.
    part: WorkflowPart,
    /// The item's key; empty for the plan and the merge.
    item: String,
    /// The item's title.
    title: Option<String>,
    /// Untrusted data for the maker.
    data: Option<String>,
    /// Its state.
    state: PartState,
    /// The id of its last round; a running part has one before that round starts.
    round: Option<String>,
    /// How often it was tried.
    tries: i64,
    /// How many of its rounds were interrupted.
    interruptions: i64,
    /// The outcome of its last round.
    outcome: Option<RoundOutcome>,
    /// The commit of its result, if it changed files.
    sealed: Option<String>,
    /// Why it has no result, or a remark.
    note: String,
    /// Money that its running round may cost, in millionths of a US dollar.
    reserved_micros: i64,
    /// Tokens that its running round may cost.
    reserved_tokens: i64,
    /// Money that its ended rounds cost.
    spent_micros: i64,
    /// Tokens that its ended rounds cost.
    spent_tokens: i64,
    /// The number of changes.
    version: i64,
}

/// Replaces a row, if it still has the version before this one.
async fn change<T: SqlTable>(conn: &mut SqlConnection, row: &T, version: i64, what: String) -> SqlResult<()> {
    let set = |(at, column): (usize, &&str)| format!("\"{column}\" = ${}", at + 1);
    let sets: Vec<String> = T::COLUMNS.iter().enumerate().map(set).collect();
    let mut values = row.args();
    let mut wheres = Vec::new();
    for key in T::KEY {
        let at = T::COLUMNS.iter().position(|column| column == key).unwrap_or_default();
        wheres.push(format!("\"{key}\" = ${}", at + 1));
    }
    values.push(SqlArg::from(version - 1));
    let sql = format!(
        "UPDATE {} SET {} WHERE {} AND version = ${}",
        T::NAME,
        sets.join(", "),
        wheres.join(" AND "),
        values.len()
    );
    match conn.exec(sql, &values).await? {
        0 => Err(StoreErrorKind::Conflict(format!("{what} has changed"))),
        _ => Ok(()),
    }
}

/// A change of a workflow or of one of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowChange {
    /// Inserts a workflow; a second open one of its loop is a conflict.
    New(WorkflowRow),
    /// Replaces a workflow that still has the version before this one.
    Row(WorkflowRow),
    /// Inserts a part.
    NewPart(WorkflowPartRow),
    /// Replaces a part that still has the version before this one.
    Part(WorkflowPartRow),
}

pub(super) async fn apply(conn: &mut SqlConnection, wanted: &WorkflowChange) -> SqlResult<()> {
    match wanted {
        WorkflowChange::New(row) => match put_new(conn, row).await? {
            true => Ok(()),
            false => Err(StoreErrorKind::Conflict(format!("loop `{}` has an open workflow", row.loop_name))),
        },
        WorkflowChange::Row(row) => change(conn, row, row.version, format!("workflow `{}`", row.id)).await,
        WorkflowChange::NewPart(row) => match put_new(conn, row).await? {
            true => Ok(()),
            false => Err(StoreErrorKind::Conflict(format!("part {} of `{}` exists", row.position, row.workflow))),
        },
        WorkflowChange::Part(row) => {
            change(conn, row, row.version, format!("part {} of workflow `{}`", row.position, row.workflow)).await
        }
    }
}

/// Workflows.
impl Store {
    /// A workflow by its id, or by the first characters of it; `None` if there is none, or more than one.
    pub async fn workflow(&self, id: &str) -> Result<Option<WorkflowRow>, StoreError> {
        let mut found: Vec<WorkflowRow> =
            self.all("WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2", args![id, &format!("{id}\u{7f}")]).await?;
        let exact = found.iter().position(|row| row.id == id);
        Ok(match (exact, found.len()) {
            (Some(at), _) => Some(found.swap_remove(at)),
            (None, 1) => found.pop(),
            (None, _) => None,
        })
    }

    /// The open workflow of a loop.
    pub async fn open_workflow(&self, repo: &str, loop_name: &str) -> Result<Option<WorkflowRow>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND state <> 'ended'";
        Ok(self.all(rest, args![repo, loop_name]).await?.pop())
    }

    /// All workflows that have not ended.
    pub async fn open_workflows(&self) -> Result<Vec<WorkflowRow>, StoreError> {
        self.all("WHERE state <> 'ended' ORDER BY started_ms, id LIMIT $1", args![WORKFLOWS_MAX]).await
    }

    /// The latest workflows of a repository, newest first.
    pub async fn workflows(&self, repo: &str) -> Result<Vec<WorkflowRow>, StoreError> {
        let rest = "WHERE repo = $1 ORDER BY started_ms DESC, id DESC LIMIT $2";
        self.all(rest, args![repo, WORKFLOWS_MAX]).await
    }

    /// The rounds of all workflows that have not ended: their work has not landed yet.
    pub async fn rounds_of_open_workflows(&self) -> Result<Vec<String>, StoreError> {
        let rest = "WHERE round IS NOT NULL AND workflow IN (SELECT id FROM workflows WHERE state <> 'ended')";
        let parts: Vec<WorkflowPartRow> = self.all(rest, args![]).await?;
        Ok(parts.into_iter().filter_map(|part| part.round).collect())
    }

    /// The parts of a workflow, in order.
    pub async fn workflow_parts(&self, workflow: &str) -> Result<Vec<WorkflowPartRow>, StoreError> {
        let most = i64::try_from(PARTS_MAX).unwrap_or(i64::MAX);
        self.all("WHERE workflow = $1 ORDER BY position LIMIT $2", args![workflow, most]).await
    }
}

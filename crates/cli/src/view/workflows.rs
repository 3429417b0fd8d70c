//! The open workflows for `status`: how far each is, and whether a process runs it.

use super::{CommandError, Serialize, Store, safe};
use loopwright::store::{LeaseHolder, RoundLease, WorkflowRow};
use loopwright::workflow::{WorkflowReport, lease_name};

/// One open workflow.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WorkflowLine {
    pub(crate) workflow: String,
    #[serde(rename = "loop")]
    pub(crate) name: String,
    pub(crate) repo: String,
    /// `running`, `paused`, or `stopped` if no process runs it.
    pub(crate) state: &'static str,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) open: usize,
}

impl WorkflowLine {
    /// Reads all open workflows, the oldest first.
    pub(crate) async fn read_all(store: &Store) -> Result<Vec<Self>, CommandError> {
        let rows = store.open_workflows().await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let leases = store.leases().await?;
        let mut lines = Vec::new();
        for row in rows {
            lines.push(Self::read(store, row, &leases).await?);
        }
        Ok(lines)
    }

    async fn read(store: &Store, row: WorkflowRow, leases: &[RoundLease]) -> Result<Self, CommandError> {
        let lease = lease_name(&row.id);
        let is_running = leases.iter().any(|held| held.name == lease && held.holder != LeaseHolder::Gone);
        let state = match (store.is_paused_workflow(&row.id).await?, is_running) {
            (true, _) => "paused",
            (false, true) => "running",
            (false, false) => "stopped",
        };
        let repo = row.repo.clone();
        let report = WorkflowReport::read(store, row).await?;
        let WorkflowReport { workflow, r#loop: name, done, failed, open, .. } = report;
        Ok(Self { workflow, name, repo, state, done, failed, open })
    }

    /// For people, in one line.
    pub(crate) fn render(&self) -> String {
        let next = match self.state {
            "running" => "attach",
            _ => "resume",
        };
        let Self { workflow, state, done, failed, open, .. } = self;
        let name = safe(&self.name);
        format!(
            "workflow {workflow} of {name}: {state}, {done} done, {failed} failed, {open} open: loopwright {next} {workflow}"
        )
    }
}

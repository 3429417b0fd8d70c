//! People's requests to rounds: words for the next agent, and pauses. Any process may write one; only the process that
//! runs the round applies it. A request to a workflow is for each of its rounds, and waits as long as the workflow is open.

use super::Store;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::{StoreError, StoreErrorKind};
use super::rows::{SqlTable, table};
use loopwright_core::worded;

worded! {
    /// The kind of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RoundRequestKind {
        /// Words for the next agent.
        Steer = "steer",
        /// A pause before the next agent.
        Pause = "pause",
        /// The end of the round, at once.
        Stop = "stop",
    }
}

worded! {
    /// The state of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RoundRequestState {
        /// It waits for the next start of an agent.
        Pending = "pending",
        /// It is in the round's record.
        Applied = "applied",
        /// A person withdrew it.
        Withdrawn = "withdrawn",
    }
}

word_column!(RoundRequestKind, "kind of a request");
word_column!(RoundRequestState, "state of a request");

table! {
    /// A request to a round.
    RoundRequestRow in "round_requests" by ["id"], since 11;
    /// Its id; ids sort by time.
    id: String,
    /// The round, or the workflow.
    round: String,
    /// Its kind.
    kind: RoundRequestKind,
    /// The person.
    actor: String,
    /// The words, or the reason.
    text: String,
    /// When it was written.
    at_ms: i64,
    /// Its state.
    state: RoundRequestState,
}

/// Ends a pending request; one that is not pending is a conflict, so that it takes effect once.
pub(super) async fn settle(conn: &mut SqlConnection, id: &str, state: RoundRequestState) -> SqlResult<()> {
    let sql = "UPDATE round_requests SET state = $1 WHERE id = $2 AND state = 'pending'";
    match conn.exec(sql, args![state.word(), id]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("request `{id}` is not pending any more"))),
        _ => Ok(()),
    }
}

/// The most requests of one round that wait.
const PENDING_MAX: i64 = 100;

/// The most requests to end rounds that are read at once.
const STOPS_MAX: i64 = 1_000;

/// Requests to rounds.
impl Store {
    /// The requests to a round or to a workflow that wait, oldest first.
    pub async fn pending_requests(&self, round: &str) -> Result<Vec<RoundRequestRow>, StoreError> {
        self.all("WHERE round = $1 AND state = 'pending' ORDER BY at_ms, id LIMIT $2", args![round, PENDING_MAX]).await
    }

    /// The requests to end rounds that wait, oldest first.
    pub(crate) async fn stop_requests(&self) -> Result<Vec<RoundRequestRow>, StoreError> {
        let (stop, most) = (RoundRequestKind::Stop.word(), STOPS_MAX);
        self.all("WHERE state = 'pending' AND kind = $1 ORDER BY at_ms, id LIMIT $2", args![stop, most]).await
    }

    /// Whether a person has paused this workflow.
    pub async fn is_paused_workflow(&self, workflow: &str) -> Result<bool, StoreError> {
        let requests = self.pending_requests(workflow).await?;
        Ok(requests.iter().any(|request| request.kind == RoundRequestKind::Pause))
    }
}

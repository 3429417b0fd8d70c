//! Renaming: a person gives a loop another name, and it keeps its history, its pause, its marks, its items and its
//! memories. The journal records this as an event and is otherwise unchanged.

use crate::daemon::pause_question_id;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::random;
use crate::round::rows::item_question_id;
use crate::store::{InboxKind, InboxRow, NewEvent, RoundsFilter, RoundsQuery, RowChange, StoreBatch};
use loopwright_core::dispatch::LoopKey;

/// The number of items and open questions of a loop that are read.
const READ_MAX: u32 = 10_000;

/// A request to rename a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameRequest {
    /// The repository's id.
    pub repo: String,
    /// The name before.
    pub from: String,
    /// The name from now on.
    pub to: String,
    /// The person who requests it.
    pub actor: String,
}

impl RenameRequest {
    fn keys(&self) -> (LoopKey, LoopKey) {
        (LoopKey::new(&self.repo, &self.from), LoopKey::new(&self.repo, &self.to))
    }

    fn event(&self) -> NewEvent {
        let Self { repo, from, to, actor } = self;
        let body =
            serde_json::json!({ "event": "loop-renamed", "actor": actor, "repo": repo, "loop": to, "from": from });
        NewEvent { kind: "loop-renamed".to_owned(), body: body.to_string() }
    }
}

/// Whether a loop can be renamed now: a round that is not over writes under the name with which it started.
///
/// # Errors
/// A round of the loop is open, the new name has rounds of its own, or the store cannot be read.
pub async fn ensure_renamable(engine: &Engine, request: &RenameRequest) -> Result<(), EngineError> {
    let rounds = |name: &str, which| RoundsQuery {
        repo: Some(request.repo.clone()),
        loop_name: Some(name.to_owned()),
        which,
        limit: 1,
        ..RoundsQuery::default()
    };
    let busy = |loop_name: &str, why: String| EngineError::Busy { loop_name: loop_name.to_owned(), why };
    if let Some(open) = engine.store.rounds(rounds(&request.from, RoundsFilter::Open)).await?.pop() {
        let why = format!("round {} is {}; a loop is renamed when all its rounds are over", open.id, open.phase);
        return Err(busy(&request.from, why));
    }
    if let Some(own) = engine.store.rounds(rounds(&request.to, RoundsFilter::All)).await?.pop() {
        return Err(busy(&request.to, format!("it has rounds of its own, such as {}", own.id)));
    }
    Ok(())
}

/// Renames a loop in the store. The same is checked again in the transaction, and that no daemon has the store: a daemon
/// knows loops by their names, also those whose start is only being prepared.
///
/// # Errors
/// As [`ensure_renamable`], when a daemon has the store, or when the store cannot be written.
pub async fn rename_loop(engine: &Engine, request: &RenameRequest) -> Result<(), EngineError> {
    ensure_renamable(engine, request).await?;
    let (events, changes) = rename_rows(engine, request).await?;
    let round = format!("rename-{}", random::nonce()?);
    engine.append(StoreBatch { round, expect_index: 0, at_ms: engine.now_ms(), events: vec![events], changes }).await?;
    Ok(())
}

/// The event and the rows of a renaming. Questions whose ids contain the name get new ids.
async fn rename_rows(engine: &Engine, request: &RenameRequest) -> Result<(NewEvent, Vec<RowChange>), EngineError> {
    let RenameRequest { repo, from, to, .. } = request;
    let items = engine.store.items(repo, from, READ_MAX).await?;
    let (old, new) = request.keys();
    let renamed = |id: &str| {
        let item = items.iter().find(|item| item_question_id(repo, from, &item.key) == id);
        match item {
            Some(item) => Some(item_question_id(repo, to, &item.key)),
            None => (pause_question_id(&old) == id).then(|| pause_question_id(&new)),
        }
    };
    let mut changes = Vec::new();
    for row in engine.store.inbox(READ_MAX).await? {
        let is_named = matches!(row.kind, InboxKind::LoopPaused | InboxKind::ItemFailed);
        let is_ours = is_named && row.repo == *repo && row.loop_name == *from;
        let Some(id) = renamed(&row.id).filter(|_| is_ours) else { continue };
        changes.push(RowChange::InboxClosed { id: row.id.clone() });
        changes.push(RowChange::Inbox(InboxRow { id, ..row }));
    }
    changes.push(RowChange::LoopRenamed { repo: repo.clone(), from: from.clone(), to: to.clone() });
    Ok((request.event(), changes))
}

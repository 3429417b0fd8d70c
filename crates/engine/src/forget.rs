//! Forgetting: a person makes a loop process its items again and drops its memories. The journal records this as an
//! event; rounds, receipts and spend do not change.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::random;
use crate::round::rows::item_question_id;
use crate::store::{InboxKind, ItemRow, MemoryRow, NewEvent, RowChange, StoreBatch};
use loopwright_core::memory;

/// The number of items and open questions of a loop that are read.
const LOOKED_AT: u32 = 10_000;

/// A request to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetRequest {
    /// The repository's id.
    pub repo: String,
    /// The loop's name.
    pub loop_name: String,
    /// Only this item and its failures; if absent, every item and all memories of the loop.
    pub item: Option<String>,
    /// The person who requests it.
    pub actor: String,
}

/// The forgotten rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForgetReport {
    /// Items that the loop may process again.
    pub items: Vec<ItemRow>,
    /// Memories that were dropped.
    pub memories: Vec<MemoryRow>,
    /// Open questions about these items, which are closed too.
    pub questions: Vec<String>,
}

impl ForgetReport {
    /// Whether there was nothing to forget.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.memories.is_empty() && self.questions.is_empty()
    }
}

/// Forgets, and returns the forgotten rows. If there are none, nothing is recorded.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn forget(engine: &Engine, forget: ForgetRequest) -> Result<ForgetReport, EngineError> {
    let forgotten = to_forget(engine, &forget).await?;
    if forgotten.is_empty() {
        return Ok(forgotten);
    }
    let ForgetRequest { repo, loop_name, item, actor } = forget;
    let body = serde_json::json!({
        "event": "forgotten", "actor": actor, "repo": repo, "loop": loop_name, "item": item,
        "items": forgotten.items.len(), "memories": forgotten.memories.len(),
    });
    let event = NewEvent { kind: "forgotten".to_owned(), body: body.to_string() };
    let memory = item.as_deref().map(|item| memory::failure_key(Some(item)));
    let mut changes = vec![
        RowChange::ItemGone { repo: repo.clone(), loop_name: loop_name.clone(), key: item },
        RowChange::MemoryGone { repo, loop_name, key: memory },
    ];
    changes.extend(forgotten.questions.iter().map(|id| RowChange::InboxClosed { id: id.clone() }));
    let round = format!("forget-{}", random::nonce()?);
    engine.append(StoreBatch { round, expect_index: 0, at_ms: engine.now_ms(), events: vec![event], changes }).await?;
    Ok(forgotten)
}

async fn to_forget(engine: &Engine, forget: &ForgetRequest) -> Result<ForgetReport, EngineError> {
    let (repo, name) = (forget.repo.as_str(), forget.loop_name.as_str());
    let items = match &forget.item {
        Some(key) => Vec::from_iter(engine.store.item(repo, name, key).await?),
        None => engine.store.items(repo, name, LOOKED_AT).await?,
    };
    let mut memories = engine.store.memory(repo, name).await?;
    let mut questions = engine.store.inbox(LOOKED_AT).await?;
    questions.retain(|row| row.kind == InboxKind::ItemFailed && row.repo == repo && row.loop_name == name);
    if let Some(key) = &forget.item {
        let (failure, question) = (memory::failure_key(Some(key)), item_question_id(repo, name, key));
        memories.retain(|row| row.key == failure);
        questions.retain(|row| row.id == question);
    }
    Ok(ForgetReport { items, memories, questions: questions.into_iter().map(|row| row.id).collect() })
}

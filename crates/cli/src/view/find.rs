//! Resolves an id that a person typed: a whole round id, its beginning, an inbox id, or a loop's name.

use super::repo_view::RepoView;
use super::{CommandError, Store};
use loopwright::EngineError;
use loopwright::store::{InboxKind, InboxRow, RoundRow, RoundsQuery, WorkflowRow};

/// The longest text that is looked up.
const TEXT_MAX: usize = 200;

/// Every id begins with `r`, so that alone is more likely a typo than an id, and an answer cannot be undone.
const BEGINNING_MIN: usize = 2;

/// The thing that an id names.
pub(crate) enum LookupTarget {
    /// A round.
    Round(Box<RoundRow>),
    /// A loop, by its name.
    Loop(String),
}

/// The work that an id names: a person can follow, steer, pause and stop both.
pub(crate) enum RunTarget {
    /// A round.
    Round(Box<RoundRow>),
    /// A dynamic workflow.
    Workflow(Box<WorkflowRow>),
}

/// A round or a workflow by its id or its beginning. A whole id wins over a beginning, and a round over a workflow.
pub(crate) async fn find_run(store: &Store, text: &str) -> Result<RunTarget, CommandError> {
    let workflow = if text.len() < BEGINNING_MIN { None } else { store.workflow(text).await? };
    if let Some(row) = workflow.as_ref().filter(|row| row.id == text) {
        return Ok(RunTarget::Workflow(Box::new(row.clone())));
    }
    match (maybe_round(store, text).await?, workflow) {
        (Some(row), _) => Ok(RunTarget::Round(Box::new(row))),
        (None, Some(row)) => Ok(RunTarget::Workflow(Box::new(row))),
        (None, None) => Err(no_round(store, text).await?),
    }
}

/// A round by its id, its beginning, or a question about it.
pub(crate) async fn find_round(store: &Store, text: &str) -> Result<RoundRow, CommandError> {
    match maybe_round(store, text).await? {
        Some(row) => Ok(row),
        None => Err(no_round(store, text).await?),
    }
}

/// A loop's name instead of a round's is the likeliest mistake; the person has to choose one of its rounds.
async fn no_round(store: &Store, text: &str) -> Result<CommandError, CommandError> {
    Ok(match latest_of_loop(store, text).await? {
        Some(row) => CommandError::unknown(format!("`{text}` is a loop; name one of its rounds"))
            .hint(format!("its latest is {}; see `loopwright rounds {text}`", row.id)),
        None => CommandError::unknown(format!("no round is called `{text}`"))
            .hint("see `loopwright rounds`, and `loopwright inbox` for waiting ones"),
    })
}

/// The round that an id names, or the latest: of a loop, or of everything here.
pub(crate) async fn find_latest_round(
    store: &Store,
    here: Option<&RepoView>,
    id: Option<&str>,
) -> Result<RoundRow, CommandError> {
    let is_here = |name: &str| here.is_some_and(|here| here.has_loop_named(name));
    let loop_name = match id {
        None => None,
        Some(id) => match find_target(store, id, is_here(id)).await? {
            LookupTarget::Round(row) => return Ok(*row),
            LookupTarget::Loop(name) => Some(name),
        },
    };
    let repo = here.and_then(|here| here.scope(loop_name.as_deref()));
    let query = RoundsQuery { repo, loop_name, limit: 1, ..RoundsQuery::default() };
    let latest = store.rounds(query).await?.pop();
    latest.ok_or_else(|| CommandError::unknown("no round has run yet").hint("start one with `loopwright run LOOP`"))
}

async fn maybe_round(store: &Store, text: &str) -> Result<Option<RoundRow>, CommandError> {
    if text.is_empty() || text.len() > TEXT_MAX {
        return Ok(None);
    }
    if let Some(row) = store.round(text).await? {
        return Ok(Some(row));
    }
    if let Some(question) = store.inbox_item(text).await? {
        return Ok(store.round(&question.round).await?);
    }
    // The id of an approval is the round's id after two characters, so its beginning names the round too.
    let prefix = text.strip_prefix("a-").unwrap_or(text);
    if prefix.len() < BEGINNING_MIN {
        return Ok(None);
    }
    let candidates = store.rounds_like(prefix).await?;
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => Ok(store.round(only).await?),
        _ => Err(EngineError::Ambiguous { id: text.to_owned(), candidates }.into()),
    }
}

/// A round or a loop. A whole round id wins over a loop of that name, a loop over the beginning of a round's id.
pub(crate) async fn find_target(store: &Store, text: &str, is_loop: bool) -> Result<LookupTarget, CommandError> {
    if let Some(row) = store.round(text).await? {
        return Ok(LookupTarget::Round(Box::new(row)));
    }
    if is_loop || latest_of_loop(store, text).await?.is_some() {
        return Ok(LookupTarget::Loop(text.to_owned()));
    }
    if let Some(name) = find_questioned_loop(store, text).await? {
        return Ok(LookupTarget::Loop(name));
    }
    match maybe_round(store, text).await? {
        Some(row) => Ok(LookupTarget::Round(Box::new(row))),
        None => Err(not_found(text)),
    }
}

/// The loop of a question about a loop; the round of such a question has no meaning of its own.
async fn find_questioned_loop(store: &Store, id: &str) -> Result<Option<String>, CommandError> {
    let question = store.inbox_item(id).await?.filter(is_about_a_loop);
    Ok(question.map(|question| question.loop_name))
}

fn is_about_a_loop(question: &InboxRow) -> bool {
    matches!(question.kind, InboxKind::LoopPaused | InboxKind::LoopDemoted)
}

/// Nothing has that name.
pub(crate) fn not_found(text: &str) -> CommandError {
    CommandError::unknown(format!("no round and no loop is called `{text}`"))
        .hint("see `loopwright rounds` and `loopwright status`")
}

/// No loop has that name.
pub(crate) fn unknown_loop(name: &str) -> CommandError {
    CommandError::unknown(format!("no loop is called `{name}`")).hint("see `loopwright status`")
}

async fn latest_of_loop(store: &Store, name: &str) -> Result<Option<RoundRow>, CommandError> {
    let query = RoundsQuery { loop_name: Some(name.to_owned()), limit: 1, ..RoundsQuery::default() };
    Ok(store.rounds(query).await?.pop())
}

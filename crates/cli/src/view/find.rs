//! What a person means by an id: a whole round id, its beginning, an inbox id, or a loop's name.

use crate::error::CommandError;
use loopwright::EngineError;
use loopwright::store::{RoundRow, RoundsQuery, Store};

/// The longest text that is looked up at all.
const TEXT_MAX: usize = 200;

/// A shorter beginning is more likely a slip than an id, and an answer cannot be taken back.
const BEGINNING_MIN: usize = 4;

/// What an id names.
pub(crate) enum Target {
    /// A round.
    Round(Box<RoundRow>),
    /// A loop, by its name.
    Loop(String),
}

/// A round by its id, its beginning, or a question about it.
pub(crate) async fn round(store: &dyn Store, text: &str) -> Result<RoundRow, CommandError> {
    maybe_round(store, text).await?.ok_or_else(|| EngineError::Unknown(text.to_owned()).into())
}

async fn maybe_round(store: &dyn Store, text: &str) -> Result<Option<RoundRow>, CommandError> {
    if text.is_empty() || text.len() > TEXT_MAX {
        return Ok(None);
    }
    if let Some(row) = store.round(text).await? {
        return Ok(Some(row));
    }
    if let Some(question) = store.inbox_item(text).await? {
        return Ok(store.round(&question.round).await?);
    }
    // The id of an approval is the round's behind two characters, so its beginning names the round too.
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
pub(crate) async fn target(store: &dyn Store, text: &str, is_loop: bool) -> Result<Target, CommandError> {
    if let Some(row) = store.round(text).await? {
        return Ok(Target::Round(Box::new(row)));
    }
    if is_loop || has_run(store, text).await? {
        return Ok(Target::Loop(text.to_owned()));
    }
    match maybe_round(store, text).await? {
        Some(row) => Ok(Target::Round(Box::new(row))),
        None => Err(nothing(text)),
    }
}

/// Nothing has that name.
pub(crate) fn nothing(text: &str) -> CommandError {
    CommandError::unknown(format!("no round and no loop is called `{text}`"))
        .hint("see `loopwright rounds` and `loopwright status`")
}

async fn has_run(store: &dyn Store, name: &str) -> Result<bool, CommandError> {
    let query = RoundsQuery { loop_name: Some(name.to_owned()), limit: 1, ..RoundsQuery::default() };
    Ok(!store.rounds(query).await?.is_empty())
}

//! The planner's list of items: JSON, read strictly. A text that cannot be read is no list, and never an empty one.

use super::ITEMS_MAX;
use crate::round::ProbeItem;
use serde::Deserialize;

/// The most bytes of a list.
const BYTES_MAX: usize = 512 << 10;
/// The most characters of a key or a title.
const CHARS_MAX: usize = 400;
/// The most bytes of an item's data.
const DATA_MAX: usize = 16 << 10;

/// Why a text is no list of items.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the planner's list of items: {0}")]
pub struct ItemListError(String);

/// An element: a key, or a key with words for the maker.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListedItem {
    Key(String),
    Described(DescribedItem),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedItem {
    key: String,
    title: Option<String>,
    data: Option<String>,
}

/// Reads a JSON list of keys, or of `{ key, title, data }`, from the text itself or from its only `json` block. Items
/// with a known key are dropped.
///
/// # Errors
/// The first reason why the text is no such list.
pub fn read_item_list(text: &str) -> Result<Vec<ProbeItem>, ItemListError> {
    let no = |why: String| Err(ItemListError(why));
    if text.len() > BYTES_MAX {
        return no(format!("more than {BYTES_MAX} bytes"));
    }
    let listed: Vec<ListedItem> = match serde_json::from_str(json_in(text)) {
        Ok(listed) => listed,
        Err(error) => return no(format!("not a JSON list of items: {error}")),
    };
    if listed.len() > ITEMS_MAX {
        return no(format!("more than {ITEMS_MAX} items"));
    }
    let mut items: Vec<ProbeItem> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for item in listed {
        let item = read_item(item)?;
        if known.insert(item.key.clone()) {
            items.push(item);
        }
    }
    Ok(items)
}

/// The content of the only fenced block, or the whole text.
fn json_in(text: &str) -> &str {
    let mut parts = text.split("```");
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(block), Some(_), None) => block.strip_prefix("json").unwrap_or(block).trim(),
        _ => text.trim(),
    }
}

fn read_item(item: ListedItem) -> Result<ProbeItem, ItemListError> {
    let (key, title, data) = match item {
        ListedItem::Key(key) => (key, None, None),
        ListedItem::Described(DescribedItem { key, title, data }) => (key, title, data),
    };
    let key = key.trim().to_owned();
    let is_line = |text: &str| !text.chars().any(char::is_control) && text.chars().count() <= CHARS_MAX;
    if key.is_empty() || !is_line(&key) || !title.as_deref().is_none_or(is_line) {
        return Err(ItemListError(format!("a key or title is not one line of 1 to {CHARS_MAX} characters")));
    }
    if data.as_ref().is_some_and(|data| data.len() > DATA_MAX) {
        return Err(ItemListError(format!("the data of an item has more than {DATA_MAX} bytes")));
    }
    Ok(ProbeItem { key, title, data, chain: 0 })
}

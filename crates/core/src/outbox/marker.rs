//! Identities of sent items: the candidate's hash, the item's idempotency key, and the hidden marker that contains it.

use super::StagedItem;
use crate::hash;
use std::sync::LazyLock;

/// Enough digits of the hash that two items never share them.
const ID_DIGITS: usize = 32;

/// The hash of a candidate: the tree (`None` if nothing changed) and everything staged. An approval covers exactly this
/// hash.
#[must_use]
pub fn candidate_hash(tree: Option<&str>, items: &[StagedItem]) -> String {
    let staged = serde_json::to_vec(items).expect("staged items are plain data");
    let (has_tree, tree) = tree.map_or((b"no-tree".as_slice(), ""), |tree| (b"tree".as_slice(), tree));
    hash::hash_fields(&[b"loopwright candidate 1", has_tree, tree.as_bytes(), &staged])
}

/// The idempotency key of an item: the same item of the same candidate in the same round is delivered once.
#[must_use]
pub fn item_id(loop_name: &str, round: &str, position: u32, candidate: &str) -> String {
    let position = position.to_string();
    let fields: [&[u8]; 5] =
        [b"loopwright item 1", loop_name.as_bytes(), round.as_bytes(), position.as_bytes(), candidate.as_bytes()];
    let mut id = hash::hash_fields(&fields);
    id.truncate(ID_DIGITS);
    id
}

/// The identity of the work behind an item: the same for every round of the loop about the same items, or about the same
/// occurrence if it has none. A round that a person starts has an occurrence of its own.
#[must_use]
pub fn work_id(loop_name: &str, keys: &[&str], occurrence: &str, item: &StagedItem) -> String {
    let (position, target) = (item.position.to_string(), item.target.as_deref().unwrap_or_default());
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    if keys.is_empty() {
        keys.push(occurrence);
    }
    let mut fields: Vec<&[u8]> = vec![b"loopwright work 1", loop_name.as_bytes(), item.kind.word().as_bytes()];
    fields.extend([target.as_bytes(), position.as_bytes()]);
    fields.extend(keys.iter().map(|key| key.as_bytes()));
    let mut id = hash::hash_fields(&fields);
    id.truncate(ID_DIGITS);
    id
}

/// The hidden marker of an item, by which the engine finds it after a crash.
#[must_use]
pub fn marker(loop_name: &str, round: &str, position: u32, candidate: &str) -> String {
    let id = item_id(loop_name, round, position, candidate);
    format!("<!-- loopwright: loop={} round={} item={position} id={id} -->", word(loop_name), word(round))
}

/// The key in the first marker of a text. Agents' text is sanitised, so a marker in a text that the engine ends is
/// Loopwright's own.
#[must_use]
pub fn marker_id(text: &str) -> Option<&str> {
    static MARKER: LazyLock<regex::Regex> = LazyLock::new(|| {
        regex::Regex::new("<!-- loopwright: loop=[^ ]* round=[^ ]* item=[0-9]+ id=([0-9a-f]{32}) -->")
            .expect("the pattern is constant")
    });
    MARKER.captures(text).and_then(|found| found.get(1)).map(|id| id.as_str())
}

/// The loop in the first marker of a text.
#[must_use]
pub fn marker_loop(text: &str) -> Option<&str> {
    let marker = &text[text.find("<!-- loopwright: loop=")?..];
    marker_id(marker)?;
    marker.strip_prefix("<!-- loopwright: loop=")?.split(' ').next()
}

/// The round in the first marker of a text.
#[must_use]
pub fn marker_round(text: &str) -> Option<&str> {
    let marker = &text[text.find("<!-- loopwright: loop=")?..];
    marker_id(marker)?;
    marker.split(' ').find_map(|word| word.strip_prefix("round="))
}

/// A name that cannot end the comment around it: only `>` could. A loop's own name stays as it is, so that the loop
/// recognises its markers.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    text.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ActionKind;

    #[test]
    fn candidate_changes_with_the_tree_and_with_every_item() {
        let item = |body: &str| StagedItem::new(1, "report.md", ActionKind::Report, body);
        let all = [
            candidate_hash(None, &[]),
            candidate_hash(Some(""), &[]),
            candidate_hash(Some("t1"), &[]),
            candidate_hash(Some("t2"), &[]),
            candidate_hash(Some("t1"), &[item("a")]),
            candidate_hash(Some("t1"), &[item("b")]),
            candidate_hash(Some("t1"), &[item("a"), item("a")]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(candidate_hash(Some("t1"), &[item("a")]), all[4]);
    }

    #[test]
    fn marker_carries_the_key_and_is_read_back() {
        let text = format!("hello\n{}\n", marker("docs", "r-1", 2, "c"));
        let id = item_id("docs", "r-1", 2, "c");
        assert_eq!(text, format!("hello\n<!-- loopwright: loop=docs round=r-1 item=2 id={id} -->\n"));
        assert_eq!(marker_id(&text), Some(id.as_str()));
        assert_eq!(marker_id("<!-- loopwright: loop=a round=b item=1 id=beef -->"), None);
        assert_ne!(id, item_id("docs", "r-1", 3, "c"));
        assert_ne!(id, item_id("docs", "r-1", 2, "d"));
    }

    #[test]
    fn a_name_cannot_end_the_marker() {
        assert!(marker("x --> y", "r", 1, "c").starts_with("<!-- loopwright: loop=x_--__y round="));
        assert_eq!(marker("a-->b", "r", 1, "c").matches("-->").count(), 1);
    }

    #[test]
    fn every_loop_recognises_its_own_marker() {
        for name in ["docs", "a--b", "a__b", "x.y_z", "-", "--"] {
            assert_eq!(marker_loop(&marker(name, "r", 1, "c")), Some(name));
        }
    }
}

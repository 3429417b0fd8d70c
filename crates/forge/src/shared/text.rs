//! The text of a pull request: the item's body, the markers, and a hash that shows later whether a person edited it.

use loopwright_core::deliver::Delivery;
use loopwright_core::outbox::marker_id;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Forges reject longer texts; GitHub's limit is 65,536 characters with the markers.
const TEXT_CHARS_MAX: usize = 60_000;
/// The most markers of earlier versions that a text keeps.
const MARKERS_MAX: usize = 20;
const HASH_PREFIX: &str = "<!-- loopwright-text: ";

/// The item's text with its marker, within the forges' limit.
pub(super) fn marked(item: &Delivery) -> String {
    let work = item.work_mark().map_or(String::new(), |mark| format!("{mark}\n"));
    format!("{}\n{}\n{work}", item.body_within(TEXT_CHARS_MAX), item.marker)
}

/// The title of a pull request or issue.
pub(super) fn title(item: &Delivery) -> String {
    let title = item.item.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
    title.map_or_else(|| format!("{}: {}", item.loop_name, item.item.kind), str::to_owned)
}

/// The text of a pull request that replaces `earlier`: its markers stay, so that earlier items are still found.
pub(super) fn pull_body(item: &Delivery, title: &str, earlier: &str) -> String {
    let mut body = marked(item);
    let is_marker = |line: &&str| marker_id(line).is_some() && *line != item.marker;
    for line in earlier.lines().map(str::trim).filter(is_marker).take(MARKERS_MAX) {
        body.push_str(line);
        body.push('\n');
    }
    // Writing into a string cannot fail.
    let _ = writeln!(body, "{HASH_PREFIX}{} -->", hash(title, &body));
    body
}

/// Whether a pull request's title and text are still as they were written.
pub(super) fn is_untouched(title: &str, body: &str) -> bool {
    let Some(at) = body.rfind(HASH_PREFIX) else { return false };
    let (text, last) = body.split_at(at);
    let written = last.strip_prefix(HASH_PREFIX).and_then(|rest| rest.trim_end().strip_suffix(" -->"));
    written == Some(hash(title, text).as_str())
}

/// Line ends and white space at the ends of lines do not count: forges change them.
fn hash(title: &str, text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(title.trim().as_bytes());
    for line in text.trim().lines() {
        digest.update(b"\n");
        digest.update(line.trim_end().as_bytes());
    }
    digest.finalize().iter().take(8).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::outbox::{StagedItem, item_id, marker};
    use loopwright_core::spec::ActionKind;

    fn item(round: &str, body: &str) -> Delivery {
        let item = StagedItem::new(1, "pull-request.md", ActionKind::PullRequest, body);
        Delivery {
            work: String::new(),
            loop_name: "fixer".to_owned(),
            round: round.to_owned(),
            repo: "repo".to_owned(),
            marker: marker("fixer", round, 1, "c1"),
            key: item_id("fixer", round, 1, "c1"),
            branch: "loop/fixer/r1".to_owned(),
            commit: None,
            tree: None,
            base_branch: "main".to_owned(),
            base_commit: String::new(),
            reviewed_head: None,
            question: None,
            draft: true,
            labels: Vec::new(),
            facts: Vec::new(),
            item,
        }
    }

    #[test]
    fn an_edit_of_title_or_text_is_noticed_and_other_line_ends_are_not() {
        let body = pull_body(&item("r1", "One.\n\nTwo."), "Title", "");
        assert!(is_untouched("Title", &body));
        assert!(is_untouched(" Title ", &body.replace('\n', "\r\n")));
        assert!(!is_untouched("Another", &body));
        assert!(!is_untouched("Title", &body.replace("One", "Three")));
        assert!(!is_untouched("Title", "A text of a person"));
    }

    #[test]
    fn new_text_keeps_the_markers_of_earlier_ones() {
        let first = pull_body(&item("r1", "One."), "Title", "");
        let second = pull_body(&item("r2", "Two."), "Title", &first);
        let third = pull_body(&item("r3", "Three."), "Title", &second);
        for round in ["r1", "r2", "r3"] {
            assert!(third.contains(&item(round, "").marker), "{third}");
        }
        assert_eq!(marker_id(&third), Some(item("r3", "").key.as_str()));
        assert!(is_untouched("Title", &third) && !third.contains("Two."));
    }

    #[test]
    fn long_text_is_cut_and_keeps_its_footer_and_its_marker() {
        let mut item = item("r1", &format!("```\n{}", "ä line\n".repeat(20_000)));
        for kind in [ActionKind::PullRequest, ActionKind::IssueComment] {
            item.item.kind = kind;
            let text = marked(&item);
            let count = text.chars().count();
            assert!((50_000..65_536).contains(&count), "{count} characters");
            let end = format!(
                "```\n\nThe text is cut here: it exceeds the forge's limit.\n\n{}\n\n{}\n",
                item.footer().expect("a footer"),
                item.marker
            );
            assert!(text.ends_with(&end), "{}", &text[text.len() - 400..]);
        }
    }
}

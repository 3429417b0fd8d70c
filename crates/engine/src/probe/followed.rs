//! Our own open pull requests: each failed check and each comment of a person on one is an item, once. The
//! comments of loops are no work for them.

use super::pull_text::{PullDetails, comment_line};
use crate::git::Oid;
use loopwright_core::forge::{CheckRun, CommentKind, ForgeComment, ForgeError, PullRequest, ReadForge};
use loopwright_core::hash::hash_fields;
use loopwright_core::round::ProbeItem;

/// Accounts of programs on GitHub end with this.
const PROGRAM: &str = "[bot]";

/// The most bytes of a check's name in a key: keys have at most 200, and a commit's name up to 64.
const NAME_BYTES_MAX: usize = 80;

/// Whether a loop opened the pull request.
pub(super) fn is_of_a_loop(pull: &PullRequest) -> bool {
    pull.about.loop_name.is_some()
}

/// The work on a loop's pull request, without the pull request's own text.
pub(super) async fn needs(forge: &dyn ReadForge, pull: &PullRequest) -> Result<Vec<ProbeItem>, ForgeError> {
    let details = PullDetails::read(forge, pull).await?;
    let checks = details.failed().map(|check| check_item(pull, check));
    let comments = details.comments.iter().filter(|comment| is_of_a_person(comment));
    Ok(checks.chain(comments.map(|comment| comment_item(pull, comment))).collect())
}

/// `pr-7:check-build@<head>`: a check counts again when it fails on another commit.
fn check_item(pull: &PullRequest, check: &CheckRun) -> ProbeItem {
    let number = pull.about.number;
    let title = format!("the check `{}` failed on pull request {number}", check.name);
    ProbeItem {
        key: format!("pr-{number}:check-{}@{}", key_name(&check.name), check.head),
        data: Some(title.clone()),
        title: Some(title),
        chain: 0,
    }
}

/// `pr-7:conflict@<base>`: a conflict counts again when base has moved further.
pub(super) fn conflict_item(pull: &PullRequest, base: &Oid, paths: &[String]) -> ProbeItem {
    let (number, branch) = (pull.about.number, &pull.base_branch);
    let title = format!("pull request {number} conflicts with `{branch}` in {}", paths.join(", "));
    ProbeItem { key: format!("pr-{number}:conflict@{base}"), data: Some(title.clone()), title: Some(title), chain: 0 }
}

/// The name of a check in a key, which has a limit: a long name is its beginning and a hash.
fn key_name(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control) {
        return name.to_owned();
    }
    let shown: String = name.chars().filter(|c| !c.is_control()).scan(0, within).collect();
    let hash = hash_fields(&[b"loopwright check name 1", name.as_bytes()]);
    format!("{shown}-{}", hash.get(..12).unwrap_or_default())
}

/// Characters up to half of the limit.
fn within(bytes: &mut usize, c: char) -> Option<char> {
    *bytes += c.len_utf8();
    (*bytes <= NAME_BYTES_MAX / 2).then_some(c)
}

/// `pr-7:comment-<id>`.
fn comment_item(pull: &PullRequest, comment: &ForgeComment) -> ProbeItem {
    let number = pull.about.number;
    let author = comment.author.as_deref().unwrap_or("an unknown account");
    ProbeItem {
        key: format!("pr-{number}:comment-{}", comment.id),
        title: Some(format!("{author} commented on pull request {number}")),
        data: Some(comment_line(comment)),
        chain: 0,
    }
}

/// A review has an empty text if it only groups comments on lines, or only approves.
fn is_of_a_person(comment: &ForgeComment) -> bool {
    let is_program = comment.author.as_ref().is_some_and(|author| author.ends_with(PROGRAM));
    let text = comment.body.trim();
    comment.loop_name.is_none()
        && !is_program
        && comment.kind != CommentKind::Labels
        && !text.is_empty()
        && text != "(approved)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_of_a_check_fits_into_a_key_and_names_stay_different() {
        assert_eq!(key_name("build (linux, x86)"), "build (linux, x86)");
        let (first, second) = (format!("{}1", "ö".repeat(200)), format!("{}2", "ö".repeat(200)));
        assert!(key_name(&first).len() <= NAME_BYTES_MAX && key_name(&first).starts_with("öö"), "{}", key_name(&first));
        assert_ne!(key_name(&first), key_name(&second));
        let longest = format!("pr-{}:check-{}@{}", u64::MAX, key_name(&first), "a".repeat(64));
        assert!(longest.len() <= super::super::command::KEY_MAX, "{}", longest.len());
        assert!(!key_name("a\nb").contains('\n'));
    }

    #[test]
    fn comments_of_loops_and_programs_and_bare_reviews_are_no_work() {
        let comment = |author: &str, loop_name: Option<&str>, kind, body: &str| ForgeComment {
            author_id: None,
            created_ms: 0,
            is_edited: false,
            id: "1".to_owned(),
            kind,
            author: Some(author.to_owned()),
            loop_name: loop_name.map(str::to_owned),
            body: body.to_owned(),
        };
        let table = [
            (comment("ada", None, CommentKind::Plain, "Why?"), true),
            (comment("ada", None, CommentKind::Inline, "answer:1: Why?"), true),
            (comment("ada", None, CommentKind::Review, "(changes requested) No."), true),
            (comment("ada", None, CommentKind::Review, ""), false),
            (comment("ada", None, CommentKind::Review, "(approved) "), false),
            (comment("bot", Some("fix"), CommentKind::Plain, "I looked."), false),
            (comment("coverage[bot]", None, CommentKind::Plain, "90 %"), false),
            (comment("ada", None, CommentKind::Labels, "- bug"), false),
        ];
        for (comment, is_work) in table {
            assert_eq!(is_of_a_person(&comment), is_work, "{comment:?}");
        }
    }
}

//! A pull request as the data of an item: its text, its checks, its comments, its files and its diff. All of it is other
//! people's text; each part has a limit, and the diff, the longest part, comes last.

use loopwright_core::forge::{
    CheckQuery, CheckRun, CheckState, CommentKind, CommentsOf, ForgeComment, ForgeError, PullFile, PullRequest,
    ReadForge, read_rows,
};
use std::fmt::Write as _;
use std::num::NonZeroUsize;

/// The most bytes of the pull request's own text.
const TEXT_MAX: usize = 8 << 10;
/// The most bytes of a check's output; the end is kept, because the error is there.
const OUTPUT_MAX: usize = 4 << 10;
/// The most failed checks with their output.
const CHECKS_MAX: usize = 5;
/// The most bytes of a comment, and of all comments together; the newest are kept.
const COMMENT_MAX: usize = 2 << 10;
const COMMENTS_MAX: usize = 8 << 10;
/// The most files in the list.
const FILES_MAX: usize = 100;
/// The most rows that are read of a pull request's checks and comments.
const ROWS_MAX: NonZeroUsize = NonZeroUsize::new(1000).expect("it is not zero");

/// The parts of a pull request besides its own text.
pub(super) struct PullDetails {
    pub(super) checks: Vec<CheckRun>,
    pub(super) comments: Vec<ForgeComment>,
}

impl PullDetails {
    /// Reads the checks of the pull request's head, and its comments.
    pub(super) async fn read(forge: &dyn ReadForge, pull: &PullRequest) -> Result<Self, ForgeError> {
        let query = &CheckQuery { heads: vec![pull.head.clone()], ..CheckQuery::default() };
        let of = CommentsOf::Pull(pull.about.number);
        let checks = read_rows(ROWS_MAX, |from| Box::pin(async move { forge.checks(query, from.as_ref()).await }));
        let comments = read_rows(ROWS_MAX, |from| Box::pin(async move { forge.comments(of, from.as_ref()).await }));
        Ok(Self { checks: checks.await?, comments: comments.await? })
    }

    pub(super) fn failed(&self) -> impl Iterator<Item = &CheckRun> {
        self.checks.iter().filter(|check| check.state == CheckState::Failed)
    }
}

/// Everything about a pull request that a maker needs, with the diff.
pub(super) async fn pull_text(forge: &dyn ReadForge, pull: &PullRequest) -> Result<String, ForgeError> {
    let details = PullDetails::read(forge, pull).await?;
    let files = forge.changed_files(pull.about.number).await?;
    Ok(render(pull, &details, &files))
}

pub(super) fn render(pull: &PullRequest, details: &PullDetails, files: &[PullFile]) -> String {
    let mut text = heading(pull);
    // Writing into a string cannot fail.
    let _ = write!(text, "\n\n{}\n", head(&pull.about.body, TEXT_MAX));
    text.push_str(&checks_text(details));
    text.push_str(&comments_text(&details.comments));
    let _ = writeln!(text, "\nchanged files: {}", files.len());
    for file in files.iter().take(FILES_MAX) {
        let _ = writeln!(text, "- {}", file.path);
    }
    text.push_str("\ndiff:\n");
    for file in files {
        let patch = file.patch.as_deref().unwrap_or("(the forge shows no diff of this file)");
        // A forge's patch of one file may lack the file's name.
        let name = if patch.starts_with("diff --git ") { String::new() } else { format!("--- {}\n", file.path) };
        let _ = writeln!(text, "{name}{}", patch.trim_end());
    }
    text
}

fn heading(pull: &PullRequest) -> String {
    let about = &pull.about;
    let author = about.author.as_deref().unwrap_or("an unknown account");
    let draft = if pull.draft { "draft, " } else { "" };
    format!(
        "pull request {} by {author}: {draft}branch `{}` at {} into `{}`",
        about.number, pull.branch, pull.head, pull.base_branch
    )
}

/// A pull request without checks is not green, so that is stated, too.
fn checks_text(details: &PullDetails) -> String {
    let count = |state| details.checks.iter().filter(|check| check.state == state).count();
    let (passed, pending, failed) = (count(CheckState::Passed), count(CheckState::Pending), count(CheckState::Failed));
    if details.checks.is_empty() {
        return "\nchecks: none are reported for this commit\n".to_owned();
    }
    let mut text = format!("\nchecks: {passed} passed, {pending} not finished, {failed} failed\n");
    for check in details.failed().take(CHECKS_MAX) {
        let _ = writeln!(text, "failed: {}: {}", check.name, check.title.as_deref().unwrap_or_default());
        let _ = writeln!(text, "{}", tail(check.body.trim_end(), OUTPUT_MAX));
    }
    text
}

fn comments_text(comments: &[ForgeComment]) -> String {
    let written = comments.iter().filter(|one| one.kind != CommentKind::Labels && !one.body.trim().is_empty());
    let rows: Vec<String> = written.map(comment_line).collect();
    if rows.is_empty() {
        return "\ncomments: none\n".to_owned();
    }
    let mut kept = 0;
    let newest = rows.iter().rev().take_while(|row| {
        kept += row.len();
        kept <= COMMENTS_MAX
    });
    let newest = newest.count();
    let left_out = rows.len() - newest;
    let note = if left_out > 0 { format!(" ({left_out} older ones are left out)") } else { String::new() };
    format!("\ncomments: {}{note}\n{}", rows.len(), rows[left_out..].concat())
}

pub(super) fn comment_line(comment: &ForgeComment) -> String {
    let author = comment.author.as_deref().unwrap_or("an unknown account");
    let by = comment.loop_name.as_ref().map_or_else(|| author.to_owned(), |name| format!("the loop {name}"));
    format!("{by}: {}\n", head(comment.body.trim(), COMMENT_MAX))
}

fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn tail(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use loopwright_core::forge::{ForgeItem, ItemState};

    fn pull() -> PullRequest {
        let about = ForgeItem {
            number: 7,
            title: Some("Add a product".to_owned()),
            body: "It multiplies.".to_owned(),
            author: Some("ada".to_owned()),
            loop_name: None,
            state: ItemState::Open,
            labels: Vec::new(),
            assignees: Vec::new(),
        };
        let (branch, head, base_branch) = ("product".to_owned(), "abc".to_owned(), "main".to_owned());
        PullRequest { about, draft: true, branch, head, base_branch }
    }

    fn check(name: &str, state: CheckState, body: &str) -> CheckRun {
        let title = Some("1 failed".to_owned());
        CheckRun { name: name.to_owned(), state, head: "abc".to_owned(), branch: None, title, body: body.to_owned() }
    }

    fn comment(body: &str, loop_name: Option<&str>) -> ForgeComment {
        let (author, loop_name) = (Some("bob".to_owned()), loop_name.map(str::to_owned));
        ForgeComment {
            author_id: None,
            created_ms: 0,
            is_edited: false,
            id: "1".to_owned(),
            kind: CommentKind::Inline,
            author,
            loop_name,
            body: body.to_owned(),
        }
    }

    #[test]
    fn item_has_checks_comments_files_and_the_diff() {
        let details = PullDetails {
            checks: vec![check("lint", CheckState::Passed, ""), check("build", CheckState::Failed, "calc.sh:2: bad\n")],
            comments: vec![comment("calc.sh:2: Why?", None), comment("I looked.", Some("fix"))],
        };
        let files = [
            PullFile { path: "calc.sh".to_owned(), patch: Some("@@ -2 +2 @@\n-a\n+b\n".to_owned()) },
            PullFile { path: "logo.png".to_owned(), patch: None },
        ];
        expect![[r#"
            pull request 7 by ada: draft, branch `product` at abc into `main`

            It multiplies.

            checks: 1 passed, 0 not finished, 1 failed
            failed: build: 1 failed
            calc.sh:2: bad

            comments: 2
            bob: calc.sh:2: Why?
            the loop fix: I looked.

            changed files: 2
            - calc.sh
            - logo.png

            diff:
            --- calc.sh
            @@ -2 +2 @@
            -a
            +b
            --- logo.png
            (the forge shows no diff of this file)
        "#]]
        .assert_eq(&render(&pull(), &details, &files));
    }

    #[test]
    fn long_parts_are_cut_and_the_newest_comments_and_the_end_of_an_output_stay() {
        let comments = (0..20).map(|number| comment(&format!("{number} {}", "x".repeat(1000)), None)).collect();
        let output = format!("{}the error", "noise\n".repeat(5000));
        let details = PullDetails { checks: vec![check("build", CheckState::Failed, &output)], comments };
        let text = render(&pull(), &details, &[]);
        assert!(text.len() < 16 << 10, "{} bytes", text.len());
        assert!(text.contains("the error\n") && text.contains("19 xxx") && !text.contains("bob: 0 xxx"), "{text}");
        assert!(text.contains("comments: 20 (") && text.contains(" older ones are left out)"), "{text}");
        let none = PullDetails { checks: Vec::new(), comments: Vec::new() };
        assert!(render(&pull(), &none, &[]).contains("checks: none are reported"));
    }
}

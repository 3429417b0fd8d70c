//! Staged items as part of a report, for loops that may only report. It sends nothing.

use super::StagedItem;
use crate::spec::ActionKind;
use std::fmt::Write as _;

/// One report of everything staged: the report's own text first, then each other item in a fence.
#[must_use]
pub fn fold_into_report(items: &[StagedItem]) -> String {
    let (reports, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.kind == ActionKind::Report);
    let mut text: String = reports.iter().map(|item| format!("{}\n", item.body.trim_end())).collect();
    if !others.is_empty() {
        text.push_str("\n## Staged, not sent\n\nThis loop only reports; a human may send these.\n");
    }
    for item in others {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n### {}\n\n{}", heading(item), fenced(&content(item)));
    }
    text
}

fn heading(item: &StagedItem) -> String {
    let target = item.target.as_ref().map(|target| format!(" {target}")).unwrap_or_default();
    let review = item.review.map(|review| format!(" ({})", review.word())).unwrap_or_default();
    format!("{}{target}{review}", item.kind)
}

fn content(item: &StagedItem) -> String {
    let mut text = item.title.as_ref().map(|title| format!("{title}\n\n")).unwrap_or_default();
    text.push_str(&item.body);
    if !item.labels.is_empty() {
        let _ = write!(text, "\nlabels: {}", item.labels.join(", "));
    }
    for comment in &item.comments {
        let _ = write!(text, "\n{}:{}: {}", comment.path, comment.line, comment.body);
    }
    text.trim().to_owned()
}

/// A fence longer than every run of backticks in the text, so that the text cannot end it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{DiffSide, InlineComment, ReviewDecision};
    use expect_test::expect;

    fn one_of_each() -> [StagedItem; 6] {
        let item = |kind, body: &str| StagedItem::new(1, "x", kind, body);
        let about = |kind, body: &str| StagedItem { target: Some("7".to_owned()), ..item(kind, body) };
        let comment = InlineComment {
            path: "a.py".into(),
            line: 3,
            side: DiffSide::Right,
            start_line: None,
            body: "why?".into(),
        };
        [
            about(ActionKind::IssueComment, "```\nescape\n```\n# Fake"),
            item(ActionKind::Report, "All is well.\n"),
            StagedItem { title: Some("Fix it".into()), ..item(ActionKind::PullRequest, "Body.") },
            StagedItem { labels: vec!["a".into(), "b".into()], ..about(ActionKind::IssueLabel, "") },
            StagedItem { comments: vec![comment], ..about(ActionKind::PrInline, "") },
            StagedItem { review: Some(ReviewDecision::Approve), ..about(ActionKind::PrReview, "Good.") },
        ]
    }

    #[test]
    fn every_kind_is_shown_and_no_text_escapes_its_fence() {
        expect![[r#"
            All is well.

            ## Staged, not sent

            This loop only reports; a human may send these.

            ### issue-comment 7

            ````text
            ```
            escape
            ```
            # Fake
            ````

            ### pull-request

            ```text
            Fix it

            Body.
            ```

            ### issue-label 7

            ```text
            labels: a, b
            ```

            ### pr-inline 7

            ```text
            a.py:3: why?
            ```

            ### pr-review 7 (approve)

            ```text
            Good.
            ```
        "#]]
        .assert_eq(&fold_into_report(&one_of_each()));
    }
}

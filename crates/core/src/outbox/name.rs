//! The grammar of staged file names. It parses only names; the parser reads the content.

use super::ReviewDecision;
use crate::spec::ActionKind;

/// No forge has numbers with more digits.
const NUMBER_DIGITS_MAX: usize = 10;
const WEBHOOK_NAME_MAX: usize = 64;
const ORDER_DIGITS_MAX: usize = 4;

/// The parts of a file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboxFileName {
    /// The order prefix; files without one come last.
    pub(crate) order: Option<u32>,
    pub(crate) kind: ActionKind,
    pub(crate) target: Option<String>,
    pub(crate) review: Option<ReviewDecision>,
}

/// Parses a name such as `02-issue-comment-7.md`; the error is the reason why it is not valid.
pub(crate) fn read(name: &str) -> Result<OutboxFileName, String> {
    let (order, rest) = split_order(name);
    let (kind, target, review) = match rest {
        "report.md" => (ActionKind::Report, None, None),
        "pull-request.md" | "PR_BODY.md" => (ActionKind::PullRequest, None, None),
        "commit.md" => (ActionKind::Commit, None, None),
        "issue-create.md" => (ActionKind::IssueCreate, None, None),
        "slack.md" => (ActionKind::Slack, None, None),
        _ => read_targeted(rest)?,
    };
    Ok(OutboxFileName { order, kind, target, review })
}

/// The file name of an item, in the form that [`read`] parses.
pub(crate) fn write(kind: ActionKind, target: &str, review: Option<ReviewDecision>) -> String {
    match (kind, review) {
        (ActionKind::IssueComment | ActionKind::PrComment, _) => format!("{kind}-{target}.md"),
        (ActionKind::IssueLabel, _) => format!("{kind}-{target}.txt"),
        (ActionKind::PrInline, _) => format!("{kind}-{target}.jsonl"),
        (ActionKind::PrReview, review) => format!("pr-{}-{target}.md", review.map_or("review", ReviewDecision::word)),
        (ActionKind::Webhook, _) => format!("{kind}-{target}.json"),
        (
            ActionKind::Report
            | ActionKind::PullRequest
            | ActionKind::Commit
            | ActionKind::IssueCreate
            | ActionKind::Slack,
            _,
        ) => format!("{kind}.md"),
    }
}

fn split_order(name: &str) -> (Option<u32>, &str) {
    match name.split_once('-') {
        Some((digits, rest)) if (1..=ORDER_DIGITS_MAX).contains(&digits.len()) => match decimal(digits) {
            Some(order) => (Some(order), rest),
            None => (None, name),
        },
        _ => (None, name),
    }
}

fn decimal(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

type Parts = (ActionKind, Option<String>, Option<ReviewDecision>);

fn read_targeted(rest: &str) -> Result<Parts, String> {
    const FORMS: [(&str, &str, ActionKind, Option<ReviewDecision>); 6] = [
        ("issue-comment-", ".md", ActionKind::IssueComment, None),
        ("issue-label-", ".txt", ActionKind::IssueLabel, None),
        ("pr-comment-", ".md", ActionKind::PrComment, None),
        ("pr-inline-", ".jsonl", ActionKind::PrInline, None),
        ("pr-approve-", ".md", ActionKind::PrReview, Some(ReviewDecision::Approve)),
        ("pr-request-changes-", ".md", ActionKind::PrReview, Some(ReviewDecision::RequestChanges)),
    ];
    for (prefix, suffix, kind, review) in FORMS {
        if let Some(target) = between(rest, prefix, suffix) {
            return Ok((kind, Some(number(target)?), review));
        }
    }
    match between(rest, "webhook-", ".json") {
        Some(name) => Ok((ActionKind::Webhook, Some(webhook_name(name)?), None)),
        None => Err("unknown outbox file".to_owned()),
    }
}

fn between<'a>(text: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    text.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// An issue or pull request number in its only accepted spelling, so that a disguised target cannot pass an allowlist.
pub(crate) fn number(text: &str) -> Result<String, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && text.len() <= NUMBER_DIGITS_MAX && !text.starts_with('0') {
        return Ok(text.to_owned());
    }
    Err("the number must be 1 to 10 digits without sign or leading zero".to_owned())
}

pub(crate) fn webhook_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.len() <= WEBHOOK_NAME_MAX && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err("a webhook's name is 1 to 64 of a-z, 0-9, `-` and `_`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        match read(name) {
            Err(why) => why,
            Ok(OutboxFileName { order, kind, target, review }) => {
                let order = order.map_or("-".to_owned(), |order| order.to_string());
                let review = review.map_or("", ReviewDecision::word);
                format!("{order} {kind} {} {review}", target.unwrap_or_default()).trim_end().to_owned()
            }
        }
    }

    #[test]
    fn all_valid_names_are_parsed() {
        let table = [
            ("report.md", "- report"),
            ("01-report.md", "1 report"),
            ("pull-request.md", "- pull-request"),
            ("PR_BODY.md", "- pull-request"),
            ("10-commit.md", "10 commit"),
            ("issue-create.md", "- issue-create"),
            ("issue-comment-7.md", "- issue-comment 7"),
            ("0003-issue-comment-7.md", "3 issue-comment 7"),
            ("issue-label-9999999999.txt", "- issue-label 9999999999"),
            ("pr-comment-12.md", "- pr-comment 12"),
            ("99-pr-inline-12.jsonl", "99 pr-inline 12"),
            ("pr-approve-12.md", "- pr-review 12 approve"),
            ("pr-request-changes-12.md", "- pr-review 12 request-changes"),
            ("slack.md", "- slack"),
            ("webhook-deploy_it-2.json", "- webhook deploy_it-2"),
        ];
        for (name, expected) in table {
            assert_eq!(shown(name), expected, "{name}");
        }
    }

    #[test]
    fn written_name_parses_back() {
        for name in ["report.md", "issue-label-7.txt", "pr-inline-7.jsonl", "pr-approve-7.md", "webhook-x.json"] {
            let OutboxFileName { kind, target, review, .. } = read(name).expect("a name of the grammar");
            assert_eq!(write(kind, target.as_deref().unwrap_or_default(), review), name);
        }
    }

    #[test]
    fn invalid_names_report_the_reason() {
        const UNKNOWN: &str = "unknown outbox file";
        const NUMBER: &str = "the number must be 1 to 10 digits without sign or leading zero";
        const WEBHOOK: &str = "a webhook's name is 1 to 64 of a-z, 0-9, `-` and `_`";
        let table = [
            ("", UNKNOWN),
            ("-report.md", UNKNOWN),
            ("00001-report.md", UNKNOWN),
            ("+1-report.md", UNKNOWN),
            ("01-02-report.md", UNKNOWN),
            ("1_report.md", UNKNOWN),
            ("Report.md", UNKNOWN),
            ("report.md ", UNKNOWN),
            ("report.md\n", UNKNOWN),
            ("report.markdown", UNKNOWN),
            ("./report.md", UNKNOWN),
            ("../report.md", UNKNOWN),
            ("a/report.md", UNKNOWN),
            (".report.md.swp", UNKNOWN),
            ("deploy.md", UNKNOWN),
            ("issue-comment.md", UNKNOWN),
            ("issue-label-7.md", UNKNOWN),
            ("pr-merge-7.md", UNKNOWN),
            ("issue-comment-.md", NUMBER),
            ("issue-comment-0.md", NUMBER),
            ("issue-comment-007.md", NUMBER),
            ("issue-comment--7.md", NUMBER),
            ("issue-comment-+7.md", NUMBER),
            ("issue-comment-7 .md", NUMBER),
            ("issue-comment-٧.md", NUMBER),
            ("issue-comment-7/../8.md", NUMBER),
            ("issue-comment-12345678901.md", NUMBER),
            ("webhook-.json", WEBHOOK),
            ("webhook-../x.json", WEBHOOK),
            ("webhook-Deploy.json", WEBHOOK),
        ];
        for (name, expected) in table {
            assert_eq!(shown(name), expected, "{name:?}");
        }
    }
}

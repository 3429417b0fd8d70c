//! The loop's permissions for staged items: kinds, counts, targets. Whether a human must approve is decided elsewhere.

use super::{BatchRefused, OutboxProblem, StagedItem, fold_into_report, refuse_if_any};
use crate::level::LoopLevel;
use crate::spec::{ActionKind, LoopSpec, OutputSpec};
use std::collections::BTreeSet;

/// Every target is allowed.
const ANY: &str = "*";
/// The issues and pull requests of the round's own items, beside others that `targets` names.
const OWN: &str = "own";

/// The numbers of the items that a round works on.
struct OwnTargets<'w> {
    all: BTreeSet<&'w str>,
    /// Those of pull requests. On GitLab, issues and merge requests have numbers of their own, so the number of an issue
    /// allows no review.
    pulls: BTreeSet<&'w str>,
}

impl<'w> OwnTargets<'w> {
    fn of(work: &[&'w str]) -> Self {
        let numbers =
            |prefix: &'static str| work.iter().filter(move |key| key.starts_with(prefix)).filter_map(|key| number(key));
        Self { all: numbers("").collect(), pulls: numbers("pr-").collect() }
    }

    /// The numbers that items of this kind may have.
    fn of_kind(&self, kind: ActionKind) -> &BTreeSet<&'w str> {
        match kind {
            ActionKind::PrComment | ActionKind::PrInline | ActionKind::PrReview => &self.pulls,
            _ => &self.all,
        }
    }
}

/// Checks a batch against the loop's `output`. `work` are the keys of the items that the round works on: an output
/// without `targets` goes only to the issues and pull requests among them, if there are any. Otherwise a text in one
/// issue could make an agent write on every other one.
///
/// At L1 only a report leaves: every staged item becomes part of one report.
///
/// # Errors
/// All items that the loop does not allow.
pub fn permit(
    items: Vec<StagedItem>,
    spec: &LoopSpec,
    level: LoopLevel,
    work: &[&str],
) -> Result<Vec<StagedItem>, BatchRefused> {
    if level == LoopLevel::L1Report {
        return Ok(fold(items));
    }
    let own = OwnTargets::of(work);
    let mut problems: Vec<OutboxProblem> = items.iter().filter_map(|item| objection(item, spec, &own)).collect();
    problems.extend(items.iter().filter_map(|item| unnamed_label(item, spec, level)));
    problems.extend(spec.output.iter().filter_map(|output| overrun(&items, output)));
    refuse_if_any(items, problems)
}

fn fold(items: Vec<StagedItem>) -> Vec<StagedItem> {
    match items.as_slice() {
        [] => items,
        [only] if only.kind == ActionKind::Report => items,
        _ => vec![StagedItem::new(1, "report.md", ActionKind::Report, fold_into_report(&items))],
    }
}

/// The number of the issue or pull request that a key names: `issue-7@…`, `pr-7@…`, `pr-7:check-…@…`.
fn number(key: &str) -> Option<&str> {
    let rest = key.strip_prefix("issue-").or_else(|| key.strip_prefix("pr-"))?;
    let number = rest.split(['@', ':']).next()?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

fn objection(item: &StagedItem, spec: &LoopSpec, own: &OwnTargets<'_>) -> Option<OutboxProblem> {
    let Some(output) = spec.output.iter().find(|output| output.kind == item.kind) else {
        return Some(OutboxProblem::new(&item.name, format!("the loop's `output` has no {}", item.kind)));
    };
    let target = item.target.as_deref()?;
    let is_own = own.of_kind(item.kind).contains(target);
    let is_named = |allowed: &String| {
        allowed == ANY || (allowed == OWN && is_own) || allowed.strip_prefix('#').unwrap_or(allowed) == target
    };
    if output.targets.iter().any(is_named) {
        return None;
    }
    if output.targets.is_empty() {
        let is_free = item.kind == ActionKind::Webhook || own.all.is_empty() || is_own;
        let all = own.all.iter().copied().collect::<Vec<_>>().join(", ");
        let kind = item.kind;
        let text = format!(
            "this round works on {all}, and {kind} {target} is not one of its items; `{kind}: {{ targets: [own, {target}] }}` allows it as well"
        );
        return (!is_free).then(|| OutboxProblem::new(&item.name, text));
    }
    Some(OutboxProblem::new(&item.name, format!("{target} is not among the loop's targets for {}", item.kind)))
}

/// The objection to a label that the loop does not name. A forge's automation acts on labels such as `automerge`, so an
/// unattended loop puts only its own on what it creates. An `issue-label` with a list is limited to it at every level.
fn unnamed_label(item: &StagedItem, spec: &LoopSpec, level: LoopLevel) -> Option<OutboxProblem> {
    let output = spec.output.iter().find(|output| output.kind == item.kind)?;
    let is_limited = match item.kind {
        ActionKind::IssueLabel => !output.labels.is_empty(),
        _ => level == LoopLevel::L3Unattended,
    };
    let label = item.labels.iter().find(|label| is_limited && !output.labels.contains(label))?;
    let text = format!("the label `{label}` is not among the `labels` of {}", item.kind);
    Some(OutboxProblem::new(&item.name, text))
}

fn overrun(items: &[StagedItem], output: &OutputSpec) -> Option<OutboxProblem> {
    let max = usize::try_from(output.max).unwrap_or(usize::MAX);
    let surplus = items.iter().filter(|item| item.kind == output.kind).nth(max)?;
    Some(OutboxProblem::new(&surplus.name, format!("more than {max} of {} in a round", output.kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(outputs: &[(ActionKind, u32, &[&str])]) -> LoopSpec {
        let output = outputs.iter().map(|(kind, max, targets)| OutputSpec {
            max: *max,
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            ..OutputSpec::new(*kind)
        });
        LoopSpec { output: output.collect(), ..LoopSpec::new("hello", "say hello", LoopLevel::L2Assisted) }
    }

    fn comment(target: &str) -> StagedItem {
        let name = format!("issue-comment-{target}.md");
        StagedItem { target: Some(target.to_owned()), ..StagedItem::new(1, name, ActionKind::IssueComment, "hi") }
    }

    fn said(items: &[StagedItem], spec: &LoopSpec) -> String {
        said_about(items, spec, &[])
    }

    fn said_about(items: &[StagedItem], spec: &LoopSpec, work: &[&str]) -> String {
        match permit(items.to_vec(), spec, LoopLevel::L3Unattended, work) {
            Ok(kept) => format!("{} kept", kept.len()),
            Err(refused) => refused.to_string(),
        }
    }

    #[test]
    fn kinds_counts_and_targets_come_from_the_loop() {
        let report = StagedItem::new(1, "report.md", ActionKind::Report, "all well");
        let two = spec(&[(ActionKind::IssueComment, 2, &["7", "#8"])]);
        let any = spec(&[(ActionKind::IssueComment, 1, &[])]);
        let table = [
            (vec![], &any, "0 kept"),
            (vec![comment("7"), comment("8")], &two, "2 kept"),
            (vec![comment("123")], &any, "1 kept"),
            (
                vec![comment("9")],
                &two,
                "outbox refused: `issue-comment-9.md`: 9 is not among the loop's targets for issue-comment",
            ),
            (
                vec![comment("1"), comment("2")],
                &any,
                "outbox refused: `issue-comment-2.md`: more than 1 of issue-comment in a round",
            ),
            (vec![report], &any, "outbox refused: `report.md`: the loop's `output` has no report"),
        ];
        for (items, spec, expected) in table {
            assert_eq!(said(&items, spec), expected);
        }
    }

    #[test]
    fn round_about_an_issue_writes_only_there_unless_the_loop_names_other_targets() {
        let (own, named) =
            (spec(&[(ActionKind::IssueComment, 1, &[])]), spec(&[(ActionKind::IssueComment, 1, &["9"])]));
        let any = spec(&[(ActionKind::IssueComment, 1, &["*"])]);
        let both = spec(&[(ActionKind::IssueComment, 1, &["own", "9"])]);
        let refused = "outbox refused: `issue-comment-9.md`: this round works on 7, 8, and issue-comment 9 is not one of its \
                       items; `issue-comment: { targets: [own, 9] }` allows it as well";
        let not_named = "outbox refused: `issue-comment-6.md`: 6 is not among the loop's targets for issue-comment";
        let work = ["issue-7@2026-01-01", "pr-8:check-build@0123"];
        for (target, spec, work, expected) in [
            ("7", &own, work.as_slice(), "1 kept"),
            ("8", &own, &work, "1 kept"),
            ("9", &own, &work, refused),
            ("9", &named, &work, "1 kept"),
            ("9", &both, &work, "1 kept"),
            ("7", &both, &work, "1 kept"),
            ("6", &both, &work, not_named),
            ("9", &any, &work, "1 kept"),
            ("9", &own, &["0123456789abcdef", "issue-x@1", "pr-"], "1 kept"),
            ("9", &own, &[], "1 kept"),
        ] {
            assert_eq!(said_about(&[comment(target)], spec, work), expected, "{target} {work:?}");
        }
    }

    #[test]
    fn number_of_an_issue_allows_no_review_of_the_pull_request_with_that_number() {
        let reviews = spec(&[(ActionKind::PrReview, 1, &[])]);
        let review = StagedItem {
            target: Some("7".to_owned()),
            ..StagedItem::new(1, "pr-approve-7.md", ActionKind::PrReview, "fine")
        };
        for (key, is_kept) in [("issue-7@2026-01-01", false), ("pr-7@0123", true)] {
            let said = said_about(std::slice::from_ref(&review), &reviews, &[key]);
            assert_eq!(said == "1 kept", is_kept, "{key}: {said}");
        }
    }

    #[test]
    fn unattended_agent_uses_only_labels_that_the_loop_names() {
        let labelled = |kind, labels: &[&str]| StagedItem {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..StagedItem::new(1, "outbox.json", kind, "hi")
        };
        let named = |kind, labels: &[&str]| {
            let mut spec = spec(&[(kind, 1, &[])]);
            spec.output[0].labels = labels.iter().map(|label| (*label).to_owned()).collect();
            spec
        };
        let verdict = |kind, known: &[&str], used: &[&str], level| {
            permit(vec![labelled(kind, used)], &named(kind, known), level, &[]).is_ok()
        };
        let (l2, l3) = (LoopLevel::L2Assisted, LoopLevel::L3Unattended);
        let (pull, label) = (ActionKind::PullRequest, ActionKind::IssueLabel);
        assert!(verdict(pull, &["bot"], &["bot"], l3) && verdict(pull, &[], &[], l3));
        assert!(!verdict(pull, &["bot"], &["bot", "automerge"], l3));
        assert!(verdict(pull, &["bot"], &["automerge"], l2), "a person sees it");
        assert!(verdict(label, &[], &["bug"], l3) && verdict(label, &["bug"], &["bug"], l3));
        assert!(!verdict(label, &["bug"], &["automerge"], l3) && !verdict(label, &["bug"], &["automerge"], l2));
    }

    #[test]
    fn maximum_of_zero_allows_no_item() {
        let none = spec(&[(ActionKind::IssueComment, 0, &[])]);
        assert!(said(&[comment("7")], &none).contains("more than 0"));
    }

    #[test]
    fn at_l1_everything_becomes_one_report() {
        let report = StagedItem::new(2, "report.md", ActionKind::Report, "all well");
        let kept = permit(vec![comment("7"), report.clone()], &spec(&[]), LoopLevel::L1Report, &["issue-1@a"])
            .expect("L1 folds");
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].kind, ActionKind::Report);
        assert!(kept[0].body.starts_with("all well\n"), "{}", kept[0].body);
        let alone = permit(vec![report.clone()], &spec(&[]), LoopLevel::L1Report, &[]).expect("L1 folds");
        assert_eq!(alone, [report]);
    }
}

//! The loop's permissions for staged items: kinds, counts, targets. Whether a human must approve is decided elsewhere.

use super::{BatchRefused, OutboxProblem, StagedItem, fold_into_report, refuse_if_any};
use crate::level::LoopLevel;
use crate::spec::{ActionKind, LoopSpec, OutputSpec};

/// Checks a batch against the loop's `output`.
///
/// At L1 only a report leaves: every staged item becomes part of one report.
///
/// # Errors
/// All items that the loop does not allow.
pub fn permit(items: Vec<StagedItem>, spec: &LoopSpec, level: LoopLevel) -> Result<Vec<StagedItem>, BatchRefused> {
    if level == LoopLevel::L1Report {
        return Ok(fold(items));
    }
    let mut problems: Vec<OutboxProblem> = items.iter().filter_map(|item| objection(item, spec)).collect();
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

fn objection(item: &StagedItem, spec: &LoopSpec) -> Option<OutboxProblem> {
    let Some(output) = spec.output.iter().find(|output| output.kind == item.kind) else {
        return Some(OutboxProblem::new(&item.name, format!("the loop's `output` has no {}", item.kind)));
    };
    let target = item.target.as_deref()?;
    let allowed = output.targets.iter().any(|allowed| allowed.strip_prefix('#').unwrap_or(allowed) == target);
    if output.targets.is_empty() || allowed {
        return None;
    }
    Some(OutboxProblem::new(&item.name, format!("{target} is not among the loop's targets for {}", item.kind)))
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
        match permit(items.to_vec(), spec, LoopLevel::L3Unattended) {
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
    fn maximum_of_zero_allows_no_item() {
        let none = spec(&[(ActionKind::IssueComment, 0, &[])]);
        assert!(said(&[comment("7")], &none).contains("more than 0"));
    }

    #[test]
    fn at_l1_everything_becomes_one_report() {
        let report = StagedItem::new(2, "report.md", ActionKind::Report, "all well");
        let kept = permit(vec![comment("7"), report.clone()], &spec(&[]), LoopLevel::L1Report).expect("L1 folds");
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].kind, ActionKind::Report);
        assert!(kept[0].body.starts_with("all well\n"), "{}", kept[0].body);
        let alone = permit(vec![report.clone()], &spec(&[]), LoopLevel::L1Report).expect("L1 folds");
        assert_eq!(alone, [report]);
    }
}

//! A contract as the text of Claude Code's `/goal`. Its evaluator sees only the conversation, so the text asks for the
//! output of each check. Loopwright itself never relies on that evaluator.

use super::contract::{CriterionProof, GoalContract};
use super::length::{GoalLengthCheck, GoalLengthLimits};
use crate::spec::{Gate, LoopSpec};

/// A text for `/goal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedGoal {
    /// The text, without the command itself.
    pub text: String,
    /// Its length.
    pub length: GoalLengthCheck,
    /// Parts that were left out because the text was too long; the file has them.
    pub left_out: Vec<&'static str>,
}

/// Writes the text, and leaves out parts from the least important on until it fits. `file` is the contract's name.
#[must_use]
pub fn export_goal(goal: &GoalContract, file: &str, limits: GoalLengthLimits) -> ExportedGoal {
    let mut parts = vec![("protected paths", protected(&goal.spec)), ("constraints", constraints(goal))];
    let mut left_out = Vec::new();
    loop {
        let middle: String = parts.iter().map(|(_, text)| text.as_str()).rev().collect();
        let text = without_placeholders(&format!("{}{middle}{}", head(goal, file), bound(goal)));
        let length = GoalLengthCheck::measure(&text, limits);
        if length.fits() || parts.is_empty() {
            return ExportedGoal { text, length, left_out };
        }
        left_out.push(parts.remove(0).0);
    }
}

fn head(goal: &GoalContract, file: &str) -> String {
    let mut text = format!("{}\nThe contract is in {file}; read it first and do not change it.\n", goal.outcome.trim());
    text.push_str(
        "Reached only when all of this holds, each shown with the output of its check in the last message:\n",
    );
    for (index, criterion) in goal.criteria.iter().enumerate() {
        let check = match &criterion.proof {
            CriterionProof::Gate(name) => match command(&goal.spec, name) {
                Some(command) => format!("`{command}` exits with 0"),
                None => format!("check `{name}`"),
            },
            CriterionProof::Human => "show the result, a person judges it".to_owned(),
        };
        text.push_str(&format!("{}. {} ({check})\n", index + 1, criterion.text.trim()));
    }
    text
}

fn command(spec: &LoopSpec, name: &str) -> Option<String> {
    let run = spec.gates.iter().find_map(|gate| match gate {
        Gate::Run(run) if run.name == name => Some(&run.run),
        _ => None,
    });
    let exercise = spec.prover.as_ref().filter(|_| name == "prover").map(|prover| &prover.exercise);
    run.or(exercise).map(|words| words.join(" "))
}

fn constraints(goal: &GoalContract) -> String {
    if goal.constraints.is_empty() {
        return String::new();
    }
    let lines: String = goal.constraints.iter().map(|line| format!("- {}\n", line.trim())).collect();
    format!("Constraints:\n{lines}")
}

fn protected(spec: &LoopSpec) -> String {
    if spec.protect.is_empty() { String::new() } else { format!("Do not change: {}\n", spec.protect.join(", ")) }
}

fn bound(goal: &GoalContract) -> String {
    let turns = goal.spec.budget.round.turns.map(|turns| format!("{turns} turns"));
    let wall = goal.spec.budget.round.wall.map(|wall| wall.to_string());
    let bounds: Vec<String> = turns.into_iter().chain(wall).collect();
    if bounds.is_empty() { String::new() } else { format!("Otherwise stop after {}.\n", bounds.join(" or ")) }
}

/// Claude Code replaces `$1` and `$ARGUMENTS` in a command, so a space follows the dollar sign.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('$');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        let is_place = part.starts_with(|first: char| first.is_ascii_digit()) || part.starts_with("ARGUMENTS");
        format!("{done}{}{part}", if is_place { "$ " } else { "$" })
    })
}

#[cfg(test)]
mod tests {
    use super::super::read_goal_file;
    use super::*;
    use expect_test::expect;

    fn goal(constraint: &str) -> GoalContract {
        let text = format!(
            "name: cheap\noutcome: A call costs less than $1.\ncriteria: [{{text: cheap, gate: cost}}, {{text: clear, \
             judgement: human}}]\nconstraints: [\"{constraint}\"]\nlevel: L2\nprotect: [\"tests/**\"]\n\
             gates: [{{name: cost, run: [./cost.sh, --max]}}]\noutput: [pull-request]\n"
        );
        read_goal_file("goal.yaml", text.as_bytes()).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn text_has_outcome_checks_constraints_and_a_bound_and_no_placeholder() {
        let exported = export_goal(&goal("keep it small"), "goal.yaml", GoalLengthLimits::default());
        expect![[r#"
            A call costs less than $ 1.
            The contract is in goal.yaml; read it first and do not change it.
            Reached only when all of this holds, each shown with the output of its check in the last message:
            1. cheap (`./cost.sh --max` exits with 0)
            2. clear (show the result, a person judges it)
            Constraints:
            - keep it small
            Do not change: tests/**
            Otherwise stop after 100 turns or 30m.
        "#]]
        .assert_eq(&exported.text);
        assert!(exported.length.fits() && exported.left_out.is_empty());
    }

    #[test]
    fn text_that_is_too_long_leaves_parts_out_and_names_them() {
        let exported = export_goal(&goal(&"word ".repeat(900)), "goal.yaml", GoalLengthLimits::default());
        assert!(exported.length.fits(), "{}", exported.length.units);
        assert_eq!(exported.left_out, ["protected paths", "constraints"]);
        assert!(exported.text.ends_with("30m.\n"), "the bound stays");
        let tight = GoalLengthLimits::new(None, Some(50)).expect("limits");
        assert!(!export_goal(&goal("x"), "goal.yaml", tight).length.fits(), "it never claims to fit");
    }
}

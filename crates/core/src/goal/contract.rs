//! The contract of a goal: a loop file with an outcome, criteria and constraints instead of an intent and triggers. It
//! compiles to a [`CheckedSpec`], so a goal runs as any other loop. Opens no file itself.

use crate::level::LoopLevel;
use crate::round::GoalOrigin;
use crate::spec::file::{FileTree, decode, file_tree};
use crate::spec::path::SpecPath;
use crate::spec::reader::value::{ProblemCollector, SpecFields, SpecValue};
use crate::spec::reader::{self};
use crate::spec::source::{SourceSpan, SourceText};
use crate::spec::tree::{YamlEntry, YamlNode, YamlValue};
use crate::spec::{CheckedSpec, LoopSpec, ProblemKind, SpecProblems, rules};

/// The keys of a goal that a loop file does not have.
const GOAL_KEYS: &str = "outcome criteria constraints";

/// The proof of a criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CriterionProof {
    /// The gate, held-out check or prover of this name.
    Gate(String),
    /// A person judges it.
    Human,
}

/// One condition of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalCriterion {
    /// The condition.
    pub text: String,
    /// Its proof.
    pub proof: CriterionProof,
}

impl GoalCriterion {
    /// The proof in words.
    #[must_use]
    pub fn proof_text(&self) -> String {
        match &self.proof {
            CriterionProof::Gate(name) => format!("the gate `{name}` decides"),
            CriterionProof::Human => "a person judges it".to_owned(),
        }
    }
}

/// A goal as a person wrote it, and the loop that it compiles to.
#[derive(Debug, Clone)]
pub struct GoalContract {
    /// The end state, as one sentence.
    pub outcome: String,
    /// The conditions of that state.
    pub criteria: Vec<GoalCriterion>,
    /// Rules for the way there.
    pub constraints: Vec<String>,
    /// The loop.
    pub spec: CheckedSpec,
}

impl GoalContract {
    /// The contract for the record of a round. `file` is its path from the root of the working copy.
    #[must_use]
    pub fn origin(&self, file: &str) -> GoalOrigin {
        let gate = |criterion: &GoalCriterion| match &criterion.proof {
            CriterionProof::Gate(name) => Some(name.clone()),
            CriterionProof::Human => None,
        };
        let criteria = self.criteria.iter().map(|criterion| (criterion.text.clone(), gate(criterion))).collect();
        GoalOrigin { file: file.to_owned(), criteria }
    }

    /// The bounds that the contract lifts although unattended work needs them.
    #[must_use]
    pub fn missing_bounds(&self) -> Vec<&'static str> {
        let round = &self.spec.budget.round;
        let lifted = [
            (round.wall.is_none(), "`budget.round.wall`: the work has no end"),
            (round.idle.is_none(), "`budget.round.idle`: an agent that hangs is not stopped"),
            (round.usd.is_none() && round.tokens.is_none(), "`budget.round.usd` or `.tokens`: the work has no price"),
        ];
        lifted.into_iter().filter_map(|(is_lifted, text)| is_lifted.then_some(text)).collect()
    }
}

/// Reads a contract: Markdown with front matter, plain YAML or JSON. `file` is the name that messages show.
///
/// # Errors
/// All problems of the file at once, in the order of their positions.
pub fn read_goal_file(file: &str, bytes: &[u8]) -> Result<GoalContract, SpecProblems> {
    let text = decode(file, bytes)?;
    let source = SourceText::new(file, text);
    let findings = ProblemCollector::new(&source);
    let (root, mut problems): FileTree = file_tree(file, &source, text, &findings)?;
    let goal = read_goal(&SpecValue::root(&findings, &root));
    let loop_root = loop_tree(&root, &goal, &findings);
    let spec = reader::read_spec(&SpecValue::root(&findings, &loop_root));
    check_criteria(&goal, &spec, &root, &findings);
    for mut violation in rules::violations(&spec) {
        violation.what = violation.what.replace("`intent`", "`outcome`");
        findings.add_violation(violation, &loop_root);
    }
    problems.extend(findings.into_problems());
    if !problems.is_empty() {
        return Err(SpecProblems::new(problems));
    }
    let GoalParts { outcome, criteria, constraints } = goal;
    let criteria = criteria.into_iter().flatten().collect();
    Ok(GoalContract { outcome, criteria, constraints, spec: CheckedSpec::seal(spec) })
}

/// The parts of a contract that a loop file does not have. A criterion that cannot be read is `None`.
#[derive(Default)]
struct GoalParts {
    outcome: String,
    criteria: Vec<Option<GoalCriterion>>,
    constraints: Vec<String>,
}

fn read_goal(root: &SpecValue<'_>) -> GoalParts {
    let known = format!("{GOAL_KEYS} {} {}", reader::KEYS, reader::ALIASES);
    let Some(fields) = root.fields(&known) else { return GoalParts::default() };
    for (key, hint) in [("intent", "a goal has `outcome` instead"), ("on", "a goal runs when it is started")] {
        if let Some(at) = fields.get(key) {
            at.add_problem(ProblemKind::Value, format!("`{key}` in a goal"), Some(hint.to_owned()));
        }
    }
    let mut goal = GoalParts {
        outcome: fields.required("outcome", "one sentence that can be verified", SpecValue::text).unwrap_or_default(),
        ..GoalParts::default()
    };
    let example = "[{ text: the tests pass, gate: tests }]";
    let list = |at: &SpecValue<'_>| at.list("a list of criteria", || None, |at| Some(criterion(at)));
    goal.criteria = fields.required("criteria", example, list).unwrap_or_default();
    fields.set("constraints", &mut goal.constraints, SpecValue::texts);
    if let Some(at) = fields.get("criteria").filter(|_| goal.criteria.is_empty()) {
        at.add_problem(ProblemKind::Value, "a goal without criteria never ends".to_owned(), None);
    }
    if let Some(at) = fields.get("outcome").filter(|_| goal.outcome.trim().is_empty()) {
        at.add_problem(ProblemKind::Value, "`outcome` is empty".to_owned(), None);
    }
    goal
}

fn criterion(at: &SpecValue<'_>) -> Option<GoalCriterion> {
    let fields = at.fields("text gate judgement")?;
    let text = fields.required("text", "the tests pass", SpecValue::text);
    let proof = proof(at, &fields);
    Some(GoalCriterion { text: text?, proof: proof? })
}

fn proof(at: &SpecValue<'_>, fields: &SpecFields<'_>) -> Option<CriterionProof> {
    match (fields.get("gate"), fields.get("judgement")) {
        (Some(gate), None) => gate.text().map(CriterionProof::Gate),
        (None, Some(judgement)) => judgement.word(&[("human", CriterionKind::Human)]).map(|_| CriterionProof::Human),
        (found, _) => {
            let what = if found.is_some() { "a criterion with two proofs" } else { "a criterion without a proof" };
            let hint = "map it to a gate with `gate: NAME`, or mark it with `judgement: human`";
            at.add_problem(ProblemKind::Value, what.to_owned(), Some(hint.to_owned()));
            None
        }
    }
}

#[derive(Clone, Copy)]
enum CriterionKind {
    Human,
}

/// Checks the proofs against the rest of the contract.
fn check_criteria(goal: &GoalParts, spec: &LoopSpec, root: &YamlNode, findings: &ProblemCollector<'_>) {
    let gates = spec.gates.iter().map(|gate| gate.name()).chain(spec.heldout.iter().map(|check| check.name.as_str()));
    let mut names: Vec<&str> = gates.collect();
    if spec.prover.is_some() {
        names.push("prover");
    }
    let gates_are_readable = !findings.is_faulty(&SpecPath::root_key("gates"));
    for (index, criterion) in goal.criteria.iter().enumerate() {
        let path = SpecPath::root_key("criteria").index(index);
        let problem = match criterion.as_ref().map(|criterion| &criterion.proof) {
            Some(CriterionProof::Gate(name)) if gates_are_readable && !names.contains(&name.as_str()) => {
                let known = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
                (path.key("gate"), format!("the goal has no gate `{name}`"), format!("its gates: {known}"))
            }
            Some(CriterionProof::Human) if spec.level == LoopLevel::L3Unattended => {
                let hint = "use `level: L2`, so that a person approves the result".to_owned();
                (path.key("judgement"), "no person judges this criterion at L3".to_owned(), hint)
            }
            Some(_) | None => continue,
        };
        let (path, what, hint) = problem;
        findings.add(ProblemKind::Value, path.span_in(root), what, Some(hint));
    }
}

/// The tree of the loop: the goal's own keys become the intent, the mode and the maker's prompt.
fn loop_tree(root: &YamlNode, goal: &GoalParts, findings: &ProblemCollector<'_>) -> YamlNode {
    let YamlValue::Map(entries) = &root.value else {
        // The reader of the goal has already reported this.
        return YamlNode { value: YamlValue::Map(Vec::new()), place: root.place };
    };
    // Unknown keys are already reported.
    let is_kept = |entry: &&YamlEntry| {
        let mut loop_keys = reader::KEYS.split_whitespace().chain(reader::ALIASES.split_whitespace());
        !matches!(entry.key.as_str(), "intent" | "on") && loop_keys.any(|key| key == entry.key)
    };
    let mut kept: Vec<YamlEntry> = entries.iter().filter(is_kept).cloned().collect();
    let outcome_place = root.get("outcome").map_or(root.place, |entry| entry.value.place);
    if goal.outcome.trim().is_empty() {
        findings.mark_faulty(SpecPath::root_key("intent"));
    }
    kept.push(text_entry("intent", &goal.outcome, outcome_place));
    if root.get("mode").is_none() {
        kept.push(text_entry("mode", "goal-loop", root.place));
    }
    add_maker_prompt(&mut kept, &maker_text(goal), root.place);
    YamlNode { value: YamlValue::Map(kept), place: root.place }
}

fn text_entry(key: &str, text: &str, place: SourceSpan) -> YamlEntry {
    let value = YamlNode { value: YamlValue::Text(text.to_owned()), place };
    YamlEntry { key: key.to_owned(), place, value }
}

/// Puts the contract before the maker's own prompt.
fn add_maker_prompt(entries: &mut Vec<YamlEntry>, contract: &str, place: SourceSpan) {
    let prompts = match entries.iter().position(|entry| entry.key == "prompts") {
        Some(at) => &mut entries[at],
        None => {
            let value = YamlNode { value: YamlValue::Map(Vec::new()), place };
            entries.push(YamlEntry { key: "prompts".to_owned(), place, value });
            entries.last_mut().expect("it was just added")
        }
    };
    // The reader reports prompts that are not a mapping.
    let YamlValue::Map(roles) = &mut prompts.value.value else { return };
    match roles.iter_mut().find(|entry| entry.key == "maker") {
        Some(YamlEntry { value: YamlNode { value: YamlValue::Text(own), .. }, .. }) => {
            *own = format!("{contract}\n{own}").trim_end().to_owned();
        }
        Some(_) => {}
        None => roles.push(text_entry("maker", contract.trim_end(), place)),
    }
}

/// The contract as the maker reads it.
fn maker_text(goal: &GoalParts) -> String {
    let mut text = format!("Reach this goal: {}\n\nIt is reached when all of this holds:\n", goal.outcome.trim());
    for (index, criterion) in goal.criteria.iter().flatten().enumerate() {
        text.push_str(&format!("{}. {} ({})\n", index + 1, criterion.text.trim(), criterion.proof_text()));
    }
    if !goal.constraints.is_empty() {
        text.push_str("\nConstraints:\n");
        text.extend(goal.constraints.iter().map(|line| format!("- {}\n", line.trim())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LoopMode;
    use expect_test::{Expect, expect};

    const GOAL: &str = "---\n\
        name: faster-parser\n\
        outcome: The parser reads the sample in under a second.\n\
        criteria:\n\
        \x20 - { text: the tests pass, gate: tests }\n\
        \x20 - { text: the code stays readable, judgement: human }\n\
        constraints: [no new dependency]\n\
        level: L2\n\
        gates:\n\
        \x20 - { name: tests, run: [./test.sh] }\n\
        output: [pull-request]\n\
        ---\n\
        # Maker\n\
        Start in src/parse.rs.\n";

    fn problems(text: &str, expected: &Expect) {
        let found = read_goal_file("goal.md", text.as_bytes()).expect_err("it has problems");
        let lines: Vec<_> = found.iter().map(|one| format!("{}:{} {}", one.line, one.column, one.what)).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn goal_compiles_to_a_loop_whose_maker_gets_the_whole_contract() {
        let goal = read_goal_file("goal.md", GOAL.as_bytes()).expect("a goal");
        assert_eq!((goal.spec.mode, goal.spec.intent.as_str()), (LoopMode::GoalLoop, goal.outcome.as_str()));
        assert_eq!(goal.criteria[1].proof, CriterionProof::Human);
        assert!(goal.missing_bounds().is_empty());
        expect![[r#"
            Reach this goal: The parser reads the sample in under a second.

            It is reached when all of this holds:
            1. the tests pass (the gate `tests` decides)
            2. the code stays readable (a person judges it)

            Constraints:
            - no new dependency

            Start in src/parse.rs."#]]
        .assert_eq(goal.spec.prompts.maker.as_deref().unwrap_or_default());
    }

    #[test]
    fn goal_needs_no_section_and_may_choose_its_mode() {
        let text =
            GOAL.replace("# Maker\nStart in src/parse.rs.\n", "").replace("level: L2", "level: L2\nmode: single-run");
        let goal = read_goal_file("goal.md", text.as_bytes()).expect("a goal");
        assert_eq!(goal.spec.mode, LoopMode::SingleRun);
    }

    #[test]
    fn every_criterion_has_one_proof_that_exists() {
        let text = GOAL.replace("gate: tests }", "gate: bench }").replace("judgement: human", "judgement: model");
        problems(
            &text,
            &expect![[r#"
                5:35 the goal has no gate `bench`
                6:49 `criteria[1].judgement` wants one of `human`, found the text `model`"#]],
        );
        let text = GOAL.replace(", gate: tests }", " }").replace("judgement: human", "gate: tests, judgement: human");
        problems(
            &text,
            &expect![[r#"
                5:5 a criterion without a proof
                6:5 a criterion with two proofs"#]],
        );
    }

    #[test]
    fn person_judges_nothing_at_l3() {
        let text = GOAL.replace("level: L2", "level: L3\nallow: [pull-request]");
        problems(&text, &expect!["6:49 no person judges this criterion at L3"]);
    }

    #[test]
    fn keys_of_a_loop_that_a_goal_does_not_have_are_problems() {
        let text = GOAL.replace("constraints:", "intent: x\non: { every: 5m }\nconstraint:");
        problems(
            &text,
            &expect![[r#"
                7:9 `intent` in a goal
                8:5 `on` in a goal
                9:1 unknown key `constraint`"#]],
        );
        problems(
            "---\nname: x\n---\n",
            &expect![[r#"
            1:1 missing key `outcome`
            1:1 missing key `criteria`"#]],
        );
    }

    #[test]
    fn lifted_bounds_are_listed() {
        let text = GOAL.replace("level: L2", "level: L2\nbudget: { round: { wall: none, usd: none, tokens: none } }");
        let goal = read_goal_file("goal.md", text.as_bytes()).expect("a goal");
        assert_eq!(goal.missing_bounds().len(), 2);
    }
}

//! Writes a contract from answers: what a person typed, and what the repository shows. The same answers give the same
//! text. It guesses no criterion; whatever is missing is listed.

use super::contract::CriterionProof;
use crate::level::LoopLevel;
use crate::spec::{Argv, LoopMode};
use crate::units::TimeSpan;
use crate::words::worded;
use serde_json::{Value, json};

/// A gate of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateDraft {
    /// Its name.
    pub name: String,
    /// Its command.
    pub run: Argv,
}

/// A criterion of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriterionDraft {
    /// The condition.
    pub text: String,
    /// Its proof, if known.
    pub proof: Option<CriterionProof>,
}

impl CriterionDraft {
    /// Reads `TEXT => GATE`, `TEXT => human`, or a text whose proof is open.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (text, proof) = match text.rsplit_once("=>") {
            Some((text, proof)) => (text, proof.trim()),
            None => (text, ""),
        };
        let proof = match proof {
            "" => None,
            "human" => Some(CriterionProof::Human),
            gate => Some(CriterionProof::Gate(gate.to_owned())),
        };
        Self { text: text.trim().to_owned(), proof }
    }
}

worded! {
    /// An answer without which there is no contract.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MissingAnswer {
        /// The outcome.
        Outcome = "outcome",
        /// At least one criterion.
        Criteria = "criteria",
        /// The proof of each criterion.
        Proof = "proof",
        /// The command of each gate that a criterion names.
        Gate = "gate",
        /// The items of a dynamic workflow.
        Items = "items",
    }
}

impl MissingAnswer {
    /// How to give it.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Outcome => "state the task as one sentence that can be verified",
            Self::Criteria => {
                "add --criterion \"TEXT => GATE\" for a condition that a gate decides, or \"TEXT => human\""
            }
            Self::Proof => "end each criterion with `=> GATE` or `=> human`",
            Self::Gate => "add --gate NAME=COMMAND for each gate that a criterion names",
            Self::Items => "add --item TEXT for each item, or --files GLOB for one item for each file that matches",
        }
    }
}

/// The answers of a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalDraft {
    /// The name of the goal.
    pub name: String,
    /// The end state.
    pub outcome: String,
    /// Its conditions.
    pub criteria: Vec<CriterionDraft>,
    /// Rules for the way there.
    pub constraints: Vec<String>,
    /// The gates.
    pub gates: Vec<GateDraft>,
    /// The commands that install what the gates need.
    pub setup: Vec<Argv>,
    /// Globs whose files may not change.
    pub protect: Vec<String>,
    /// The mode.
    pub mode: LoopMode,
    /// The items of a dynamic workflow, written out.
    pub items: Vec<String>,
    /// Globs: one item of a dynamic workflow for each file that matches.
    pub files: Vec<String>,
    /// How many items run at once; the default of loop files if `None`.
    pub at_once: Option<u32>,
    /// The level.
    pub level: LoopLevel,
    /// Money for the whole goal.
    pub usd: f64,
    /// Time for the whole goal.
    pub wall: TimeSpan,
    /// The most cycles.
    pub attempts: u32,
    /// Starts the application, for the prover.
    pub start: Argv,
    /// The address that responds when the application is ready.
    pub ready: Option<String>,
    /// Exercises the application; empty without a prover.
    pub exercise: Argv,
    /// The roles of attackers.
    pub attack: Vec<String>,
    /// Dimensions of the rubric with their meaning; empty for the built-in ones.
    pub dimensions: Vec<(String, String)>,
}

impl GoalDraft {
    /// The answers that are missing, each with the words it is about.
    #[must_use]
    pub fn missing(&self) -> Vec<(MissingAnswer, String)> {
        let mut missing = Vec::new();
        if self.outcome.trim().is_empty() {
            missing.push((MissingAnswer::Outcome, "the task is empty".to_owned()));
        }
        if self.criteria.is_empty() {
            missing.push((MissingAnswer::Criteria, "no condition says when the goal is reached".to_owned()));
        }
        for criterion in &self.criteria {
            if criterion.proof.is_none() {
                missing.push((MissingAnswer::Proof, format!("nothing proves `{}`", criterion.text)));
            }
        }
        let unknown = self.gates_without_command().into_iter();
        missing.extend(unknown.map(|name| (MissingAnswer::Gate, format!("the gate `{name}` has no command"))));
        if self.needs_items() {
            missing.push((MissingAnswer::Items, "nothing says which items the workflow covers".to_owned()));
        }
        missing
    }

    /// The gates that criteria name and that have no command, each once.
    #[must_use]
    pub fn gates_without_command(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for criterion in &self.criteria {
            match &criterion.proof {
                Some(CriterionProof::Gate(name)) if !self.knows_gate(name) && !names.contains(name) => {
                    names.push(name.clone());
                }
                Some(_) | None => {}
            }
        }
        names
    }

    /// Whether it is a dynamic workflow without items.
    #[must_use]
    pub fn needs_items(&self) -> bool {
        self.mode == LoopMode::DynamicWorkflow && self.items.is_empty() && self.files.is_empty()
    }

    fn knows_gate(&self, name: &str) -> bool {
        let is_prover = name == "prover" && !self.exercise.is_empty();
        is_prover || self.gates.iter().any(|gate| gate.name == name)
    }

    /// The contract file. A contract with missing answers does not read back.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = "---\n# A goal: `loopwright goal run FILE`. Every key of a loop file except `intent` and `on` works here.\n".to_owned();
        let mut line = |key: &str, value: &Value| text.push_str(&format!("{key}: {value}\n"));
        line("name", &json!(self.name));
        line("outcome", &json!(self.outcome.split_whitespace().collect::<Vec<_>>().join(" ")));
        list(&mut text, "criteria", self.criteria.iter().map(criterion_value));
        list(&mut text, "constraints", self.constraints.iter().map(|text| json!(text)));
        text.push_str(&format!("mode: {}\nlevel: {}\n", self.mode.word(), self.level.short()));
        text.push_str(&self.workflow());
        list(&mut text, "setup", self.setup.iter().map(|run| json!(run)));
        list(&mut text, "gates", self.gates.iter().map(|gate| json!({"name": gate.name, "run": gate.run})));
        list(&mut text, "protect", self.protect.iter().map(|glob| json!(glob)));
        let (usd, wall) = (self.usd, self.wall);
        text.push_str(&format!(
            "budget:\n  round: {{ usd: {usd}, wall: {wall}, idle: 5m }}\nattempts: {}\n",
            self.attempts
        ));
        if !self.dimensions.is_empty() {
            text.push_str("rubric:\n  threshold: 3.5\n  floor: 3\n  dimensions:\n");
            text.extend(self.dimensions.iter().map(|(name, means)| format!("    {}: {}\n", json!(name), json!(means))));
        }
        text.push_str(&self.verifiers());
        if self.level != LoopLevel::L1Report {
            text.push_str("output:\n  - pull-request: { draft: true }\n");
        }
        text + "---\n"
    }

    fn workflow(&self) -> String {
        let mut lines = Vec::new();
        for (key, values) in [("items", &self.items), ("files", &self.files)] {
            lines.extend((!values.is_empty()).then(|| format!("  {key}: {}\n", json!(values))));
        }
        lines.extend(self.at_once.map(|count| format!("  at_once: {count}\n")));
        if lines.is_empty() { String::new() } else { format!("workflow:\n{}", lines.concat()) }
    }

    fn verifiers(&self) -> String {
        let mut text = String::new();
        if !self.exercise.is_empty() {
            text.push_str("prover:\n");
            if !self.start.is_empty() {
                text.push_str(&format!("  start: {}\n", json!(self.start)));
            }
            text.extend(self.ready.iter().map(|ready| format!("  ready: {}\n", json!(ready))));
            text.push_str(&format!("  exercise: {}\n", json!(self.exercise)));
        }
        if !self.attack.is_empty() {
            text.push_str(&format!("attack:\n  roles: {}\n", json!(self.attack)));
        }
        text
    }
}

fn criterion_value(criterion: &CriterionDraft) -> Value {
    match &criterion.proof {
        Some(CriterionProof::Gate(name)) => json!({"text": criterion.text, "gate": name}),
        Some(CriterionProof::Human) => json!({"text": criterion.text, "judgement": "human"}),
        None => json!({"text": criterion.text}),
    }
}

fn list(text: &mut String, key: &str, items: impl Iterator<Item = Value>) {
    let lines: Vec<String> = items.map(|item| format!("  - {item}\n")).collect();
    if !lines.is_empty() {
        text.push_str(&format!("{key}:\n{}", lines.concat()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_goal_file;
    use super::*;
    use expect_test::expect;

    fn draft() -> GoalDraft {
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Argv>();
        GoalDraft {
            name: "json-output".to_owned(),
            outcome: "`list` prints JSON: \"one\" document\nper call".to_owned(),
            criteria: vec![
                CriterionDraft::parse("the tests pass => tests"),
                CriterionDraft::parse("it reads well => human"),
            ],
            constraints: vec!["no new dependency".to_owned()],
            gates: vec![GateDraft { name: "tests".to_owned(), run: words("cargo test") }],
            setup: Vec::new(),
            protect: vec!["tests/**".to_owned()],
            mode: LoopMode::GoalLoop,
            items: Vec::new(),
            files: Vec::new(),
            at_once: None,
            level: LoopLevel::L2Assisted,
            usd: 5.0,
            wall: TimeSpan::secs(3600),
            attempts: 3,
            start: words("./serve {port}"),
            ready: Some("http://127.0.0.1:{port}/".to_owned()),
            exercise: words("./exercise.sh"),
            attack: vec!["security".to_owned()],
            dimensions: vec![("correctness".to_owned(), "it is right".to_owned())],
        }
    }

    #[test]
    fn contract_reads_back_with_every_answer() {
        let draft = draft();
        assert_eq!(draft.missing(), []);
        let goal = read_goal_file("goal.md", draft.render().as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(goal.outcome, "`list` prints JSON: \"one\" document per call");
        assert_eq!((goal.criteria.len(), goal.spec.gates.len(), goal.spec.attempts), (2, 1, 3));
        assert!(goal.spec.prover.is_some() && goal.spec.attack.is_some() && goal.missing_bounds().is_empty());
        assert_eq!(goal.spec.rubric.dimensions.len(), 1);
        expect![[r#"
            ---
            # A goal: `loopwright goal run FILE`. Every key of a loop file except `intent` and `on` works here.
            name: "json-output"
            outcome: "`list` prints JSON: \"one\" document per call"
            criteria:
              - {"text":"the tests pass","gate":"tests"}
              - {"text":"it reads well","judgement":"human"}
            constraints:
              - "no new dependency"
            mode: goal-loop
            level: L2
            gates:
              - {"name":"tests","run":["cargo","test"]}
            protect:
              - "tests/**"
            budget:
              round: { usd: 5, wall: 1h, idle: 5m }
            attempts: 3
            rubric:
              threshold: 3.5
              floor: 3
              dimensions:
                "correctness": "it is right"
            prover:
              start: ["./serve","{port}"]
              ready: "http://127.0.0.1:{port}/"
              exercise: ["./exercise.sh"]
            attack:
              roles: ["security"]
            output:
              - pull-request: { draft: true }
            ---
        "#]]
        .assert_eq(&draft.render());
    }

    #[test]
    fn workflow_has_its_items_and_without_them_they_are_missing() {
        let open = GoalDraft { mode: LoopMode::DynamicWorkflow, ..draft() };
        assert_eq!(open.missing().first().map(|(answer, _)| answer.word()), Some("items"));
        let listed = GoalDraft { items: vec!["one: 1".to_owned(), "two".to_owned()], at_once: Some(8), ..open.clone() };
        let globbed = GoalDraft { files: vec!["src/**".to_owned()], ..open };
        let read = |draft: &GoalDraft| {
            assert_eq!(draft.missing(), []);
            let goal = read_goal_file("goal.md", draft.render().as_bytes()).unwrap_or_else(|why| panic!("{why}"));
            let workflow = goal.spec.workflow.clone().expect("a workflow");
            (workflow.items, workflow.files, workflow.at_once)
        };
        assert_eq!(read(&listed), (listed.items.clone(), Vec::new(), 8));
        assert_eq!(read(&globbed), (Vec::new(), globbed.files.clone(), 4));
    }

    #[test]
    fn missing_answers_are_listed_and_never_guessed() {
        let open = GoalDraft { outcome: " ".to_owned(), criteria: Vec::new(), ..draft() };
        let words = |draft: &GoalDraft| draft.missing().iter().map(|(one, _)| one.word()).collect::<Vec<_>>();
        assert_eq!(words(&open), ["outcome", "criteria"]);
        let criteria = ["fast", "right => bench", "works => prover"].map(CriterionDraft::parse).to_vec();
        let open = GoalDraft { criteria, ..draft() };
        assert_eq!(words(&open), ["proof", "gate"]);
        assert!(read_goal_file("goal.md", open.render().as_bytes()).is_err(), "an open contract is not a goal");
    }
}

//! The loops that Loopwright ships: the seven named loops and five starters. Each is a complete loop file in
//! `patterns/` with the skills it names. A pattern is a starting point with a conservative level; none is at L3. This
//! module parses the files and adapts their text to a repository; it writes nothing.

use crate::name::LoopName;
use crate::spec::write::yaml_word;
use crate::spec::{Argv, LoopSpec, OnOff, read_loop_file};

/// The start of the commented line that holds the place of the repository's test command.
const TESTS_PLACE: &str = "  # - { name: tests, run: [./run-tests.sh]";
/// The default branch, as the files name it.
const BRANCH_PLACE: &str = "branch: main";

/// A loop that Loopwright ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopPattern {
    /// The name of the pattern and of its loop.
    pub name: &'static str,
    /// The loop file.
    pub text: &'static str,
    /// The skills that the loop names.
    pub skills: &'static [PatternSkill],
}

/// A skill file of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternSkill {
    /// The file's name in `.loopwright/skills/`.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The facts of a repository that a loop file depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatternFit<'a> {
    /// Another name for the loop.
    pub name: Option<&'a LoopName>,
    /// The gates that run the repository's tests. Without one, a loop that changes code stays at L1.
    pub tests: &'a [(String, Argv)],
    /// The commands that install what the tests need.
    pub setup: &'a [Argv],
    /// Whether the maker sees the repository's own instructions for agents.
    pub instructions: OnOff,
    /// The branch that the loop works on.
    pub branch: Option<&'a str>,
}

macro_rules! pattern {
    ($name:literal, $($skill:literal),*) => {
        LoopPattern {
            name: $name,
            text: include_str!(concat!("patterns/", $name, ".md")),
            skills: &[$(PatternSkill { file: $skill, text: include_str!(concat!("patterns/skills/", $skill)) }),*],
        }
    };
}

const DAILY_TRIAGE: LoopPattern = pattern!("daily-triage", "loose-ends.md");
const PR_BABYSITTER: LoopPattern = pattern!("pr-babysitter", "stuck-pull-requests.md");
const CI_SWEEPER: LoopPattern = pattern!("ci-sweeper", "ci-failures.md");
const DEPENDENCY_SWEEPER: LoopPattern = pattern!("dependency-sweeper", "dependency-updates.md");
const CHANGELOG_DRAFTER: LoopPattern = pattern!("changelog-drafter", "release-notes.md");
const POST_MERGE_CLEANUP: LoopPattern = pattern!("post-merge-cleanup", "loose-ends.md");
const ISSUE_TRIAGE: LoopPattern = pattern!("issue-triage", "issue-labels.md");
const TRIAGE_CI: LoopPattern = pattern!("triage-ci", "ci-failures.md");
const ISSUE_GROOMER: LoopPattern = pattern!("issue-groomer", "issue-labels.md");
const PR_REVIEWER: LoopPattern = pattern!("pr-reviewer", "pull-request-review.md");
const DEPENDENCY_UPDATER: LoopPattern = pattern!("dependency-updater", "dependency-updates.md");
const DOC_SYNC: LoopPattern = pattern!("doc-sync", "document-checks.md");

/// The seven, in the order that users know.
const SEVEN: [LoopPattern; 7] =
    [DAILY_TRIAGE, PR_BABYSITTER, CI_SWEEPER, DEPENDENCY_SWEEPER, CHANGELOG_DRAFTER, POST_MERGE_CLEANUP, ISSUE_TRIAGE];

/// The five starters.
const STARTERS: [LoopPattern; 5] = [TRIAGE_CI, ISSUE_GROOMER, PR_REVIEWER, DEPENDENCY_UPDATER, DOC_SYNC];

impl LoopPattern {
    /// All patterns: the seven named loops, then the starters.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        SEVEN.into_iter().chain(STARTERS)
    }

    /// The pattern of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|pattern| pattern.name == name)
    }

    /// The loop as its file declares it.
    #[must_use]
    pub fn spec(&self) -> LoopSpec {
        let file = format!("{}.md", self.name);
        read_loop_file(&file, self.text.as_bytes()).expect("every shipped loop file is valid").into_spec()
    }

    /// Whether the loop needs the repository's test command as a gate before it may change code.
    #[must_use]
    pub fn needs_tests(&self) -> bool {
        self.text.lines().any(|line| line.starts_with(TESTS_PLACE))
    }

    /// The loop file, adapted to a repository.
    #[must_use]
    pub fn loop_file(&self, fit: &PatternFit<'_>) -> String {
        let is_unproven = self.needs_tests() && fit.tests.is_empty();
        // A loop that runs no tests needs nothing that they need, and its rounds would wait for it.
        let fit = &PatternFit { setup: if self.needs_tests() { fit.setup } else { &[] }, ..*fit };
        let mut fences = 0;
        let lines = self.text.lines().map(|line| {
            fences += usize::from(line == "---");
            match line {
                // The prompts follow the second fence.
                line if fences != 1 => line.to_owned(),
                "level: L2" if is_unproven => "level: L1".to_owned(),
                line => fitted_line(line, fit),
            }
        });
        lines.map(|line| line + "\n").collect()
    }
}

/// A line of the front matter, adapted to a repository; one line can become several.
fn fitted_line(line: &str, fit: &PatternFit<'_>) -> String {
    match line.strip_prefix(TESTS_PLACE) {
        Some(rest) if !fit.tests.is_empty() => {
            let (options, _) = rest.split_once("   #").unwrap_or((rest, ""));
            let gate = |(name, run): &(String, Argv)| format!("  - {{ name: {name}, run: {}{options}", yaml_list(run));
            fit.tests.iter().map(gate).collect::<Vec<_>>().join("\n")
        }
        Some(_) => line.to_owned(),
        None if line == "gates:" => format!("{}{}{line}", switch_line(fit.instructions), setup_lines(fit.setup)),
        None => match (fit.name, fit.branch) {
            (Some(name), _) if line.starts_with("name: ") => format!("name: {name}"),
            (_, Some(branch)) => line.replace(BRANCH_PLACE, &format!("branch: {}", yaml_word(branch))),
            _ => line.to_owned(),
        },
    }
}

/// The key `setup` of a loop file, with a line for each command; empty without commands.
#[must_use]
pub fn setup_lines(setup: &[Argv]) -> String {
    if setup.is_empty() {
        return String::new();
    }
    setup.iter().fold("setup:\n".to_owned(), |text, run| format!("{text}  - {}\n", yaml_list(run)))
}

/// The key `instructions` of a loop file; empty if it has its default.
fn switch_line(instructions: OnOff) -> &'static str {
    match instructions {
        OnOff::On => "instructions: on\n",
        OnOff::Off => "",
    }
}

/// A command as a list in a loop file.
#[must_use]
pub fn yaml_list(run: &[String]) -> String {
    let words: Vec<String> = run.iter().map(|word| yaml_word(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A morning list of what needs a person.
#[must_use]
pub fn daily_triage() -> LoopSpec {
    DAILY_TRIAGE.spec()
}

/// Finds stuck pull requests.
#[must_use]
pub fn pr_babysitter() -> LoopSpec {
    PR_BABYSITTER.spec()
}

/// Fixes a red default branch.
#[must_use]
pub fn ci_sweeper() -> LoopSpec {
    CI_SWEEPER.spec()
}

/// Updates dependencies in small steps.
#[must_use]
pub fn dependency_sweeper() -> LoopSpec {
    DEPENDENCY_SWEEPER.spec()
}

/// Drafts release notes.
#[must_use]
pub fn changelog_drafter() -> LoopSpec {
    CHANGELOG_DRAFTER.spec()
}

/// Lists loose ends after merges.
#[must_use]
pub fn post_merge_cleanup() -> LoopSpec {
    POST_MERGE_CLEANUP.spec()
}

/// Proposes labels and owners for new issues.
#[must_use]
pub fn issue_triage() -> LoopSpec {
    ISSUE_TRIAGE.spec()
}

/// Fixes or explains a failed check.
#[must_use]
pub fn triage_ci() -> LoopSpec {
    TRIAGE_CI.spec()
}

/// Labels an issue, and plans an urgent one.
#[must_use]
pub fn issue_groomer() -> LoopSpec {
    ISSUE_GROOMER.spec()
}

/// Comments on a pull request.
#[must_use]
pub fn pr_reviewer() -> LoopSpec {
    PR_REVIEWER.spec()
}

/// Updates one dependency.
#[must_use]
pub fn dependency_updater() -> LoopSpec {
    DEPENDENCY_UPDATER.spec()
}

/// Corrects documents that the code contradicts.
#[must_use]
pub fn doc_sync() -> LoopSpec {
    DOC_SYNC.spec()
}

/// The seven named loops, in the order that users know.
#[must_use]
pub fn catalogue() -> Vec<LoopSpec> {
    SEVEN.iter().map(LoopPattern::spec).collect()
}

/// The five starters.
#[must_use]
pub fn starters() -> Vec<LoopSpec> {
    STARTERS.iter().map(LoopPattern::spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LoopLevel;
    use crate::spec::{ActionKind, Gate};

    #[test]
    fn every_pattern_checks_and_round_trips() {
        let names: Vec<_> = catalogue().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(
            names.join(" "),
            "daily-triage pr-babysitter ci-sweeper dependency-sweeper changelog-drafter post-merge-cleanup issue-triage"
        );
        let names: Vec<_> = starters().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(names.join(" "), "triage-ci issue-groomer pr-reviewer dependency-updater doc-sync");
        for spec in catalogue().into_iter().chain(starters()) {
            let json = serde_json::to_string(&spec).expect("serialises");
            assert_eq!(serde_json::from_str::<LoopSpec>(&json).expect("reads back"), spec);
            assert!(spec.level < LoopLevel::L3Unattended);
            assert!(spec.budget.round.tokens.is_some(), "a pattern has a token ceiling");
            spec.check().expect("is valid");
        }
    }

    #[test]
    fn every_file_declares_the_parts_that_a_user_relies_on() {
        for pattern in LoopPattern::all() {
            let spec = pattern.spec();
            assert_eq!(spec.name, pattern.name);
            for key in [
                "level: ",
                "on:\n",
                "  probe: ",
                "attempts: ",
                "rubric:\n",
                "budget:\n",
                "open_max: ",
                "output:\n",
                "\n# Maker\n",
                "\n# Checker\n",
            ] {
                assert!(pattern.text.contains(key), "{} has no `{}`", pattern.name, key.trim());
            }
            assert!(spec.allow.is_empty() && spec.network.is_empty() && spec.secrets.is_empty(), "{}", pattern.name);
            assert!(spec.budget.day.usd.is_some() && spec.rubric.dimensions.len() >= 2, "{}", pattern.name);
            assert!(spec.outputs(ActionKind::Report), "{} can report at L1", pattern.name);
            assert!(
                spec.clone().check().expect("is valid").notes().is_empty(),
                "{} has parts without effect",
                pattern.name
            );
            let skills: Vec<&str> = pattern.skills.iter().map(|skill| skill.file).collect();
            assert!(spec.skills == skills && !skills.is_empty(), "{}: {skills:?}", pattern.name);
        }
    }

    #[test]
    fn loop_that_proposes_changes_is_bounded_by_a_gate() {
        for pattern in LoopPattern::all() {
            let spec = pattern.spec();
            let bounds = spec.gates.iter().any(|gate| matches!(gate, Gate::Diff(_)));
            assert_eq!(spec.outputs(ActionKind::PullRequest), bounds, "{}", pattern.name);
            // Without tests, a loop may change documents only.
            let proposes_code = bounds && spec.allow_paths.is_empty();
            assert_eq!(pattern.needs_tests(), proposes_code, "{}", pattern.name);
        }
    }

    fn fit(pattern: &str, fit: &PatternFit<'_>) -> LoopSpec {
        let text = LoopPattern::find(pattern).expect("a pattern").loop_file(fit);
        read_loop_file("x.md", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}\n{text}")).into_spec()
    }

    #[test]
    fn file_is_adapted_to_the_repositorys_tests_name_and_branch() {
        let name = LoopName::parse("green").expect("a name");
        let run = ["go", "test", "./...", "--x: y", "true"].map(str::to_owned).to_vec();
        let own_gates = [("tests".to_owned(), run.clone()), ("tests-web".to_owned(), vec!["npm".to_owned()])];
        let setup = [vec!["sh".to_owned(), "-c".to_owned(), "a || true".to_owned()]];
        let on = OnOff::On;
        let whole =
            PatternFit { name: Some(&name), tests: &own_gates, setup: &setup, branch: Some("on,#1"), instructions: on };
        let own = fit("ci-sweeper", &whole);
        assert_eq!((own.setup.as_slice(), own.instructions, own.gates[1].name()), (&setup[..], OnOff::On, "tests-web"));
        assert_eq!((own.name.as_str(), own.level), ("green", LoopLevel::L2Assisted));
        let Gate::Run(tests) = &own.gates[0] else { panic!("the first gate runs the tests") };
        assert_eq!((tests.run.as_slice(), tests.red_before), (run.as_slice(), true));
        assert!(tests.timeout.is_some());
        let json = serde_json::to_value(&own.on.probe).expect("serialises");
        assert_eq!(json["branch"], "on,#1");
        let whole = LoopPattern::all().all(|pattern| {
            let text =
                pattern.loop_file(&PatternFit { branch: Some("main"), tests: &own_gates, ..PatternFit::default() });
            pattern.needs_tests() || text == pattern.text
        });
        assert!(whole, "a file without a test command stays as it is");
    }

    #[test]
    fn only_a_loop_with_tests_installs_what_they_need() {
        let setup = [vec!["cargo".to_owned(), "fetch".to_owned()]];
        for pattern in LoopPattern::all() {
            let own = fit(pattern.name, &PatternFit { setup: &setup, ..PatternFit::default() });
            assert_eq!(!own.setup.is_empty(), pattern.needs_tests(), "{}", pattern.name);
        }
    }

    #[test]
    fn loop_that_changes_code_stays_at_l1_without_a_test_command() {
        for pattern in LoopPattern::all() {
            let own = fit(pattern.name, &PatternFit::default());
            let expected = if pattern.needs_tests() { LoopLevel::L1Report } else { pattern.spec().level };
            assert_eq!(own.level, expected, "{}", pattern.name);
            assert!(!own.gates.iter().any(|gate| gate.name() == "tests"), "{}", pattern.name);
        }
    }
}

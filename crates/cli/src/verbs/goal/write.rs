//! `goal write TASK`: the contract of a task, from flags, from the repository, and on a terminal from one batch of
//! questions. Without a terminal it lists the missing answers. It overwrites no file.

use super::lint::lint_statically;
use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, as_loop_file, safe};
use crate::verbs::init;
use loopwright_core::goal::{CriterionDraft, CriterionProof, GateDraft, GoalDraft, MissingAnswer, read_goal_file};
use loopwright_core::level::LoopLevel;
use loopwright_core::name::LoopName;
use loopwright_core::spec::LoopMode;
use loopwright_core::units::TimeSpan;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of contracts, from the root of the working copy.
const GOALS_FOLDER: &str = ".loopwright/goals";
/// The most criteria that are asked for.
const CRITERIA_MAX: usize = 20;
/// The most words of the task in its name.
const NAME_WORDS: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct GoalWriteArgs {
    /// The task, as one sentence that can be verified
    #[arg(value_name = "TASK")]
    task: String,
    /// The name of the goal [default: from the task]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A condition of the goal: "TEXT => GATE", or "TEXT => human" if a person judges it
    #[arg(long = "criterion", value_name = "TEXT")]
    criteria: Vec<String>,
    /// A gate and its command: NAME="COMMAND WORDS"
    #[arg(long = "gate", value_name = "NAME=COMMAND", value_parser = parse_gate)]
    gates: Vec<GateDraft>,
    /// A rule for the way to the goal
    #[arg(long = "constraint", value_name = "TEXT")]
    constraints: Vec<String>,
    /// Files that may not change
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// The most that the goal may cost, in US dollars
    #[arg(long, value_name = "USD", default_value_t = 5.0, value_parser = parse_usd)]
    usd: f64,
    /// The most time that the goal may take
    #[arg(long, value_name = "TIME", default_value = "2h")]
    wall: TimeSpan,
    /// The most cycles
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    attempts: u32,
    /// The command that exercises the running application, for the prover
    #[arg(long, value_name = "COMMAND")]
    prove: Option<String>,
    /// The command that starts the application, for the prover
    #[arg(long, value_name = "COMMAND", requires = "prove")]
    start: Option<String>,
    /// The address that responds when the application is ready; `{port}` is replaced
    #[arg(long, value_name = "URL", requires = "start")]
    ready: Option<String>,
    /// Attackers that try to break the result, such as security,hostile-user
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    attack: Vec<String>,
    /// A dimension that the checker scores: NAME="MEANING" [default: correctness, scope, tests]
    #[arg(long = "dimension", value_name = "NAME=MEANING", value_parser = parse_dimension)]
    dimensions: Vec<(String, String)>,
    /// The mode of the loop that the goal becomes
    #[arg(long, value_name = "MODE", default_value = "goal-loop", value_parser = ["goal-loop", "single-run", "dynamic-workflow"])]
    mode: String,
    /// An item of a dynamic workflow
    #[arg(long = "item", value_name = "TEXT")]
    items: Vec<String>,
    /// One item of a dynamic workflow for each file that matches
    #[arg(long, value_name = "GLOB", conflicts_with = "items")]
    files: Vec<String>,
    /// How many items of a dynamic workflow run at once [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: Option<u32>,
    /// The contract file [default: .loopwright/goals/NAME.md]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The document of `goal write --json`.
#[derive(Debug, Serialize)]
struct WriteDocument {
    schema: u32,
    goal: String,
    /// The written file; `None` while answers are missing.
    file: Option<String>,
    missing: Vec<MissingLine>,
    /// Reasons not to run the goal as it is.
    findings: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MissingLine {
    answer: &'static str,
    text: String,
    hint: &'static str,
}

pub(super) async fn run(args: GoalWriteArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let out = args.out.clone();
    let project = init::RepoProject::read(cx, &repo).await?;
    let mut draft = draft(args, &project)?;
    if cx.out.can_ask() {
        ask(cx, &mut draft);
    }
    add_tests(&mut draft, &project);
    let missing = draft.missing();
    if !missing.is_empty() {
        return Ok(report_missing(cx, &draft, missing));
    }
    let file = out.unwrap_or_else(|| repo.work_tree.join(GOALS_FOLDER).join(format!("{}.md", draft.name)));
    let shown = file.strip_prefix(&repo.work_tree).unwrap_or(&file).to_string_lossy().into_owned();
    let text = draft.render();
    let goal = read_goal_file(&shown, text.as_bytes()).map_err(|problems| {
        CommandError::new(CommandErrorKind::Usage, format!("the answers make no contract:\n{problems}"))
    })?;
    init::write_new(&cx.env.cwd.join(&file), &text).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CommandError::invalid(format!("`{shown}` already exists"))
            .hint("choose another file with --out, or another name with --name"),
        _ => CommandError::failed(format!("write `{shown}`: {error}")),
    })?;
    let linted = lint_statically(cx, &repo, &goal, &as_loop_file(cx, &repo, &file, &goal)).await;
    let (findings, notes) = linted.unwrap_or_else(|error| (vec![error.text], error.hints));
    let document =
        WriteDocument { schema: 1, goal: draft.name, file: Some(shown), missing: Vec::new(), findings, notes };
    cx.out.answer(&document, || page(&document));
    Ok(if document.findings.is_empty() { CommandExit::DONE } else { CommandExit::REJECTED })
}

fn draft(args: GoalWriteArgs, project: &init::RepoProject) -> Result<GoalDraft, CommandError> {
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.task));
    let name = LoopName::parse(&name).map_err(|error| {
        CommandError::new(CommandErrorKind::Usage, format!("`{name}` is not a valid name: {error}"))
            .hint("give another `--name`")
    })?;
    let words = |text: Option<&String>| text.map(|text| command_words(text)).unwrap_or_default();
    Ok(GoalDraft {
        name: name.to_string(),
        outcome: args.task,
        criteria: args.criteria.iter().map(|text| CriterionDraft::parse(text)).collect(),
        constraints: args.constraints,
        gates: with_tests(args.gates, project),
        setup: project.plan.setup.clone(),
        protect: args.protect,
        mode: LoopMode::parse(&args.mode).expect("the command line allows only modes"),
        items: args.items,
        files: args.files,
        at_once: args.at_once,
        level: LoopLevel::L2Assisted,
        usd: args.usd,
        wall: args.wall,
        attempts: args.attempts,
        start: words(args.start.as_ref()),
        ready: args.ready,
        exercise: words(args.prove.as_ref()),
        attack: args.attack,
        dimensions: args.dimensions,
    })
}

/// The gates with the repository's own tests, unless a gate of that name or with that command was given.
fn with_tests(mut gates: Vec<GateDraft>, project: &init::RepoProject) -> Vec<GateDraft> {
    let is_given = |run: &Vec<String>| gates.iter().any(|gate| gate.name == "tests" || gate.run == *run);
    if let Some(run) = project.test_command().filter(|run| !is_given(run)) {
        gates.push(GateDraft { name: "tests".to_owned(), run });
    }
    gates
}

/// Adds the repository's tests as a criterion, after the person's own. They alone do not state a goal.
fn add_tests(draft: &mut GoalDraft, project: &init::RepoProject) {
    let is_tests = |criterion: &CriterionDraft| criterion.proof == Some(CriterionProof::Gate("tests".to_owned()));
    let is_detected = project.test_command().is_some();
    let has_tests = draft.gates.iter().any(|gate| gate.name == "tests");
    if is_detected && has_tests && !draft.criteria.is_empty() && !draft.criteria.iter().any(is_tests) {
        draft.criteria.push(CriterionDraft::parse("the tests of the repository pass => tests"));
    }
}

/// Asks for everything that is missing.
fn ask(cx: &CommandContext, draft: &mut GoalDraft) {
    if draft.outcome.trim().is_empty() {
        draft.outcome = cx.out.ask_line("The outcome, as one sentence that can be verified:");
    }
    if draft.criteria.is_empty() {
        while draft.criteria.len() < CRITERIA_MAX {
            let text = cx.out.ask_line("A condition of the goal (empty to end):");
            if text.is_empty() {
                break;
            }
            draft.criteria.push(CriterionDraft::parse(&text));
        }
    }
    if draft.needs_items() {
        let glob = cx.out.ask_line("The items, as a glob of files:");
        draft.files.extend((!glob.is_empty()).then_some(glob));
    }
    let gates: Vec<String> = draft.gates.iter().map(|gate| gate.name.clone()).collect();
    for criterion in draft.criteria.iter_mut().filter(|criterion| criterion.proof.is_none()) {
        let known = if gates.is_empty() { String::new() } else { format!("a gate ({}), ", gates.join(", ")) };
        let question = format!("`{}` is proved by: human, {known}or a command:", safe(&criterion.text));
        let answer = cx.out.ask_line(&question);
        criterion.proof = match answer.as_str() {
            "" => None,
            "human" => Some(CriterionProof::Human),
            name if gates.iter().any(|gate| gate == name) => Some(CriterionProof::Gate(name.to_owned())),
            command => {
                let name = format!("criterion-{}", draft.gates.len() + 1);
                draft.gates.push(GateDraft { name: name.clone(), run: command_words(command) });
                Some(CriterionProof::Gate(name))
            }
        };
    }
    for name in draft.gates_without_command() {
        let run = command_words(&cx.out.ask_line(&format!("The command of the gate `{}`:", safe(&name))));
        if !run.is_empty() {
            draft.gates.push(GateDraft { name, run });
        }
    }
}

fn report_missing(cx: &CommandContext, draft: &GoalDraft, missing: Vec<(MissingAnswer, String)>) -> CommandExit {
    let missing = missing.into_iter();
    let lines =
        missing.map(|(answer, text)| MissingLine { answer: answer.word(), text, hint: answer.hint() }).collect();
    let document = WriteDocument {
        schema: 1,
        goal: draft.name.clone(),
        file: None,
        missing: lines,
        findings: Vec::new(),
        notes: Vec::new(),
    };
    if cx.out.is_json() {
        cx.out.document(&document);
        return CommandExit::USAGE;
    }
    let texts: Vec<&str> = document.missing.iter().map(|line| line.text.as_str()).collect();
    let mut error =
        CommandError::new(CommandErrorKind::Usage, format!("the goal is not complete: {}", texts.join("; ")));
    for line in &document.missing {
        if !error.hints.iter().any(|hint| hint == line.hint) {
            error = error.hint(line.hint);
        }
    }
    cx.out.error(&error);
    CommandExit::USAGE
}

fn page(document: &WriteDocument) -> String {
    let file = safe(document.file.as_deref().unwrap_or_default());
    let mut lines = vec![format!("wrote {file}")];
    lines.extend(document.findings.iter().map(|text| format!("bad   {}", safe(text))));
    lines.extend(document.notes.iter().map(|text| format!("note: {}", safe(text))));
    lines.push(format!("next: loopwright goal lint {file}"));
    lines.push(format!("next: loopwright goal run {file}"));
    lines.join("\n")
}

/// A name from the first words of a task.
pub(in crate::verbs) fn name_of(task: &str) -> String {
    let words = task.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.take(NAME_WORDS).collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let name: String = name.chars().take(40).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "goal".to_owned() } else { name.to_owned() }
}

/// A command as words; a shell runs only if the command names one.
fn command_words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn parse_gate(text: &str) -> Result<GateDraft, String> {
    match text.split_once('=').map(|(name, command)| (name.trim(), command_words(command))) {
        Some((name, run)) if !name.is_empty() && !run.is_empty() => Ok(GateDraft { name: name.to_owned(), run }),
        _ => Err("write NAME=COMMAND, such as tests=\"cargo test\"".to_owned()),
    }
}

fn parse_dimension(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').map(|(name, means)| (name.trim(), means.trim())) {
        Some((name, means)) if !name.is_empty() && !means.is_empty() => Ok((name.to_owned(), means.to_owned())),
        _ => Err("write NAME=MEANING, such as scope=\"only what the goal needs\"".to_owned()),
    }
}

fn parse_usd(text: &str) -> Result<f64, String> {
    let dollars =
        text.parse::<f64>().ok().filter(|dollars| dollars.is_finite() && (0.01..=100_000.0).contains(dollars));
    dollars.ok_or_else(|| "an amount in US dollars from 0.01 to 100000".to_owned())
}

/// Where a goal with this name is written.
pub(in crate::verbs) fn goal_path(name: &str) -> String {
    Path::new(GOALS_FOLDER).join(format!("{name}.md")).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_first_words_of_a_task() {
        let table = [
            ("Make the parser twice as fast!", "make-the-parser-twice-as"),
            ("  ", "goal"),
            ("—", "goal"),
            ("Use $HOME/x", "use-home-x"),
            (&"a".repeat(99), &"a".repeat(40)),
        ];
        for (task, name) in table {
            assert_eq!(name_of(task), name);
            assert!(LoopName::parse(&name_of(task)).is_ok(), "{task}");
        }
    }
}

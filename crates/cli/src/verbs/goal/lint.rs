//! `goal lint FILE`: everything that can be found before a goal runs. Its gates run on base and on a checkout without
//! the code, as in `gates test`: a gate that cannot fail proves nothing, and a goal whose gates all pass is reached.

use super::{
    CheckedLoopFile, CommandContext, CommandError, CommandExit, FileProblem, UserRepo, VerbResult, as_loop_file,
    read_goal, refuse_loop_name, safe,
};
use crate::context::{LoopPreflight, PreflightCache, error_from_problems};
use crate::error::with_count;
use crate::signals::CurrentRound;
use crate::verbs::{close, gates};
use loopwright_core::gate::GateStatus;
use loopwright_core::goal::{CriterionProof, GoalContract};
use loopwright_core::paths::Globs;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct GoalLintArgs {
    /// The contract
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not run the gates
    #[arg(long)]
    no_run: bool,
}

impl GoalLintArgs {
    pub(super) fn runs_gates(&self) -> bool {
        !self.no_run
    }
}

/// The document of `goal lint --json`.
#[derive(Debug, Serialize)]
struct LintDocument {
    schema: u32,
    goal: String,
    file: String,
    criteria: Vec<CriterionLine>,
    /// Reasons not to run the goal.
    findings: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CriterionLine {
    text: String,
    /// The name of its gate; `None` if a person judges it.
    gate: Option<String>,
    /// The gate's status on base; `None` if it did not run.
    on_base: Option<GateStatus>,
}

pub(super) async fn run(args: GoalLintArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let goal = read_goal(cx, &args.file)?;
    let file = as_loop_file(cx, &repo, &args.file, &goal);
    let (mut findings, mut notes) = lint_statically(cx, &repo, &goal, &file).await?;
    let mut criteria: Vec<CriterionLine> = goal.criteria.iter().map(criterion_line).collect();
    if args.runs_gates() {
        findings.extend(run_gates(cx, &repo, &goal, &mut criteria, &mut notes).await?);
    }
    let document = LintDocument { schema: 1, goal: goal.spec.name.clone(), file: file.file, criteria, findings, notes };
    cx.out.answer(&document, || page(&document));
    Ok(if document.findings.is_empty() { CommandExit::DONE } else { CommandExit::REJECTED })
}

fn criterion_line(criterion: &loopwright_core::goal::GoalCriterion) -> CriterionLine {
    let gate = match &criterion.proof {
        CriterionProof::Gate(name) => Some(name.clone()),
        CriterionProof::Human => None,
    };
    CriterionLine { text: criterion.text.clone(), gate, on_base: None }
}

/// Findings and notes that need no command to run. Problems that `check` also reports are errors.
pub(super) async fn lint_statically(
    cx: &CommandContext,
    repo: &UserRepo,
    goal: &GoalContract,
    file: &CheckedLoopFile,
) -> Result<(Vec<String>, Vec<String>), CommandError> {
    refuse_loop_name(cx, repo, goal)?;
    let found = LoopPreflight::check(file, &mut PreflightCache::new(cx, repo)?).await?;
    if !found.problems.is_empty() {
        return Err(error_from_problems(&found.problems));
    }
    let head = cx.git().head(repo, goal.spec.base.as_deref()).await?;
    let paths = cx.git().paths(repo, &head.commit).await?;
    let mut findings: Vec<String> =
        goal.missing_bounds().into_iter().map(|bound| format!("missing bound {bound}")).collect();
    findings.extend(missing_paths(goal, &paths, &file.file)?);
    let mut notes: Vec<String> = goal.spec.notes().iter().cloned().chain(found.notes).collect();
    if goal.criteria.iter().all(|criterion| criterion.proof == CriterionProof::Human) {
        notes.push("no criterion has a gate: only a person can say that the goal is reached".to_owned());
    }
    Ok((findings, notes))
}

/// Paths and scripts of the contract that base does not have.
fn missing_paths(goal: &GoalContract, paths: &BTreeSet<String>, file: &str) -> Result<Vec<String>, CommandError> {
    let mut missing = Vec::new();
    for (key, globs) in [("protect", &goal.spec.protect), ("allow_paths", &goal.spec.allow_paths)] {
        for glob in globs {
            let matcher = Globs::new(std::slice::from_ref(glob))
                .map_err(|error| error_from_problems(&[FileProblem::for_file(file, error.to_string())]))?;
            if !paths.iter().any(|path| matcher.matches(path)) {
                missing.push(format!("`{key}: {glob}` matches no file of base"));
            }
        }
    }
    let absent = |path: &&String| !paths.contains(path.as_str());
    missing.extend(goal.spec.context.iter().filter(absent).map(|path| format!("`context: {path}` is not in base")));
    let commands = goal.spec.prover.iter().flat_map(|prover| [&prover.start, &prover.exercise]);
    let scripts = commands.filter_map(|argv| argv.first()?.strip_prefix("./"));
    let gone = scripts.filter(|script| !paths.contains(*script));
    missing.extend(gone.map(|script| format!("the prover's `./{script}` is not in base")));
    Ok(missing)
}

/// Runs the gates on base, and judges the criteria by the results.
async fn run_gates(
    cx: &CommandContext,
    repo: &UserRepo,
    goal: &GoalContract,
    criteria: &mut [CriterionLine],
    notes: &mut Vec<String>,
) -> Result<Vec<String>, CommandError> {
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(repo), &cancel).await?;
    let tried = close(
        &engine,
        gates::try_gates(cx, &engine, repo, goal.spec.spec(), &cancel, gates::CanaryTrials::Skipped).await,
    )
    .await?;
    for line in criteria.iter_mut() {
        let ran = tried.gates.iter().find(|gate| Some(&gate.name) == line.gate.as_ref());
        line.on_base = ran.map(|gate| gate.status).filter(|status| *status != GateStatus::Skipped);
    }
    let unsound =
        tried.gates.iter().filter_map(|gate| Some(format!("gate `{}`: {}", gate.name, gate.finding.as_ref()?)));
    let mut findings: Vec<String> = unsound.collect();
    let is_reached = |line: &CriterionLine| line.on_base == Some(GateStatus::Passed);
    if !criteria.is_empty() && criteria.iter().all(is_reached) {
        findings.push(
            "every criterion holds on base already: the goal is reached, or its gates do not measure it".to_owned(),
        );
    } else {
        let held = criteria.iter().filter(|line| is_reached(line));
        notes.extend(held.map(|line| format!("`{}` holds on base already and has to stay so", line.text)));
    }
    Ok(findings)
}

fn page(document: &LintDocument) -> String {
    let mut lines = Vec::new();
    for line in &document.criteria {
        let proof = match (&line.gate, line.on_base) {
            (None, _) => "a person judges it".to_owned(),
            (Some(gate), None) => format!("gate {gate}"),
            (Some(gate), Some(status)) => format!("gate {gate}: {status} on base"),
        };
        lines.push(format!("criterion  {} ({})", safe(&line.text), safe(&proof)));
    }
    lines.extend(document.findings.iter().map(|text| format!("bad        {}", safe(text))));
    lines.extend(document.notes.iter().map(|text| format!("note: {}", safe(text))));
    lines.push(match document.findings.len() {
        0 => format!("{} is sound\nnext: loopwright goal run {}", safe(&document.goal), safe(&document.file)),
        count => with_count(count, "finding"),
    });
    lines.join("\n")
}

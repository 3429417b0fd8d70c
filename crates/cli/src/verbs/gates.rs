//! `gates test LOOP`: runs a loop's commands on base, and again on a checkout that has only the gates' own inputs. A
//! gate that still passes there always passes; one that could not start never ran. Both checkouts are layers over the
//! prepared base that rounds use too, so a test costs what the gates cost.

mod trial;

pub(super) use trial::try_gates;

use super::{CommandContext, CommandExit, VerbResult, close, safe};
use crate::error::with_count;
use crate::output::TextStyle;
use crate::signals::CurrentRound;
use crate::view::proposal::last_lines;
use loopwright_core::gate::{GateResult, GateStatus, missing_dependency, writes_read_only};
use loopwright_core::spec::RunGate;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct GatesArgs {
    #[command(subcommand)]
    what: GatesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GatesCommand {
    /// Run the gates of a loop on its base commit, and report gates that cannot fail or did not run
    Test {
        /// The name of the loop
        #[arg(value_name = "LOOP")]
        name: String,
        /// Also falsify the tests on base, and show how many can prove that a gate fails
        #[arg(long)]
        canaries: bool,
    },
}

/// The document of `gates test --json`.
#[derive(Debug, Serialize)]
pub(super) struct GateTrialDocument {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    base: String,
    pub(super) gates: Vec<GateTrialLine>,
}

/// One gate of the document.
#[derive(Debug, Serialize)]
pub(super) struct GateTrialLine {
    pub(super) name: String,
    /// Its status on base.
    pub(super) status: GateStatus,
    exit: Option<i32>,
    pub(super) duration_ms: u64,
    evidence: Vec<String>,
    /// The last part of its output on base.
    output: String,
    /// Whether it rejected a checkout without the code; `None` when it did not run.
    can_fail: Option<bool>,
    /// The problem of the gate.
    pub(super) finding: Option<String>,
    /// A note about it.
    pub(super) note: Option<String>,
    /// The number of tests whose falsification the gate notices; `None` without `--canaries`.
    canaries: Option<usize>,
    /// The number of its tests that a round would withhold from its maker.
    withheld: usize,
    /// Whether it did not pass because a dependency is not installed.
    #[serde(skip)]
    pub(super) misses_dependency: bool,
    /// Whether it did not pass because its tests write into a folder that is read-only in a gate.
    #[serde(skip)]
    pub(super) writes_inputs: bool,
    /// The file with its kept output; `None` if it did not run.
    #[serde(skip)]
    log: Option<PathBuf>,
}

/// Whether the canaries of gates that run tests are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CanaryTrials {
    Tried,
    Skipped,
}

pub(crate) async fn run(args: GatesArgs, cx: &CommandContext) -> VerbResult {
    let GatesCommand::Test { name, canaries } = args.what;
    let canaries = if canaries { CanaryTrials::Tried } else { CanaryTrials::Skipped };
    let repo = cx.repo().await?;
    let loops = cx.loops(&repo)?;
    let spec = loops.find(&name)?.spec.spec().clone();
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let document = close(&engine, try_gates(cx, &engine, &repo, &spec, &cancel, canaries).await).await?;
    cx.out.answer(&document, || page(cx, &document));
    let found = document.gates.iter().any(|line| line.finding.is_some());
    Ok(if found { CommandExit::REJECTED } else { CommandExit::DONE })
}

/// The note about a gate whose tests write into their own folders.
const WRITES_INPUTS: &str =
    "its tests write into a folder that is read-only in a gate: add `inputs_writable: true` to the gate";

/// A gate that judges the change itself cannot be tried here.
fn untried(name: &str) -> GateTrialLine {
    GateTrialLine {
        name: name.to_owned(),
        status: GateStatus::Skipped,
        exit: None,
        duration_ms: 0,
        evidence: Vec::new(),
        output: String::new(),
        can_fail: None,
        finding: None,
        note: Some("it judges a change, and base has none: it only runs in a round".to_owned()),
        canaries: None,
        withheld: 0,
        misses_dependency: false,
        writes_inputs: false,
        log: None,
    }
}

/// The line of a gate, or of a held-out check, which has no gate.
fn line(gate: Option<&RunGate>, on_base: &GateResult, without: &GateResult) -> GateTrialLine {
    let red_before = gate.is_some_and(|gate| gate.red_before);
    let ran = on_base.status != GateStatus::Failed;
    let can_fail = ran.then_some(!without.is_passed());
    let finding = match (ran, can_fail) {
        (false, _) => Some(format!("it never ran: {}", why_not_run(on_base))),
        (true, Some(false)) => Some("it passes on a checkout without the code: it cannot fail".to_owned()),
        (true, _) => None,
    };
    let missing = missing_dependency(&on_base.excerpt).filter(|_| !on_base.is_passed());
    let misses_dependency = missing.is_some();
    let is_restricted = gate.is_some_and(|gate| !gate.inputs_writable) && !on_base.is_passed();
    let writes_inputs = is_restricted && !misses_dependency && writes_read_only(&on_base.excerpt);
    let note = match (red_before, on_base.status) {
        (_, _) if missing.is_some() => missing.map(|missing| missing.text()),
        (_, _) if writes_inputs => Some(WRITES_INPUTS.to_owned()),
        (true, GateStatus::Passed) => Some("it is green on base: a round would find nothing to do".to_owned()),
        (false, GateStatus::Rejected) => Some("it is red on base: every candidate has to fix it".to_owned()),
        _ => None,
    };
    GateTrialLine {
        name: on_base.name.clone(),
        status: on_base.status,
        exit: on_base.exit,
        duration_ms: on_base.duration_ms,
        evidence: on_base.evidence.clone(),
        output: on_base.excerpt.clone(),
        can_fail,
        finding,
        note,
        canaries: None,
        withheld: 0,
        misses_dependency,
        writes_inputs,
        log: None,
    }
}

/// The cause of a gate without a verdict: the error of the start says more than the word for it.
fn why_not_run(on_base: &GateResult) -> &str {
    match (on_base.reason.as_deref(), on_base.evidence.first()) {
        (Some("not-started"), Some(why)) => why,
        (reason, _) => reason.unwrap_or("unknown"),
    }
}

fn page(cx: &CommandContext, document: &GateTrialDocument) -> String {
    if document.gates.is_empty() {
        return format!("{}: no gate runs a command", safe(&document.name));
    }
    let mut lines: Vec<String> = document.gates.iter().flat_map(|gate| gate.page_lines(cx)).collect();
    let tried = document.gates.iter().filter(|line| line.status != GateStatus::Skipped).count();
    lines.push(format!("{} tried", with_count(tried, "gate")));
    lines.join("\n")
}

impl GateTrialLine {
    /// Its result for people, with the last lines of a gate that did not pass.
    pub(super) fn page_lines(&self, cx: &CommandContext) -> Vec<String> {
        let (look, word) = match (&self.finding, self.status) {
            (Some(_), _) => (TextStyle::Red, "bad"),
            (None, GateStatus::Skipped) => (TextStyle::Dim, "-  "),
            (None, GateStatus::Rejected | GateStatus::Failed) => (TextStyle::Yellow, "red"),
            (None, GateStatus::Passed) => (TextStyle::Green, "ok "),
        };
        let mut lines = vec![format!("{}  {}: {} on base", cx.out.style(look, word), safe(&self.name), self.status)];
        lines.extend(self.finding.iter().map(|text| format!("     {}", safe(text))));
        if self.status != GateStatus::Passed {
            let last = last_lines(&self.output);
            let rest = self.log.as_ref().filter(|_| last.len() < self.output.trim_end().lines().count());
            lines.extend(last.into_iter().map(|text| format!("     | {}", safe(text))));
            lines.extend(rest.map(|path| format!("     the rest: {}", safe(&path.display().to_string()))));
        }
        let proofs =
            self.evidence.iter().filter(|fact| fact.starts_with("canaries: ") || fact.starts_with("withheld: "));
        lines.extend(proofs.map(|fact| format!("     {}", safe(fact))));
        lines.extend(self.note.iter().map(|text| format!("     note: {}", safe(text))));
        lines
    }
}

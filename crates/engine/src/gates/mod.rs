//! Runs the gates of a loop on a sealed candidate: pristine checkouts, base's own inputs, a clean environment, positive
//! evidence. `loopwright_core::gate` decides what a gate's result means; the driver decides how the round continues.
//!
//! The order of a round: [`resolve`] before the maker runs, [`GateRunner::baseline`] on base, then for each attempt
//! [`CandidateFacts::gather`], [`examine`] and [`GateRunner::run`].

mod baseline_cache;
mod examine;
mod facts;
mod gate_attempt;
mod heldout;
mod judge;
mod resolve;

pub use baseline_cache::{BaselineCache, DamagedBaseline};
pub use examine::{CandidateExamination, examine};
pub use facts::{CandidateFacts, FileFact, base_paths};
pub use heldout::{HeldoutChecks, HeldoutError};
pub use resolve::{GateProgram, ResolveError, ResolvedGates, ResolvedRun, resolve};

use crate::git::{GitError, Oid};
use crate::proc::{CancelToken, ProcessRunner, SpawnRequest};
use crate::sandbox_view::SandboxViews;
use crate::workspace::{ChangeStatus, SealedTree, Workspace, WorkspaceError, Workspaces};
use gate_attempt::GateAttempt;
use loopwright_core::gate::observed_tests::ObservedTests;
use loopwright_core::gate::{self, GateResult, GateStatus};
use loopwright_core::inventory::is_suite;
use loopwright_core::paths::{GlobError, Globs};
use loopwright_core::secrets::SecretHit;
use loopwright_core::spec::{CountFloor, Gate, ParseGate, RunGate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a gate when the loop does not set one.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);

/// The environment of gates besides the checkout.
#[derive(Debug, Clone, Default)]
pub struct GateEnv {
    /// Folders with programs, searched after the trusted ones: toolchains.
    pub extra_path: Vec<PathBuf>,
    /// Further variables: toolchain homes, and the secrets a loop passes to gates by name.
    pub vars: BTreeMap<OsString, OsString>,
}

/// An error that prevented the gates from running at all. A gate that could not run is not an error but a
/// [`GateStatus::Failed`] result.
#[derive(Debug, thiserror::Error)]
pub enum GatesError {
    /// The checkout could not be created.
    #[error("prepare a gate's checkout")]
    Workspace(#[from] WorkspaceError),
    /// The candidate could not be read.
    #[error("read the candidate")]
    Git(#[from] GitError),
    /// A sealed file cannot be found, so it cannot be examined.
    #[error("read `{0}` of the candidate")]
    Unreadable(String),
    /// A pattern of the loop is not a glob.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// A folder for the gate could not be created.
    #[error("create a folder for gate `{gate}`")]
    Io {
        /// The gate.
        gate: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The run was cancelled.
    #[error("cancelled while gate `{0}` ran")]
    Cancelled(String),
}

/// A gate's result on pure base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaseResult {
    /// The result on base, without comparisons with base.
    pub result: GateResult,
    /// The tests in its report; without a report, the tests in its output.
    pub seen: ObservedTests,
    /// The tests in its output.
    pub shown: ObservedTests,
}

/// The gates' results on base, by name.
#[derive(Debug, Clone, Default)]
pub struct GateBaseline(pub BTreeMap<String, BaseResult>);

impl GateBaseline {
    /// The results to record.
    #[must_use]
    pub fn results(&self) -> Vec<GateResult> {
        self.0.values().map(|base| base.result.clone()).collect()
    }

    /// The gates that could not run on base; a round cannot continue with them.
    pub fn failed(&self) -> impl Iterator<Item = &GateResult> {
        self.0.values().map(|base| &base.result).filter(|result| result.status == GateStatus::Failed)
    }
}

/// Runs gates for one workspace.
#[derive(Debug)]
pub struct GateRunner<'a> {
    /// Creates the checkouts.
    pub workspaces: &'a Workspaces,
    /// The round's workspace.
    pub workspace: &'a Workspace,
    /// Starts the processes.
    pub proc: &'a ProcessRunner,
    /// Creates the sandbox views in which the gates run.
    pub views: &'a SandboxViews,
    /// The gates' environment.
    pub env: &'a GateEnv,
    /// The cookie that marks the gates' process trees.
    pub cookie: &'a str,
    /// The request to cancel.
    pub cancel: &'a CancelToken,
}

impl GateRunner<'_> {
    /// Runs on pure base, before the maker: every gate that must be red there, and every gate whose result is compared
    /// with base. Gates with a known result do not run.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn baseline(&self, resolved: &ResolvedGates, known: GateBaseline) -> Result<GateBaseline, GatesError> {
        let mut baseline = known;
        for run in resolved.on_base() {
            if baseline.0.contains_key(&run.gate.name) {
                continue;
            }
            let base = self.workspace.base.clone();
            let seen = self.repeat(run, &base, &[], None).await?;
            let result = BaseResult { result: seen.result, seen: seen.tests, shown: seen.shown };
            baseline.0.insert(run.gate.name.clone(), result);
        }
        Ok(baseline)
    }

    /// Adds the gates' own variables. A secret adds a variable; it never replaces one that decides what runs.
    fn add_vars(&self, spawn: &mut SpawnRequest) {
        for (name, value) in &self.env.vars {
            spawn.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// Runs every gate on the sealed candidate, in order. All of them run, even after a rejection: a maker that sees
    /// every problem at once needs fewer attempts.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn run(
        &self,
        resolved: &ResolvedGates,
        sealed: &SealedTree,
        facts: &CandidateFacts,
        secrets: &[SecretHit],
        baseline: &GateBaseline,
    ) -> Result<Vec<GateResult>, GatesError> {
        let mut results = Vec::with_capacity(resolved.gates.len());
        for gate in &resolved.gates {
            results.push(match gate {
                resolve::ResolvedGate::Run(run) => self.run_gate(run, sealed, baseline).await?,
                resolve::ResolvedGate::Mechanical(gate) => self.mechanical(gate, sealed, facts, secrets).await?,
            });
        }
        Ok(results)
    }

    async fn mechanical(
        &self,
        gate: &Gate,
        sealed: &SealedTree,
        facts: &CandidateFacts,
        secrets: &[SecretHit],
    ) -> Result<GateResult, GatesError> {
        Ok(match gate {
            Gate::Diff(gate) => gate::diff::judge(gate, &facts.changes),
            Gate::Parse(gate) => parse(gate, facts)?,
            Gate::Markers(gate) => gate::markers::judge(gate, &facts.added),
            Gate::Length(gate) => {
                let engine = self.workspaces.engine();
                let bytes = engine.read_blob(&sealed.tree, &gate.length.file, facts::BLOB_BYTES_MAX).await?;
                gate::length::judge(gate, bytes.as_deref())
            }
            Gate::Secrets(gate) => {
                let found: Vec<String> = secrets.iter().map(|hit| format!("{} at {}", hit.rule, hit.place)).collect();
                GateResult::from_findings(&gate.name, "secrets", &found)
            }
            Gate::Run(gate) => GateResult::new(&gate.name, GateStatus::Failed).with_reason("not-resolved"),
        })
    }

    /// Runs the gate with base's inputs; if the maker edited them, again as sealed. If there are new inputs, the first
    /// run is without them: a new suite in the same process can change the meaning of the old ones. All runs must pass.
    async fn run_gate(
        &self,
        run: &ResolvedRun,
        sealed: &SealedTree,
        baseline: &GateBaseline,
    ) -> Result<GateResult, GatesError> {
        let touched = Touched::of(run, sealed)?;
        let base = baseline.0.get(&run.gate.name);
        let mut facts = Vec::new();
        let mut flaky = false;
        let mut result = GateResult::new(&run.gate.name, GateStatus::Failed).with_reason("not-run");
        for look in touched.looks() {
            let (commit, restore) = match look {
                GateRunView::WithoutNew => (
                    self.workspaces.commit_without(self.workspace, &sealed.commit, &touched.new).await?,
                    &touched.edited,
                ),
                GateRunView::WithBase => (sealed.commit.clone(), &touched.edited),
                GateRunView::AsSealed => (sealed.commit.clone(), &Vec::new()),
            };
            result = self.repeat(run, &commit, restore, base).await?.result;
            facts.extend(touched.run_note(look));
            flaky |= result.flaky;
            if !result.is_passed() {
                break;
            }
        }
        result.flaky = flaky;
        result.evidence.splice(0..0, facts);
        result.inputs_edited = !touched.declared.is_empty();
        result.red_before = base.is_some_and(|base| base.result.status == GateStatus::Rejected);
        Ok(result)
    }

    /// Runs the gate, and repeats it up to the gate's own limit while it is rejected. A pass after a rejection is
    /// recorded as a flake.
    async fn repeat(
        &self,
        run: &ResolvedRun,
        commit: &Oid,
        restore: &[String],
        base: Option<&BaseResult>,
    ) -> Result<judge::JudgedRun, GatesError> {
        let attempt = GateAttempt { gates: self, run, commit, restore };
        let compare = judge::ComparisonBase::new(commit == &self.workspace.base, base);
        let mut judged = attempt.run(compare).await?;
        for again in 0..run.gate.retries.min(RETRIES_MAX) {
            if judged.result.status != GateStatus::Rejected {
                break;
            }
            let failed = judged.result.reason.clone().unwrap_or_default();
            judged = attempt.run(compare).await?;
            if judged.result.is_passed() {
                judged.result.flaky = true;
                judged.result.evidence.push(format!("flaky: failed with `{failed}`, passed on repeat {}", again + 1));
            }
        }
        Ok(judged)
    }
}

/// Creates the private folders of one run.
fn private_folders<const N: usize>(private: &Path, names: [&str; N]) -> std::io::Result<[PathBuf; N]> {
    let folders = names.map(|name| private.join(name));
    folders.iter().try_for_each(std::fs::create_dir_all).map(|()| folders)
}

/// A gate or a check that could not start.
fn not_started(name: &str, status: GateStatus, why: &str) -> GateResult {
    let mut result = GateResult::new(name, status).with_reason("not-started");
    result.evidence.push(gate::excerpt::one_line(why));
    result
}

/// Most repeats, whatever number a loop requests.
const RETRIES_MAX: u32 = 10;

fn needs_base(gate: &RunGate) -> bool {
    let is_base = |floor: Option<CountFloor>| matches!(floor, Some(CountFloor::Base(_)));
    is_base(gate.evidence.as_ref().and_then(|rule| rule.tests_at_least))
        || is_base(gate.score.as_ref().and_then(|rule| rule.at_least))
        // The test count of a runner that prints one is compared with its count on base.
        || (gate.evidence.is_none() && gate.expect.is_none() && gate::runner::is_runner(&gate.run))
}

/// Every input of any gate that the candidate edited: base's version runs, and a person must review the edit.
///
/// # Errors
/// An input of a gate is not a glob.
pub fn edited_inputs(resolved: &ResolvedGates, sealed: &SealedTree) -> Result<Vec<String>, GatesError> {
    let mut edited = BTreeSet::new();
    for run in resolved.runs() {
        edited.extend(Touched::of(run, sealed)?.declared);
    }
    Ok(edited.into_iter().collect())
}

/// A candidate's changes to the files that decide a gate.
#[derive(Debug, Default)]
struct Touched {
    /// Files that are restored from base: the gate's inputs, and suites that runners find by their names.
    edited: Vec<String>,
    /// New files among or beside them.
    new: Vec<String>,
    /// The files of both lists that need a person: declared inputs, and new files that a program reads before base's.
    declared: Vec<String>,
}

impl Touched {
    fn of(run: &ResolvedRun, sealed: &SealedTree) -> Result<Self, GatesError> {
        let globs = Globs::new(&run.inputs)?;
        let mut touched = Self::default();
        for change in &sealed.changes {
            let path = &change.path;
            let (is_input, outranks) = (globs.matches(path), run.unasked.contains(path));
            let is_new = change.status == ChangeStatus::Added;
            if is_input || outranks || is_suite(path) {
                if is_new { &mut touched.new } else { &mut touched.edited }.push(path.clone());
            }
            if outranks || (is_input && !is_new) {
                touched.declared.push(path.clone());
            }
        }
        Ok(touched)
    }

    /// The runs that together decide, strictest first.
    fn looks(&self) -> Vec<GateRunView> {
        let new = (!self.new.is_empty()).then_some(GateRunView::WithoutNew);
        let edited = (!self.edited.is_empty()).then_some(GateRunView::AsSealed);
        new.into_iter().chain([GateRunView::WithBase]).chain(edited).collect()
    }

    /// The note in the report about a run that was not simply of the sealed tree.
    fn run_note(&self, look: GateRunView) -> Option<String> {
        match look {
            GateRunView::WithoutNew => Some(format!("ran without the new {}", shorten(&self.new))),
            GateRunView::WithBase => {
                (!self.edited.is_empty()).then(|| format!("ran with base's {}", shorten(&self.edited)))
            }
            GateRunView::AsSealed => Some("ran again as sealed".to_owned()),
        }
    }
}

/// The files that one run of a gate sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateRunView {
    /// Base's inputs without the new ones.
    WithoutNew,
    /// Base's inputs and the new ones.
    WithBase,
    /// The candidate's own inputs.
    AsSealed,
}

fn shorten(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn parse(gate: &ParseGate, facts: &CandidateFacts) -> Result<GateResult, GatesError> {
    let globs = Globs::new(&gate.parse)?;
    let files = facts.files.iter().filter(|file| globs.matches(&file.path));
    let present = files.filter_map(|file| Some((file.path.as_str(), file.after.as_deref()?)));
    Ok(gate::parse::judge(gate, present))
}

//! Runs the gates of a loop on a sealed candidate: pristine checkouts, base's own inputs, a clean environment, positive
//! evidence. `loopwright_core::gate` decides what a gate's result means; the driver decides how the round continues.
//!
//! The order of a round: [`resolve`] before the maker runs, [`GateRunner::baseline`] on base, then for each attempt
//! [`CandidateFacts::gather`], [`examine`] and [`GateRunner::run`].

mod base_texts;
mod baseline_cache;
mod canary_pool;
mod examine;
mod facts;
mod gate_attempt;
mod heldout;
mod judge;
mod proof;
mod reproduce;
mod resolve;
mod touched;
mod withhold;
mod written_places;

pub use baseline_cache::{BaselineCache, DamagedBaseline};
pub use canary_pool::{CanaryPool, CanaryProof, DataCanary};
pub use examine::{CandidateExamination, examine};
pub use facts::{CandidateFacts, FileFact, base_paths};
pub use heldout::{HeldoutChecks, HeldoutError};
pub use resolve::{GateProgram, ResolveError, ResolvedGates, ResolvedRun, find_installed, resolve, resolve_with};
pub use touched::{deciding_files, edited_inputs, restored_inputs};
pub use withhold::{WithheldTests, WithholdRequest, loop_text, withhold_roll};

use crate::git::{GitError, Oid};
use crate::live_line::ProgramReport;
use crate::proc::{CancelToken, ProcessRunner, SpawnRequest};
use crate::sandbox_view::MachineProfile;
use crate::sandbox_view::SandboxViews;
use crate::workspace::{ChangeStatus, SealedTree, Workspace, WorkspaceError, Workspaces};
use gate_attempt::{GateAttempt, RunSetting};
use loopwright_core::gate::observed_tests::ObservedTests;
use loopwright_core::gate::{self, GateResult, GateStatus};
use loopwright_core::paths::{GlobError, Globs};
use loopwright_core::secrets::SecretHit;
use loopwright_core::spec::{CountFloor, Gate, ParseGate, RunGate};
use proof::{GateProving, ProofSubject};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use touched::{GateRunView, Touched};

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
    /// A run that the proof of a gate needs could not start, so it says nothing about the candidate.
    #[error("gate `{}` could not start: {}", .0.name, .0.evidence.join("; "))]
    NotStarted(Box<GateResult>),
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
    /// The tests that it reported as failed.
    #[serde(default)]
    pub failed: BTreeSet<String>,
    /// The places where its programs wrote files; `None` if that is not known.
    #[serde(default)]
    pub wrote: Option<BTreeSet<String>>,
}

impl From<judge::JudgedRun> for BaseResult {
    fn from(seen: judge::JudgedRun) -> Self {
        Self { result: seen.result, seen: seen.tests, shown: seen.shown, failed: seen.failed, wrote: seen.wrote }
    }
}

/// Whether gates that passed must also prove that they can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateProof {
    /// As the gate declares: falsified tests, and a second machine.
    #[default]
    Declared,
    /// Not at all: at L1, where nothing ships, and where gates are only tried.
    Off,
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
    /// Whether gates that passed must prove more.
    pub proof: GateProof,
    /// Where canaries are cached.
    pub pools: Option<&'a BaselineCache<'a>>,
    /// Reports the running gate and its last line.
    pub progress: ProgramReport<'a>,
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
            baseline.0.insert(run.gate.name.clone(), seen.into());
        }
        Ok(baseline)
    }

    /// Runs a gate on pure base.
    async fn on_base(&self, run: &ResolvedRun) -> Result<BaseResult, GatesError> {
        let seen = self.repeat(run, &self.workspace.base.clone(), &[], None).await?;
        Ok(seen.into())
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
        let mut subject = None;
        let own = self.without_setup(sealed).await?;
        let hides_tests = !self.workspace.withheld().is_empty() && gate::runner::runs_tests(&run.gate.run);
        if hides_tests {
            let (tests, files) = (self.withheld_tests().await?, self.workspace.withheld().len());
            facts.push(format!("withheld from the maker: {tests} tests in {files} files"));
        }
        for look in touched.looks() {
            let (commit, restore) = match look {
                GateRunView::WithoutNew => {
                    (self.workspaces.commit_without(self.workspace, &own, &touched.new).await?, &touched.edited)
                }
                GateRunView::WithBase => (own.clone(), &touched.edited),
                GateRunView::AsSealed => (own.clone(), &Vec::new()),
            };
            let judged = self.repeat(run, &commit, restore, base).await?;
            facts.extend(written_places::note(base, judged.wrote.as_ref()).filter(|fact| !facts.contains(fact)));
            result = match judged.result.status {
                GateStatus::Rejected if hides_tests => self.without_withheld(run, &own, &touched, judged).await?,
                _ => judged.result,
            };
            subject.get_or_insert(ProofSubject { commit, restore: restore.clone() });
            facts.extend(touched.run_note(look));
            flaky |= result.flaky;
            if !result.is_passed() {
                break;
            }
        }
        if let Some(subject) = subject.filter(|_| result.is_passed() && self.proof == GateProof::Declared) {
            let changed = sealed.changes.iter().map(|change| change.path.clone()).collect();
            let sealed_subject = ProofSubject { commit: own, restore: Vec::new() };
            let proving = GateProving { gates: self, run, subject, base, changed };
            result = match proving.prove_all(result, touched.has_support.then_some(sealed_subject)).await {
                Err(GatesError::NotStarted(result)) => *result,
                proven => proven?,
            };
        }
        result.flaky |= flaky;
        // The reason of a rejection stays first.
        let at = usize::from(!result.is_passed()).min(result.evidence.len());
        result.evidence.splice(at..at, facts);
        result.inputs_edited = !touched.declared.is_empty();
        result.red_before = base.is_some_and(|base| base.result.status == GateStatus::Rejected);
        Ok(result)
    }

    /// The candidate without its own versions of files that the set-up made, such as a `.venv`: gates use the set-up's.
    async fn without_setup(&self, sealed: &SealedTree) -> Result<Oid, GatesError> {
        let Some(layer) = self.views.layer() else { return Ok(sealed.commit.clone()) };
        let is_made = |path: &String| std::fs::symlink_metadata(layer.work.join(path)).is_ok();
        let new = sealed.changes.iter().filter(|change| change.status == ChangeStatus::Added);
        let made: Vec<String> = new.map(|change| change.path.clone()).filter(is_made).collect();
        if made.is_empty() {
            return Ok(sealed.commit.clone());
        }
        Ok(self.workspaces.commit_without(self.workspace, &sealed.commit, &made).await?)
    }

    /// Runs the gate. A rejected run is repeated up to the gate's own limit, on base always, and on a candidate only if
    /// base shows the same flake. A pass after a rejection is recorded as a flake.
    async fn repeat(
        &self,
        run: &ResolvedRun,
        commit: &Oid,
        restore: &[String],
        base: Option<&BaseResult>,
    ) -> Result<judge::JudgedRun, GatesError> {
        let setting = RunSetting::plain(MachineProfile::first(self.views.layer()));
        let attempt = GateAttempt { gates: self, run, commit, restore, setting: &setting };
        let is_base = commit == &self.workspace.base;
        let compare = judge::ComparisonBase::new(is_base, base);
        let mut judged = attempt.run(compare).await?;
        let repeats = run.gate.retries.min(RETRIES_MAX);
        if repeats > 0 && judged.result.status == GateStatus::Rejected && !is_base {
            let flakes = self.flakes_on_base(run, base, &judged, repeats).await?;
            if !flakes {
                judged.result.evidence.push("not repeated: base does not show this flake".to_owned());
                return Ok(judged);
            }
        }
        for again in 0..repeats {
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

    /// Whether base fails sometimes, and in the tests that failed here: a repeat is for a flake of the repository, not for
    /// code that is right now and then.
    async fn flakes_on_base(
        &self,
        run: &ResolvedRun,
        base: Option<&BaseResult>,
        judged: &judge::JudgedRun,
        repeats: u32,
    ) -> Result<bool, GatesError> {
        if base.is_some_and(|base| base.result.flaky) && judged.failed.is_empty() {
            return Ok(true);
        }
        let setting = RunSetting::plain(MachineProfile::first(self.views.layer()));
        let commit = self.workspace.base.clone();
        let attempt = GateAttempt { gates: self, run, commit: &commit, restore: &[], setting: &setting };
        let (mut sometimes, mut always): (BTreeSet<String>, Option<BTreeSet<String>>) = (BTreeSet::new(), None);
        let (mut passed, mut failed) = (base.is_some_and(|base| base.result.is_passed()), false);
        for _ in 0..=repeats {
            let seen = attempt.run_started(judge::ComparisonBase::Nothing).await?;
            passed |= seen.result.is_passed();
            failed |= seen.result.status == GateStatus::Rejected;
            always = Some(match always {
                Some(known) => known.intersection(&seen.failed).cloned().collect(),
                None => seen.failed.clone(),
            });
            sometimes.extend(seen.failed);
            let flaky: BTreeSet<&String> =
                sometimes.iter().filter(|id| !always.iter().flatten().any(|one| one == *id)).collect();
            let by_id = !judged.failed.is_empty() && judged.failed.iter().all(|id| flaky.contains(id));
            if by_id || (judged.failed.is_empty() && passed && failed) {
                return Ok(true);
            }
        }
        Ok(false)
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
        // The tests of a run are compared with those on base, and falsified tests are tried there.
        || gate::runner::runs_tests(&gate.run)
}

fn parse(gate: &ParseGate, facts: &CandidateFacts) -> Result<GateResult, GatesError> {
    let globs = Globs::new(&gate.parse)?;
    let files = facts.files.iter().filter(|file| globs.matches(&file.path));
    let present = files.filter_map(|file| Some((file.path.as_str(), file.after.as_deref()?)));
    Ok(gate::parse::judge(gate, present))
}

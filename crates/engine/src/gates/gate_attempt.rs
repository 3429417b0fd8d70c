//! One run of one gate: creates a pristine checkout, restores base's inputs, removes old reports, runs the command, and
//! reads its output and reports.

use super::judge::{ComparisonBase, JudgedRun, RunArtefacts, judge};
use super::resolve::{GateProgram, ResolvedRun};
use super::written_places::FileSurvey;
use super::{GateRunner, GatesError, TIMEOUT_DEFAULT};
use crate::git::Oid;
use crate::live_line::LiveLine;
use crate::proc::{RunEnd, RunLimits, SpawnRequest, TreeCookie};
use crate::sandbox_view::{self, MachineProfile, ProgramFolders};
use crate::workspace::{CheckoutFiles, CommitSnapshot, SnapshotKind, leads_to};
use loopwright_core::gate::observed_tests::TestOutcome;
use loopwright_core::gate::{GateStatus, junit, selection};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Bytes kept of each stream's start and end: enough for every test's line of a large suite.
const KEEP_HEAD: usize = 1 << 20;
const KEEP_TAIL: usize = 4 << 20;

/// Largest report that is read.
const REPORT_BYTES_MAX: u64 = 32 << 20;

/// One gate run: the gate, its program and the commit it runs on.
pub(super) struct GateAttempt<'a> {
    pub(super) gates: &'a GateRunner<'a>,
    pub(super) run: &'a ResolvedRun,
    pub(super) commit: &'a Oid,
    /// Inputs that are restored from base.
    pub(super) restore: &'a [String],
    /// How this run differs from a plain one.
    pub(super) setting: &'a RunSetting,
}

/// How a run differs from a gate's plain run.
#[derive(Debug, Clone)]
pub(super) struct RunSetting {
    /// The machine that the program sees.
    pub(super) machine: MachineProfile,
    /// Files with other contents: falsified tests.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// Further arguments, which select tests.
    pub(super) args: Vec<String>,
    /// Whether the engine requests a report of its own.
    pub(super) reports: RunReports,
}

/// The reports that a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunReports {
    /// Those that the gate declares.
    Declared,
    /// Also one for the engine, from runners that take a variable for it.
    Own,
}

impl RunSetting {
    /// A plain run on this machine.
    pub(super) fn plain(machine: MachineProfile) -> Self {
        Self { machine, files: Vec::new(), args: Vec::new(), reports: RunReports::Declared }
    }
}

/// The file below the temporary folder in which pytest writes the engine's own report.
const OWN_REPORT: &str = "results.xml";

impl GateAttempt<'_> {
    /// Runs the gate in a checkout of its own and removes the checkout afterwards, so nothing that one run leaves
    /// reaches the next.
    pub(super) async fn run(&self, against: ComparisonBase<'_>) -> Result<JudgedRun, GatesError> {
        let gates = self.gates;
        let has_other_files = !self.setting.files.is_empty();
        let kind = if has_other_files { SnapshotKind::WithOtherFiles } else { SnapshotKind::WithGit };
        let snapshot =
            gates.workspaces.snapshot(gates.workspace, "gate", self.commit, kind, &gates.views.extra_lower()).await?;
        if !self.restore.is_empty() {
            let base = &gates.workspace.base;
            gates.workspaces.restore_paths(gates.workspace, &snapshot, base, self.restore).await?;
        }
        self.write_files(&snapshot).await?;
        if has_other_files {
            let files = self.setting.files.iter().map(|(path, _)| path);
            let changed: Vec<String> = self.restore.iter().chain(files).cloned().collect();
            gates.workspaces.add_single_commit(gates.workspace, &snapshot, self.commit, &changed).await?;
        }
        let private = gates.workspace.root.join("gate-private");
        let judged = self.in_checkout(&snapshot.files, &private, against).await;
        gates.workspaces.drop_snapshots(gates.workspace, [private, snapshot.root]);
        judged
    }

    /// Runs the gate for a proof, in which a red run is good news: one that could not start must not count as red.
    pub(super) async fn run_started(&self, against: ComparisonBase<'_>) -> Result<JudgedRun, GatesError> {
        let judged = self.run(against).await?;
        match judged.result.status {
            GateStatus::Failed => Err(GatesError::NotStarted(Box::new(judged.result))),
            GateStatus::Passed | GateStatus::Rejected | GateStatus::Skipped => Ok(judged),
        }
    }

    /// Writes the files with other contents over the checkout's own, which keeps their permissions.
    async fn write_files(&self, snapshot: &CommitSnapshot) -> Result<(), GatesError> {
        let gates = self.gates;
        let is_restored = |path: &&String| self.restore.contains(*path);
        let own: Vec<String> =
            self.setting.files.iter().map(|(path, _)| path).filter(|path| !is_restored(path)).cloned().collect();
        gates.workspaces.restore_paths(gates.workspace, snapshot, self.commit, &own).await?;
        let Some(folder) = snapshot.files.written_folder() else { return Ok(()) };
        let failed = |source| GatesError::Io { gate: self.run.gate.name.clone(), source };
        for (path, bytes) in &self.setting.files {
            let place = folder.join(path);
            // Only a plain file that was just written is replaced, never the target of a link.
            if std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_file()) {
                std::fs::write(&place, bytes).map_err(failed)?;
            }
        }
        Ok(())
    }

    async fn in_checkout(
        &self,
        files: &CheckoutFiles,
        private: &Path,
        against: ComparisonBase<'_>,
    ) -> Result<JudgedRun, GatesError> {
        let checkout = files.written_folder().unwrap_or(private);
        let gate = &self.run.gate;
        let failed = |source| GatesError::Io { gate: gate.name.clone(), source };
        if let GateProgram::Missing(name) = &self.run.program {
            return Ok(not_started(&gate.name, &format!("`{name}` is not installed")));
        }
        if !self.run.is_unchanged() {
            return Ok(not_started(&gate.name, "the program is not the file it was when the round began"));
        }
        let [home, tmp] = super::private_folders(private, ["home", "tmp"]).map_err(failed)?;
        let tmp_inside = tmp.join(&self.setting.machine.tmp);
        std::fs::create_dir_all(&tmp_inside).map_err(failed)?;
        let seat = ProgramFolders { files, home: &home, tmp: &tmp };
        if self.gates.views.layer().is_none() {
            self.setting.machine.furnish(&home).map_err(failed)?;
        }
        self.gates.views.copy_setup_layer(seat).map_err(failed)?;
        // A report that the candidate committed, or that a set-up left, is not evidence of this run.
        self.reports().try_for_each(|report| files.hide(Path::new(report))).map_err(failed)?;
        let spawn = self.spawn(self.run.program.path_in(checkout), seat, &tmp_inside);
        let before = FileSurvey::take(checkout, &home);
        let mut watch = LiveLine::start(&gate.name, self.gates.progress);
        let ended = match self.gates.proc.run(spawn, &mut watch, self.gates.cancel, |_| ()).await {
            Ok(ended) => ended,
            Err(error) => return Ok(not_started(&gate.name, &error.to_string())),
        };
        if ended.how == RunEnd::Cancelled {
            return Err(GatesError::Cancelled(gate.name.clone()));
        }
        let left = |path: &str| read_report(checkout, path);
        let mut judged = judge(gate, &ended, &RunArtefacts { read: &left }, against);
        let after = FileSurvey::take(checkout, &home);
        judged.wrote = before.zip(after).map(|(before, after)| after.places_since(&before));
        if self.setting.reports == RunReports::Own && !judged.result.is_passed() {
            let (failed, passed) = own_report(&tmp_inside);
            judged.failed.extend(failed);
            judged.passed.extend(passed);
        }
        Ok(judged)
    }

    fn spawn(&self, program: PathBuf, seat: ProgramFolders<'_>, tmp: &Path) -> SpawnRequest {
        let gates = self.gates;
        let mut room = gates.views.gate(seat, gates.views.gate_route(&self.run.gate.name), &self.setting.machine);
        if !self.run.gate.inputs_writable && !self.setting.machine.has_writable_tests() {
            room = room.with_folders_locked(seat.files, &self.run.test_folders);
        }
        let mut spawn =
            SpawnRequest::new(program, sandbox_view::host_folder(seat.files), TreeCookie::new(gates.cookie));
        let own = match self.setting.reports {
            RunReports::Declared => self.run.gate.run.clone(),
            // A run that stops at the first failure does not show the others.
            RunReports::Own => selection::without_early_end(&self.run.gate.run),
        };
        spawn.args = own.iter().skip(1).chain(&self.setting.args).map(OsString::from).collect();
        spawn.env = room.env(seat.home, tmp);
        gates.add_vars(&mut spawn);
        if self.setting.reports == RunReports::Own {
            let report = room.inside_path(&tmp.join(OWN_REPORT));
            let options = format!("-rfE --junitxml={}", report.display());
            spawn.env.entry("PYTEST_ADDOPTS".into()).or_insert_with(|| options.into());
        }
        let wall = self.run.gate.timeout.map_or(TIMEOUT_DEFAULT, |span| span.duration());
        spawn.limits =
            RunLimits { wall: Some(wall), keep_head: KEEP_HEAD, keep_tail: KEEP_TAIL, ..RunLimits::default() };
        self.setting.machine.with_parent(room.confine_spawn(spawn))
    }

    fn reports(&self) -> impl Iterator<Item = &str> {
        let rule = self.run.gate.evidence.as_ref();
        let junit = rule.and_then(|rule| rule.junit.as_deref());
        junit.into_iter().chain(rule.into_iter().flat_map(|rule| rule.files.iter().map(String::as_str)))
    }
}

/// A gate that could not start has no verdict: the result is failed, never passed and never rejected.
fn not_started(name: &str, why: &str) -> JudgedRun {
    let result = super::not_started(name, GateStatus::Failed, why);
    JudgedRun {
        result,
        tests: Default::default(),
        shown: Default::default(),
        failed: Default::default(),
        passed: Default::default(),
        is_complete: false,
        wrote: None,
    }
}

/// The failed and the passed tests in the engine's own report.
fn own_report(tmp: &Path) -> (Vec<String>, Vec<String>) {
    let bytes = read_report(tmp, OWN_REPORT);
    let tests = bytes.and_then(|bytes| junit::read(&bytes).ok()).unwrap_or_default().tests;
    let of = |end: TestOutcome| {
        let tests = tests.iter().filter(|test| test.end == end && !test.id.is_empty());
        tests.map(|test| test.id.clone()).collect()
    };
    (of(TestOutcome::Failed), of(TestOutcome::Passed))
}

/// A report's path in the checkout; `None` if the path leads out of it.
fn inside(checkout: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then(|| checkout.join(path))
}

/// The report that the run wrote, if it is a plain file in real folders and not too large. A report behind a link is
/// ignored: its target may have come with the candidate.
fn read_report(checkout: &Path, report: &str) -> Option<Vec<u8>> {
    let path = inside(checkout, report)?;
    let found = std::fs::symlink_metadata(&path).ok()?;
    let is_fine = leads_to(checkout, Path::new(report)) && found.is_file() && found.len() <= REPORT_BYTES_MAX;
    if is_fine { std::fs::read(&path).ok() } else { None }
}

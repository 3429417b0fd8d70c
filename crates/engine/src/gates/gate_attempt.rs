//! One run of one gate: creates a pristine checkout, restores base's inputs, removes old reports, runs the command, and
//! reads its output and reports.

use super::judge::{ComparisonBase, JudgedRun, RunArtefacts, judge};
use super::resolve::{GateProgram, ResolvedRun};
use super::{GateRunner, GatesError, TIMEOUT_DEFAULT};
use crate::git::Oid;
use crate::proc::{RunEnd, RunLimits, SpawnRequest, TreeCookie};
use crate::sandbox_view::{self, ProgramFolders};
use crate::workspace::{CheckoutFiles, SnapshotKind, leads_to};
use loopwright_core::gate::GateStatus;
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
}

impl GateAttempt<'_> {
    /// Runs the gate in a checkout of its own and removes the checkout afterwards, so nothing that one run leaves
    /// reaches the next.
    pub(super) async fn run(&self, against: ComparisonBase<'_>) -> Result<JudgedRun, GatesError> {
        let gates = self.gates;
        let kind = SnapshotKind::WithGit;
        let snapshot =
            gates.workspaces.snapshot(gates.workspace, "gate", self.commit, kind, &gates.views.extra_lower()).await?;
        if !self.restore.is_empty() {
            let base = &gates.workspace.base;
            gates.workspaces.restore_paths(gates.workspace, &snapshot, base, self.restore).await?;
        }
        let private = gates.workspace.root.join("gate-private");
        let judged = self.in_checkout(&snapshot.files, &private, against).await;
        gates.workspaces.drop_snapshots(gates.workspace, [private, snapshot.root]);
        judged
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
        let seat = ProgramFolders { files, home: &home, tmp: &tmp };
        self.gates.views.copy_setup_layer(seat).map_err(failed)?;
        // A report that the candidate committed, or that a set-up left, is not evidence of this run.
        self.reports().try_for_each(|report| files.hide(Path::new(report))).map_err(failed)?;
        let spawn = self.spawn(self.run.program.path_in(checkout), seat);
        let ended = match self.gates.proc.run(spawn, &mut (), self.gates.cancel, |_| ()).await {
            Ok(ended) => ended,
            Err(error) => return Ok(not_started(&gate.name, &error.to_string())),
        };
        if ended.how == RunEnd::Cancelled {
            return Err(GatesError::Cancelled(gate.name.clone()));
        }
        let left = |path: &str| read_report(checkout, path);
        Ok(judge(gate, &ended, &RunArtefacts { read: &left }, against))
    }

    fn spawn(&self, program: PathBuf, seat: ProgramFolders<'_>) -> SpawnRequest {
        let gates = self.gates;
        let room = gates.views.gate(seat, gates.views.gate_route(&self.run.gate.name));
        let mut spawn =
            SpawnRequest::new(program, sandbox_view::host_folder(seat.files), TreeCookie::new(gates.cookie));
        spawn.args = self.run.gate.run.iter().skip(1).map(OsString::from).collect();
        spawn.env = room.env(seat.home, seat.tmp);
        gates.add_vars(&mut spawn);
        let wall = self.run.gate.timeout.map_or(TIMEOUT_DEFAULT, |span| span.duration());
        spawn.limits =
            RunLimits { wall: Some(wall), keep_head: KEEP_HEAD, keep_tail: KEEP_TAIL, ..RunLimits::default() };
        room.confine_spawn(spawn)
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
    JudgedRun { result, tests: Default::default(), shown: Default::default() }
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

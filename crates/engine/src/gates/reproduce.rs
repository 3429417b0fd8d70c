//! Runs the reproduction of a finding on a commit: a shell script on standard input, in a fresh checkout, in the gates'
//! sandbox without a network route. Exit 1 shows the defect, exit 0 shows that it is not there, anything else shows
//! nothing.

use super::{GateRunner, GatesError, private_folders};
use crate::egress::EgressRoute;
use crate::git::Oid;
use crate::proc::{RunEnd, RunLimits, SpawnRequest, StdinSource, TreeCookie};
use crate::sandbox_view::{self, MachineProfile, ProgramFolders};
use crate::workspace::SnapshotKind;
use loopwright_core::gate::{GateResult, GateStatus, excerpt};
use loopwright_core::round::{RegressionCheck, ReproductionEnd};
use std::time::Duration;

/// The time limit of one reproduction.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes kept of its output's start and end.
const KEEP: usize = 64 << 10;

impl GateRunner<'_> {
    /// Runs a reproduction and returns its end and the end of its output.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn reproduce(&self, script: &str, commit: &Oid) -> Result<(ReproductionEnd, String), GatesError> {
        let (kind, extra) = (SnapshotKind::WithGit, self.views.extra_lower());
        let snapshot = self.workspaces.snapshot(self.workspace, "gate", commit, kind, &extra).await?;
        let private = self.workspace.root.join("gate-private");
        let failed = |source| GatesError::Io { gate: "reproduction".to_owned(), source };
        let [home, tmp] = private_folders(&private, ["home", "tmp"]).map_err(failed)?;
        let seat = ProgramFolders { files: &snapshot.files, home: &home, tmp: &tmp };
        self.views.copy_setup_layer(seat).map_err(failed)?;
        // An attacker's script gets no network route.
        let view = self.views.gate(seat, &EgressRoute::default(), &MachineProfile::first(self.views.layer()));
        let folder = sandbox_view::host_folder(seat.files);
        let mut spawn = SpawnRequest::new("/bin/sh", folder, TreeCookie::new(self.cookie));
        spawn.args = vec!["-s".into()];
        spawn.stdin = StdinSource::Bytes(script.as_bytes().to_vec());
        spawn.env = view.env(&home, &tmp);
        spawn.limits = RunLimits { wall: Some(TIMEOUT), keep_head: KEEP, keep_tail: KEEP, ..RunLimits::default() };
        let ended = self.proc.run(view.confine_spawn(spawn), &mut (), self.cancel, |_| ()).await;
        self.workspaces.drop_snapshots(self.workspace, [private, snapshot.root]);
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return Ok((ReproductionEnd::Inconclusive { why: error.to_string() }, String::new())),
        };
        let output = [ended.stdout.to_lossy_string(), ended.stderr.to_lossy_string()].join("\n");
        let output = excerpt::output_tail(output.as_bytes());
        let inconclusive = |why: String| ReproductionEnd::Inconclusive { why };
        let end = match ended.how {
            RunEnd::Cancelled => return Err(GatesError::Cancelled("reproduction".to_owned())),
            RunEnd::Exited(0) => ReproductionEnd::NotThere,
            RunEnd::Exited(1) => ReproductionEnd::Reproduced,
            RunEnd::Exited(code) => inconclusive(format!("exit {code}")),
            how => inconclusive(format!("{how:?}").to_lowercase()),
        };
        Ok((end, output))
    }

    /// Runs the reproductions of fixed findings as gates: they pass only if the defect is shown not to be there.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn regressions(&self, checks: &[RegressionCheck], commit: &Oid) -> Result<Vec<GateResult>, GatesError> {
        let mut results = Vec::with_capacity(checks.len());
        for check in checks {
            let (end, output) = self.reproduce(&check.script, commit).await?;
            let mut result = match end {
                ReproductionEnd::NotThere => GateResult::new(&check.gate, GateStatus::Passed),
                ReproductionEnd::Reproduced => {
                    GateResult::new(&check.gate, GateStatus::Rejected).with_reason("regression")
                }
                ReproductionEnd::Inconclusive { why } => {
                    let mut result = GateResult::new(&check.gate, GateStatus::Rejected).with_reason("inconclusive");
                    result.evidence.push(why);
                    result
                }
            };
            result.evidence.push(excerpt::one_line(&check.title));
            result.excerpt = output;
            results.push(result);
        }
        Ok(results)
    }
}

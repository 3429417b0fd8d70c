//! The proof that a gate which passed can fail on this very change: it runs again with falsified tests, which must fail,
//! and on another machine, where it must pass. Both runs use base's inputs exactly, without files that the maker added
//! beside them.

use super::canary_pool::{
    CanaryPool, CanaryProof, LONG_MS, TestTexts, commented_files, exit_batches, falsified_files, marked_files,
    selected_max,
};
use super::gate_attempt::{GateAttempt, RunReports, RunSetting};
use super::judge::{ComparisonBase, JudgedRun};
use super::{BaseResult, GateRunner, GatesError, ResolvedRun};
use crate::git::Oid;
use crate::sandbox_view::MachineProfile;
use loopwright_core::gate::{CanaryCounts, GateDoubt, GateResult, GateStatus, runner, selection};
use loopwright_core::inventory::canary::{CanaryReport, TestCanary, is_own_failure, judge_canaries, names_test};
use loopwright_core::round::CANARY_UNCALIBRATED;
use loopwright_core::spec::{CanaryMode, VaryMode};
use std::collections::BTreeSet;

/// Most tests that one run falsifies.
const FALSIFIED_MAX: usize = 40;
/// Most further runs for tests that a run did not show.
const MISSING_RUNS_MAX: usize = 3;

/// The tree that a proof is about: a commit, and the inputs that come from base.
#[derive(Debug, Clone)]
pub(super) struct ProofSubject {
    pub(super) commit: Oid,
    pub(super) restore: Vec<String>,
}

/// The tests that two runs falsify. Each test that was red on base is falsified in one of them and must pass in the other.
#[derive(Debug, Default)]
struct CanaryDraw {
    first: Vec<TestCanary>,
    second: Vec<TestCanary>,
}

impl CanaryDraw {
    fn new(pool: &CanaryPool, changed: &[String], roll: u64) -> Self {
        let order = |canaries: &[TestCanary], shift: u64| {
            let mut all = canaries.to_vec();
            all.sort_by_key(|canary| {
                let near = distance(&canary.path, changed);
                let key = [&(roll ^ shift).to_le_bytes() as &[u8], canary.path.as_bytes(), canary.name.as_bytes()];
                (near, loopwright_core::hash::hash_fields(&key))
            });
            all
        };
        if pool.proof == CanaryProof::Exit {
            let first = order(&pool.calibrated, 1).into_iter().chain(order(&pool.uncalibrated, 2)).collect();
            return Self { first, second: Vec::new() };
        }
        let (red, green) = (order(&pool.uncalibrated, 3), order(&pool.calibrated, 4));
        let (red_cut, green_cut) = (red.len().div_ceil(2), green.len().div_ceil(2));
        let take = |from: &[TestCanary]| from.iter().take(FALSIFIED_MAX).cloned().collect::<Vec<_>>();
        Self {
            first: [take(&red[..red_cut]), take(&green[..green_cut])].concat(),
            second: [take(&red[red_cut..]), take(&green[green_cut..])].concat(),
        }
    }
}

impl CanaryDraw {
    /// Keeps so many tests for each run; those that were red on base are first.
    fn limit(&mut self, most: Option<usize>) {
        let Some(most) = most else { return };
        self.first.truncate(most);
        self.second.truncate(most.div_ceil(2));
    }
}

/// How far a test's file is from the changed ones: the folders that they do not share.
fn distance(path: &str, changed: &[String]) -> usize {
    let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let own = parts(path);
    let away = |other: &String| {
        let other = parts(other);
        let shared = own.iter().zip(&other).take_while(|(one, two)| one == two).count();
        own.len() + other.len() - 2 * shared
    };
    changed.iter().map(away).min().unwrap_or(usize::MAX)
}

/// The proof of one gate.
pub(super) struct GateProving<'a> {
    pub(super) gates: &'a GateRunner<'a>,
    pub(super) run: &'a ResolvedRun,
    pub(super) subject: ProofSubject,
    pub(super) base: Option<&'a BaseResult>,
    pub(super) changed: Vec<String>,
}

impl GateProving<'_> {
    /// Adds the proof to the result of a gate that passed. The sealed tree is a second subject if the candidate changed
    /// files beside the tests.
    ///
    /// # Errors
    /// `NotStarted` if a run could not start: then the gate has no verdict.
    pub(super) async fn prove_all(
        mut self,
        result: GateResult,
        sealed: Option<ProofSubject>,
    ) -> Result<GateResult, GatesError> {
        let result = self.prove(result).await?;
        let Some(sealed) = sealed.filter(|_| result.is_passed() && result.doubt.is_none()) else { return Ok(result) };
        self.subject = sealed;
        self.prove_as_sealed(result).await
    }

    async fn prove(&self, mut result: GateResult) -> Result<GateResult, GatesError> {
        let gate = &self.run.gate;
        let is_tests = runner::runs_tests(&gate.run)
            || self.base.is_some_and(|base| base.shown.ran() > 0 || base.shown.failed() > 0)
            || result.tests.is_some_and(|tests| tests > 0)
            || self.script_names_tests().await?;
        let wants = (gate.canary == CanaryMode::Auto && is_tests, gate.vary != VaryMode::Off);
        if wants == (false, false) || (!is_tests && gate.vary != VaryMode::Always) {
            return Ok(result);
        }
        let mut pool = match wants.0 {
            true => self.gates.canary_pool(self.run, self.base).await?,
            false => CanaryPool::default(),
        };
        let roll = self.gates.roll(&gate.name)?;
        let texts = self.texts(&pool).await?;
        let mut draw = CanaryDraw::new(&pool, &self.changed, roll);
        draw.limit(self.selected_max());
        if wants.0 {
            self.canaries(&mut pool, &texts, draw.first.clone(), roll, &mut result).await?;
        }
        if wants.1 && result.is_passed() && result.doubt.is_none() {
            self.second_machine(&mut pool, &texts, draw, roll, &mut result).await?;
        }
        Ok(result)
    }

    /// Falsified tests must fail also with the candidate's own settings and helpers beside them, which base's inputs do
    /// not show.
    async fn prove_as_sealed(&self, mut result: GateResult) -> Result<GateResult, GatesError> {
        if result.canaries.as_ref().is_none_or(|counts| counts.made == 0) {
            return Ok(result);
        }
        let mut pool = self.gates.canary_pool(self.run, self.base).await?;
        let texts = self.texts(&pool).await?;
        let roll = self.gates.roll(&self.run.gate.name)?;
        let draw = CanaryDraw::new(&pool, &self.changed, roll);
        let mut seen = GateResult { evidence: Vec::new(), canaries: None, ..result.clone() };
        self.canaries(&mut pool, &texts, draw.first, roll, &mut seen).await?;
        if !seen.is_passed() || seen.doubt.is_some() {
            seen.evidence.insert(0, "with the candidate's own files beside the tests".to_owned());
            seen.evidence.extend(result.evidence);
            return Ok(GateResult { canaries: result.canaries, ..seen });
        }
        result.proven_as_sealed = seen.canaries.is_some_and(|counts| counts.made > 0);
        if result.proven_as_sealed {
            result.evidence.push("canaries died also with the candidate's own files beside the tests".to_owned());
        }
        Ok(result)
    }

    /// Whether the gate's inputs are tests, or a script or makefile that it runs names a folder of tests.
    async fn script_names_tests(&self) -> Result<bool, GatesError> {
        let folders = &self.run.test_folders;
        if folders.is_empty() {
            return Ok(false);
        }
        if self.run.inputs.iter().any(|glob| folders.iter().any(|folder| glob.starts_with(folder.as_str()))) {
            return Ok(true);
        }
        let base = &self.gates.workspace.base;
        let names: Vec<(&Oid, &str)> = self.run.inputs.iter().take(20).map(|path| (base, path.as_str())).collect();
        let scripts = self.gates.workspaces.engine().read_blobs(&names, 4 << 20).await?;
        let names_one = |bytes: &Vec<u8>| {
            let text = String::from_utf8_lossy(bytes);
            folders.iter().any(|folder| text.contains(&format!("{folder}/")))
        };
        Ok(scripts.iter().flatten().any(names_one))
    }

    /// The texts of the pool's files as this run sees them: base's, or the candidate's for tests among its code.
    async fn texts(&self, pool: &CanaryPool) -> Result<TestTexts, GatesError> {
        let canaries = pool.calibrated.iter().chain(&pool.uncalibrated);
        let paths: BTreeSet<String> =
            canaries.map(|canary| canary.path.clone()).chain(pool.tests.keys().cloned()).collect();
        let base = &self.gates.workspace.base;
        let source = |path: &String| if self.subject.restore.contains(path) { base } else { &self.subject.commit };
        let names: Vec<(&Oid, &str)> = paths.iter().map(|path| (source(path), path.as_str())).collect();
        let blobs = self.gates.workspaces.engine().read_blobs(&names, 64 << 20).await?;
        let texts = paths.iter().cloned().zip(blobs);
        Ok(texts.filter_map(|(path, bytes)| Some((path, String::from_utf8(bytes?).ok()?))).collect())
    }

    async fn run(&self, setting: &RunSetting, subject: &ProofSubject) -> Result<JudgedRun, GatesError> {
        let (commit, restore) = (&subject.commit, &subject.restore);
        let attempt = GateAttempt { gates: self.gates, run: self.run, commit, restore, setting };
        attempt.run_started(ComparisonBase::Base(self.base)).await
    }

    fn setting(&self, machine: MachineProfile, files: Vec<(String, Vec<u8>)>) -> RunSetting {
        RunSetting { files, reports: RunReports::Own, ..RunSetting::plain(machine) }
    }

    fn first_machine(&self) -> MachineProfile {
        MachineProfile::first(self.gates.views.layer())
    }

    /// Runs with falsified tests on the gate's own machine. Every one must be reported as failed, and no other.
    async fn canaries(
        &self,
        pool: &mut CanaryPool,
        texts: &TestTexts,
        drawn: Vec<TestCanary>,
        roll: u64,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let batches = exit_batches(&drawn);
        if pool.proof == CanaryProof::Exit && batches.len() > 1 && !runner::is_runner(&self.run.gate.run) {
            return self.batches(pool, texts, batches, result).await;
        }
        let (mut files, drawn) = falsified_files(texts, &drawn);
        if !files.is_empty() && pool.proof == CanaryProof::Ids {
            files = marked_if_possible(pool, texts, files, roll);
        }
        files.extend(pool.data.iter().map(|data| (data.path.clone(), data.text.clone().into_bytes())));
        if files.is_empty() {
            let why = pool.why_none.clone().unwrap_or_else(|| "no test of base is unchanged".to_owned());
            result.evidence.push(format!("canaries: none, {why}"));
            result.canaries = Some(Box::new(CanaryCounts { why_none: Some(why), ..CanaryCounts::default() }));
            return Ok(());
        }
        let mut setting = self.setting(self.first_machine(), files);
        setting.args = self.selected(&drawn, pool);
        let ended = self.run(&setting, &self.subject).await?;
        let mut report = self.report(pool, &drawn, &ended);
        self.find_missing(pool, texts, &drawn, &mut report).await?;
        self.judge_run(pool, &drawn, &ended, &report, result);
        self.judge_data(pool, &ended, result);
        self.note_counts(&drawn, pool, &report, result);
        if result.is_passed() && result.doubt.is_none() && !report.others.is_empty() {
            self.judge_others(pool, &drawn, &report.others, &setting, result).await?;
        }
        Ok(())
    }

    /// Without ids, the tests are falsified in a few batches, and each batch must turn the gate red.
    async fn batches(
        &self,
        pool: &CanaryPool,
        texts: &TestTexts,
        batches: Vec<Vec<TestCanary>>,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let (mut all, mut report) = (Vec::new(), CanaryReport::default());
        for batch in batches {
            let (files, drawn) = falsified_files(texts, &batch);
            if drawn.is_empty() {
                continue;
            }
            let ended = self.run(&self.setting(self.first_machine(), files), &self.subject).await?;
            let own = self.report(pool, &drawn, &ended);
            self.judge_run(pool, &drawn, &ended, &own, result);
            report.died.extend(own.died.iter().map(|at| all.len() + at));
            report.survived.extend(own.survived.iter().map(|at| all.len() + at));
            all.extend(drawn);
            if !result.is_passed() || result.doubt.is_some() {
                break;
            }
        }
        self.note_counts(&all, &CanaryPool::default(), &report, result);
        Ok(())
    }

    /// A run that stops early shows some tests not at all: they get runs of their own.
    async fn find_missing(
        &self,
        pool: &CanaryPool,
        texts: &TestTexts,
        drawn: &[TestCanary],
        report: &mut CanaryReport,
    ) -> Result<(), GatesError> {
        for _ in 0..MISSING_RUNS_MAX {
            if report.missing.is_empty() {
                break;
            }
            let missing = std::mem::take(&mut report.missing);
            let own: Vec<TestCanary> = missing.iter().map(|at| drawn[*at].clone()).collect();
            let setting = self.setting(self.first_machine(), falsified_files(texts, &own).0);
            let ended = self.run(&setting, &self.subject).await?;
            let again = self.report(pool, &own, &ended);
            report.died.extend(again.died.iter().map(|at| missing[*at]));
            report.survived.extend(again.survived.iter().map(|at| missing[*at]));
            report.missing.extend(again.missing.iter().map(|at| missing[*at]));
        }
        Ok(())
    }

    fn selected_max(&self) -> Option<usize> {
        selected_max(self.run, self.base?)
    }

    /// Arguments that select the falsified tests, for a gate that takes long and whose runner can.
    fn selected(&self, drawn: &[TestCanary], pool: &CanaryPool) -> Vec<String> {
        let is_long = self.base.is_some_and(|base| base.result.duration_ms > LONG_MS);
        if !is_long || pool.proof == CanaryProof::Exit || pool.data.is_some() {
            return Vec::new();
        }
        let names: Vec<&str> = drawn.iter().map(|canary| canary.name.as_str()).collect();
        selection::select_tests(&self.run.gate.run, &names).unwrap_or_default()
    }

    fn report(&self, pool: &CanaryPool, drawn: &[TestCanary], ended: &JudgedRun) -> CanaryReport {
        let all = 0..drawn.len();
        if ended.result.is_passed() {
            return CanaryReport { survived: all.collect(), ..CanaryReport::default() };
        }
        let by_id = judge_canaries(drawn, &ended.failed, &ended.passed, &pool.tests);
        let shows_ids =
            pool.proof == CanaryProof::Ids || runner::is_runner(&self.run.gate.run) && !by_id.died.is_empty();
        if !shows_ids {
            return CanaryReport { died: all.collect(), ..CanaryReport::default() };
        }
        let mut report = by_id;
        let is_noise = |id: &String| pool.noisy.contains(id) || self.is_data_test(pool, id);
        report.others.retain(|id| !is_noise(id));
        report
    }

    fn is_data_test(&self, pool: &CanaryPool, id: &str) -> bool {
        // A test that reads the falsified data may fail; its name is not among the sources' canaries.
        let canaries = || pool.calibrated.iter().chain(&pool.uncalibrated);
        pool.data.is_some() && !canaries().any(|canary| names_test(id, &canary.name))
    }

    fn judge_run(
        &self,
        pool: &CanaryPool,
        drawn: &[TestCanary],
        ended: &JudgedRun,
        report: &CanaryReport,
        result: &mut GateResult,
    ) {
        if !ended.is_complete {
            let why = ended.result.reason.as_deref().unwrap_or("no reason");
            return doubt(result, format!("the run with falsified tests did not end by itself: {why}"));
        }
        let survivors = report.survived.iter().map(|at| &drawn[*at]);
        let place = |canary: &TestCanary| format!("`{}` ({}:{})", canary.name, canary.path, canary.line);
        let (sure, unsure): (Vec<&TestCanary>, Vec<&TestCanary>) =
            survivors.partition(|canary| pool.calibrated.contains(canary));
        let listed = |all: &[&TestCanary]| all.iter().take(5).map(|one| place(one)).collect::<Vec<_>>().join(", ");
        // Without ids one survivor means that all survived.
        if !sure.is_empty() {
            let text = format!("passes with a falsified expectation: {}", listed(&sure));
            reject(result, "canary-survived", text);
        } else if !unsure.is_empty() {
            let text = "was red on base and passes with a falsified expectation";
            doubt(result, format!("{text}: {}", listed(&unsure)));
        } else if let Some(at) = report.missing.first() {
            doubt(result, format!("a falsified test is not in the report: {}", place(&drawn[*at])));
        }
    }

    /// Tests that failed on base with the falsified data must fail here as well.
    fn judge_data(&self, pool: &CanaryPool, ended: &JudgedRun, result: &mut GateResult) {
        let Some(data) = pool.data.as_ref().filter(|_| result.is_passed() && result.doubt.is_none()) else { return };
        if pool.proof == CanaryProof::Exit {
            if ended.result.is_passed() {
                doubt(result, format!("passes although `{}` is falsified", data.path));
            }
            return;
        }
        let fails = |name: &str| ended.failed.iter().any(|id| names_test(id, name));
        let alive: Vec<&String> = data.deaths.iter().filter(|name| !fails(name)).collect();
        if let Some(name) = alive.first() {
            reject(result, "canary-survived", format!("`{name}` passes although `{}` is falsified", data.path));
        } else if data.deaths.is_empty()
            && !data.readers.iter().any(|path| ended.failed.iter().any(|id| id.contains(stem(path))))
            && ended.result.is_passed()
        {
            doubt(result, format!("passes although `{}` is falsified", data.path));
        }
    }

    fn note_counts(&self, drawn: &[TestCanary], pool: &CanaryPool, report: &CanaryReport, result: &mut GateResult) {
        let data = u64::from(pool.data.is_some());
        let survived = (report.survived.len() + report.missing.len()) as u64;
        let made = drawn.len() as u64 + data;
        let of_data =
            if result.is_passed() && result.doubt.is_none() { 0 } else { data.min(made - drawn.len() as u64) };
        let survived = if survived == 0 && of_data > 0 && drawn.is_empty() { of_data } else { survived };
        result.canaries = Some(Box::new(CanaryCounts { made, died: made - survived, survived, why_none: None }));
        result.evidence.push(format!("canaries: {made} made, {} died, {survived} survived", made - survived));
    }

    /// A test that was not falsified failed: it fails without falsifications too, or it is flaky, or it depends on the
    /// text of the tests.
    async fn judge_others(
        &self,
        pool: &mut CanaryPool,
        drawn: &[TestCanary],
        others: &[String],
        setting: &RunSetting,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let ended = self.run(&RunSetting::plain(self.first_machine()), &self.subject).await?;
        let shown = others.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
        if !ended.result.is_passed() {
            let code = ended.result.reason.clone().unwrap_or_else(|| "exit".to_owned());
            reject(result, &code, format!("failed when it was repeated: {shown}"));
            return Ok(());
        }
        let was_red = |id: &String| pool.uncalibrated.iter().any(|canary| names_test(id, &canary.name));
        if others.iter().any(was_red) {
            let text = "was red on base and passes only while no other test is falsified";
            doubt(result, format!("{text}: {shown}"));
            return Ok(());
        }
        // A flaky test fails now and then; one that recognises the run fails in each of its kind.
        let again = self.run(setting, &self.subject).await?;
        let repeated = self.report(pool, drawn, &again).others;
        if !repeated.is_empty() && others.iter().all(|id| repeated.contains(id)) {
            doubt(result, format!("passes only while no other test is falsified: {shown}"));
            return Ok(());
        }
        result.flaky = true;
        result.evidence.push(format!("flaky: {shown} failed once and passed when repeated"));
        others.iter().for_each(|id| pool.leave_out(id));
        if let Some(pools) = self.gates.pools {
            pools.save_pool(self.run, pool);
        }
        Ok(())
    }

    /// Runs on another machine, with the other half of the tests falsified and a mark in each test. If some are falsified,
    /// programs may write to the tests there.
    async fn second_machine(
        &self,
        pool: &mut CanaryPool,
        texts: &TestTexts,
        draw: CanaryDraw,
        roll: u64,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let is_long = self.base.map_or(result.duration_ms, |base| base.result.duration_ms) > LONG_MS;
        // The tests of the first run are not falsified here: they have to pass.
        let all = draw.second.iter().chain(&draw.first).map(|canary| canary.name.as_str());
        let names: Vec<&str> = all.take(self.selected_max().unwrap_or(usize::MAX)).collect();
        let selected = selection::select_tests(&self.run.gate.run, &names).filter(|_| !names.is_empty());
        if is_long && selected.is_none() && self.run.gate.vary != VaryMode::Always {
            result.evidence.push("second machine: not used, the gate takes more than two minutes".to_owned());
            return Ok(());
        }
        let (falsified, drawn) = falsified_files(texts, &draw.second);
        let mut machine = MachineProfile::second(self.gates.views.layer(), roll);
        if !drawn.is_empty() {
            machine = machine.with_writable_tests();
        }
        let files = match pool.takes_marks {
            true => marked_files(texts, falsified, roll),
            false => commented_files(texts, falsified, roll),
        };
        let mut setting = self.setting(machine, files);
        if is_long && self.run.gate.vary != VaryMode::Always {
            setting.args = selected.unwrap_or_default();
        }
        let ended = self.run(&setting, &self.subject).await?;
        let mut report = self.report(pool, &drawn, &ended);
        if drawn.is_empty() {
            if !ended.result.is_passed() {
                return self.explain_difference(pool, &drawn, &ended, &setting, result).await;
            }
        } else {
            self.find_missing(pool, texts, &drawn, &mut report).await?;
            if !report.others.is_empty() || !ended.is_complete {
                return self.explain_difference(pool, &drawn, &ended, &setting, result).await;
            }
            self.judge_run(pool, &drawn, &ended, &report, result);
            self.add_counts(&drawn, &report, result);
        }
        if result.is_passed() {
            result.evidence.push("passed on a second machine".to_owned());
        }
        Ok(())
    }

    fn add_counts(&self, drawn: &[TestCanary], report: &CanaryReport, result: &mut GateResult) {
        let counts = result.canaries.get_or_insert_default();
        counts.made += drawn.len() as u64;
        counts.died += report.died.len() as u64;
        counts.survived += report.survived.len() as u64;
        let text = format!("canaries: {} made, {} died, {} survived", counts.made, counts.died, counts.survived);
        match result.evidence.iter_mut().find(|fact| fact.starts_with("canaries: ")) {
            Some(fact) => *fact = text,
            None => result.evidence.push(text),
        }
    }

    /// The second machine failed: because of the machine, because of base, or because the tests' text differs.
    async fn explain_difference(
        &self,
        pool: &CanaryPool,
        drawn: &[TestCanary],
        seen: &JudgedRun,
        setting: &RunSetting,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let plain = RunSetting { reports: RunReports::Own, ..RunSetting::plain(setting.machine.clone()) };
        let again = self.run(&plain, &self.subject).await?;
        if again.result.is_passed() {
            return self.explain_text(pool, drawn, seen, setting, result).await;
        }
        let commit = self.gates.workspace.base.clone();
        let attempt = GateAttempt { gates: self.gates, run: self.run, commit: &commit, restore: &[], setting: &plain };
        let on_base = attempt.run_started(ComparisonBase::Nothing).await?;
        let measured;
        let base = match self.base {
            Some(base) => base,
            None => {
                measured = self.gates.on_base(self.run).await?;
                &measured
            }
        };
        if is_same_on_base(base, &again, &on_base) {
            result
                .evidence
                .push("the repository's own tests depend on the machine; base fails on the second one too".to_owned());
            return Ok(());
        }
        let failed: Vec<String> = again.failed.iter().take(5).map(|id| format!("`{id}`")).collect();
        let what = if failed.is_empty() { again.result.reason.clone().unwrap_or_default() } else { failed.join(", ") };
        let text = format!("passes here and fails on a machine with other names, places and time zone: {what}");
        reject(result, "environment-dependent", text);
        Ok(())
    }

    /// The gate passes on the second machine with the exact text of the tests, and not with an equivalent one. A test
    /// that was green on base may be flaky, so the same run has a second try. A run without falsified tests could not
    /// decide this: programs may write to the tests here.
    async fn explain_text(
        &self,
        pool: &CanaryPool,
        drawn: &[TestCanary],
        seen: &JudgedRun,
        setting: &RunSetting,
        result: &mut GateResult,
    ) -> Result<(), GatesError> {
        let is_unexpected =
            |canary: &&TestCanary| !drawn.contains(canary) && is_own_failure(&seen.failed, canary, &pool.tests);
        if let Some(canary) = pool.uncalibrated.iter().find(is_unexpected) {
            let text = format!("`{}` was red on base and passes only with the exact text of its file", canary.name);
            doubt(result, text);
            return Ok(());
        }
        let again = self.run(setting, &self.subject).await?;
        let report = self.report(pool, drawn, &again);
        let is_clean = match drawn.is_empty() {
            true => again.result.is_passed(),
            false => again.is_complete && report.others.is_empty() && report.missing.is_empty(),
        };
        if !is_clean {
            doubt(result, "passes only with the exact text of its tests, or is flaky".to_owned());
            return Ok(());
        }
        result.flaky = true;
        result.evidence.push("flaky: failed once on a second machine and passed when repeated".to_owned());
        if !drawn.is_empty() {
            self.judge_run(pool, drawn, &again, &report, result);
            self.add_counts(drawn, &report, result);
        }
        Ok(())
    }
}

/// Every failure on the second machine is one that base has there and does not have here.
fn is_same_on_base(base: &BaseResult, again: &JudgedRun, on_base: &JudgedRun) -> bool {
    if again.failed.is_empty() {
        return base.result.is_passed() && !on_base.result.is_passed();
    }
    again.failed.iter().all(|id| on_base.failed.contains(id) && !base.failed.contains(id))
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// The falsified files; with all others and with marks, if base's tests take them.
fn marked_if_possible(
    pool: &CanaryPool,
    texts: &TestTexts,
    falsified: Vec<(String, Vec<u8>)>,
    roll: u64,
) -> Vec<(String, Vec<u8>)> {
    if pool.takes_marks { marked_files(texts, falsified, roll) } else { falsified }
}

fn reject(result: &mut GateResult, code: &str, text: String) {
    result.status = GateStatus::Rejected;
    result.reason = Some(code.to_owned());
    result.evidence.insert(0, text.clone());
    result.excerpt = text;
}

fn doubt(result: &mut GateResult, text: String) {
    result.evidence.push(text.clone());
    result.doubt = Some(Box::new(GateDoubt { code: CANARY_UNCALIBRATED.to_owned(), text }));
}

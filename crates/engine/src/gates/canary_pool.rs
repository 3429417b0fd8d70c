//! The canaries of a gate: falsifications of base's tests, each tried on base once. A test that is green on base and red
//! when falsified can prove later that it still fails when it should. The result is cached for the base commit; makers
//! never see it.

use super::base_texts::{self, BaseTexts};
use super::gate_attempt::{GateAttempt, RunReports, RunSetting};
use super::judge::{ComparisonBase, JudgedRun};
use super::{BaseResult, GateRunner, GatesError, ResolvedRun};
use crate::sandbox_view::MachineProfile;
use loopwright_core::gate::selection;
use loopwright_core::inventory::canary::{
    CanaryWidth, TestCanary, TestsByFile, apply_canaries, canary_tests, falsify_data, find_canaries, is_file_failed,
    is_own_failure, is_reported_failed, judge_canaries, names_test, with_harmless_comment, with_harmless_marks,
};
use loopwright_core::inventory::{is_suite, test_folder};
use loopwright_core::paths::Globs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most files of tests that are read.
const FILES_MAX: usize = 400;
/// Most bytes of all of them.
const BYTES_MAX: usize = 24 << 20;
/// Most tests that one run on base falsifies.
const TRIED_MAX: usize = 80;
/// Most batches of a gate that shows only an exit code.
const EXIT_BATCHES_MAX: usize = 4;
/// Most repeats without files that cannot be loaded when falsified.
const UNLOADED_RUNS_MAX: usize = 2;
/// A gate that takes longer is tried only once on base.
const SHORT_MS: u64 = 10_000;
/// A gate that takes longer is falsified, and varied, only where its runner can select tests.
pub(super) const LONG_MS: u64 = 120_000;

/// How a gate shows that a falsified test failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryProof {
    /// By the ids of failed tests.
    #[default]
    Ids,
    /// By its exit code alone.
    Exit,
}

/// The canaries of one gate on one base.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryPool {
    /// How the gate shows failures.
    pub proof: CanaryProof,
    /// Green on base, and red when falsified.
    pub calibrated: Vec<TestCanary>,
    /// Red on base, so that nothing can be tried there.
    pub uncalibrated: Vec<TestCanary>,
    /// A falsified file of data that tests compare with, and the tests that it made fail on base.
    pub data: Option<DataCanary>,
    /// All tests that the files show.
    pub tests: TestsByFile,
    /// Tests that failed although they were not falsified, or that are flaky. They prove nothing.
    pub noisy: BTreeSet<String>,
    /// Why there is no canary.
    pub why_none: Option<String>,
    /// Whether each test can get a statement without effect: base's tests end with it as they do without it.
    pub takes_marks: bool,
}

/// Whether a run on base marks its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestMarks {
    None,
    /// A comment at the end of each file of tests.
    Comment,
    /// A statement in each test.
    Each,
}

/// A falsified file of data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataCanary {
    /// Its path.
    pub path: String,
    /// Its falsified content.
    pub text: String,
    /// Tests that were green on base and failed with it.
    pub deaths: BTreeSet<String>,
    /// Files of tests that name it.
    pub readers: BTreeSet<String>,
}

impl CanaryPool {
    /// The number of tests that can be falsified.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calibrated.len() + self.uncalibrated.len() + usize::from(self.data.is_some())
    }

    /// Whether there is no canary.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the test and everything else in its file.
    pub(super) fn leave_out(&mut self, id: &str) {
        let named = |canary: &TestCanary| names_test(id, &canary.name);
        let files: BTreeSet<String> =
            self.calibrated.iter().filter(|canary| named(canary)).map(|canary| canary.path.clone()).collect();
        self.calibrated.retain(|canary| !files.contains(&canary.path));
        self.noisy.insert(id.to_owned());
    }
}

/// The texts of base's tests, by path.
pub(super) type TestTexts = BaseTexts;

impl GateRunner<'_> {
    /// The canaries of a gate, from the cache or tried on base now.
    ///
    /// # Errors
    /// A checkout cannot be created, or the run was cancelled.
    pub async fn canary_pool(&self, run: &ResolvedRun, base: Option<&BaseResult>) -> Result<CanaryPool, GatesError> {
        if let Some(known) = self.pools.and_then(|pools| pools.load_pool(run)) {
            return Ok(known);
        }
        let pool = self.calibrate(run, base).await?;
        if let Some(pools) = self.pools {
            pools.save_pool(run, &pool);
        }
        Ok(pool)
    }

    async fn calibrate(&self, run: &ResolvedRun, base: Option<&BaseResult>) -> Result<CanaryPool, GatesError> {
        let (texts, data) = self.test_texts(run).await?;
        let names = |(path, text): (&String, &String)| {
            (path.clone(), canary_tests(path, text).into_iter().map(|test| test.name).collect())
        };
        let mut pool = CanaryPool { tests: texts.iter().map(names).collect(), ..CanaryPool::default() };
        let measured;
        let base = match base {
            Some(base) => base,
            None => {
                measured = self.on_base(run).await?;
                &measured
            }
        };
        let roll = self.roll(&run.gate.name)?;
        // A file of data concerns tests that cannot be selected by name.
        let data = data_canary(&texts, &data, roll).filter(|_| selected_max(run, base).is_none());
        let readers: BTreeSet<String> = data.iter().flat_map(|data| data.readers.iter().cloned()).collect();
        let sources = texts.iter().filter(|(path, _)| !readers.contains(*path));
        let wide: Vec<TestCanary> =
            sources.clone().flat_map(|(path, text)| find_canaries(path, text, CanaryWidth::All, roll)).collect();
        let narrow: Vec<TestCanary> =
            sources.flat_map(|(path, text)| find_canaries(path, text, CanaryWidth::One, roll)).collect();
        if wide.is_empty() && data.is_none() {
            return Ok(none(pool, "no test compares with a literal that can be falsified"));
        }
        let known = pool.tests.clone();
        let is_blind = !base.result.is_passed() && base.failed.is_empty();
        let is_red = |canary: &TestCanary| {
            is_blind || (!base.result.is_passed() && is_own_failure(&base.failed, canary, &known))
        };
        pool.uncalibrated = wide.iter().filter(|canary| is_red(canary)).take(TRIED_MAX).cloned().collect();
        pool.data = data;
        let mut narrow: Vec<TestCanary> = narrow.into_iter().filter(|canary| !is_red(canary)).collect();
        spread(&mut narrow, roll);
        narrow.truncate(selected_max(run, base).map_or(TRIED_MAX, |most| (2 * most).min(TRIED_MAX)));
        let trial = CanaryTrial { gates: self, run, base, texts: &texts, roll };
        if !is_blind {
            trial.try_on_base(&mut pool, narrow, &wide).await?;
        } else if pool.tests.is_empty() || base.shown.tests.is_empty() {
            // Nothing on base shows how this gate names its failures, so a pass of ids decides nothing.
            pool.proof = CanaryProof::Exit;
        }
        if pool.is_empty() {
            pool.why_none.get_or_insert_with(|| "no falsified test failed on base".to_owned());
        }
        Ok(pool)
    }

    /// A secret number for one decision.
    pub(super) fn roll(&self, gate: &str) -> Result<u64, GatesError> {
        let failed = |error: crate::error::EngineError| GatesError::Io {
            gate: gate.to_owned(),
            source: std::io::Error::other(error.to_string()),
        };
        crate::random::bytes::<8>().map(u64::from_le_bytes).map_err(failed)
    }

    /// Base's files with tests, and the data beside them.
    async fn test_texts(&self, run: &ResolvedRun) -> Result<(TestTexts, TestTexts), GatesError> {
        let base = &self.workspace.base;
        let paths = self.workspaces.engine().paths(base).await?;
        let globs = Globs::new(&run.inputs)?;
        let is_data = |path: &str| falsify_data(path, "value = 1\n{\"a\": 1}", 0).is_some();
        let is_wanted = |path: &&String| {
            let tests = is_suite(path) || test_folder(path).is_some() || globs.matches(path) || path.ends_with(".rs");
            tests && !path.starts_with(".loopwright/")
        };
        let mut wanted: Vec<&String> = paths.iter().filter(is_wanted).collect();
        wanted.sort_by_key(|path| (!is_suite(path), path.len()));
        wanted.truncate(FILES_MAX);
        let texts = base_texts::read_texts(self.workspaces.engine(), base, &wanted, BYTES_MAX).await?;
        let (mut tests, mut data) = (TestTexts::new(), TestTexts::new());
        for (path, text) in texts {
            if !canary_tests(&path, &text).is_empty() {
                tests.insert(path, text);
            } else if is_data(&path) {
                data.insert(path, text);
            }
        }
        Ok((tests, data))
    }
}

fn none(pool: CanaryPool, why: &str) -> CanaryPool {
    CanaryPool { why_none: Some(why.to_owned()), ..pool }
}

/// The most tests that a run selects, for a gate that takes long and whose runner can select: a tenth of all, so that the
/// further runs together take a fraction of its time.
pub(super) fn selected_max(run: &ResolvedRun, base: &BaseResult) -> Option<usize> {
    if base.result.duration_ms <= LONG_MS {
        return None;
    }
    selection::select_tests(&run.gate.run, &["any"])?;
    let all = usize::try_from(base.shown.ran().max(base.shown.failed())).unwrap_or(usize::MAX);
    Some((all / 10).max(2))
}

/// Mixes the tests, so that a limit does not always cut the same files.
fn spread(canaries: &mut [TestCanary], roll: u64) {
    canaries.sort_by_key(|canary| {
        loopwright_core::hash::hash_fields(&[&roll.to_le_bytes(), canary.path.as_bytes(), canary.name.as_bytes()])
    });
}

/// The file of data that the most files of tests name.
fn data_canary(texts: &TestTexts, data: &TestTexts, roll: u64) -> Option<DataCanary> {
    let readers = |path: &str| -> BTreeSet<String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        texts.iter().filter(|(_, text)| text.contains(name)).map(|(path, _)| path.clone()).collect()
    };
    let known = data.iter().map(|(path, text)| (path, text, readers(path)));
    let (path, text, readers) =
        known.filter(|(_, _, readers)| !readers.is_empty()).max_by_key(|(_, _, readers)| readers.len())?;
    let text = falsify_data(path, text, roll)?;
    Some(DataCanary { path: path.clone(), text, deaths: BTreeSet::new(), readers })
}

/// The trial of canaries on base.
struct CanaryTrial<'a> {
    gates: &'a GateRunner<'a>,
    run: &'a ResolvedRun,
    base: &'a BaseResult,
    texts: &'a TestTexts,
    roll: u64,
}

impl CanaryTrial<'_> {
    async fn try_on_base(
        &self,
        pool: &mut CanaryPool,
        narrow: Vec<TestCanary>,
        wide: &[TestCanary],
    ) -> Result<(), GatesError> {
        let (mut narrow, mut ended) = self.falsified_loadable(pool, narrow, TestMarks::Each).await?;
        pool.takes_marks = self.ends_as_expected(pool, &narrow, &ended);
        if !pool.takes_marks {
            (narrow, ended) = self.falsified_loadable(pool, narrow, TestMarks::None).await?;
        }
        let shows_ids = ended.failed.difference(&self.base.failed).next().is_some();
        if !shows_ids || self.names_no_test(pool, &narrow, &ended) {
            if pool.takes_marks {
                ended = self.falsified(&narrow, pool.data.as_ref(), TestMarks::None).await?;
            }
            self.by_exit(pool, narrow, &ended).await?;
            return self.try_marks_by_exit(pool).await;
        }
        let survivors = self.accept(pool, narrow, &ended);
        if let Some(data) = &mut pool.data {
            data.deaths = deaths(&ended, self.base, &data.readers, self.texts);
        }
        // A second run tries every literal of the tests whose first one did not matter.
        let is_again = |canary: &&TestCanary| survivors.contains(&(canary.path.clone(), canary.name.clone()));
        let again: Vec<TestCanary> = wide.iter().filter(is_again).cloned().collect();
        if !again.is_empty() && self.base.result.duration_ms <= SHORT_MS {
            let marks = if pool.takes_marks { TestMarks::Each } else { TestMarks::None };
            let ended = self.falsified(&again, None, marks).await?;
            self.accept(pool, again, &ended);
        }
        Ok(())
    }

    /// Whether the gate stays green with marked tests. If it also turns red with nothing but a comment in them, its exit
    /// code proves nothing: it may depend on the repository's history or on the files' bytes.
    async fn try_marks_by_exit(&self, pool: &mut CanaryPool) -> Result<(), GatesError> {
        if !self.base.result.is_passed() || pool.is_empty() {
            return Ok(());
        }
        pool.takes_marks = self.falsified(&[], None, TestMarks::Each).await?.result.is_passed();
        if !pool.takes_marks && !self.falsified(&[], None, TestMarks::Comment).await?.result.is_passed() {
            *pool = CanaryPool {
                why_none: Some("the gate fails on base when its tests get a comment".to_owned()),
                tests: std::mem::take(&mut pool.tests),
                ..CanaryPool::default()
            };
        }
        Ok(())
    }

    /// Whether the report has ids, but none of them is a test or a file of the sources, as in TAP with labels. Then only
    /// the exit code is a proof.
    fn names_no_test(&self, pool: &CanaryPool, tried: &[TestCanary], ended: &JudgedRun) -> bool {
        let shown = self.base.shown.tests.iter().map(|test| &test.id);
        let mut ids = ended.failed.iter().chain(&ended.passed).chain(&self.base.failed).chain(shown);
        let is_test = |id: &String| pool.tests.values().flatten().any(|name| names_test(id, name));
        let is_file = |canary: &TestCanary| is_own_failure(&ended.failed, canary, &pool.tests);
        !tried.is_empty() && !ids.any(is_test) && !tried.iter().any(is_file)
    }

    /// Whether a run with marked tests shows failures, and only of tests that were falsified.
    fn ends_as_expected(&self, pool: &CanaryPool, tried: &[TestCanary], ended: &JudgedRun) -> bool {
        let failed: BTreeSet<String> = ended.failed.difference(&self.base.failed).cloned().collect();
        let report = judge_canaries(tried, &failed, &ended.passed, &pool.tests);
        let is_read = |id: &String| pool.data.iter().flat_map(|data| &data.readers).any(|path| self.names_in(path, id));
        ended.is_complete && !failed.is_empty() && report.others.iter().all(is_read)
    }

    /// Takes the canaries that died, and returns the files and names of those that did not.
    fn accept(&self, pool: &mut CanaryPool, tried: Vec<TestCanary>, ended: &JudgedRun) -> BTreeSet<(String, String)> {
        let failed: BTreeSet<String> = ended.failed.difference(&self.base.failed).cloned().collect();
        let report = judge_canaries(&tried, &failed, &ended.passed, &pool.tests);
        let is_read = |id: &String| pool.data.iter().flat_map(|data| &data.readers).any(|path| self.names_in(path, id));
        pool.noisy.extend(report.others.into_iter().filter(|id| !is_read(id)));
        let survivors = report.survived.iter().chain(&report.missing).map(|at| &tried[*at]);
        let survivors = survivors.map(|canary| (canary.path.clone(), canary.name.clone())).collect();
        let dead: BTreeSet<usize> = report.died.into_iter().collect();
        let died = tried.into_iter().enumerate().filter(|(at, _)| dead.contains(at)).map(|(_, canary)| canary);
        pool.calibrated.extend(died);
        survivors
    }

    fn names_in(&self, path: &str, id: &str) -> bool {
        let text = self.texts.get(path).map_or("", String::as_str);
        canary_tests(path, text).iter().any(|test| names_test(id, &test.name))
    }

    /// Without ids, a green gate must turn red when everything is falsified.
    async fn by_exit(
        &self,
        pool: &mut CanaryPool,
        narrow: Vec<TestCanary>,
        ended: &JudgedRun,
    ) -> Result<(), GatesError> {
        let turned_red = self.base.result.is_passed() && !ended.result.is_passed() && ended.is_complete;
        let ran_tests = !self.base.shown.tests.is_empty() || self.base.shown.summary.is_some();
        if turned_red && ran_tests && narrow.len() > 1 && ended.shown.ran() == 0 && ended.shown.failed() == 0 {
            // The falsified tests probably do not build: half of them may.
            let half = narrow[..narrow.len() / 2].to_vec();
            let ended = self.falsified(&half, None, TestMarks::None).await?;
            if ended.failed.difference(&self.base.failed).next().is_some() {
                self.accept(pool, half, &ended);
                return Ok(());
            }
        }
        pool.proof = CanaryProof::Exit;
        if turned_red {
            for batch in exit_batches(&narrow) {
                if !self.falsified(&batch, None, TestMarks::None).await?.result.is_passed() {
                    pool.calibrated.extend(batch);
                }
            }
        } else if !self.base.result.is_passed() {
            // The gate was red already, so its exit code says nothing.
            pool.uncalibrated.extend(narrow);
            pool.uncalibrated.truncate(TRIED_MAX);
        } else {
            pool.data = None;
            pool.why_none = Some("the gate stays green with falsified tests on base: it does not run them".to_owned());
        }
        Ok(())
    }

    /// Runs with falsified tests. If no test failed but files did, they cannot be loaded when falsified, and such a file
    /// stops many runners: the run is repeated without them.
    async fn falsified_loadable(
        &self,
        pool: &CanaryPool,
        mut canaries: Vec<TestCanary>,
        marks: TestMarks,
    ) -> Result<(Vec<TestCanary>, JudgedRun), GatesError> {
        let mut ended = self.falsified(&canaries, pool.data.as_ref(), marks).await?;
        for _ in 0..UNLOADED_RUNS_MAX {
            let report = judge_canaries(&canaries, &ended.failed, &ended.passed, &pool.tests);
            let is_unloaded = |canary: &TestCanary| {
                is_file_failed(&ended.failed, &canary.path) && !is_file_failed(&self.base.failed, &canary.path)
            };
            let loadable: Vec<TestCanary> = canaries.iter().filter(|canary| !is_unloaded(canary)).cloned().collect();
            if !report.died.is_empty() || loadable.is_empty() || loadable.len() == canaries.len() {
                break;
            }
            canaries = loadable;
            ended = self.falsified(&canaries, pool.data.as_ref(), marks).await?;
        }
        Ok((canaries, ended))
    }

    async fn falsified(
        &self,
        canaries: &[TestCanary],
        data: Option<&DataCanary>,
        marks: TestMarks,
    ) -> Result<JudgedRun, GatesError> {
        let mut setting = RunSetting::plain(MachineProfile::first(self.gates.views.layer()));
        setting.reports = RunReports::Own;
        setting.files = falsified_files(self.texts, canaries).0;
        setting.files = match marks {
            TestMarks::None => setting.files,
            TestMarks::Comment => commented_files(self.texts, setting.files, self.roll),
            TestMarks::Each => marked_files(self.texts, setting.files, self.roll),
        };
        if selected_max(self.run, self.base).is_some() {
            let names: Vec<&str> = canaries.iter().map(|canary| canary.name.as_str()).collect();
            setting.args = selection::select_tests(&self.run.gate.run, &names).unwrap_or_default();
        }
        setting.files.extend(data.map(|data| (data.path.clone(), data.text.clone().into_bytes())));
        let base = self.gates.workspace.base.clone();
        let attempt = GateAttempt { gates: self.gates, run: self.run, commit: &base, restore: &[], setting: &setting };
        attempt.run_started(ComparisonBase::Nothing).await
    }
}

/// Tests in a few batches by their files, for gates that show only an exit code: each batch must turn it red.
pub(super) fn exit_batches(canaries: &[TestCanary]) -> Vec<Vec<TestCanary>> {
    let mut files: BTreeMap<&str, Vec<TestCanary>> = BTreeMap::new();
    for canary in canaries {
        files.entry(&canary.path).or_default().push(canary.clone());
    }
    let mut batches: Vec<Vec<TestCanary>> = Vec::new();
    for (at, file) in files.into_values().enumerate() {
        if at < EXIT_BATCHES_MAX {
            batches.push(file);
        } else {
            batches[at % EXIT_BATCHES_MAX].extend(file);
        }
    }
    batches
}

/// The tests of the data's readers that failed with it and not without.
fn deaths(ended: &JudgedRun, base: &BaseResult, readers: &BTreeSet<String>, texts: &TestTexts) -> BTreeSet<String> {
    let tests = readers.iter().flat_map(|path| {
        let text = texts.get(path).map_or("", String::as_str);
        canary_tests(path, text).into_iter().map(move |test| (path, test.name))
    });
    let fails = |(path, name): &(&String, String)| {
        is_reported_failed(&ended.failed, path, name) && !is_reported_failed(&base.failed, path, name)
    };
    tests.filter(fails).map(|(_, name)| name).collect()
}

/// The falsified files, and the canaries that applied to them.
pub(super) fn falsified_files(texts: &TestTexts, canaries: &[TestCanary]) -> (Vec<(String, Vec<u8>)>, Vec<TestCanary>) {
    let (mut files, mut applied) = (Vec::new(), Vec::new());
    let paths: BTreeSet<&str> = canaries.iter().map(|canary| canary.path.as_str()).collect();
    for path in paths {
        let Some(text) = texts.get(path) else { continue };
        let fits = |canary: &&TestCanary| canary.path == path && apply_canaries(path, text, &[canary]).1 == 1;
        let own: Vec<&TestCanary> = canaries.iter().filter(fits).collect();
        if !own.is_empty() {
            files.push((path.to_owned(), apply_canaries(path, text, &own).0.into_bytes()));
            applied.extend(own.into_iter().cloned());
        }
    }
    (files, applied)
}

/// These files and all others with tests, with a mark in each test that changes nothing.
pub(super) fn marked_files(texts: &TestTexts, falsified: Vec<(String, Vec<u8>)>, roll: u64) -> Vec<(String, Vec<u8>)> {
    let falsified: BTreeMap<String, Vec<u8>> = falsified.into_iter().collect();
    let mark = |path: &String, text: &str| {
        let marked = with_harmless_marks(path, text, roll).unwrap_or_else(|| text.to_owned());
        (path.clone(), marked.into_bytes())
    };
    let current = |path: &String| falsified.get(path).map(|bytes| String::from_utf8_lossy(bytes));
    texts.iter().map(|(path, text)| mark(path, &current(path).unwrap_or(text.into()))).collect()
}

/// The falsified files, and every other file of tests with a comment that changes nothing.
pub(super) fn commented_files(
    texts: &TestTexts,
    falsified: Vec<(String, Vec<u8>)>,
    roll: u64,
) -> Vec<(String, Vec<u8>)> {
    let known: BTreeSet<String> = falsified.iter().map(|(path, _)| path.clone()).collect();
    let others = texts.iter().filter(|(path, _)| !known.contains(*path) && is_suite(path));
    let others =
        others.filter_map(|(path, text)| Some((path.clone(), with_harmless_comment(path, text, roll)?.into_bytes())));
    falsified.into_iter().chain(others).collect()
}

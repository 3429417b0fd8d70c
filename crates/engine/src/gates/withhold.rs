//! Chooses the tests of a round that its maker and its checker do not get, and explains a gate's rejection without
//! showing them: a maker learns that such tests fail, and nothing else about them.

use super::base_texts::{self, BaseTexts};
use super::judge::{ComparisonBase, JudgedRun};
use super::touched::Touched;
use super::{GateAttempt, GateBaseline, GateRunner, GatesError, ResolvedGates, ResolvedRun, RunSetting};
use crate::error::EngineError;
use crate::git::Oid;
use crate::random;
use crate::sandbox_view::MachineProfile;
use crate::state_dir::StateDir;
use loopwright_core::gate::{GateResult, runner};
use loopwright_core::hash::hash_fields;
use loopwright_core::inventory::canary::{canary_tests, is_reported_failed};
use loopwright_core::inventory::{
    TestInventory, TestSuite, WithholdChoice, companions, is_suite, suites_of_command, test_folder, withheld_by_globs,
    withheld_by_share,
};
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::{Gate, LoopSpec, WITHHELD_DEFAULT, WithholdRule};
use std::collections::BTreeSet;

/// The fewest tests of base of which the default withholds some.
const TESTS_MIN: usize = 20;
/// Most files that are read to find names of tests.
const FILES_MAX: usize = 2000;
const BYTES_MAX: usize = 24 << 20;
/// Settings of programs that can name a file of tests.
const SETTINGS: [&str; 7] = [".toml", ".cfg", ".ini", ".mk", "Makefile", "package.json", "justfile"];
/// The code of a rejection by withheld tests alone.
const WITHHELD_FAILED: &str = "withheld-failed";

/// The rule of a loop, and what its tests are chosen by.
#[derive(Debug, Clone, Copy)]
pub struct WithholdRequest<'a> {
    /// The loop's own rule.
    pub rule: Option<&'a WithholdRule>,
    /// The level of the round.
    pub level: LoopLevel,
    /// Commands and prompts of the loop, and the round's items: tests that they name are shown.
    pub task: &'a str,
    /// A secret number.
    pub roll: u64,
}

/// A number that decides which tests are withheld: always the same for a base and a loop, and unknown outside of the
/// state folder, which no sandboxed program sees.
///
/// # Errors
/// The secret of the state folder cannot be read or created.
pub fn withhold_roll(state_dir: &StateDir, base: &Oid, loop_name: &str) -> Result<u64, EngineError> {
    let seed = random::kept_secret(state_dir, "withhold.seed")?;
    let hash = hash_fields(&[seed.as_bytes(), base.as_str().as_bytes(), loop_name.as_bytes()]);
    Ok(hash.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default())
}

/// Everything by which a loop names files.
#[must_use]
pub fn loop_text(spec: &LoopSpec) -> String {
    let gates = spec.gates.iter().filter_map(|gate| match gate {
        Gate::Run(run) => Some(run.run.join(" ")),
        _ => None,
    });
    let prompts = [Some(&spec.intent), spec.prompts.maker.as_ref(), spec.prompts.planner.as_ref()];
    let setup = spec.setup.iter().map(|words| words.join(" "));
    let texts = gates.chain(setup).chain(spec.context.iter().cloned()).chain(prompts.into_iter().flatten().cloned());
    texts.collect::<Vec<_>>().join("\n")
}

/// The withheld files and the number of their tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithheldTests {
    /// The paths, sorted.
    pub paths: Vec<String>,
    /// The tests in them that the source shows.
    pub tests: usize,
}

impl WithholdRequest<'_> {
    /// The share and the fewest tests for it, if the rule is a share.
    fn share(&self) -> Option<(u8, usize)> {
        match (self.rule, self.level) {
            (_, LoopLevel::L1Report) => None,
            (Some(WithholdRule::Share(percent)), _) => Some((*percent, 2)),
            (None, LoopLevel::L3Unattended) => Some((WITHHELD_DEFAULT, TESTS_MIN)),
            (None | Some(WithholdRule::Off(_) | WithholdRule::Globs(_)), _) => None,
        }
    }

    fn globs(&self) -> Option<&[String]> {
        match self.rule {
            Some(WithholdRule::Globs(globs)) if self.level != LoopLevel::L1Report => Some(globs),
            _ => None,
        }
    }
}

impl GateRunner<'_> {
    /// Chooses the tests of base that a maker does not get. Nothing is withheld if no gate runs tests, or if a gate is
    /// red on base without naming the tests: they could be the ones that the maker has to fix.
    ///
    /// # Errors
    /// Git fails, or a pattern of the loop is not a glob.
    pub async fn choose_withheld(
        &self,
        resolved: &ResolvedGates,
        baseline: &GateBaseline,
        request: WithholdRequest<'_>,
    ) -> Result<WithheldTests, GatesError> {
        let runs: Vec<&ResolvedRun> = resolved.runs().filter(|run| runner::runs_tests(&run.gate.run)).collect();
        let is_off = request.share().is_none() && request.globs().is_none();
        let results = || runs.iter().filter_map(|run| baseline.0.get(&run.gate.name));
        let is_blind = results().any(|base| !base.result.is_passed() && base.failed.is_empty());
        if is_off || is_blind || results().count() == 0 {
            return Ok(WithheldTests::default());
        }
        let paths = self.workspaces.engine().paths(&self.workspace.base).await?;
        let texts = self.texts_with_names(&paths).await?;
        let failed: BTreeSet<String> = results().flat_map(|base| base.failed.iter().cloned()).collect();
        let red: BTreeSet<String> = texts
            .iter()
            .filter(|(path, text)| {
                canary_tests(path, text).iter().any(|test| is_reported_failed(&failed, path, &test.name))
            })
            .map(|(path, _)| path.clone())
            .collect();
        let suites: Vec<BTreeSet<TestSuite>> = runs.iter().map(|run| suites_of_command(&run.gate.run)).collect();
        let is_unclear = suites.iter().any(BTreeSet::is_empty);
        let suites = if is_unclear { BTreeSet::new() } else { suites.into_iter().flatten().collect() };
        let mut chosen = match (request.globs(), request.share()) {
            (Some(globs), _) => withheld_by_globs(&paths, globs, &red)?,
            (None, Some((percent, tests_min))) => {
                let choice = WithholdChoice { texts: &texts, red: &red, task: request.task, suites: &suites };
                withheld_by_share(choice, percent, tests_min, request.roll)
            }
            (None, None) => Vec::new(),
        };
        chosen.retain(|path| !path.starts_with(".loopwright/"));
        let tests = count_tests(&texts, &chosen);
        chosen.extend(companions(&paths, &chosen));
        chosen.sort();
        Ok(WithheldTests { paths: chosen, tests })
    }

    /// The number of tests that the source of the workspace's withheld files shows.
    ///
    /// # Errors
    /// Git fails.
    pub async fn withheld_tests(&self) -> Result<usize, GatesError> {
        let withheld: Vec<&String> = self.workspace.withheld().iter().collect();
        let texts =
            base_texts::read_texts(self.workspaces.engine(), &self.workspace.base, &withheld, BYTES_MAX).await?;
        Ok(count_tests(&texts, self.workspace.withheld()))
    }

    /// The tests of base, the files beside them, and the files that configure programs.
    async fn texts_with_names(&self, paths: &BTreeSet<String>) -> Result<BaseTexts, GatesError> {
        let is_wanted = |path: &&String| {
            let is_setting = !path.contains('/') || SETTINGS.iter().any(|ending| path.ends_with(ending));
            is_suite(path) || test_folder(path).is_some() || is_setting
        };
        let mut wanted: Vec<&String> = paths.iter().filter(is_wanted).collect();
        wanted.sort_by_key(|path| (!is_suite(path), path.len()));
        wanted.truncate(FILES_MAX);
        base_texts::read_texts(self.workspaces.engine(), &self.workspace.base, &wanted, BYTES_MAX).await
    }

    /// A rejection as its maker may see it. If the tests that the maker has pass, only withheld tests fail, and their
    /// output is not shown; otherwise the output is that of a run without withheld tests.
    pub(super) async fn without_withheld(
        &self,
        run: &ResolvedRun,
        own: &Oid,
        touched: &Touched,
        rejected: JudgedRun,
    ) -> Result<GateResult, GatesError> {
        let absent: Vec<String> = self.workspace.withheld().iter().chain(&touched.new).cloned().collect();
        let commit = self.workspaces.commit_without(self.workspace, own, &absent).await?;
        let setting = RunSetting::plain(MachineProfile::first(self.views.layer()));
        let restore = &touched.edited;
        let attempt = GateAttempt { gates: self, run, commit: &commit, restore, setting: &setting };
        let visible = attempt.run(ComparisonBase::Nothing).await?;
        if !visible.result.is_passed() {
            return Ok(visible.result);
        }
        let mut result = rejected.result;
        let names: Vec<String> = rejected.failed.iter().take(5).map(|id| format!("`{id}`")).collect();
        let text = "tests that are withheld from the maker fail; all others pass".to_owned();
        result.reason = Some(WITHHELD_FAILED.to_owned());
        result.evidence = vec![text.clone()];
        if !names.is_empty() {
            // Only the first fact reaches the maker.
            result.evidence.push(format!("withheld and failed: {}", names.join(", ")));
        }
        result.excerpt = text;
        Ok(result)
    }
}

fn count_tests(texts: &BaseTexts, paths: &[String]) -> usize {
    let known = paths.iter().filter_map(|path| Some((path.as_str(), texts.get(path)?.as_str())));
    TestInventory::from_files(known).len()
}

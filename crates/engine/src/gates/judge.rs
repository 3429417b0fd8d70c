//! Turns a finished run into a gate's result: its exit, the declared expectations, its evidence, its score.

use super::BaseResult;
use crate::proc::{CapturedOutput, FinishedRun, RunEnd};
use loopwright_core::gate::expect::{self, UnmetExpectation};
use loopwright_core::gate::observed_tests::{self, ObservedTests, TestOutcome};
use loopwright_core::gate::{GateResult, GateStatus, excerpt, junit, runner, score};
use loopwright_core::inventory::canary;
use loopwright_core::spec::{CountFloor, RunGate, ScoreDirection};
use std::collections::BTreeSet;

/// A result with the tests behind it.
#[derive(Debug, Clone)]
pub(super) struct JudgedRun {
    pub(super) result: GateResult,
    pub(super) tests: ObservedTests,
    /// The tests that the output showed, independent of any report.
    pub(super) shown: ObservedTests,
    /// The tests that the output or a report names as failed; empty for a run that passed.
    pub(super) failed: BTreeSet<String>,
    /// The tests that the output or a report names as passed.
    pub(super) passed: BTreeSet<String>,
    /// Whether the program ended by itself within its limits.
    pub(super) is_complete: bool,
    /// The places where its programs wrote files; `None` if that is not known.
    pub(super) wrote: Option<BTreeSet<String>>,
}

/// The base result that numbers are compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum ComparisonBase<'a> {
    /// The run is on base itself: comparisons with base are skipped.
    Nothing,
    /// The base result, if the gate ran on base.
    Base(Option<&'a BaseResult>),
}

impl<'a> ComparisonBase<'a> {
    /// A run on base itself is compared with nothing, unless the candidate is base and the gate already ran on base.
    pub(super) fn new(is_base: bool, base: Option<&'a BaseResult>) -> Self {
        if is_base && base.is_none() { Self::Nothing } else { Self::Base(base) }
    }
}

/// Reads the files that the run left in its checkout.
pub(super) struct RunArtefacts<'a> {
    pub(super) read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// The last lines that are kept of a gate that passed.
const PASSED_LINES: usize = 12;

/// Why a run is rejected, as a code and a fact.
type RunRejection = (String, String);

pub(super) fn judge(
    gate: &RunGate,
    ended: &FinishedRun,
    left: &RunArtefacts<'_>,
    against: ComparisonBase<'_>,
) -> JudgedRun {
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    let mut result = GateResult::new(&gate.name, GateStatus::Passed);
    result.exit = if let RunEnd::Exited(code) = ended.how { Some(code) } else { None };
    result.duration_ms = u64::try_from(ended.wall.as_millis()).unwrap_or(u64::MAX);
    let (mut tests, shown) = (ObservedTests::default(), observed_tests::read_observed_tests(&stdout, &stderr));
    let answer = on_time(gate, ended)
        .and_then(|()| expected(gate, ended, &stdout, &stderr))
        .and_then(|()| evidence(gate, left, &shown, against, &mut result, &mut tests))
        .and_then(|()| scored(gate, &stdout, &stderr, against, &mut result))
        .and_then(|()| check_shown(gate, &shown, against, &mut result));
    if tests == ObservedTests::default() {
        tests = shown.clone();
    }
    if result.tests.is_none() && tests != ObservedTests::default() {
        result.tests = Some(tests.passed());
    }
    let output = both(&stdout, &stderr);
    match answer {
        Ok(()) => result.excerpt = last_lines(&output),
        Err((code, fact)) => {
            result.status = GateStatus::Rejected;
            result.reason = Some(code);
            result.evidence.push(excerpt::one_line(&fact));
            result.excerpt = output;
        }
    }
    let failed = if result.is_passed() { BTreeSet::new() } else { failed_ids(&stdout, &stderr, &tests) };
    let is_complete = matches!(ended.how, RunEnd::Exited(_));
    let passed = tests.passed_ids().into_iter().chain(shown.passed_ids()).map(str::to_owned).collect();
    JudgedRun { result, failed, passed, is_complete, tests, shown, wrote: None }
}

/// The failed tests by their ids, from the streams and from a declared report.
fn failed_ids(stdout: &str, stderr: &str, reported: &ObservedTests) -> BTreeSet<String> {
    let mut failed = canary::failed_test_ids(stdout, stderr);
    let in_report = reported.tests.iter().filter(|test| test.end == TestOutcome::Failed && !test.id.is_empty());
    failed.extend(in_report.map(|test| test.id.clone()));
    failed
}

fn on_time(gate: &RunGate, ended: &FinishedRun) -> Result<(), RunRejection> {
    match ended.how {
        RunEnd::Wall | RunEnd::Idle => {
            let limit = gate.timeout.map_or(super::TIMEOUT_DEFAULT, |span| span.duration());
            Err(("timeout".to_owned(), format!("did not end within {}s", limit.as_secs_f64())))
        }
        RunEnd::Flood => Err(("flood".to_owned(), "wrote more output than is read".to_owned())),
        RunEnd::Disk => Err(("disk".to_owned(), "filled the disk".to_owned())),
        RunEnd::Stopped | RunEnd::Finished | RunEnd::Cancelled => Err(("stopped".to_owned(), "was stopped".to_owned())),
        RunEnd::Exited(_) | RunEnd::Signaled(_) => Ok(()),
    }
}

fn expected(gate: &RunGate, ended: &FinishedRun, stdout: &str, stderr: &str) -> Result<(), RunRejection> {
    let wants_json = gate.expect.as_ref().is_some_and(|rule| rule.json.is_some());
    if wants_json && ended.stdout.truncated() {
        return Err(("json".to_owned(), "the output is too long to be read as JSON".to_owned()));
    }
    let exit = if let RunEnd::Exited(code) = ended.how { Some(code) } else { None };
    let seen = expect::GateRunOutput { exit, stdout, stderr };
    expect::judge(gate.expect.as_ref(), seen).map_err(|UnmetExpectation { code, text }| (code.to_owned(), text))
}

fn evidence(
    gate: &RunGate,
    left: &RunArtefacts<'_>,
    shown: &ObservedTests,
    against: ComparisonBase<'_>,
    result: &mut GateResult,
    tests: &mut ObservedTests,
) -> Result<(), RunRejection> {
    let Some(rule) = &gate.evidence else { return Ok(()) };
    tests.clone_from(shown);
    if let Some(path) = &rule.junit {
        let bytes =
            (left.read)(path).ok_or_else(|| ("no-report".to_owned(), format!("the run did not write `{path}`")))?;
        *tests = junit::read(&bytes).map_err(|error| ("bad-report".to_owned(), format!("`{path}`: {error}")))?;
        report(tests, path, result)?;
    }
    for path in &rule.files {
        (left.read)(path).ok_or_else(|| ("no-file".to_owned(), format!("the run did not write `{path}`")))?;
        result.evidence.push(format!("wrote `{path}`"));
    }
    let Some(floor) = rule.tests_at_least else { return Ok(()) };
    let base = match against {
        ComparisonBase::Nothing if matches!(floor, CountFloor::Base(_)) => return Ok(()),
        ComparisonBase::Nothing => None,
        ComparisonBase::Base(base) => base.map(|base| &base.seen),
    };
    result.tests = Some(tests.passed());
    let fact =
        observed_tests::check_count_floor(floor, tests, base).map_err(|fact| ("tests-missing".to_owned(), fact))?;
    result.evidence.push(excerpt::one_line(&fact));
    Ok(())
}

/// Positive evidence, whatever the loop declares. Every test that ran on base must pass here. A runner that shows no
/// test did not run any. A run that shows a failure did not pass, whatever its exit code.
fn check_shown(
    gate: &RunGate,
    tests: &ObservedTests,
    against: ComparisonBase<'_>,
    result: &mut GateResult,
) -> Result<(), RunRejection> {
    let ComparisonBase::Base(base) = against else { return Ok(()) };
    if gate.expect.as_ref().and_then(|rule| rule.exit).is_some_and(|exit| exit != 0) {
        return Ok(());
    }
    let is_runner = runner::is_runner(&gate.run);
    // Lines of another program may look like tests; only a test runner prints a summary.
    let counts_here = |seen: &ObservedTests| is_runner || seen.summary.is_some();
    let floor = base.map(|base| &base.shown).filter(|shown| counts_here(shown));
    if floor.is_some() || counts_here(tests) {
        observed_tests::check_test_results(tests, floor).map_err(|(code, fact)| (code.to_owned(), fact))?;
    }
    let is_quiet_on_base = base.is_some_and(|base| base.result.is_passed() && base.shown.ran() == 0);
    if is_runner && tests.passed() == 0 && !is_quiet_on_base {
        return Err(("no-tests".to_owned(), "the run shows no test that passed".to_owned()));
    }
    if let Some(floor) = floor.filter(|_| gate.evidence.is_none()) {
        result.evidence.push(format!("{} tests passed, base ran {}", tests.passed(), floor.ran()));
    }
    Ok(())
}

/// A report with a failure in it outweighs an exit code of zero.
fn report(tests: &ObservedTests, path: &str, result: &mut GateResult) -> Result<(), RunRejection> {
    let (passed, failed, skipped) = (tests.passed(), tests.failed(), tests.skipped());
    result.tests = Some(passed);
    let fact = format!("`{path}`: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        return Err(("tests-failed".to_owned(), fact));
    }
    if passed == 0 {
        return Err(("no-tests".to_owned(), fact));
    }
    result.evidence.push(fact);
    Ok(())
}

fn scored(
    gate: &RunGate,
    stdout: &str,
    stderr: &str,
    against: ComparisonBase<'_>,
    result: &mut GateResult,
) -> Result<(), RunRejection> {
    let Some(rule) = &gate.score else { return Ok(()) };
    let no = |error: score::ScoreError| (error.code().to_owned(), error.to_string());
    let measured =
        score::read(rule, stdout).or_else(|error| score::read(rule, stderr).map_err(|_| error)).map_err(no)?;
    result.score = Some(measured);
    let base = match against {
        ComparisonBase::Nothing => Some(measured),
        ComparisonBase::Base(base) => base.and_then(|base| base.result.score),
    };
    result.evidence.push(match (rule.at_least, rule.better, base) {
        (Some(CountFloor::Number(bar)), ScoreDirection::Higher, _) => {
            format!("score {measured}, {bar} or more is needed")
        }
        (Some(CountFloor::Number(bar)), ScoreDirection::Lower, _) => {
            format!("score {measured}, {bar} or less is needed")
        }
        (_, _, Some(base)) => format!("score {measured}, base had {base}"),
        (_, _, None) => format!("score {measured}"),
    });
    score::compare(rule, measured, base).map_err(no)
}

/// The captured output, without any text of the engine that a pattern could match.
fn text(captured: &CapturedOutput) -> String {
    let bytes = [captured.head.as_slice(), captured.tail.as_slice()].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The output of a gate that passed, for the person who approves: a few lines are enough.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(PASSED_LINES)..].join("\n")
}

fn both(stdout: &str, stderr: &str) -> String {
    let parts = [stdout.trim_end(), stderr.trim_end()];
    excerpt::output_tail(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n").as_bytes())
}

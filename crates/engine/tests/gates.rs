//! Gates with real repositories, real checkouts and real programs: the tricks of a dishonest maker, and the work of
//! honest ones.

use loopwright::gates::{
    CandidateExamination, CandidateFacts, GateBaseline, GateEnv, GateRunner, GatesError, ResolvedGates, base_paths,
    examine, resolve,
};
use loopwright::git::{CommitMetadata, Git};
use loopwright::proc::{CancelToken, ProcessRunner};
use loopwright::sandbox_view::SandboxViews;
use loopwright::seam::Seam;
use loopwright::workspace::{CheckoutMethod, SealLimits, SealedTree, Workspace, Workspaces};
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::inventory::MissingReason;
use loopwright_core::level::LoopLevel;
use loopwright_core::secrets::SecretScanner;
use loopwright_core::spec::{
    BaseWord, CountFloor, DiffGate, DiffRule, EvidenceRule, Gate, LeftoverMarker, LengthGate, LengthRule, LoopSpec,
    MarkersGate, ParseGate, RunGate, ScoreDirection, ScoreRule,
};
use loopwright_core::units::TimeSpan;
use loopwright_testkit::repo::TestRepo;
use std::os::unix::fs::PermissionsExt;

/// One round: a repository, its workspace, and the context of its gates.
struct Round {
    _repo: TestRepo,
    _state: tempfile::TempDir,
    workspaces: Workspaces,
    workspace: Workspace,
    rooms: SandboxViews,
    env: GateEnv,
    cancel: CancelToken,
    proc: ProcessRunner,
}

impl Round {
    async fn new(files: &[(&str, &str)]) -> Self {
        let repo = TestRepo::new();
        for (path, text) in files {
            if text.starts_with("#!") {
                repo.write_executable(path, text);
            } else {
                repo.write(path, text);
            }
        }
        let base = repo.commit("base").parse().expect("a commit's name");
        let state = tempfile::tempdir().expect("a temporary folder");
        let git = Git::new(Seam::none());
        let user = git.discover(repo.path()).await.expect("the repository is found");
        let workspaces = Workspaces::open(git, state.path(), user).await.expect("workspaces open");
        let workspace =
            workspaces.create("fix", "r1", &base, &CheckoutMethod::Copy.into()).await.expect("a workspace is made");
        let (env, cancel, proc) = (GateEnv::default(), CancelToken::new(), ProcessRunner::new(Seam::none()));
        Self { _repo: repo, _state: state, workspaces, workspace, rooms: SandboxViews::default(), env, cancel, proc }
    }

    fn gates(&self) -> GateRunner<'_> {
        GateRunner {
            progress: loopwright::live_line::ProgramReport::NONE,
            workspaces: &self.workspaces,
            workspace: &self.workspace,
            proc: &self.proc,
            views: &self.rooms,
            env: &self.env,
            cookie: "gates-test",
            cancel: &self.cancel,
            proof: loopwright::gates::GateProof::Off,
            pools: None,
        }
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let file = self.workspace.dir.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("folders can be made");
        std::fs::write(&file, text).expect("a file can be written");
        if text.starts_with("#!") {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        }
        self
    }

    fn remove(&self, path: &str) -> &Self {
        std::fs::remove_file(self.workspace.dir.join(path)).expect("the file was there");
        self
    }

    async fn resolve(&self, gates: &[Gate]) -> ResolvedGates {
        let paths = base_paths(self.workspaces.engine(), &self.workspace.base).await.expect("base is readable");
        resolve(gates, &paths, &self.env).expect("the gates are in base")
    }

    async fn seal(&self) -> (SealedTree, CandidateFacts) {
        let words = CommitMetadata {
            message: "candidate".to_owned(),
            name: "Test".to_owned(),
            email: "test@example.org".to_owned(),
            at_unix: 1_800_000_000,
        };
        let sealed = self.workspaces.seal(&self.workspace, &words, SealLimits::default()).await.expect("it seals");
        assert!(sealed.refused.is_empty(), "{:?}", sealed.refused);
        let engine = self.workspaces.engine();
        let facts =
            CandidateFacts::gather(engine, &self.workspace.base, &sealed).await.expect("the candidate is readable");
        (sealed, facts)
    }

    /// Runs baseline, seal and gates.
    async fn run(&self, gates: &[Gate]) -> Vec<GateResult> {
        let resolved = self.resolve(gates).await;
        let baseline = self.gates().baseline(&resolved, GateBaseline::default()).await.expect("base can be asked");
        self.run_after(&resolved, &baseline).await
    }

    async fn run_after(&self, resolved: &ResolvedGates, baseline: &GateBaseline) -> Vec<GateResult> {
        let (sealed, facts) = self.seal().await;
        self.gates().run(resolved, &sealed, &facts, &[], baseline).await.expect("gates can be asked")
    }

    async fn one(&self, gate: RunGate) -> GateResult {
        self.run(&[Gate::Run(gate)]).await.pop().expect("one result")
    }

    async fn examine(&self, spec: &LoopSpec) -> CandidateExamination {
        let (_, facts) = self.seal().await;
        examine(spec, &[], &facts, &SecretScanner::default(), &[("commit message", "plain")])
            .expect("the globs are right")
    }
}

fn gate(words: &[&str]) -> RunGate {
    RunGate::new("tests", words.iter().map(|word| (*word).to_owned()).collect())
}

fn spec() -> LoopSpec {
    LoopSpec::new("fix", "Fix it.", LoopLevel::L2Assisted)
}

const CHECK: (&str, &str) = ("check.sh", "#!/bin/sh\ngrep -q fixed app.txt\n");
const APP: (&str, &str) = ("app.txt", "broken\n");

/// Whether there is nothing to do: there are gates that must be red on base, and each of them is green.
fn is_all_green(baseline: &GateBaseline, gates: &[Gate]) -> bool {
    let mut red = gates.iter().filter(|gate| matches!(gate, Gate::Run(run) if run.red_before)).peekable();
    let status = |gate: &Gate| baseline.0.get(gate.name()).map(|base| base.result.status);
    red.peek().is_some() && red.all(|gate| status(gate) == Some(GateStatus::Passed))
}

/// Whether the findings end the candidate as rejected.
fn is_rejected(found: &CandidateExamination) -> bool {
    !found.protected.is_empty() || !found.outside.is_empty() || !found.missing_tests.is_empty()
}

#[tokio::test]
async fn gate_rejects_base_and_passes_the_fix() {
    let round = Round::new(&[CHECK, APP]).await;
    let gates = [Gate::Run(RunGate { red_before: true, ..gate(&["./check.sh"]) })];
    let resolved = round.resolve(&gates).await;
    let baseline = round.gates().baseline(&resolved, GateBaseline::default()).await.expect("base can be asked");
    assert!(!is_all_green(&baseline, &gates));
    let results = round.run_after(&resolved, &baseline).await;
    assert_eq!((results[0].status, results[0].exit), (GateStatus::Rejected, Some(1)));
    round.write("app.txt", "fixed\n");
    let results = round.run_after(&resolved, &baseline).await;
    assert!(results[0].is_passed() && results[0].red_before, "{results:?}");
}

#[tokio::test]
async fn gates_that_are_green_before_leave_nothing_to_do() {
    let round = Round::new(&[CHECK, ("app.txt", "fixed\n")]).await;
    let gates = [Gate::Run(RunGate { red_before: true, ..gate(&["./check.sh"]) })];
    let resolved = round.resolve(&gates).await;
    let baseline = round.gates().baseline(&resolved, GateBaseline::default()).await.expect("base can be asked");
    assert!(is_all_green(&baseline, &gates));
    assert!(!is_all_green(&GateBaseline::default(), &[]));
}

#[tokio::test]
async fn edited_gate_script_is_replaced_by_bases_and_reported() {
    let round = Round::new(&[CHECK, APP]).await;
    round.write("check.sh", "#!/bin/sh\nexit 0\n");
    let result = round.one(gate(&["./check.sh"])).await;
    assert_eq!(result.status, GateStatus::Rejected, "{result:?}");
    assert!(result.inputs_edited);
    round.write("app.txt", "fixed\n");
    let result = round.one(gate(&["./check.sh"])).await;
    assert!(result.is_passed() && result.inputs_edited, "{result:?}");
    assert!(result.evidence.iter().any(|fact| fact == "ran again as sealed"), "{result:?}");
    // The script must also pass as sealed.
    round.write("check.sh", "#!/bin/sh\nexit 3\n");
    let result = round.one(gate(&["./check.sh"])).await;
    assert_eq!((result.status, result.exit), (GateStatus::Rejected, Some(3)), "{result:?}");
}

#[tokio::test]
async fn deleted_script_is_restored_and_new_files_under_the_inputs_run() {
    let runner = ("run.sh", "#!/bin/sh\nfor f in cases/*; do sh \"$f\" || exit 1; done\n");
    let round = Round::new(&[runner, ("cases/a", "true\n")]).await;
    let with_inputs = || RunGate { inputs: Some(vec!["cases/**".to_owned()]), ..gate(&["sh", "run.sh"]) };
    round.remove("run.sh").write("cases/b", "exit 1\n");
    let result = round.one(with_inputs()).await;
    // A missing script would end the shell with another code.
    assert_eq!((result.status, result.exit), (GateStatus::Rejected, Some(1)), "the new case ran: {result:?}");
    round.write("run.sh", runner.1).write("cases/b", "true\n");
    let result = round.one(with_inputs()).await;
    assert!(result.is_passed() && !result.inputs_edited, "{result:?}");
}

#[tokio::test]
async fn program_of_the_workspace_does_not_replace_the_real_one() {
    let round = Round::new(&[APP]).await;
    round.write("grep", "#!/bin/sh\nexit 0\n").write("bin/grep", "#!/bin/sh\nexit 0\n");
    let result = round.one(gate(&["grep", "-q", "fixed", "app.txt"])).await;
    assert_eq!((result.status, result.exit), (GateStatus::Rejected, Some(1)), "{result:?}");
}

#[tokio::test]
async fn a_gate_sees_nothing_of_ours_and_its_own_home() {
    let round = Round::new(&[APP]).await;
    let script = "test -d \"$HOME\" && test -z \"$(ls -A \"$HOME\")\" && test -d \"$TMPDIR\" && test -z \"$CARGO_MANIFEST_DIR\" && test -f app.txt && ! read line";
    let result = round.one(gate(&["sh", "-c", script])).await;
    assert!(result.is_passed(), "{result:?}");
}

const CALC_TEST: &str = "import unittest\nfrom calc import add\n\nclass CalcTest(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(add(1, 1), 2)\n\n    def test_two(self):\n        self.assertEqual(add(2, 1), 3)\n\nif __name__ == \"__main__\":\n    unittest.main()\n";

fn counted() -> RunGate {
    let evidence = EvidenceRule { tests_at_least: Some(CountFloor::Base(BaseWord::Base)), ..EvidenceRule::default() };
    RunGate { evidence: Some(evidence), ..gate(&["python3", "-B", "-m", "unittest", "-v"]) }
}

#[tokio::test]
async fn a_test_process_that_exits_early_leaves_no_evidence() {
    let files = [("calc.py", "def add(a, b):\n    return a + b\n"), ("test_calc.py", CALC_TEST)];
    let round = Round::new(&files).await;
    round.write("calc.py", "import os\nos._exit(0)\n");
    let result = round.one(counted()).await;
    assert_eq!((result.exit, result.reason.as_deref()), (Some(0), Some("tests-missing")), "{result:?}");
    round.write("calc.py", "def add(x, y):\n    return y + x\n");
    let result = round.one(counted()).await;
    assert!(result.is_passed() && result.tests == Some(2), "{result:?}");
    round.write("test_calc.py", &CALC_TEST.replace("    def test_two", "    @unittest.skip(\"\")\n    def test_two"));
    let result = round.one(counted()).await;
    assert_eq!(result.reason.as_deref(), Some("tests-missing"), "{result:?}");
}

#[tokio::test]
async fn committed_report_is_not_evidence() {
    let green = "<testsuite><testcase name=\"a\"/></testsuite>";
    let round = Round::new(&[APP]).await;
    round.write("report.xml", green).write("out/log", "x");
    let evidence = EvidenceRule { junit: Some("report.xml".to_owned()), ..EvidenceRule::default() };
    let with = |script: &str| RunGate { evidence: Some(evidence.clone()), ..gate(&["sh", "-c", script]) };
    let result = round.one(with("true")).await;
    assert_eq!(result.reason.as_deref(), Some("no-report"), "{result:?}");
    let result = round.one(with(&format!("echo '{green}' > report.xml"))).await;
    assert!(result.is_passed(), "{result:?}");
    let red = "<testsuite><testcase name=\"a\"><failure/></testcase></testsuite>";
    let result = round.one(with(&format!("echo '{red}' > report.xml"))).await;
    assert_eq!(result.reason.as_deref(), Some("tests-failed"), "{result:?}");
    let result = round.one(with("ln -s /etc/hostname report.xml")).await;
    assert_eq!(result.reason.as_deref(), Some("no-report"), "{result:?}");
    round.write("cached/junit.xml", green);
    std::os::unix::fs::symlink("cached", round.workspace.dir.join("reports")).expect("a link can be made");
    let linked = EvidenceRule { junit: Some("reports/junit.xml".to_owned()), ..EvidenceRule::default() };
    let result = round.one(RunGate { evidence: Some(linked), ..gate(&["true"]) }).await;
    assert_eq!(result.reason.as_deref(), Some("no-report"), "a report behind a committed link: {result:?}");
    let files = EvidenceRule { files: vec!["out/log".to_owned()], ..EvidenceRule::default() };
    let result = round.one(RunGate { evidence: Some(files), ..gate(&["true"]) }).await;
    assert_eq!(result.reason.as_deref(), Some("no-file"), "{result:?}");
}

#[tokio::test]
async fn gate_that_does_not_end_is_rejected_and_one_that_cannot_start_failed() {
    let round = Round::new(&[APP]).await;
    let slow = RunGate { timeout: Some(TimeSpan::parse("100ms").expect("a span")), ..gate(&["sleep", "600"]) };
    let result = round.one(slow).await;
    assert_eq!((result.status, result.reason.as_deref()), (GateStatus::Rejected, Some("timeout")), "{result:?}");
    let result = round.one(gate(&["no-such-program-here"])).await;
    assert_eq!((result.status, result.reason.as_deref()), (GateStatus::Failed, Some("not-started")), "{result:?}");
    let result = round.one(gate(&["sh", "-c", "kill -9 $$"])).await;
    assert_eq!((result.status, result.reason.as_deref()), (GateStatus::Rejected, Some("signal")), "{result:?}");
}

#[tokio::test]
async fn a_flake_that_base_shows_too_passes_on_repeat_and_is_recorded() {
    let round = Round::new(&[APP]).await;
    let mark = round.workspace.tmp.join("seen");
    // Every other run fails, on base and on the candidate.
    let script = format!("if test -e {0}; then rm {0}; else touch {0}; echo first; exit 1; fi", mark.display());
    round.write("new.txt", "x\n");
    let result = round.one(RunGate { retries: 2, ..gate(&["sh", "-c", &script]) }).await;
    assert!(result.is_passed() && result.flaky, "{result:?}");
    let result = round.one(RunGate { retries: 1, ..gate(&["false"]) }).await;
    assert_eq!(result.status, GateStatus::Rejected);
}

/// Hole 5 h: a retry is for the flake that base shows too.
#[tokio::test]
async fn hole_5h_code_that_is_right_now_and_then_is_not_repeated() {
    let round = Round::new(&[APP]).await;
    let mark = round.workspace.tmp.join("seen");
    let script = format!("test ! -e new.txt || test -e {0} || {{ touch {0}; exit 1; }}", mark.display());
    round.write("new.txt", "x\n");
    let result = round.one(RunGate { retries: 3, ..gate(&["sh", "-c", &script]) }).await;
    assert_eq!(result.status, GateStatus::Rejected, "{result:?}");
}

#[tokio::test]
async fn score_is_compared_with_base() {
    let round = Round::new(&[("bench.txt", "ops=10\n")]).await;
    let rule = ScoreRule {
        pattern: r"ops=(\d+)".to_owned(),
        better: ScoreDirection::Higher,
        at_least: Some(CountFloor::Base(BaseWord::Base)),
    };
    let scored = || RunGate { score: Some(rule.clone()), ..gate(&["sh", "-c", "cat bench.txt"]) };
    for (text, passes) in [("ops=12\n", true), ("ops=9\n", false), ("none\n", false)] {
        round.write("bench.txt", text);
        let result = round.one(scored()).await;
        assert_eq!(result.is_passed(), passes, "{text}: {result:?}");
    }
}

#[tokio::test]
async fn mechanical_gates_read_the_candidate() {
    let round = Round::new(&[("a.json", "{}\n"), ("GOAL.md", "short\n")]).await;
    round.write("a.json", "{,}\n").write("src/x.rs", "// TODO later\n").write("GOAL.md", &"x".repeat(50));
    let gates = [
        Gate::Diff(DiffGate { name: "small".into(), diff: DiffRule { files_max: Some(1), ..DiffRule::default() } }),
        Gate::Parse(ParseGate { name: "parse".into(), parse: vec!["**/*.json".into()] }),
        Gate::Markers(MarkersGate { name: "clean".into(), markers: vec![LeftoverMarker::Todo] }),
        Gate::Length(LengthGate { name: "goal".into(), length: LengthRule { file: "GOAL.md".into(), max: 50 } }),
    ];
    let results = round.run(&gates).await;
    let reasons: Vec<_> = results.iter().map(|result| result.reason.as_deref().unwrap_or("passed")).collect();
    assert_eq!(reasons, ["diff", "parse", "markers", "too-long"]);
    round.write("a.json", "{}\n").write("GOAL.md", "short\n").write("src/x.rs", "fn x() {}\n");
    assert!(round.run(&gates).await.iter().all(GateResult::is_passed));
}

#[tokio::test]
async fn a_gate_script_that_is_not_in_base_is_an_error_of_the_loop() {
    let round = Round::new(&[APP]).await;
    round.write("check.sh", "#!/bin/sh\nexit 0\n");
    let paths = base_paths(round.workspaces.engine(), &round.workspace.base).await.expect("base is readable");
    let errors = resolve(&[Gate::Run(gate(&["./check.sh"]))], &paths, &round.env).expect_err("not in base");
    assert_eq!(errors[0].to_string(), "gate script `check.sh` is not in base");
}

#[tokio::test]
async fn a_cancelled_gate_gives_no_result() {
    let round = Round::new(&[APP]).await;
    let resolved = round.resolve(&[Gate::Run(gate(&["sleep", "600"]))]).await;
    let (sealed, facts) = round.seal().await;
    round.cancel.cancel();
    let ended = round.gates().run(&resolved, &sealed, &facts, &[], &GateBaseline::default()).await;
    assert!(matches!(ended, Err(GatesError::Cancelled(_))), "{ended:?}");
}

#[tokio::test]
async fn nothing_a_gate_leaves_reaches_the_next() {
    let round = Round::new(&[APP]).await;
    let gates = [
        Gate::Run(RunGate { name: "writes".into(), ..gate(&["sh", "-c", "echo x > left; echo fixed > app.txt"]) }),
        Gate::Run(RunGate { name: "reads".into(), ..gate(&["sh", "-c", "test ! -e left && grep -q broken app.txt"]) }),
    ];
    assert!(round.run(&gates).await.iter().all(GateResult::is_passed));
}

const RUST: &str = "#[test]\nfn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n";
const JS: &str = "test('adds', () => {\n  assert.equal(add(1, 1), 2);\n});\n";
const GO: &str = "package p\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 1) != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n";
const SHELL: &str = "#!/bin/sh\ntest_adds() {\n  [ \"$(./add 1 1)\" = 2 ]\n}\ntest_adds\n";
const SUITES: [(&str, &str); 5] = [
    ("tests/a.rs", RUST),
    ("tests/test_a.py", CALC_TEST),
    ("test/a.test.js", JS),
    ("a_test.go", GO),
    ("tests/a.sh", SHELL),
];

#[tokio::test]
async fn deleted_skipped_and_renamed_tests_are_found_in_every_language() {
    let round = Round::new(&SUITES).await;
    for (path, text) in SUITES {
        round.remove(path);
        let found = round.examine(&spec()).await;
        assert!(
            is_rejected(&found) && found.missing_tests.iter().all(|one| one.why == MissingReason::Gone),
            "{path}: {found:?}"
        );
        round.write(path, text);
    }
    assert_eq!(round.examine(&spec()).await, CandidateExamination::default());
    for (path, from, to, why) in [
        ("tests/a.rs", "#[test]", "#[test]\n#[ignore]", MissingReason::Skipped),
        ("tests/a.rs", "fn adds", "fn adds_up", MissingReason::Gone),
        ("tests/test_a.py", "    def test_one", "    @unittest.skip(\"\")\n    def test_one", MissingReason::Skipped),
        ("tests/test_a.py", "test_one", "check_one", MissingReason::Gone),
        ("tests/test_a.py", "self.assertEqual(add(1, 1), 2)", "pass", MissingReason::Emptied),
        ("test/a.test.js", "test('adds'", "test.skip('adds'", MissingReason::Skipped),
        ("test/a.test.js", "'adds'", "'adds up'", MissingReason::Gone),
        ("a_test.go", "\tif Add", "\tt.Skip()\n\tif Add", MissingReason::Skipped),
        ("a_test.go", "TestAdd", "testAdd", MissingReason::Gone),
        ("tests/a.sh", "\ntest_adds\n", "\n", MissingReason::Skipped),
    ] {
        let (_, base) = SUITES.into_iter().find(|(known, _)| *known == path).expect("a fixture");
        round.write(path, &base.replacen(from, to, 1));
        let found = round.examine(&spec()).await;
        assert!(found.missing_tests.iter().any(|one| one.why == why), "{path} {to}: {found:?}");
        round.write(path, base);
    }
}

#[tokio::test]
async fn honest_changes_are_not_flagged() {
    let round = Round::new(&SUITES).await;
    round
        .write(
            "tests/a.rs",
            &format!("fn helper() {{}}\n\n{RUST}\n#[test]\nfn more() {{\n    assert!(add(2, 2) > 3);\n}}\n"),
        )
        .write("tests/test_a.py", &CALC_TEST.replace("add(1, 1), 2", "add( 1, 1 ), 2"))
        .remove("test/a.test.js")
        .write("test/unit/a.test.js", JS)
        .write("a_test.go", &GO.replace("t.Fatal(\"no\")", "t.Fatalf(\"got %d\", Add(1, 1))"))
        .write("src/new.rs", "pub fn add(a: u8, b: u8) -> u8 { a + b }\n");
    let found = round.examine(&spec()).await;
    assert!(!is_rejected(&found) && found.sensitive.is_empty() && found.secrets.is_empty(), "{found:?}");
}

#[tokio::test]
async fn protected_sensitive_and_secret_changes_are_found() {
    let round =
        Round::new(&[("tests/a.txt", "one\n"), ("src/a.txt", "x\n"), ("package.json", "{\"scripts\": {}}\n")]).await;
    let token = format!("gh{}{}", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    round
        .write("tests/a.txt", "two\n")
        .write("tests/b.txt", "new\n")
        .write(".github/workflows/ci.yml", "on: push\n")
        .write("package.json", "{\"scripts\": {\"test\": \"true\"}}\n")
        .write("src/a.txt", &format!("x\nkey {token}\n"));
    let mut spec = spec();
    spec.protect = vec!["tests/**".to_owned()];
    spec.allow_paths = vec!["tests/**".to_owned(), "src/**".to_owned()];
    let (_, facts) = round.seal().await;
    let texts = [("report.md", token.as_str())];
    let found = examine(&spec, &[], &facts, &SecretScanner::default(), &texts).expect("the globs are right");
    assert_eq!(found.protected, ["`tests/a.txt` was changed"]);
    assert_eq!(found.outside.len(), 2, "{:?}", found.outside);
    let sensitive: Vec<&str> = found.sensitive.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(sensitive, [".github/workflows/ci.yml", "package.json"]);
    let places: Vec<&str> = found.secrets.iter().map(|hit| hit.place.as_str()).collect();
    assert_eq!(places, ["report.md:1", "src/a.txt:2"]);
    assert!(found.notes.iter().any(|note| note.contains("tests/b.txt")), "{:?}", found.notes);
    assert!(!format!("{found:?}").contains(&token));
}

/// A runner of shell tests that loads the code under test into its own process.
const RUNNER: &str = "#!/bin/sh\n. ./sum.sh\nfailed=0\nfor case in '2 3 5' '1 4 5' '4 5 9'; do\n  set -- $case\n  if [ \"$(add $1 $2)\" = $3 ]; then echo \"ok $1 - adds\"; else echo \"not ok $1 - adds\"; failed=1; fi\ndone\nexit $failed\n";

#[tokio::test]
async fn runner_that_shows_fewer_tests_than_base_does_not_pass() {
    let buggy = "add() { echo 5; }\n";
    for (cheat, text, expected) in [
        ("leaves at once", "add() { echo 5; }\nexit 0\n", Some("tests-missing")),
        ("tells of one and leaves", "echo 'ok 1 - adds'\nexit 0\n", Some("tests-missing")),
        ("hides a failure", "add() { echo 5; }\ntrap 'exit 0' 0\n", Some("tests-failed")),
        ("is right", "add() { echo $(( $1 + $2 )); }\n", None),
    ] {
        let round = Round::new(&[("sum.sh", buggy), ("bats", RUNNER)]).await;
        round.write("sum.sh", text);
        let result = round.one(RunGate::new("tests", vec!["./bats".to_owned()])).await;
        assert_eq!(result.reason.as_deref(), expected, "{cheat}: {result:?}");
    }
}

#[tokio::test]
async fn code_that_reaches_for_its_tests_needs_a_human_and_honest_code_does_not() {
    let spec = LoopSpec::new("fix", "fix it", LoopLevel::L2Assisted);
    let round = Round::new(&[("sums.py", "def add(a, b):\n    return a - b\n")]).await;
    round
        .write("sums.py", "def add(a, b):\n    return a + b\n")
        .write("helpers.py", "def twice(x):\n    return x * 2\n");
    let honest = round.examine(&spec).await;
    assert_eq!(honest.sensitive, []);
    round
        .write("sums.py", "import os\n\nos._exit(0)\n")
        .write("sums/__init__.py", "x = 1\n")
        .write("pytest.py", "x = 1\n");
    let found = round.examine(&spec).await;
    let paths: Vec<&str> = found.sensitive.iter().chain(&found.steering).map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["pytest.py", "sums/__init__.py", "sums.py"], "{found:?}");
}

#[tokio::test]
async fn places_where_base_did_not_write_are_noted_and_those_of_builds_are_not() {
    let run = ("run.sh", ". ./app.sh\nexit $code\n");
    let round = Round::new(&[run, ("app.sh", "mkdir -p logs && echo > logs/base\ncode=1\n")]).await;
    let writes = "mkdir -p logs build src \"$HOME/.own\"\n\
                  for one in logs/other build/a src/a \"$HOME/.own/a\"; do echo > \"$one\"; done\ncode=0\n";
    round.write("app.sh", writes);
    let result = round.one(RunGate { red_before: true, ..gate(&["sh", "run.sh"]) }).await;
    let notes: Vec<&String> = result.evidence.iter().filter(|fact| fact.starts_with("wrote files")).collect();
    assert_eq!(notes, ["wrote files where base's run did not: `./src`, `~/.own`"], "{result:?}");
}

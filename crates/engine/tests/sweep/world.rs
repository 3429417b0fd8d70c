//! A small world: a repository with a bug, a loop that fixes it, a state directory, and the engine process that works
//! on it.

use crate::engine_process;
use crate::fault::{Fault, Hook, Mode};
use loopwright::agents::ScriptedAgent;
use loopwright::proc::CancelToken;
use loopwright::round::{DeliveryOutlet, DueRecord, LoopBindings, RoleAgents, RunRequest};
use loopwright::seam::Seam;
use loopwright::store::{ReceiptRow, ScheduleRow, SignalRow};
use loopwright::{AllowlistGate, Engine, EngineError, EngineSettings};
use loopwright_core::dispatch::OccurrenceOutcome;
use loopwright_core::spec::{CheckedSpec, Role, read_loop_file};
use loopwright_testkit::repo::{TestRepo, TreeDigest};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The one occurrence of every run.
pub(crate) const OCCURRENCE: &str = "sweep:1";
/// The loop's mark after the round has started.
pub(crate) const MARK_MS: i64 = 42;

const LOOP: &str = "---
name: mend
intent: Mend the sum.
level: L3
allow: [pull-request, issue-comment]
attempts: 1
gates:
  - { name: tests, run: [sh, tests/run.sh], red_before: true }
output:
  - pull-request: { draft: false }
  - issue-comment: { max: 1 }
agents:
  maker: { use: scripted, script: mend.script }
---
# Maker
Mend the sum.
";

const SCRIPT: &str = "@ maker
replace sum.sh \"$1 - $2\" \"$1 + $2\"
stage issue-comment-7.md \"The sum adds again.\"
usage input=100 output=20

@ checker
verdict pass correctness=5@sum.sh:2 scope=5@gate:tests tests=4@gate:tests
";

/// The same with a provider that is temporarily unavailable: the maker is half done when the next agent of its chain
/// takes over, and the checker's failure suspends the round until a person resumes it.
const LATER: &str = "@ maker
append half.txt half
usage input=10
trouble rate-limited retry-after=3600

@ checker
trouble rate-limited retry-after=3600
";

/// The same as a goal: a plan, two phases, a proof and an attacker.
const GOAL: &str = "@ planner
brief Fix the sum.
plan <<END
## Phase 1: notes
## Phase 2: the sum
END

@ maker phase=1
write notes.txt done

@ maker
replace sum.sh \"$1 - $2\" \"$1 + $2\"
stage issue-comment-7.md \"The sum adds again.\"
usage input=100 output=20

@ attacker
finding severity=high place=sum.sh:2 trigger=none title=claimed <<END
exit 0
END

@ checker
verdict pass correctness=5@sum.sh:2 scope=5@gate:tests tests=4@gate:tests
";

/// A folder with everything in it.
pub(crate) struct World {
    root: tempfile::TempDir,
    before: TreeDigest,
}

impl World {
    /// The world before the first run.
    pub(crate) fn template() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let repo = TestRepo::init_at(&root.path().join("repo"));
        repo.write("sum.sh", "#!/bin/sh\necho $(($1 - $2))\n");
        repo.write("tests/run.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo 'ok 1 - adds'\n");
        repo.write(".loopwright/loops/mend.md", LOOP);
        repo.write(".loopwright/mend.script", SCRIPT);
        repo.commit("a sum with a bug");
        let before = TreeDigest::of_folder(repo.path());
        Self { root, before }
    }

    /// The same world with providers that are temporarily unavailable.
    pub(crate) fn troubled() -> Self {
        let world = Self::template();
        let repo = TestRepo::init_at(&world.repo());
        repo.write(".loopwright/later.script", LATER);
        repo.write(
            ".loopwright/loops/mend.md",
            LOOP.replace(
                "script: mend.script }",
                "script: later.script, fallback: [scripted/mend.script] }\n  checker: { use: scripted, script: later.script }",
            ),
        );
        repo.commit("providers that say later");
        Self { before: TreeDigest::of_folder(repo.path()), ..world }
    }

    /// The same world with a goal loop.
    pub(crate) fn goal() -> Self {
        let world = Self::template();
        let repo = TestRepo::init_at(&world.repo());
        repo.write(".loopwright/mend.script", GOAL);
        let keys =
            "mode: goal-loop\nprover: { exercise: [sh, tests/run.sh] }\nattack: { roles: [security] }\nattempts: 1\n";
        repo.write(".loopwright/loops/mend.md", LOOP.replace("attempts: 1\n", keys));
        repo.commit("a goal");
        Self { before: TreeDigest::of_folder(repo.path()), ..world }
    }

    /// A copy of this world in another folder.
    pub(crate) fn copy(&self) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        copy_folder(self.root.path(), root.path());
        Self { before: TreeDigest::of_folder(&root.path().join("repo")), root }
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub(crate) fn before(&self) -> &TreeDigest {
        &self.before
    }

    /// The output of the engine processes.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    /// Runs an engine process with a fault; returns whether the fault struck.
    pub(crate) fn run(&self, fault: Fault) -> bool {
        let struck = self.root.path().join("struck");
        let _ = std::fs::remove_file(&struck);
        let args = [self.root.path().to_string_lossy().into_owned(), fault.mode.word(), fault.n.to_string()];
        let output = engine_process(&args).output().expect("this program starts");
        let site = std::fs::read_to_string(&struck).unwrap_or_default();
        let text = format!(
            "[{fault:?} {site}] {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let log = self.log() + &text + "\n";
        std::fs::write(self.root.path().join("log"), log).expect("the log is written");
        struck.exists()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().expect("cp runs");
    assert!(done.success());
}

/// The engine process: takes over abandoned rounds, then ensures that the occurrence has its round.
pub(crate) fn child(args: &[String]) -> ExitCode {
    let [root, mode, n] = args else { return ExitCode::FAILURE };
    let root = PathBuf::from(root);
    let fault = Fault { mode: Mode::parse(mode), n: n.parse().expect("a number") };
    let hook = Hook { fault, count: AtomicUsize::new(0), struck: root.join("struck") };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    match runtime.block_on(work(&root, Seam::hooked(Arc::new(hook)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn work(root: &Path, seam: Seam) -> Result<(), EngineError> {
    let settings = EngineSettings { seam, ..EngineSettings::new(root.join("state")) };
    let engine = Engine::open(settings).await?;
    let repo = root.join("repo");
    let bind = bindings(&repo);
    for row in engine.collect_abandoned().await? {
        let round = engine.resume(&row.id, &bind, &CancelToken::new()).await?;
        println!("resumed {} → {:?}", row.id, round.outcome());
    }
    let of = engine.git().discover(&repo).await?.id;
    engine.store_signal(signal(&of)).await?;
    let request = RunRequest { due: Some(due(&of)), ..RunRequest::manual(spec(&repo), &repo, "sweep") };
    match engine.run(request, &bind, &CancelToken::new()).await {
        Ok(report) => println!("ran {} → {:?} {:?}", report.round, report.outcome, report.reasons),
        Err(EngineError::Store(error)) if is_taken(&error) => println!("{error}"),
        Err(error) => return Err(error),
    }
    // A person resumes suspended rounds, with agents that work.
    let open = engine.store().open_rounds().await?;
    for row in open.into_iter().filter(|row| row.phase == loopwright_core::round::RoundPhase::Suspended) {
        let none = loopwright_core::budget::Reservation::default();
        let report = engine.resume_suspended(&row.id, "sweep", none, &plain(&repo), &CancelToken::new()).await?;
        println!("went on {} → {:?} {:?}", report.round, report.outcome, report.reasons);
    }
    engine.close().await
}

/// The signal that requests the round.
fn signal(repo: &str) -> SignalRow {
    SignalRow {
        repo: repo.to_owned(),
        loop_name: "mend".to_owned(),
        key: OCCURRENCE.to_owned(),
        trigger: "webhook".to_owned(),
        at_ms: MARK_MS,
        item: None,
        title: None,
        data: None,
        taken_ms: None,
    }
}

/// The rows recorded with its start.
fn due(repo: &str) -> DueRecord {
    let (repo, loop_name) = (repo.to_owned(), "mend".to_owned());
    let receipt = ReceiptRow {
        repo: repo.clone(),
        loop_name: loop_name.clone(),
        occurrence: OCCURRENCE.to_owned(),
        due_ms: MARK_MS,
        trigger: "webhook".to_owned(),
        receipt: OccurrenceOutcome::Started,
        reason: String::new(),
        round: None,
        count: 1,
        through_ms: None,
        at_ms: MARK_MS,
    };
    let schedule = ScheduleRow {
        repo,
        loop_name,
        fingerprint: "sweep".to_owned(),
        mark_ms: MARK_MS,
        paused_ms: None,
        paused_by: None,
        paused_why: None,
        streak: 0,
        signature: None,
        wait_until_ms: None,
        wait_why: None,
    };
    DueRecord { receipt, schedule, signals: vec![OCCURRENCE.to_owned()] }
}

fn is_taken(error: &loopwright::store::StoreError) -> bool {
    matches!(error.kind, loopwright::store::StoreErrorKind::Occurrence { .. })
}

fn spec(repo: &Path) -> CheckedSpec {
    let text = std::fs::read(repo.join(".loopwright/loops/mend.md")).expect("the loop file is there");
    read_loop_file("mend.md", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The loop's bindings; a world without provider failures has one script.
fn bindings(repo: &Path) -> LoopBindings {
    if !repo.join(".loopwright/later.script").exists() {
        return plain(repo);
    }
    let agents = RoleAgents::default()
        .with(Role::Maker, scripted(repo, "later"))
        .with(Role::Maker, scripted(repo, "mend"))
        .with(Role::Checker, scripted(repo, "later"));
    LoopBindings { agents, ..plain(repo) }
}

fn scripted(repo: &Path, name: &str) -> Arc<ScriptedAgent> {
    let script = repo.join(format!(".loopwright/{name}.script"));
    Arc::new(ScriptedAgent::read(&script).expect("the script reads"))
}

fn plain(repo: &Path) -> LoopBindings {
    LoopBindings {
        agents: RoleAgents::default()
            .with(Role::Maker, scripted(repo, "mend"))
            .with(Role::Planner, scripted(repo, "mend"))
            .with(Role::Attacker, scripted(repo, "mend"))
            .with(Role::Checker, scripted(repo, "mend")),
        gate: Arc::new(AllowlistGate::new(["pull-request", "issue-comment"])),
        outlet: DeliveryOutlet::LocalForge,
    }
}

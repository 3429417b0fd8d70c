//! Shared by the library tests: a repository with a real bug, a state directory, and agents that are functions of this
//! process. Test material only.
#![allow(dead_code, reason = "each test program uses its own part")]

use loopwright::agents::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use loopwright::budget::{AgentUsage, Tokens};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::proc::{CancelToken, ProcessRunner, StartedProcess};
use loopwright::spec::{ActionKind, Gate, OutputSpec, RunGate};
use loopwright::{
    BoxFuture, EngineSettings, LoopEngine, LoopEngineBuilder, LoopLevel, LoopSink, LoopSpec, RoundReport, SinkError,
};
use loopwright_testkit::TestRepo;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Subtracts where it should add.
pub(crate) const BROKEN: &str = "echo $(( $1 - $2 ))\n";
/// Adds.
pub(crate) const MENDED: &str = "echo $(( $1 + $2 ))\n";

/// A repository with a bug and a test that shows it, and an empty state directory.
pub(crate) struct World {
    pub(crate) repo: TestRepo,
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let repo = TestRepo::new();
        repo.write("sum.sh", BROKEN).write("check.sh", "test \"$(sh sum.sh 2 3)\" = 5\n").commit("first");
        Self { repo, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn settings(&self) -> EngineSettings {
        EngineSettings::new(self.state())
    }

    pub(crate) async fn build(&self, builder: LoopEngineBuilder) -> LoopEngine {
        builder.build(self.settings(), self.repo.path()).await.expect("the loop is built")
    }

    /// The local forge's folder of this repository.
    pub(crate) fn forge(&self) -> PathBuf {
        let mut folders = std::fs::read_dir(self.state().join("forge")).expect("there is a forge");
        folders.next().expect("of one repository").expect("that can be read").path()
    }
}

/// A loop that fixes the sum and proposes a pull request, with the test as its gate.
pub(crate) fn mending(level: LoopLevel) -> LoopSpec {
    let mut spec = LoopSpec::new("mend-sum", "make the sum add", level).with_maker_prompt("Fix sum.sh.");
    spec.gates = vec![Gate::Run(RunGate::new("tests", vec!["sh".to_owned(), "check.sh".to_owned()]))];
    spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
    spec
}

/// A loop that reads and reports.
pub(crate) fn reporting() -> LoopSpec {
    LoopSpec::new("read-sum", "say what is wrong with the sum", LoopLevel::L1Report)
        .with_maker_prompt("Look at sum.sh.")
}

/// An agent that is a function; it records its invocations.
pub(crate) struct Puppet<F> {
    play: F,
    calls: Calls,
}

/// The invocations of a puppet; readable while an engine holds it.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<AgentInvocation>>>);

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    pub(crate) fn all(&self) -> Vec<AgentInvocation> {
        self.0.lock().expect("no test panicked here").clone()
    }
}

impl<F: Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> Puppet<F> {
    pub(crate) fn new(play: F) -> Self {
        Self { play, calls: Calls::default() }
    }

    pub(crate) fn calls(&self) -> Calls {
        self.calls.clone()
    }

    /// Runs the function directly.
    pub(crate) fn play(&self, invocation: &AgentInvocation) -> AgentOutcome {
        (self.play)(invocation)
    }
}

impl<F: Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> Agent for Puppet<F> {
    fn name(&self) -> &str {
        "puppet"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { usage: true, session_isolation: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        _: &'a ProcessRunner,
        _: &'a mut dyn AgentLog,
        _: &'a CancelToken,
        _: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        self.calls.0.lock().expect("no test panicked here").push(invocation.clone());
        Box::pin(std::future::ready(Ok((self.play)(invocation))))
    }
}

/// A function as an agent. The bound is explicit because closures do not infer their own generality.
pub(crate) fn puppet<F: Fn(&AgentInvocation) -> AgentOutcome + Send + Sync>(play: F) -> Puppet<F> {
    Puppet::new(play)
}

/// A successful outcome with a text, without usage.
pub(crate) fn said(text: &str) -> AgentOutcome {
    ended(0, text, 0)
}

/// An outcome with an exit code, a text and input tokens.
pub(crate) fn ended(exit: i32, text: &str, input: u64) -> AgentOutcome {
    AgentOutcome::in_process(exit, text, AgentUsage::Reported(Tokens { input, ..Tokens::default() }))
}

/// Writes a file of the agent's workspace.
pub(crate) fn write(invocation: &AgentInvocation, path: &str, text: &str) {
    std::fs::write(invocation.workspace.join(path), text).expect("the workspace can be written");
}

/// Stages an item.
pub(crate) fn stage(invocation: &AgentInvocation, name: &str, text: &str) {
    std::fs::write(invocation.outbox.join(name), text).expect("the outbox can be written");
}

/// A maker that fixes the sum.
pub(crate) fn mender() -> Puppet<impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> {
    puppet(|invocation| {
        write(invocation, "sum.sh", MENDED);
        said("I mended it.")
    })
}

/// A maker that reports.
pub(crate) fn reporter() -> Puppet<impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> {
    puppet(|invocation| {
        stage(invocation, "report.md", "sum.sh subtracts\n");
        said("done")
    })
}

/// A checker with this verdict and this score for every dimension, for a candidate that changed `sum.sh`.
pub(crate) fn judge(word: &'static str, score: u8) -> Puppet<impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> {
    puppet(move |invocation| {
        let quote = first_line(&invocation.workspace.join("sum.sh"));
        let evidence = json!({"path": "sum.sh", "line": 1, "quote": quote});
        write_verdict(invocation, &verdict(invocation, word, score, &["correctness", "scope", "tests"], &evidence));
        said("judged")
    })
}

/// A checker of a candidate that is a report.
pub(crate) fn judge_report(
    word: &'static str,
    score: u8,
) -> Puppet<impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> {
    puppet(move |invocation| {
        let items = invocation.items.clone().expect("a checker sees the items");
        let evidence = json!({"item": "report.md", "line": 1, "quote": first_line(&items.join("report.md"))});
        write_verdict(invocation, &verdict(invocation, word, score, &["correctness", "scope"], &evidence));
        said("judged")
    })
}

fn first_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("what is cited can be read");
    text.lines().next().unwrap_or_default().to_owned()
}

/// A verdict that is bound to this check.
pub(crate) fn verdict(
    invocation: &AgentInvocation,
    word: &str,
    score: u8,
    dimensions: &[&str],
    evidence: &Value,
) -> Value {
    let sink = invocation.verdict.as_ref().expect("a checker has a sink");
    let scored = |name: &&str| json!({"dimension": name, "score": score, "why": "seen", "evidence": [evidence]});
    let scores: Vec<_> = dimensions.iter().map(scored).collect();
    json!({
        "nonce": sink.nonce, "tree": sink.tree, "candidate": sink.candidate,
        "verdict": word, "summary": "looked at it", "scores": scores,
    })
}

/// Writes a verdict, valid or not.
pub(crate) fn write_verdict(invocation: &AgentInvocation, verdict: &Value) {
    let sink = invocation.verdict.as_ref().expect("a checker has a sink");
    std::fs::write(&sink.path, verdict.to_string()).expect("the sink can be written");
}

/// A sink that records reports, and may fail.
#[derive(Clone, Default)]
pub(crate) struct RecordedReports {
    reports: Arc<Mutex<Vec<RoundReport>>>,
    fails: bool,
}

impl RecordedReports {
    pub(crate) fn failing() -> Self {
        Self { fails: true, ..Self::default() }
    }

    pub(crate) fn all(&self) -> Vec<RoundReport> {
        self.reports.lock().expect("no test panicked here").clone()
    }

    /// The outcomes, in order.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.all().iter().filter_map(|report| report.outcome).map(loopwright::RoundOutcome::word).collect()
    }
}

impl LoopSink for RecordedReports {
    fn deliver(&self, report: &RoundReport) -> Result<(), SinkError> {
        self.reports.lock().expect("no test panicked here").push(report.clone());
        if self.fails { Err(SinkError::new("the mailbox is full")) } else { Ok(()) }
    }
}

/// Collects the errors of sinks.
#[derive(Clone, Default)]
pub(crate) struct SinkTroubles(Arc<Mutex<Vec<String>>>);

impl SinkTroubles {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panicked here").clone()
    }
}

impl EventSink for SinkTroubles {
    fn event(&self, event: &LiveEvent) {
        if let EventKind::SinkFailed { error } = &event.kind {
            let round = event.round.as_deref().expect("it names its round");
            self.0.lock().expect("no test panicked here").push(format!("{round}: {error}"));
        }
    }
}

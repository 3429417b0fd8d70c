//! Shared code of the dialects' tests: an invocation as a round would create it, the start as text, and recorded
//! streams.

use super::driver::{AgentDialect, AgentStreamReader, ProgramLaunch, ProgramListener};
use super::steering_files::{self, INSTRUCTION_FILES};
use super::stream_observer::StreamObserver;
use super::{AgentEvent, AgentInvocation, AgentLimits, AgentLog, AgentOutcome, ProviderEndpoints, VerdictSink};
use crate::clock::Clock;
use crate::proc::{
    CancelToken, FinishedRun, OutputStream, OutputWatch as _, ProcessRunner, RunEnd, SpawnRequest, StdinSource,
    TreeCookie, WatchFlow, base_env,
};
use crate::sandbox_view::{KernelIsolation, ProgramFolders, RolePaths, SandboxView, SandboxViews};
use crate::seam::Seam;
use crate::toolchains::Toolchains;
use crate::workspace::CheckoutFiles;
use loopwright_core::budget::{AgentUsage, BudgetLimit};
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::{AgentUse, Role};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// 2026-11-15 17:00 UTC, the time at which tests read streams.
pub(super) const NOW_MS: i64 = 1_794_762_000_000;

/// A start as a round creates it, in a sandbox.
pub(super) fn invocation(role: Role) -> AgentInvocation {
    let root = Path::new("/state/round");
    AgentInvocation { view: room(role, root), ..unconfined(role) }
}

/// The same without a sandbox.
pub(super) fn unconfined(role: Role) -> AgentInvocation {
    let root = Path::new("/state/round");
    let sink = VerdictSink {
        path: root.join("sink/verdict.json"),
        nonce: "n1".to_owned(),
        tree: "t1".to_owned(),
        candidate: "c1".to_owned(),
    };
    let urls = ["anthropic", "openai", "google"]
        .map(|name| (name.to_owned(), format!("http://127.0.0.1:3128/provider/{name}")));
    AgentInvocation {
        role,
        loop_name: "sweeper".to_owned(),
        round: "r1".to_owned(),
        attempt: 1,
        phase: None,
        attack_role: None,
        prompt: "the brief".to_owned(),
        workspace: root.join("work"),
        outbox: root.join("outbox"),
        state_file: root.join("state.json"),
        items: (role == Role::Checker).then(|| root.join("items")),
        home: root.join("home"),
        tmp: root.join("tmp"),
        verdict: (role == Role::Checker).then_some(sink),
        plan: None,
        model: Some("model-1".to_owned()),
        tools: Vec::new(),
        mcp_servers: Vec::new(),
        options: Default::default(),
        endpoints: ProviderEndpoints {
            urls: urls.into(),
            clouds: std::collections::BTreeMap::new(),
            token: "the-token".to_owned(),
            login: None,
            provider: None,
            grant: None,
        },
        prices: std::sync::Arc::default(),
        limits: AgentLimits {
            wall: Some(Duration::from_secs(60)),
            idle: None,
            turns: Some(40),
            tokens: None,
            usd: None,
            meter: Default::default(),
            output_max: 1 << 20,
        },
        cookie: TreeCookie::from_recorded("lw-r1-c00c1e".to_owned()),
        view: SandboxView::default(),
    }
}

/// A start of a role with a server for its tools.
pub(super) fn with_server(role: Role) -> AgentInvocation {
    let env = [("ROOT".to_owned(), "/srv/\"docs\"".to_owned())].into();
    let run = ["docs-server", "--stdio"].map(str::to_owned).into();
    let server = crate::agents::McpServer::new("my-docs", &loopwright_core::config::McpServerConfig { run, env });
    AgentInvocation { mcp_servers: vec![server], ..invocation(role) }
}

fn room(role: Role, root: &Path) -> SandboxView {
    let rooms = SandboxViews::new(KernelIsolation::Kernel, Toolchains::default());
    let files = CheckoutFiles::Folder(root.join("work"));
    let (home, tmp, outbox, state) =
        (root.join("home"), root.join("tmp"), root.join("outbox"), root.join("state.json"));
    let items = root.join("items");
    let seat = ProgramFolders { files: &files, home: &home, tmp: &tmp };
    let papers = RolePaths { outbox: &outbox, state: &state, items: Some(&items), sink: None };
    match role {
        Role::Maker => rooms.maker(seat, papers, LoopLevel::L2Assisted),
        Role::Checker | Role::Planner | Role::Prover | Role::Attacker => rooms.reader(seat, papers),
    }
}

/// The start as text.
pub(super) fn shown(launch: &ProgramLaunch) -> String {
    let mut text = String::new();
    for arg in &launch.args {
        let _ = writeln!(text, "{}", arg.display());
    }
    for (name, value) in &launch.env {
        let _ = writeln!(text, "{}={}", name.display(), value.display());
    }
    for (path, bytes) in &launch.files {
        let _ = writeln!(text, "file {}: {}", path.display(), String::from_utf8_lossy(bytes));
    }
    let whole = launch.hidden == steering_files::at_top();
    let hidden = if whole { "the whole list".to_owned() } else { format!("{:?}", launch.hidden) };
    let _ = writeln!(text, "hidden {hidden} {:?}", launch.needs_hidden);
    if launch.hidden_below == INSTRUCTION_FILES {
        let _ = writeln!(text, "hidden below: all instruction files");
    } else if !launch.hidden_below.is_empty() {
        let _ = writeln!(text, "hidden below {:?}", launch.hidden_below);
    }
    let _ = writeln!(text, "stdin {}", stdin_text(launch));
    text
}

/// The standard input of a start.
pub(super) fn stdin_text(launch: &ProgramLaunch) -> String {
    let StdinSource::Bytes(bytes) = &launch.stdin else { panic!("no bytes: {:?}", launch.stdin) };
    String::from_utf8(bytes.clone()).expect("text")
}

/// An agent whose stream can be read.
pub(super) trait ReadsStream {
    fn stream_reader(&self, invocation: &AgentInvocation) -> Box<dyn AgentStreamReader>;
}

impl ReadsStream for AgentDialect {
    fn stream_reader(&self, invocation: &AgentInvocation) -> Box<dyn AgentStreamReader> {
        (self.reader)(invocation)
    }
}

/// The reported events, without the raw stream.
#[derive(Default)]
pub(super) struct RecordedEvents(pub(super) Vec<String>);

impl AgentLog for RecordedEvents {
    fn line(&mut self, event: AgentEvent<'_>) {
        if !matches!(event, AgentEvent::Raw { .. }) {
            self.0.push(format!("{event:?}"));
        }
    }
}

/// Reads a stream in pieces of this size.
pub(super) fn read_stream(
    dialect: &dyn ReadsStream,
    invocation: &AgentInvocation,
    stream: &[u8],
    how: RunEnd,
    size: usize,
) -> (AgentOutcome, Vec<String>) {
    read_streams(dialect, invocation, (stream, b""), how, size)
}

/// A clock that always shows the same time.
struct FixedClock;

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }
}

/// The same with standard error, which is read after standard output.
pub(super) fn read_streams(
    dialect: &dyn ReadsStream,
    invocation: &AgentInvocation,
    (stream, errors): (&[u8], &[u8]),
    how: RunEnd,
    size: usize,
) -> (AgentOutcome, Vec<String>) {
    let (mut seen, clock) = (RecordedEvents::default(), FixedClock);
    let mut hearing = StreamObserver::new(&mut seen, invocation);
    hearing.clock = &clock;
    let mut listener = ProgramListener::new(dialect.stream_reader(invocation), hearing);
    for piece in stream.chunks(size) {
        listener.chunk(OutputStream::Stdout, piece);
    }
    for piece in errors.chunks(size) {
        listener.chunk(OutputStream::Stderr, piece);
    }
    let outcome = listener.finish(FinishedRun::without_output(how)).expect("it may be used");
    (outcome, seen.0)
}

/// The recorded streams of an agent: scenario, bytes, the program's end.
pub(super) fn recorded(agent: &str) -> Vec<(String, Vec<u8>, RunEnd)> {
    let folder = streams().join(agent);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let exit = std::fs::read_to_string(path.with_extension("exit")).expect("how it ended");
            let how = exit.trim().parse().map_or(RunEnd::Wall, RunEnd::Exited);
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("a stream"), how)
        })
        .collect()
}

/// The program's standard error in a recording.
pub(super) fn recorded_errors(agent: &str, name: &str) -> Vec<u8> {
    std::fs::read(streams().join(agent).join(format!("{name}.stderr"))).unwrap_or_default()
}

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams")
}

/// One line about an outcome.
pub(super) fn summary(name: &str, outcome: &AgentOutcome) -> String {
    let self_report = &outcome.self_report;
    let trouble = self_report.trouble.as_ref().map(|trouble| {
        let status = trouble.status.map(|status| format!(" {status}")).unwrap_or_default();
        let wait = trouble.retry_at_ms.map(|at| format!(" in {} s", (at - NOW_MS) / 1000)).unwrap_or_default();
        format!("{}{status}{wait}", trouble.kind.word())
    });
    let limit = outcome.limit.map(|limit| format!("limit {limit:?}"));
    let end = trouble.or(limit).unwrap_or_else(|| format!("{:?}", outcome.how));
    let usage = match outcome.usage {
        AgentUsage::Unknown => "?".to_owned(),
        AgentUsage::Reported(t) => format!("{}+{}+{} → {}", t.input, t.cache_read, t.cache_write, t.output),
    };
    format!("{name:<24} {end:<28} {usage:<24} turns {}", outcome.turns)
}

/// Damages a stream: cut, doubled, shuffled, altered. Nothing may panic, and no usage report may get lost.
pub(super) fn torture(dialect: &dyn ReadsStream, role: Role, stream: &[u8]) {
    let invocation = invocation(role);
    let play = |bytes: &[u8]| read_stream(dialect, &invocation, bytes, RunEnd::Exited(0), 7919).0;
    for at in (0..stream.len()).step_by(stream.len().div_ceil(97).max(1)) {
        play(&stream[..at]);
        let mut bent = stream.to_vec();
        bent[at] = bent[at].wrapping_add(0x5b);
        play(&bent);
        bent[at] = 0xff;
        play(&bent);
    }
    let lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let doubled: Vec<&[u8]> = lines.iter().flat_map(|line| [*line, *line]).collect();
    let reversed: Vec<&[u8]> = lines.iter().rev().copied().collect();
    let plain = play(stream);
    for other in [doubled, reversed] {
        let heard = play(&other.join(&b'\n'));
        if let (AgentUsage::Reported(before), AgentUsage::Reported(after)) = (plain.usage, heard.usage) {
            assert!(after.total() >= before.total(), "{after:?} is less than {before:?}");
        }
    }
}

/// Checks that the help of the pinned program lists every option of a start, so that a removed option is found before a
/// round needs it. `hidden` are options that it accepts and does not list.
pub(super) async fn canary(dialect: &AgentDialect, agent: AgentUse, help: &[&str], hidden: &[&str]) {
    if loopwright_testkit::agents::require_program(agent.word()).is_none() {
        return;
    }
    let folders: Vec<PathBuf> = loopwright_testkit::agents::bin_dir().into_iter().collect();
    let found = super::find(agent, &folders, None).expect("it is installed");
    assert_eq!(found.version, Some(loopwright_testkit::agents::version(agent.word())));
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let mut spawn = SpawnRequest::new(found.executable(), scratch.path(), TreeCookie::new("canary"));
    spawn.args = found.script_argument().map(Into::into).into_iter().chain(help.iter().map(Into::into)).collect();
    spawn.env = base_env(scratch.path(), scratch.path(), &folders);
    spawn.limits.keep_head = 1 << 20;
    let ended =
        ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await.expect("it starts");
    // Some programs print it on one stream, some on the other.
    let help_text = format!("{}{}", ended.stdout.to_lossy_string(), ended.stderr.to_lossy_string());
    let starts = [Role::Maker, Role::Checker].map(|role| (dialect.launch)(&invocation(role)).expect("a launch").args);
    for arg in starts.iter().flatten().filter_map(|arg| arg.to_str()).filter(|arg| arg.starts_with("--")) {
        let option = arg.split('=').next().unwrap_or(arg);
        assert!(hidden.contains(&option) || help_text.contains(option), "{} no longer knows {option}", agent.word());
    }
}

/// A line of a hundred megabytes, and then an ordinary end.
pub(super) fn survives_endless_line(dialect: &AgentDialect) {
    let (mut seen, invocation) = (RecordedEvents::default(), invocation(Role::Maker));
    let mut listener = ProgramListener::new((dialect.reader)(&invocation), StreamObserver::new(&mut seen, &invocation));
    listener.chunk(OutputStream::Stdout, b"{\"type\":\"assistant\",\"item\":{\"type\":\"agent_message\",\"text\":\"");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        listener.chunk(OutputStream::Stdout, &piece);
    }
    assert!(listener.buffered_bytes() < 16 << 20, "{} bytes are held", listener.buffered_bytes());
    listener.chunk(OutputStream::Stdout, b"\"}\n");
    let outcome = listener.finish(FinishedRun::without_output(RunEnd::Exited(0))).expect("it may be used");
    assert_eq!(outcome.usage, AgentUsage::Unknown, "unreadable usage is not cheap");
}

/// A clock that is read once a minute.
#[derive(Default)]
struct MinuteClock(std::sync::atomic::AtomicI64);

impl Clock for MinuteClock {
    fn now_ms(&self) -> i64 {
        NOW_MS + self.0.fetch_add(60_000, std::sync::atomic::Ordering::SeqCst)
    }
}

#[test]
fn equal_lines_and_messages_for_minutes_end_an_agent_and_tool_calls_never_do() {
    let (mut seen, clock, invocation) = (RecordedEvents::default(), MinuteClock::default(), unconfined(Role::Maker));
    let stopped = || FinishedRun::without_output(RunEnd::Stopped);
    let mut observer = StreamObserver::new(&mut seen, &invocation);
    observer.clock = &clock;
    for _ in 0..10_000 {
        observer.tool("Edit", "src/lib.rs");
        observer.tool("Bash", "cargo test");
    }
    assert_eq!(observer.flow(), WatchFlow::Continue);
    (0..101).for_each(|_| observer.message("I will try again."));
    assert_eq!(observer.flow(), WatchFlow::Stop);
    assert_eq!(observer.finish(stopped()).limit, Some(BudgetLimit::Repetition));

    for (how, limit) in [(RunEnd::Stopped, Some(BudgetLimit::Repetition)), (RunEnd::Exited(0), None)] {
        let mut seen = RecordedEvents::default();
        let mut observer = StreamObserver::of_text(&mut seen, &invocation);
        observer.clock = &clock;
        (0..601).for_each(|_| observer.text_line(b"thinking"));
        assert_eq!(observer.flow(), WatchFlow::Stop);
        assert_eq!(observer.finish(FinishedRun::without_output(how)).limit, limit, "{how:?}");
    }

    // Its last lines come after its end, when the engine no longer asks whether it continues.
    let mut seen = RecordedEvents::default();
    let mut observer = StreamObserver::of_text(&mut seen, &invocation);
    observer.clock = &clock;
    (0..601).for_each(|_| observer.text_line(b"thinking"));
    assert_eq!(observer.finish(stopped()).limit, None);
}

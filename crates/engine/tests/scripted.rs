//! The scripted agent as real processes. This program has its own `main`, since it executes itself again to host
//! scripts.
#![expect(clippy::print_stdout, reason = "the list of tests and their ends are what a test program prints")]

use loopwright::agents::{
    Agent, AgentError, AgentEvent, AgentInvocation, AgentLimits, AgentLog, AgentOutcome, ScriptedAgent, VerdictSink,
    main_if_asked,
};
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, StartedProcess, TreeCookie};
use loopwright::seam::Seam;
use loopwright_core::budget::{AgentUsage, BudgetLimit, Tokens};
use loopwright_core::spec::Role;
use loopwright_core::verdict::{CitationResolver, Judgement, VerdictExpectation, judge};
use std::path::PathBuf;
use std::time::Duration;

/// Names and functions of the tests, for the runner below.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        const TESTS: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
    };
}

tests![
    steps_change_files_stage_items_and_report_usage,
    usage_is_zero_when_not_reported_and_unknown_when_implausible,
    text_that_looks_like_a_note_is_text,
    usage_past_the_ceiling_ends_the_tree,
    turns_past_the_ceiling_end_the_tree,
    failing_step_ends_the_agent_and_names_its_line_unless_it_is_only_tried,
    verdict_is_filled_in_and_passes_and_raw_text_stays_raw,
    maker_has_no_way_to_write_a_verdict,
    agent_that_ignores_term_is_killed,
    children_that_leave_the_session_do_not_survive,
    child_that_holds_the_pipe_makes_the_end_leaky_and_blocks_nothing,
    fork_bomb_is_cleaned_up_to_the_last_process,
    death_by_signal_is_reported,
    stopped_agent_is_ended_by_its_ceiling,
    flood_is_cut_and_reported,
    odd_bytes_reach_the_log_unchanged,
    links_pipes_and_folders_can_be_made,
    git_and_programs_run_and_their_failures_are_reported,
    probes_report_their_findings,
    agent_can_signal_its_parent_where_nothing_contains_it,
    agent_waits_for_a_file,
    host_is_filled_only_to_a_limit,
    honest_cannot_is_staged,
    script_without_a_block_for_the_role_is_exhausted,
];

/// Implements the part of libtest's interface that test runners need.
fn main() {
    main_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("--list") {
        let none: &[_] = &[];
        let listed = if has("--ignored") { none } else { TESTS };
        listed.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| match (filters.is_empty(), has("--exact")) {
        (true, _) => true,
        (false, true) => filters.iter().any(|filter| *filter == name),
        (false, false) => filters.iter().any(|filter| name.contains(filter.as_str())),
    };
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        // A panic ends the program with its message, which a runner reads.
        test();
        println!("{name}: ok");
    }
}

/// A place to run scripts in.
struct Stage {
    root: tempfile::TempDir,
    limits: AgentLimits,
    prefix: String,
}

/// The result of a run.
struct Played {
    result: Result<AgentOutcome, AgentError>,
    log: Vec<String>,
}

impl Played {
    #[track_caller]
    fn outcome(&self) -> &AgentOutcome {
        self.result.as_ref().unwrap_or_else(|error| panic!("it did not run: {error}"))
    }
}

/// Records the events, and cancels when the agent prints `ready`.
#[derive(Default)]
struct Seen(Vec<String>, CancelToken);

impl AgentLog for Seen {
    fn line(&mut self, event: AgentEvent<'_>) {
        let line = match event {
            AgentEvent::Text { bytes, .. } => bytes.escape_ascii().to_string(),
            other => format!("{other:?}"),
        };
        if line == "ready" {
            self.1.cancel();
        }
        self.0.push(line);
    }
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        for name in ["work", "outbox", "items", "home", "tmp"] {
            std::fs::create_dir(root.path().join(name)).expect("a folder can be made");
        }
        let limits = AgentLimits {
            wall: Some(Duration::from_secs(30)),
            idle: None,
            turns: None,
            usd: None,
            tokens: None,
            meter: Default::default(),
            output_max: 64 << 20,
        };
        let prefix = TreeCookie::new("scripted-test").as_str().to_owned();
        Self { root, limits, prefix }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    #[track_caller]
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn invocation(&self, role: Role) -> AgentInvocation {
        let sink = VerdictSink {
            path: self.path("verdict.json"),
            nonce: "n1".to_owned(),
            tree: "t1".to_owned(),
            candidate: "c1".to_owned(),
        };
        AgentInvocation {
            role,
            loop_name: "l".to_owned(),
            round: "r".to_owned(),
            attempt: 1,
            prompt: "the brief".to_owned(),
            workspace: self.path("work"),
            outbox: self.path("outbox"),
            state_file: self.path("state.json"),
            items: Some(self.path("items")),
            home: self.path("home"),
            tmp: self.path("tmp"),
            verdict: Some(sink),
            model: None,
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            options: Default::default(),
            endpoints: Default::default(),
            prices: Default::default(),
            limits: self.limits.clone(),
            cookie: TreeCookie::new(&self.prefix),
            phase: None,
            attack_role: None,
            plan: None,
            view: Default::default(),
        }
    }

    #[track_caller]
    fn play(&self, script: &str) -> Played {
        self.play_as(Role::Maker, script, |_| ())
    }

    #[track_caller]
    fn play_as(&self, role: Role, script: &str, mut started: impl FnMut(&StartedProcess) + Send) -> Played {
        let agent = ScriptedAgent::from_text(script).expect("the script is good");
        let (invocation, proc, mut log) = (self.invocation(role), ProcessRunner::new(Seam::none()), Seen::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let cancel = log.1.clone();
        let result = runtime.block_on(agent.invoke(&invocation, &proc, &mut log, &cancel, &mut started));
        let left = loopwright_sandbox::leftovers(&self.prefix);
        assert!(left.is_empty(), "processes are left: {left:?}");
        Played { result, log: log.0 }
    }
}

fn tokens(input: u64, output: u64) -> AgentUsage {
    AgentUsage::Reported(Tokens { input, output, ..Tokens::default() })
}

fn steps_change_files_stage_items_and_report_usage() {
    let stage = Stage::new();
    std::fs::write(stage.path("work/calc.py"), "def add(a, b):\n    return a - b\n").expect("a file can be written");
    let played = stage.play(
        "@ maker attempt=1\nsay I will fix the sign\nreplace calc.py \"a - b\" \"a + b\"\nwrite deep/notes.md <<END\ntwo\nlines\n\
         END\nappend deep/notes.md three\nstage issue-comment-7.md \"Fixed.\"\nusage input=1200 output=300\nsay done\nexit 7\nsay never\n",
    );
    let outcome = played.outcome();
    assert_eq!((outcome.how, outcome.exit, outcome.usage), (RunEnd::Exited(7), Some(7), tokens(1200, 300)));
    assert_eq!((outcome.text.as_str(), outcome.turns), ("I will fix the sign\ndone", 2));
    assert_eq!(stage.text("work/calc.py"), "def add(a, b):\n    return a + b\n");
    assert_eq!(stage.text("work/deep/notes.md"), "two\nlines\nthree\n");
    assert_eq!(stage.text("outbox/issue-comment-7.md"), "Fixed.");
    let usage = "Usage(Tokens { input: 1200, output: 300, cache_read: 0, cache_write: 0 })";
    assert_eq!(played.log, ["I will fix the sign", usage, "done", "Finished { how: Exited(7) }"]);
}

fn usage_is_zero_when_not_reported_and_unknown_when_implausible() {
    let table = [
        ("say hi", tokens(0, 0)),
        ("usage input=5\nusage output=7", tokens(5, 7)),
        ("usage input=5\nusage input=9", tokens(9, 0)),
        ("usage none", AgentUsage::Unknown),
        ("usage nan", AgentUsage::Unknown),
        ("usage negative", AgentUsage::Unknown),
        ("usage overflow", AgentUsage::Unknown),
        ("usage input=-1", AgentUsage::Unknown),
        ("usage input=1.5", AgentUsage::Unknown),
        ("usage input=18446744073709551616", AgentUsage::Unknown),
        ("usage input=18446744073709551615 output=9", AgentUsage::Unknown),
        ("usage input=9\nusage input=5", AgentUsage::Unknown),
        ("usage nan\nusage input=5", AgentUsage::Unknown),
    ];
    let stage = Stage::new();
    for (script, expected) in table {
        assert_eq!(stage.play(script).outcome().usage, expected, "{script}");
    }
}

fn text_that_looks_like_a_note_is_text() {
    let stage = Stage::new();
    let played = stage.play("bytes 1e6e6f74652d1e\nsay {\"Usage\":{\"input\":\"5\"}}\nsay VERDICT: PASS");
    assert_eq!(played.outcome().usage, tokens(0, 0));
    assert_eq!(played.outcome().text, "\u{1e}note-\u{1e}{\"Usage\":{\"input\":\"5\"}}\nVERDICT: PASS");
}

fn usage_past_the_ceiling_ends_the_tree() {
    let mut stage = Stage::new();
    stage.limits.tokens = Some(10);
    let played = stage.play("usage input=6 output=4\nsay still here\nusage input=7 output=4\nhang");
    let outcome = played.outcome();
    assert_eq!((outcome.how, outcome.limit, outcome.usage), (RunEnd::Stopped, Some(BudgetLimit::Total), tokens(7, 4)));
    assert!(played.log.contains(&"Limit(Total)".to_owned()) && played.log.contains(&"still here".to_owned()));
}

fn turns_past_the_ceiling_end_the_tree() {
    let mut stage = Stage::new();
    stage.limits.turns = Some(2);
    let outcome = stage.play("say 1\nsay 2").outcome().clone();
    assert_eq!((outcome.how, outcome.turns), (RunEnd::Exited(0), 2));
    let outcome = stage.play("say 1\nsay 2\nsay 3\nhang").outcome().clone();
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Stopped, Some(BudgetLimit::Turns)));
}

fn failing_step_ends_the_agent_and_names_its_line_unless_it_is_only_tried() {
    let stage = Stage::new();
    let played = stage
        .play("@ maker\nwrite a.txt hi\n\ntry replace a.txt \"no\" \"x\"\nreplace a.txt \"none\" \"x\"\nsay never");
    let outcome = played.outcome();
    assert_eq!((outcome.exit, outcome.text.as_str()), (Some(1), ""));
    let complaints = [
        r#"scripted: line 4: replace in `a.txt`: \"no\" is not there"#,
        r#"scripted: line 5: replace in `a.txt`: \"none\" is not there"#,
    ];
    assert_eq!(played.log[..2], complaints);
}

struct Snapshot;

impl CitationResolver for Snapshot {
    fn line(&self, path: &str, line: u32) -> Option<String> {
        (path == "calc.py" && line == 2).then(|| "    return a + b".to_owned())
    }

    fn item_line(&self, item: &str, line: u32) -> Option<String> {
        (item == "report.md" && line == 1).then(|| "Fixed".to_owned())
    }
}

fn verdict_is_filled_in_and_passes_and_raw_text_stays_raw() {
    let stage = Stage::new();
    std::fs::write(stage.path("work/calc.py"), "def add(a, b):\n    return a + b\n").expect("a file can be written");
    std::fs::write(stage.path("items/report.md"), "Fixed\n").expect("a file can be written");
    let expected = VerdictExpectation {
        nonce: "n1".to_owned(),
        tree: "t1".to_owned(),
        candidate: "c1".to_owned(),
        dimensions: ["correctness", "scope", "tests"].map(str::to_owned).to_vec(),
        threshold: 3.5,
        floor: 3,
        gates: vec!["tests".to_owned()],
    };
    let judged = |script: &str| {
        assert_eq!(stage.play_as(Role::Checker, script, |_| ()).outcome().exit, Some(0));
        judge(std::fs::read(stage.path("verdict.json")).ok().as_deref(), &expected, &Snapshot)
    };
    let good =
        "@ checker\nverdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@item:report.md:1 \"well done\"";
    assert!(matches!(judged(good), Judgement::Pass { scored } if scored.summary == "well done"));
    let cited = "@ checker\nverdict pass correctness=5@calc.py:99 scope=5@gate:lint tests=4@gate:tests";
    let Judgement::Fail { reasons, .. } = judged(cited) else { panic!("citations that do not resolve are no pass") };
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(matches!(judged("@ checker\nverdict raw {\"verdict\": \"pass\"}"), Judgement::Malformed { .. }));
    assert!(matches!(judged("@ checker\nverdict pass correctness=9@calc.py:2"), Judgement::Malformed { .. }));
}

fn maker_has_no_way_to_write_a_verdict() {
    let stage = Stage::new();
    let played = stage.play("verdict pass correctness=5@gate:tests");
    assert_eq!(played.outcome().exit, Some(1));
    assert!(!stage.path("verdict.json").exists());
}

fn agent_that_ignores_term_is_killed() {
    let stage = Stage::new();
    let ignoring = stage.play("ignore-term\nsay ready\nhang");
    assert_eq!((ignoring.outcome().how, ignoring.outcome().term_ignored), (RunEnd::Cancelled, true));
    let obeying = stage.play("say ready\nhang");
    assert_eq!((obeying.outcome().how, obeying.outcome().term_ignored), (RunEnd::Cancelled, false));
}

fn children_that_leave_the_session_do_not_survive() {
    let stage = Stage::new();
    // If the late writer were alive after the run, `play` would find it by its cookie.
    let played = stage.play("setsid-child sleep 600\nwrite-later 600000 late.txt too late\nsay gone");
    assert_eq!((played.outcome().how, played.outcome().leaky), (RunEnd::Exited(0), false));
    assert!(!stage.path("work/late.txt").exists());
    let soon = stage.play("write-later 1 soon.txt hello\nsleep-until soon.txt");
    assert_eq!(soon.outcome().exit, Some(0));
    let leads = "cut -d' ' -f1,6 /proc/$$/stat > s && mv s session; exec sleep 600";
    stage.play(&format!("setsid-child sh -c \"{leads}\"\nsleep-until session"));
    let session = stage.text("work/session");
    let (pid, leader) = session.trim().split_once(' ').expect("two numbers");
    assert_eq!(pid, leader, "the child leads a session of its own");
}

fn child_that_holds_the_pipe_makes_the_end_leaky_and_blocks_nothing() {
    let played = Stage::new().play("leak-pipe\nsay gone");
    assert_eq!((played.outcome().how, played.outcome().leaky), (RunEnd::Exited(0), true));
}

fn fork_bomb_is_cleaned_up_to_the_last_process() {
    let played = Stage::new().play("fork-bomb\nsay ready\nhang");
    assert_eq!(played.outcome().how, RunEnd::Cancelled);
}

fn death_by_signal_is_reported() {
    let stage = Stage::new();
    for (signal, number) in [("KILL", 9), ("SIGTERM", 15), ("SEGV", 11), ("PIPE", 13), ("ABRT", 6)] {
        assert_eq!(stage.play(&format!("say bye\ndie {signal}")).outcome().how, RunEnd::Signaled(number), "{signal}");
    }
}

fn stopped_agent_is_ended_by_its_ceiling() {
    let mut stage = Stage::new();
    stage.limits.wall = Some(Duration::from_secs(1));
    let played = stage.play("stop-self\nsay never");
    assert_eq!((played.outcome().limit, played.outcome().text.as_str()), (Some(BudgetLimit::Wall), ""));
}

fn flood_is_cut_and_reported() {
    let mut stage = Stage::new();
    // Bytes without newlines, and the pieces in which they reach the log.
    let floods =
        [("flood 1M", (1 << 20) - 13_107, 13_108), ("flood 1M line", 1 << 20, 128), ("flood 1000 lines", 1000, 1000)];
    for (script, bytes, pieces) in floods {
        let played = stage.play(script);
        let outcome = played.outcome();
        let seen: Vec<usize> = played.log.iter().filter(|line| line.starts_with('x')).map(String::len).collect();
        assert_eq!((outcome.how, seen.iter().sum(), seen.len()), (RunEnd::Exited(0), bytes, pieces), "{script}");
        assert!(outcome.text.len() <= 64 << 10, "{script}");
    }
    stage.limits.output_max = 1 << 20;
    for script in ["flood 1G", "flood 1G line", "flood 1G lines"] {
        assert_eq!(stage.play(script).outcome().how, RunEnd::Flood, "{script}");
    }
}

fn odd_bytes_reach_the_log_unchanged() {
    let played = Stage::new().play("bytes ff00c3280a1b5b\nusage input=1\nsay end");
    assert_eq!(played.log[0], "\\xff\\x00\\xc3(");
    assert_eq!(played.outcome().text, "\u{fffd}\0\u{fffd}(\n\u{1b}[end");
    assert_eq!(played.outcome().usage, tokens(1, 0));
}

fn links_pipes_and_folders_can_be_made() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let stage = Stage::new();
    let script = "write a.txt hi\nsymlink d/link ../a.txt\nhardlink hard a.txt\nfifo pipe\nwrite gone/x y\ndelete gone\nwrite b c\ndelete b";
    assert_eq!(stage.play(script).outcome().exit, Some(0));
    assert_eq!(stage.text("work/d/link"), "hi\n");
    assert_eq!(std::fs::metadata(stage.path("work/a.txt")).expect("it is there").nlink(), 2);
    let pipe = std::fs::symlink_metadata(stage.path("work/pipe")).expect("it is there");
    assert!(pipe.file_type().is_fifo());
    assert!(!stage.path("work/gone").exists() && !stage.path("work/b").exists());
}

fn git_and_programs_run_and_their_failures_are_reported() {
    let stage = Stage::new();
    let script = "git init -q\nwrite a.txt hi\ncommit a first change\ngit log --format=%an:%s\nrun sh -c \"exit 3\"\nrun no-such-program\nsay on";
    let played = stage.play(script);
    let outcome = played.outcome();
    assert_eq!(outcome.exit, Some(0));
    let text = "scripted:a first change\nrun sh: exit status: 3\n\
                run no-such-program: could not start: No such file or directory (os error 2)\non";
    assert_eq!(outcome.text, text, "{:?}", played.log);
}

fn probes_report_their_findings() {
    let stage = Stage::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let open = listener.local_addr().expect("it is bound").port();
    let closed = {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        other.local_addr().expect("it is bound").port()
    };
    std::fs::write(stage.path("work/a.txt"), "inside\n").expect("a file can be written");
    let played = stage.play(&format!(
        "connect 127.0.0.1:{open}\nconnect 127.0.0.1:{closed}\nresolve localhost\nread a.txt\nread none.txt\nptrace parent\nptrace 0\nenv"
    ));
    let text = &played.outcome().text;
    let refused = format!("connect 127.0.0.1:{closed}: refused: Connection refused (os error 111)\n");
    for expected in [
        &format!("connect 127.0.0.1:{open}: connected\n"),
        &refused,
        "resolve localhost: ",
        "\ninside\nread none.txt: refused: No such file",
        &format!("ptrace {}: ", std::process::id()),
        "ptrace 0: refused: No such file",
        "\nLOOPWRIGHT_ROLE=maker\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(!text.contains("\nLOOPWRIGHT_NONCE") && !text.contains("\nCARGO"), "{text}");
}

fn agent_can_signal_its_parent_where_nothing_contains_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let kind = tokio::signal::unix::SignalKind::user_defined1();
    let mut heard = tokio::signal::unix::signal(kind).expect("a handler can be set");
    let played = std::thread::spawn(|| Stage::new().play("kill-parent USR1")).join().expect("the thread ends well");
    assert_eq!(played.outcome().text, "kill-parent: sent USR1");
    let wait = async { tokio::time::timeout(Duration::from_secs(10), heard.recv()).await };
    assert!(runtime.block_on(wait).is_ok_and(|signal| signal.is_some()));
}

fn agent_waits_for_a_file() {
    let stage = Stage::new();
    let flag = stage.path("flag");
    let script = format!("sleep-until {}\nsay it came", flag.display());
    let played = stage.play_as(Role::Maker, &script, |_| {
        // Checks that the search finds running processes; otherwise the empty result at the end of every test would
        // prove nothing.
        let found = || !loopwright_sandbox::leftovers(&stage.prefix).is_empty();
        loopwright_testkit::wait::until("the running tree to be found", Duration::from_secs(10), found);
        std::fs::write(&flag, "").expect("a file can be written");
    });
    assert_eq!(played.outcome().text, "it came");
}

fn host_is_filled_only_to_a_limit() {
    let stage = Stage::new();
    let played = stage.play("eat-memory 8M\nfill-disk 3M\nsay full");
    assert_eq!(played.outcome().text, "full");
    assert_eq!(std::fs::metadata(stage.path("work/filler.bin")).expect("it is there").len(), 3 << 20);
}

fn honest_cannot_is_staged() {
    let stage = Stage::new();
    assert_eq!(stage.play("cannot The test needs a network.").outcome().exit, Some(0));
    assert_eq!(stage.text("outbox/CANNOT.md"), "The test needs a network.\n");
}

fn script_without_a_block_for_the_role_is_exhausted() {
    let played = Stage::new().play_as(Role::Checker, "@ maker\nsay hi", |_| panic!("nothing is started"));
    let Err(error @ AgentError::Exhausted { .. }) = played.result else { panic!("no block is left") };
    assert_eq!(error.to_string(), "script exhausted: no block is left for the checker, attempt 1");
}

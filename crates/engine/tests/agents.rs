//! The command agent with real shell scripts: brief, environment, limits, and the error when it cannot start.

use loopwright::agents::{
    Agent, AgentError, AgentEvent, AgentInvocation, AgentLimits, AgentLog, AgentOutcome, CommandAgent, ScriptedAgent,
    VerdictSink,
};
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, TreeCookie};
use loopwright::seam::Seam;
use loopwright_core::budget::{AgentUsage, BudgetLimit};
use loopwright_core::spec::Role;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn invocation(root: &Path, role: Role) -> AgentInvocation {
    for name in ["work", "outbox", "home", "tmp"] {
        std::fs::create_dir_all(root.join(name)).expect("a folder can be made");
    }
    let sink = VerdictSink {
        path: root.join("verdict.json"),
        nonce: "n1".to_owned(),
        tree: "t1".to_owned(),
        candidate: "c1".to_owned(),
    };
    AgentInvocation {
        role,
        loop_name: "sweeper".to_owned(),
        round: "r1".to_owned(),
        attempt: 2,
        prompt: "the brief\nin two lines".to_owned(),
        workspace: root.join("work"),
        outbox: root.join("outbox"),
        state_file: root.join("state.json"),
        items: None,
        home: root.join("home"),
        tmp: root.join("tmp"),
        verdict: Some(sink),
        model: None,
        tools: Vec::new(),
        mcp_servers: Vec::new(),
        options: Default::default(),
        endpoints: Default::default(),
        prices: Default::default(),
        limits: AgentLimits {
            wall: Some(Duration::from_secs(20)),
            idle: None,
            turns: None,
            usd: None,
            tokens: None,
            meter: Default::default(),
            output_max: 1 << 20,
        },
        cookie: TreeCookie::new("agents-test"),
        phase: None,
        attack_role: None,
        plan: None,
        view: Default::default(),
    }
}

#[derive(Default)]
struct Seen(Vec<String>);

impl AgentLog for Seen {
    fn line(&mut self, event: AgentEvent<'_>) {
        self.0.push(match event {
            AgentEvent::Text { stream, bytes } => format!("{stream:?}: {}", String::from_utf8_lossy(bytes)),
            other => format!("{other:?}"),
        });
    }
}

async fn play(argv: &[&str], invocation: &AgentInvocation) -> (Result<AgentOutcome, AgentError>, Vec<String>) {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let agent = CommandAgent::new(&argv).expect("the argv is good");
    let (mut seen, mut starts) = (Seen::default(), 0);
    let mut started = |_: &_| starts += 1;
    let proc = ProcessRunner::new(Seam::none());
    let result = agent.invoke(invocation, &proc, &mut seen, &CancelToken::new(), &mut started).await;
    assert_eq!(starts, i32::from(result.is_ok()), "an agent that ran was started once");
    (result, seen.0)
}

async fn shell(script: &str, invocation: &AgentInvocation) -> AgentOutcome {
    play(&["sh", "-c", script], invocation).await.0.expect("sh starts")
}

#[tokio::test]
async fn brief_comes_on_stdin_and_the_outcome_has_text_and_unknown_usage() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let invocation = invocation(root.path(), Role::Maker);
    let (outcome, seen) = play(&["sh", "-c", "cat; echo; echo oops >&2; exit 3"], &invocation).await;
    let outcome = outcome.expect("sh starts");
    assert_eq!((outcome.how, outcome.exit), (RunEnd::Exited(3), Some(3)));
    assert_eq!(outcome.text, "the brief\nin two lines");
    assert_eq!((outcome.usage, outcome.turns, outcome.limit), (AgentUsage::Unknown, 0, None));
    let mut sorted = seen.clone();
    sorted.sort();
    assert_eq!(sorted, ["Finished { how: Exited(3) }", "Stderr: oops", "Stdout: in two lines", "Stdout: the brief"]);
    assert!(seen.last().is_some_and(|last| last.starts_with("Finished")));
}

#[tokio::test]
async fn brief_takes_the_place_of_prompt_in_argv_as_one_word_and_stdin_is_empty() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut invocation = invocation(root.path(), Role::Maker);
    invocation.prompt = "a $(touch x) 'b' {prompt}".to_owned();
    let script = "printf '%s|' \"$@\"; wc -c";
    let outcome = play(&["sh", "-c", script, "-", "--ask={prompt}", "end"], &invocation).await.0.expect("sh starts");
    assert_eq!(outcome.text, "--ask=a $(touch x) 'b' {prompt}|end|0");
    assert!(!invocation.workspace.join("x").exists());
}

#[tokio::test]
async fn brief_that_does_not_fit_into_an_argument_is_refused_with_a_hint() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut invocation = invocation(root.path(), Role::Maker);
    invocation.prompt = "x".repeat(101 << 10);
    let error = play(&["echo", "{prompt}"], &invocation).await.0.expect_err("it is too long");
    assert!(error.hint().is_some_and(|hint| hint.contains("standard input")), "{error}");
    let outcome = play(&["wc", "-c"], &invocation).await.0.expect("wc starts");
    assert_eq!(outcome.text, (101 << 10).to_string());
}

#[test]
fn argv_without_a_program_or_with_two_prompts_is_refused() {
    for argv in [&[][..], &[""], &["x", "{prompt}", "{prompt}"], &["x", "{prompt}{prompt}"], &["{prompt}"]] {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let error = CommandAgent::new(&argv).expect_err("the argv is bad");
        assert!(error.hint().is_some(), "{argv:?}");
    }
}

#[tokio::test]
async fn maker_sees_its_role_and_nothing_of_the_verdict() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let outcome = shell("env", &invocation(root.path(), Role::Maker)).await;
    let place = root.path().display().to_string();
    let text = outcome.text.replace(&place, "$ROOT");
    let mut lines: Vec<_> = text.lines().filter(|line| line.starts_with("LOOP") && !line.contains("COOKIE")).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "LOOPWRIGHT_ATTEMPT=2",
            "LOOPWRIGHT_LOOP=sweeper",
            "LOOPWRIGHT_OUTBOX=$ROOT/outbox",
            "LOOPWRIGHT_ROLE=maker",
            "LOOPWRIGHT_ROUND=r1",
            "LOOPWRIGHT_STATE=$ROOT/state.json",
            "LOOP_OUTBOX=$ROOT/outbox",
            "LOOP_STATE_SUMMARY=$ROOT/state.json",
        ]
    );
    assert!(text.contains("HOME=$ROOT/home\n") && text.contains("TMPDIR=$ROOT/tmp"), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
}

#[tokio::test]
async fn checker_sees_what_binds_its_verdict() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut invocation = invocation(root.path(), Role::Checker);
    invocation.items = Some(root.path().join("items"));
    let script = "printf '%s %s %s ' $LOOPWRIGHT_NONCE $LOOPWRIGHT_TREE $LOOPWRIGHT_CANDIDATE; basename $LOOPWRIGHT_ITEMS; \
                  echo said > $LOOPWRIGHT_VERDICT";
    assert_eq!(shell(script, &invocation).await.text, "n1 t1 c1 items");
    assert_eq!(std::fs::read_to_string(root.path().join("verdict.json")).ok().as_deref(), Some("said\n"));
}

#[tokio::test]
async fn program_with_a_relative_path_is_the_workspaces_own() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let invocation = invocation(root.path(), Role::Maker);
    let program = invocation.workspace.join("my-agent");
    std::fs::write(&program, "#!/bin/sh\necho mine $1\n").expect("a file can be written");
    let error = play(&["./my-agent"], &invocation).await.0.expect_err("it is not executable yet");
    assert!(error.hint().is_some_and(|hint| hint.contains("chmod")), "{error}");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    let outcome = play(&["./my-agent", "--fast"], &invocation).await.0.expect("it starts");
    assert_eq!(outcome.text, "mine --fast");
}

#[tokio::test]
async fn missing_program_is_named_with_a_hint() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let error = play(&["no-such-agent"], &invocation(root.path(), Role::Maker)).await.0.expect_err("it is missing");
    assert!(matches!(&error, AgentError::NotFound { program, .. } if program == "no-such-agent"), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("install")));
}

#[tokio::test]
async fn silence_and_time_are_limits_and_a_flood_is_reported() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut invocation = invocation(root.path(), Role::Maker);
    invocation.limits.idle = Some(Duration::from_millis(100));
    let outcome = shell("echo one; exec sleep 60", &invocation).await;
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Idle, Some(BudgetLimit::Idle)));
    invocation.limits.idle = None;
    invocation.limits.wall = Some(Duration::from_millis(200));
    let outcome = shell("exec sleep 60", &invocation).await;
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Wall, Some(BudgetLimit::Wall)));
    invocation.limits.wall = Some(Duration::from_secs(20));
    let outcome = shell("exec seq 1000000000", &invocation).await;
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Flood, None));
}

#[tokio::test]
async fn a_burst_of_equal_lines_does_not_end_a_maker() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut invocation = invocation(root.path(), Role::Maker);
    invocation.limits.wall = Some(Duration::from_secs(60));
    for script in ["yes 0,0,0 | head -n 20000", "seq 100000"] {
        let outcome = shell(script, &invocation).await;
        assert_eq!((outcome.how, outcome.limit), (RunEnd::Exited(0), None), "{script}");
    }
}

#[tokio::test]
async fn cancel_token_ends_the_agent() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let invocation = invocation(root.path(), Role::Maker);
    let agent = CommandAgent::new(&["sleep".to_owned(), "60".to_owned()]).expect("the argv is good");
    let cancel = CancelToken::new();
    let thrown = cancel.clone();
    let mut started = move |_: &_| thrown.cancel();
    let proc = ProcessRunner::new(Seam::none());
    let outcome = agent.invoke(&invocation, &proc, &mut (), &cancel, &mut started).await.expect("sleep starts");
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Cancelled, None));
}

#[test]
fn program_that_cannot_host_scripts_gets_a_hint() {
    let error =
        ScriptedAgent::from_text("@ maker\nsay hi\n").expect_err("this test program never called main_if_asked");
    assert!(error.hint().is_some_and(|hint| hint.contains("main_if_asked")), "{error}");
    assert!(ScriptedAgent::check("@ maker\nsay hi\n").is_ok());
}

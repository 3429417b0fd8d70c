//! Goals from the command line: the length check, the router, contracts, and rounds without a terminal.

#[path = "goals/routes.rs"]
mod routes;
#[path = "goals/task_runs.rs"]
mod task_runs;
#[path = "goals/terminal.rs"]
mod terminal;

use loopwright_testkit::{TestEnv, TestRepo, TestTerminal, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

/// A repository whose test is red until the file `answer` has the right number.
fn red_repo(env: &TestEnv) -> TestRepo {
    let repo = env.repo("r");
    repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").write("answer", "41\n");
    repo.write(".loopwright/config.yaml", "agents:\n  maker: { use: scripted, script: fix.script }\n");
    repo.write(".loopwright/fix.script", SCRIPT);
    repo.commit("first");
    repo
}

const SCRIPT: &str = "\
@ maker
replace answer \"41\" \"42\"
exit 0

@ checker
verdict pass correctness=5@answer:1 scope=5@gate:answer tests=5@gate:answer
";

#[test]
fn length_check_exits_with_11_at_the_target_and_with_2_for_everything_it_cannot_measure() {
    let env = env();
    let file = |name: &str, text: &[u8]| std::fs::write(env.root().join(name), text).expect("it can be written");
    file("fits", "—".repeat(3989).as_bytes());
    file("crlf", ["a".repeat(3989).as_str(), "\r\n"].concat().as_bytes());
    file("target", "😀".repeat(1995).as_bytes());
    file("cap", "a".repeat(4000).as_bytes());
    file("huge", "a".repeat(2 << 20).as_bytes());
    file("bytes", b"\xff\xfe");
    let table: [(&[&str], i32); 18] = [
        (&["fits"], 0),
        (&["crlf"], 0),
        (&["target"], 11),
        (&["cap"], 11),
        (&["huge"], 11),
        (&["--cap", "5000", "--target", "5000", "target"], 0),
        (&["--cap", "4000", "fits"], 0),
        (&["fits", "--cap", "3000"], 11),
        (&["fits", "--cap", "abc"], 2),
        (&["fits", "--cap", "-1"], 2),
        (&["fits", "--cap", "0"], 2),
        (&["fits", "--cap", "NaN"], 2),
        (&["fits", "--cap", "1e9"], 2),
        (&["fits", "--target", "4001"], 2),
        (&["fits", "--cap", "999999999"], 2),
        (&["missing"], 2),
        (&["bytes"], 2),
        (&["."], 2),
    ];
    for (words, code) in table {
        let words: Vec<&str> = ["goal", "check"].into_iter().chain(words.iter().copied()).collect();
        drop(env.loopwright_in(env.root(), &words).code(code));
    }
    let json = env.loopwright_in(env.root(), ["goal", "check", "target", "--json"]).code(11).json();
    assert_eq!((json["units"].as_u64(), json["verdict"].as_str()), (Some(3990), Some("over-target")));
    let mut child = env.command(env.root());
    let mut child =
        child.args(["goal", "check", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all("a".repeat(3990).as_bytes()).expect("it reads");
    assert_eq!(child.wait().expect("it ends").code(), Some(11), "standard input is measured too");
}

#[test]
fn route_decides_by_declared_facts_and_never_waits_without_a_terminal() {
    let env = env();
    let repo = env.repo("r");
    for number in 0..50 {
        repo.write(&format!("src/{number}.rs"), "");
    }
    repo.commit("first");
    let route = |words: &[&str]| {
        let words: Vec<&str> = ["route", "do it", "--json"].into_iter().chain(words.iter().copied()).collect();
        let json = env.loopwright_in(&env.root().join("r"), &words).success().json();
        format!("{} {}", json["mode"].as_str().unwrap_or_default(), json["place"].as_str().unwrap_or_default())
    };
    assert_eq!(route(&[]), "single-run foreground");
    assert_eq!(route(&["--recurring", "--takes", "2h"]), "time-loop detached");
    assert_eq!(route(&["--files", "src/*.rs", "--measurable"]), "dynamic-workflow foreground");
    assert_eq!(route(&["--measurable=yes", "--adversarial=no", "--streams", "3"]), "goal-loop parallel");
    let r = env.root().join("r");
    let run = env.loopwright_in(&r, ["route", "it's done", "--takes", "3h", "--measurable"]).success();
    assert!(run.stdout().contains("run: loopwright goal write 'it'\\''s done' --mode goal-loop"), "{}", run.stdout());
    assert!(run.stdout().contains("goal run .loopwright/goals/it-s-done.md --detach"), "{}", run.stdout());
    for words in [["--items", "0"], ["--takes", "soon"], ["--recurring", "maybe"], ["--files", "none/*"]] {
        drop(env.loopwright_in(&r, ["route", "x"].iter().chain(&words)).code(2));
    }
}

#[test]
fn contract_is_written_linted_run_and_exported() {
    let env = env();
    let repo = red_repo(&env);
    let r = env.root().join("r");
    let missing = env.loopwright_in(&r, ["goal", "write", "Fix the answer", "--json"]).code(2).json();
    assert_eq!(missing["missing"][0]["answer"], "criteria");
    let words = [
        "goal",
        "write",
        "The answer is 42",
        "--mode",
        "single-run",
        "--criterion",
        "the answer is right => answer",
        "--criterion",
        "it reads well => human",
        "--gate",
        "answer=./test.sh",
        "--constraint",
        "change one line",
    ];
    let file = ".loopwright/goals/the-answer-is-42.md";
    let wrote = env.loopwright_in(&r, words).success();
    assert!(wrote.stdout().starts_with(&format!("wrote {file}\n")), "{}", wrote.stdout());
    drop(env.loopwright_in(&r, words).code(2));
    let lint = env.loopwright_in(&r, ["goal", "lint", file, "--json"]).success().json();
    assert_eq!(lint["criteria"][0]["on_base"], "rejected", "{lint}");
    let exported = env.loopwright_in(&r, ["goal", "export", file]).success().stdout();
    assert!(exported.contains("1. the answer is right (`./test.sh` exits with 0)"), "{exported}");
    let ran = env.loopwright_in(&r, ["goal", "run", file, "--json"]).code(10).json();
    assert_eq!((ran["loop"].as_str(), ran["outcome"].as_str()), (Some("the-answer-is-42"), Some("escalated")));
    repo.write("answer", "42\n").commit("right");
    let held = env.loopwright_in(&r, ["goal", "lint", file, "--json"]).success().json();
    assert!(held["notes"].to_string().contains("holds on base already"), "{held}");
}

#[test]
fn goals_round_is_retried_from_its_contract_and_the_digest_names_each_criterion() {
    let env = env();
    let _repo = red_repo(&env);
    let r = env.root().join("r");
    let criteria = ["--criterion", "it is right => answer", "--criterion", "it reads well => human"];
    let words = ["goal", "write", "The answer is 42", "--name", "answer", "--mode", "single-run"];
    let words = words.into_iter().chain(criteria).chain(["--gate", "answer=./test.sh"]);
    drop(env.loopwright_in(&r, words).success());
    let ran = env.loopwright_in(&r, ["goal", "run", ".loopwright/goals/answer.md", "--json"]).code(10).json();
    let round = ran["round"].as_str().expect("a round");
    let digest = env.loopwright_in(&r, ["digest"]).success().stdout();
    assert!(digest.contains("| it is right | answer | passed |"), "{digest}");
    assert!(digest.contains("| it reads well | a person | judge it yourself |"), "{digest}");
    drop(env.loopwright_in(&r, ["deny", round, "--why", "once more"]).success());
    let again = env.loopwright_in(&r, ["retry", round, "--json"]).code(10).json();
    assert_eq!((again["loop"].as_str(), again["outcome"].as_str()), (Some("answer"), Some("escalated")), "{again:#}");
    assert_ne!(again["round"], ran["round"]);
}

/// Runs the command on a terminal on which these lines are typed, and returns its exit code and what was shown.
fn on_a_terminal(env: &TestEnv, folder: &std::path::Path, words: &[&str], typed: &[&str]) -> (Option<i32>, String) {
    let mut command = env.command(folder);
    command.args(words);
    let mut terminal = TestTerminal::start(&command, 200, 80);
    typed.iter().for_each(|line| terminal.press(&format!("{line}\n")));
    let code = terminal.wait().code();
    (code, terminal.whole_text())
}

#[test]
fn on_a_terminal_everything_that_is_missing_is_asked_once() {
    let env = env();
    let _repo = red_repo(&env);
    let r = env.root().join("r");
    let typed = ["no", "60", "no", "yes", "2h", "no", "1"];
    let (code, shown) = on_a_terminal(&env, &r, &["route", "fix it"], &typed);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("mode   dynamic-workflow:") && shown.contains("place  detached:"), "{shown}");
    assert!(!shown.contains("assumed"), "every fact was answered: {shown}");
    let typed = ["the answer is right => answer", "it reads well", "", "human", "./test.sh"];
    let (code, shown) = on_a_terminal(&env, &r, &["goal", "write", "Fix the answer"], &typed);
    assert_eq!(code, Some(0), "{shown}");
    let contract = std::fs::read_to_string(r.join(".loopwright/goals/fix-the-answer.md")).expect("a contract");
    for part in ["\"gate\":\"answer\"", "\"judgement\":\"human\"", "\"name\":\"answer\",\"run\":[\"./test.sh\"]"] {
        assert!(contract.contains(part), "{part}: {contract}");
    }
}

/// The seed logged gates such as `… | wc -l`, which pass on missing files, as proof.
#[test]
fn goal_whose_gate_cannot_fail_or_already_passes_is_not_sound() {
    let env = env();
    let repo = red_repo(&env);
    let r = env.root().join("r");
    repo.write_executable("always.sh", "#!/bin/sh\ncat missing | wc -l\n").commit("a vacuous gate");
    let write = |name: &str, gate: &str| {
        let gate = format!("proof={gate}");
        let words = [
            "goal",
            "write",
            "Done",
            "--mode",
            "single-run",
            "--name",
            name,
            "--criterion",
            "x => proof",
            "--gate",
            &gate,
        ];
        drop(env.loopwright_in(&r, words).success());
        env.loopwright_in(&r, ["goal", "lint", &format!(".loopwright/goals/{name}.md"), "--json"]).code(11).json()
    };
    assert!(write("vacuous", "./always.sh")["findings"].to_string().contains("cannot fail"));
    repo.write("answer", "42\n").commit("right");
    assert!(write("reached", "./test.sh")["findings"].to_string().contains("holds on base already"));
    let words = ["goal", "write", "Done", "--name", "gone", "--criterion", "x => proof", "--gate", "proof=./gone.sh"];
    assert!(env.loopwright_in(&r, words).code(11).stdout().contains("gone.sh"), "a missing script is reported at once");
}

#[test]
fn detached_round_survives_its_terminal_is_seen_and_can_be_stopped() {
    let env = env();
    let repo = red_repo(&env);
    let r = env.root().join("r");
    repo.write(".loopwright/loops/long.md", LONG);
    repo.write(".loopwright/long.script", "@ maker\nhang\n");
    let started = env.loopwright_in(&r, ["run", "long", "--detach", "--json"]).success().json();
    let round = started["round"].as_str().expect("a round").to_owned();
    let pid = started["detached"]["pid"].as_u64().expect("a process");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3)).expect("a session");
    assert_eq!(session, pid.to_string(), "it leads its own session");
    let shown = || env.loopwright_in(&r, ["show", &round, "--json"]).success().json();
    wait::until("the maker is at work", Duration::from_secs(60), || {
        env.loopwright_in(&r, ["logs", &round]).stdout().contains("role-started")
    });
    assert!(shown()["outcome"].is_null(), "it is running");
    drop(env.loopwright_in(&r, ["stop", &round]).success());
    let attached = env.loopwright_in(&r, ["attach", &round]).code(130);
    assert!(attached.stdout().contains("interrupted"), "{}", attached.stdout());
    assert_eq!(shown()["outcome"], "interrupted");
}

#[test]
fn detached_round_is_paused_steered_and_resumed_and_the_digest_has_it() {
    let env = env();
    let repo = env.repo("r");
    let r = env.root().join("r");
    let go = env.root().join("go");
    repo.write(".loopwright/loops/look.md", LOOK.replace("GO", &go.to_string_lossy())).commit("first");
    let started = env.loopwright_in(&r, ["run", "look", "--detach", "--json"]).success().json();
    let round = started["round"].as_str().expect("a round").to_owned();
    drop(env.loopwright_in(&r, ["pause", &round, "--why", "lunch"]).success());
    drop(env.loopwright_in(&r, ["resume", &round]).success());
    drop(env.loopwright_in(&r, ["pause", &round, "--why", "a second lunch"]).success());
    drop(env.loopwright_in(&r, ["steer", &round, "prefer the short form"]).success());
    drop(env.loopwright_in(&r, ["steer", &round, " "]).code(2));
    std::fs::write(&go, "").expect("the set-up may end");
    let attached = env.loopwright_in(&r, ["attach", &round]).code(10);
    assert!(attached.stdout().contains(&format!("next: loopwright resume {round}")), "{}", attached.stdout());
    let digest = env.loopwright_in(&r, ["digest"]).success().stdout();
    assert!(digest.contains("is suspended: `loopwright resume"), "{digest}");
    let status = env.loopwright_in(&r, ["status"]).success().stdout();
    let kept = format!("look: round {round} is paused with its work kept: loopwright resume {round}");
    assert!(status.contains(&kept), "{status}");
    let resumed = env.loopwright_in(&r, ["resume", &round]).success();
    assert!(resumed.stdout().contains("reported"), "{}", resumed.stdout());
    let logs = env.loopwright_in(&r, ["logs", &round]).success().stdout();
    assert!(logs.contains("paused") && logs.contains("steered"), "the record has both: {logs}");
    assert!(!logs.contains(": lunch"), "a pause that was withdrawn has no effect: {logs}");
    let report = env.loopwright_in(&r, ["report", &round]).success().stdout();
    assert!(report.contains(": prefer the short form"), "the agent got the words with a name: {report}");
    drop(env.loopwright_in(&r, ["steer", &round, "too late"]).code(15));
    drop(env.loopwright_in(&r, ["pause", &round]).code(15));
    drop(env.loopwright_in(&r, ["verify"]).success());
    drop(env.loopwright_in(&r, ["digest", "--out", "morning.md"]).success());
    assert!(repo.read("morning.md").contains("### look reported"), "{}", repo.read("morning.md"));
}

#[test]
fn retry_of_a_round_that_a_crash_left_finishes_it_and_starts_no_second_one() {
    let env = env();
    let repo = env.repo("r");
    let go = env.root().join("go");
    repo.write(".loopwright/loops/look.md", LOOK.replace("GO", &go.to_string_lossy())).commit("first");
    let run = |words: &[&str]| env.loopwright_in(repo.path(), words).success().stdout();
    let started = env.loopwright_in(repo.path(), ["run", "look", "--detach", "--json"]).success().json();
    let round = started["round"].as_str().expect("a round").to_owned();
    let pid = started["detached"]["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.expect("a process"), Signal::KILL).expect("it runs");
    wait::until("it is seen as abandoned", Duration::from_secs(60), || run(&["status"]).contains("abandoned"));
    std::fs::write(&go, "").expect("the set-up may end");
    assert!(run(&["retry", &round]).contains(&format!("look reported ({round})")));
    let rounds = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
    assert_eq!(rounds["rounds"].as_array().map(Vec::len), Some(1), "{rounds:#}");
}

/// Its set-up waits for a file, and its maker prints its own brief, which becomes the report.
const LOOK: &str = "\
---
name: look
intent: Look at it.
check: none
sandbox: off
setup: [[sh, -c, \"until [ -e GO ]; do sleep 0.05; done\"]]
agents: { maker: { use: command, run: [cat] } }
---
# Maker
Look.
";

#[test]
fn detached_round_that_cannot_begin_is_an_error_of_the_command() {
    let env = env();
    let _repo = red_repo(&env);
    let r = env.root().join("r");
    drop(env.loopwright_in(&r, ["run", "missing", "--detach"]).code(2));
    drop(env.loopwright_in(&r, ["goal", "run", "missing.md", "--detach"]).code(2));
    drop(env.loopwright_in(&r, ["run", "missing", "--detach", "--dry-run"]).code(2));
}

const LONG: &str = "\
---
name: long
intent: Take long.
level: L2
agents: { maker: { use: scripted, script: long.script } }
output: [pull-request]
---
# Maker
Take long.
";

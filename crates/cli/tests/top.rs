//! `loopwright top` in a real terminal: problems, a live round, an approval of what was shown, any size, and a terminal
//! that is usable afterwards.

use loopwright_testkit::{CommandRun, TestEnv, TestRepo, TestTerminal, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A maker that fixes the sum, and a checker that passes it.
const FIX: &str = r#"@ maker
say I will fix the sign
replace calc.sh "$1 - $2" "$1 + $2"
usage input=1200 output=300

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2
"#;

const HANG: &str = "@ maker\nsay I look around\nhang\n";
const BREAK: &str = "@ maker\nsay no\nexit 1\n";

struct World {
    env: TestEnv,
    repo: TestRepo,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        let world = Self { env, repo };
        world.repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        world.add("fix", "L2", "output: [{ pull-request: {} }]\n", FIX);
        world.add("broken", "L1", "", BREAK);
        world.add("slow", "L1", "", HANG);
        world.repo.commit("first");
        world
    }

    fn add(&self, name: &str, level: &str, more: &str, script: &str) {
        let file = format!(
            "---\nname: {name}\nintent: keep the sum right\nlevel: {level}\nagents:\n  \
             maker: {{ use: scripted, script: {name}.script }}\n{more}---\n# Maker\nDo it.\n"
        );
        self.repo.write(&format!(".loopwright/loops/{name}.md"), file);
        self.repo.write(&format!(".loopwright/{name}.script"), script);
    }

    fn run(&self, line: &str) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), line.split(' '))
    }

    fn top(&self, columns: u16, rows: u16) -> TestTerminal {
        let mut command = self.env.command(self.repo.path());
        command.arg("top");
        TestTerminal::start(&command, columns, rows)
    }

    /// Starts a command that does not end by itself.
    fn start(&self, line: &str) -> RunningCommand {
        let mut command = self.env.command(self.repo.path());
        command.args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        RunningCommand(command.spawn().expect("the program starts"))
    }

    fn status_of_latest(&self, name: &str) -> String {
        let rounds = self.run(&format!("rounds {name} --json")).success().json();
        rounds["rounds"][0]["status"].as_str().unwrap_or_default().to_owned()
    }
}

/// A process that is ended with the test.
struct RunningCommand(Child);

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(terminal: &TestTerminal, signal: Signal) {
    let pid = Pid::from_raw(terminal.pid()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn question_is_shown_with_its_diff_and_approved_in_the_terminal() {
    let world = World::new();
    drop(world.run("run fix").code(10));
    drop(world.run("run broken").code(1));
    let mut top = world.top(80, 24);
    let overview = top.wait_for("Problems 1");
    let at = |text: &str| overview.find(text).unwrap_or_else(|| panic!("no `{text}` in\n{overview}"));
    assert!(at("broken") < at("Needs you") && at("Needs you") < at("Running"), "{overview}");
    assert!(overview.contains("◆ 1 waiting") && overview.contains("no daemon"), "{overview}");
    top.press("4\r");
    // The keys of the page; those of the list below it also name `a` and `d`.
    top.wait_for("j k scroll");
    top.press("G");
    top.wait_for("+echo $(( $1 + $2 ))");
    top.press("a");
    top.wait_for("Approve a-");
    top.press("n");
    top.wait_without("Approve a-");
    assert_eq!(world.status_of_latest("fix"), "waiting");
    top.press("a");
    top.wait_for("y approves");
    top.press("y");
    top.wait_for("shipped: round");
    assert_eq!(world.status_of_latest("fix"), "shipped");
    top.press("xq");
    assert!(top.wait().success() && top.is_restored());
}

#[test]
fn question_is_denied_with_a_reason_beside_a_daemon_and_the_daemon_may_end() {
    let world = World::new();
    drop(world.run("run fix").code(10));
    drop(world.run("up --detach").success());
    let mut top = world.top(80, 24);
    top.wait_for("4 Inbox 1");
    top.press("4d");
    top.wait_for("j k scroll");
    top.press("d");
    top.wait_for("Why deny");
    top.press("not now\r");
    top.wait_for("denied: round");
    assert_eq!(world.status_of_latest("fix"), "rejected");
    top.press("x1");
    drop(world.run("stop").success());
    top.wait_for("no daemon");
    assert!(!top.has_ended());
}

#[test]
fn foreground_round_is_live_with_its_stage_action_and_ceiling() {
    let world = World::new();
    let _round = world.start("run slow");
    let mut top = world.top(100, 30);
    top.wait_for("● 1 running");
    let screen = top.wait_for("I look around");
    assert!(screen.contains("make") && screen.contains("$0.00 of $5.00"), "{screen}");
    top.press("3\r");
    top.wait_for("following");
    top.wait_for("maker-1 | I look around");
}

#[test]
fn followed_round_has_a_row_with_its_stage_and_ceiling() {
    let world = World::new();
    let _round = world.start("run slow");
    wait::until("the round runs", Duration::from_secs(60), || world.status_of_latest("slow") == "running");
    for verb in ["attach", "logs"] {
        let rounds = world.run("rounds slow --json").success().json();
        let round = rounds["rounds"][0]["round"].as_str().expect("an id").to_owned();
        let mut command = world.env.command(world.repo.path());
        command.args([verb, &round]).args((verb == "logs").then_some("--follow"));
        let mut terminal = TestTerminal::start(&command, 120, 30);
        terminal.wait_for("maker-1 | I look around");
        terminal.wait_for("make, attempt 1, ");
        terminal.wait_for("$0.00 of $5.00, 0 of 400k tokens  maker-1 | I look around");
        terminal.press("\x03");
        terminal.wait();
        let screen = terminal.whole_text();
        assert!(!screen.contains("of 400k tokens"), "the row is cleared: {screen}");
    }
}

#[test]
fn any_size_is_drawn_and_a_resized_terminal_is_filled_again() {
    let world = World::new();
    drop(world.run("run fix").code(10));
    let top = world.top(80, 24);
    top.wait_for("Needs you");
    for (columns, rows) in [(60, 20), (1, 1), (2, 40), (200, 50), (20, 3)] {
        top.resize(columns, rows);
    }
    top.resize(100, 30);
    let screen = top.wait_for("Latest rounds");
    assert!(screen.contains("1 Overview") && screen.contains("? help"), "{screen}");
}

#[test]
fn terminal_is_restored_after_the_key_a_signal_and_a_panic() {
    let world = World::new();
    for (end, code) in [("q", Some(0)), ("\x03", Some(0)), ("TERM", Some(0)), ("HUP", Some(0)), ("panic", Some(1))] {
        let mut top = world.top(80, 24);
        top.wait_for("1 Overview");
        assert!(!top.is_restored(), "the dashboard has the terminal");
        match end {
            "TERM" => signal(&top, Signal::TERM),
            "HUP" => signal(&top, Signal::HUP),
            // The build for tests has a key that panics: F12.
            "panic" => top.press("\x1b[24~"),
            keys => top.press(keys),
        }
        assert_eq!(top.wait().code(), code, "{end}");
        wait::until("the terminal is as before", Duration::from_secs(10), || top.is_restored());
        assert!(end != "panic" || top.text().contains("this is a bug in loopwright"), "{}", top.text());
    }
}

#[test]
fn dashboard_needs_a_terminal() {
    let world = World::new();
    let refused = world.run("top").code(2);
    assert!(refused.stderr().contains("`top` needs a terminal"), "{}", refused.stderr());
}

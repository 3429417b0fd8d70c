//! The commands that `route` prints, run by a shell as a person would run them: each of them works.
#![allow(clippy::disallowed_methods, reason = "the test starts a shell, as a person does")]

use super::{env, red_repo};
use loopwright_testkit::{TestEnv, TestRepo, wait};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Every role of a goal loop and of an item's round.
const ROLES: &str = "\
@ planner
brief Fix the answer.
plan Write 42.

@ maker
replace answer \"41\" \"42\"
exit 0

@ attacker
findings none

@ checker
verdict pass correctness=5@answer:1 scope=5@gate:proof tests=5@gate:proof
";
/// The flags that lead to each row of both tables.
const MODES: [(&str, &[&str]); 6] = [
    ("plain", &[]),
    ("measured", &["--measurable"]),
    ("attacked", &["--adversarial"]),
    ("counted", &["--items", "50"]),
    ("matched", &["--files", "src/*.txt"]),
    ("recurring", &["--recurring"]),
];
const PLACES: [&[&str]; 3] = [&[], &["--takes", "3h"], &["--streams", "2"]];

/// Words in capitals are for the person to replace.
fn fill(command: &str, contracts: [&str; 2]) -> String {
    let [one, two] = contracts;
    let filled = command.replace("FILE FILE", &format!("{one} {two}")).replace(" FILE ", &format!(" {one} "));
    let filled = filled.replace("'TEXT => GATE'", "'the answer is right => proof'");
    filled.replace("GATE=COMMAND", "proof=./test.sh").replace("'ITEM'", "'the answer'")
}

struct Shell {
    env: TestEnv,
    repo: TestRepo,
}

impl Shell {
    fn new() -> Self {
        let env = env();
        let repo = red_repo(&env);
        repo.write(".loopwright/fix.script", ROLES);
        for number in 0..50 {
            repo.write(&format!("src/{number}.txt"), "x\n");
        }
        repo.commit("many files");
        Self { env, repo }
    }

    fn command(&self, line: &str) -> Command {
        let program = self.env.command(self.repo.path());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("loopwright() {{ \"$0\" \"$@\"; }}\n{line}")).arg(program.get_program());
        shell.current_dir(self.repo.path()).env_clear().envs(self.env.variables()).stdin(Stdio::null());
        shell
    }

    /// Runs a line, which has to end with this exit code.
    fn run(&self, line: &str, code: i32) {
        let ran = self.command(line).output().expect("a shell");
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.status.code(), Some(code), "$ {line}\n{out}{err}");
    }

    fn route(&self, task: &str, flags: &[&str], place: &[&str]) -> Vec<String> {
        let words = ["route", task, "--json"].into_iter().chain(flags.iter().copied()).chain(place.iter().copied());
        let json = self.env.loopwright_in(self.repo.path(), words).success().json();
        let commands = json["commands"].as_array().expect("commands").iter();
        commands.map(|command| command.as_str().expect("a text").to_owned()).collect()
    }

    /// The outcome of the latest workflow or round of a loop, once it has ended.
    fn outcome(&self, name: &str) -> Option<String> {
        let latest = |words: &[&str], list: &str| {
            let json = self.env.loopwright_in(self.repo.path(), words).success().json();
            let mut rows = json[list].as_array().cloned().unwrap_or_default().into_iter();
            rows.find(|row| row["loop"].as_str().is_some_and(|of| of.starts_with(name)))
        };
        let found = match latest(&["workflow", "list", "--json"], "workflows") {
            Some(workflow) => Some(workflow).filter(|row| row["state"] == "ended"),
            None => latest(&["rounds", "--json"], "rounds"),
        };
        found?["outcome"].as_str().map(str::to_owned)
    }
}

#[test]
fn every_command_that_route_prints_works() {
    let shell = Shell::new();
    let mut tried = BTreeSet::new();
    let mut printed = BTreeSet::new();
    for (name, flags) in MODES {
        for (at, place) in PLACES.iter().enumerate() {
            let task = format!("{name}-{at}");
            let commands = shell.route(&task, flags, place);
            printed.extend(commands.iter().map(|command| command.replace(&task, "TASK")));
            if name == "recurring" || commands.iter().all(|command| tried.contains(&command.replace(&task, "TASK"))) {
                continue;
            }
            tried.extend(commands.iter().map(|command| command.replace(&task, "TASK")));
            try_goal(&shell, &task, &commands);
        }
    }
    let recurring = shell.route("recurring", &["--recurring"], &[]);
    try_loop(&shell, &recurring);
    tried.extend(recurring);
    assert_eq!(printed, tried, "a command was not tried");
}

/// Writes the contract, checks it, and works toward the goal until a person has to approve the change.
fn try_goal(shell: &Shell, task: &str, commands: &[String]) {
    let contract = |name: &str| format!(".loopwright/goals/{name}.md");
    let (own, second) = (contract(task), contract(&format!("{task}-b")));
    let [write, lint, run] = commands else { panic!("three commands: {commands:?}") };
    let write = fill(write, [&own, &second]);
    shell.run(&write, 0);
    if write.contains("--files") {
        // One file instead of fifty keeps the test short; the glob stays as it was printed.
        for number in 1..50 {
            shell.repo.remove(&format!("src/{number}.txt"));
        }
        shell.repo.commit("one file is left");
    }
    shell.run(lint, 0);
    let joins = run.contains("FILE FILE");
    if joins {
        let text = shell.repo.read(&own).replace(task, &format!("{task}-b"));
        shell.repo.write(&second, text);
    }
    let run = fill(run, [&own, &second]);
    let expected = if run.contains("--detach") { 0 } else { 10 };
    shell.run(&run, expected);
    let name = if joins { "goals-" } else { task };
    let outcome = wait::value("it ends", Duration::from_secs(120), || shell.outcome(name));
    assert_eq!(outcome, "escalated", "{run}");
}

/// Adds a loop and starts the daemon, which runs until it is stopped.
fn try_loop(shell: &Shell, commands: &[String]) {
    let [patterns, new, up] = commands else { panic!("three commands: {commands:?}") };
    shell.run(patterns, 0);
    let listed = shell.env.loopwright_in(shell.repo.path(), ["patterns", "--json"]).success().json();
    let pattern = listed["patterns"][0]["name"].as_str().expect("a pattern").to_owned();
    let new = new.replace("PATTERN", &pattern);
    shell.run(&new, 0);
    let log = shell.env.root().join("up.log");
    let mut daemon = shell.command(&format!("{up} > {} 2>&1", log.display())).spawn().expect("a shell");
    wait::until("the daemon is up", Duration::from_secs(60), || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("up: process"))
    });
    shell.run("loopwright stop", 0);
    assert_eq!(
        daemon.wait().expect("its end").code(),
        Some(0),
        "{}",
        std::fs::read_to_string(&log).unwrap_or_default()
    );
}

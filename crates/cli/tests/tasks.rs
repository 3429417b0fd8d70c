//! The task registry from the command line, with several processes at once.

use loopwright_testkit::{CommandRun, TestEnv, TestRepo};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

struct Ground {
    env: TestEnv,
    repo: TestRepo,
    folder: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("r");
        repo.write("a", "a\n").commit("first");
        let folder = env.root().join("r");
        Self { env, repo, folder }
    }

    fn tasks(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(&self.folder, ["tasks"].iter().chain(words))
    }

    fn json(&self, words: &[&str]) -> Value {
        self.tasks(&[words, &["--json"]].concat()).success().json()
    }

    fn add(&self, words: &[&str]) -> String {
        let added = self.json(&[&["add"], words].concat());
        added["task"]["id"].as_str().expect("an id").to_owned()
    }

    fn ids(&self, words: &[&str]) -> Vec<String> {
        let listed = self.json(words);
        let tasks = listed["tasks"].as_array().expect("tasks").iter();
        tasks.map(|task| task["id"].as_str().expect("an id").to_owned()).collect()
    }
}

#[test]
fn task_goes_from_ready_to_done_and_only_its_claim_moves_it() {
    let ground = Ground::new();
    assert_eq!(ground.ids(&["ready"]), [] as [&str; 0], "an empty registry is no error");
    let (late, first) = (ground.add(&["Later"]), ground.add(&["First", "--priority", "0"]));
    let needs = ground.add(&["After", "--needs", &first, "--priority", "0"]);
    assert_eq!(ground.ids(&["ready"]), [first.clone(), late.clone()]);
    let claimed = ground.json(&["claim"]);
    assert_eq!((claimed["task"]["id"].as_str(), claimed["task"]["fence"].as_i64()), (Some(first.as_str()), Some(1)));
    drop(ground.tasks(&["claim", &first]).code(15));
    drop(ground.tasks(&["done", &first, "--fence", "0"]).code(15));
    drop(ground.tasks(&["start", &first, "--fence", "1"]).success());
    drop(ground.tasks(&["done", &first, "--fence", "1", "--note", "in !7"]).success());
    assert_eq!(ground.ids(&["ready"]), [needs.clone(), late.clone()], "the end of a task unblocks others");
    drop(ground.tasks(&["hold", &needs, "--until", "1h", "--why", "waits for Bob"]).success());
    drop(ground.tasks(&["block", &needs, "--by", &late]).success());
    drop(ground.tasks(&["block", &late, "--by", &needs]).code(2));
    assert_eq!(ground.json(&["show", &needs])["task"]["standing"], "held");
    drop(ground.tasks(&["hold", &needs, "--until", "none"]).success());
    assert_eq!(ground.json(&["show", &needs])["task"]["standing"], "blocked");
    for other in ["", "x", "no such task"] {
        let unknown = ground.tasks(&["unblock", &needs, "--by", other]).code(2);
        assert!(unknown.stderr().contains("does not wait for"), "{}", unknown.stderr());
    }
    drop(ground.tasks(&["unblock", &needs, "--by", &late]).success());
    assert_eq!(ground.ids(&["ready"]).len(), 2);
    assert_eq!(ground.ids(&["list", "--all"]).len(), 3);
    for words in
        [&["add", " "][..], &["add", "x", "--priority", "9"], &["show", "nope"], &["hold", &late, "--until", "soon"]]
    {
        drop(ground.tasks(words).code(2));
    }
}

#[test]
fn processes_that_claim_at_once_never_get_the_same_task() {
    let ground = Ground::new();
    let added: BTreeSet<String> = (0..6).map(|number| ground.add(&[&format!("task {number}")])).collect();
    let claim = |_| {
        let mut command = ground.env.command(&ground.folder);
        command
            .args(["tasks", "claim", "--json"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        command.spawn().expect("it starts")
    };
    let running: Vec<_> = (0..8).map(claim).collect();
    let mut claimed = Vec::new();
    for child in running {
        let output = child.wait_with_output().expect("it ends");
        if output.status.success() {
            let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            claimed.push(json["task"]["id"].as_str().expect("an id").to_owned());
        }
    }
    assert_eq!(claimed.len(), 6, "two of eight find no task");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), added, "each task has one owner");
}

#[test]
fn markdown_list_goes_both_ways_and_conflicts_lose_nothing() {
    let ground = Ground::new();
    let (one, two) = (ground.add(&["One"]), ground.add(&["Two"]));
    drop(ground.tasks(&["export", "TASKS.md"]).success());
    drop(ground.tasks(&["import", "TASKS.md"]).success());
    let list =
        ground.repo.read("TASKS.md").replace("] One", "] One, edited").replace("[ ] Two", "[x] Two") + "- [ ] Three\n";
    ground.repo.write("TASKS.md", &list);
    drop(ground.tasks(&["import", "TASKS.md"]).success());
    let titles = |ground: &Ground| {
        let listed = ground.json(&["list"]);
        let tasks = listed["tasks"].as_array().expect("tasks").clone();
        tasks.iter().map(|task| task["title"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles(&ground), ["One, edited", "Three"]);
    assert_eq!(ground.json(&["show", &two])["task"]["state"], "done");
    drop(ground.tasks(&["hold", &one, "--until", "1h"]).success());
    ground.repo.write("TASKS.md", list.replace("One, edited", "One, edited twice").replace("- [ ] Three\n", ""));
    let conflicts = ground.tasks(&["import", "TASKS.md", "--json"]).code(11).json();
    assert_eq!(conflicts["conflicts"][0]["registry"], "One, edited");
    assert_eq!(titles(&ground), ["One, edited", "Three"], "a conflict changes neither side");
    ground.repo.write("README.md", "# Other\n");
    drop(ground.tasks(&["export", "README.md"]).code(2));
}

#[test]
fn open_issues_become_tasks_once() {
    let ground = Ground::new();
    let loop_file = "---\nname: look\nintent: Look.\n---\n# Maker\nLook.\n";
    ground.repo.write(".loopwright/loops/look.md", loop_file);
    let paused = ground.env.loopwright_in(&ground.folder, ["pause", "look", "--json"]).success().json();
    let forge = ground.env.state().join("forge").join(paused["repo"].as_str().expect("the repository's id"));
    let issue = |number: u32, title: &str, label: &str| {
        let file = forge.join(format!("issues/{number}/0001-issue.md"));
        let text = format!(
            "---\nkind: issue-create\nstate: open\ntitle: {title}\nlabels: [\"{label}\"]\n---\n\nIt is wrong.\n"
        );
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder can be made");
        std::fs::write(file, text).expect("a file can be written");
    };
    issue(3, "Sum is wrong", "bug");
    issue(4, "Docs are thin", "docs");
    let import = |words: &[&str]| {
        let json = ground.json(&[&["import", "--issues", "local"], words].concat());
        (json["imported"].as_array().map_or(0, Vec::len), json["known"].as_u64())
    };
    assert_eq!(import(&["--label", "bug"]), (1, Some(0)));
    assert_eq!(import(&[]), (1, Some(1)), "an issue is imported once");
    let listed = ground.json(&["list"]);
    assert_eq!(
        (listed["tasks"][0]["source"].as_str(), listed["tasks"][0]["title"].as_str()),
        (Some("issue-3"), Some("Sum is wrong"))
    );
    drop(ground.tasks(&["import", "--issues", "nowhere"]).code(1));
}

#[test]
fn run_of_a_goal_is_registered_first_with_the_id_of_its_round() {
    let ground = Ground::new();
    ground.repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 a\n");
    ground.repo.write(".loopwright/fix.script", "@ maker\ncannot No way.\n");
    ground.repo.write("goal.yaml", GOAL).commit("a goal");
    let ran = ground.env.loopwright_in(&ground.folder, ["goal", "run", "goal.yaml", "--json"]).code(13).json();
    let round = ran["round"].as_str().expect("a round");
    let task = ground.json(&["show", round]);
    assert_eq!((task["task"]["id"].as_str(), task["task"]["source"].as_str()), (Some(round), Some("goal:goal.yaml")));
    assert_eq!(task["task"]["standing"], "ready", "a round that did not reach the goal leaves its task open: {task}");
}

const GOAL: &str = "\
name: forty-two
outcome: The file has 42.
mode: single-run
level: L2
criteria: [{ text: right, gate: tests }]
gates: [{ name: tests, run: [./test.sh] }]
agents: { maker: { use: scripted, script: fix.script } }
output: [pull-request]
";

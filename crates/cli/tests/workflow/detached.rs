//! Workflows without a terminal: they are seen, followed, steered, paused, resumed and stopped by their id.

use loopwright_testkit::{TestEnv, TestRepo, wait};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Its items are made one after the other. Each maker waits for its file `go-KEY`, and its brief becomes the report.
const WATCH: &str = "\
name: watch
intent: Look at each item.
check: none
sandbox: off
mode: dynamic-workflow
workflow: { items: [one, two, three], join: pipeline, at_once: 1 }
budget: { round: { usd: 5 } }
agents: { maker: { use: command, run: [sh, wait.sh, GO] } }
prompts: { maker: Look. }
";
const WAIT: &str = "\
brief=$(cat)
key=$(echo \"$brief\" | sed -n '/^\\[data item /{n;p;q;}')
until [ -e \"$1/go-$key\" ]; do sleep 0.05; done
echo \"$brief\"
";
const LONG: Duration = Duration::from_secs(60);

struct WatchRepo {
    env: TestEnv,
    repo: TestRepo,
}

impl WatchRepo {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("r");
        let watch = WATCH.replace("GO", &env.root().to_string_lossy());
        repo.write(".loopwright/loops/watch.yaml", watch).write("wait.sh", WAIT).commit("first");
        Self { env, repo }
    }

    fn run(&self, words: &[&str], code: i32) -> String {
        self.env.loopwright_in(self.repo.path(), words).code(code).stdout()
    }

    fn json(&self, words: &[&str]) -> Value {
        self.env.loopwright_in(self.repo.path(), words).success().json()
    }

    fn spawn(&self, words: &[&str]) -> Child {
        let mut command = self.env.command(self.repo.path());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    }

    /// Lets the maker of an item end.
    fn release(&self, key: &str) {
        std::fs::write(self.env.root().join(format!("go-{key}")), "").expect("a file");
    }

    /// The parts, as item, state and round.
    fn parts(&self, id: &str) -> Vec<[String; 3]> {
        let shown = self.json(&["workflow", "show", id, "--json"]);
        let text = |part: &Value, key: &str| part[key].as_str().unwrap_or_default().to_owned();
        let parts = shown["parts"].as_array().cloned().unwrap_or_default();
        parts.iter().map(|part| ["item", "state", "round"].map(|key| text(part, key))).collect()
    }

    /// Waits until the maker of an item is at work, and returns its round.
    fn at_work(&self, id: &str, key: &str) -> String {
        wait::value("the maker is at work", LONG, || {
            let parts = self.parts(id);
            let [_, _, round] = parts.iter().find(|[item, state, _]| item == key && state == "running")?;
            let logs = self.env.loopwright_in(self.repo.path(), ["logs", round]).stdout();
            logs.contains("role-started").then(|| round.clone())
        })
    }

    fn status(&self) -> Value {
        self.json(&["status", "--json"])["workflows"].clone()
    }

    fn report(&self, round: &str) -> String {
        self.run(&["report", round], 0)
    }
}

#[test]
fn detached_workflow_is_seen_steered_paused_resumed_and_stopped_and_continues_without_a_terminal() {
    let watch = WatchRepo::new();
    let started = watch.json(&["run", "watch", "--detach", "--json"]);
    let id = started["workflow"].as_str().expect("a workflow").to_owned();
    let one = watch.at_work(&id, "one");
    let seen = watch.status();
    assert_eq!(
        (&seen[0]["workflow"], &seen[0]["state"], &seen[0]["open"]),
        (&id.as_str().into(), &"running".into(), &3.into())
    );
    assert!(watch.run(&["status"], 0).contains(&format!("workflow {id} of watch: running, 0 done")));
    watch.run(&["steer", &id, "prefer the short form"], 0);
    watch.release("one");
    let two = watch.at_work(&id, "two");
    watch.run(&["pause", &id, "--why", "lunch"], 0);
    watch.release("two");
    let attached = watch.run(&["attach", &id], 10);
    assert!(attached.contains(&format!("next: loopwright resume {id}")), "{attached}");
    assert_eq!(watch.status()[0]["state"], "paused");
    assert_eq!(watch.parts(&id)[2][1], "queued", "nothing starts while it is paused");
    let mut resumed = watch.spawn(&["resume", &id]);
    watch.at_work(&id, "three");
    let stopped = watch.run(&["stop", &id], 0);
    assert!(stopped.contains("stays open"), "{stopped}");
    assert_eq!(resumed.wait().expect("its end").code(), Some(130));
    assert_eq!(watch.status()[0]["state"], "stopped");
    let again = watch.json(&["run", "watch", "--detach", "--json"]);
    assert_eq!(again["workflow"], id.as_str(), "the open workflow continues");
    let three = watch.at_work(&id, "three");
    watch.release("three");
    assert!(watch.run(&["attach", &id], 0).contains("3 done"));
    assert!(!watch.report(&one).contains("prefer the short form"), "its only agent was at work already");
    for round in [&two, &three] {
        assert!(watch.report(round).contains(": prefer the short form"), "{}", watch.report(round));
    }
    assert_eq!(watch.status().as_array().map(Vec::len), Some(0));
    for words in [&["steer", &id, "too late"][..], &["pause", &id], &["resume", &id], &["stop", &id]] {
        watch.run(words, 15);
    }
}

/// Without the file of the second item, its maker waits, so its round is paused by itself before the workflow is.
#[test]
fn pause_of_one_items_round_keeps_its_work() {
    let watch = WatchRepo::new();
    let text = watch.repo.read(".loopwright/loops/watch.yaml");
    let checked = text
        .replace("check: none\n", "")
        .replace("agents: {", "agents: { checker: { use: scripted, script: c.script }, ");
    watch.repo.write(".loopwright/loops/watch.yaml", checked);
    watch.repo.write(
        ".loopwright/c.script",
        "@ checker\nverdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n",
    );
    let started = watch.json(&["run", "watch", "--detach", "--json"]);
    let id = started["workflow"].as_str().expect("a workflow").to_owned();
    let one = watch.at_work(&id, "one");
    watch.run(&["pause", &one], 0);
    watch.release("one");
    watch.run(&["attach", &id], 130);
    assert_eq!(watch.parts(&id)[0], ["one".to_owned(), "running".to_owned(), one.clone()], "its work is kept");
    for key in ["two", "three"] {
        watch.release(key);
    }
    watch.run(&["resume", &id, "--json"], 0);
    assert_eq!(watch.parts(&id)[0], ["one".to_owned(), "done".to_owned(), one], "the same round ended");
}

#[test]
fn running_rounds_of_a_workflow_that_a_person_ends_reach_their_own_ends_and_are_recorded() {
    let watch = WatchRepo::new();
    let text = watch.repo.read(".loopwright/loops/watch.yaml").replace("at_once: 1", "at_once: 2");
    watch.repo.write(".loopwright/loops/watch.yaml", text);
    let started = watch.json(&["run", "watch", "--detach", "--json"]);
    let id = started["workflow"].as_str().expect("a workflow").to_owned();
    let rounds = ["one", "two"].map(|key| watch.at_work(&id, key));
    watch.run(&["workflow", "end", &id], 0);
    watch.release("one");
    wait::until("the first round is recorded", LONG, || watch.parts(&id)[0][1] == "done");
    assert_eq!(watch.parts(&id)[1][1], "running");
    watch.release("two");
    wait::until("the second round is recorded", LONG, || watch.parts(&id)[1][1] == "done");
    assert_eq!(watch.parts(&id)[2][1], "queued");
    for round in &rounds {
        assert_eq!(watch.json(&["show", round, "--json"])["outcome"], "reported");
    }
}

//! Dynamic workflows through the real binary: fan-out, merge, budget, and kills at any moment.

#[path = "workflow/detached.rs"]
mod detached;
#[path = "workflow/nested.rs"]
mod nested;

use loopwright_testkit::{TestEnv, TestRepo, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::Duration;

const HEAD: &str = "\
name: sweep
intent: Give every item its file.
level: L2
mode: dynamic-workflow
output: [pull-request]
agents:
  maker: { use: command, run: [sh, maker.sh] }
  checker: { use: scripted, script: check.script }
gates: [{ name: tests, run: [sh, test.sh] }]
attempts: 1
prompts: { maker: Write the file. }
";
/// One file for each item, after some work, so that kills also hit makers; an item named `bad…` writes what the gate rejects, and `same…` all write one file.
const MAKER: &str = "\
key=$(sed -n '/^\\[data item /{n;p;q;}' | tr / -)
mkdir -p out
count=0
while [ $count -lt 60000 ]; do count=$((count + 1)); done
case \"$key\" in
  bad*) echo wrong > \"out/$key\" ;;
  same*) echo \"$key\" > out/shared ;;
  *) echo \"$key\" > \"out/$key\" ;;
esac
";
const CHECKER: &str = "@ checker\nverdict pass correctness=5@gate:tests scope=5@gate:tests tests=5@gate:tests\n";

/// A repository with one workflow.
struct SweepRepo {
    env: TestEnv,
    repo: TestRepo,
}

impl SweepRepo {
    fn new(keys: &str) -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("r");
        repo.write(".loopwright/loops/sweep.yaml", format!("{HEAD}{keys}")).write(".loopwright/check.script", CHECKER);
        repo.write("maker.sh", MAKER).write("test.sh", "! grep -rq wrong out\n");
        repo.write("src/a.txt", "a\n").write("src/b.txt", "b\n").write("notes.md", "n\n").commit("first");
        Self { env, repo }
    }

    fn run(&self, code: i32) -> Value {
        self.env.loopwright_in(self.repo.path(), ["run", "sweep", "--json"]).code(code).json()
    }

    fn json(&self, words: &[&str]) -> Value {
        self.env.loopwright_in(self.repo.path(), words).success().json()
    }

    fn spawn(&self) -> Child {
        let mut command = self.env.command(self.repo.path());
        command.args(["run", "sweep"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    }

    /// How many items have a result, while a process runs the workflow.
    fn done(&self) -> u64 {
        let listed = self.env.loopwright_in(self.repo.path(), ["workflow", "list", "--json"]);
        serde_json::from_str::<Value>(&listed.stdout())
            .map_or(0, |json| json["workflows"][0]["done"].as_u64().unwrap_or(0))
    }

    /// The outcomes of all rounds, by their items.
    fn outcomes(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let rounds = self.json(&["rounds", "--limit", "5000", "--json"]);
        for round in rounds["rounds"].as_array().expect("rounds") {
            let text = |key: &str| round[key].as_str().unwrap_or_default().to_owned();
            found.entry(text("item")).or_default().push(text("outcome"));
        }
        found
    }
}

fn states(json: &Value) -> Vec<(String, String)> {
    let text = |part: &Value, key: &str| part[key].as_str().unwrap_or_default().to_owned();
    json["parts"].as_array().expect("parts").iter().map(|part| (text(part, "item"), text(part, "state"))).collect()
}

#[test]
fn a_workflow_makes_each_item_in_its_own_round_and_asks_once_about_the_merged_change() {
    let sweep = SweepRepo::new("workflow: { items: [one, two, three], at_once: 2 }\n");
    let json = sweep.run(10);
    assert_eq!((&json["outcome"], &json["done"]), (&"escalated".into(), &3.into()), "{json:#}");
    let merge = json["parts"][3].clone();
    assert_eq!(merge["part"], "merge", "{json:#}");
    let diff =
        sweep.env.loopwright_in(sweep.repo.path(), ["diff", merge["round"].as_str().expect("a round")]).success();
    for item in ["out/one", "out/two", "out/three"] {
        assert!(diff.stdout().contains(item), "{}", diff.stdout());
    }
    let inbox = sweep.json(&["inbox", "--json"]);
    assert_eq!(inbox["items"].as_array().map_or(0, Vec::len), 1, "one question for the whole: {inbox:#}");
    for item in ["one", "two", "three"] {
        assert_eq!(sweep.outcomes()[item], ["reported"], "no item sends anything by itself");
    }
}

#[test]
fn items_come_from_files_of_base_or_from_a_probe() {
    let files = SweepRepo::new("workflow: { files: [\"src/*.txt\"] }\n").run(10);
    assert_eq!(&states(&files)[..2], [("src/a.txt".into(), "done".into()), ("src/b.txt".into(), "done".into())]);
    let probe = "on: { probe: { run: [sh, -c, \"echo p1; echo p2\"], items: lines } }\nworkflow: {}\n";
    let probed = SweepRepo::new(probe).run(10);
    assert_eq!(&states(&probed)[..2], [("p1".into(), "done".into()), ("p2".into(), "done".into())], "{probed:#}");
}

#[test]
fn too_many_items_end_the_workflow_and_none_is_left_out_in_silence() {
    let sweep = SweepRepo::new("workflow: { files: [\"many/*\"] }\n");
    for number in 0..5001 {
        sweep.repo.write(&format!("many/{number}"), "");
    }
    sweep.repo.commit("more than a workflow may have");
    let json = sweep.run(1);
    assert_eq!(json["outcome"], "failed", "{}", json["why"]);
    assert!(json["why"].as_str().is_some_and(|why| why.contains("at most 5000")), "{}", json["why"]);
}

#[test]
fn the_planners_json_names_the_items_and_anything_else_ends_the_workflow() {
    let keys = "workflow: { plan: on }\n";
    let with_planner = |answer: &str| {
        let sweep = SweepRepo::new(keys);
        let head = HEAD.replace("agents:\n", "agents:\n  planner: { use: scripted, script: plan.script }\n");
        sweep.repo.write(".loopwright/loops/sweep.yaml", format!("{head}{keys}"));
        sweep.repo.write(".loopwright/plan.script", format!("@ maker\nsay <<END\n{answer}\nEND\n"));
        sweep
    };
    let json = with_planner("[\"x\", {\"key\": \"y\", \"title\": \"The y\"}]").run(10);
    assert_eq!(&states(&json)[1..3], [("x".into(), "done".into()), ("y".into(), "done".into())], "{json:#}");
    let json = with_planner("I think x and y.").run(1);
    assert_eq!((&json["outcome"], json["parts"].as_array().map(Vec::len)), (&"failed".into(), Some(1)), "{json:#}");
}

#[test]
fn an_item_that_fails_fails_the_workflow_unless_it_may() {
    let strict = SweepRepo::new("workflow: { items: [good, bad] }\n").run(11);
    assert_eq!((&strict["outcome"], &strict["failed"]), (&"rejected".into(), &1.into()), "{strict:#}");
    let lenient = SweepRepo::new("workflow: { items: [good, bad], may_fail: 1 }\n").run(10);
    assert_eq!((&lenient["done"], &lenient["failed"]), (&1.into(), &1.into()), "{lenient:#}");
    let conflict = SweepRepo::new("workflow: { items: [same1, same2] }\n").run(11);
    assert!(conflict["why"].as_str().is_some_and(|why| why.contains("conflict")), "{conflict:#}");
}

/// `clash` breaks the gate only beside `two`, so each item passes by itself.
const CLASH: &str = "! grep -rq wrong out && ! { [ -e out/two ] && [ -e out/clash ]; }\n";

/// The item that the landing fails with is found, and the rest lands; kills with -9 in the search change nothing.
#[test]
fn a_landing_that_its_gates_reject_is_searched_for_the_culprit_and_the_rest_lands() {
    let items = "workflow: { items: [one, two, three, clash, five], may_fail: 1 }\n";
    let sweep = SweepRepo::new(items);
    sweep.repo.write("test.sh", CLASH).commit("a gate over all items");
    let parts = || {
        let listed = sweep.env.loopwright_in(sweep.repo.path(), ["workflow", "list", "--json"]);
        let id = serde_json::from_str::<Value>(&listed.stdout())
            .map_or(Value::Null, |json| json["workflows"][0]["workflow"].clone());
        let Some(id) = id.as_str() else { return Vec::new() };
        let shown = sweep.env.loopwright_in(sweep.repo.path(), ["workflow", "show", id, "--json"]);
        serde_json::from_str::<Value>(&shown.stdout()).map_or(Vec::new(), |json| states(&json))
    };
    for trial in ["the first 2", "the first 4"] {
        let mut process = sweep.spawn();
        wait::until("a trial of the search begins", Duration::from_secs(120), || {
            parts().iter().any(|(item, _)| item == trial)
        });
        process.kill().expect("kill -9");
        process.wait().expect("its end");
    }
    let json = sweep.run(10);
    let expected = [
        ("one", "done"),
        ("two", "done"),
        ("three", "done"),
        ("clash", "failed"),
        ("five", "done"),
        ("", "failed"),
        ("the first 2", "done"),
        ("the first 3", "done"),
        ("the first 4", "failed"),
        ("", "done"),
    ];
    assert_eq!(states(&json), expected.map(|(item, state)| (item.to_owned(), state.to_owned())), "{json:#}");
    let (clash, landed) = (json["parts"][3].clone(), json["parts"][9].clone());
    let note = clash["note"].as_str().expect("a note");
    let round = clash["round"].as_str().expect("its round");
    assert!(note.contains("the landing fails with it") && note.contains(&format!("take {round}")), "{note}");
    let diff = |round: &Value| {
        let round = round.as_str().expect("a round");
        sweep.env.loopwright_in(sweep.repo.path(), ["diff", round]).success().stdout()
    };
    let change = diff(&landed["round"]);
    assert!(change.contains("out/five") && !change.contains("out/clash"), "{change}");
    drop(sweep.env.loopwright_in(sweep.repo.path(), ["take", round]).success());
    assert!(sweep.repo.git(["show", &format!("take/{round}:out/clash")]).contains("clash"), "its work is not lost");
    assert_eq!(sweep.json(&["inbox", "--json"])["items"].as_array().map_or(0, Vec::len), 1, "trials ask no one");
}

#[test]
fn of_variants_the_one_with_the_best_score_is_verified_again_and_sent() {
    let sweep = SweepRepo::new("");
    let bench = "gates:\n  - { name: tests, run: [sh, test.sh] }\n  \
                 - { name: bench, run: [sh, bench.sh], score: { pattern: \"score=(\\\\d+)\", better: higher, at_least: 4 } }\n";
    let head = HEAD.replace("gates: [{ name: tests, run: [sh, test.sh] }]\n", bench);
    sweep.repo.write("bench.sh", "echo score=$(ls out)\n").commit("a bench");
    let keys = "workflow: { items: [\"3\", \"5\", \"7\", \"6\"], join: best }\n";
    sweep.repo.write(".loopwright/loops/sweep.yaml", format!("{head}{keys}"));
    let json = sweep.run(10);
    let expected = [("3", "failed"), ("5", "done"), ("7", "done"), ("6", "done"), ("", "done")];
    assert_eq!(states(&json), expected.map(|(item, state)| (item.to_owned(), state.to_owned())), "{json:#}");
    assert_eq!(json["parts"][2]["note"], "score 7", "{json:#}");
    let round = json["parts"][4]["round"].as_str().expect("a round");
    let change = sweep.env.loopwright_in(sweep.repo.path(), ["diff", round]).success().stdout();
    assert!(change.contains("out/7") && !change.contains("out/5") && !change.contains("out/6"), "{change}");
}

const GOAL: &str = "\
name: NAME
outcome: NAME exists.
criteria: [{ text: it is there, gate: has-NAME }]
mode: single-run
level: L3
allow: [pull-request]
agents:
  maker: { use: command, run: [sh, maker.sh] }
  checker: { use: scripted, script: check.script }
gates: [{ name: sane, run: [sh, test.sh] }, { name: has-NAME, run: [sh, has.sh, NAME], red_before: true }EXTRA]
attempts: 1
output: [pull-request: { draft: false }]
";

/// Each goal's maker writes the file of its goal.
const GOAL_MAKER: &str = "\
key=$(grep -o 'goal-[a-z]*' | head -n 1)
mkdir -p out && echo \"$key\" > \"out/$key\"
";
/// The same after a signal. The test sends it when the makers of all goals are at work.
const WAITING_MAKER: &str = "\
trap 'go=1' USR1
until [ \"$go\" ]; do sleep 0.05; done
";

/// The processes that run a program with exactly these arguments, in any sandbox of this machine.
fn processes(arguments: &str) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let wanted = || arguments.split(' ').chain([""]).map(str::as_bytes);
    let is_command = |line: &[u8]| line.split(|byte| *byte == 0).skip(1).eq(wanted());
    let found = all.filter(|one| std::fs::read(one.path().join("cmdline")).is_ok_and(|line| is_command(&line)));
    found.filter_map(|one| Pid::from_raw(one.file_name().to_string_lossy().parse().ok()?)).collect()
}

#[test]
fn several_goals_run_at_once_land_in_order_and_one_that_breaks_the_others_waits_on_its_own_ref() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    let checker = CHECKER.replace("gate:tests", "gate:sane");
    repo.write("maker.sh", format!("{WAITING_MAKER}{GOAL_MAKER}")).write("test.sh", "! grep -rq wrong out\n");
    repo.write("has.sh", "test -e out/$1\n");
    let maker = format!("maker.sh of-{}", env.root().file_name().expect("a name").to_string_lossy());
    repo.write("alone.sh", "! test -e out/goal-b\n").write(".loopwright/check.script", checker).write("notes", "n\n");
    repo.commit("first");
    let mut words = vec!["goal".to_owned(), "run".to_owned()];
    for (name, extra) in [("goal-a", ""), ("goal-b", ""), ("goal-c", ", { name: alone, run: [sh, alone.sh] }")] {
        let file = format!("goals/{name}.yaml");
        let goal = GOAL.replace("[sh, maker.sh]", &format!("[sh, {}]", maker.replace(' ', ", ")));
        repo.write(&file, goal.replace("NAME", name).replace("EXTRA", extra));
        words.push(file);
    }
    let two = env.loopwright_in(repo.path(), ["goal", "run", "goals/goal-a.yaml", "goals/goal-a.yaml"]).code(2);
    assert!(two.stderr().contains("two goals are called `goal-a`"), "{}", two.stderr());
    let mut command = env.command(repo.path());
    let process = command.args(&words).arg("--json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let process = process.expect("the program starts");
    let all = wait::value("the makers of all goals are at work at once", Duration::from_secs(120), || {
        Some(processes(&maker)).filter(|found| found.len() == 3)
    });
    for maker in all {
        kill_process(maker, Signal::USR1).expect("it runs");
    }
    let output = process.wait_with_output().expect("its end");
    let json: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(output.status.code(), Some(0), "{json:#}");
    let files = [("goals/goal-a.yaml", "done"), ("goals/goal-b.yaml", "done"), ("goals/goal-c.yaml", "failed")];
    assert_eq!(states(&json)[..3], files.map(|(item, state)| (item.to_owned(), state.to_owned())), "{json:#}");
    assert_eq!(json["outcome"], "shipped", "{json:#}");
    let landed = json["parts"].as_array().and_then(|parts| parts.last()).expect("a landing")["round"].clone();
    let landed = landed.as_str().expect("a round");
    let change = env.loopwright_in(repo.path(), ["diff", landed]).success().stdout();
    assert!(change.contains("out/goal-a") && change.contains("out/goal-b") && !change.contains("goal-c"), "{change}");
    let report = env.loopwright_in(repo.path(), ["show", landed, "--json"]).success().json();
    let gates: Vec<_> = report["gates"].as_array().expect("gates").iter().map(|gate| gate["name"].clone()).collect();
    let verified = |name: &str| gates.iter().any(|gate| gate == name);
    assert!(verified("has-goal-a") && verified("has-goal-b") && verified("sane") && !verified("alone"), "{gates:?}");
    let parked = json["parts"][2]["round"].as_str().expect("its round");
    drop(env.loopwright_in(repo.path(), ["take", parked]).success());
    assert!(repo.git(["show", &format!("take/{parked}:out/goal-c")]).contains("goal-c"));
    let digest = env.loopwright_in(repo.path(), ["digest"]).success().stdout();
    assert!(digest.contains("| it is there | has-goal-b | passed |"), "each goal's criteria are on record: {digest}");
}

/// `goal-a` protects a file that the round of `goal-b` changes: the seal of their landing rejects it.
#[test]
fn goal_that_changed_what_another_protects_is_set_aside_and_the_other_lands() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    let checker = CHECKER.replace("gate:tests", "gate:sane");
    let maker = format!("{GOAL_MAKER}case $key in goal-b) echo more >> kept/shared ;; esac\n");
    repo.write("maker.sh", maker).write("test.sh", "! grep -rq wrong out\n").write("has.sh", "test -e out/$1\n");
    repo.write("kept/shared", "s\n").write(".loopwright/check.script", checker).commit("first");
    let goal = |name: &str, more: &str| {
        repo.write(&format!("goals/{name}.yaml"), GOAL.replace("NAME", name).replace("EXTRA", "") + more);
    };
    goal("goal-a", "protect: [kept/**]\n");
    goal("goal-b", "allow_paths: [kept/shared, out/**]\n");
    let words = ["goal", "run", "goals/goal-a.yaml", "goals/goal-b.yaml", "--json"];
    let refused = env.loopwright_in(repo.path(), words).code(2).stdout();
    assert!(refused.contains("may change `kept/shared`") && refused.contains("protects `kept/**`"), "{refused}");
    goal("goal-b", "");
    let json = env.loopwright_in(repo.path(), words).code(0).json();
    let expected = [("goals/goal-a.yaml", "done"), ("goals/goal-b.yaml", "failed")];
    assert_eq!(states(&json)[..2], expected.map(|(item, state)| (item.to_owned(), state.to_owned())), "{json:#}");
    assert_eq!(json["outcome"], "shipped", "{json:#}");
}

#[test]
fn base_that_turns_red_by_itself_is_named_and_no_item_is_blamed() {
    let sweep = SweepRepo::new("workflow: { items: [one, two, three], at_once: 1, may_fail: 2 }\n");
    let mut process = sweep.spawn();
    wait::until("one item is done", Duration::from_secs(60), || sweep.done() >= 1);
    sweep.repo.write("out/base", "wrong\n").commit("base turns red");
    process.wait().expect("its end");
    let listed = sweep.json(&["workflow", "list", "--json"]);
    let id = listed["workflows"][0]["workflow"].as_str().expect("an id");
    let json = sweep.json(&["workflow", "show", id, "--json"]);
    assert!(states(&json)[..3].iter().all(|(_, state)| state == "done"), "{json:#}");
    let why = json["why"].as_str().unwrap_or_default();
    assert!(why.contains("base is red by itself: gate `tests` on "), "{json:#}");
}

#[test]
fn items_of_a_pipeline_send_their_own_results() {
    let sweep = SweepRepo::new("open_max: 10\nworkflow: { items: [one, two], join: pipeline }\n");
    let json = sweep.run(10);
    assert_eq!((&json["outcome"], json["parts"].as_array().map(Vec::len)), (&"escalated".into(), Some(2)), "{json:#}");
    assert_eq!(sweep.json(&["inbox", "--json"])["items"].as_array().map_or(0, Vec::len), 2);
}

#[test]
fn a_workflow_never_spends_more_than_its_ceiling() {
    let cost = "  maker: { use: command, run: [sh, maker.sh], cost: 1.00 }\n";
    let sweep = SweepRepo::new("");
    let head = HEAD.replace("  maker: { use: command, run: [sh, maker.sh] }\n", cost);
    let keys = "budget: { round: { usd: 3.50 }, item: { usd: 1.10 } }\nworkflow: { items: [a, b, c, d, e, f] }\n";
    sweep.repo.write(".loopwright/loops/sweep.yaml", format!("{head}{keys}"));
    let json = sweep.run(12);
    assert_eq!(json["outcome"], "over-budget", "{json:#}");
    assert!(json["usd"].as_f64().is_some_and(|usd| (1.0..=3.5).contains(&usd)), "{json:#}");
    assert!(json["open"].as_u64().is_some_and(|open| open >= 2), "items that do not fit stay open: {json:#}");
}

#[test]
fn a_person_ends_a_workflow_and_the_next_run_begins_another() {
    let sweep = SweepRepo::new("workflow: { items: [one, two, three, four], at_once: 1 }\n");
    let mut process = sweep.spawn();
    wait::until("one item is done", Duration::from_secs(60), || sweep.done() >= 1);
    process.kill().expect("kill");
    process.wait().expect("its end");
    let open = sweep.json(&["workflow", "list", "--json"])["workflows"][0]["workflow"].clone();
    let id = open.as_str().expect("an id");
    let ended = sweep.json(&["workflow", "end", id, "--json"]);
    assert_eq!((&ended["state"], &ended["outcome"]), (&"ended".into(), &"cancelled".into()));
    assert_ne!(sweep.run(10)["workflow"], open);
}

/// Built with `LOOPWRIGHT_WORKFLOW=500x5` in the environment, it has 500 items and five kills.
#[test]
fn a_workflow_that_is_killed_again_and_again_does_each_item_exactly_once_and_stays_within_its_budget() {
    let size = option_env!("LOOPWRIGHT_WORKFLOW").unwrap_or("40x3");
    let (items, kills) = size.split_once('x').expect("ITEMSxKILLS");
    let (items, kills): (u64, u64) = (items.parse().expect("a number"), kills.parse().expect("a number"));
    let keys: Vec<String> = (0..items).map(|number| format!("item-{number}")).collect();
    // Each maker costs a cent. The ceiling has room for every item once, for the makers that the kills may hit, and for
    // the shares that the last rounds hold: doing much again would not fit.
    let (at_once, share) = (8, 3);
    let ceiling = items + at_once * kills * share + (at_once + 1) * share;
    let dollars = |cents: u64| format!("{}.{:02}", cents / 100, cents % 100);
    let budget = format!(
        "budget: {{ round: {{ usd: {}, wall: 30m }}, item: {{ usd: {} }}, day: {{ usd: 10000 }} }}\n",
        dollars(ceiling),
        dollars(share)
    );
    let sweep = SweepRepo::new("");
    let maker = format!("maker.sh of-{}", sweep.env.root().file_name().expect("a name").to_string_lossy());
    let run = format!("run: [sh, {}], cost: 0.01 }}", maker.replace(' ', ", "));
    let head = HEAD.replace("run: [sh, maker.sh] }", &run);
    let workflow = format!("workflow: {{ items: [{}], at_once: {at_once} }}\n", keys.join(", "));
    sweep.repo.write(".loopwright/loops/sweep.yaml", format!("{head}{budget}{workflow}"));
    for kill in 1..=kills {
        let mut process = sweep.spawn();
        let enough = items * kill / (kills + 1);
        wait::until("some more items are done", Duration::from_secs(120), || sweep.done() >= enough);
        wait::until("a maker is at work", Duration::from_secs(120), || !processes(&maker).is_empty());
        process.kill().expect("kill -9");
        process.wait().expect("its end");
    }
    let json = sweep.run(10);
    assert_eq!(
        (json["done"].as_u64(), json["failed"].as_u64(), json["open"].as_u64()),
        (Some(items), Some(0), Some(0))
    );
    let outcomes = sweep.outcomes();
    let mut interrupted = 0;
    for key in &keys {
        let once = outcomes[key].iter().filter(|outcome| *outcome == "reported").count();
        interrupted += outcomes[key].iter().filter(|outcome| *outcome == "interrupted").count();
        assert_eq!(once, 1, "{key}: {:?}", outcomes[key]);
        let others = outcomes[key].iter().all(|outcome| outcome == "reported" || outcome == "interrupted");
        assert!(others, "{key}: {:?}", outcomes[key]);
    }
    let cents = json["usd"].as_f64().map(|usd| (usd * 100.0).round() as u64).expect("a cost");
    println!(
        "{items} items, {kills} kills: each done once, {interrupted} rounds were interrupted, {cents} of {ceiling} cents"
    );
    assert!(interrupted > 0, "no kill hit a maker");
    // An interrupted maker may have cost its whole share, and costs nothing if it had not started.
    let most = ceiling.min(items + interrupted as u64 * share);
    assert!((items..=most).contains(&cents), "{cents} cents: not from {items} to {most}");
    let merge = json["parts"].as_array().and_then(|parts| parts.last()).expect("a merge");
    let diff =
        sweep.env.loopwright_in(sweep.repo.path(), ["diff", merge["round"].as_str().expect("a round")]).success();
    assert_eq!(diff.stdout().matches("new file mode").count() as u64, items, "every change is in the merged candidate");
}

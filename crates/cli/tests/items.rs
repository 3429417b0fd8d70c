//! Probes and items through the real program: the engine, not the model, decides what is processed.
#![allow(clippy::disallowed_methods, reason = "tests start the program")]

use loopwright_testkit::{TestEnv, TestRepo};

const LOOP: &str = "---
name: greeter
intent: Greet every guest once.
level: L1
on:
  probe: { run: [sh, guests.sh], items: lines }
check: none
agents:
  maker: { use: scripted, script: greet.script }
---
# Maker
Greet the guest.
";

fn world(env: &TestEnv, guests: &str, script: &str) -> TestRepo {
    let repo = env.repo("house");
    repo.write("guests.sh", guests);
    repo.write(".loopwright/loops/greeter.md", LOOP);
    repo.write(".loopwright/greet.script", script);
    repo.commit("a house");
    repo
}

fn run(env: &TestEnv, repo: &TestRepo, words: &[&str]) -> serde_json::Value {
    let all: Vec<&str> = ["run", "greeter", "--json"].into_iter().chain(words.iter().copied()).collect();
    let ran = env.loopwright_in(repo.path(), all);
    ran.json()
}

const GREET: &str = "@ maker\nstage report.md \"Hello.\"\n";

#[test]
fn every_item_is_worked_on_once_and_then_there_is_nothing_to_do() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = world(&env, "echo ada@1\necho bob@1\n", GREET);
    let rounds: Vec<_> = (0..3).map(|_| run(&env, &repo, &[])).collect();
    let items: Vec<_> = rounds.iter().map(|round| round["item"].as_str().unwrap_or("none").to_owned()).collect();
    let outcomes: Vec<_> = rounds.iter().map(|round| round["outcome"].as_str().unwrap_or("none").to_owned()).collect();
    assert_eq!(items, ["ada@1", "bob@1", "none"]);
    assert_eq!(outcomes, ["reported", "reported", "nothing-to-do"]);
    assert_eq!(rounds[2]["attempts"], 0, "no work costs no agent");
}

#[test]
fn an_item_named_by_a_person_is_worked_on_without_asking_the_probe() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = world(&env, "exit 1\n", GREET);
    assert_eq!(run(&env, &repo, &[])["outcome"], "nothing-to-do");
    let round = run(&env, &repo, &["--item", "eve@2"]);
    assert_eq!((round["outcome"].as_str(), round["item"].as_str()), (Some("reported"), Some("eve@2")));
}

#[test]
fn a_probe_that_fails_fails_the_round_and_starts_no_agent() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = world(&env, "echo broken >&2; exit 7\n", GREET);
    let round = run(&env, &repo, &[]);
    assert_eq!((round["outcome"].as_str(), round["exit"].as_u64()), (Some("failed"), Some(1)));
    assert_eq!(round["attempts"], 0);
}

#[test]
fn an_item_that_fails_three_times_goes_to_the_inbox_and_is_left_alone() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = world(&env, "echo ada@1\n", "@ maker\nexit 3\n");
    for _ in 0..3 {
        assert_eq!(run(&env, &repo, &[])["outcome"], "failed");
    }
    assert_eq!(run(&env, &repo, &[])["outcome"], "nothing-to-do");
    let inbox = env.loopwright_in(repo.path(), ["inbox", "--json"]).success().json();
    let kinds: Vec<_> = inbox["items"].as_array().expect("items").iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, ["item-failed"]);
}

fn pairs(env: &TestEnv, guests: &str, script: &str) -> TestRepo {
    let repo = world(env, guests, script);
    repo.write(".loopwright/loops/greeter.md", LOOP.replace("items: lines", "items: lines, batch: 2"));
    repo
}

fn items(round: &serde_json::Value) -> Vec<String> {
    let items = round["items"].as_array().expect("items").iter();
    items.map(|item| item.as_str().expect("a key").to_owned()).collect()
}

#[test]
fn loop_with_a_batch_takes_several_items_a_round_and_each_is_processed() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = pairs(&env, "echo ada@1\necho bob@1\necho cyd@1\n", GREET);
    let rounds: Vec<_> = (0..3).map(|_| run(&env, &repo, &[])).collect();
    let taken: Vec<_> = rounds.iter().map(items).collect();
    assert_eq!(taken, [vec!["ada@1", "bob@1"], vec!["cyd@1"], vec![]]);
    assert_eq!(rounds[0]["item"], "ada@1, bob@1");
    let page = std::fs::read_to_string(rounds[0]["report"].as_str().expect("a report")).expect("it is there");
    assert!(page.contains("| items | ada@1, bob@1 |"), "{page}");
    let shown = env.loopwright_in(repo.path(), ["show", "greeter", "--json"]).success().json();
    let state = &shown["state"];
    assert_eq!(state["metrics"]["items_processed"], 3);
    for key in ["ada@1", "bob@1", "cyd@1"] {
        assert!(state["processed"][key].is_string(), "{state}");
    }
}

#[test]
fn items_of_a_round_that_failed_are_tried_one_by_one_and_only_the_bad_one_goes_to_the_inbox() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = pairs(&env, "echo ada@1\necho bob@1\necho cyd@1\n", "@ maker\nexit 3\n");
    let taken: Vec<_> = (0..3).map(|_| items(&run(&env, &repo, &[]))).collect();
    assert_eq!(taken, [vec!["ada@1", "bob@1"], vec!["ada@1"], vec!["ada@1"]], "what failed is taken alone");
    let inbox = env.loopwright_in(repo.path(), ["inbox", "--json"]).success().json();
    let asked: Vec<_> = inbox["items"].as_array().expect("items").iter().map(|item| item["summary"].clone()).collect();
    assert_eq!(asked, ["item `ada@1` failed 3 times"]);
    repo.write(".loopwright/greet.script", GREET);
    let taken: Vec<_> = (0..3).map(|_| items(&run(&env, &repo, &[]))).collect();
    assert_eq!(taken, [vec!["bob@1"], vec!["cyd@1"], vec![]], "the others are not given up with it");
    let state = env.loopwright_in(repo.path(), ["show", "greeter", "--json"]).success().json()["state"].clone();
    assert_eq!((&state["failures"][0]["item"], &state["failures"][0]["retries"]), (&"ada@1".into(), &3.into()));
    assert!(state["failures"][1].is_null(), "{state}");
}

#[test]
fn retry_of_a_round_with_several_items_takes_the_same_again() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = pairs(&env, "echo ada@1\necho bob@1\n", "@ maker\nexit 3\n");
    let failed = run(&env, &repo, &[]);
    repo.write(".loopwright/greet.script", GREET);
    let round = failed["round"].as_str().expect("a round");
    let again = env.loopwright_in(repo.path(), ["retry", round, "--json"]).success().json();
    assert_eq!(
        (items(&again), again["retry_of"].as_str()),
        (vec!["ada@1".to_owned(), "bob@1".to_owned()], Some(round))
    );
}

#[test]
fn ceiling_of_one_item_and_several_items_a_round_are_refused_together() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = pairs(&env, "exit 1\n", GREET);
    let text = LOOP
        .replace("items: lines", "items: lines, batch: 2")
        .replace("check: none", "check: none\nbudget: { item: { usd: 1 } }");
    repo.write(".loopwright/loops/greeter.md", text);
    let check_text = env.loopwright_in(repo.path(), ["check"]).code(2).transcript();
    assert!(
        check_text.contains("`budget.item` limits the cost of one item") && check_text.contains("batch: 1"),
        "{check_text}"
    );
}

#[test]
fn what_a_loop_knows_of_its_items_is_shown_as_the_seed_has_it_and_can_be_forgotten() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = world(&env, "echo ada@1\necho bob@1\n", GREET);
    let first = run(&env, &repo, &[]);
    repo.write(".loopwright/greet.script", "@ maker\nexit 3\n");
    assert_eq!(run(&env, &repo, &[])["outcome"], "failed");
    let show = || env.loopwright_in(repo.path(), ["show", "greeter", "--json"]).success().json();
    let shown = show();
    let state = &shown["state"];
    assert_eq!(state["metrics"]["runs"], 2);
    assert_eq!((&state["metrics"]["successes"], &state["metrics"]["items_processed"]), (&1.into(), &1.into()));
    assert!(state["processed"]["ada@1"].is_string(), "{state}");
    let failure = &state["failures"][0];
    assert_eq!(
        (&failure["item"], &failure["retries"], &failure["given_up"]),
        (&"bob@1".into(), &1.into(), &false.into())
    );
    assert!(failure["error"].as_str().is_some_and(|error| !error.is_empty()), "{failure}");
    assert_eq!(state["last_status"], "failed");
    assert_eq!(shown["receipts"][1]["round"], first["round"]);
    assert_eq!(shown["receipts"][1]["receipt"], "started");
    let page = env.loopwright_in(repo.path(), ["show", "greeter"]).success().transcript();
    assert!(page.contains("1 processed, 1 failed") && page.contains("bob@1 failed once"), "{page}");
    assert!(page.contains("failure engine:failure:bob@1 (engine, round "), "{page}");

    let unknown = env.loopwright_in(repo.path(), ["forget", "greeter", "--item", "eve@9"]).code(2).transcript();
    assert!(unknown.contains("no item `eve@9`"), "{unknown}");
    let forgot = env.loopwright_in(repo.path(), ["forget", "greeter", "--item", "ada@1"]).success().transcript();
    assert!(forgot.contains("forgot item ada@1"), "{forgot}");
    repo.write(".loopwright/greet.script", GREET);
    assert_eq!(run(&env, &repo, &[])["item"], "ada@1", "it is taken anew");
    let all = env.loopwright_in(repo.path(), ["forget", "greeter", "--json"]).success().json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(all["memories"], serde_json::json!(["engine:failure:bob@1"]));
    let after = show();
    assert_eq!((&after["state"]["processed"], &after["memory"]), (&serde_json::json!({}), &serde_json::json!([])));
    assert_eq!(after["rounds"].as_array().map(Vec::len), Some(3), "the record stays");
    let nothing = env.loopwright_in(repo.path(), ["forget", "greeter"]).success().transcript();
    assert!(nothing.contains("has nothing to forget"), "{nothing}");
    let _ = env.loopwright_in(repo.path(), ["forget", "nobody"]).code(2);
    let _ = env.loopwright_in(repo.path(), ["verify"]).success();
}

#[test]
fn an_expired_question_rejects_the_round() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("house");
    repo.write(".loopwright/config.yaml", "approvals: { expire: 1ms }\n");
    repo.write(
        ".loopwright/loops/paint.md",
        "---\nname: paint\nintent: Paint the door.\nlevel: L2\noutput:\n  - pull-request: {}\nagents:\n  maker: { use: scripted, \
         script: paint.script }\n---\n# Maker\nPaint.\n",
    );
    repo.write(
        ".loopwright/paint.script",
        "@ maker\nwrite door.txt \"green\\n\"\n@ checker\nverdict pass correctness=5@door.txt:1 scope=5@door.txt:1 tests=4@door.txt:1\n",
    );
    repo.commit("a house");
    let waiting = env.loopwright_in(repo.path(), ["run", "paint", "--json"]).code(10).json();
    let round = waiting["round"].as_str().expect("a round").to_owned();
    let _ = env.loopwright_in(repo.path(), ["approve", &round]).code(15);
    let after = env.loopwright_in(repo.path(), ["show", &round, "--json"]).success().json();
    assert_eq!((after["outcome"].as_str(), after["exit"].as_u64()), (Some("rejected"), Some(11)));
    let codes: Vec<_> =
        after["reasons"].as_array().expect("reasons").iter().map(|reason| reason["code"].clone()).collect();
    assert!(codes.contains(&"expired".into()), "{codes:?}");
}

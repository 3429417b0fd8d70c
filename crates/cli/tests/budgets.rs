//! Budgets as users see them: the messages when a ceiling is reached, raises, and rounds that only report.

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;

struct World {
    env: TestEnv,
    repo: TestRepo,
}

/// Thirty dollars buy a million input tokens of an unnamed model, so a thousand tokens cost three cents.
fn world(config: &str, loops: &[(&str, &str, u32)]) -> World {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("repo");
    let file = repo.path().with_file_name("my-config.yaml");
    std::fs::write(&file, config).expect("a configuration");
    let env = env.with_env("LOOPWRIGHT_CONFIG", file.to_str().expect("text"));
    for (name, more, tokens) in loops {
        let text = format!(
            "---\nname: {name}\nintent: look\nattempts: 1\nagents:\n  maker: {{ use: scripted, script: {name}.script }}\n\
             {more}\n---\n# Maker\nLook.\n"
        );
        repo.write(&format!(".loopwright/loops/{name}.md"), text);
        let script = format!(
            "@ maker\nstage report.md \"All is well.\"\nusage input={tokens}\n\n@ checker\n\
             verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n"
        );
        repo.write(&format!(".loopwright/{name}.script"), script);
    }
    repo.commit("first");
    World { env, repo }
}

impl World {
    #[track_caller]
    fn json(&self, line: &str, code: i32) -> Value {
        let words = line.split(' ').chain(["--json"]);
        self.env.loopwright_in(self.repo.path(), words).code(code).json()
    }
}

const ALONE: &str = "level: L1\ncheck: none";

#[track_caller]
fn says(report: &Value, words: &[&str]) {
    let text = report["reasons"].to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "`{word}` is not in {text}"));
}

#[test]
fn an_exhausted_day_is_named_and_a_raise_extends_it_for_today() {
    let budget = format!("{ALONE}\nbudget: {{ round: {{ usd: 0.6 }}, day: {{ usd: 1 }} }}");
    let world = world("", &[("look", &budget, 20_000)]);
    assert_eq!(world.json("run look", 0)["spend"]["usd"], 0.6);
    let full = world.json("run look", 12);
    says(
        &full,
        &["the loop's day may cost 1.00 USD; 0.60 USD are spent and 0.00 USD reserved", "budget raise look --usd N"],
    );
    let raised = world.json("budget raise look --usd 0.5", 0);
    assert_eq!((&raised["actor"], &raised["usd"]), (&loopwright_testkit::user::name().into(), &0.5.into()));
    let next = raised["next"][0].as_str().expect("the suspended round can go on");
    assert!(next.starts_with("loopwright retry r"), "{next}");
    assert_eq!(world.json("run look", 0)["spend"]["usd"], 0.6);
    let budget = world.json("budget", 0);
    let day = &budget["scopes"][0];
    assert_eq!(
        (&day["ceiling"]["usd"], &day["spent"]["usd"], &day["status"]),
        (&1.5.into(), &1.2.into(), &"low".into())
    );
    assert!(world.json("verify", 0)["ok"].as_bool().expect("a word"));
}

#[test]
fn an_item_has_its_own_ceiling_over_all_its_rounds() {
    let budget = format!("{ALONE}\nbudget: {{ round: {{ usd: 0.7 }}, item: {{ usd: 1 }}, day: {{ usd: 20 }} }}");
    let world = world("", &[("look", &budget, 20_000)]);
    drop(world.json("run look --item issue-7", 0));
    says(
        &world.json("run look --item issue-7", 12),
        &["the item may cost 1.00 USD; 0.60 USD are spent", "budget.item"],
    );
    drop(world.json("run look --item issue-8", 0));
    let costs = world.json("costs --by item", 0);
    assert_eq!(costs["groups"].as_array().map(Vec::len), Some(2));
    assert_eq!((&costs["total"]["usd"], &costs["total"]["accepted"]), (&1.2.into(), &2.into()));
}

#[test]
fn past_four_fifths_of_a_shared_day_a_loop_at_l2_only_reports() {
    let spend = format!("{ALONE}\nbudget: {{ round: {{ usd: 1 }} }}");
    let fix = "level: L2\ngates: [{ name: never, run: [\"false\"] }]\nbudget: { round: { usd: 0.2 } }\n\
               output: [{ pull-request: {} }]";
    let config = "budget: { repo: { day: { usd: 1.1 } }, fleet: { month: { usd: 50 } } }";
    let world = world(config, &[("spend", &spend, 30_000), ("fix", fix, 100)]);
    drop(world.json("run spend", 0));
    says(&world.json("run spend", 12), &["the repository's day may cost 1.10 USD", "raise `budget.repo.day`"]);
    let spared = world.json("run fix", 0);
    assert_eq!((&spared["level"], &spared["outcome"]), (&"L1".into(), &"reported".into()));
    says(&spared, &["soft-limit", "REPORT ONLY", "instead of L2"]);
    let text = world.env.loopwright_in(world.repo.path(), ["run", "fix"]).code(0).stdout();
    assert!(text.contains("REPORT ONLY"), "{text}");
}

#[test]
fn a_repository_cannot_make_its_own_rounds_look_cheap() {
    let world = world("", &[("look", ALONE, 1)]);
    world.repo.write(
        ".loopwright/config.yaml",
        "prices: { gpt-5: { input: 0, output: 0 } }\nbudget: { fleet: { day: { usd: 9 } } }\n",
    );
    let error = world.json("run look", 2);
    let text = error["error"].to_string();
    assert!(text.contains("`prices`") && text.contains("`budget.fleet`"), "{text}");
}

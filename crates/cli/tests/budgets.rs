//! Budgets as users see them: the messages when a ceiling is reached, raises, and rounds that only report.

use loopwright_testkit::{TestEnv, TestRepo, wait};
use serde_json::Value;
use std::time::Duration;

/// The longest wait; a busy machine is slow.
const LONG: Duration = Duration::from_secs(60);

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

/// A loop at L1 whose maker and checker use these many tokens; the checker leaves no verdict.
fn checked(budget: &str, maker: u32, checker: u32) -> World {
    let world = world("", &[("look", &format!("level: L1\nbudget: {budget}"), 1)]);
    let script =
        format!("@ maker\nstage report.md \"All is well.\"\nusage input={maker}\n\n@ checker\nusage input={checker}\n");
    world.repo.write(".loopwright/look.script", script);
    world.repo.commit("another script");
    world
}

#[test]
fn an_attempt_whose_budget_the_checker_used_up_starts_no_second_checker_and_is_over_budget() {
    let world = checked("{ attempt: { tokens: 1000 } }", 800, 800);
    let report = world.json("run look", 12);
    assert_eq!(report["outcome"], "over-budget");
    says(&report, &["the attempt may cost 1000 tokens; 1600 tokens are spent", "budget raise look --round r"]);
    let round = report["round"].as_str().expect("an id").to_owned();
    let again = world.json(&format!("retry {round}"), 12);
    assert_eq!(again["spend"]["tokens"]["input"], 1_600, "nothing runs before a person raises it: {again}");
    drop(world.json(&format!("budget raise look --round {round} --tokens 5000"), 0));
    let failed = world.json(&format!("retry {round}"), 1);
    assert_eq!(failed["spend"]["tokens"]["input"], 2_400, "the checker has its second try: {failed}");
}

#[test]
fn a_checker_that_exceeded_the_budget_of_one_start_is_not_started_again() {
    let world = checked("{ role: { tokens: 1000 } }", 800, 1_200);
    let report = world.json("run look", 12);
    says(&report, &["one start of an agent may cost 1000 tokens; 1200 tokens are spent"]);
    assert_eq!(report["spend"]["tokens"]["input"], 2_000);
}

#[test]
fn tick_resumes_a_round_that_waited_for_the_fleets_day_before_it_starts_another_of_its_loop() {
    let budget = format!("{ALONE}\non: {{ every: 1s }}\nbudget: {{ round: {{ usd: 0.6 }} }}");
    let world = world("budget: { fleet: { day: { usd: 1 } } }", &[("look", &budget, 20_000)]);
    let config = world.repo.path().with_file_name("my-config.yaml");
    let next = |outcome: &str| {
        wait::value("a round of a pass", LONG, || {
            let ticked = world.json("tick", 0);
            let first = ticked["rounds"][0].clone();
            first.is_object().then(|| {
                assert_eq!(first["outcome"], outcome, "{ticked}");
                first["round"].as_str().expect("an id").to_owned()
            })
        })
    };
    drop(next("reported"));
    let waits = next("over-budget");
    std::fs::write(config, "budget: { fleet: { day: { usd: 10 } } }").expect("the file can be written");
    assert_eq!(next("reported"), waits);
}

#[test]
fn a_budget_that_is_lowered_in_the_middle_of_a_round_holds_for_the_checkers_reservation() {
    let config = "budget: { fleet: { day: { tokens: 100000 } } }";
    let budget = "level: L1\nsandbox: off\nbudget: { round: { tokens: 50000 }, day: { tokens: 60000 } }";
    for (file, before, full) in [
        ("my-config.yaml", 100_000, "the day of all loops may cost 900 tokens"),
        ("repo/.loopwright/loops/look.md", 60_000, "the loop's day may cost 20.00 USD and 900 tokens"),
    ] {
        let world = world(config, &[("look", budget, 1)]);
        let lowered = world.repo.path().with_file_name(file);
        let script = format!(
            "@ maker\nreplace {} {before} 900\nstage report.md \"All is well.\"\nusage input=800\n\n@ checker\n\
             verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n",
            lowered.display()
        );
        world.repo.write(".loopwright/look.script", script);
        world.repo.commit("another script");
        let report = world.json("run look", 12);
        assert_eq!(report["outcome"], "over-budget", "{report}");
        says(&report, &[full, "800 tokens are spent"]);
    }
}

#[test]
fn maker_that_prints_the_same_line_for_ever_ends_long_before_its_wall_time() {
    let budget = "budget: { round: { wall: 40s, idle: 30s } }";
    let world = world("", &[("look", &format!("{ALONE}\nsandbox: off\n{budget}"), 1)]);
    let text = "---\nname: look\nintent: look\nattempts: 1\nlevel: L1\nsandbox: off\ncheck: none\nbudget: { round: { wall: 40s, \
                idle: 30s } }\nagents: { maker: { use: command, run: [sh, -c, \"while :; do echo thinking; sleep 0.004; done\"] } \
                }\n---\n# Maker\nLook.\n";
    world.repo.write(".loopwright/loops/look.md", text).commit("a maker that repeats itself");
    let report = world.json("run look", 12);
    says(&report, &["it repeated itself again and again"]);
    assert_eq!(report["reasons"][0]["code"], "limit", "{report:#}");
}

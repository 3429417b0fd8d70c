//! Nesting: every item of a workflow is a goal loop, or is attacked, and no inner round raises the outer budget.

use super::{HEAD, SweepRepo, states};
use serde_json::Value;

const PLANNED: &str = "@ planner\nbrief Give the item its file.\nplan Write the file.\n\n";
/// Shows a defect in every tree with the file of the item `two`.
const ATTACK: &str = "\
@ attacker
finding severity=critical place=notes.md:1 trigger=any title=two <<END
test ! -e out/two
END

";

/// A workflow whose agents have these further lines, and these keys.
fn nested(agents: &str, keys: &str) -> SweepRepo {
    let sweep = SweepRepo::new("");
    let head = HEAD.replace("agents:\n", &format!("agents:\n{agents}")).replace("attempts: 1\n", "");
    sweep.repo.write(".loopwright/loops/sweep.yaml", format!("{head}{keys}"));
    sweep
}

fn outcomes(json: &Value) -> Vec<String> {
    let parts = json["parts"].as_array().expect("parts").iter();
    parts.map(|part| part["outcome"].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn each_item_is_a_goal_loop_with_a_plan_of_its_own_within_the_share_of_the_workflow() {
    let agents = "  planner: { use: scripted, script: plan.script }\n";
    let keys = "attempts: 3\nbudget: { round: { usd: 9 }, item: { usd: 1.10 } }\n\
                workflow: { items: [one, bad, two], each: goal-loop, may_fail: 1 }\n";
    let sweep = nested(agents, keys);
    let text = sweep.repo.read(".loopwright/loops/sweep.yaml");
    sweep.repo.write(
        ".loopwright/loops/sweep.yaml",
        text.replace("run: [sh, maker.sh] }", "run: [sh, maker.sh], cost: 1.00 }"),
    );
    sweep.repo.write(".loopwright/plan.script", PLANNED);
    let json = sweep.run(10);
    let expected = [("one", "done"), ("bad", "failed"), ("two", "done"), ("", "done")];
    assert_eq!(states(&json), expected.map(|(item, state)| (item.to_owned(), state.to_owned())), "{json:#}");
    for at in [0, 2] {
        let round = json["parts"][at]["round"].as_str().expect("a round");
        let shown = sweep.json(&["show", round, "--json"]);
        assert!(shown["goal"]["plan"].is_object(), "{shown:#}");
        assert_eq!(shown["goal"]["cycles"].as_array().map(Vec::len), Some(1), "{shown:#}");
    }
    // Three attempts would cost 3.00; the share of the item ends them.
    assert_eq!(outcomes(&json)[1], "over-budget", "{json:#}");
    assert!(json["parts"][1]["usd"].as_f64().is_some_and(|usd| usd <= 2.0), "{json:#}");
    assert!(json["usd"].as_f64().is_some_and(|usd| usd <= 9.0), "{json:#}");
}

#[test]
fn attackers_of_a_workflow_attack_the_merged_change_and_in_a_pipeline_each_item() {
    let agents = "  attacker: { use: scripted, script: attack.script }\n";
    let keys = |join: &str| {
        format!(
            "attempts: 1\nopen_max: 10\nattack: {{ roles: [careless-user] }}\nworkflow: {{ items: [one, two], join: {join}, may_fail: 1 }}\n"
        )
    };
    let attacked = |join: &str, code: i32| {
        let sweep = nested(agents, &keys(join));
        sweep.repo.write(".loopwright/attack.script", ATTACK);
        let json = sweep.run(code);
        let found = |part: &Value| {
            let round = part["round"].as_str().expect("a round");
            let shown = sweep.json(&["show", round, "--json"]);
            let findings = shown["goal"]["findings"].as_array().cloned().unwrap_or_default();
            findings.iter().filter(|finding| finding["reproduction"] == "reproduced").count()
        };
        let counts: Vec<_> = json["parts"].as_array().expect("parts").iter().map(found).collect();
        (json, counts)
    };
    let (json, findings) = attacked("barrier", 11);
    assert_eq!(
        (outcomes(&json), findings),
        (["reported", "reported", "rejected"].map(str::to_owned).to_vec(), vec![0, 0, 1]),
        "{json:#}"
    );
    let (json, findings) = attacked("pipeline", 10);
    assert_eq!(
        (outcomes(&json), findings),
        (["escalated", "rejected"].map(str::to_owned).to_vec(), vec![0, 1]),
        "{json:#}"
    );
}

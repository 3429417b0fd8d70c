//! The work that a loop finds on each kind of forge, by the filters of its probe.

use super::stage::{PULL, ShippingStage};
use loopwright_testkit::fake_forge::IssueDraft;

const KINDS: [&str; 3] = ["github", "gitlab", "gitea"];

/// The item that the loop's first round works on, without its revision.
fn found_item(stage: &ShippingStage) -> String {
    let ran = stage.run(&["run", "fix", "--json"]).code(10).json();
    let round = ran["round"].as_str().expect("a round").to_owned();
    let shown = stage.run(&["show", &round, "--json"]).success().json();
    let item = shown["item"].as_str().unwrap_or_else(|| panic!("an item in {shown:#}"));
    item.split('@').next().expect("a key").to_owned()
}

#[test]
fn issues_are_found_by_assignee_and_by_mention_on_every_forge() {
    for (filters, wanted) in
        [("assignee: bot", "issue-2"), ("mention: bot", "issue-3"), ("assignee: bot, mention: bot", "issue-4")]
    {
        for kind in KINDS {
            let stage =
                ShippingStage::on(kind, "L2", &format!("on: {{ probe: {{ use: open-issues, {filters} }} }}\n{PULL}"));
            let open = |body: &str, assignees: &[&str]| {
                let draft = IssueDraft { author: "ada", title: "It breaks", body, assignees, ..IssueDraft::default() };
                stage.remote().open_issue(&draft);
            };
            open("Look, @botany, not assigned to bot.", &["eve"]);
            open("It is assigned.", &["bot"]);
            open("@Bot, look at this.", &[]);
            open("Both, @bot.", &["eve", "bot"]);
            assert_eq!(found_item(&stage), wanted, "{kind}: {filters}");
        }
    }
}

#[test]
fn pull_requests_are_found_by_mention_on_every_forge() {
    for kind in KINDS {
        let stage =
            ShippingStage::on(kind, "L2", &format!("on: {{ probe: {{ use: open-prs, mention: bot }} }}\n{PULL}"));
        stage.remote().push_commit("one", "one");
        stage.remote().push_commit("two", "two");
        stage.remote().open_pull("ada", "one", "One", "No mention.");
        stage.remote().open_pull("ada", "two", "Two", "A word, @bot.");
        assert_eq!(found_item(&stage), "pr-2", "{kind}");
    }
}

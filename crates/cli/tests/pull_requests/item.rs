//! The item of a pull request: everything that a maker needs to judge it, as data.

use super::stage::PullStage;

/// A loop that reports its own brief.
const ECHO: &str = "---\nname: look\nintent: Look at pull requests.\nforge: work\non: { every: 1h, probe: { use: open-prs } }\n\
                    agents: { maker: { use: command, run: [sh, -c, \"cat > $LOOPWRIGHT_OUTBOX/report.md\"] } }\ncheck: none\n\
                    output: [report]\n---\n# Maker\nLook.\n";

#[test]
fn maker_sees_diff_checks_and_comments_of_a_pull_request_as_data() {
    let stage = PullStage::new().with_loop("look", ECHO);
    let remote = stage.remote();
    let head = remote.push_file("product", "answer", "43\n", "Another answer");
    let number = remote.open_pull("ada", "product", "Another answer", "It is 43 now.");
    remote.report_check("build", &head, "failure", "test.sh: 43 is not 42");
    remote.comment_inline(number, "bob", "answer", 1, "Why not 42?");
    let round = stage.json(&["run", "look"], 0);
    assert_eq!(round["item"], format!("pr-{number}@{head}"), "{round:#}");
    let id = round["round"].as_str().expect("an id");
    let report = stage.run(&["report", id]).success().stdout();
    for part in [
        &format!("pull request {number} by ada: branch `product` at {head} into `main`"),
        "It is 43 now.",
        "failed: build: test.sh: 43 is not 42",
        "bob: answer:1: Why not 42?",
        "- answer",
        "-41",
        "+43",
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
    let again = stage.json(&["run", "look"], 0);
    assert_eq!(again["outcome"], "nothing-to-do", "{again:#}");
}

#[test]
fn second_probe_does_not_read_the_details_of_a_pull_request_that_is_done() {
    let stage = PullStage::new().with_loop("look", ECHO);
    let remote = stage.remote();
    remote.push_file("product", "answer", "43\n", "Another answer");
    remote.open_pull("ada", "product", "Another answer", "");
    let _ = stage.json(&["run", "look"], 0);
    assert_eq!(stage.forge.requests_to("GET", "/repos/*/*/pulls/*/files").len(), 1);
    let _ = stage.json(&["run", "look"], 0);
    assert_eq!(stage.forge.requests_to("GET", "/repos/*/*/pulls/*/files").len(), 1);
}

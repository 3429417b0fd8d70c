//! Our own open pull request when base moves: rebased in the engine's repository, gated, checked and approved again, and
//! never over people's commits.

use super::stage::{PULL, ShippingStage, UNATTENDED, loop_file, reasons};
use loopwright_testkit::repo::git;
use loopwright_testkit::{CommandRun, TestEnv, TestRepo};
use serde_json::Value;
use std::path::PathBuf;

impl ShippingStage {
    /// A person merges a change of one file into base, and pulls it.
    fn move_base(&self, path: &str, content: &str) -> String {
        self.repo.write(path, content).commit(&format!("change {path}"));
        let head = self.repo.git(["rev-parse", "HEAD"]).trim().to_owned();
        self.repo.git(["push", "-q", "--force", &self.remote().path().display().to_string(), "HEAD:main"]);
        self.remote().refresh();
        head
    }

    /// The rounds that moved a proposal, oldest first.
    fn moves(&self) -> Vec<Value> {
        let rounds = self.run(&["rounds", "--json"]).success().json();
        let mut moves: Vec<Value> = rounds["rounds"].as_array().expect("rounds").clone();
        moves.retain(|round| round["trigger"] == "base-moved");
        moves.reverse();
        moves
    }

    fn head(&self) -> String {
        self.remote().item(1).pull.expect("a pull request").head
    }

    fn parent(&self, commit: &str) -> String {
        git(&self.remote().path(), ["rev-parse", &format!("{commit}^")]).trim().to_owned()
    }
}

#[test]
fn open_pull_request_follows_its_base_after_gates_checker_and_approval() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    stage.approve(&round, 0);
    let first = stage.head();
    let _ = stage.run(&["tick"]).success();
    assert!(stage.moves().is_empty(), "base has not moved");

    let base = stage.move_base("other", "news\n");
    let _ = stage.run(&["tick"]).success();
    let moves = stage.moves();
    let [waiting] = moves.as_slice() else { panic!("{moves:?}") };
    assert_eq!((waiting["outcome"].as_str(), stage.head()), (Some("escalated"), first.clone()), "nothing is sent yet");
    let moved = waiting["round"].as_str().expect("a round").to_owned();
    let _ = stage.run(&["tick"]).success();
    assert_eq!(stage.moves().len(), 1, "the question is open");

    let shipped = stage.approve(&moved, 0);
    assert_eq!(shipped["gates"][0]["status"], "passed", "{shipped}");
    let second = stage.head();
    assert_eq!((stage.parent(&second), stage.open_pulls().len()), (base, 1));
    let tree = git(&stage.remote().path(), ["rev-parse", &format!("{second}^{{tree}}")]);
    assert_eq!(Some(tree.trim()), shipped["tree"].as_str(), "the pushed tree is the tree that passed");
    assert!(stage.remote().item(1).body.expect("a text").contains(&moved));
    let _ = stage.run(&["tick"]).success();
    assert_eq!(stage.moves().len(), 1, "it is on its base");
    let again = stage.run(&["run", "fix", "--json"]).success().json();
    assert!(reasons(&again).contains("already-proposed"), "{again}");

    stage.remote().merge_pull(1);
    let _ = stage.run(&["tick"]).success();
    let shown = stage.run(&["show", "fix", "--json"]).success().json();
    let kinds = &shown["evidence"]["kinds"]["pull-request"];
    assert_eq!((&kinds["approved"], &kinds["merged"], &kinds["edited"]), (&1.into(), &1.into(), &0.into()), "{kinds}");
}

#[test]
fn update_whose_push_arrived_may_have_been_sent_when_a_stop_follows() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    stage.approve(&round, 0);
    let first = stage.head();
    stage.move_base("other", "news\n");
    let _ = stage.run(&["tick"]).success();
    let moved = stage.moves()[0]["round"].as_str().expect("a round").to_owned();
    stage.stop_at_push();
    let kept = stage.approve(&moved, 10);
    assert_ne!(stage.head(), first, "people see the new commit: {kept}");
    assert!(reasons(&kept).contains("the item may have been sent"), "{kept}");
    stage.end_stop();
    let sent = stage.approve(&moved, 0);
    assert_eq!((sent["outbox"][0]["state"].as_str(), stage.open_pulls().len()), (Some("sent"), 1), "{sent}");
    assert!(stage.remote().item(1).body.expect("a text").contains(&moved));
}

#[test]
fn pull_request_to_which_a_person_gave_another_base_is_not_moved() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let _ = stage.run(&["run", "fix"]).success();
    let first = stage.head();
    stage.remote().push_commit("next", "another line of work");
    stage.remote().retarget_pull(1, "next");
    stage.move_base("other", "news\n");
    let _ = stage.run(&["tick"]).success();
    assert_eq!((stage.moves().len(), stage.head()), (0, first));
}

#[test]
fn rebased_change_that_a_gate_rejects_leaves_the_pull_request_as_it_is() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let _ = stage.run(&["run", "fix"]).success();
    let first = stage.head();
    stage.repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer && test -e proof\n");
    stage.move_base("other", "news\n");
    for _ in 0..2 {
        let _ = stage.run(&["tick"]).success();
    }
    let moves = stage.moves();
    assert_eq!(moves.len(), 1, "one try for each base: {moves:?}");
    assert_eq!((moves[0]["outcome"].as_str(), stage.head()), (Some("rejected"), first));
}

#[test]
fn peoples_commits_stay_and_a_conflict_is_an_item_of_the_babysitter() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let _ = stage.run(&["run", "fix"]).success();
    let first = stage.head();
    stage.move_base("answer", "40\n");
    let _ = stage.run(&["tick"]).success();
    assert_eq!((stage.moves().len(), stage.head()), (0, first), "a conflict is not forced");
    let sitter = loop_file("L1", "on: { probe: { use: open-prs, follow_own: true } }\n");
    let sitter = sitter.replace("name: fix", "name: sit").replace("fix.script", "sit.script");
    let sitter =
        sitter.replace("  - { name: tests, run: [./test.sh], red_before: true }\n", "").replace("gates:\n", "");
    stage.repo.write(".loopwright/loops/sit.md", sitter);
    stage.repo.write(
        ".loopwright/sit.script",
        "@ maker\nstage report.md \"I looked.\"\n\n@ checker\nverdict pass correctness=5@answer:1\n",
    );
    stage.repo.commit("a babysitter");
    let ran = stage.run(&["run", "sit", "--json"]).json();
    assert!(ran["items"].to_string().contains("pr-1:conflict@"), "{ran}");

    // A person resolves it; from then on the branch is theirs.
    let branch = stage.remote().item(1).pull.expect("a pull request").head_branch;
    let theirs = stage.remote().push_commit(&branch, "resolved by a person");
    stage.move_base("third", "more news\n");
    let _ = stage.run(&["tick"]).success();
    assert_eq!((stage.moves().len(), stage.head()), (0, theirs));
}

#[test]
fn same_change_on_a_newer_base_is_not_proposed_again_and_another_one_is() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let first = stage.run(&["run", "fix", "--json"]).success().json();
    stage.move_base("other", "news\n");
    let again = stage.run(&["run", "fix", "--json"]).success().json();
    assert_ne!(first["tree"], again["tree"], "the sealed trees differ, the change is the same");
    assert_eq!(again["outcome"], "nothing-to-do", "{again}");
    assert!(reasons(&again).contains("pull request 1 has the same change and is open"), "{again}");
    stage.set_script("another note", "");
    let other = stage.run(&["run", "fix", "--json"]).success().json();
    assert_eq!((other["outcome"].as_str(), stage.open_pulls().len()), (Some("shipped"), 2), "{other}");
}

/// A repository whose loop ships to the local forge.
struct LocalStage {
    env: TestEnv,
    repo: TestRepo,
}

impl LocalStage {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("r");
        repo.write(".loopwright/loops/fix.md", loop_file("L3", UNATTENDED).replace("forge: work\n", ""))
            .write("answer", "41\n");
        let stage = Self { env, repo };
        stage.set_note("one");
        stage.repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").commit("first");
        stage
    }

    /// Two notes are two changes.
    fn set_note(&self, note: &str) {
        let script = format!(
            "@ maker\nreplace answer \"41\" \"42\"\nwrite note \"{note}\"\n\n@ checker\n\
             verdict pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n"
        );
        self.repo.write(".loopwright/fix.script", script);
    }

    fn run(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words)
    }

    /// Runs the loop, and returns its outcome and its reasons.
    fn round(&self) -> (String, String) {
        let ran = self.run(&["run", "fix", "--json"]).success().json();
        (ran["outcome"].as_str().expect("an outcome").to_owned(), reasons(&ran))
    }

    /// The pages of pull requests, by number.
    fn pages(&self) -> Vec<PathBuf> {
        let forge = std::fs::read_dir(self.env.state().join("forge")).expect("a forge").flatten().next();
        let pulls = std::fs::read_dir(forge.expect("of one repository").path().join("pulls")).expect("pages");
        let mut pages: Vec<_> = pulls.flatten().map(|page| page.path()).collect();
        pages.sort_unstable();
        pages
    }

    fn head(&self) -> String {
        let text = std::fs::read_to_string(&self.pages()[0]).expect("a page");
        text.lines().find_map(|line| line.strip_prefix("head: ")).expect("a head").to_owned()
    }
}

#[test]
fn change_that_is_open_on_the_local_forge_is_not_proposed_again() {
    let stage = LocalStage::new();
    assert_eq!(stage.round().0, "shipped");
    let same = "pull request 1 has the same change and is open";
    let (outcome, why) = stage.round();
    assert_eq!(outcome, "nothing-to-do", "{why}");
    assert!(why.contains("already-proposed") && why.contains(same), "{why}");
    stage.repo.write("other", "news\n").commit("base moves");
    let (outcome, why) = stage.round();
    assert!(outcome == "nothing-to-do" && why.contains(same), "{outcome}: {why}");
    assert_eq!(stage.pages().len(), 1);

    stage.set_note("two");
    assert_eq!(stage.round().0, "shipped", "another change");
    assert_eq!(stage.pages().len(), 2);
    let page = &stage.pages()[1];
    let text = std::fs::read_to_string(page).expect("a page");
    std::fs::write(page, text.replace("state: open", "state: closed")).expect("written");
    assert_eq!(stage.round().0, "shipped", "a person closed its pull request");
    assert_eq!(stage.pages().len(), 3);
}

#[test]
fn page_of_the_local_forge_is_updated_and_no_second_one_appears() {
    let stage = LocalStage::new();
    assert_eq!(stage.round().0, "shipped");
    let first = stage.head();
    stage.repo.write("other", "news\n").commit("second");
    let _ = stage.run(&["tick"]).success();
    assert_ne!(stage.head(), first, "the page has the rebased commit");
    assert_eq!(stage.pages().len(), 1);
    let (outcome, why) = stage.round();
    assert_eq!(outcome, "nothing-to-do", "the rebased change is still the same: {why}");
}

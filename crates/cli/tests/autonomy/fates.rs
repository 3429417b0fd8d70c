//! Fates of sent changes that people did not take as they were, and the two demotions that no person's answer causes.

use super::{Stand, set_state, stand};
use serde_json::Value;
use std::path::{Path, PathBuf};

impl Stand {
    /// The repository of the local forge, by the page of a pull request.
    fn forge_repo(page: &Path) -> PathBuf {
        page.parent().and_then(Path::parent).expect("the forge's folder").join("repo.git")
    }

    /// A person squashes the pull request of a round into base, with this content of the changed file.
    fn squash(&self, round: &str, content: &str) {
        let page = self.pull_page(round);
        self.repo.write("a.txt", content).commit("Do one thing (#1)");
        set_state(&page, "merged");
    }

    fn ceiling(&self) -> Value {
        self.json("status", 0)["loops"][0]["ceiling"]["level"].clone()
    }

    fn tick(&self) {
        drop(self.run(&["tick"], 0));
    }
}

#[test]
fn pull_request_that_a_person_closes_counts_as_closed() {
    let stand = stand("L2", "");
    let round = stand.ship();
    set_state(&stand.pull_page(&round), "closed");
    stand.tick();
    let kinds = stand.kinds();
    assert_eq!((&kinds["closed"], &kinds["merged"], &kinds["edited"]), (&1.into(), &0.into(), &0.into()), "{kinds}");
}

#[test]
fn pull_request_that_is_merged_with_a_commit_of_a_person_counts_as_edited() {
    let stand = stand("L2", "");
    let round = stand.ship();
    let (page, branch) = (stand.pull_page(&round), format!("loop/one/{round}"));
    let folder = Stand::forge_repo(&page).to_string_lossy().into_owned();
    stand.repo.git(["fetch", "-q", folder.as_str(), &branch]);
    stand.repo.git(["checkout", "-q", "-b", "finish", "FETCH_HEAD"]);
    stand.repo.write("b.txt", "a person adds a file\n").commit("finish it");
    stand.repo.git(["push", "-q", folder.as_str(), &format!("finish:{branch}")]);
    stand.repo.git(["checkout", "-q", "main"]);
    stand.repo.git(["merge", "-q", "--no-ff", "-m", "merge it", "finish"]);
    set_state(&page, "merged");
    stand.tick();
    let kinds = stand.kinds();
    assert_eq!((&kinds["edited"], &kinds["merged"]), (&1.into(), &0.into()), "{kinds}");
}

#[test]
fn change_that_is_squashed_with_other_content_counts_as_edited() {
    let stand = stand("L2", "");
    let round = stand.ship();
    stand.squash(&round, "one\nanother line\n");
    stand.tick();
    let kinds = stand.kinds();
    assert_eq!((&kinds["edited"], &kinds["merged"]), (&1.into(), &0.into()), "{kinds}");
}

#[test]
fn change_that_is_squashed_as_it_was_counts_as_merged() {
    let stand = stand("L2", "");
    let round = stand.ship();
    stand.squash(&round, &format!("one\n{round}\n"));
    stand.tick();
    let kinds = stand.kinds();
    assert_eq!((&kinds["merged"], &kinds["edited"]), (&1.into(), &0.into()), "{kinds}");
}

#[test]
fn merged_change_whose_content_is_gone_from_base_is_reverted_without_a_word() {
    let stand = stand("L2", "");
    let round = stand.ship();
    stand.merge(&round);
    stand.tick();
    assert_eq!(stand.kinds()["merged"], 1);
    stand.repo.write("a.txt", "one\n").commit("clean up");
    stand.tick();
    assert_eq!(stand.ceiling(), "L1");
    let why = stand.run(&["why", "one"], 0).stdout().to_owned();
    assert!(why.contains("1 merged changes of it were reverted"), "{why}");
}

#[test]
fn unattended_round_over_its_budget_demotes_the_loop() {
    let gates = "gates:\n  - { name: calc, run: [sh, calc.sh, \"1\"] }";
    let stand = stand("L3", &format!("allow: [pull-request]\nbudget: {{ round: {{ tokens: 1000 }} }}\n{gates}"));
    let path = stand.repo.path().join(".loopwright/loops/one.md");
    let file = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(
        &path,
        file.replace("{ use: command, run: [sh, agent.sh] }", "{ use: scripted, script: one.script }"),
    )
    .expect("written");
    stand.repo.write(".loopwright/one.script", "@ maker\nwrite a.txt \"two\"\nusage input=50000\n").commit("spends");
    let spent = stand.json("run one", 12);
    assert_eq!(spent["outcome"], "over-budget", "{spent:#}");
    assert_eq!(stand.ceiling(), "L2");
    let why = stand.run(&["why", "one"], 0).stdout().to_owned();
    assert!(why.contains("demoted to L2 instead of L3: 1 unattended rounds went over their budget"), "{why}");
}

#[test]
fn checker_that_misses_planted_changes_demotes_the_loop() {
    let stand = stand("L2", "allow_paths: [calc.sh]");
    // A checker that looks at nothing.
    let path = stand.repo.path().join("agent.sh");
    let agent = std::fs::read_to_string(&path).expect("the agent").replace("verdict=fail; score=1", "true");
    std::fs::write(path, agent).expect("written");
    stand.repo.commit("a lazy checker");
    let done = stand.json("calibrate one --n 4", 0);
    assert_eq!(done["catch_rate"], serde_json::json!({ "planted": 4, "caught": 0 }), "{done:#}");
    assert_ne!(stand.ceiling(), "L1", "four planted changes are too few");
    stand.json("calibrate one --n 1", 0);
    assert_eq!(stand.ceiling(), "L1");
    let why = stand.run(&["why", "one"], 0).stdout().to_owned();
    assert!(why.contains("its checker caught 0 % of 5 planted changes (at least 80 % are needed)"), "{why}");
}

//! Earned autonomy through the real binary: a loop reports, is promoted, ships, is followed, and is demoted when its
//! work is reverted; debts are shown and paid; planted changes are counted and never leave.
#![allow(clippy::disallowed_methods, reason = "tests start the real binary and git")]

use loopwright_testkit::{CommandRun, TestEnv, TestRepo, wait};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

#[path = "autonomy/fates.rs"]
mod fates;

struct Stand {
    env: TestEnv,
    repo: TestRepo,
}

/// At L1 the maker reports; above it, it adds one line. The checker passes everything except a broken condition.
const AGENT: &str = r#"
if [ "$LOOPWRIGHT_ROLE" = checker ]; then
  verdict=pass; score=5
  if ! grep -q 'x -eq 1' calc.sh || ! grep -q 'echo yes' calc.sh; then verdict=fail; score=1; fi
  cite='[{"path":"a.txt","line":1,"quote":"one"}]'
  scores='[{"dimension":"correctness","score":'$score',"evidence":'$cite'},{"dimension":"scope","score":5,"evidence":'$cite'}]'
  printf '{"nonce":"%s","tree":"%s","candidate":"%s","verdict":"%s","scores":%s}' \
    "$LOOPWRIGHT_NONCE" "$LOOPWRIGHT_TREE" "$LOOPWRIGHT_CANDIDATE" "$verdict" "$scores" > "$LOOPWRIGHT_VERDICT"
  exit 0
fi
echo fine > "$LOOPWRIGHT_OUTBOX/report.md"
[ -w a.txt ] && echo "$LOOPWRIGHT_ROUND" >> a.txt
exit 0
"#;

fn stand(level: &str, more: &str) -> Stand {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    let front = format!(
        "---\nname: one\nintent: Do one thing.\nlevel: {level}\nagents: {{ maker: {{ use: command, run: [sh, agent.sh] }} }}\n\
         output: [report, pull-request]\nrubric: {{ dimensions: {{ correctness: right, scope: asked for }} }}\n{more}\n---\n# Maker\nDo it.\n"
    );
    repo.write(".loopwright/loops/one.md", front).write("agent.sh", AGENT).write("a.txt", "one\n");
    repo.write("calc.sh", "x=$1\nif [ $x -eq 1 ]; then\n  echo yes\nfi\n").commit("first");
    Stand { env, repo }
}

impl Stand {
    fn run(&self, words: &[&str], code: i32) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words).code(code)
    }

    fn json(&self, line: &str, code: i32) -> Value {
        let words: Vec<_> = line.split(' ').chain(["--json"]).collect();
        self.run(&words, code).json()
    }

    /// Runs a round at L2 and approves it; returns the round.
    fn ship(&self) -> String {
        let round = self.json("run one", 10)["round"].as_str().expect("a round").to_owned();
        let shipped = self.json(&format!("approve {round}"), 0);
        assert_eq!(shipped["outcome"], "shipped", "{shipped:#}");
        round
    }

    /// The page of the only pull request of a round on the local forge.
    fn pull_page(&self, round: &str) -> PathBuf {
        let shown = self.json(&format!("show {round}"), 0);
        PathBuf::from(shown["outbox"][0]["receipt"].as_str().expect("a receipt"))
    }

    /// A person merges the pull request of a round: the commit on base, and the state on the forge.
    fn merge(&self, round: &str) {
        let page = self.pull_page(round);
        let folder = page.parent().and_then(std::path::Path::parent).expect("the forge's folder").join("repo.git");
        let (from, branch) = (folder.to_string_lossy().into_owned(), format!("loop/one/{round}"));
        self.repo.git(["fetch", "-q", from.as_str(), &branch]);
        self.repo.git(["merge", "-q", "--no-ff", "-m", "merge it", "FETCH_HEAD"]);
        set_state(&page, "merged");
    }

    fn kinds(&self) -> Value {
        self.json("show one", 0)["evidence"]["kinds"]["pull-request"].clone()
    }
}

fn set_state(page: &std::path::Path, state: &str) {
    let text = std::fs::read_to_string(page).expect("a page");
    let changed =
        text.lines().map(|line| if line.starts_with("state:") { format!("state: {state}") } else { line.into() });
    std::fs::write(page, changed.collect::<Vec<String>>().join("\n") + "\n").expect("written");
}

#[test]
fn loop_earns_l2_ships_and_is_demoted_when_its_work_is_reverted() {
    let stand = stand("L1", "");
    for _ in 0..4 {
        assert_eq!(stand.json("run one", 0)["outcome"], "reported");
    }
    let thin = stand.json("promote one", 0);
    assert_eq!((&thin["to"], &thin["supported"], &thin["recorded"]), (&"L2".into(), &false.into(), &false.into()));
    let refused = stand.json("promote one --yes", 15);
    assert!(refused["error"]["text"].as_str().expect("text").contains("at least 5 reports"), "{refused:#}");
    stand.json("run one", 0);
    let promoted = stand.json("promote one --yes", 0);
    assert_eq!(promoted["changed"], ".loopwright/loops/one.md", "{promoted:#}");
    let file = std::fs::read_to_string(stand.repo.path().join(".loopwright/loops/one.md")).expect("the file");
    assert!(file.contains("\nlevel: L2\n") && !file.contains("level: L1"), "{file}");
    stand.repo.commit("promoted");

    let round = stand.ship();
    assert_eq!(stand.kinds()["approved"], 1);
    drop(stand.run(&["tick"], 0));
    assert_eq!(stand.kinds()["merged"], 0, "it is still open");
    stand.merge(&round);
    for _ in 0..2 {
        drop(stand.run(&["tick"], 0));
        assert_eq!((&stand.kinds()["merged"], &stand.kinds()["reverted"]), (&1.into(), &0.into()), "counted once");
    }
    stand.repo.git(["revert", "--no-edit", "-m", "1", "HEAD"]);
    drop(stand.run(&["tick"], 0));
    assert_eq!(
        (&stand.kinds()["merged"], &stand.json("status", 0)["loops"][0]["ceiling"]["level"]),
        (&Value::Null, &"L1".into())
    );

    let why = stand.run(&["why", "one"], 0).stdout().to_owned();
    assert!(why.contains("demoted to L1 instead of L2: 1 merged changes of it were reverted"), "{why}");
    let inbox = stand.json("inbox", 0);
    assert_eq!(inbox["items"][0]["kind"], "loop-demoted", "{inbox:#}");
    let low = stand.json("run one", 0);
    assert_eq!(
        (&low["outcome"], &low["level"], &low["reasons"][0]["code"]),
        (&"reported".into(), &"L1".into(), &"demoted".into())
    );

    stand.json("promote one --yes", 15);
    let words = ["promote", "one", "--yes", "--despite", "the revert was a mistake", "--json"];
    let lifted = stand.run(&words, 0).json();
    assert_eq!((&lifted["to"], &lifted["despite"]), (&"L2".into(), &"the revert was a mistake".into()));
    assert_eq!(stand.json("inbox", 0)["items"].as_array().map(Vec::len), Some(0), "the note is closed");
    assert_eq!(stand.json("run one", 10)["level"], "L2");
}

#[test]
fn three_denials_in_a_row_demote_and_the_next_round_only_reports() {
    let stand = stand("L2", "");
    for _ in 0..3 {
        let round = stand.json("run one", 10)["round"].as_str().expect("a round").to_owned();
        drop(stand.run(&["deny", &round, "--why", "no"], 0));
    }
    assert_eq!(stand.kinds(), Value::Null, "evidence starts again after a demotion");
    let report = stand.json("run one", 0);
    assert_eq!((&report["outcome"], &report["reasons"][0]["code"]), (&"reported".into(), &"demoted".into()));
    assert!(report["reasons"][0]["text"].as_str().expect("text").contains("3 times in a row"), "{report:#}");
}

#[test]
fn debts_are_in_every_report_and_review_pays_them() {
    let stand = stand("L2", "");
    let round = stand.ship();
    let debts = stand.json(&format!("show {round}"), 0)["debts"].clone();
    assert_eq!(debts["comprehension"]["lines"], 1, "{debts:#}");
    assert_eq!(debts["pay"], serde_json::json!(["loopwright review one --intent", "loopwright review one"]));
    let markdown = stand.run(&["report", &round], 0).stdout().to_owned();
    assert!(markdown.contains("comprehension debt: 1 sent lines of 1 changes"), "{markdown}");

    let shown = stand.json("review", 0);
    assert_eq!((&shown["changes"][0]["round"], &shown["recorded"]), (&round.as_str().into(), &false.into()));
    assert!(shown["changes"][0]["diff"].as_str().expect("a diff").contains(&format!("+{round}")), "{shown:#}");
    stand.json("review one --yes", 0);
    stand.json("review one --intent --yes", 0);
    let line = stand.json("status", 0)["loops"][0]["debts"].clone();
    assert_eq!((&line["comprehension"]["lines"], &line["pay"]), (&0.into(), &serde_json::json!([])), "{line:#}");
    assert_eq!(stand.json("review", 0)["changes"], serde_json::json!([]));

    let path = stand.repo.path().join(".loopwright/loops/one.md");
    let file = std::fs::read_to_string(&path).expect("the file").replace("Do it.", "Do it differently.");
    std::fs::write(path, file).expect("written");
    let line = stand.json("status", 0)["loops"][0]["debts"].clone();
    assert_eq!(line["intent"]["changed"], serde_json::json!(["prompts"]), "{line:#}");
}

#[test]
fn change_that_was_read_before_its_approval_is_no_debt() {
    let stand = stand("L2", "");
    let round = stand.json("run one", 10)["round"].as_str().expect("a round").to_owned();
    drop(stand.run(&["review", &round, "--yes"], 0));
    let shipped = stand.json(&format!("approve {round}"), 0);
    assert_eq!(shipped["debts"]["comprehension"]["lines"], 0, "{shipped:#}");
}

#[test]
fn planted_changes_are_counted_and_nothing_of_them_leaves() {
    let stand = stand("L2", "allow_paths: [calc.sh]");
    let done = stand.json("calibrate one --n 2", 0);
    assert_eq!(done["catch_rate"], serde_json::json!({"planted": 2, "caught": 2}), "{done:#}");
    let round = done["planted"][0]["round"].as_str().expect("a round").to_owned();
    let shown = stand.json(&format!("show {round}"), 0);
    assert_eq!((&shown["outcome"], &shown["outbox"]), (&"reported".into(), &serde_json::json!([])), "{shown:#}");
    drop(stand.run(&["approve", &round], 15));
    assert_eq!(stand.json("inbox", 0)["items"], serde_json::json!([]));
    let page = stand.json("show one", 0);
    assert_eq!(page["evidence"]["checkers"][0]["caught"], 2, "{page:#}");
    assert_eq!(page["runs"], 0, "a calibration is not a run of the loop");
}

#[test]
fn calibration_leaves_the_memory_of_the_loop_as_it_was() {
    let stand = stand("L2", "allow_paths: [calc.sh]\nattempts: 1");
    // The maker adds no file that is allowed, so its round fails, and the loop remembers that.
    stand.json("run one", 11);
    let before = stand.json("show one", 0);
    assert_ne!(before["memory"], serde_json::json!([]), "{before:#}");
    stand.json("calibrate one --n 2", 0);
    assert_eq!(stand.json("show one", 0)["memory"], before["memory"]);
}

impl Stand {
    /// The number of planted changes of the loop after one pass of the scheduler.
    fn planted_after_tick(&self) -> u64 {
        drop(self.run(&["tick"], 0));
        self.json("show one", 0)["evidence"]["checkers"][0]["planted"].as_u64().unwrap_or(0)
    }
}

#[test]
fn cadence_of_calibration_plants_one_change_in_each_span_and_none_while_the_loop_is_paused() {
    let stand = stand("L2", "allow_paths: [calc.sh]\ncalibrate: 7d");
    drop(stand.run(&["pause", "one"], 0));
    assert_eq!(stand.planted_after_tick(), 0, "a paused loop is left out");
    drop(stand.run(&["resume", "one"], 0));
    let passes: Vec<u64> = (0..3).map(|_| stand.planted_after_tick()).collect();
    assert_eq!(passes, [1, 1, 1], "one change in seven days");
    let rounds = stand.json("rounds", 0);
    let all = rounds["rounds"].as_array().expect("rounds");
    assert_eq!((all.len(), &all[0]["outcome"]), (1, &"reported".into()), "{rounds:#}");
    assert_eq!(stand.json("inbox", 0)["items"], serde_json::json!([]));

    let path = stand.repo.path().join(".loopwright/loops/one.md");
    let file = std::fs::read_to_string(&path).expect("the file").replace("calibrate: 7d", "calibrate: 1s");
    std::fs::write(path, file).expect("written");
    stand.repo.commit("a shorter span");
    wait::until("the next span begins", Duration::from_secs(60), || stand.planted_after_tick() > 1);
}

#[test]
fn demotion_starts_from_the_level_of_the_latest_round() {
    let gates = "gates:\n  - { name: calc, run: [sh, calc.sh, \"1\"] }";
    let stand = stand("L3", &format!("allow: [pull-request]\n{gates}"));
    let shipped = stand.json("run one", 0);
    let round = shipped["round"].as_str().expect("a round").to_owned();
    stand.merge(&round);
    let path = stand.repo.path().join(".loopwright/loops/one.md");
    let file = std::fs::read_to_string(&path).expect("the file").replace("level: L3", "level: L2");
    std::fs::write(path, file).expect("written");
    stand.repo.commit("a person lowers the level");
    stand.json("run one", 10);
    stand.repo.git(["revert", "--no-edit", "-m", "1", "HEAD~1"]);
    drop(stand.run(&["tick"], 0));
    let status = stand.json("status", 0);
    assert_eq!(status["loops"][0]["ceiling"]["level"], "L1", "{status:#}");
}

#[test]
fn without_a_confirmation_a_loop_reports_only_if_promotion_is_required() {
    let stand = stand("L2", "");
    let config = stand.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("created");
    std::fs::write(config, "require_promotion: true\n").expect("written");
    let low = stand.json("run one", 0);
    assert_eq!((&low["outcome"], &low["reasons"][0]["code"]), (&"reported".into(), &"not-promoted".into()), "{low:#}");
    drop(stand.run(&["promote", "one", "--to", "L2", "--yes", "--despite", "I wrote it"], 0));
    assert_eq!(stand.json("run one", 10)["level"], "L2");
    let path = stand.repo.path().join(".loopwright/loops/one.md");
    let file = std::fs::read_to_string(&path).expect("the file").replace("Do it.", "Do more.");
    std::fs::write(path, file).expect("written");
    assert_eq!(
        stand.json("run one", 0)["reasons"][0]["code"],
        "not-promoted",
        "a changed loop needs a new confirmation"
    );
}

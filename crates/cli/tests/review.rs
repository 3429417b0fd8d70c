//! Cases found by a hostile review of the deciding and shipping code, through the real binary: text that is too large
//! to be recorded, changes that would slip past a checker or a person, and effects of one bad round on the others.
#![allow(clippy::disallowed_methods, reason = "tests start, kill and look at the real binary")]

use loopwright_testkit::{CommandRun, TestEnv, TestRepo};
use serde_json::Value;
use std::path::Path;

struct Stand {
    env: TestEnv,
    repo: TestRepo,
}

/// A loop whose maker and checker are one committed shell script.
fn stand(front: &str, script: &str) -> Stand {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    repo.write(".loopwright/loops/one.md", front_matter("one", front, "{ use: command, run: [sh, agent.sh] }"));
    repo.write("agent.sh", script).write("a.txt", "one\n").commit("first");
    Stand { env, repo }
}

/// The same with the scripted agent.
fn scripted(front: &str, script: &str) -> Stand {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    repo.write(".loopwright/loops/one.md", front_matter("one", front, "{ use: scripted, script: one.script }"));
    repo.write(".loopwright/one.script", script).write("a.txt", "one\n").commit("first");
    Stand { env, repo }
}

fn front_matter(name: &str, front: &str, agent: &str) -> String {
    format!("---\nname: {name}\nintent: Do one thing.\nagents: {{ maker: {agent} }}\n{front}\n---\n# Maker\nDo it.\n")
}

impl Stand {
    fn run(&self, words: &[&str], code: i32) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words).code(code)
    }

    /// Runs the loop and returns its report; asserts that the outcome matches the exit code.
    fn round(&self, outcome: &str, code: i32) -> Value {
        let report = self.run(&["run", "one", "--json"], code).json();
        assert_eq!(report["outcome"], outcome, "{report:#}");
        report
    }
}

const PASS: &str = r#"
if [ "$LOOPWRIGHT_ROLE" = checker ]; then
  cite='[{"dimension":"correctness","score":5,"evidence":[{"path":"a.txt","line":1,"quote":"one"}]},
    {"dimension":"scope","score":5,"evidence":[{"path":"a.txt","line":1,"quote":"one"}]}]'
  printf '{"nonce":"%s","tree":"%s","candidate":"%s","verdict":"pass","scores":%s}' \
    "$LOOPWRIGHT_NONCE" "$LOOPWRIGHT_TREE" "$LOOPWRIGHT_CANDIDATE" "$cite" > "$LOOPWRIGHT_VERDICT"
  exit 0
fi
"#;

fn text(report: &Value) -> String {
    report["reasons"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|reason| format!("{} {}\n", reason["code"], reason["text"]))
        .collect()
}

#[test]
fn staged_text_that_grows_when_recorded_is_refused_and_the_round_ends() {
    let script = r#"
for n in 1 2 3 4; do head -c 60000 /dev/zero | tr '\0' '\001' > "$LOOPWRIGHT_OUTBOX/0$n-issue-comment-$n.md"; echo $n >> "$LOOPWRIGHT_OUTBOX/0$n-issue-comment-$n.md"; done
"#;
    let stand = stand("check: none", script);
    stand.round("refused", 15);
}

#[test]
fn thousands_of_pipes_are_a_refused_round_and_not_an_unrecordable_one() {
    let name = "p".repeat(180);
    let script = format!("i=0; while [ $i -lt 6000 ]; do echo {name}$i; i=$((i+1)); done | xargs mkfifo\n");
    let stand = stand("level: L2\noutput: [pull-request]", &script);
    let report = stand.round("refused", 15);
    assert!(text(&report).contains("path-refused"), "{report:#}");
}

#[test]
fn thousands_of_long_paths_are_recorded_as_many_as_fit() {
    let dir = format!("{}/{}/{}", "d".repeat(200), "e".repeat(200), "f".repeat(200));
    let script = format!(
        "mkdir -p {dir}; cd {dir}; i=0; while [ $i -lt 900 ]; do echo {}$i; i=$((i+1)); done | xargs touch\n",
        "x".repeat(200)
    );
    let front = "level: L2\noutput: [pull-request]\nattempts: 1\nallow_paths: [\"src/**\"]";
    let stand = stand(front, &script);
    let report = stand.round("rejected", 11);
    assert!(text(&report).contains("outside-paths"), "{report:#}");
}

#[test]
fn implausible_usage_ends_the_round_over_budget_and_is_recorded() {
    let stand = scripted("check: none", "@ maker\nusage input=9000000000000000000\nsay done\nstage report.md \"x\"\n");
    stand.round("over-budget", 12);
}

#[test]
fn l1_maker_that_fails_with_words_is_failed_and_not_a_report() {
    let stand = stand("check: none", "echo error: not logged in; exit 3\n");
    let report = stand.round("failed", 1);
    assert_eq!(report["attempts"], 1, "{report:#}");
}

#[test]
fn secret_in_a_report_is_printed_nowhere() {
    let key = format!("AKIA{}", "Z7QW3ERTYUIOPASD");
    let script = format!("echo 'the key is {key}' > \"$LOOPWRIGHT_OUTBOX/report.md\"\n");
    let stand = stand("check: none", &script);
    let report = stand.round("refused", 15);
    assert!(!report.to_string().contains(&key), "{report:#}");
    let round = report["round"].as_str().expect("a round").to_owned();
    for words in [["report", &round], ["show", &round], ["why", &round]] {
        let shown = stand.run(&words, 0);
        assert!(!shown.stdout().contains(&key) && !shown.stderr().contains(&key), "{words:?}: {}", shown.stdout());
    }
    let file = std::fs::read_to_string(report["report"].as_str().expect("a path")).expect("the report is there");
    assert!(!file.contains(&key), "{file}");
}

#[test]
fn dry_run_leaves_its_item_to_the_real_run() {
    let front = "check: none\non: { probe: { run: [sh, -c, \"echo item-1\"], items: lines } }";
    let stand = stand(front, "echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"\n");
    let dry = stand.run(&["run", "one", "--dry-run", "--json"], 0).json();
    assert_eq!((&dry["outcome"], &dry["item"]), (&"reported".into(), &"item-1".into()), "{dry:#}");
    let real = stand.round("reported", 0);
    assert_eq!(real["item"], "item-1", "{real:#}");
    stand.round("nothing-to-do", 0);
}

#[test]
fn checker_is_given_every_item_of_a_list_whole() {
    let maker = r#"
cat > "$LOOPWRIGHT_OUTBOX/outbox.json" <<END
[{"kind":"issue-comment","target":7,"body":"first body"},
 {"kind":"issue-comment","target":8,"body":"second body"},
 {"kind":"issue-create","title":"a title to judge","body":"third body","labels":["hot"]},
 {"kind":"issue-label","target":7,"labels":["wontfix"]},
 {"kind":"pr-inline","target":9,"comments":[{"path":"a.txt","line":1,"body":"inline words"}]}]
END
"#;
    let checker = r#"
if [ "$LOOPWRIGHT_ROLE" = checker ]; then cat > "$HOME/prompt"
  for word in "first body" "second body" "third body" "a title to judge" wontfix "inline words" hot; do
    grep -rqF "$word" "$LOOPWRIGHT_ITEMS" || { echo "no file says $word" >&2; exit 7; }
    grep -qF "$word" "$HOME/prompt" || { echo "the brief does not say $word" >&2; exit 8; }
  done
fi
"#;
    let front = "level: L2\noutput: [issue-comment: {max: 2}, issue-create, issue-label, pr-inline]";
    stand(front, &format!("{checker}{PASS}{maker}")).round("escalated", 10);
}

#[test]
fn staged_name_that_is_no_text_refuses_the_batch() {
    let script = "cd \"$LOOPWRIGHT_OUTBOX\"; : > \"$(printf 'a\\377.md')\"; ls | head -1\n";
    stand("check: none", script).round("refused", 15);
}

#[test]
fn outbox_folder_that_was_replaced_refuses_the_batch() {
    for script in ["rm -r \"$LOOPWRIGHT_OUTBOX\"", "rm -r \"$LOOPWRIGHT_OUTBOX\"; ln -s /etc \"$LOOPWRIGHT_OUTBOX\""] {
        stand("check: none\nsandbox: off", script).round("refused", 15);
    }
    // In the sandbox the folder is a mount, which no process inside can remove.
    let kept = stand("check: none", "rm -r \"$LOOPWRIGHT_OUTBOX\"; echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"");
    kept.round("reported", 0);
}

#[test]
fn waiting_and_interrupted_rounds_of_a_vanished_repository_block_no_other_round() {
    let waits = format!("{PASS}\necho hello > \"$LOOPWRIGHT_OUTBOX/issue-comment-7.md\"\n");
    let stand = stand("level: L2\noutput: [issue-comment]", &waits);
    let waiting = stand.round("escalated", 10)["round"].as_str().expect("a round").to_owned();
    interrupt(&stand.env, stand.repo.path());
    std::fs::rename(stand.repo.path(), stand.env.root().join("moved")).expect("the repository moves");
    let other = stand.env.repo("other");
    other
        .write(".loopwright/loops/two.md", front_matter("two", "check: none", "{ use: command, run: [sh, agent.sh] }"));
    other.write("agent.sh", "echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"\n").commit("first");
    drop(stand.env.loopwright_in(other.path(), ["run", "two"]).code(0));
    let approved = stand.env.loopwright_in(other.path(), ["approve", &waiting, "--json"]).code(0).json();
    assert_eq!(approved["outcome"], "shipped", "{approved:#}");
    // Outside of any repository, `rounds` shows all rounds.
    let open = stand.env.loopwright_in(stand.env.root(), ["rounds", "--json"]).code(0).json();
    let text = open.to_string();
    assert!(text.contains("interrupted") && !text.contains("\"outcome\":null"), "{open:#}");
}

/// Starts the loop `hang` of a repository and kills the engine while its maker runs.
fn interrupt(env: &TestEnv, repo: &Path) {
    let file = repo.join(".loopwright/loops/hang.md");
    let script = "touch $TMPDIR/started; while :; do sleep 1; done";
    let agent = format!("{{ use: command, run: [sh, -c, \"{script}\"] }}");
    std::fs::write(file, front_matter("hang", "check: none", &agent)).expect("a loop file");
    let mut child =
        env.command(repo).args(["run", "hang"]).stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let workspaces = env.state().join("workspaces");
    let started = |_: &()| {
        let rounds = std::fs::read_dir(&workspaces)
            .ok()?
            .flatten()
            .flat_map(|repo| std::fs::read_dir(repo.path().join("rounds")).ok());
        rounds.flatten().flatten().find(|round| round.path().join("tmp/started").exists()).map(drop)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while started(&()).is_none() {
        assert!(std::time::Instant::now() < deadline, "the maker starts");
        std::thread::yield_now();
    }
    child.kill().expect("the engine dies");
    child.wait().expect("it is gone");
}

#[test]
fn agent_that_this_build_cannot_drive_costs_nothing() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("GEMINI_API_KEY", "a-key-of-no-account");
    let repo = env.repo("r");
    repo.write(".loopwright/loops/one.md", front_matter("one", "check: none", "{ use: gemini }")).commit("first");
    let stand = Stand { env, repo };
    let report = stand.round("failed", 1);
    assert_eq!((&report["spend"]["usd"], &report["spend"]["known"]), (&0.0.into(), &true.into()), "{report:#}");
}

#[test]
fn wall_time_used_up_by_gates_is_over_budget() {
    let front = "level: L2\noutput: [pull-request]\nbudget: { round: { wall: 2s } }\ngates: [{ name: slow, run: [sh, slow.sh] }]";
    let stand = stand(front, &format!("{PASS}\necho two >> a.txt\n"));
    stand.repo.write("slow.sh", "sleep 3; grep -q two a.txt\n").commit("a gate");
    stand.round("over-budget", 12);
}

#[test]
fn probe_that_says_more_than_is_kept_fails_instead_of_inventing_an_item() {
    let front = "check: none\non: { probe: { run: [sh, probe.sh], items: lines } }";
    let stand = stand(front, "echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"\n");
    stand
        .repo
        .write("probe.sh", "i=0; while [ $i -lt 900 ]; do printf '%0199d\\n' $i; i=$((i+1)); done\n")
        .commit("a probe");
    stand.round("failed", 1);
}

#[test]
fn request_text_that_base_has_already_is_nothing_staged() {
    let stand = stand("check: none", "echo nothing to say >&2\n");
    stand.repo.write("PR_BODY.md", "An old title\n\nOld words.\n").commit("left over");
    stand.round("empty", 11);
}

#[test]
fn money_ceiling_ends_the_maker_while_it_runs() {
    let front = "check: none\nattempts: 1\nbudget: { round: { usd: 0.01, tokens: 400k } }";
    let stand = scripted(front, "@ maker\nusage input=1000 output=0\nusage input=1000 output=1000\nhang\n");
    let report = stand.round("over-budget", 12);
    assert!(text(&report).contains("money"), "{report:#}");
}

#[test]
fn implausible_budget_runs_and_leaves_no_round_that_cannot_end() {
    let front = "check: none\nbudget: { round: { tokens: 99999999999m } }";
    stand(front, "echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"\n").round("reported", 0);
}

#[test]
fn link_in_the_place_of_agent_settings_waits_for_a_person() {
    let front =
        "level: L3\nallow: [pull-request]\noutput: [pull-request]\ngates: [{ name: grown, run: [sh, grown.sh] }]";
    let script = "@ maker\nwrite cfg/settings.json \"{}\"\nappend a.txt two\nsymlink .claude cfg\n\n@ checker\n\
        verdict pass correctness=5@a.txt:1 scope=5@gate:grown tests=4@gate:grown\n";
    let stand = scripted(front, script);
    stand.repo.write("grown.sh", "grep -q two a.txt\n").commit("a gate");
    let report = stand.round("escalated", 10);
    assert!(text(&report).contains("sensitive"), "{report:#}");
}

#[test]
fn item_that_failed_three_times_asks_once_and_its_later_success_answers() {
    let front = "check: none\non: { probe: { run: [sh, -c, \"echo k1\"], items: lines } }";
    let stand = stand(front, "exit 3\n");
    let open = |stand: &Stand| stand.run(&["inbox", "--json"], 0).json()["items"].as_array().map_or(0, Vec::len);
    (0..3).for_each(|_| drop(stand.round("failed", 1)));
    assert_eq!(open(&stand), 1);
    stand.round("nothing-to-do", 0);
    drop(stand.run(&["run", "one", "--item", "k1"], 1));
    assert_eq!(open(&stand), 1);
    stand.repo.write("agent.sh", "echo fine > \"$LOOPWRIGHT_OUTBOX/report.md\"\n").commit("mended");
    drop(stand.run(&["run", "one", "--item", "k1"], 0));
    assert_eq!(open(&stand), 0);
}

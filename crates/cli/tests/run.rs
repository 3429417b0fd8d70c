//! `run`: rounds of scripted loops through the real binary, their exit codes and their output.

use expect_test::{Expect, expect};
use loopwright_testkit::{TestEnv, TestRepo};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};

const LOOK: &str = "name: look\nintent: Look around.\nagents: { maker: { use: scripted, script: look.script } }\nprompts: { maker: Look. }\n";
const LOOK_SCRIPT: &str = "@ maker\nsay I looked around\nbytes 1b5b324a7265636f72640a\nstage report.md \"All is well.\"\n\n@ checker\n\
    verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n";
const FIX: &str = "\
---
name: fix
intent: Make the answer right.
level: L2
agents: { maker: { use: scripted, script: fix.script } }
gates:
  - { name: tests, run: [./test.sh], red_before: true }
output: [pull-request]
---
# Maker
Fix the answer.
";
const FIX_SCRIPT: &str = "@ maker\nsay I will fix it\nreplace answer \"41\" \"42\"\nstage pull-request.md \"Fix the answer\\n\\nIt was wrong.\"\n\
    usage input=100 output=20\n\n@ checker\nverdict pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n";

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
        .with_redaction(r"\br[0-9a-hjkmnp-tv-z]{10}\b", "[round]")
        .with_redaction(r"id=[0-9a-f]{32}", "id=[id]")
        .with_redaction(r"(workspace at|tree) [0-9a-f]{12}", "${1} [short]")
}

fn repo(env: &TestEnv) -> TestRepo {
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.yaml", LOOK).write(".loopwright/look.script", LOOK_SCRIPT);
    repo.write(".loopwright/loops/fix.md", FIX).write(".loopwright/fix.script", FIX_SCRIPT);
    repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").write("answer", "41\n");
    repo.commit("first");
    repo
}

fn check(env: &TestEnv, words: &[&str], code: i32, expected: &Expect) {
    let ran = env.loopwright_in(&env.root().join("r"), words).code(code);
    expected.assert_eq(&ran.transcript());
}

#[test]
fn l1_round_reports_and_ends_with_zero() {
    let env = env();
    let repo = repo(&env);
    let before = repo.tree_digest();
    check(
        &env,
        &["run", "look"],
        0,
        &expect![[r#"
        $ loopwright run look
        look reported ([round])
          gate: gates: none; the checker alone decides
          approve: only the report leaves
          report: $ROOT/state/reports/[round].md
          next: loopwright report [round]
        [stderr]
        round    [round] of look at L1
        isolate  workspace at [short]
        make     attempt 1 with scripted
                 maker | I looked around
                 maker | [2Jrecord
        seal     0 files changed, tree [short]
        gate     0 gates on the sealed tree
        check    fresh checker with scripted
        record   reported
        [exit 0]
    "#]],
    );
    before.assert_untouched(&repo.tree_digest());
}

#[test]
fn l2_round_with_a_good_change_waits_for_a_human_with_ten() {
    let env = env();
    let repo = repo(&env);
    let before = repo.tree_digest();
    check(
        &env,
        &["run", "fix"],
        10,
        &expect![[r#"
        $ loopwright run fix
        fix escalated ([round])
          approve: at L2 every outward action waits for a human
          pull-request waiting
          report: $ROOT/state/reports/[round].md
          next: loopwright show [round]
          next: loopwright approve [round], or loopwright deny [round] --why "…"
        [stderr]
        round    [round] of fix at L2
        isolate  workspace at [short]
        isolate  gates on base
        make     attempt 1 with scripted
                 maker | I will fix it
        seal     1 file changed, tree [short]
        gate     1 gate on the sealed tree
                 ✓ passed tests, [duration]
        check    fresh checker with scripted
        record   escalated
        [exit 10]
    "#]],
    );
    before.assert_untouched(&repo.tree_digest());
}

#[test]
fn json_of_a_round_is_the_whole_answer() {
    let env = env();
    let repo = repo(&env);
    let ran = env.loopwright_in(repo.path(), ["run", "look", "--json"]).success();
    let json = ran.json();
    assert_eq!((&json["outcome"], &json["exit"], &json["loop"]), (&"reported".into(), &0.into(), &"look".into()));
    assert_eq!(
        (&json["actor"], &json["boundary"]["level"]),
        (&loopwright_testkit::user::name().into(), &"kernel".into())
    );
    assert_eq!(ran.stderr(), "");
    assert!(json["report"].as_str().is_some_and(|path| std::path::Path::new(path).is_file()), "{json}");
}

#[test]
fn dry_run_prints_what_would_be_sent_and_sends_nothing() {
    let env = env();
    let repo = repo(&env);
    check(
        &env,
        &["run", "fix", "--dry-run"],
        0,
        &expect![[r#"
            $ loopwright run fix --dry-run
            would send pull-request (draft)
              title: Fix the answer
              branch: loop/fix/[round]
              | | fact | value |
              | |---|---|
              | | loop | fix |
              | | round | [round] |
              | | intent | Make the answer right. |
              | | files changed | 1 |
              | | gates | tests passed |
              | | approved by | not approved yet |
              | | boundary | kernel |
              | | cost | 0.01 USD |
              |
              | In the agent's words:
              |
              | > It was wrong.
              |
              | _Loopwright: loop `fix`, round `[round]`, cost 0.01 USD_
              |
              | <!-- loopwright: loop=fix round=[round] item=1 id=[id] -->
            fix reported ([round])
              approve: a dry run sends nothing
              pull-request staged
              report: $ROOT/state/reports/[round].md
              next: loopwright report [round]
            [stderr]
            round    [round] of fix at L2
            isolate  workspace at [short]
            isolate  gates on base
            make     attempt 1 with scripted
                     maker | I will fix it
            seal     1 file changed, tree [short]
            gate     1 gate on the sealed tree
                     ✓ passed tests, [duration]
            check    fresh checker with scripted
            record   reported
            [exit 0]
        "#]],
    );
    let json = env.loopwright_in(repo.path(), ["run", "fix", "--dry-run", "--json"]).success().json();
    assert_eq!(json["would_send"][0]["kind"], "pull-request", "{json}");
    assert_eq!(json["would_send"][0]["title"], "Fix the answer", "{json}");
    let forges = env.state().join("forge");
    let pulls = std::fs::read_dir(&forges).into_iter().flatten().flatten().map(|entry| entry.path().join("pulls"));
    assert!(pulls.into_iter().all(|folder| std::fs::read_dir(folder).map_or(0, Iterator::count) == 0));
}

#[test]
fn agent_that_is_not_on_this_machine_fails_the_round_and_says_so() {
    let env = env().with_env("ANTHROPIC_API_KEY", "a-key-of-no-account");
    let repo = repo(&env);
    repo.write(
        ".loopwright/loops/claude.yaml",
        "name: claude\nintent: x\nagents: { maker: { use: claude } }\nprompts: { maker: x }\n",
    );
    let json = env.loopwright_in(repo.path(), ["run", "claude", "--json"]).code(1).json();
    assert_eq!(json["outcome"], "failed");
    assert!(json["reasons"].to_string().contains("agent program `claude` not found"), "{json}");
}

#[test]
fn configured_agent_plays_where_the_loop_names_none() {
    let env = env();
    let repo = repo(&env);
    repo.write(".loopwright/loops/bare.yaml", "name: bare\nintent: Look.\nprompts: { maker: Look. }\n");
    repo.write(".loopwright/config.yaml", "agents: { maker: { use: scripted, script: look.script } }\n");
    assert_eq!(env.loopwright_in(repo.path(), ["run", "bare", "--json"]).success().json()["outcome"], "reported");
}

#[test]
fn forge_that_is_not_configured_is_a_configuration_error_of_run_and_check() {
    let env = env();
    let repo = repo(&env);
    repo.write(".loopwright/loops/look.yaml", format!("{LOOK}forge: github\n"));
    let json = env.loopwright_in(repo.path(), ["run", "look", "--json"]).code(2).json();
    assert!(json["error"]["text"].to_string().contains("forge `github` is not configured"), "{json}");
    let check = env.loopwright_in(repo.path(), ["check", "look", "--json"]).code(2).json();
    assert!(check["problems"].to_string().contains("forge `github` is not configured"), "{check}");
    assert!(check["problems"].to_string().contains("forges: { github: { token_env: GITHUB_TOKEN } }"), "{check}");
}

#[test]
fn silent_log_shows_the_answer_only_and_a_wrong_word_is_refused() {
    let quiet = env().with_env("LOOPWRIGHT_LOG", "off");
    let repo = repo(&quiet);
    assert_eq!(quiet.loopwright_in(repo.path(), ["run", "look"]).success().stderr(), "");
    let wrong = env().with_env("LOOPWRIGHT_LOG", "loud");
    let _ = wrong.loopwright_in(repo.path(), ["run", "look"]).code(2);
}

/// A round whose maker reports that it has started and then does nothing until it is killed.
struct Hanging {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Hanging {
    fn start(env: &TestEnv, repo: &TestRepo) -> Self {
        Self::playing(env, repo, "@ maker\nsay ready\nhang\n")
    }

    fn playing(env: &TestEnv, repo: &TestRepo, script: &str) -> Self {
        repo.write(".loopwright/loops/hang.yaml", LOOK.replace("look", "hang"));
        repo.write(".loopwright/hang.script", script);
        let mut command = env.command(repo.path());
        let started = command.args(["run", "hang"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("it was piped"));
        let mut hanging = Self { child, stderr };
        hanging.wait_for("maker | ready");
        hanging
    }

    /// Reads until a line contains the text; the end of the stream fails the test.
    fn wait_for(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).expect("text"), 0, "it ended before `{words}`");
        }
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let _ = TestEnv::new("/bin/sh").loopwright(["-c", &kill]).success();
    }

    fn end(mut self) -> Option<i32> {
        // Read to the end first, so that the program never blocks on its output.
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn interrupted_round_ends_as_interrupted_with_130() {
    let env = env();
    let repo = repo(&env);
    for signal in ["INT", "TERM"] {
        let hanging = Hanging::start(&env, &repo);
        hanging.signal(signal);
        assert_eq!(hanging.end(), Some(130), "{signal}");
    }
    // The interrupted round is at rest: the next command recovers nothing.
    assert!(!env.loopwright_in(repo.path(), ["run", "look"]).success().stderr().contains("recovered"));
}

#[test]
fn second_signal_ends_everything_at_once() {
    let env = env();
    let repo = repo(&env);
    // The maker ignores the request to end, so that the first signal alone would take a while.
    let mut hanging = Hanging::playing(&env, &repo, "@ maker\nignore-term\nsay ready\nhang\n");
    hanging.signal("INT");
    hanging.wait_for("interrupt again to end everything");
    hanging.signal("INT");
    assert_eq!(hanging.end(), Some(130));
    // The round did not finish: the next command recovers it.
    assert!(env.loopwright_in(repo.path(), ["run", "look"]).success().stderr().contains("recovered"));
}

#[test]
fn other_commands_work_beside_a_foreground_round_and_a_second_one_of_the_loop_names_it() {
    let env = env();
    let repo = repo(&env);
    let waiting = env.loopwright_in(repo.path(), ["run", "fix", "--json"]).code(10).json();
    let waiting = waiting["round"].as_str().expect("a round").to_owned();
    let hanging = Hanging::start(&env, &repo);
    let pid = hanging.child.id();
    // The same loop is refused, and the message names the round and the process that run it.
    let json = env.loopwright_in(repo.path(), ["run", "hang", "--json"]).code(1).json();
    let text = json["error"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("loop `hang` is busy: round r") && text.contains(&format!("process {pid} on")), "{text}");
    // Everything else works: another loop, an answer, another repository, and commands that free resources.
    let _ = env.loopwright_in(repo.path(), ["run", "look"]).success();
    let _ = env.loopwright_in(repo.path(), ["approve", &waiting]).success();
    let other = env.repo("other");
    other.write(".loopwright/loops/look.yaml", LOOK).write(".loopwright/look.script", LOOK_SCRIPT).commit("first");
    let _ = env.loopwright_in(other.path(), ["run", "look"]).success();
    let _ = env.loopwright_in(repo.path(), ["gc"]).success();
    let status = env.loopwright_in(repo.path(), ["status", "--json"]).success().json();
    let mut loops = status["loops"].as_array().expect("loops").iter();
    assert_eq!(loops.find(|line| line["loop"] == "hang").expect("the loop")["status"], "running");
    // None of these commands touched it, and it ends as it would have alone.
    hanging.signal("INT");
    assert_eq!(hanging.end(), Some(130));
    let _ = env.loopwright_in(repo.path(), ["verify"]).success();
}

#[test]
fn round_of_a_killed_engine_is_recovered_by_the_next_command() {
    let env = env();
    let repo = repo(&env);
    let hanging = Hanging::start(&env, &repo);
    hanging.signal("KILL");
    assert_eq!(hanging.end(), None);
    // Its script was deleted meanwhile: that can fail the round, but never the command.
    repo.remove(".loopwright/hang.script");
    let next = env.loopwright_in(repo.path(), ["run", "look"]).success();
    let recovered = next.stderr().lines().filter(|line| line.starts_with("recovered")).count();
    assert_eq!(recovered, 1, "{}", next.transcript());
    assert!(!env.loopwright_in(repo.path(), ["run", "look"]).success().stderr().contains("recovered"));
}

#[test]
fn round_whose_repository_has_gone_does_not_keep_others_from_working() {
    let env = env();
    let repo = repo(&env);
    let hanging = Hanging::start(&env, &repo);
    hanging.signal("KILL");
    assert_eq!(hanging.end(), None);
    std::fs::rename(repo.path(), env.root().join("gone")).expect("a folder can be moved");
    let other = env.repo("other");
    other.write(".loopwright/loops/look.yaml", LOOK).write(".loopwright/look.script", LOOK_SCRIPT).commit("first");
    let next = env.loopwright_in(other.path(), ["run", "look"]).success();
    assert!(next.stderr().contains(" of hang: interrupted"), "{}", next.transcript());
}

#[test]
fn last_result_line_of_a_maker_is_shown_as_a_claim_and_decides_nothing() {
    let env = env();
    let repo = repo(&env);
    repo.write(
        ".loopwright/fix.script",
        "@ maker\nsay RESULT: NOTHING yet\nreplace answer \"41\" \"43\"\nsay RESULT: DONE items=pr-1,pr-2\n",
    );
    let loop_file = FIX.replace("level: L2\n", "level: L2\nattempts: 1\n");
    repo.write(".loopwright/loops/fix.md", loop_file).commit("a maker that claims success");
    let claim = "the maker claims, unchecked: RESULT: DONE items=pr-1,pr-2";
    let ran = env.loopwright_in(repo.path(), ["run", "fix", "--json"]).code(11).json();
    assert_eq!(ran["outcome"], "rejected", "the gate decides: {ran:#}");
    assert!(ran["notes"].to_string().contains(claim), "{ran:#}");
    assert!(!ran.to_string().contains("unchecked: RESULT: NOTHING"), "{ran:#}");
    let round = ran["round"].as_str().expect("a round");
    let page = env.loopwright_in(repo.path(), ["report", round]).success().stdout();
    assert!(page.contains(claim), "{page}");
}

#[test]
fn a_hard_link_without_a_sandbox_is_refused_because_its_other_name_may_be_any_file() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("project");
    let outside = repo.path().with_file_name("outside.txt");
    std::fs::write(&outside, "a secret of the machine\n").expect("the file can be written");
    repo.write(
        ".loopwright/loops/open.md",
        "---\nname: open\nintent: x\nlevel: L2\nsandbox: off\noutput: [pull-request]\n\
         agents: { maker: { use: scripted, script: s.script } }\n---\n# Maker\nDo it.\n",
    );
    let script = |line: &str| format!("@ maker\n{line}\n\n@ checker\nverdict pass correctness=5@new.txt:1\n");
    for line in ["hardlink new.txt OUTSIDE", "delete known.txt\nhardlink known.txt OUTSIDE"] {
        let line = line.replace("OUTSIDE", outside.to_str().expect("text"));
        repo.write("known.txt", "a\n").write(".loopwright/s.script", script(&line)).commit("a script");
        let round = env.loopwright_in(repo.path(), ["run", "open", "--json"]).code(15).json();
        assert!(round["reasons"].to_string().contains("a hard link"), "{round}");
    }
}

#[test]
fn round_that_repeats_a_candidate_shows_the_output_of_its_gates() {
    let env = env();
    let repo = repo(&env);
    repo.write(".loopwright/fix.script", "@ maker\nwrite answer \"40\\n\"\n");
    repo.write_executable("test.sh", "#!/bin/sh\necho the answer is $(cat answer)\ngrep -q 42 answer\n")
        .commit("second");
    let ran = env.loopwright_in(repo.path(), ["run", "fix"]).code(14).transcript();
    assert!(ran.contains("| the answer is 40"), "{ran}");
    let round = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
    let id = round["rounds"][0]["round"].as_str().expect("an id").to_owned();
    for verb in ["why", "show", "report"] {
        let shown = env.loopwright_in(repo.path(), [verb, &id]).success().transcript();
        assert!(shown.contains("the answer is 40"), "{verb}: {shown}");
    }
}

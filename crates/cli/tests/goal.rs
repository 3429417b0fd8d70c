//! Goal loops through the real binary: planner, phases, prover, attackers, and the false claims of each of them.

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

const HEAD: &str = "\
name: goal
intent: Make the answer right.
level: L3
mode: goal-loop
allow: [pull-request]
output: [pull-request]
agents: { maker: { use: scripted, script: goal.script } }
gates: [{ name: tests, run: [sh, test.sh] }]
prompts: { maker: Fix the answer. }
";
const PLAN: &str = "@ planner\nbrief Fix the answer.\nplan Write 42.\n\n";
const MAKE: &str = "@ maker\nwrite answer \"42\\n\"\n\n";
const PASS: &str = "@ checker\nverdict pass correctness=5@answer:1 scope=5@gate:tests tests=5@gate:tests\n\n";

/// One round of a goal loop with further keys, and a script.
struct GoalRun {
    env: TestEnv,
    repo: TestRepo,
    json: Value,
}

impl GoalRun {
    fn new(keys: &str, script: &str) -> Self {
        Self::of_file(&format!("{HEAD}{keys}"), script)
    }

    fn of_file(file: &str, script: &str) -> Self {
        let env = env();
        let repo = env.repo("r");
        repo.write(".loopwright/loops/goal.yaml", file).write(".loopwright/goal.script", script);
        repo.write("test.sh", "grep -q 4 answer\n").write("answer", "1\n");
        repo.write("exercise.sh", "cat answer; grep -q 42 answer\n");
        repo.write("quiet.sh", "exit 0\n").write("liar.sh", "echo all good; exit 1\n");
        repo.commit("first");
        let json = env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json();
        Self { env, repo, json }
    }

    fn codes(&self) -> Vec<String> {
        let reasons = self.json["reasons"].as_array().expect("reasons");
        reasons.iter().map(|reason| reason["code"].as_str().expect("a code").to_owned()).collect()
    }

    fn assert_end(&self, outcome: &str, code: &str) {
        assert_eq!(self.json["outcome"], outcome, "{:#}", self.json);
        assert!(self.codes().iter().any(|known| known == code), "{code}: {:#}", self.json["reasons"]);
    }

    fn text(&self, words: &[&str]) -> String {
        self.env.loopwright_in(self.repo.path(), words).success().transcript()
    }
}

#[test]
fn demo_shows_a_whole_goal_loop_and_an_honest_plateau() {
    let env = env();
    let json = env.loopwright_in(env.root(), ["demo", "goal", "--json"]).success().json();
    let rounds = json["rounds"].as_array().expect("rounds");
    if rounds.is_empty() {
        loopwright_testkit::skip("the demo's goal loops need a sandbox");
        return;
    }
    let goal = &rounds[0]["goal"];
    assert_eq!(rounds[0]["outcome"], "shipped");
    assert_eq!(goal["plan"]["phases"], serde_json::json!(["the calculation", "the server"]));
    assert_eq!(goal["plan"]["sealed"].as_array().expect("seals").len(), 1);
    let proofs: Vec<_> = goal["cycles"].as_array().expect("cycles").iter().map(|one| one["proof"].clone()).collect();
    assert_eq!(proofs, ["broken", "works", "works", "works"]);
    let findings = goal["findings"].as_array().expect("findings");
    let shown: Vec<_> = findings.iter().map(|one| (&one["severity"], &one["reported"], &one["reproduction"])).collect();
    assert_eq!(
        shown,
        [
            (&"medium".into(), &"critical".into(), &"not-there".into()),
            (&"high".into(), &"high".into(), &"reproduced".into())
        ]
    );
    assert!(!goal["proof"]["artefacts"].as_array().expect("artefacts").is_empty());
    let gates: Vec<_> = rounds[0]["gates"].as_array().expect("gates").iter().map(|gate| gate["name"].clone()).collect();
    assert!(gates.len() == 3 && gates.contains(&"proof".into()), "{gates:?}");
    assert_eq!((&rounds[1]["outcome"], &rounds[1]["goal"]["best"]), (&"plateaued".into(), &2.into()));
    let (repo, state) = (json["repo"].as_str().expect("a path"), json["state"].as_str().expect("a path"));
    let round = rounds[1]["round"].as_str().expect("a round");
    let log = env.loopwright_in(env.root(), ["--repo", repo, "--state", state, "logs", round]).success().transcript();
    let fourth = log.split("Attempt 4 starts").nth(1).expect("a fourth attempt");
    assert!(
        fourth.contains("| 7") && fourth.contains("read scratch.txt: refused"),
        "attempt 3 was not discarded:\n{log}"
    );
    assert_eq!(rounds[1]["goal"]["cycles"].as_array().expect("cycles").len(), 4, "two of six attempts were saved");
}

#[test]
fn planner_that_writes_code_has_no_effect_beyond_its_two_files() {
    let script = format!(
        "@ planner\ntry write answer \"42\\n\"\ntry write /workspace/new \"x\\n\"\nstage pull-request.md \"Mine\"\n\
         brief Fix it.\nplan Do it.\n\n@ maker\nread answer\nread /outbox/pull-request.md\nwrite answer \"42\\n\"\n\n{PASS}"
    );
    let run = GoalRun::new("", &script);
    assert_eq!(run.json["outcome"], "shipped", "{:#}", run.json);
    assert_eq!(run.json["changes"].as_array().expect("changes").len(), 1, "{:#}", run.json["changes"]);
    let log = run.text(&["logs", run.json["round"].as_str().expect("a round")]);
    assert!(log.contains("maker | 1") || log.contains("maker-1 | 1"), "the maker starts from base:\n{log}");
    assert!(log.contains("read /outbox/pull-request.md: refused"), "{log}");
}

#[test]
fn round_without_a_plan_fails_and_makes_nothing() {
    let run = GoalRun::new("", &format!("@ planner\nsay I have a plan\n\n{MAKE}{PASS}"));
    run.assert_end("failed", "no-plan");
    assert_eq!(run.json["attempts"], 0);
    let run = GoalRun::new("", &format!("@ planner\ncannot The goal contradicts itself.\n\n{MAKE}{PASS}"));
    run.assert_end("cannot", "cannot");
    let checked = run.text(&["check", "goal"]);
    assert!(!checked.contains("does not work"), "a shell without `--version` works: {checked}");
}

#[test]
fn exercise_that_claims_success_and_exits_with_one_is_a_veto() {
    let run = GoalRun::new("attempts: 1\nprover: { exercise: [sh, liar.sh] }\n", &format!("{PLAN}{MAKE}{PASS}"));
    run.assert_end("rejected", "proof-broken");
    let run = GoalRun::new("prover: { exercise: [sh, quiet.sh] }\n", &format!("{PLAN}{MAKE}{PASS}"));
    run.assert_end("failed", "proof-unverifiable");
    // The words of the application are no evidence of an exercise.
    let keys = "prover: { start: [sh, app.sh], ready: up, exercise: [sh, quiet.sh] }\n";
    let app = "@ maker\nwrite answer \"42\\n\"\nwrite app.sh \"echo up; exec sleep 600\\n\"\n\n";
    GoalRun::new(keys, &format!("{PLAN}{app}{PASS}")).assert_end("failed", "proof-unverifiable");
}

#[test]
fn makers_own_exercise_does_not_count() {
    let script = format!("{PLAN}@ maker\nwrite answer \"4\\n\"\nwrite exercise.sh \"echo fine\\n\"\n\n{PASS}");
    let run = GoalRun::new("attempts: 1\nprover: { exercise: [sh, exercise.sh] }\n", &script);
    run.assert_end("rejected", "proof-broken");
}

#[test]
fn application_that_outlives_its_proof_or_never_gets_ready_is_ended() {
    let app = "@ maker\nwrite answer \"42\\n\"\nwrite app.sh <<END\nsetsid sleep 987654 &\necho up\nwait\nEND\n\n";
    let keys = "prover: { start: [sh, app.sh], ready: up, exercise: [sh, exercise.sh] }\n";
    let run = GoalRun::new(keys, &format!("{PLAN}{app}{PASS}"));
    assert_eq!(run.json["outcome"], "shipped", "{:#}", run.json);
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let alive = all.filter(|one| {
        let line = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("987654")
    });
    assert_eq!(alive.count(), 0, "the application outlived its proof");
    let keys = "attempts: 1\nprover: { start: [sh, app.sh], ready: never, exercise: [sh, exercise.sh], timeout: 1s }\n";
    let run = GoalRun::new(keys, &format!("{PLAN}{app}{PASS}"));
    run.assert_end("rejected", "proof-broken");
}

/// It tries everything that could make its own exercise pass, and does not get ready if it reached the verdict.
const CHEAT: &str = "\
echo 'echo fine' > checks/deep/exercise.sh
rm -f checks/deep/exercise.sh
mv checks/deep checks/other
mv checks moved
mkdir -p checks/deep && echo 'echo fine' > checks/deep/exercise.sh
if (exec 3<>/proc/$PPID/mem); then exit 1; fi
echo mine > checks/deep/beside
echo up
exec sleep 600
";

/// The application is code of the candidate and runs beside the exercise that judges it.
#[test]
fn application_cannot_replace_its_exercise_or_reach_the_process_that_gives_the_verdict() {
    let keys = "attempts: 1\nprover: { start: [sh, app.sh], ready: up, exercise: [sh, checks/deep/exercise.sh] }\n";
    let run = |answer: &str| {
        let script = format!("{PLAN}@ maker\nwrite answer \"{answer}\\n\"\nwrite app.sh <<END\n{CHEAT}END\n\n{PASS}");
        let env = env();
        let repo = env.repo("r");
        repo.write(".loopwright/loops/goal.yaml", format!("{HEAD}{keys}")).write(".loopwright/goal.script", script);
        repo.write("test.sh", "grep -q 4 answer\n").write("answer", "1\n");
        let exercise = "cat answer; test ! -e checks/deep/beside && test ! -e moved && grep -q 42 answer\n";
        repo.write("checks/deep/exercise.sh", exercise).commit("first");
        env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json()
    };
    let (right, wrong) = (run("42"), run("4"));
    assert_eq!(right["outcome"], "shipped", "nothing that it writes reaches its exercise: {right:#}");
    assert_eq!(wrong["outcome"], "rejected", "{wrong:#}");
    assert!(wrong["reasons"].to_string().contains("proof-broken"), "{wrong:#}");
}

/// It serves the answer, after it put files where the exercise's interpreter looks for modules: in HOME, which it does not
/// search itself, and beside the exercise.
const PLANT: &str = "\
plant='print(\"fine\", flush=True); import os; os._exit(0)'
site=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p $site && echo \"$plant\" > $site/usercustomize.py
echo \"$plant\" > checks/json.py
echo \"$plant\" > conftest.py
exec python3 -s -m http.server --bind 127.0.0.1 $PORT
";

/// The exercise and the application have nothing in common but the port.
#[test]
fn files_that_an_application_plants_for_its_exercise_are_not_loaded() {
    let address = "http://127.0.0.1:{port}/answer";
    let keys = format!(
        "attempts: 1\nprover:\n  start: [sh, app.sh]\n  ready: \"{address}\"\n  exercise: [python3, checks/exercise.py]\n"
    );
    let run = |answer: &str| {
        let script = format!("{PLAN}@ maker\nwrite answer \"{answer}\\n\"\nwrite app.sh <<END\n{PLANT}END\n\n{PASS}");
        let env = env();
        let repo = env.repo("r");
        repo.write(".loopwright/loops/goal.yaml", format!("{HEAD}{keys}")).write(".loopwright/goal.script", script);
        repo.write("test.sh", "grep -q 4 answer\n").write("answer", "1\n");
        let exercise = "import json\nimport os\nimport urllib.request\n\n\
                        found = urllib.request.urlopen('http://127.0.0.1:%s/answer' % os.environ['PORT']).read()\n\
                        print(found)\nassert json.loads(found) == 42\n";
        repo.write("checks/exercise.py", exercise).commit("first");
        env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json()
    };
    let (right, wrong) = (run("42"), run("4"));
    assert_eq!(right["outcome"], "shipped", "{right:#}");
    assert_eq!(wrong["outcome"], "rejected", "{wrong:#}");
    assert!(wrong["reasons"].to_string().contains("proof-broken"), "{wrong:#}");
}

#[test]
fn makers_changes_to_the_suite_that_the_exercise_runs_do_not_count() {
    let keys = "attempts: 1\nprover: { exercise: [python3, -m, unittest, discover, -s, tests] }\n";
    let suite = |wanted: &str| {
        format!(
            "import unittest\n\nclass Answer(unittest.TestCase):\n    def test_answer(self):\n        \
             self.assertIn('{wanted}', open('answer').read())\n"
        )
    };
    let script =
        format!("{PLAN}@ maker\nwrite answer \"4\\n\"\nwrite tests/test_answer.py <<END\n{}END\n\n{PASS}", suite("4"));
    let env = env();
    let repo = env.repo("r");
    repo.write(".loopwright/loops/goal.yaml", format!("{HEAD}{keys}")).write(".loopwright/goal.script", script);
    repo.write("test.sh", "grep -q 4 answer\n").write("answer", "1\n").write("tests/test_answer.py", suite("42"));
    repo.commit("first");
    let json = env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json();
    assert_eq!(json["outcome"], "rejected", "{json:#}");
    assert!(json["reasons"].to_string().contains("proof-broken"), "{json:#}");
}

/// A loop tool did not count attempts that were thrown away, and made 3000 calls of an agent in three cycles.
#[test]
fn attempts_that_no_checker_saw_count_too() {
    let word = |n: usize| ["red error", "green error", "blue error"][n - 1];
    let tries: String = (1..=3).map(|n| format!("@ maker attempt={n}\nwrite answer \"{}\\n\"\n\n", word(n))).collect();
    // Each failure is another one, so that no guard against repetition ends the round.
    let gate = "gates: [{ name: tests, run: [sh, exercise.sh] }]";
    let head = HEAD.replace("gates: [{ name: tests, run: [sh, test.sh] }]", gate);
    let run = GoalRun::of_file(&format!("{head}attempts: 3\n"), &format!("{PLAN}{tries}{PASS}"));
    assert_eq!((&run.json["outcome"], &run.json["attempts"]), (&"rejected".into(), &3.into()), "{:#}", run.json);
    let round = run.json["round"].as_str().expect("a round");
    let log = run.env.loopwright_in(run.repo.path(), ["logs", round, "--json"]).success().json();
    let starts = |role: &str| {
        let events = log["events"].as_array().expect("events").iter();
        let of = |event: &&Value| event["body"].to_string().contains(&format!("\"role\":\"{role}\""));
        events.filter(|event| event["kind"] == "role-started").filter(of).count()
    };
    assert_eq!((starts("maker"), starts("checker")), (3, 0), "{log:#}");
}

/// A loop tool reset the user's checkout after a failed attempt, and committed the user's `.env` after a good one.
#[test]
fn uncommitted_work_survives_failed_and_good_rounds_and_is_in_no_commit() {
    let fails = GoalRun::new("", &format!("{PLAN}@ maker\nexit 3\n\n{PASS}"));
    let repo = &fails.repo;
    repo.write(".env", "TOKEN=1\n").write("test.sh", "half a thought\n").write("new/file", "mine\n");
    let status = || {
        let lines = repo.git(["status", "--porcelain", "--untracked-files=all"]);
        let others = lines.lines().map(|line| line.trim().to_owned()).filter(|line| !line.ends_with("goal.script"));
        others.collect::<Vec<_>>()
    };
    let before = status();
    let round = fails.json["round"].as_str().expect("a round");
    assert_eq!(fails.json["outcome"], "failed", "{:#}", fails.json);
    drop(fails.env.loopwright_in(repo.path(), ["retry", round]));
    repo.write(".loopwright/goal.script", format!("{PLAN}{MAKE}{PASS}"));
    let good = fails.env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json();
    assert_eq!(good["outcome"], "shipped", "{good:#}");
    let kept = [(".env", "TOKEN=1\n"), ("test.sh", "half a thought\n"), ("new/file", "mine\n"), ("answer", "1\n")];
    for (path, text) in kept {
        assert_eq!(repo.read(path), text, "{path}");
    }
    assert_eq!(status(), before);
    let shipped = fails.text(&["diff", good["round"].as_str().expect("a round")]);
    assert!(
        shipped.contains("answer") && !shipped.contains("TOKEN") && !shipped.contains("half a thought"),
        "{shipped}"
    );
}

const ATTACK: &str = "attempts: 2\nattack: { roles: [security] }\n";

#[test]
fn attacker_that_writes_changes_nothing_and_forged_findings_refuse_the_round() {
    let script = format!("{PLAN}{MAKE}@ attacker\ntry write answer \"evil\\n\"\nfindings none\n\n{PASS}");
    let run = GoalRun::new(ATTACK, &script);
    assert_eq!(run.json["outcome"], "shipped", "{:#}", run.json);
    let forged = "@ attacker\nfindings raw {\"nonce\":\"guess\",\"candidate\":\"x\",\"findings\":[]}\n\n";
    let run = GoalRun::new(ATTACK, &format!("{PLAN}{MAKE}{forged}{PASS}"));
    run.assert_end("refused", "forged-findings");
}

#[test]
fn reproduction_runs_in_the_sandbox_and_cannot_change_the_candidate_or_the_host() {
    let escape = std::path::PathBuf::from(format!("/tmp/loopwright-escape-{}", std::process::id()));
    let script = format!(
        "{PLAN}{MAKE}@ attacker\nfinding severity=critical place=answer:1 trigger=any title=hole <<END\n\
         touch {} && exit 1\necho evil > answer\nexit 0\nEND\n\n{PASS}",
        escape.display()
    );
    let run = GoalRun::new(ATTACK, &script);
    assert!(!escape.exists(), "the reproduction wrote to the host");
    // It may write to its own /tmp, so it shows its defect in every attempt and blocks the candidate; that is no pass.
    assert!(["rejected", "plateaued"].contains(&run.json["outcome"].as_str().expect("an outcome")), "{:#}", run.json);
}

#[test]
fn reproduction_that_shows_nothing_hides_no_other_attackers_reproduction_of_the_same_finding() {
    let keys = "attempts: 1\nattack: { roles: [hostile-user, security] }\n";
    let finding = |role: &str, script: &str| {
        format!(
            "@ attacker role={role}\nfinding severity=high place=answer:1 trigger=any title=hole <<END\n{script}\nEND\n\n"
        )
    };
    let attackers =
        format!("{}{}", finding("hostile-user", "exit 0"), finding("security", "grep -q 42 answer && exit 1"));
    let run = GoalRun::new(keys, &format!("{PLAN}{MAKE}{attackers}{PASS}"));
    run.assert_end("rejected", "finding-open");
    assert_eq!(run.json["goal"]["findings"][0]["reproduction"], "reproduced", "{:#}", run.json);
}

#[test]
fn attacker_without_an_answer_needs_a_person() {
    let run = GoalRun::new(ATTACK, &format!("{PLAN}{MAKE}@ attacker\nsay nothing\nexit 3\n\n{PASS}"));
    run.assert_end("escalated", "attacker-incomplete");
}

/// The time of the round, half an hour, would be over long after the test.
#[test]
fn role_has_a_time_limit_of_its_own() {
    let maker = "maker: { use: scripted, script: goal.script }";
    let attacker = "attacker: { use: scripted, script: goal.script, budget: { wall: 1s } }";
    let head = HEAD.replace(maker, &format!("{maker}, {attacker}"));
    let script = format!("{PLAN}{MAKE}@ attacker\nhang\n\n{PASS}");
    GoalRun::of_file(&format!("{head}{ATTACK}"), &script).assert_end("escalated", "attacker-incomplete");
}

/// Opens the page in a real browser, photographs it, and looks at what its script made of it.
const BROWSE: &str = "\
set -e
browse() {
  chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=\"$HOME/chromium\" \\
    --virtual-time-budget=2000 \"$@\" \"http://127.0.0.1:$PORT/index.html\"
}
browse --window-size=400,300 --screenshot=\"$PROOF_DIR/page.png\"
browse --dump-dom > \"$PROOF_DIR/page.html\"
grep -q 'id=\"answer\">42<' \"$PROOF_DIR/page.html\"
";

#[test]
fn exercise_in_a_real_browser_keeps_a_screenshot_and_a_page_that_does_not_work_is_a_veto() {
    if !std::path::Path::new("/usr/bin/chromium").exists() {
        loopwright_testkit::skip("no Chromium");
        return;
    }
    let env = env();
    let repo = env.repo("r");
    let keys = "attempts: 2\nprover:\n  start: [python3, -m, http.server, --bind, 127.0.0.1, \"{port}\"]\n  \
                ready: \"http://127.0.0.1:{port}/index.html\"\n  exercise: [sh, browse.sh]\n  timeout: 5m\n";
    let page = "document.getElementById('answer').textContent";
    let script = format!(
        "{PLAN}@ maker attempt=1\nwrite answer \"42\\n\"\nwrite page.js \"{page} = undefined_thing;\\n\"\n\n\
         @ maker attempt=2\nwrite page.js \"{page} = 6 * 7;\\n\"\n\n{PASS}"
    );
    repo.write(".loopwright/loops/goal.yaml", format!("{HEAD}{keys}")).write(".loopwright/goal.script", script);
    repo.write("test.sh", "grep -q 4 answer\n").write("answer", "1\n").write("browse.sh", BROWSE);
    repo.write("index.html", "<!doctype html><p id=\"answer\">?</p><script src=\"page.js\"></script>\n");
    repo.commit("first");
    let json = env.loopwright_in(repo.path(), ["run", "goal", "--json"]).json();
    let proofs: Vec<_> = json["goal"]["cycles"].as_array().expect("cycles").iter().map(|one| &one["proof"]).collect();
    assert_eq!(
        (&json["outcome"], proofs),
        (&"shipped".into(), vec![&Value::from("broken"), &Value::from("works")]),
        "{json:#}"
    );
    let artefacts = json["goal"]["proof"]["artefacts"].as_array().expect("artefacts");
    let shot = artefacts.iter().find(|one| one["name"].as_str().is_some_and(|name| name.ends_with("page.png")));
    let hash = shot.unwrap_or_else(|| panic!("no screenshot: {artefacts:?}"))["hash"].as_str().expect("a hash");
    let bytes = std::fs::read(env.state().join("evidence").join(hash)).expect("the picture is kept");
    assert!(bytes.starts_with(b"\x89PNG\r\n") && bytes.len() > 500, "{} bytes", bytes.len());
}

/// The application serves the files of the candidate, and the engine itself asks it for one.
#[test]
fn http_exercise_vetoes_a_wrong_answer_and_keeps_the_right_one_as_evidence_and_as_a_gate() {
    let keys = "attempts: 2\nprover:\n  start: [python3, -m, http.server, --bind, 127.0.0.1, \"{port}\"]\n  \
                ready: \"http://127.0.0.1:{port}/test.sh\"\n  keep: true\n  timeout: 2m\n  \
                http: { url: \"http://127.0.0.1:{port}/answer\", status: 200, contains: \"42\" }\n";
    let pass = PASS.replace("scope=5@gate:tests", "scope=5@gate:proof");
    let script = format!(
        "{PLAN}@ maker attempt=1\nwrite answer \"4\\n\"\n\n@ maker attempt=2\nwrite answer \"the answer is 42\\n\"\n\n{pass}"
    );
    let run = GoalRun::new(keys, &script);
    assert_eq!(run.json["outcome"], "shipped", "{:#}", run.json);
    let cycles = run.json["goal"]["cycles"].as_array().expect("cycles");
    let proofs: Vec<_> = cycles.iter().map(|one| one["proof"].clone()).collect();
    assert_eq!(proofs, ["broken", "works"], "{:#}", run.json);
    let artefacts = run.json["goal"]["proof"]["artefacts"].as_array().expect("artefacts");
    let evidence = run.env.state().join("evidence");
    let is_answer = |one: &Value| {
        let kept = std::fs::read_to_string(evidence.join(one["hash"].as_str().expect("a hash")));
        kept.is_ok_and(|text| text.contains("the answer is 42"))
    };
    assert!(artefacts.iter().any(is_answer), "the answer is evidence: {artefacts:?}");
    let missing = keys.replace("/answer\"", "/missing\"").replace("attempts: 2", "attempts: 1");
    GoalRun::new(&missing, &script).assert_end("rejected", "proof-broken");
    // The server names itself in its headers, in every answer.
    let headers = keys.replace("contains: \"42\"", "contains: SimpleHTTP").replace("attempts: 2", "attempts: 1");
    GoalRun::new(&headers, &script).assert_end("rejected", "proof-broken");
}

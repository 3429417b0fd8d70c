//! Providers that deny requests, through the real binary: exit codes, messages, documents, and resuming.

use loopwright_testkit::{CommandRun, TestEnv, TestRepo};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const FIX: &str = r#"@ maker
replace calc.sh "$1 - $2" "$1 + $2"

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2
"#;

struct Place {
    env: TestEnv,
    repo: TestRepo,
}

impl Place {
    /// A repository with the L2 loop `fix`, whose maker follows this script and has these further settings.
    fn new(script: &str, more: &str) -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        repo.write(
            ".loopwright/loops/fix.md",
            format!(
                "---\nname: fix\nintent: keep the sum right\nlevel: L2\nattempts: 1\nagents:\n  \
                 maker: {{ use: scripted, script: fix.script{more} }}\noutput: [pull-request]\n---\n# Maker\nDo it.\n"
            ),
        );
        repo.write(".loopwright/fix.script", script).write(".loopwright/good.script", FIX);
        repo.commit("first");
        Self { env, repo }
    }

    fn run(&self, line: &str) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), line.split(' '))
    }

    /// Runs the loop and expects this exit code.
    fn round(&self, code: i32) -> (String, Value) {
        let report = self.run("run fix --json").code(code).json();
        (report["round"].as_str().expect("a report names its round").to_owned(), report)
    }
}

const LATER: &str = "@ maker\nappend half.txt \"half\\n\"\ntrouble rate-limited status=429 retry-after=7200 \"You have hit your limit\"\n\
    \n@ checker\nverdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2\n";

#[test]
fn rate_limited_round_exits_75_is_shown_everywhere_and_resumes_its_work() {
    let place = Place::new(LATER, "");
    let (round, report) = place.round(75);
    assert_eq!((report["outcome"].as_str(), report["exit"].as_u64()), (Some("rate-limited"), Some(75)));
    let at = report["retry_at"].as_str().expect("the reset is known").to_owned();
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("\"rate-limited\"") && reasons.contains("You have hit your limit"), "{reasons}");
    let rounds = place.run("rounds").success().stdout();
    assert!(rounds.contains("suspended (rate-limited)"), "{rounds}");
    let status = place.run("status --json").success().json();
    assert_eq!(status["loops"][0]["status"], "idle");
    assert_eq!((status["loops"][0]["runs"].as_u64(), status["loops"][0]["failures"].as_u64()), (Some(1), Some(1)));
    let why = status["loops"][0]["paused_reason"].as_str().expect("it says so");
    assert!(why.contains(&format!("loopwright retry {round}")), "{why}");
    for line in [format!("show {round}"), format!("why {round}"), "why fix".to_owned()] {
        let page = place.run(&line).success().stdout();
        assert!(page.contains(&format!("resume from {at} on")) && page.contains("rate-limited"), "{line}: {page}");
    }
    assert_eq!(place.run("inbox --json").success().json()["items"].as_array().map(Vec::len), Some(0));
    place.repo.write(
        ".loopwright/fix.script",
        format!("{FIX}\n").replace("@ maker\n", "@ maker\nread half.txt\ndelete half.txt\n"),
    );
    let more = place.run(&format!("retry {round} --json")).code(10).json();
    assert_eq!((more["round"].as_str(), more["outcome"].as_str()), (Some(round.as_str()), Some("escalated")));
    assert_eq!((more["attempts"].as_u64(), more["retry_at"].as_str()), (Some(1), None));
    let status = place.run("status --json").success().json();
    assert_eq!(status["loops"][0]["paused_reason"], Value::Null);
}

#[test]
fn next_steps_name_the_moment_and_the_command() {
    let place = Place::new(LATER, "");
    let ran = place.run("run fix").code(75);
    let out = ran.stdout();
    assert!(out.contains("next: resume from 20") && out.contains("with the saved work: loopwright retry r"), "{out}");
}

#[test]
fn fallback_script_takes_over_in_the_same_attempt() {
    let place = Place::new(LATER, ", fallback: [scripted/good.script]");
    let (_, report) = place.round(10);
    assert_eq!(report["attempts"], 1);
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("continued with scripted"), "{reasons}");
}

#[test]
fn short_wait_comes_before_the_fallback() {
    let script = format!("trouble overloaded retry-after=1 \"Too busy\"\n\n{}", FIX.trim_start_matches("@ maker\n"));
    let place = Place::new(&script, ", fallback: [scripted/good.script]");
    let (_, report) = place.round(10);
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("waited until") && !reasons.contains("continued with"), "{reasons}");
}

#[test]
fn ceiling_of_tokens_suggests_tokens_and_one_of_idle_time_no_raise() {
    let place = Place::new("@ maker\nusage input=2000\nhang\n", "");
    let path = place.repo.path().join(".loopwright/loops/fix.md");
    let text = std::fs::read_to_string(&path).expect("the loop");
    let with = |budget: &str| text.replace("output:", &format!("budget: {{ round: {{ {budget} }} }}\noutput:"));
    place.repo.write(".loopwright/loops/fix.md", with("tokens: 1000"));
    let (round, report) = place.round(12);
    let command = format!("loopwright budget raise fix --round {round} --tokens N");
    assert!(report["reasons"].to_string().contains(&command), "{report:#}");
    let page = place.run(&format!("show {round}")).success().stdout();
    assert!(page.contains(&format!("raise it: {command}")) && !page.contains("--usd"), "{page}");
    place.repo.write(".loopwright/loops/fix.md", with("idle: 1s"));
    place.repo.write(".loopwright/fix.script", "@ maker\nhang\n");
    let (round, report) = place.round(12);
    assert!(report["reasons"].to_string().contains("`budget.round.idle` sets this limit"), "{report:#}");
    let page = place.run(&format!("show {round}")).success().stdout();
    assert!(page.contains(&format!("loopwright retry {round}")) && !page.contains("budget raise"), "{page}");
}

#[test]
fn short_wait_is_reported_once_and_the_round_continues() {
    let script = "trouble overloaded retry-after=1 \"Too busy\"\n\nreplace calc.sh \"$1 - $2\" \"$1 + $2\"\n\n@ checker\n\
        verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2\n";
    let place = Place::new(script, "");
    let ran = place.run("run fix").code(10);
    let waits: Vec<_> = ran.stderr().lines().filter(|line| line.starts_with("waits")).map(str::to_owned).collect();
    assert_eq!(waits.len(), 1, "{}", ran.transcript());
    assert!(waits[0].contains("Ctrl-C ends the round") && waits[0].contains("Too busy"), "{waits:?}");
}

#[test]
fn provider_wait_of_the_configuration_bounds_waits() {
    let place = Place::new("@ maker\ntrouble overloaded\n", "");
    place.repo.write(".loopwright/config.yaml", "provider_wait: 1s\n");
    let (_, report) = place.round(75);
    assert!(report["retry_at"].is_string(), "{report}");
}

#[test]
fn ctrl_c_ends_a_wait_at_once() {
    let place = Place::new("@ maker\ntrouble rate-limited retry-after=600\n", "");
    let mut command = place.env.command(place.repo.path());
    let mut child =
        command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut rest = lines.map_while(Result::ok);
    assert!(rest.any(|line| line.starts_with("waits")), "it waits");
    let kill = format!("kill -INT {}", child.id());
    let _ = TestEnv::new("/bin/sh").loopwright(["-c", &kill]).success();
    rest.for_each(drop);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn permanent_provider_errors_fail_with_a_hint() {
    for (kind, advice) in
        [("auth", "loopwright doctor"), ("quota", "credit"), ("context", "larger context"), ("bad-request", "`model`")]
    {
        let place = Place::new(&format!("@ maker\ntrouble {kind} \"no\"\n"), "");
        let (round, report) = place.round(1);
        let reason = report["reasons"][0].clone();
        assert_eq!((report["outcome"].as_str(), reason["code"].as_str()), (Some("failed"), Some(kind)));
        assert!(reason["text"].as_str().is_some_and(|text| text.contains(advice)), "{reason}");
        if kind == "auth" {
            place.repo.write(".loopwright/fix.script", FIX);
            let again = place.run(&format!("retry {round} --json")).code(10).json();
            assert_ne!(again["round"].as_str(), Some(round.as_str()), "a round that ended stays ended");
            assert_eq!(again["retry_of"].as_str(), Some(round.as_str()));
        }
    }
}

#[test]
fn task_that_the_model_declines_cannot_be_done() {
    let place = Place::new("@ maker\ntrouble declined \"no\"\n", "");
    let (_, report) = place.round(13);
    let reason = report["reasons"][0].clone();
    assert_eq!((report["outcome"].as_str(), reason["code"].as_str()), (Some("cannot"), Some("declined")));
    assert!(reason["text"].as_str().is_some_and(|text| text.contains("`fallback`")), "{reason}");
}

#[test]
fn over_budget_work_is_kept_while_its_ceiling_is_reached() {
    let script =
        FIX.replace("@ maker\n", "@ maker\nusage input=900000\n").replace("@ checker\n", "@ checker\nusage input=10\n");
    let place = Place::new(&script, "");
    let (round, report) = place.round(12);
    assert_eq!(report["outcome"], "over-budget");
    let still = place.run(&format!("retry {round} --json")).code(12).json();
    assert_eq!(still["round"].as_str(), Some(round.as_str()));
    let rounds = place.run("rounds").success().stdout();
    assert!(rounds.contains("suspended (over-budget)"), "{rounds}");
}

#[test]
fn over_budget_round_resumes_its_work_once_a_person_raised_its_ceiling() {
    let half = "@ maker\nappend half.txt \"half\\n\"\nusage input=410000\nhang\n";
    let place = Place::new(half, "");
    let (round, report) = place.round(12);
    assert_eq!((report["outcome"].as_str(), report["exit"].as_u64()), (Some("over-budget"), Some(12)));
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains(&format!("--round {round}")), "the reason names the way back: {reasons}");
    // The work is the maker's own: the resumed maker reads its earlier files, and fails if they are missing.
    let on = FIX.replace("@ maker\n", "@ maker\nread half.txt\ndelete half.txt\nusage input=1000\n");
    place.repo.write(".loopwright/fix.script", on.replace("@ checker\n", "@ checker\nusage input=500\n"));
    let raised =
        place.run(&format!("budget raise fix --usd 10 --tokens 300000 --round {round} --json")).success().json();
    assert_eq!(raised["next"][0].as_str(), Some(format!("loopwright retry {round}").as_str()), "{raised}");
    let more = place.run(&format!("retry {round} --json")).code(10).json();
    assert_eq!(
        (more["round"].as_str(), more["outcome"].as_str()),
        (Some(round.as_str()), Some("escalated")),
        "{more:#}"
    );
    assert_eq!((more["attempts"].as_u64(), more["spend"]["tokens"]["input"].as_u64()), (Some(1), Some(411_500)));
    let changed: Vec<_> = more["changes"].as_array().into_iter().flatten().map(|change| &change["path"]).collect();
    assert_eq!(changed, ["calc.sh"], "{more:#}");
    assert_eq!(place.run("verify --json").success().json()["ok"], true);
    place.repo.write(".loopwright/fix.script", half);
    let (_, other) = place.round(12);
    assert_eq!(other["outcome"], "over-budget", "the raise was for one round");
}

#[test]
fn suspended_work_is_discarded_after_its_retention() {
    let place = Place::new(LATER, "");
    let (round, _) = place.round(75);
    let mut repos = std::fs::read_dir(place.env.state().join("workspaces")).expect("there are workspaces");
    let root = repos.next().expect("of one repository").expect("that reads").path().join("rounds").join(&round);
    assert!(root.exists(), "the work is kept");
    let _ = place.run("gc").success();
    assert!(root.exists(), "it is young");
    let collected = place.run("gc --days 0").success();
    assert!(collected.stderr().contains("abandoned"), "{}", collected.transcript());
    assert!(!root.exists(), "its work is gone");
    let shown = place.run(&format!("show {round} --json")).success().json();
    assert_eq!(shown["outcome"], "rate-limited");
}

#[test]
fn fallback_words_are_checked() {
    let place = Place::new(FIX, ", fallback: [codex/, scripted/nowhere.script]");
    let refused = place.run("check").code(2);
    assert!(refused.transcript().contains("names nothing after the slash"), "{}", refused.transcript());
    let place = Place::new(FIX, ", fallback: [scripted/nowhere.script]");
    let refused = place.run("check").code(2);
    assert!(refused.transcript().contains("nowhere.script"), "{}", refused.transcript());
}

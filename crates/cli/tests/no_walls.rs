//! A host that cannot isolate agents, simulated: the real program in a user namespace whose own limit of further ones
//! is zero. The machine's own settings are not changed. Such a host runs L1, refuses L2, names the fix, and loses
//! nothing.
#![allow(clippy::disallowed_methods, reason = "tests start the program")]

use loopwright_testkit::{TestEnv, TestRepo, skip};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Sets the limit of further namespaces to zero and executes the program. The limit applies to the new namespace only.
const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";

fn unshared(inner: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", WITHOUT, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().expect("a folder is set")).stdin(Stdio::null());
    command
}

/// A repository with one loop for each level, on a host without isolation; `None` if that cannot be simulated.
struct Bare {
    env: TestEnv,
    repo: TestRepo,
}

impl Bare {
    fn new() -> Option<Self> {
        let mut tried = Command::new("true");
        tried.current_dir("/");
        if !unshared(&tried).env("PATH", loopwright_testkit::TRUSTED_PATH).status().is_ok_and(|ended| ended.success()) {
            skip("`unshare --user` does not work here, so the host cannot be simulated");
            return None;
        }
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("project");
        repo.write("calc.sh", "echo $(($1 - $2))\n").write("check.sh", "test \"$(sh calc.sh 2 3)\" = 5\n");
        for (level, more) in [("L1", "output: report\n"), ("L2", "output: [pull-request]\n"), ("L3", L3)] {
            repo.write(&format!(".loopwright/loops/at-{}.md", level.to_lowercase()), file(level, "", more));
        }
        repo.write(".loopwright/loops/open.md", file("L2", "sandbox: off\n", "output: [pull-request]\n"));
        repo.write(".loopwright/s.script", SCRIPT).write(".loopwright/r.script", READS).commit("base");
        Some(Self { env, repo })
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut inner = self.env.command(self.repo.path());
        inner.args(words);
        unshared(&inner).output().expect("the program starts")
    }

    #[track_caller]
    fn json(&self, words: &[&str], code: i32) -> Value {
        let ran = self.run(words);
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert_eq!(ran.status.code(), Some(code), "{text}{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

const L3: &str = "output: [pull-request]\nallow: [pull-request]\n";

const SCRIPT: &str = "@ maker\nreplace calc.sh \"- $2\" \"+ $2\"\n@ checker\n\
    verdict pass correctness=5@calc.sh:1 scope=5@gate:tests tests=5@gate:tests\n";

const READS: &str = "@ maker\nstage report.md \"It subtracts.\\n\"\n@ checker\n\
    verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n";

fn file(level: &str, sandbox: &str, output: &str) -> String {
    let (name, script) = match (level, sandbox) {
        (_, "sandbox: off\n") => ("open".to_owned(), "s"),
        ("L1", _) => ("at-l1".to_owned(), "r"),
        (level, _) => (format!("at-{}", level.to_lowercase()), "s"),
    };
    let gates = if level == "L1" { "" } else { "gates: [{ name: tests, run: [sh, check.sh] }]\n" };
    format!(
        "---\nname: {name}\nintent: Make it add.\nlevel: {level}\n{output}{sandbox}{gates}\
         agents: {{ maker: {{ use: scripted, script: {script}.script }} }}\n---\n\n# Maker\n\nMend calc.sh.\n"
    )
}

fn forged(state: &Path) -> bool {
    state.join("forge").exists()
}

#[test]
fn levels_that_need_isolation_are_refused_and_nothing_is_started_or_lost() {
    let Some(bare) = Bare::new() else { return };
    let before = bare.repo.tree_digest();
    for name in ["at-l2", "at-l3"] {
        let round = bare.json(&["run", name, "--json"], 15);
        assert_eq!((&round["outcome"], &round["attempts"]), (&"refused".into(), &0.into()));
        let reason = &round["reasons"][0];
        assert_eq!((&reason["stage"], &reason["code"]), (&"isolate".into(), &"boundary".into()));
        let text = reason["text"].as_str().expect("a text");
        for part in ["user namespace", "max_user_namespaces", "loopwright doctor"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!(round["boundary"]["level"], "process");
        assert!(Path::new(round["report"].as_str().expect("a report")).is_file());
    }
    before.assert_untouched(&bare.repo.tree_digest());
    assert!(!forged(&bare.env.state()), "nothing left");
    // The record is complete, also for a host with isolation: the same state continues there.
    assert_eq!(bare.env.loopwright_in(bare.repo.path(), ["verify"]).success().stdout().lines().count(), 1);
    let listed = bare.env.loopwright_in(bare.repo.path(), ["rounds", "--json"]).success().json();
    assert_eq!(listed["rounds"].as_array().map(Vec::len), Some(2));
}

#[test]
fn reporting_runs_with_a_warning() {
    let Some(bare) = Bare::new() else { return };
    let round = bare.json(&["run", "at-l1", "--json"], 0);
    assert_eq!((&round["outcome"], &round["boundary"]["level"]), (&"reported".into(), &"process".into()));
    let at_l1 = bare.run(&["run", "at-l1"]);
    let text = String::from_utf8_lossy(&at_l1.stdout);
    assert!(text.contains("this host cannot confine agents") && text.contains("loopwright doctor"), "{text}");
}

#[test]
fn writing_at_l1_without_isolation_is_refused() {
    let Some(bare) = Bare::new() else { return };
    bare.repo
        .write(".loopwright/r.script", "@ maker\nwrite calc.sh x\nstage report.md \"Done.\\n\"\n")
        .commit("writes");
    let round = bare.json(&["run", "at-l1", "--json"], 15);
    assert_eq!(round["reasons"][0]["code"], "write-at-l1");
}

#[test]
fn loop_with_the_sandbox_off_runs_and_every_view_says_so() {
    let Some(bare) = Bare::new() else { return };
    let round = bare.json(&["run", "open", "--json"], 10);
    assert_eq!(round["boundary"]["level"], "off");
    let id = round["round"].as_str().expect("an id").to_owned();
    for words in [vec!["status"], vec!["rounds"], vec!["inbox"], vec!["show", &id], vec!["check"], vec!["report", &id]]
    {
        let text = String::from_utf8_lossy(&bare.run(&words).stdout).into_owned();
        assert!(text.contains("off"), "{words:?} does not say it: {text}");
    }
}

#[test]
fn doctor_names_the_missing_feature_and_the_fix_and_is_strict_on_demand() {
    let Some(bare) = Bare::new() else { return };
    let document = bare.json(&["doctor", "--strict", "--json"], 1);
    assert_eq!(document["boundary"], "process");
    let checks = document["checks"].as_array().expect("checks");
    let missing: Vec<_> = checks.iter().filter(|check| check["status"] == "missing").collect();
    assert!(missing.iter().any(|check| check["name"] == "boundary"), "{missing:?}");
    let fix = |check: &&&Value| check["fix"].as_str().is_some_and(|fix| fix.contains("max_user_namespaces"));
    assert!(missing.iter().any(|check| fix(&check)), "{missing:?}");
    assert_eq!(bare.run(&["doctor"]).status.code(), Some(0));
}

#[test]
fn demo_shows_its_l1_part_and_says_why() {
    let Some(bare) = Bare::new() else { return };
    let document = bare.json(&["demo", "--json"], 0);
    assert_eq!(document["as_told"], true);
    let outcomes: Vec<_> =
        document["rounds"].as_array().expect("rounds").iter().map(|round| &round["outcome"]).collect();
    assert_eq!(outcomes, ["reported"]);
    std::fs::remove_dir_all(document["folder"].as_str().expect("a folder")).expect("the demo's folder goes");
}

//! Each pattern end to end with the scripted agent and the local forge: due, probe, round, outbox, receipt; and a
//! second due moment sends nothing again.
//!
//! The loop file is the one that `new` writes. Only its times are replaced, because no test waits for 09:00, and
//! the parts that `new` asks a person to complete.

use super::env;
use loopwright_testkit::{TRUSTED_PATH, TestEnv, TestRepo, wait};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait; a busy machine is slow.
const LONG: Duration = Duration::from_secs(120);

/// The agents of every loop that names none.
const CONFIG: &str = "agents:\n  maker: { use: scripted, script: play.script }\n";

/// A stand-in for the package manager: it knows one newer version, and its tests pass.
const GO: &str = "#!/bin/sh\ncase $1 in\nlist) echo example.org/pad@v1.0.2 ;;\n\
                  test) sh tests/adds.sh && echo \"ok  \texample.org/app\t0.002s\" ;;\nesac\n";

/// A page of the local forge: its path and its text.
type ForgePage = (&'static str, &'static str);

const ISSUE: ForgePage = (
    "issues/3/0001-issue.md",
    "---\nkind: issue-create\nstate: open\ntitle: The sum is wrong\nauthor: ada\n---\n\n2 and 3 make -1.\n",
);
const PULL: ForgePage =
    ("pulls/7.md", "---\nkind: pull-request\nstate: open\nhead: abc\nbase: main\nauthor: ada\n---\n\nAdd a product.\n");
const CHECK: ForgePage =
    ("checks/build.md", "---\nstate: failed\nhead: abc\nbranch: main\n---\n\ntests/adds.sh failed\n");

/// A pattern, its work and its expected result.
struct Case {
    pattern: &'static str,
    /// The work on the forge; `None` if the repository itself is the work.
    work: Option<ForgePage>,
    script: &'static str,
    /// The item that the round takes, up to its revision.
    item: &'static str,
    /// The kinds that leave the machine.
    sent: &'static [&'static str],
    /// The exit code of a second `run`: 0 for no work, 15 if an open pull request blocks the loop.
    again: i32,
}

/// The repository, its state and the program.
struct World {
    env: TestEnv,
    repo: TestRepo,
    pattern: &'static str,
}

impl World {
    fn new(case: &Case) -> Self {
        let env = env();
        let bin = env.home().join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("go"), GO).expect("a program");
        std::fs::set_permissions(bin.join("go"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let env = env.with_env("PATH", format!("{}:{TRUSTED_PATH}", bin.display()));
        let repo = env.repo("repo");
        let sign = if case.work == Some(CHECK) { "-" } else { "+" };
        repo.write("calc.sh", format!("#!/bin/sh\necho $(( $1 {sign} $2 ))\n"));
        repo.write("tests/adds.sh", "#!/bin/sh\n[ \"$(sh calc.sh 2 3)\" = 5 ]\n");
        repo.write_executable("run-tests.sh", "#!/bin/sh\nset -e\nfor t in tests/*.sh; do sh \"$t\"; done\n");
        if case.pattern.starts_with("dependency") {
            repo.write("go.mod", "module example.org/app\n\nrequire example.org/pad v1.0.0\n");
        }
        repo.write("docs/usage.md", "calc.sh subtracts its arguments.\n");
        repo.write(".loopwright/config.yaml", CONFIG).write(".loopwright/play.script", case.script);
        repo.commit("first");
        let _ = env.loopwright_in(repo.path(), ["new", case.pattern]).success();
        let world = Self { env, repo, pattern: case.pattern };
        world.complete();
        world
    }

    /// Completes the loop file as `new` asks for it, and makes it due every second.
    fn complete(&self) {
        let file = format!(".loopwright/loops/{}.md", self.pattern);
        let text = self.repo.read(&file);
        let is_time = |line: &str| ["  every: ", "  daily: ", "  cron: "].iter().any(|key| line.starts_with(key));
        let lines = text.lines().filter(|line| !line.starts_with("  jitter: ")).map(|line| match line {
            line if is_time(line) => "  every: 1s\n".to_owned(),
            line => {
                format!("{}\n", line.strip_prefix("# ").filter(|line| line.starts_with("network: ")).unwrap_or(line))
            }
        });
        self.repo.write(&file, lines.collect::<String>()).commit("a loop");
        let _ = self.env.loopwright_in(self.repo.path(), ["check", self.pattern]).success();
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let words = words.iter().copied().chain(["--json"]);
        self.env.loopwright_in(self.repo.path(), words).code(code).json()
    }

    /// One pass of the scheduler; `look` chooses the entry of its document to wait for.
    fn tick_until(&self, what: &str, look: impl Fn(&Value) -> Option<Value>) -> Value {
        wait::value(what, LONG, || look(&self.json(&["tick"], 0)))
    }

    /// The round of a due moment.
    fn due_round(&self) -> Value {
        let round = self.tick_until("a due round", |tick| tick["rounds"].get(0).cloned());
        assert_eq!(round["loop"], self.pattern);
        self.json(&["show", round["round"].as_str().expect("an id")], 0)
    }

    /// The repository's id, from a due moment without work.
    fn idle_repo(&self) -> String {
        let receipt = self.tick_until("a due moment without work", |tick| {
            assert_eq!(tick["rounds"], serde_json::json!([]), "there is no work: {tick}");
            tick["receipts"].get(0).cloned()
        });
        assert_eq!(receipt["receipt"], "no-work", "{receipt}");
        receipt["repo"].as_str().expect("an id").to_owned()
    }

    /// Puts a page on the local forge, as people do.
    fn put(&self, (path, text): ForgePage) {
        let path = self.env.state().join("forge").join(self.idle_repo()).join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a page");
    }

    /// Every page of the local forge with its text.
    fn pages(&self) -> Vec<(PathBuf, String)> {
        let mut pages = Vec::new();
        collect(&self.env.state().join("forge"), &mut pages);
        pages.sort();
        pages
    }
}

fn collect(folder: &Path, pages: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension() {
            _ if path.is_dir() => collect(&path, pages),
            Some(ending) if ending == "md" => {
                let text = std::fs::read_to_string(&path).expect("a page is text");
                pages.push((path, text));
            }
            _ => {}
        }
    }
}

/// The kinds of the items that were sent.
fn sent(round: &Value) -> Vec<&str> {
    let items = round["outbox"].as_array().expect("a list").iter();
    let kinds = items.map(|item| {
        assert_eq!(item["state"], "sent", "{item}");
        assert!(!item["receipt"].is_null(), "{item}");
        item["kind"].as_str().expect("a kind")
    });
    kinds.collect()
}

#[track_caller]
fn check(case: &Case) {
    let world = World::new(case);
    if let Some(page) = case.work {
        world.put(page);
    }
    let before = world.pages();
    let mut round = world.due_round();
    assert!(round["item"].as_str().is_some_and(|item| item.starts_with(case.item)), "{round:#}");
    if round["outcome"] == "escalated" {
        assert_eq!(world.pages(), before, "nothing leaves before a person approves");
        let id = round["round"].as_str().expect("an id").to_owned();
        round = world.json(&["approve", &id], 0);
        assert_eq!(round["outcome"], "shipped", "{round:#}");
    } else {
        assert_eq!(round["outcome"], "reported", "{round:#}");
    }
    assert_eq!(sent(&round), case.sent, "{round:#}");
    let after = world.pages();
    assert_eq!(after.len() > before.len(), case.sent != ["report"], "{after:?}");
    let idle = world.tick_until("a second due moment", |tick| tick["receipts"].get(0).cloned());
    assert!(idle["round"].is_null(), "{idle}");
    let again = world.json(&["run", case.pattern], case.again);
    assert!(case.again != 0 || again["outcome"] == "nothing-to-do", "{again:#}");
    assert_eq!(world.pages(), after, "nothing is sent twice");
    assert_eq!(world.json(&["verify"], 0)["ok"], true);
}

const REPORT: &str =
    "@ maker\nstage report.md \"calc.sh:2 needs a person.\"\n\n@ checker\nverdict pass accuracy=5@item:report.md:1 ";

/// A report with the scores of two dimensions.
fn report(second: &str) -> &'static str {
    format!("{REPORT}{second}=4@item:report.md:1\n").leak()
}

#[test]
fn daily_triage_reports_a_commit_once() {
    let script = report("urgency");
    check(&Case { pattern: "daily-triage", work: None, script, item: "main@", sent: &["report"], again: 0 });
}

#[test]
fn pr_babysitter_reports_a_pull_request_once() {
    let script = report("action");
    check(&Case { pattern: "pr-babysitter", work: Some(PULL), script, item: "pr-7@abc", sent: &["report"], again: 0 });
}

#[test]
fn changelog_drafter_reports_a_draft_once() {
    let script = report("completeness");
    check(&Case { pattern: "changelog-drafter", work: None, script, item: "main@", sent: &["report"], again: 0 });
}

#[test]
fn post_merge_cleanup_reports_a_commit_once() {
    let script = report("origin");
    check(&Case { pattern: "post-merge-cleanup", work: None, script, item: "main@", sent: &["report"], again: 0 });
}

#[test]
fn issue_triage_reports_an_issue_once() {
    let script = report("restraint");
    check(&Case { pattern: "issue-triage", work: Some(ISSUE), script, item: "issue-3@", sent: &["report"], again: 0 });
}

const FIX: &str = "@ maker\nreplace calc.sh \"$1 - $2\" \"$1 + $2\"\nstage pull-request.md \"Add instead of subtract\"\n\n\
                   @ checker\nverdict pass correctness=5@calc.sh:2 scope=5@gate:small";

#[test]
fn ci_sweeper_proposes_a_fix_of_a_failed_check_once() {
    let script = format!("{FIX} tests=5@gate:tests\n").leak();
    check(&Case {
        pattern: "ci-sweeper",
        work: Some(CHECK),
        script,
        item: "ci-build@abc",
        sent: &["pull-request"],
        again: 0,
    });
}

#[test]
fn triage_ci_proposes_a_fix_of_a_failed_check_once() {
    let script = format!("{FIX}\n").leak();
    check(&Case {
        pattern: "triage-ci",
        work: Some(CHECK),
        script,
        item: "ci-build@abc",
        sent: &["pull-request"],
        again: 0,
    });
}

const UPDATE: &str = "@ maker\nreplace go.mod v1.0.0 v1.0.2\nstage pull-request.md \"Update pad to v1.0.2\"\n\n\
                      @ checker\nverdict pass correctness=5@go.mod:3 scope=5@gate:small";

#[test]
fn dependency_sweeper_proposes_updates_once() {
    let script = format!("{UPDATE} risk=4@gate:tests\n").leak();
    let sent = &["pull-request"];
    check(&Case { pattern: "dependency-sweeper", work: None, script, item: "example.org/pad@v1.0.2", sent, again: 15 });
}

#[test]
fn dependency_updater_proposes_an_update_once() {
    let script = format!("{UPDATE}\n").leak();
    let sent = &["pull-request"];
    check(&Case { pattern: "dependency-updater", work: None, script, item: "example.org/pad@v1.0.2", sent, again: 0 });
}

#[test]
fn doc_sync_proposes_a_correction_once() {
    let script = "@ maker\nreplace docs/usage.md subtracts adds\nstage pull-request.md \"calc.sh adds\"\n\n\
                  @ checker\nverdict pass accuracy=5@docs/usage.md:1 scope=5@gate:documents-only\n";
    check(&Case { pattern: "doc-sync", work: None, script, item: "main@", sent: &["pull-request"], again: 15 });
}

#[test]
fn issue_groomer_labels_and_plans_an_issue_once() {
    let script = "@ maker\nstage 1-issue-label-3.txt \"bug\\ngroomed\\n\"\nstage 2-issue-comment-3.md \"calc.sh:2 has the wrong sign.\"\n\n\
                  @ checker\nverdict pass accuracy=5@item:2-issue-comment-3.md:1 usefulness=4@item:2-issue-comment-3.md:1\n";
    let sent = &["issue-label", "issue-comment"];
    check(&Case { pattern: "issue-groomer", work: Some(ISSUE), script, item: "issue-3@", sent, again: 0 });
}

#[test]
fn pr_reviewer_comments_on_a_pull_request_once() {
    let script = "@ maker\nstage 1-pr-comment-7.md \"The product of large numbers overflows.\"\n\
                  stage 2-pr-inline-7.jsonl <<END\n{\"path\": \"calc.sh\", \"line\": 2, \"side\": \"right\", \"body\": \"It overflows.\"}\nEND\n\n\
                  @ checker\nverdict pass accuracy=5@item:1-pr-comment-7.md:1 value=4@item:1-pr-comment-7.md:1\n";
    let sent = &["pr-comment", "pr-inline"];
    check(&Case { pattern: "pr-reviewer", work: Some(PULL), script, item: "pr-7@abc", sent, again: 0 });
}

//! The two worlds of a pattern: a repository with its loop, and a forge that people can see. The loop file is the one that
//! `new` writes. Only its times are replaced, because no test waits for 09:00, and the parts that `new` asks a person
//! to complete.

use super::env;
use loopwright_testkit::fake_forge::IssueDraft;
use loopwright_testkit::{FakeForge, FakeRepo, TRUSTED_PATH, TestEnv, TestRepo, wait};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The longest wait; a busy machine is slow.
const LONG: Duration = Duration::from_secs(120);

/// The agents of every loop that names none.
const CONFIG: &str = "agents:\n  maker: { use: scripted, script: play.script }\n";

/// A stand-in for the package manager: it knows one newer version, and its tests pass.
const GO: &str = "#!/bin/sh\ncase $1 in\nlist) echo example.org/pad@v1.0.2 ;;\n\
                  test) sh tests/adds.sh && echo \"ok  \texample.org/app\t0.002s\" ;;\nesac\n";

/// The repository on the fake GitHub.
const NAME: &str = "acme/app";

/// The numbers of the issue and of the pull request.
const ISSUE: u64 = 3;
const PULL: u64 = 7;

/// The forge that a pattern uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeKind {
    Local,
    GitHub,
}

/// The entry of people or a build server on the forge, for the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SomeWork {
    /// Nothing: the repository itself is the work.
    Repository,
    Issue,
    Pull,
    Check,
}

impl SomeWork {
    /// The page on the local forge.
    fn page(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Repository => return None,
            Self::Issue => (
                "issues/3/0001-issue.md",
                "---\nkind: issue-create\nstate: open\ntitle: The sum is wrong\nauthor: ada\n---\n\n2 and 3 make -1.\n",
            ),
            Self::Pull => (
                "pulls/7.md",
                "---\nkind: pull-request\nstate: open\nhead: abc\nbase: main\nauthor: ada\n---\n\nAdd a product.\n",
            ),
            Self::Check => {
                ("checks/build.md", "---\nstate: failed\nhead: abc\nbranch: main\n---\n\ntests/adds.sh failed\n")
            }
        })
    }
}

/// A pattern, its work and its expected result.
pub(super) struct Case {
    pub(super) pattern: &'static str,
    pub(super) work: SomeWork,
    pub(super) script: &'static str,
    /// The item that the round takes, up to its revision.
    pub(super) item: &'static str,
    /// The kinds that leave the machine.
    pub(super) sent: &'static [&'static str],
    /// The exit code of a second `run`: 0 for no work, 15 if an open pull request blocks the loop.
    pub(super) again: i32,
}

/// The repository, its forge, its state and the program.
pub(super) struct World {
    env: TestEnv,
    repo: TestRepo,
    pattern: &'static str,
    forge: Option<FakeForge>,
}

impl World {
    pub(super) fn new(case: &Case, forge: ForgeKind) -> Self {
        let env = env();
        let bin = env.home().join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("go"), GO).expect("a program");
        std::fs::set_permissions(bin.join("go"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let config = env.root().join("config.yaml");
        let env =
            env.with_env("PATH", format!("{}:{TRUSTED_PATH}", bin.display())).with_env("LOOPWRIGHT_CONFIG", config);
        let repo = env.repo("repo");
        let sign = if case.work == SomeWork::Check { "-" } else { "+" };
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
        let forge = (forge == ForgeKind::GitHub).then(FakeForge::start);
        let world = Self { env, repo, pattern: case.pattern, forge };
        world.configure();
        world.complete();
        if let Some(remote) = world.remote() {
            remote.copy_branches_from(world.repo.path());
        }
        world
    }

    /// The user's own configuration: the forge and its token.
    fn configure(&self) {
        let text = self.forge.as_ref().map_or_else(String::new, |forge| {
            forge.create_repo(NAME).add_writer("bot");
            self.repo.git(["remote", "add", "origin", &forge.repo(NAME).clone_url()]);
            let token = self.env.root().join("token");
            std::fs::write(&token, forge.token("bot")).expect("a token");
            std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("its mode");
            format!("forges:\n  work: {{ kind: github, url: {}, token_file: {} }}\n", forge.url(), token.display())
        });
        std::fs::write(self.env.root().join("config.yaml"), text).expect("a configuration");
    }

    fn remote(&self) -> Option<FakeRepo<'_>> {
        self.forge.as_ref().map(|forge| forge.repo(NAME))
    }

    /// Completes the loop file as `new` asks for it, and makes it due every second.
    fn complete(&self) {
        let file = format!(".loopwright/loops/{}.md", self.pattern);
        let text = self.repo.read(&file);
        let is_time = |line: &str| ["  every: ", "  daily: ", "  cron: "].iter().any(|key| line.starts_with(key));
        let lines = text.lines().filter(|line| !line.starts_with("  jitter: ")).map(|line| match line {
            line if is_time(line) => "  every: 1s\n".to_owned(),
            line if line.starts_with("name: ") && self.forge.is_some() => format!("{line}\nforge: work\n"),
            line => {
                format!("{}\n", line.strip_prefix("# ").filter(|line| line.starts_with("network: ")).unwrap_or(line))
            }
        });
        self.repo.write(&file, lines.collect::<String>()).commit("a loop");
        let _ = self.env.loopwright_in(self.repo.path(), ["check", self.pattern]).success();
    }

    pub(super) fn json(&self, words: &[&str], code: i32) -> Value {
        let words = words.iter().copied().chain(["--json"]);
        self.env.loopwright_in(self.repo.path(), words).code(code).json()
    }

    /// A second `run`, with its exit code and its document.
    pub(super) fn run_again(&self) -> (i32, Value) {
        let mut command = self.env.command(self.repo.path());
        let ran = command.args(["run", self.pattern, "--json"]).output().expect("the program starts");
        (ran.status.code().unwrap_or(-1), serde_json::from_slice(&ran.stdout).unwrap_or_default())
    }

    /// A person approves every round that waits.
    pub(super) fn approve_all(&self) {
        let rounds = self.json(&["rounds"], 0);
        for round in rounds["rounds"].as_array().into_iter().flatten() {
            if round["outcome"] == "escalated" {
                let id = round["round"].as_str().expect("an id");
                let _ = self.env.command(self.repo.path()).args(["approve", id]).output().expect("the program starts");
            }
        }
    }

    /// One pass of the scheduler; `look` chooses the entry of its document to wait for.
    pub(super) fn tick_until(&self, what: &str, look: impl Fn(&Value) -> Option<Value>) -> Value {
        wait::value(what, LONG, || look(&self.json(&["tick"], 0)))
    }

    /// The round of a due moment.
    pub(super) fn due_round(&self) -> Value {
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

    /// People leave the work on the forge, after a due moment without work.
    pub(super) fn add_work(&self, case: &Case) {
        let Some((path, text)) = case.work.page() else { return };
        let id = self.idle_repo();
        match self.remote() {
            Some(remote) => self.add_remote_work(&remote, case.work),
            None => {
                let path = self.env.state().join("forge").join(id).join(path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
                std::fs::write(path, text).expect("a page");
            }
        }
    }

    fn add_remote_work(&self, remote: &FakeRepo<'_>, work: SomeWork) {
        // Earlier items have the numbers before it, and are closed.
        let fill = |until: u64| {
            (1..until).for_each(|_| {
                remote.close_item(remote.open_issue(&IssueDraft { author: "ada", ..IssueDraft::default() }))
            });
        };
        match work {
            SomeWork::Repository => {}
            SomeWork::Issue => {
                fill(ISSUE);
                let (title, body) = ("The sum is wrong", "2 and 3 make -1.");
                let draft = IssueDraft { author: "ada", title, body, ..IssueDraft::default() };
                assert_eq!(remote.open_issue(&draft), ISSUE);
            }
            SomeWork::Pull => {
                fill(PULL);
                remote.push_file("product", "calc.sh", "#!/bin/sh\necho $(( $1 * $2 ))\n", "Add a product");
                assert_eq!(remote.open_pull("ada", "product", "Add a product", "It multiplies."), PULL);
            }
            SomeWork::Check => {
                remote.fail_check("build", self.repo.git(["rev-parse", "main"]).trim());
            }
        }
    }

    /// Everything that people can see on the forge: a page, an item or a comment each.
    pub(super) fn visible(&self) -> Vec<String> {
        let mut all = Vec::new();
        match self.remote() {
            None => collect(&self.env.state().join("forge"), &mut all),
            Some(remote) => {
                for item in remote.pulls().into_iter().chain(remote.issues()) {
                    all.extend(remote.comments(item.number).iter().map(|comment| format!("{comment:?}")));
                    all.extend(remote.reviews(item.number).iter().map(|review| format!("{review:?}")));
                    all.extend(item.labels.iter().map(|label| format!("{} {label}", item.number)));
                    all.push(format!("{item:?}"));
                }
                all.extend(remote.branches().into_iter().map(|name| format!("{name} {:?}", remote.branch(&name))));
            }
        }
        all.sort();
        all
    }
}

fn collect(folder: &Path, pages: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension() {
            _ if path.is_dir() => collect(&path, pages),
            Some(ending) if ending == "md" => {
                let text = std::fs::read_to_string(&path).expect("a page is text");
                pages.push(format!("{}\n{text}", path.display()));
            }
            _ => {}
        }
    }
}

/// The kinds of the items that were sent.
pub(super) fn sent(round: &Value) -> Vec<&str> {
    let items = round["outbox"].as_array().expect("a list").iter();
    let kinds = items.map(|item| {
        assert_eq!(item["state"], "sent", "{item}");
        assert!(!item["receipt"].is_null(), "{item}");
        item["kind"].as_str().expect("a kind")
    });
    kinds.collect()
}

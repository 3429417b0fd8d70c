//! Probes without a round: which items they find and leave out, and that "no" leaves nothing behind.

use loopwright::git::UserRepo;
use loopwright::probe::ProbeResult;
use loopwright::proc::CancelToken;
use loopwright::spec::{ItemsForm, ProbeSpec};
use loopwright::store::{ItemRow, RoundsQuery, RowChange};
use loopwright::{Engine, EngineSettings, LoopLevel, LoopSpec};
use loopwright_testkit::TestRepo;
use std::path::PathBuf;

struct World {
    repo: TestRepo,
    engine: Engine,
    user: UserRepo,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let (repo, folder) = (TestRepo::new(), tempfile::tempdir().expect("a folder"));
        repo.write("src/a", "1").write("docs/a", "1").commit("first");
        let engine = Engine::open(EngineSettings::new(folder.path().join("state"))).await.expect("opens");
        let user = engine.git().discover(repo.path()).await.expect("a repository");
        Self { repo, engine, user, folder }
    }

    async fn ask(&self, spec: &LoopSpec) -> ProbeResult {
        loopwright::probe::probe_only(&self.engine, spec, &self.user, &CancelToken::new()).await.expect("can be asked")
    }

    async fn keys(&self, spec: &LoopSpec) -> Vec<String> {
        match self.ask(spec).await {
            ProbeResult::None => Vec::new(),
            ProbeResult::Items(items) => items.into_iter().map(|item| item.key).collect(),
            ProbeResult::Failed(text) => vec![format!("failed: {text}")],
            ProbeResult::SetupIncomplete => vec!["unasked".to_owned()],
        }
    }

    async fn settle(&self, spec: &LoopSpec, key: &str, state: &str) {
        self.keep(spec, key, state, 0).await;
    }

    async fn fail(&self, spec: &LoopSpec, key: &str, failures: i64) {
        self.keep(spec, key, "failed", failures).await;
    }

    async fn keep(&self, spec: &LoopSpec, key: &str, state: &str, failures: i64) {
        let row = ItemRow {
            repo: self.user.id.clone(),
            loop_name: spec.name.clone(),
            key: key.to_owned(),
            state: loopwright::store::WorkItemState::parse(state).expect("a state"),
            failures,
            round: "r".to_owned(),
            updated_ms: 1,
        };
        self.engine.write_rows(vec![RowChange::Item(row)]).await.expect("kept");
    }

    fn forge(&self) -> PathBuf {
        self.folder.path().join("state/forge").join(&self.user.id)
    }

    fn page(&self, path: &str, text: &str) {
        let path = self.forge().join(path);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("folders");
        std::fs::write(path, text).expect("written");
    }
}

fn probing(probe: ProbeSpec) -> LoopSpec {
    let mut spec = LoopSpec::new("look", "look", LoopLevel::L1Report).with_maker_prompt("Look.");
    spec.on.probe = Some(probe);
    spec
}

fn named(name: &str) -> LoopSpec {
    probing(ProbeSpec::Named(name.to_owned()))
}

fn command(script: &str, items: ItemsForm) -> LoopSpec {
    probing(ProbeSpec::Run { run: ["sh", "-c", script].map(str::to_owned).to_vec(), items, batch: 1 })
}

#[tokio::test]
async fn commit_is_work_until_it_is_processed_and_the_next_one_is_work_again() {
    let world = World::new().await;
    let spec = named("commits");
    let first = format!("main@{}", world.repo.head());
    assert_eq!(world.keys(&spec).await, std::slice::from_ref(&first));
    world.settle(&spec, &first, "processed").await;
    assert_eq!(world.ask(&spec).await, ProbeResult::None);
    assert_eq!(world.ask(&spec).await, ProbeResult::None);
    // Stored rows override earlier results: a person requests it again.
    world.settle(&spec, &first, "failed").await;
    assert_eq!(world.keys(&spec).await, std::slice::from_ref(&first));
    world.settle(&spec, &first, "waiting").await;
    world.repo.write("src/a", "2").commit("second thoughts");
    world.repo.git(["pack-refs", "--all"]);
    let ProbeResult::Items(items) = world.ask(&spec).await else { panic!("there is work") };
    assert_eq!(items[0].key, format!("main@{}", world.repo.head()));
    assert!(items[0].title.as_deref().is_some_and(|title| title.contains("second thoughts")), "{items:?}");
    world.repo.git(["checkout", "--quiet", "--detach"]);
    assert_eq!(world.keys(&spec).await, [format!("HEAD@{}", world.repo.head())]);
}

#[tokio::test]
async fn files_are_work_when_base_changes_at_the_globs() {
    let world = World::new().await;
    let mut spec = named("files");
    assert!(world.keys(&spec).await[0].contains("there are none"));
    spec.on.files = vec!["src/**".to_owned()];
    let keys = world.keys(&spec).await;
    assert!(keys[0].starts_with("files@"), "{keys:?}");
    world.settle(&spec, &keys[0], "processed").await;
    world.repo.write("docs/a", "2").commit("elsewhere");
    assert_eq!(world.ask(&spec).await, ProbeResult::None);
    world.repo.write("src/a", "2");
    assert_eq!(world.ask(&spec).await, ProbeResult::None, "what is not committed is not base");
    world.repo.commit("here");
    assert_ne!(world.keys(&spec).await, keys);
}

#[tokio::test]
async fn local_forge_s_open_work_is_found_without_the_loop_s_own() {
    let world = World::new().await;
    let pulls = named("open-prs");
    assert_eq!(world.ask(&pulls).await, ProbeResult::None);
    let pull = |state: &str, of: &str| {
        format!("---\nkind: pull-request\nstate: {state}\nhead: abc\nloop: {of}\n---\n\nText\n")
    };
    world.page("pulls/1.md", &pull("closed", "other"));
    world.page("pulls/2.md", &pull("open", "look"));
    world.page("pulls/10.md", &pull("open", "other"));
    assert_eq!(world.keys(&pulls).await, ["pr-10@abc"]);
    let issues = named("open-issues");
    world.page("issues/3/0001-issue.md", "---\nkind: issue-create\nstate: open\ntitle: Sum\n---\n\nIt is wrong.\n");
    let before = world.keys(&issues).await;
    assert!(before[0].starts_with("issue-3@"), "{before:?}");
    world.page("issues/3/0002-comment.md", "---\nkind: issue-comment\nloop: look\n---\n\nI look.\n");
    assert_eq!(world.keys(&issues).await, before, "the loop's own comments are no news to it");
    world.page("issues/3/0003-comment.md", "---\nkind: issue-comment\n---\n\nStill wrong.\n");
    assert_ne!(world.keys(&issues).await, before);
    let checks = named("failing-ci");
    world.page("checks/build.md", "---\nstate: failed\nhead: abc\n---\n\nerror\n");
    world.page("checks/lint.md", "---\nstate: passed\nhead: abc\n---\n");
    assert_eq!(world.keys(&checks).await, ["ci-build@abc"]);
    let mut elsewhere = named("open-prs");
    elsewhere.forge = "github".to_owned();
    let found_keys = world.keys(&elsewhere).await;
    assert!(
        found_keys[0].starts_with("failed:") && found_keys[0].contains("no forge `github` is connected here"),
        "{found_keys:?}"
    );
}

/// The query as written in a loop file.
fn asking(probe: &str) -> LoopSpec {
    let text = format!("---\nname: look\nintent: look\non: {{ probe: {{ {probe} }} }}\n---\n# Maker\nLook.\n");
    loopwright::spec::read_loop_file("look.md", text.as_bytes()).unwrap_or_else(|why| panic!("{why}")).into_spec()
}

#[tokio::test]
async fn issues_are_found_by_label_author_and_text() {
    let world = World::new().await;
    let issue = |title: &str, more: &str| {
        format!("---\nkind: issue-create\nstate: open\ntitle: \"{title}\"\n{more}\n---\n\nIt is wrong.\n")
    };
    world.page("issues/1/0001-issue.md", &issue("Sum panics", "author: ada\nlabels: [\"bug\",\"ui\"]"));
    world.page("issues/2/0001-issue.md", &issue("Docs are thin", "author: bob\nlabels: [\"docs\"]"));
    world.page("issues/3/0001-issue.md", &issue("A panic again", "loop: triage\nlabels: [\"bug\",\"wontfix\"]"));
    world.page("issues/4/0001-issue.md", &issue("Slow", "author: ada\nassignees: [\"bob\"]"));
    world.page("issues/4/0002-labels.md", "---\nkind: issue-label\nloop: look\nlabels: [\"bug\"]\n---\n\n- bug\n");
    let table = [
        ("use: open-issues, batch: 9", "1 2 3 4"),
        ("use: open-issues, batch: 9, labels: bug", "1 3 4"),
        ("use: open-issues, batch: 9, labels: [bug, ui]", "1"),
        ("use: open-issues, batch: 9, labels: bug, not_labels: [wontfix, ui]", "4"),
        ("use: open-issues, batch: 9, author: [ada, triage]", "1 3 4"),
        ("use: open-issues, batch: 9, text: PANIC", "1 3"),
        ("use: open-issues, batch: 9, text: is wrong, author: bob", "2"),
        ("use: open-issues, batch: 9, assignee: bob", "4"),
        ("use: open-issues, batch: 9, assignee: ada", ""),
        ("use: open-issues, labels: bug", "1"),
        ("use: open-issues, labels: nothing", ""),
    ];
    for (query, expected) in table {
        let keys = world.keys(&asking(query)).await;
        let numbers: Vec<_> = keys.iter().map(|key| key.trim_start_matches("issue-").split('@').next()).collect();
        let numbers: Vec<_> = numbers.into_iter().flatten().collect();
        assert_eq!(numbers.join(" "), expected, "{query}");
    }
}

#[tokio::test]
async fn pull_requests_and_checks_are_found_by_query() {
    let world = World::new().await;
    let pull = |base: &str, more: &str| format!("---\nstate: open\nhead: abc\nbase: {base}\n{more}\n---\n\nText\n");
    world.page("pulls/1.md", &pull("main", "labels: [\"deps\"]\nauthor: ada"));
    world.page("pulls/2.md", &pull("release", "labels: [\"deps\"]"));
    let head = world.repo.head();
    world.page("checks/build-linux.md", &format!("---\nstate: failed\nhead: {head}\n---\n\nerror\n"));
    world.page("checks/build-mac.md", "---\nstate: failed\nhead: old\n---\n\nerror\n");
    world.page("checks/lint.md", "---\nstate: failed\nhead: old\nbranch: main\n---\n\nerror\n");
    let table = [
        ("use: open-prs, batch: 9, labels: deps", "pr-1@abc pr-2@abc".to_owned()),
        ("use: open-prs, batch: 9, branch: release", "pr-2@abc".to_owned()),
        ("use: open-prs, author: ada", "pr-1@abc".to_owned()),
        ("use: failing-ci, batch: 9", format!("ci-build-linux@{head} ci-build-mac@old ci-lint@old")),
        ("use: failing-ci, batch: 9, checks: build-*", format!("ci-build-linux@{head} ci-build-mac@old")),
        ("use: failing-ci, batch: 9, branch: main", format!("ci-build-linux@{head} ci-lint@old")),
    ];
    for (query, expected) in table {
        assert_eq!(world.keys(&asking(query)).await.join(" "), expected, "{query}");
    }
}

#[tokio::test]
async fn commits_and_files_are_read_from_the_probes_branch() {
    let world = World::new().await;
    world.repo.git(["branch", "release"]);
    let release = world.repo.head();
    world.repo.write("src/a", "2").commit("on main");
    let commits = asking("use: commits, branch: release");
    assert_eq!(world.keys(&commits).await, [format!("release@{release}")]);
    world.repo.git(["update-ref", "refs/remotes/origin/next", &release]);
    assert_eq!(world.keys(&asking("use: commits, branch: origin/next")).await, [format!("origin/next@{release}")]);
    let (here, there) = (asking("use: files, paths: src/**"), asking("use: files, paths: src/**, branch: release"));
    assert_ne!(world.keys(&here).await, world.keys(&there).await);
    let docs = (asking("use: files, paths: docs"), asking("use: files, paths: docs, branch: release"));
    assert_eq!(world.keys(&docs.0).await, world.keys(&docs.1).await, "nothing differs there");
}

#[tokio::test]
async fn exit_code_of_a_command_is_its_answer_and_nothing_stays_behind() {
    let world = World::new().await;
    assert_eq!(world.keys(&command("cat src/a; echo; echo two", ItemsForm::Lines)).await, ["1"]);
    assert_eq!(world.ask(&command("exit 1", ItemsForm::Lines)).await, ProbeResult::None);
    assert_eq!(world.ask(&command("exit 0", ItemsForm::None)).await, ProbeResult::Items(Vec::new()));
    let failed = world.keys(&command("echo broken >&2; exit 3", ItemsForm::Lines)).await;
    assert_eq!(failed, ["failed: the probe ended with code 3: broken"]);
    let spec = command("echo one; echo two", ItemsForm::Lines);
    world.settle(&spec, "one", "processed").await;
    assert_eq!(world.keys(&spec).await, ["two"]);
    world.settle(&spec, "two", "waiting").await;
    assert_eq!(world.ask(&spec).await, ProbeResult::None);
    assert_eq!(world.engine.store().rounds(RoundsQuery::default()).await.expect("read"), []);
    let rounds = world.folder.path().join("state/workspaces").join(&world.user.id).join("rounds");
    assert_eq!(std::fs::read_dir(rounds).expect("is there").count(), 0);
}

#[tokio::test]
async fn probe_with_a_batch_gets_that_many_items_a_round() {
    let world = World::new().await;
    let run = ["sh", "-c", "echo a; echo b; echo c; echo d"].map(str::to_owned).to_vec();
    let spec = probing(ProbeSpec::Run { run, items: ItemsForm::Lines, batch: 2 });
    world.settle(&spec, "b", "processed").await;
    assert_eq!(world.keys(&spec).await, ["a", "c"]);
    world.fail(&spec, "c", 1).await;
    assert_eq!(world.keys(&spec).await, ["a", "d"], "what failed waits until it comes first");
    world.settle(&spec, "a", "processed").await;
    assert_eq!(world.keys(&spec).await, ["c"], "and is then taken alone");
}

#[tokio::test]
async fn outdated_reports_why_it_cannot_answer() {
    let world = World::new().await;
    let found_keys = world.keys(&named("outdated")).await;
    assert!(found_keys[0].contains("supports Cargo.toml, package.json, go.mod"), "{found_keys:?}");
    world.repo.write("package.json", "{}").commit("a manifest");
    let found_keys = world.keys(&named("outdated")).await;
    assert!(found_keys[0].contains("for package.json name the hosts of its registry"), "{found_keys:?}");
}

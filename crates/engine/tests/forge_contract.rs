//! The local forge fulfils the contract of forges, and a push with a lent credential leaves no trace of it.

#![expect(clippy::unwrap_used, reason = "the fixture is a test too")]

mod git_fixture;
#[path = "common/stepping_clock.rs"]
mod stepping_clock;

use git_fixture::{Fixture, bytes_of, git, seal, write};
use loopwright::git::{EngineRepo, GitErrorKind, Oid};
use loopwright::outbox::{LocalForge, PageFrontMatter, PushRoute, PushingDeliver};
use loopwright::store::{ProcessInfo, Store, StoreMode};
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt, PushCredential, PushTarget,
};
use loopwright_core::forge::ReadForge;
use loopwright_core::outbox::StagedItem;
use loopwright_core::spec::ActionKind;
use loopwright_testkit::forge_contract::{ForgeFixture, LOOP, PersonIssue, marks};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "c2VjcmV0LXRva2Vu";

/// A repository with one sealed change, and a local forge beside it.
struct World {
    fixture: Fixture,
    engine: EngineRepo,
    base: Oid,
    commit: Oid,
    tree: Oid,
    forge: LocalForge,
}

async fn world() -> World {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "changed\n");
    let sealed = seal(&all, &workspace).await;
    let engine = all.engine().clone();
    let clock = Arc::new(stepping_clock::SteppingClock::new(1_700_000_000_000, 1000));
    let forge = LocalForge::open(&fixture.state().join("forge/repo-1"), engine.clone(), clock).await.unwrap();
    World { forge, engine, base: workspace.base.clone(), commit: sealed.commit, tree: sealed.tree, fixture }
}

impl World {
    fn root(&self) -> PathBuf {
        self.fixture.state().join("forge/repo-1")
    }

    /// Edits the front matter of a page, as a person does.
    fn edit(&self, path: &str, key: &str, value: &str) {
        let path = self.root().join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{key}:"))).unwrap().to_owned();
        std::fs::write(&path, text.replacen(&line, &format!("{key}: {value}"), 1)).unwrap();
    }

    fn put(&self, path: &str, page: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, page).unwrap();
    }
}

impl ForgeFixture for World {
    fn writer(&self) -> &dyn Deliver {
        &self.forge
    }

    fn reader(&self) -> &dyn ReadForge {
        &self.forge
    }

    fn delivery(&self, round: &str, item: StagedItem) -> Delivery {
        let (marker, key) = marks(round, &item);
        Delivery {
            work: String::new(),
            loop_name: LOOP.to_owned(),
            round: round.to_owned(),
            repo: "repo-1".to_owned(),
            marker,
            key,
            branch: format!("loop/{LOOP}/{round}"),
            commit: Some(self.commit.to_string()),
            tree: Some(self.tree.to_string()),
            base_branch: "main".to_owned(),
            base_commit: self.base.to_string(),
            reviewed_head: None,
            question: None,
            draft: true,
            labels: vec!["loopwright".to_owned()],
            facts: Vec::new(),
            item,
        }
    }

    fn close_pull(&self, number: u64) {
        self.edit(&format!("pulls/{number}.md"), "state", "closed");
    }

    fn rename_pull(&self, number: u64, title: &str) {
        self.edit(&format!("pulls/{number}.md"), "title", title);
    }

    fn open_issue(&self, issue: &PersonIssue<'_>) {
        let number = std::fs::read_dir(self.root().join("issues")).into_iter().flatten().count() + 1;
        let front = PageFrontMatter::default()
            .with("kind", "issue-create")
            .with("state", "open")
            .with("title", issue.title)
            .with("author", issue.author)
            .with("labels", issue.labels.to_vec())
            .with("assignees", issue.assignee.into_iter().collect::<Vec<_>>());
        self.put(&format!("issues/{number}/0001-issue.md"), &front.page(issue.body));
    }

    fn fail_check(&self, name: &str, head: &str) {
        let front = PageFrontMatter::default().with("state", "failed").with("head", head);
        self.put(&format!("checks/{name}.md"), &front.page("It broke.\n"));
    }

    fn push_other(&self, branch: &str) -> String {
        let dir = self.root().join("repo.git");
        git(&dir, &["update-ref", &format!("refs/heads/{branch}"), self.base.as_str()]);
        self.base.to_string()
    }

    fn branch(&self, name: &str) -> Option<String> {
        let dir = self.root().join("repo.git");
        let (found, oid) =
            git_fixture::try_git(&dir, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{name}")]);
        found.then(|| oid.trim().to_owned())
    }
}

loopwright_testkit::forge_contract!(world);

/// A forge whose commits must be pushed, with a credential that only the push may see.
struct Remote {
    target: PushTarget,
}

impl Deliver for Remote {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        let receipt = DeliveryReceipt { place: "here".to_owned(), head: item.commit.clone(), at_ms: 0, note: None };
        Box::pin(std::future::ready(Ok(receipt)))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }

    fn push_target<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        Box::pin(std::future::ready(Ok(Some(self.target.clone()))))
    }
}

/// A clone of the user's repository that plays a remote forge.
fn remote(world: &World) -> PathBuf {
    let bare = world.fixture.path("remote.git");
    git(&world.fixture.repo(), &["clone", "--quiet", "--bare", ".", &bare.display().to_string()]);
    bare
}

fn target(bare: &Path, expected_old: Option<&Oid>) -> PushTarget {
    PushTarget {
        url: format!("file://{}", bare.display()),
        branch: "loop/fixer/r1".to_owned(),
        expected_old: expected_old.map(ToString::to_string),
        credential: PushCredential::new(format!("Basic {SECRET}")),
    }
}

fn item(world: &World) -> Delivery {
    let kind = loopwright_core::spec::ActionKind::PullRequest;
    world.delivery("r1", StagedItem::new(1, "pull-request.md", kind, "Fix."))
}

#[tokio::test]
async fn engine_pushes_with_the_lent_credential_before_it_delivers_and_leaves_no_trace_of_it() {
    let world = world().await;
    let bare = remote(&world);
    // A hook of the receiving repository would run an untrusted program.
    write(&bare, "hooks/pre-receive", "#!/bin/sh\nexit 1\n");
    let forge = PushingDeliver::new(Arc::new(Remote { target: target(&bare, None) }), world.engine.clone(), None);
    forge.deliver(&item(&world)).await.expect("it is pushed and delivered");
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/loop/fixer/r1"]), world.commit.to_string());
    for (path, (_, bytes)) in bytes_of(world.fixture.temp.path()) {
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{}", path.display());
    }
}

#[tokio::test]
async fn push_does_not_happen_after_the_lease_of_its_round_has_ended() {
    let world = world().await;
    let bare = remote(&world);
    let url = loopwright_testkit::postgres::server().database();
    let commit = StagedItem::new(1, "commit.md", ActionKind::Commit, "Fix.");
    let main = PushTarget { branch: "main".to_owned(), ..target(&bare, Some(&world.base)) };
    let item = Delivery { base_branch: "main".to_owned(), ..world.delivery("r1", commit) };
    let mut pushed = Vec::new();
    for seconds in [0, 60] {
        let info = ProcessInfo { lease: Duration::from_secs(seconds), ..ProcessInfo::current(0) };
        let store = Store::open_postgres(&url, StoreMode::Write(info)).await.expect("own");
        let remote = Arc::new(Remote { target: main.clone() });
        pushed.push(PushingDeliver::new(remote, world.engine.clone(), Some(Arc::new(store))).deliver(&item).await);
        let head = git(&bare, &["rev-parse", "refs/heads/main"]);
        assert_eq!(head == world.commit.to_string(), seconds > 0, "a lease of {seconds} s");
    }
    let ended = pushed.remove(0).expect_err("the lease has ended");
    assert_eq!((ended.kind, ended.is_after_effect), (DeliverErrorKind::Transient, true), "{ended}");
    pushed.remove(0).expect("it lasts long enough");
}

#[tokio::test]
async fn push_with_another_old_commit_than_the_branch_has_is_refused_and_changes_nothing() {
    let world = world().await;
    let bare = remote(&world);
    git(&bare, &["update-ref", "refs/heads/loop/fixer/r1", world.base.as_str()]);
    for expected in [None, Some(&world.commit)] {
        let mut target = target(&bare, expected);
        let pushed = world.engine.push_to(&world.commit, &world.tree, &target, None).await;
        let error = pushed.expect_err("the branch is elsewhere");
        assert_eq!(error.kind, GitErrorKind::Moved, "{error}");
        assert!(!format!("{error:?}").contains(SECRET));
        target.expected_old = None;
        let forge = PushingDeliver::new(Arc::new(Remote { target }), world.engine.clone(), None);
        let refused = forge.deliver(&item(&world)).await.expect_err("it is refused");
        assert_eq!(refused.kind, DeliverErrorKind::Refused);
    }
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/loop/fixer/r1"]), world.base.to_string());
    world
        .engine
        .push_to(&world.commit, &world.tree, &target(&bare, Some(&world.base)), None)
        .await
        .expect("the right one");
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/loop/fixer/r1"]), world.commit.to_string());
}

#[tokio::test]
async fn commit_with_another_tree_than_the_one_that_passed_is_not_pushed() {
    let world = world().await;
    let bare = remote(&world);
    let error =
        world.engine.push_to(&world.base, &world.tree, &target(&bare, None), None).await.expect_err("another tree");
    assert_eq!(error.kind, GitErrorKind::Moved, "{error}");
}

#[tokio::test]
async fn push_does_not_remove_a_persons_commit_even_when_the_forge_names_it() {
    let world = world().await;
    let bare = remote(&world);
    let tree = format!("{}^{{tree}}", world.base);
    let person = git(&bare, &["commit-tree", "-p", world.base.as_str(), "-m", "a person's fix", &tree]);
    git(&bare, &["update-ref", "refs/heads/loop/fixer/r1", &person]);
    let person: Oid = person.parse().expect("an oid");
    let pushed = world.engine.push_to(&world.commit, &world.tree, &target(&bare, Some(&person)), None).await;
    let error = pushed.expect_err("the branch has a commit that ours does not contain");
    assert_eq!(error.kind, GitErrorKind::Moved, "{error}");
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/loop/fixer/r1"]), person.to_string());
}

#[tokio::test]
async fn push_goes_only_to_the_items_branch_at_the_configured_place() {
    let world = world().await;
    let bare = remote(&world);
    let here = PushRoute { url: format!("file://{}", bare.display()), ..PushRoute::default() };
    let elsewhere = PushRoute { url: "https://forge.example/other.git".to_owned(), ..PushRoute::default() };
    let main = PushTarget { branch: "main".to_owned(), ..target(&bare, Some(&world.base)) };
    for (target, route) in [(main, &here), (target(&bare, None), &elsewhere)] {
        let forge =
            PushingDeliver::new(Arc::new(Remote { target }), world.engine.clone(), None).with_route(route.clone());
        let refused = forge.deliver(&item(&world)).await.expect_err("it is refused");
        assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    }
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/main"]), world.base.to_string());
    let forge = PushingDeliver::new(Arc::new(Remote { target: target(&bare, None) }), world.engine.clone(), None);
    forge.with_route(here).deliver(&item(&world)).await.expect("the item's branch at the configured place");
}

//! Deliveries end to end: a real bare repository and real files, with faults at every step.

#![expect(clippy::unwrap_used, reason = "the fixture is a test too")]

mod git_fixture;
#[path = "common/stepping_clock.rs"]
mod stepping_clock;

use git_fixture::{Fixture, git, seal, write};
use loopwright::git::{EngineRepo, Oid};
use loopwright::outbox::{DeliveryOutcome, LocalForge, PageFrontMatter, PriorDelivery, default_item, deliver_one};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt, EngineFact,
};
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision, StagedItem, item_id, marker};
use loopwright_core::spec::ActionKind;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A repository with one sealed change, and a forge beside it.
struct World {
    fixture: Fixture,
    engine: EngineRepo,
    base: Oid,
    commit: Oid,
    tree: Oid,
}

impl World {
    async fn new() -> Self {
        let fixture = Fixture::new();
        let (all, workspace) = fixture.workspace().await;
        write(&workspace.dir, "x", "changed\n");
        let sealed = seal(&all, &workspace).await;
        let engine = all.engine().clone();
        Self { engine, base: workspace.base.clone(), commit: sealed.commit, tree: sealed.tree, fixture }
    }

    fn root(&self) -> PathBuf {
        self.fixture.state().join("forge/repo-1")
    }

    async fn forge(&self) -> LocalForge {
        let clock = Arc::new(stepping_clock::SteppingClock::new(1_700_000_000_000, 1000));
        LocalForge::open(&self.root(), self.engine.clone(), clock).await.expect("it opens")
    }

    fn delivery(&self, item: StagedItem) -> Delivery {
        Delivery {
            work: String::new(),
            loop_name: "fixer".to_owned(),
            round: "r1".to_owned(),
            repo: "repo-1".to_owned(),
            marker: marker("fixer", "r1", item.position, "c1"),
            key: item_id("fixer", "r1", item.position, "c1"),
            branch: "loop/fixer/r1".to_owned(),
            commit: Some(self.commit.to_string()),
            tree: Some(self.tree.to_string()),
            base_branch: "main".to_owned(),
            base_commit: self.base.to_string(),
            reviewed_head: None,
            question: None,
            draft: true,
            labels: vec!["loopwright".to_owned()],
            facts: vec![EngineFact::new("gates", "tests passed")],
            item,
        }
    }

    fn pull(&self) -> Delivery {
        let item = StagedItem::new(1, "pull-request.md", ActionKind::PullRequest, "It was wrong.");
        self.delivery(StagedItem { title: Some("Fix the sign".to_owned()), ..item })
    }

    /// The commit of a branch in the forge's repository.
    fn branch(&self, name: &str) -> String {
        git(&self.root().join("repo.git"), &["rev-parse", &format!("refs/heads/{name}")])
    }

    /// Every page of the forge, by its path below the root.
    fn pages(&self) -> BTreeSet<String> {
        let mut pages = BTreeSet::new();
        for folder in ["pulls", "issues", "messages"] {
            collect(&self.root(), &self.root().join(folder), &mut pages);
        }
        pages
    }

    fn page(&self, path: &str) -> (PageFrontMatter, String) {
        let text = std::fs::read_to_string(self.root().join(path)).expect("the page is there");
        let (front, body) = PageFrontMatter::read(&text).expect("it has front matter");
        (front, body.to_owned())
    }
}

fn collect(root: &Path, folder: &Path, pages: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(root, &path, pages);
        } else {
            pages.insert(path.strip_prefix(root).expect("it is below").display().to_string());
        }
    }
}

fn targeted(position: u32, kind: ActionKind, target: &str, body: &str) -> StagedItem {
    StagedItem { target: Some(target.to_owned()), ..StagedItem::new(position, "x", kind, body) }
}

/// Fails the n-th call of a site at a moment.
struct FailAt {
    site: &'static str,
    moment: SeamMoment,
    seen: Mutex<Vec<String>>,
}

impl SeamHook for FailAt {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        let mut seen = self.seen.lock().expect("no thread panicked");
        seen.push(format!("{moment:?} {site}"));
        let first = seen.iter().filter(|entry| **entry == format!("{moment:?} {site}")).count() == 1;
        if site == self.site && moment == self.moment && first {
            return Err(SeamFault { site, when: "here" });
        }
        Ok(())
    }
}

fn fail_once(site: &'static str, moment: SeamMoment) -> Seam {
    Seam::hooked(Arc::new(FailAt { site, moment, seen: Mutex::default() }))
}

fn sent(verdict: DeliveryOutcome) -> DeliveryReceipt {
    match verdict {
        DeliveryOutcome::Sent(receipt) => receipt,
        other => panic!("not sent: {other:?}"),
    }
}

#[tokio::test]
async fn pull_request_is_a_branch_with_the_passed_tree_and_a_readable_file() {
    let world = World::new().await;
    let forge = world.forge().await;
    let pull = world.pull();
    let receipt = sent(deliver_one(&forge, &Seam::none(), &pull, PriorDelivery::Fresh).await);
    assert_eq!(receipt.place, world.root().join("pulls/1.md").display().to_string());
    assert_eq!(receipt.head.as_deref(), Some(world.commit.as_str()));
    assert_eq!(world.branch("loop/fixer/r1"), world.commit.as_str());
    assert_eq!(world.branch("loop/fixer/r1^{tree}"), world.tree.as_str());
    assert_eq!(world.branch("main"), world.base.as_str());
    let (front, body) = world.page("pulls/1.md");
    let texts = ["kind", "state", "title", "branch", "head", "base", "loop", "round", "marker", "created"];
    let texts: Vec<_> = texts.iter().map(|key| front.text(key).expect("the key is there")).collect();
    let (head, mark) = (world.commit.as_str(), pull.marker.as_str());
    let expected = [
        "pull-request",
        "open",
        "Fix the sign",
        "loop/fixer/r1",
        head,
        "main",
        "fixer",
        "r1",
        mark,
        "2023-11-14T22:13:20Z",
    ];
    assert_eq!(texts, expected);
    assert_eq!(front.get("draft"), Some(&true.into()));
    assert_eq!(front.get("labels"), Some(&vec!["loopwright"].into()));
    let expected = "# Fix the sign\n\n| fact | value |\n|---|---|\n| gates | tests passed |\n\n\
                    In the agent's words:\n\n> It was wrong.\n\n_Loopwright: loop `fixer`, round `r1`_\n";
    assert_eq!(body, expected);
}

#[tokio::test]
async fn second_delivery_of_a_key_returns_the_first_receipt_and_writes_nothing() {
    let world = World::new().await;
    let forge = world.forge().await;
    let pull = world.pull();
    let first = forge.deliver(&pull).await.expect("it is delivered");
    let edited = std::fs::read_to_string(&first.place).expect("a page").replace("state: open", "state: closed");
    std::fs::write(&first.place, &edited).expect("a person may edit");
    // Another user works on the branch; the item counts as delivered anyway.
    git(&world.root().join("repo.git"), &["update-ref", "refs/heads/loop/fixer/r1", world.base.as_str()]);
    let again = sent(deliver_one(&forge, &Seam::none(), &pull, PriorDelivery::MaybeSent).await);
    assert_eq!(again, first);
    assert_eq!(forge.deliver(&pull).await.expect("it is there"), first);
    assert_eq!(std::fs::read_to_string(&first.place).expect("a page"), edited);
    assert_eq!(world.pages().len(), 1);
}

#[tokio::test]
async fn success_whose_answer_is_lost_is_found_by_its_marker() {
    let world = World::new().await;
    let forge = world.forge().await;
    let seam = fail_once("deliver.execute", SeamMoment::After);
    let receipt = sent(deliver_one(&forge, &seam, &world.pull(), PriorDelivery::Fresh).await);
    assert!(receipt.place.ends_with("pulls/1.md"));
    assert_eq!(world.pages().len(), 1);
}

/// Each attempt uses a new forge, as after a restart of the process.
#[tokio::test]
async fn every_crash_point_of_every_kind_leaves_one_effect() {
    let kinds = [
        ActionKind::PullRequest,
        ActionKind::Commit,
        ActionKind::IssueCreate,
        ActionKind::IssueComment,
        ActionKind::Slack,
    ];
    let points = ["deliver.find", "deliver.execute", "forge.pointer", "forge.file", "git.fetch", "git.update-ref"];
    let mut faults = 0;
    for kind in kinds {
        let world = World::new().await;
        for (index, (site, moment)) in
            points.iter().flat_map(|site| [(*site, SeamMoment::Before), (*site, SeamMoment::After)]).enumerate()
        {
            let position = u32::try_from(index + 1).expect("a small number");
            let target = (kind == ActionKind::IssueComment).then(|| "7".to_owned());
            let title = (kind != ActionKind::Slack && target.is_none()).then(|| "Title".to_owned());
            let item = StagedItem { target, title, ..StagedItem::new(position, "x", kind, "words") };
            let round = format!("r{index}");
            let delivery = Delivery { branch: format!("loop/fixer/{round}"), round, ..world.delivery(item) };
            let seam = fail_once(site, moment);
            let faulty = loopwright::git::Git::new(seam.clone());
            let engine = EngineRepo::open(faulty, world.engine.dir().to_owned(), loopwright::git::ObjectFormat::Sha1);
            // Opening hits no injected fault: the repository exists, so git is not called.
            let engine = engine.await.expect("it is there");
            let clock = Arc::new(stepping_clock::SteppingClock::new(1_700_000_000_000, 1000));
            let mut prior = PriorDelivery::Fresh;
            for _ in 0..3 {
                let forge = LocalForge::open(&world.root(), engine.clone(), clock.clone()).await.expect("it opens");
                let verdict = deliver_one(&forge.with_seam(seam.clone()), &seam, &delivery, prior).await;
                prior = PriorDelivery::MaybeSent;
                match verdict {
                    DeliveryOutcome::Sent(_) => break,
                    DeliveryOutcome::Retry(_) => faults += 1,
                    other => panic!("{kind} {site} {moment:?}: {other:?}"),
                }
            }
            let found = world.forge().await.find(&delivery).await.expect("it looks");
            assert!(matches!(found, DeliveryLookup::Yes(_)), "{kind} {site} {moment:?}: {found:?}");
            assert_eq!(world.pages().len(), index + 1, "{kind} {site} {moment:?}: {:?}", world.pages());
        }
    }
    assert!(faults > 20, "the faults must strike: {faults}");
}

#[tokio::test]
async fn kill_between_push_and_file_is_resumed_on_the_same_branch() {
    let world = World::new().await;
    let pull = world.pull();
    let forge = world.forge().await.with_seam(fail_once("forge.pointer", SeamMoment::Before));
    let error = forge.deliver(&pull).await.expect_err("the seam fails");
    assert_eq!(error.kind, DeliverErrorKind::Transient);
    assert_eq!(world.branch("loop/fixer/r1"), world.commit.as_str());
    assert_eq!((forge.find(&pull).await, world.pages().len()), (Ok(DeliveryLookup::No), 0));
    let receipt = sent(deliver_one(&world.forge().await, &Seam::none(), &pull, PriorDelivery::MaybeSent).await);
    assert!(receipt.place.ends_with("pulls/1.md"));
    assert_eq!(world.branch("loop/fixer/r1"), world.commit.as_str());
}

#[tokio::test]
async fn number_taken_after_a_crash_is_left_to_its_owner() {
    let world = World::new().await;
    let first = world.delivery(StagedItem::new(1, "x", ActionKind::Slack, "first"));
    let second = world.delivery(StagedItem::new(2, "x", ActionKind::Slack, "second"));
    let forge = world.forge().await.with_seam(fail_once("forge.pointer", SeamMoment::After));
    forge.deliver(&first).await.expect_err("it dies with a pointer and no file");
    assert!(forge.deliver(&second).await.expect("it is delivered").place.ends_with("messages/1.md"));
    assert_eq!(forge.find(&first).await, Ok(DeliveryLookup::No));
    assert!(forge.deliver(&first).await.expect("it is delivered").place.ends_with("messages/2.md"));
    assert!(world.page("messages/1.md").1.contains("second"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_deliverers_get_different_numbers_and_one_effect_each() {
    let world = World::new().await;
    let mut tasks = Vec::new();
    for round in 0..4 {
        for position in 1..=6 {
            // Two forges, as in two processes; every item is delivered twice.
            let forge = world.forge().await;
            let item =
                targeted(position, ActionKind::IssueComment, "7", &format!("comment {position} of copy {round}"));
            let delivery = world.delivery(item);
            tasks.push(tokio::spawn(async move { forge.deliver(&delivery).await.expect("it is delivered").place }));
        }
    }
    let mut places = BTreeSet::new();
    for task in tasks {
        places.insert(task.await.expect("no panic"));
    }
    assert_eq!(places.len(), 6);
    let expected: BTreeSet<String> = (1..=6).map(|n| format!("issues/7/{n:04}-comment.md")).collect();
    assert_eq!(world.pages(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_deliverers_of_one_pull_request_push_once() {
    let world = World::new().await;
    let (one, two, pull) = (world.forge().await, world.forge().await, world.pull());
    let (first, second) = tokio::join!(one.deliver(&pull), two.deliver(&pull));
    // One of them may have hit the other's lock in git; the caller retries then.
    let receipts = [first, second].map(|receipt| receipt.map_err(|error| error.kind));
    assert!(
        receipts.iter().all(|receipt| receipt.is_ok() || *receipt == Err(DeliverErrorKind::Transient)),
        "{receipts:?}"
    );
    let last = one.deliver(&pull).await.expect("it is there");
    assert!(receipts.into_iter().flatten().all(|receipt| receipt == last));
    assert_eq!(world.pages().len(), 1);
}

#[tokio::test]
async fn foreign_commit_on_the_branch_is_never_overwritten() {
    let world = World::new().await;
    let forge = world.forge().await;
    forge.deliver(&Delivery { branch: "loop/fixer/other".to_owned(), ..world.pull() }).await.expect("it is delivered");
    let repo = world.root().join("repo.git");
    git(&repo, &["update-ref", "refs/heads/loop/fixer/r2", world.base.as_str()]);
    let item = StagedItem { position: 2, ..world.pull().item };
    let second = Delivery { branch: "loop/fixer/r2".to_owned(), ..world.delivery(item) };
    let verdict = deliver_one(&forge, &Seam::none(), &second, PriorDelivery::Fresh).await;
    let DeliveryOutcome::Refused(why) = verdict else { panic!("not refused: {verdict:?}") };
    assert!(why.contains("which is not ours"), "{why}");
    assert_eq!(world.branch("loop/fixer/r2"), world.base.as_str());
    assert_eq!(world.pages().len(), 1);
}

#[tokio::test]
async fn work_on_top_of_our_commit_is_left_to_a_human() {
    let world = World::new().await;
    let forge = world.forge().await.with_seam(fail_once("forge.pointer", SeamMoment::Before));
    forge.deliver(&world.pull()).await.expect_err("it dies after the push");
    let repo = world.root().join("repo.git");
    let more = git(&repo, &["commit-tree", world.tree.as_str(), "-p", world.commit.as_str(), "-m", "mine"]);
    git(&repo, &["update-ref", "refs/heads/loop/fixer/r1", &more]);
    let error = forge.deliver(&world.pull()).await.expect_err("another user worked on it");
    assert_eq!(error.kind, DeliverErrorKind::InDoubt);
    assert_eq!(world.branch("loop/fixer/r1"), more);
}

#[tokio::test]
async fn commit_with_another_tree_than_the_one_that_passed_is_refused() {
    let world = World::new().await;
    let forge = world.forge().await;
    let base_tree = world.engine.tree_of(&world.base).await.expect("the base is there").to_string();
    for kind in [ActionKind::PullRequest, ActionKind::Commit] {
        let item = StagedItem { kind, ..world.pull().item };
        for delivery in [
            Delivery { tree: Some(base_tree.clone()), ..world.delivery(item.clone()) },
            Delivery { tree: None, ..world.delivery(item.clone()) },
            Delivery { commit: None, ..world.delivery(item.clone()) },
            Delivery { commit: Some("HEAD".to_owned()), ..world.delivery(item.clone()) },
        ] {
            let verdict = deliver_one(&forge, &Seam::none(), &delivery, PriorDelivery::Fresh).await;
            assert!(matches!(verdict, DeliveryOutcome::Refused(_)), "{verdict:?}");
        }
    }
    assert!(!world.root().join("repo.git").exists());
    assert!(world.pages().is_empty());
}

#[tokio::test]
async fn commit_moves_base_forward_and_only_forward() {
    let world = World::new().await;
    let forge = world.forge().await;
    let commit = |position| {
        world.delivery(StagedItem {
            title: Some("Fix".to_owned()),
            ..StagedItem::new(position, "commit.md", ActionKind::Commit, "")
        })
    };
    let receipt = forge.deliver(&commit(1)).await.expect("it is delivered");
    assert_eq!(
        (receipt.head.as_deref(), world.branch("main").as_str()),
        (Some(world.commit.as_str()), world.commit.as_str())
    );
    let (front, _) = world.page("messages/1.md");
    assert_eq!((front.text("kind"), front.text("branch")), (Some("commit"), Some("main")));
    // Another user's commit is on base: ours no longer fits.
    let repo = world.root().join("repo.git");
    let other = git(&repo, &["commit-tree", world.tree.as_str(), "-p", world.base.as_str(), "-m", "theirs"]);
    git(&repo, &["update-ref", "refs/heads/main", &other]);
    let error = forge.deliver(&commit(2)).await.expect_err("base moved");
    assert_eq!(error.kind, DeliverErrorKind::Refused, "{error}");
    assert_eq!(world.branch("main"), other);
    // Another user built on our commit: it is already contained.
    let above = git(&repo, &["commit-tree", world.tree.as_str(), "-p", world.commit.as_str(), "-m", "above"]);
    git(&repo, &["update-ref", "refs/heads/main", &above]);
    forge.deliver(&commit(3)).await.expect("it is contained");
    assert_eq!(world.branch("main"), above);
}

#[tokio::test]
async fn every_kind_has_a_readable_file() {
    let world = World::new().await;
    let forge = world.forge().await;
    let comment =
        InlineComment { path: "x".into(), line: 3, side: DiffSide::Left, start_line: Some(2), body: "why?\n".into() };
    let title = Some("A title".to_owned());
    let items = [
        world.pull().item,
        StagedItem { title: title.clone(), ..StagedItem::new(2, "x", ActionKind::IssueCreate, "Flaky.") },
        targeted(3, ActionKind::IssueComment, "12", "Looks good."),
        StagedItem { labels: vec!["bug".into()], ..targeted(4, ActionKind::IssueLabel, "12", "") },
        targeted(5, ActionKind::PrComment, "1", "Hm."),
        StagedItem { comments: vec![comment], ..targeted(6, ActionKind::PrInline, "1", "") },
        StagedItem { review: Some(ReviewDecision::RequestChanges), ..targeted(7, ActionKind::PrReview, "1", "No.") },
        StagedItem::new(8, "x", ActionKind::Slack, "Done."),
        targeted(9, ActionKind::Webhook, "ci", "{\"a\":1}"),
        StagedItem::new(10, "x", ActionKind::Report, "All well."),
        StagedItem { title, ..StagedItem::new(11, "x", ActionKind::Commit, "Because.") },
    ];
    let expected = [
        ("pulls/1.md", "open", "In the agent's words"),
        ("issues/1/0001-issue.md", "open", "# A title\n\nFlaky.\n"),
        ("issues/12/0001-comment.md", "sent", "Looks good.\n"),
        ("issues/12/0002-labels.md", "sent", "- bug\n"),
        ("pulls/1/0001-comment.md", "sent", "Hm.\n"),
        ("pulls/1/0002-inline.md", "sent", "## `x`:2-3 (old)\n\nwhy?\n\n"),
        ("pulls/1/0003-review.md", "changes-requested", "No.\n"),
        ("messages/1.md", "sent", "Done.\n"),
        ("messages/2.md", "sent", "```json\n{\"a\":1}\n```\n"),
        ("messages/3.md", "sent", "All well.\n"),
        ("messages/4.md", "sent", "# A title\n\nBecause.\n"),
    ];
    let kinds: BTreeSet<_> = items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds.len(), ActionKind::ALL.len());
    for (item, (path, state, text)) in items.into_iter().zip(expected) {
        let delivery = world.delivery(item);
        let receipt = sent(deliver_one(&forge, &Seam::none(), &delivery, PriorDelivery::Fresh).await);
        assert_eq!(receipt.place, world.root().join(path).display().to_string());
        let (front, body) = world.page(path);
        assert_eq!(front.text("kind"), Some(delivery.item.kind.word()));
        assert_eq!(front.text("marker"), Some(delivery.marker.as_str()));
        assert_eq!((front.text("loop"), front.text("round")), (Some("fixer"), Some("r1")));
        assert_eq!(front.text("state"), Some(state), "{path}");
        assert!(body.contains(text), "{path}: {body}");
    }
    let (review, _) = world.page("pulls/1/0003-review.md");
    assert_eq!(review.text("head"), Some(world.commit.as_str()), "a review is about a commit");
    let expected: BTreeSet<_> = expected.iter().map(|(path, _, _)| (*path).to_owned()).collect();
    assert_eq!(world.pages(), expected);
    private(&world.root());
}

/// Checks that no other user can read what we wrote.
fn private(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry can be read").path();
        if path.ends_with("repo.git") {
            continue;
        }
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            private(&path);
        }
    }
}

#[tokio::test]
async fn new_pull_request_does_not_inherit_comments_on_an_unused_number() {
    let world = World::new().await;
    let forge = world.forge().await;
    forge.deliver(&world.delivery(targeted(2, ActionKind::PrComment, "7", "Hm."))).await.expect("it is delivered");
    assert!(forge.deliver(&world.pull()).await.expect("it is delivered").place.ends_with("pulls/8.md"));
}

#[tokio::test]
async fn deleted_pull_request_of_the_local_forge_stays_deleted() {
    let world = World::new().await;
    let (forge, pull) = (world.forge().await, world.pull());
    let receipt = forge.deliver(&pull).await.expect("it is delivered");
    std::fs::remove_file(&receipt.place).expect("a person deletes it");
    assert_eq!(forge.find(&pull).await.expect("it answers"), DeliveryLookup::Yes(receipt.clone()));
    assert_eq!(forge.deliver(&pull).await.expect("it was delivered"), receipt);
    assert!(world.pages().is_empty(), "{:?}", world.pages());
    std::fs::write(&receipt.place, "A person wrote another text.\n").expect("a page");
    assert_eq!(forge.deliver(&pull).await.expect("it was delivered"), receipt);
    assert_eq!(world.pages().len(), 1);
}

#[tokio::test]
async fn key_that_is_not_a_plain_word_is_refused() {
    let world = World::new().await;
    let forge = world.forge().await;
    for key in ["", "../../x", "a/b", "a.b"] {
        let delivery = Delivery { key: key.to_owned(), ..world.pull() };
        assert_eq!(forge.deliver(&delivery).await.expect_err("a bad key").kind, DeliverErrorKind::Refused);
    }
}

#[tokio::test]
async fn engine_written_request_carries_facts_alone() {
    let world = World::new().await;
    let item = default_item(ActionKind::PullRequest, 1, "Keep the docs true");
    world.forge().await.deliver(&world.delivery(item)).await.expect("it is delivered");
    let (_, body) = world.page("pulls/1.md");
    let footer = "_Loopwright: loop `fixer`, round `r1`_\n";
    let facts = "# Keep the docs true\n\n| fact | value |\n|---|---|\n| gates | tests passed |\n";
    assert_eq!(body, format!("{facts}\n{footer}"));
}

/// A forge with configured answers.
struct ScriptedForge {
    deliver: Result<DeliveryReceipt, DeliverError>,
    find: Vec<Result<DeliveryLookup, DeliverError>>,
    finds: AtomicUsize,
    delivered: AtomicUsize,
}

impl Deliver for ScriptedForge {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        self.delivered.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { self.deliver.clone() })
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        let nth = self.finds.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { self.find[nth.min(self.find.len() - 1)].clone() })
    }
}

#[tokio::test]
async fn answer_of_a_forge_decides_the_next_step() {
    let world = World::new().await;
    let item = world.pull();
    let receipt = DeliveryReceipt { place: "there".to_owned(), head: None, at_ms: 1, note: None };
    let yes = || Ok(DeliveryLookup::Yes(receipt.clone()));
    let (no, unknown) = (|| Ok(DeliveryLookup::No), || Ok(DeliveryLookup::Unknown));
    let (sent, doubt) = (Ok(receipt.clone()), Err(DeliverError::in_doubt("cut")));
    let bad = |kind| Err(DeliverError::new(kind, "bad"));
    use DeliverErrorKind::{Blocked, Failed, Refused, Transient};
    type Answers = Vec<Result<DeliveryLookup, DeliverError>>;
    type Row = (PriorDelivery, Answers, Result<DeliveryReceipt, DeliverError>, &'static str, usize);
    let table: Vec<Row> = vec![
        (PriorDelivery::Fresh, vec![no()], sent.clone(), "sent", 1),
        (PriorDelivery::MaybeSent, vec![yes()], sent.clone(), "sent", 0),
        (PriorDelivery::Fresh, vec![unknown()], sent.clone(), "sent", 1),
        (PriorDelivery::MaybeSent, vec![unknown()], sent.clone(), "in doubt", 0),
        (PriorDelivery::MaybeSent, vec![Err(DeliverError::transient("later"))], sent.clone(), "look again", 0),
        (PriorDelivery::Fresh, vec![Err(DeliverError::refused("no"))], sent, "refused", 0),
        (PriorDelivery::Fresh, vec![no()], bad(Refused), "refused", 1),
        (PriorDelivery::Fresh, vec![no()], bad(Transient), "retry", 1),
        (PriorDelivery::Fresh, vec![no()], bad(Failed), "retry", 1),
        (PriorDelivery::Fresh, vec![no(), yes()], doubt.clone(), "sent", 1),
        (PriorDelivery::Fresh, vec![no(), no()], doubt.clone(), "retry", 1),
        (PriorDelivery::Fresh, vec![no(), unknown()], doubt.clone(), "in doubt", 1),
        (PriorDelivery::Fresh, vec![no(), Err(DeliverError::transient("later"))], doubt, "look again", 1),
        (PriorDelivery::Fresh, vec![no()], bad(Blocked), "blocked", 1),
        // Something of the item may be visible, so a refusal is not the end.
        (PriorDelivery::MaybeSent, vec![no(), no()], bad(Refused), "in doubt", 1),
        (PriorDelivery::MaybeSent, vec![no(), yes()], bad(Refused), "sent", 1),
        (PriorDelivery::Fresh, vec![no(), no()], Err(DeliverError::refused("part").after_effect()), "in doubt", 1),
        (PriorDelivery::Fresh, vec![no(), yes()], Err(DeliverError::refused("part").after_effect()), "sent", 1),
        (PriorDelivery::Fresh, vec![Err(DeliverError::blocked("401"))], Ok(receipt.clone()), "blocked", 0),
    ];
    for (row, (prior, find, deliver, expected, calls)) in table.into_iter().enumerate() {
        let fake_forge = ScriptedForge { deliver, find, finds: AtomicUsize::new(0), delivered: AtomicUsize::new(0) };
        let verdict = match deliver_one(&fake_forge, &Seam::none(), &item, prior).await {
            DeliveryOutcome::Sent(_) => "sent",
            DeliveryOutcome::InDoubt(_) => "in doubt",
            DeliveryOutcome::Refused(_) => "refused",
            DeliveryOutcome::Retry(_) => "retry",
            DeliveryOutcome::Lost(_) => "look again",
            DeliveryOutcome::Blocked(_) => "blocked",
        };
        assert_eq!((verdict, fake_forge.delivered.load(Ordering::SeqCst)), (expected, calls), "row {row}");
    }
}

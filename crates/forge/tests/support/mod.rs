//! A fake forge, a connection to it, and a repository with a change to deliver. Pushes run the real git, as the engine
//! runs it: with the lent credential and the expected old commit.
#![allow(dead_code, reason = "each test program uses a part of it")]

use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget,
};
use loopwright_core::forge::ReadForge;
use loopwright_core::outbox::StagedItem;
use loopwright_core::spec::ActionKind;
use loopwright_forge::{ForgeConnection, NowMs, RemoteForge, RemoteKind, SecretText, connect};
use loopwright_testkit::TestRepo;
use loopwright_testkit::fake_forge::{FakeForge, FakeRepo, IssueDraft};
use loopwright_testkit::forge_contract::{ForgeFixture, LOOP, PersonIssue, marks};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The repository's name.
pub(crate) const REPO: &str = "acme/app";

/// The fake forge's time starts on this day.
const NOW_MS: i64 = 1_767_225_600_000;

/// A clock that a test moves.
#[derive(Clone, Default)]
pub(crate) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(crate) fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn now_ms(&self) -> i64 {
        NOW_MS + self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn source(&self) -> NowMs {
        let clock = self.clone();
        Arc::new(move || clock.now_ms())
    }
}

/// The machine's clock.
#[expect(clippy::disallowed_methods, reason = "the fake forge checks the times of signatures")]
pub(crate) fn real_time() -> NowMs {
    Arc::new(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        i64::try_from(since.as_millis()).expect("before the year 292278994")
    })
}

/// A fake forge and a client of one repository on it.
pub(crate) struct World {
    pub(crate) fake: FakeForge,
    pub(crate) connection: ForgeConnection,
    pub(crate) clock: TestClock,
    pub(crate) forge: Arc<RemoteForge>,
    writer: PushingWriter,
    pub(crate) local: TestRepo,
    pub(crate) base: String,
    pub(crate) commit: String,
}

/// The address of the fake's API for a kind.
pub(crate) fn api_url(fake: &FakeForge, kind: RemoteKind) -> String {
    match kind {
        RemoteKind::GitHub => fake.github_url(),
        RemoteKind::GitLab => fake.gitlab_url(),
        RemoteKind::Gitea => fake.gitea_url(),
    }
}

impl World {
    pub(crate) fn new(kind: RemoteKind) -> Self {
        Self::with(kind, |_, _| {})
    }

    /// A world whose connection is changed before it is used.
    pub(crate) fn with(kind: RemoteKind, change: impl FnOnce(&FakeForge, &mut ForgeConnection)) -> Self {
        let fake = FakeForge::start();
        let (source, git_url) = {
            let repo = fake.create_repo(REPO);
            repo.add_writer("bot");
            (repo.path(), repo.clone_url())
        };
        let local = TestRepo::new();
        local.git(["fetch", "--quiet", &source.display().to_string(), "main"]);
        local.git(["checkout", "--quiet", "-B", "work", "FETCH_HEAD"]);
        let base = local.head();
        local.write("fix.txt", "fixed\n");
        let commit = local.commit("fix: the sign");
        let mut connection = ForgeConnection::new(kind, REPO, SecretText::new(fake.token("bot")));
        connection.api_url = Some(api_url(&fake, kind));
        connection.git_url = Some(git_url);
        connection.token_name = "BOT_TOKEN".to_owned();
        change(&fake, &mut connection);
        let clock = TestClock::default();
        let forge = Arc::new(connect(&connection, clock.source()).expect("the connection is valid"));
        let writer = PushingWriter::new(Arc::clone(&forge), local.path().to_owned());
        Self { fake, connection, clock, forge, writer, local, base, commit }
    }

    pub(crate) fn repo(&self) -> FakeRepo<'_> {
        self.fake.repo(REPO)
    }

    /// A second client of the same repository, as after a restart.
    pub(crate) fn reconnect(&mut self) {
        self.forge = Arc::new(connect(&self.connection, self.clock.source()).expect("the connection is valid"));
        self.writer = PushingWriter::new(Arc::clone(&self.forge), self.local.path().to_owned());
    }

    /// The same world with the machine's clock, for a server that compares times.
    pub(crate) fn in_real_time(mut self) -> Self {
        self.forge = Arc::new(connect(&self.connection, real_time()).expect("the connection is valid"));
        self.writer = PushingWriter::new(Arc::clone(&self.forge), self.local.path().to_owned());
        self
    }

    /// A pull request of a round.
    pub(crate) fn pull(&self, round: &str) -> Delivery {
        let item = StagedItem::new(1, "pull-request.md", ActionKind::PullRequest, "It was wrong.");
        self.delivery(round, StagedItem { title: Some(format!("Fix {round}")), ..item })
    }

    /// An item about an issue or a pull request.
    pub(crate) fn about(&self, kind: ActionKind, target: u64, body: &str) -> StagedItem {
        StagedItem { target: Some(target.to_string()), ..StagedItem::new(1, "item.md", kind, body) }
    }

    /// Delivers an item, with the push that it needs.
    pub(crate) async fn deliver(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        self.writer.deliver(item).await
    }

    /// A new commit on top of the last one.
    pub(crate) fn commit_more(&mut self, content: &str) -> String {
        self.local.write("fix.txt", content);
        self.commit = self.local.commit("fix: more");
        self.commit.clone()
    }
}

/// Pushes with git before it delivers.
struct PushingWriter {
    forge: Arc<RemoteForge>,
    source: PathBuf,
    /// Processes push one after the other; the engine's leases see to that.
    turn: tokio::sync::Mutex<()>,
}

impl PushingWriter {
    fn new(forge: Arc<RemoteForge>, source: PathBuf) -> Self {
        Self { forge, source, turn: tokio::sync::Mutex::default() }
    }

    async fn push(&self, item: &Delivery) -> Result<(), DeliverError> {
        let _turn = self.turn.lock().await;
        let Some(target) = self.forge.push_target(item).await? else { return Ok(()) };
        if target.expected_old == item.commit {
            return Ok(());
        }
        let source = self.source.clone();
        let commit = item.commit.clone().expect("a pushed item has a commit");
        // The fake forge answers on its own threads, and git blocks this one.
        let pushed = tokio::task::spawn_blocking(move || push(&source, &target, &commit)).await.expect("git ran");
        pushed.map_err(DeliverError::refused)
    }
}

fn push(source: &std::path::Path, target: &PushTarget, commit: &str) -> Result<(), String> {
    if let Some(old) = &target.expected_old
        && !try_git(source, &[], &["merge-base", "--is-ancestor", old, commit]).0
    {
        return Err(format!("`{}` is at {old}, which {commit} does not contain", target.branch));
    }
    let reference = format!("refs/heads/{}", target.branch);
    let expected = target.expected_old.as_deref().unwrap_or_default();
    let credential = target.credential.as_ref().expect("a forge lends a credential");
    let header = format!("Authorization: {}", credential.expose());
    let env = [
        ("GIT_CONFIG_COUNT", "1".to_owned()),
        ("GIT_CONFIG_KEY_0", "http.extraHeader".to_owned()),
        ("GIT_CONFIG_VALUE_0", header),
    ];
    let lease = format!("--force-with-lease={reference}:{expected}");
    let (ok, text) = try_git(source, &env, &["push", &lease, "--", &target.url, &format!("{commit}:{reference}")]);
    if ok { Ok(()) } else { Err(text) }
}

#[expect(clippy::disallowed_methods, reason = "the test plays the engine's push")]
fn try_git(folder: &std::path::Path, env: &[(&str, String)], words: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("git");
    command.current_dir(folder).env_clear().env("PATH", loopwright_testkit::TRUSTED_PATH).env("HOME", "/nonexistent");
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_TERMINAL_PROMPT", "0")]);
    command.envs(env.iter().cloned());
    let output = command.args(words).output().expect("git starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Deliver for PushingWriter {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            self.push(item).await?;
            self.forge.deliver(item).await
        })
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        self.forge.find(item)
    }
}

impl ForgeFixture for World {
    fn writer(&self) -> &dyn Deliver {
        &self.writer
    }

    fn reader(&self) -> &dyn ReadForge {
        self.forge.as_ref()
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
            commit: Some(self.commit.clone()),
            tree: Some(self.local.git(["rev-parse", &format!("{}^{{tree}}", self.commit)])),
            base_branch: "main".to_owned(),
            base_commit: self.base.clone(),
            reviewed_head: item.review.map(|_| self.commit.clone()),
            question: None,
            draft: true,
            labels: vec!["loopwright".to_owned()],
            facts: Vec::new(),
            item,
        }
    }

    fn close_pull(&self, number: u64) {
        self.repo().close_item(number);
    }

    fn rename_pull(&self, number: u64, title: &str) {
        self.repo().edit_title(number, title);
    }

    fn open_issue(&self, issue: &PersonIssue<'_>) {
        let assignees: Vec<&str> = issue.assignee.into_iter().collect();
        let PersonIssue { author, title, body, labels, .. } = *issue;
        self.repo().open_issue(&IssueDraft { author, title, body, labels, assignees: &assignees });
    }

    fn fail_check(&self, name: &str, head: &str) {
        self.repo().fail_check(name, head);
    }

    fn push_other(&self, branch: &str) -> String {
        self.repo().push_commit(branch, "a person's commit")
    }

    fn branch(&self, name: &str) -> Option<String> {
        self.repo().branch(name)
    }
}

/// Whether an item is kept until a person changes something, such as a token.
pub(crate) fn waits_for_a_person(error: &DeliverError) -> bool {
    !matches!(error.kind, DeliverErrorKind::Refused | DeliverErrorKind::Transient | DeliverErrorKind::InDoubt)
}

/// The addresses of a forge's calls, below its base, for scripted faults.
pub(crate) struct Routes {
    pub(crate) pulls: &'static str,
    pub(crate) issue_comments: &'static str,
    pub(crate) issues: &'static str,
    pub(crate) repo: &'static str,
}

pub(crate) fn routes(kind: RemoteKind) -> Routes {
    match kind {
        RemoteKind::GitHub | RemoteKind::Gitea => Routes {
            pulls: "/repos/*/*/pulls",
            issue_comments: "/repos/*/*/issues/*/comments",
            issues: "/repos/*/*/issues",
            repo: "/repos/**",
        },
        RemoteKind::GitLab => Routes {
            pulls: "/projects/*/merge_requests",
            issue_comments: "/projects/*/issues/*/notes",
            issues: "/projects/*/issues",
            repo: "/projects/**",
        },
    }
}

/// Generates a test for each forge and each of these async functions, which take the kind.
#[macro_export]
macro_rules! on_every_forge {
    ($($case:ident)*) => {
        $crate::on_every_forge!(@ github GitHub $($case)*);
        $crate::on_every_forge!(@ gitlab GitLab $($case)*);
        $crate::on_every_forge!(@ gitea Gitea $($case)*);
    };
    (@ $module:ident $kind:ident $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(loopwright_forge::RemoteKind::$kind).await;
                }
            )*
        }
    };
}

//! A table of events and the loops that they make due.

mod payloads;

use super::event::WebhookEvent;
use super::serve::{ConnectionSource, accept};
use super::webhook_roster::{IgnoreReason, WebhookRoster};
use super::{Shared, WebhookOptions, github, gitlab};
use crate::clock::SystemClock;
use crate::error::EngineError;
use crate::git::Git;
use crate::round::SignalNovelty;
use crate::store::SignalRow;
use crate::triggers::{Signals, WatchedRepo};
use hyper::header::{HeaderMap, HeaderValue};
use loopwright_core::BoxFuture;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::{Ask, LoopSpec, ProbeSpec};
use loopwright_testkit::TestRepo;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;

const SHA: &str = "1111111111111111111111111111111111111111";

fn from_github(name: &'static str, mut body: Value) -> WebhookEvent {
    let mut headers = HeaderMap::new();
    headers.insert("x-github-event", HeaderValue::from_static(name));
    headers.insert("x-github-delivery", HeaderValue::from_static("d-1"));
    let repository =
        json!({ "full_name": "acme/shop", "html_url": "https://github.com/acme/shop", "default_branch": "main" });
    body.as_object_mut().expect("an object").entry("repository").or_insert(repository);
    github::read(&headers, &body).expect("can be read").expect("no greeting")
}

fn waiting(name: &str, events: &[&str]) -> LoopSpec {
    let mut spec = LoopSpec::new(name, "wait", LoopLevel::L1Report);
    spec.on.webhook = events.iter().map(|event| (*event).to_owned()).collect();
    spec
}

async fn roster(loops: Vec<LoopSpec>) -> (TestRepo, WebhookRoster) {
    let repo = TestRepo::new();
    repo.git(["remote", "add", "origin", "git@github.com:acme/shop.git"]);
    let roster = roster_of(&repo, loops).await;
    (repo, roster)
}

async fn roster_of(repo: &TestRepo, loops: Vec<LoopSpec>) -> WebhookRoster {
    let git = Git::default();
    let user = git.discover(repo.path()).await.expect("a repository");
    WebhookRoster::from_watched(&git, &[WatchedRepo { repo: user, loops }]).await
}

fn due(roster: &WebhookRoster, event: &WebhookEvent) -> Result<Vec<String>, IgnoreReason> {
    let options = WebhookOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (trusted, own) = (vec!["friend".to_owned()], vec!["our-bot".to_owned()]);
    Ok(roster
        .match_loops(event, &WebhookOptions { trusted, own, ..options })?
        .into_iter()
        .map(|due| due.loop_name)
        .collect())
}

fn pull(author: &str, association: &str, sender: &str, head: &str) -> WebhookEvent {
    from_github(
        "pull_request",
        json!({ "action": "opened", "sender": { "login": sender }, "pull_request": {
            "number": 7, "title": "Mend", "body": "text", "author_association": association, "user": { "login": author },
            "base": { "ref": "main" }, "head": { "ref": head, "sha": SHA, "repo": { "full_name": "acme/shop" } } } }),
    )
}

#[tokio::test]
async fn events_of_people_without_rights_make_nothing_due() {
    let mut named = waiting("named", &["github.pull_request"]);
    named.approvers = vec!["Neighbour".to_owned()];
    let (_repo, roster) = roster(vec![waiting("all", &["github.pull_request"]), named]).await;
    let both = || Ok(vec!["all".to_owned(), "named".to_owned()]);
    let table = [
        ("a", "OWNER", "a", both()),
        ("a", "MEMBER", "a", both()),
        ("a", "COLLABORATOR", "a", both()),
        ("a", "CONTRIBUTOR", "a", Err(IgnoreReason::Stranger)),
        ("a", "FIRST_TIME_CONTRIBUTOR", "a", Err(IgnoreReason::Stranger)),
        ("a", "NONE", "a", Err(IgnoreReason::Stranger)),
        ("a", "owner", "a", Err(IgnoreReason::Stranger)),
        // A user with rights labels a stranger's work.
        ("a", "NONE", "b", both()),
        ("friend", "NONE", "friend", both()),
        ("neighbour", "NONE", "neighbour", Ok(vec!["named".to_owned()])),
        ("our-bot", "OWNER", "our-bot", Err(IgnoreReason::Own)),
        ("a", "OWNER", "Our-Bot", Err(IgnoreReason::Own)),
    ];
    for (author, association, sender, expected) in table {
        let event = pull(author, association, sender, "fix");
        assert_eq!(due(&roster, &event), expected, "{author} {association} {sender}");
    }
    let event = pull("a", "OWNER", "a", "loop/mend/01");
    assert_eq!(due(&roster, &event), Err(IgnoreReason::Own), "a branch of our own");
    assert_eq!(event.item.as_deref(), Some(format!("pr-7@{SHA}").as_str()));
}

/// A user with rights to a fork can push to its pull request, under any author name.
#[tokio::test]
async fn push_to_a_pull_request_counts_for_its_author_and_for_branches_of_the_repository_itself() {
    let (_repo, roster) = roster(vec![waiting("all", &["github.pull_request"])]).await;
    let push = |author: &str, association: &str, sender: &str, from: &str| {
        from_github(
            "pull_request",
            json!({ "action": "synchronize", "sender": { "login": sender }, "pull_request": {
                "number": 7, "author_association": association, "user": { "login": author }, "base": { "ref": "main" },
                "head": { "ref": "fix", "sha": SHA, "repo": { "full_name": from } } } }),
        )
    };
    let table = [
        ("a", "NONE", "b", "evil/shop", Err(IgnoreReason::Stranger)),
        ("a", "MEMBER", "b", "evil/shop", Err(IgnoreReason::Stranger)),
        ("a", "MEMBER", "a", "a/shop", Ok(vec!["all".to_owned()])),
        ("a", "NONE", "a", "a/shop", Err(IgnoreReason::Stranger)),
        ("a", "NONE", "b", "acme/shop", Ok(vec!["all".to_owned()])),
        ("a", "NONE", "friend", "evil/shop", Ok(vec!["all".to_owned()])),
    ];
    for (author, association, sender, from, expected) in table {
        assert_eq!(due(&roster, &push(author, association, sender, from)), expected, "{author} {sender} {from}");
    }
}

#[tokio::test]
async fn creating_or_deleting_our_own_branches_makes_nothing_due() {
    let (_repo, roster) = roster(vec![waiting("all", &["github.create", "github.delete"])]).await;
    let made = |name, kind: &str, what: &str| from_github(name, json!({ "ref": what, "ref_type": kind }));
    assert_eq!(due(&roster, &made("create", "branch", "topic")), Ok(vec!["all".to_owned()]));
    assert_eq!(due(&roster, &made("create", "branch", "loop/mend/01")), Err(IgnoreReason::Own));
    assert_eq!(due(&roster, &made("delete", "branch", "take/01")), Err(IgnoreReason::Own));
    assert_eq!(due(&roster, &made("create", "tag", "take/01")), Ok(vec!["all".to_owned()]));
}

/// The owner of a repository has every right to it, whatever the event is.
#[tokio::test]
async fn events_that_the_owner_causes_count() {
    let (_repo, roster) = roster(vec![waiting("all", &["github.*"])]).await;
    let repository = json!({ "full_name": "acme/shop", "html_url": "https://github.com/acme/shop",
        "default_branch": "main", "owner": { "id": 7, "login": "acme" } });
    let job = |sender: u64, kind: &str| {
        from_github(
            "workflow_job",
            json!({ "action": "completed", "sender": { "id": sender, "login": "a", "type": kind },
                "repository": repository, "workflow_job": { "head_branch": "main", "name": "build" } }),
        )
    };
    assert_eq!(due(&roster, &job(7, "User")), Ok(vec!["all".to_owned()]));
    assert_eq!(due(&roster, &job(8, "User")), Err(IgnoreReason::Stranger));
    assert_eq!(due(&roster, &job(7, "Organization")), Err(IgnoreReason::Stranger));
    let caused = [
        ("merge_group", json!({ "action": "checks_requested", "merge_group": { "base_ref": "refs/heads/main" } })),
        ("milestone", json!({ "action": "created", "milestone": { "number": 1 } })),
        ("label", json!({ "action": "created", "label": { "name": "bug" } })),
        ("dependabot_alert", json!({ "action": "created", "alert": { "number": 1 } })),
        ("repository_vulnerability_alert", json!({ "action": "create", "alert": { "number": 1 } })),
        ("secret_scanning_alert", json!({ "action": "created", "alert": { "number": 1 } })),
        ("secret_scanning_alert_location", json!({ "action": "created", "alert": { "number": 1 } })),
        ("code_scanning_alert", json!({ "action": "created", "ref": "refs/heads/main" })),
    ];
    for (name, mut body) in caused {
        // Neither the person nor `github` itself, which raises alerts, has an association in these events.
        for sender in [json!({ "login": "github" }), json!({ "id": 9, "login": "ada", "type": "User" })] {
            body["sender"] = sender;
            body["repository"] = repository.clone();
            assert_eq!(due(&roster, &from_github(name, body.clone())), Ok(vec!["all".to_owned()]), "{name}");
        }
    }
    for name in ["watch", "star", "fork"] {
        let body = json!({ "action": "created", "sender": { "id": 9, "login": "ada", "type": "User" }, "repository": repository });
        assert_eq!(due(&roster, &from_github(name, body)), Err(IgnoreReason::Stranger), "{name}");
    }
}

/// A source that never yields a connection, because there are no descriptors left.
#[derive(Clone, Default)]
struct Shut(Arc<AtomicUsize>);

impl ConnectionSource for Shut {
    async fn next(&self) -> io::Result<TcpStream> {
        // A listener that does not pause would try forever.
        if self.0.fetch_add(1, Ordering::SeqCst) > 1_000 {
            std::future::pending::<()>().await;
        }
        Err(io::Error::other("too many open files"))
    }
}

struct Nobody;

impl Signals for Nobody {
    fn signal(&self, _: SignalRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        Box::pin(async { Ok(SignalNovelty::Repeated) })
    }

    fn has_any<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(async { Ok(false) })
    }
}

#[tokio::test]
async fn listener_without_descriptors_pauses_between_two_tries() {
    let options = WebhookOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let shared = Arc::new(Shared::new(options, Arc::new(SystemClock), Arc::new(Nobody)));
    let door = Shut::default();
    let for_ever = tokio::time::timeout(Duration::from_millis(500), accept(shared, door.clone())).await;
    assert!(for_ever.is_err(), "it continues");
    let tries = door.0.load(Ordering::SeqCst);
    assert!((1..=10).contains(&tries), "{tries} tries in half a second");
}

#[tokio::test]
async fn events_of_other_repositories_and_branches_are_ignored() {
    let mut release = waiting("release", &["github.push"]);
    release.on.push = vec!["release".to_owned()];
    let (_repo, roster) = roster(vec![waiting("main", &["github.push"]), release]).await;
    let push = |branch: &str| {
        from_github("push", json!({ "ref": format!("refs/heads/{branch}"), "after": SHA, "sender": { "login": "a" } }))
    };
    assert_eq!(due(&roster, &push("main")), Ok(vec!["main".to_owned()]));
    assert_eq!(due(&roster, &push("release")), Ok(vec!["release".to_owned()]));
    assert_eq!(due(&roster, &push("topic")), Err(IgnoreReason::Branch));
    assert_eq!(due(&roster, &push("take/01")), Err(IgnoreReason::Own));
    let elsewhere = from_github(
        "push",
        json!({ "ref": "refs/heads/main", "after": SHA, "repository": { "html_url": "https://github.com/evil/shop" } }),
    );
    assert_eq!(due(&roster, &elsewhere), Err(IgnoreReason::Repository));
    assert_eq!(due(&roster, &from_github("star", json!({}))), Err(IgnoreReason::Loop));
}

#[tokio::test]
async fn builds_count_when_they_are_over_and_a_fork_s_do_not() {
    let loops = vec![waiting("any", &["github.workflow_run"]), waiting("red", &["github.workflow_run.failure"])];
    let (_repo, roster) = roster(loops).await;
    let run = |action: &str, conclusion: Value, from: &str| {
        from_github(
            "workflow_run",
            json!({ "action": action, "sender": { "login": "a" }, "workflow_run": { "id": 9, "run_attempt": 2,
                "head_branch": "main", "conclusion": conclusion, "head_repository": { "full_name": from } } }),
        )
    };
    assert_eq!(due(&roster, &run("requested", Value::Null, "acme/shop")), Err(IgnoreReason::Loop));
    assert_eq!(due(&roster, &run("completed", json!("success"), "acme/shop")), Ok(vec!["any".to_owned()]));
    let red = run("completed", json!("failure"), "acme/shop");
    assert_eq!(due(&roster, &red), Ok(vec!["any".to_owned(), "red".to_owned()]));
    assert_eq!(red.item.as_deref(), Some("run-9@2"));
    assert_eq!(due(&roster, &run("completed", json!("failure"), "evil/shop")), Err(IgnoreReason::Stranger));
}

#[test]
fn gitlab_s_deliveries_lack_rights_so_only_actions_that_need_them_count() {
    let read = |body: Value| gitlab::read(&HeaderMap::new(), &body, b"raw").expect("can be read");
    let push = read(json!({ "object_kind": "push", "ref": "refs/heads/main", "after": SHA, "user_username": "a" }));
    assert!(push.is_insider && push.moved_to.as_deref() == Some(SHA) && push.branch.as_deref() == Some("main"));
    let gone = read(json!({ "object_kind": "push", "ref": "refs/heads/main", "after": "0".repeat(40) }));
    assert_eq!(gone.moved_to, None);
    let merge = read(json!({ "object_kind": "merge_request", "user": { "username": "a" }, "object_attributes": {
        "iid": 3, "action": "open", "target_branch": "main", "source_branch": "x", "last_commit": { "id": SHA } } }));
    assert!(!merge.is_insider);
    assert_eq!(merge.item.as_deref(), Some(format!("pr-3@{SHA}").as_str()));
    let running = read(
        json!({ "object_kind": "pipeline", "object_attributes": { "id": 1, "status": "running", "ref": "main" } }),
    );
    assert!(!running.is_final && running.is_insider);
    assert!(gitlab::read(&HeaderMap::new(), &json!([]), b"raw").is_err());
}

#[test]
fn bodies_of_any_shape_are_read_without_a_panic() {
    for name in
        ["push", "pull_request", "issues", "issue_comment", "workflow_run", "check_run", "status", "release", "odd"]
    {
        for body in [json!({}), json!({ "ref": 3, "sender": [], "issue": null, "pull_request": { "number": -1 } })] {
            let event = from_github(name, body);
            assert!(event.item.is_none() && event.moved_to.is_none(), "{event:?}");
        }
    }
}

#[tokio::test]
async fn events_on_a_loop_s_branch_wake_only_the_loops_that_look_after_it_and_name_no_item() {
    let events = ["github.pull_request_review_comment", "github.check_run"];
    let mut follows = waiting("follows", &events);
    follows.on.probe = Some(ProbeSpec::Ask(Box::new(Ask { follow_own: true, ..Ask::new("open-prs") })));
    let (_repo, roster) = roster(vec![waiting("other", &events), follows]).await;
    let review = |sender: &str| {
        from_github(
            "pull_request_review_comment",
            json!({ "action": "created", "sender": { "login": sender },
                "comment": { "body": "Why?", "author_association": "MEMBER", "user": { "login": sender } },
                "pull_request": { "number": 7, "title": "Fix", "base": { "ref": "main" },
                    "head": { "ref": "loop/fix/r1", "sha": SHA, "repo": { "full_name": "acme/shop" } } } }),
        )
    };
    assert_eq!(due(&roster, &review("ada")), Ok(vec!["follows".to_owned()]));
    assert_eq!(due(&roster, &review("our-bot")), Err(IgnoreReason::Own));
    let check = from_github(
        "check_run",
        json!({ "action": "completed", "sender": { "login": "ci" }, "check_run": { "id": 1, "name": "build",
            "head_sha": SHA, "conclusion": "failure", "check_suite": { "head_branch": "loop/fix/r1" } } }),
    );
    assert_eq!(due(&roster, &check), Ok(vec!["follows".to_owned()]));
    let options = WebhookOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let found = roster.match_loops(&check, &options).expect("a loop is due");
    assert!(found.iter().all(|one| one.is_hint), "the probe finds the items: {found:?}");
}

//! The n-th request of a delivery fails, for every n until a delivery encounters no fault, in every way that a network
//! and a forge have. With the engine's protocol (look, act, look again) each item has exactly one effect.

mod support;

use loopwright_core::deliver::{Deliver as _, DeliverErrorKind, Delivery, DeliveryLookup};
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision, StagedItem};
use loopwright_core::spec::ActionKind;
use loopwright_forge::{ForgeToken, RemoteKind, SecretText, connect};
use loopwright_testkit::fake_forge::{ForgeFault, IssueDraft};
use loopwright_testkit::forge_contract::ForgeFixture as _;
use support::{REPO, World, routes};

on_every_forge! {
    pull_requests
    issues
    issue_labels
    issue_comments
    pull_request_comments
    line_comments
    reviews
    commits
}

/// Attempts of one item. Each attempt encounters at most one fault, so the third has none.
const ATTEMPTS_MAX: usize = 4;
/// No delivery has more requests.
const REQUESTS_MAX: u64 = 40;

fn faults() -> Vec<ForgeFault> {
    vec![
        ForgeFault::CutAfter,
        ForgeFault::CutBefore,
        ForgeFault::CutInside,
        ForgeFault::ServerError(500),
        ForgeFault::ServerErrorAfter(502),
        ForgeFault::MalformedJson,
        ForgeFault::TooManyRequests(1),
    ]
}

/// The engine's protocol for one item, with restarts between attempts.
async fn deliver(world: &mut World, item: &Delivery) {
    for _ in 0..ATTEMPTS_MAX {
        world.clock.advance(1000);
        match world.forge.find(item).await {
            Ok(DeliveryLookup::Yes(_)) => return,
            Ok(DeliveryLookup::Unknown) => panic!("the item can be found: {item:?}"),
            Ok(DeliveryLookup::No) => match world.deliver(item).await {
                Ok(_) => return,
                Err(error) => assert_ne!(error.kind, DeliverErrorKind::Refused, "{error}"),
            },
            Err(error) => assert_eq!(error.kind, DeliverErrorKind::Transient, "{error}"),
        }
        world.reconnect();
    }
    panic!("not delivered after {ATTEMPTS_MAX} attempts: {item:?}");
}

/// Delivers an item for each fault at each request; `make` creates it and `check` looks at its effect.
async fn sweep(
    kind: RemoteKind,
    make: impl Fn(&mut World, &str, u64) -> Delivery,
    check: impl Fn(&World, &Delivery, u64),
) {
    let mut world = World::with(kind, |_, connection| connection.reviewers = vec!["ada".to_owned()]);
    let target = target(&mut world).await;
    let mut round = 0;
    for fault in faults() {
        for n in 1..=REQUESTS_MAX {
            round += 1;
            let item = make(&mut world, &format!("r{round}"), target);
            world.fake.clear_requests();
            world.fake.fail("*", routes(kind).repo, n, fault.clone());
            deliver(&mut world, &item).await;
            world.fake.clear_faults();
            check(&world, &item, target);
            if world.fake.requests().iter().all(|request| request.fault.is_none()) {
                break;
            }
            assert!(n < REQUESTS_MAX, "{fault:?}: a delivery has more requests than expected");
        }
    }
}

/// A pull request of another account, and that account as a reviewer.
async fn target(world: &mut World) -> u64 {
    world.repo().add_writer("ada");
    let item = world.pull("target");
    let ours = world.connection.clone();
    world.connection.token = ForgeToken::Account(SecretText::new(world.fake.token("ada")));
    world.reconnect();
    world.deliver(&item).await.expect("a pull request");
    world.connection = ours;
    world.reconnect();
    assert!(connect(&world.connection, world.clock.source()).is_ok());
    world.repo().pulls()[0].number
}

/// The texts on the forge that have the item's marker.
fn marked(world: &World, item: &Delivery) -> Vec<String> {
    let repo = world.fake.repo(REPO);
    let mut texts = Vec::new();
    for one in repo.pulls().into_iter().chain(repo.issues()) {
        texts.extend(repo.comments(one.number).into_iter().map(|comment| comment.body));
        texts.extend(repo.reviews(one.number).into_iter().map(|review| review.body));
        texts.extend(one.body);
    }
    texts.retain(|text| text.contains(&item.marker));
    texts
}

fn one_text(world: &World, item: &Delivery, _: u64) {
    assert_eq!(marked(world, item).len(), 1);
}

async fn pull_requests(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, _: u64| world.pull(round);
    let check = |world: &World, item: &Delivery, _: u64| {
        one_text(world, item, 0);
        let pulls = world.repo().pulls();
        let found = pulls.iter().find(|pull| pull.body.as_deref().is_some_and(|body| body.contains(&item.marker)));
        let found = found.expect("the marker is in a pull request");
        assert_eq!(found.labels, ["loopwright"]);
        assert_eq!(world.repo().branch(&item.branch), item.commit);
    };
    sweep(kind, make, check).await;
}

async fn issues(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, _: u64| {
        let item = StagedItem::new(1, "issue-create.md", ActionKind::IssueCreate, "Steps.");
        world.delivery(round, StagedItem { title: Some(format!("It breaks in {round}")), ..item })
    };
    sweep(kind, make, one_text).await;
}

async fn issue_labels(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, _: u64| {
        let draft = IssueDraft { author: "ada", title: "T", labels: &["old"], ..IssueDraft::default() };
        let number = world.repo().open_issue(&draft);
        let item = world.about(ActionKind::IssueLabel, number, "");
        world.delivery(round, StagedItem { labels: vec![format!("label-{round}")], ..item })
    };
    let check = |world: &World, item: &Delivery, _: u64| {
        let number = item.item.target.as_deref().and_then(|number| number.parse().ok()).expect("a number");
        assert_eq!(world.repo().item(number).labels, ["old".to_owned(), item.item.labels[0].clone()]);
    };
    sweep(kind, make, check).await;
}

async fn issue_comments(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, _: u64| {
        let number = world.repo().open_issue(&IssueDraft { author: "ada", title: "T", ..IssueDraft::default() });
        world.delivery(round, world.about(ActionKind::IssueComment, number, "I looked."))
    };
    sweep(kind, make, one_text).await;
}

async fn pull_request_comments(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, target: u64| {
        world.delivery(round, world.about(ActionKind::PrComment, target, "I looked."))
    };
    sweep(kind, make, one_text).await;
}

async fn line_comments(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, target: u64| {
        let comment = |body: &str| InlineComment {
            path: "fix.txt".to_owned(),
            line: 1,
            side: DiffSide::Right,
            start_line: None,
            body: format!("{body} of {round}."),
        };
        let item = world.about(ActionKind::PrInline, target, "");
        world.delivery(round, StagedItem { comments: vec![comment("First"), comment("Second")], ..item })
    };
    let check = |world: &World, item: &Delivery, target: u64| {
        for comment in &item.item.comments {
            let on_lines = world.repo().comments(target).into_iter().filter(|one| one.place.is_some());
            assert_eq!(on_lines.filter(|one| one.body.contains(&comment.body)).count(), 1, "{}", comment.body);
        }
    };
    sweep(kind, make, check).await;
}

async fn reviews(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, target: u64| {
        let item = world.about(ActionKind::PrReview, target, "I read it.");
        world.delivery(round, StagedItem { review: Some(ReviewDecision::Approve), ..item })
    };
    sweep(kind, make, one_text).await;
}

async fn commits(kind: RemoteKind) {
    let make = |world: &mut World, round: &str, _: u64| {
        world.commit_more(&format!("{round}\n"));
        world.delivery(round, StagedItem::new(1, "commit.md", ActionKind::Commit, "fix: the sign"))
    };
    let check = |world: &World, item: &Delivery, _: u64| assert_eq!(world.repo().branch("main"), item.commit);
    sweep(kind, make, check).await;
}

//! The forges' official descriptions check every request that the clients send and every answer that the fake forge
//! gives to them. GitLab publishes no description in a registry.

mod support;

use loopwright_core::deliver::{Deliver as _, EngineFact};
use loopwright_core::forge::{CheckQuery, CommentsOf, ItemQuery, ReadForge as _};
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision, StagedItem};
use loopwright_core::spec::ActionKind;
use loopwright_forge::{ForgeToken, RemoteKind, SecretText};
use loopwright_testkit::fake_forge::{ApiDescription, IssueDraft};
use loopwright_testkit::forge_contract::ForgeFixture as _;
use support::World;

/// Uses everything that a client can do, each item twice.
async fn walk(kind: RemoteKind) -> World {
    let mut world = World::with(kind, |fake, connection| {
        fake.repo(support::REPO).add_writer("ada").add_writer("reviewer");
        connection.reviewers = vec!["ada".to_owned()];
        connection.status_context = Some("loopwright".to_owned());
    });
    let issue = world.repo().open_issue(&IssueDraft { author: "ada", title: "T", ..IssueDraft::default() });
    send(&world, "r1", StagedItem { title: Some("Fix it".to_owned()), ..plain(ActionKind::PullRequest) }).await;
    let pull = world.repo().pulls()[0].number;
    send(&world, "r2", StagedItem { title: Some("It breaks".to_owned()), ..plain(ActionKind::IssueCreate) }).await;
    send(&world, "r3", world.about(ActionKind::IssueComment, issue, "I looked.")).await;
    let labels = vec!["triaged".to_owned()];
    send(&world, "r4", StagedItem { labels, ..world.about(ActionKind::IssueLabel, issue, "") }).await;
    send(&world, "r5", world.about(ActionKind::PrComment, pull, "Looks right.")).await;
    let (path, body) = ("fix.txt".to_owned(), "Why?".to_owned());
    let comments = vec![InlineComment { path, line: 1, side: DiffSide::Right, start_line: None, body }];
    send(&world, "r6", StagedItem { comments, ..world.about(ActionKind::PrInline, pull, "") }).await;
    world.repo().fail_check("build", &world.commit);
    world.repo().report_status("lint", &world.commit, "success", "fine");
    read(&world, issue, pull).await;
    world.connection.token = ForgeToken::Account(SecretText::new(world.fake.token("reviewer")));
    world.reconnect();
    let review = world.about(ActionKind::PrReview, pull, "I read it.");
    send(&world, "r7", StagedItem { review: Some(ReviewDecision::Approve), ..review }).await;
    world.repo().close_item(pull);
    read(&world, issue, pull).await;
    world
}

fn plain(kind: ActionKind) -> StagedItem {
    StagedItem::new(1, "item.md", kind, "It was wrong.")
}

async fn send(world: &World, round: &str, item: StagedItem) {
    let mut item = world.delivery(round, item);
    item.facts = vec![EngineFact::new("gates", "tests passed")];
    for _ in 0..2 {
        world.deliver(&item).await.unwrap_or_else(|error| panic!("{}: {error}", item.item.kind));
    }
    world.forge.find(&item).await.expect("it answers");
}

async fn read(world: &World, issue: u64, pull: u64) {
    let branch = Some("loop/fixer/r1".to_owned());
    for query in [ItemQuery::default(), ItemQuery::open()] {
        world.forge.pulls(&query, None).await.expect("pull requests");
        world.forge.issues(&query, None).await.expect("issues");
    }
    for query in [CheckQuery::default(), CheckQuery { branch, ..CheckQuery::default() }] {
        world.forge.checks(&query, None).await.expect("checks");
    }
    for of in [CommentsOf::Issue(issue), CommentsOf::Pull(pull)] {
        world.forge.comments(of, None).await.expect("comments");
        world.forge.label_changes(of).await.expect("label changes");
    }
    world.forge.inspect("main").await;
}

/// Checks the walk, which must use this number of operations at least.
async fn check(kind: RemoteKind, description: Option<ApiDescription>, operations_min: usize) {
    let Some(description) = description else { return };
    let report = description.check(&walk(kind).await.fake.requests());
    assert_eq!(report.findings(), "");
    assert!(report.operations.len() >= operations_min, "{:#?}", report.operations);
}

#[tokio::test]
async fn github_client_and_fake_follow_github_s_description() {
    check(RemoteKind::GitHub, ApiDescription::github(), 20).await;
}

#[tokio::test]
async fn gitea_client_and_fake_follow_forgejo_s_description() {
    check(RemoteKind::Gitea, ApiDescription::gitea(), 15).await;
}

//! Each kind of item arrives once, with its content.

mod support;

use loopwright_core::deliver::{Deliver as _, DeliverErrorKind, Delivery, DeliveryLookup, EngineFact};
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision, StagedItem};
use loopwright_core::spec::ActionKind;
use loopwright_forge::{ForgeToken, RemoteKind, SecretText, connect};
use loopwright_testkit::fake_forge::IssueDraft;
use loopwright_testkit::forge_contract::ForgeFixture as _;
use support::World;

on_every_forge! {
    issue_is_created_once
    labels_are_added_once_and_others_stay
    comment_on_a_pull_request_is_written_once
    search_for_a_comment_costs_the_same_beside_many_reviews
    line_comments_arrive_with_their_places
    reviews_are_bound_to_the_head
    approval_of_a_closed_pull_request_is_refused
    approval_of_another_head_than_the_reviewed_one_is_refused
    commits_that_the_user_has_not_pushed_are_not_published
    commit_is_found_on_the_base_branch_after_its_push
    reviewers_and_status_are_set_with_a_pull_request
    items_for_other_receivers_are_refused
    concurrent_deliveries_of_one_comment_write_it_once
}

/// Delivers twice and returns the receipt's place.
async fn twice(world: &World, item: &Delivery) -> String {
    let first = world.deliver(item).await.unwrap_or_else(|error| panic!("{}: {error}", item.item.kind));
    assert_eq!(world.deliver(item).await.expect("again"), first);
    assert_eq!(world.forge.find(item).await.expect("it answers"), DeliveryLookup::Yes(first.clone()));
    first.place
}

async fn issue_is_created_once(kind: RemoteKind) {
    let world = World::new(kind);
    let item = StagedItem::new(1, "issue-create.md", ActionKind::IssueCreate, "Steps.");
    let labels = vec!["bug".to_owned()];
    let item = world.delivery("r1", StagedItem { title: Some("It breaks".to_owned()), labels, ..item });
    assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::No);
    twice(&world, &item).await;
    let issues = world.repo().issues();
    assert_eq!(issues.len(), 1);
    assert_eq!(issues[0].title, "It breaks");
    assert_eq!(issues[0].labels, ["loopwright", "bug"]);
    assert!(issues[0].body.as_deref().is_some_and(|body| body.contains("Steps.") && body.contains(&item.marker)));
}

async fn labels_are_added_once_and_others_stay(kind: RemoteKind) {
    let world = World::new(kind);
    let draft = IssueDraft { author: "ada", title: "T", labels: &["old"], ..IssueDraft::default() };
    let number = world.repo().open_issue(&draft);
    let labels = vec!["triaged".to_owned(), "p1".to_owned()];
    let item = StagedItem { labels, ..world.about(ActionKind::IssueLabel, number, "") };
    twice(&world, &world.delivery("r1", item)).await;
    let mut labels = world.repo().item(number).labels;
    labels.sort();
    assert_eq!(labels, ["old", "p1", "triaged"]);
}

async fn pull_number(world: &World) -> u64 {
    world.deliver(&world.pull("r1")).await.expect("a pull request");
    world.repo().pulls()[0].number
}

async fn comment_on_a_pull_request_is_written_once(kind: RemoteKind) {
    let world = World::new(kind);
    let number = pull_number(&world).await;
    let item = world.delivery("r2", world.about(ActionKind::PrComment, number, "Looks right."));
    let place = twice(&world, &item).await;
    assert!(place.starts_with("http"), "{place}");
    assert_eq!(world.repo().comments(number).len(), 1);
}

/// Each request of a search can fail, so a search that grows with a busy pull request never ends behind a bad line.
async fn search_for_a_comment_costs_the_same_beside_many_reviews(kind: RemoteKind) {
    let world = World::new(kind);
    let number = pull_number(&world).await;
    let item = world.delivery("r2", world.about(ActionKind::PrComment, number, "Looks right."));
    let requests = async || {
        world.fake.clear_requests();
        assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::No);
        world.fake.requests().len()
    };
    let before = requests().await;
    for round in 3..9 {
        let comments = vec![InlineComment {
            path: "fix.txt".to_owned(),
            line: 1,
            side: DiffSide::Right,
            start_line: None,
            body: format!("Why {round}?"),
        }];
        let lines = StagedItem { comments, ..world.about(ActionKind::PrInline, number, "") };
        world.deliver(&world.delivery(&format!("r{round}"), lines)).await.expect("comments on lines");
    }
    assert_eq!(requests().await, before);
}

async fn line_comments_arrive_with_their_places(kind: RemoteKind) {
    let world = World::new(kind);
    let number = pull_number(&world).await;
    let comments = vec![InlineComment {
        path: "fix.txt".to_owned(),
        line: 1,
        side: DiffSide::Right,
        start_line: None,
        body: "Why?".to_owned(),
    }];
    let item = StagedItem { comments, ..world.about(ActionKind::PrInline, number, "") };
    twice(&world, &world.delivery("r2", item)).await;
    let placed: Vec<_> =
        world.repo().comments(number).into_iter().filter_map(|one| Some((one.place?, one.body))).collect();
    let [(place, body)] = placed.as_slice() else { panic!("one comment on a line: {placed:?}") };
    assert_eq!((place.path.as_str(), place.line, place.side.as_str()), ("fix.txt", 1, "RIGHT"));
    assert!(body.contains("Why?"), "{body}");
}

async fn reviews_are_bound_to_the_head(kind: RemoteKind) {
    for decision in [ReviewDecision::Approve, ReviewDecision::RequestChanges] {
        let mut world = World::new(kind);
        let number = pull_number(&world).await;
        // Forges do not accept an account's review of its own pull request.
        world.repo().add_writer("reviewer");
        world.connection.token = ForgeToken::Account(SecretText::new(world.fake.token("reviewer")));
        world.reconnect();
        let item = world.about(ActionKind::PrReview, number, "I read it.");
        let item = world.delivery("r2", StagedItem { review: Some(decision), ..item });
        let receipt = world.deliver(&item).await.unwrap_or_else(|error| panic!("{decision:?}: {error}"));
        assert_eq!(receipt.head.as_ref(), Some(&world.commit), "{decision:?}");
        twice(&world, &item).await;
        let reviews = world.repo().reviews(number);
        let approved = reviews.iter().filter(|review| review.state.starts_with("APPROVE")).collect::<Vec<_>>();
        assert_eq!(approved.len(), usize::from(decision == ReviewDecision::Approve), "{reviews:?}");
        assert!(approved.iter().all(|review| review.commit == world.commit), "{reviews:?}");
    }
}

async fn approval_of_a_closed_pull_request_is_refused(kind: RemoteKind) {
    let world = World::new(kind);
    let number = pull_number(&world).await;
    world.repo().close_item(number);
    let item = world.about(ActionKind::PrReview, number, "I read it.");
    let item = world.delivery("r2", StagedItem { review: Some(ReviewDecision::Approve), ..item });
    let refused = world.deliver(&item).await.expect_err("it is closed");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
}

async fn approval_of_another_head_than_the_reviewed_one_is_refused(kind: RemoteKind) {
    let mut world = World::new(kind);
    let number = pull_number(&world).await;
    world.repo().add_writer("reviewer");
    world.connection.token = ForgeToken::Account(SecretText::new(world.fake.token("reviewer")));
    world.reconnect();
    let item = world.about(ActionKind::PrReview, number, "I read it.");
    let item = world.delivery("r2", StagedItem { review: Some(ReviewDecision::Approve), ..item });
    let unbound = world.deliver(&Delivery { reviewed_head: None, ..item.clone() }).await.expect_err("no head");
    assert!(unbound.text.contains("probe: open-prs"), "{unbound}");
    let moved = world.push_other("loop/fixer/r1");
    let refused = world.deliver(&item).await.expect_err("the head moved");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    assert!(refused.text.contains(&moved) && refused.text.contains(&world.commit), "{refused}");
    assert_eq!(world.repo().reviews(number).len(), 0, "nothing was approved");
}

async fn commits_that_the_user_has_not_pushed_are_not_published(kind: RemoteKind) {
    for item_kind in [ActionKind::PullRequest, ActionKind::Commit] {
        let world = World::new(kind);
        let item = StagedItem::new(1, "item.md", item_kind, "It was wrong.");
        let item = world.delivery("r1", StagedItem { title: Some("Fix it".to_owned()), ..item });
        // The work started from a commit that only the user's clone has.
        let item = Delivery { base_commit: world.commit.clone(), ..item };
        let before = world.repo().branch("main");
        let blocked = world.deliver(&item).await.expect_err("the base is unknown to the forge");
        assert_eq!(blocked.kind, DeliverErrorKind::Blocked, "{blocked}");
        assert!(blocked.text.contains("push that branch first"), "{blocked}");
        assert_eq!((world.repo().branch("main"), world.repo().branch(&item.branch)), (before, None));
    }
}

async fn commit_is_found_on_the_base_branch_after_its_push(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.delivery("r1", StagedItem::new(1, "commit.md", ActionKind::Commit, "fix: the sign"));
    assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::No);
    let missing = world.forge.deliver(&item).await.expect_err("without a push");
    assert_eq!(missing.kind, DeliverErrorKind::Transient, "{missing}");
    twice(&world, &item).await;
    assert_eq!(world.repo().branch("main"), Some(world.commit.clone()));
}

async fn reviewers_and_status_are_set_with_a_pull_request(kind: RemoteKind) {
    let world = World::with(kind, |fake, connection| {
        fake.repo(support::REPO).add_writer("ada");
        connection.reviewers = vec!["ada".to_owned()];
        connection.status_context = Some("loopwright".to_owned());
    });
    let gates = |value: &str| vec![EngineFact::new("gates", value)];
    twice(&world, &Delivery { facts: gates("tests passed"), ..world.pull("r1") }).await;
    let pull = world.repo().pulls()[0].pull.clone().expect("a pull request");
    assert_eq!(pull.reviewers, ["ada"]);
    let checks = world.repo().checks();
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!((checks[0].name.as_str(), &checks[0].head), ("loopwright/fixer", &world.commit));
    assert_eq!(checks[0].title.as_deref(), Some("gates: tests passed"));
    // Nothing is stated about a change that no gate tested.
    for (round, facts) in [("r2", gates("none")), ("r3", Vec::new()), ("r4", gates("tests passed, lint skipped"))] {
        twice(&world, &Delivery { facts, ..world.pull(round) }).await;
    }
    assert_eq!(world.repo().checks().len(), 1);
}

async fn items_for_other_receivers_are_refused(kind: RemoteKind) {
    let world = World::new(kind);
    for kind in [ActionKind::Report, ActionKind::Slack, ActionKind::Webhook] {
        let item = world.delivery("r1", StagedItem::new(1, "x.md", kind, "{}"));
        assert_eq!(world.deliver(&item).await.expect_err("not for a forge").kind, DeliverErrorKind::Refused);
    }
    assert!(world.fake.requests().is_empty());
}

/// Forges accept a comment twice, so only the client keeps two deliveries apart.
async fn concurrent_deliveries_of_one_comment_write_it_once(kind: RemoteKind) {
    let world = World::new(kind);
    let number = world.repo().open_issue(&IssueDraft { author: "ada", title: "T", ..IssueDraft::default() });
    let item = world.delivery("r1", world.about(ActionKind::IssueComment, number, "I looked."));
    let (one, two, three) = tokio::join!(world.deliver(&item), world.deliver(&item), world.deliver(&item));
    let one = one.expect("delivered");
    assert_eq!((two.expect("delivered"), three.expect("delivered")), (one.clone(), one));
    assert_eq!(world.repo().comments(number).len(), 1);
}

#[tokio::test]
async fn github_app_signs_in_and_its_token_is_reused_until_it_ends() {
    let world = World::with(RemoteKind::GitHub, |fake, connection| {
        let permissions =
            ["contents:write", "pull_requests:write", "issues:write", "metadata:read", "administration:write"];
        let (app, key) = fake.create_app("helper", "acme", &permissions);
        fake.repo(support::REPO).add_writer("helper[bot]");
        connection.token = ForgeToken::App(loopwright_forge::GitHubApp {
            app_id: app.id.to_string(),
            private_key: SecretText::new(key),
            installation: None,
        });
    });
    let world = world.in_real_time();
    twice(&world, &world.pull("r1")).await;
    let exchanged = world.fake.requests_to("POST", "/app/installations/*/access_tokens").len();
    assert_eq!(exchanged, 1);
    let asked = world.fake.requests_to("POST", "/app/installations/*/access_tokens")[0].body.clone();
    let expected = serde_json::json!({
        "repositories": ["app"],
        "permissions": { "contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write" },
    });
    assert_eq!(asked, expected, "one repository, and only needed permissions");
    // A key that is not the App's cannot sign in.
    let (_, other) = world.fake.create_app("other", "acme", &[]);
    let mut connection = world.connection.clone();
    if let ForgeToken::App(app) = &mut connection.token {
        app.private_key = SecretText::new(other);
    }
    let stranger = connect(&connection, support::real_time()).expect("a key");
    let error = stranger.deliver(&world.pull("r2")).await.expect_err("another key");
    assert!(support::waits_for_a_person(&error), "{error}");
    assert!(error.text.contains("private key"), "{error}");
}

#[tokio::test]
async fn path_of_a_comment_outside_of_the_diff_is_code_on_gitlab() {
    let world = World::new(RemoteKind::GitLab);
    let number = pull_number(&world).await;
    let comment = InlineComment {
        path: "a` @ada ![x](https://evil.example)".to_owned(),
        line: 7,
        side: DiffSide::Right,
        start_line: None,
        body: "Why?".to_owned(),
    };
    let item = StagedItem { comments: vec![comment], ..world.about(ActionKind::PrInline, number, "") };
    twice(&world, &world.delivery("r2", item)).await;
    let bodies: Vec<String> = world.repo().comments(number).into_iter().map(|comment| comment.body).collect();
    let expected = "`a' @ada ![x](https://evil.example)`, line 7: Why?";
    assert!(bodies.iter().any(|body| body.starts_with(expected)), "{bodies:?}");
}

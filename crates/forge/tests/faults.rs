//! Failures of the network and of the forge: nothing is created twice, nothing is lost, and each error has one clear
//! message.

mod support;

use loopwright_core::deliver::{Deliver as _, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup};
use loopwright_core::forge::{ForgeError, ItemQuery, ReadForge as _};
use loopwright_core::outbox::{DiffSide, InlineComment, StagedItem};
use loopwright_core::spec::ActionKind;
use loopwright_forge::{ForgeConnection, ForgeToken, RemoteKind, SecretText};
use loopwright_testkit::fake_forge::{FakeToken, ForgeFault, IssueDraft};
use loopwright_testkit::forge_contract::ForgeFixture as _;
use std::time::Duration;
use support::{REPO, World, routes, waits_for_a_person};

on_every_forge! {
    create_that_succeeds_without_an_answer_is_in_doubt_and_then_found
    create_that_the_forge_did_not_perform_is_in_doubt_and_then_delivered
    comment_with_a_lost_answer_is_not_written_again
    create_that_the_forge_performs_late_has_one_effect
    create_that_was_never_performed_is_repeated_after_pauses
    pull_request_with_a_lost_answer_and_a_late_listing_is_found_and_not_refused
    pull_request_whose_labels_fail_may_be_visible
    create_of_a_killed_process_that_is_listed_late_has_one_effect
    server_that_names_a_time_gets_no_request_before_it
    answers_keep_their_meaning
    archived_repository_keeps_the_item_and_names_the_next_step
    repositories_of_one_account_share_its_rate_limit
    answer_that_never_comes_ends_at_the_time_limit
    rate_limit_pauses_all_requests_until_its_end
    failed_read_is_reported_and_not_an_empty_list
    unreachable_forge_is_transient
    rejected_token_names_its_location_and_keeps_the_item
    deleted_repository_keeps_the_item_and_missing_target_refuses_it
    no_message_contains_the_token
}

fn kind_of(error: &DeliverError) -> DeliverErrorKind {
    error.kind
}

fn number_of_pulls(world: &World) -> usize {
    world.repo().pulls().len()
}

async fn in_doubt_then_one(kind: RemoteKind, fault: ForgeFault, expected: Expected) {
    let world = World::new(kind);
    // GitHub adds labels by a second call; another test has them.
    let item = Delivery { labels: Vec::new(), ..world.pull("r1") };
    world.fake.fail("POST", routes(kind).pulls, 1, fault.clone());
    let error = world.deliver(&item).await.expect_err("the answer is lost");
    assert_eq!(kind_of(&error), DeliverErrorKind::InDoubt, "{fault:?}: {error}");
    let found = look_until_known(&world, &item).await;
    assert_eq!(matches!(found, DeliveryLookup::Yes(_)), expected == Expected::There, "{fault:?}");
    let receipt = world.deliver(&item).await.expect("the second try");
    assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::Yes(receipt), "{fault:?}");
    assert_eq!(number_of_pulls(&world), 1, "{fault:?}");
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    There,
    Missing,
}

async fn create_that_succeeds_without_an_answer_is_in_doubt_and_then_found(kind: RemoteKind) {
    let faults =
        [ForgeFault::CutAfter, ForgeFault::CutInside, ForgeFault::ServerErrorAfter(502), ForgeFault::MalformedJson];
    for fault in faults {
        in_doubt_then_one(kind, fault, Expected::There).await;
    }
}

async fn create_that_the_forge_did_not_perform_is_in_doubt_and_then_delivered(kind: RemoteKind) {
    for fault in [ForgeFault::CutBefore, ForgeFault::ServerError(503), ForgeFault::HtmlPage(502)] {
        in_doubt_then_one(kind, fault, Expected::Missing).await;
    }
}

fn comment(world: &World) -> Delivery {
    let number = world.repo().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    world.delivery("r1", world.about(ActionKind::IssueComment, number, "I looked."))
}

async fn comment_with_a_lost_answer_is_not_written_again(kind: RemoteKind) {
    for fault in [ForgeFault::CutAfter, ForgeFault::ServerErrorAfter(504), ForgeFault::MalformedJson] {
        let world = World::new(kind);
        let item = comment(&world);
        world.fake.fail("POST", routes(kind).issue_comments, 1, fault.clone());
        let error = world.deliver(&item).await.expect_err("the answer is lost");
        assert_eq!(kind_of(&error), DeliverErrorKind::InDoubt, "{fault:?}: {error}");
        let receipt = world.deliver(&item).await.expect("it is found");
        assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::Yes(receipt));
        let number = item.item.target.as_deref().and_then(|target| target.parse().ok()).expect("a number");
        assert_eq!(world.repo().comments(number).len(), 1, "{fault:?}");
    }
}

fn issue(world: &World) -> Delivery {
    let item = StagedItem::new(1, "issue-create.md", ActionKind::IssueCreate, "Steps.");
    world.delivery("r1", StagedItem { title: Some("It breaks".to_owned()), ..item })
}

/// The engine's protocol after a lost answer: looks until the forge answers yes or no, at the times that it names.
async fn look_until_known(world: &World, item: &Delivery) -> DeliveryLookup {
    for _ in 0..10 {
        match world.forge.find(item).await {
            Ok(found) => return found,
            Err(error) => {
                assert_eq!(kind_of(&error), DeliverErrorKind::Transient, "{error}");
                let at_ms = error.retry_at_ms.expect("the time of the next look-up");
                // A second attempt before that time sends nothing.
                assert_eq!(kind_of(&world.deliver(item).await.expect_err("too early")), DeliverErrorKind::Transient);
                world.clock.advance(at_ms - world.clock.now_ms());
            }
        }
    }
    panic!("it stays unknown");
}

/// The texts on the forge with the item's marker.
fn effects(world: &World, item: &Delivery) -> usize {
    let repo = world.repo();
    let issues = repo.issues();
    let comments = issues.iter().flat_map(|issue| repo.comments(issue.number)).map(|comment| comment.body);
    let texts: Vec<String> = issues.iter().filter_map(|issue| issue.body.clone()).chain(comments).collect();
    texts.iter().filter(|text| text.contains(&item.marker)).count()
}

async fn create_that_the_forge_performs_late_has_one_effect(kind: RemoteKind) {
    for (path, make) in [(routes(kind).issue_comments, comment as fn(&World) -> Delivery), (routes(kind).issues, issue)]
    {
        let world = World::new(kind);
        let item = make(&world);
        // The first look-up does not find it, and neither does the look-up of an attempt that comes too early.
        world.fake.fail("POST", path, 1, ForgeFault::LateAfterCut(3));
        assert_eq!(kind_of(&world.deliver(&item).await.expect_err("cut")), DeliverErrorKind::InDoubt);
        assert!(matches!(look_until_known(&world, &item).await, DeliveryLookup::Yes(_)), "{path}");
        world.deliver(&item).await.expect("it is there");
        assert_eq!(effects(&world, &item), 1, "{path}");
    }
}

async fn create_that_was_never_performed_is_repeated_after_pauses(kind: RemoteKind) {
    let world = World::new(kind);
    let item = comment(&world);
    world.fake.fail("POST", routes(kind).issue_comments, 1, ForgeFault::CutBefore);
    assert_eq!(kind_of(&world.deliver(&item).await.expect_err("cut")), DeliverErrorKind::InDoubt);
    let start_ms = world.clock.now_ms();
    assert_eq!(look_until_known(&world, &item).await, DeliveryLookup::No);
    assert!(world.clock.now_ms() - start_ms >= 5_000, "the forge had time to show it");
    world.deliver(&item).await.expect("the second create");
    assert_eq!(effects(&world, &item), 1);
}

async fn pull_request_with_a_lost_answer_and_a_late_listing_is_found_and_not_refused(kind: RemoteKind) {
    let world = World::new(kind);
    let item = Delivery { labels: Vec::new(), ..world.pull("r1") };
    world.fake.fail("POST", routes(kind).pulls, 1, ForgeFault::CutAfter);
    assert_eq!(kind_of(&world.deliver(&item).await.expect_err("cut")), DeliverErrorKind::InDoubt);
    // The listing is late.
    world.fake.clear_faults();
    match kind {
        // Gitea has a call for the pull request of a branch.
        RemoteKind::Gitea => world.fake.fail_always("GET", "/repos/*/*/pulls/**", ForgeFault::Status(404)),
        _ => world.fake.fail_always("GET", routes(kind).pulls, ForgeFault::EmptyList),
    }
    for _ in 0..2 {
        let error = world.forge.find(&item).await.expect_err("it may be late");
        assert_eq!(kind_of(&error), DeliverErrorKind::Transient, "{error}");
        world.clock.advance(error.retry_at_ms.expect("the time of the next look-up") - world.clock.now_ms());
    }
    world.fake.clear_faults();
    assert!(matches!(world.forge.find(&item).await, Ok(DeliveryLookup::Yes(_))));
    world.deliver(&item).await.expect("it is there");
    assert_eq!(number_of_pulls(&world), 1);
}

async fn create_of_a_killed_process_that_is_listed_late_has_one_effect(kind: RemoteKind) {
    let mut world = World::new(kind);
    let item = comment(&world);
    world.fake.fail("POST", routes(kind).issue_comments, 1, ForgeFault::LateAfterCut(3));
    assert_eq!(kind_of(&world.deliver(&item).await.expect_err("cut")), DeliverErrorKind::InDoubt);
    // Another process takes over and knows only that an attempt was made.
    world.reconnect();
    world.forge.expect_earlier(&item);
    assert!(matches!(look_until_known(&world, &item).await, DeliveryLookup::Yes(_)));
    world.deliver(&item).await.expect("it is there");
    assert_eq!(effects(&world, &item), 1);
}

async fn pull_request_whose_labels_fail_may_be_visible(kind: RemoteKind) {
    // The other forges set the labels with the creation.
    let world = World::with(kind, |fake, connection| {
        fake.repo(REPO).add_writer("ada");
        connection.reviewers = vec!["ada".to_owned()];
    });
    let item = world.pull("r1");
    let later = match kind {
        RemoteKind::GitHub => "/repos/*/*/issues/*/labels",
        RemoteKind::Gitea => "/repos/*/*/pulls/*/requested_reviewers",
        RemoteKind::GitLab => return,
    };
    world.fake.fail("POST", later, 1, ForgeFault::ServerError(503));
    let error = world.deliver(&item).await.expect_err("the second call fails");
    assert!(error.is_after_effect && kind_of(&error) == DeliverErrorKind::Transient, "{error:?}");
    assert_eq!(number_of_pulls(&world), 1, "the pull request is visible");
    world.deliver(&item).await.expect("it is completed");
    assert_eq!(number_of_pulls(&world), 1);
}

#[tokio::test]
async fn gitlab_review_that_is_refused_in_the_middle_has_visible_parts() {
    let kind = RemoteKind::GitLab;
    let world = World::new(kind);
    world.deliver(&world.pull("r1")).await.expect("a merge request");
    let comment = |body: &str| InlineComment {
        path: "fix.txt".to_owned(),
        line: 1,
        side: DiffSide::Right,
        start_line: None,
        body: body.to_owned(),
    };
    let number = world.repo().pulls()[0].number;
    let item = world.about(ActionKind::PrInline, number, "");
    let item = world.delivery("r2", StagedItem { comments: vec![comment("First."), comment("Second.")], ..item });
    // The second comment is refused on its line and as a plain one.
    for nth in 2..=3 {
        world.fake.fail("POST", "/projects/*/merge_requests/*/discussions", nth, ForgeFault::Status(422));
    }
    let error = world.deliver(&item).await.expect_err("a part is refused");
    assert!(error.is_after_effect && kind_of(&error) == DeliverErrorKind::Refused, "{error:?}");
    assert_eq!(world.repo().comments(number).len(), 1);
}

async fn server_that_names_a_time_gets_no_request_before_it(kind: RemoteKind) {
    let world = World::new(kind);
    let item = comment(&world);
    world.fake.fail("POST", routes(kind).issue_comments, 1, ForgeFault::Maintenance(30));
    let error = world.deliver(&item).await.expect_err("unavailable");
    let later = Some(world.clock.now_ms() + 30_000);
    assert_eq!((kind_of(&error), error.retry_at_ms), (DeliverErrorKind::InDoubt, later), "{error}");
    world.fake.clear_requests();
    assert_eq!(world.forge.find(&item).await.expect_err("too early").retry_at_ms, later);
    assert!(world.fake.requests().is_empty());
    world.clock.advance(30_000);
    assert_eq!(look_until_known(&world, &item).await, DeliveryLookup::No);
    world.deliver(&item).await.expect("after the maintenance");
}

async fn answers_keep_their_meaning(kind: RemoteKind) {
    use DeliverErrorKind as Kind;
    let table = [
        (ForgeFault::Status(408), Kind::InDoubt, "408"),
        (ForgeFault::Status(409), Kind::Transient, "409"),
        (ForgeFault::Status(423), Kind::Blocked, "unlock it"),
        (ForgeFault::Status(425), Kind::Transient, "425"),
        (ForgeFault::Said(403, "Unable to create comment because issue is locked."), Kind::Refused, "locked the conv"),
        (ForgeFault::Said(403, "Repository was archived so is read-only."), Kind::Blocked, "unarchive it"),
        (ForgeFault::Said(423, "repo is archived"), Kind::Blocked, "unarchive it"),
        (ForgeFault::Status(403), Kind::Blocked, "lacks a permission"),
        (ForgeFault::Said(403, "Your account has been blocked."), Kind::Blocked, "lacks a permission"),
        (ForgeFault::Status(422), Kind::Refused, "422"),
    ];
    for (fault, expected, words) in table {
        let world = World::new(kind);
        let item = comment(&world);
        world.fake.fail("POST", routes(kind).issue_comments, 1, fault.clone());
        let error = world.deliver(&item).await.expect_err("it fails");
        assert_eq!(kind_of(&error), expected, "{fault:?}: {error}");
        assert!(error.text.contains(words), "{fault:?}: {error}");
    }
}

async fn archived_repository_keeps_the_item_and_names_the_next_step(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.pull("r1");
    world.repo().archive();
    let error = world.deliver(&item).await.expect_err("read-only");
    assert_eq!(kind_of(&error), DeliverErrorKind::Blocked, "{error}");
    assert!(error.text.contains("is archived") && error.text.contains("unarchive it"), "{error}");
    assert_eq!(world.repo().branch(&item.branch), None, "nothing was pushed");
    world.repo().unarchive().remove_writer("bot");
    let error = world.deliver(&item).await.expect_err("no right to push");
    assert!(waits_for_a_person(&error) && error.text.contains("may not push"), "{error}");
    world.repo().add_writer("bot");
    world.deliver(&item).await.expect("it recovers");
}

async fn repositories_of_one_account_share_its_rate_limit(kind: RemoteKind) {
    let world = World::new(kind);
    world.fake.create_repo("acme/other").add_writer("bot");
    let connection = ForgeConnection { repository: "acme/other".to_owned(), ..world.connection.clone() };
    let other = world.forge.connect_beside(&connection).expect("a connection");
    assert!(other.pulls(&ItemQuery::open(), None).await.is_ok());
    world.fake.fail("GET", routes(kind).pulls, 1, ForgeFault::TooManyRequests(5));
    world.forge.pulls(&ItemQuery::open(), None).await.expect_err("limited");
    world.fake.clear_requests();
    let limited = other.pulls(&ItemQuery::open(), None).await.expect_err("the same account");
    assert!(matches!(limited, ForgeError::Unavailable { retry_at_ms: Some(_), .. }), "{limited:?}");
    assert!(world.fake.requests().is_empty());
    let elsewhere = ForgeConnection { api_url: Some("https://elsewhere.example/api/v4".to_owned()), ..connection };
    assert!(world.forge.connect_beside(&elsewhere).is_err(), "another server");
}

async fn answer_that_never_comes_ends_at_the_time_limit(kind: RemoteKind) {
    let world = World::with(kind, |_, connection| connection.network.total_timeout = Duration::from_millis(500));
    let item = comment(&world);
    world.fake.fail("POST", routes(kind).issue_comments, 1, ForgeFault::Stall);
    let error = world.deliver(&item).await.expect_err("no answer");
    assert_eq!(kind_of(&error), DeliverErrorKind::InDoubt, "{error}");
    assert!(matches!(world.forge.find(&item).await, Ok(DeliveryLookup::Yes(_))));
}

async fn rate_limit_pauses_all_requests_until_its_end(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.pull("r1");
    world.fake.fail("POST", routes(kind).pulls, 1, ForgeFault::TooManyRequests(2));
    let error = world.deliver(&item).await.expect_err("limited");
    assert_eq!(kind_of(&error), DeliverErrorKind::Transient, "{error}");
    world.fake.clear_requests();
    let query = ItemQuery::open();
    let ForgeError::Unavailable { retry_at_ms, .. } = world.forge.pulls(&query, None).await.expect_err("limited")
    else {
        panic!("a limit is not a refusal");
    };
    assert_eq!(retry_at_ms, Some(world.clock.now_ms() + 2000));
    assert_eq!(kind_of(&world.deliver(&item).await.expect_err("limited")), DeliverErrorKind::Transient);
    assert!(world.fake.requests().is_empty(), "no request during the limit");
    world.clock.advance(2000);
    world.deliver(&item).await.expect("after the limit");
    assert_eq!(number_of_pulls(&world), 1);
}

#[tokio::test]
async fn both_limits_of_github_are_limits_and_not_missing_permissions() {
    for fault in [ForgeFault::PrimaryLimit(5), ForgeFault::SecondaryLimit(5)] {
        let world = World::new(RemoteKind::GitHub);
        let item = world.pull("r1");
        world.fake.fail("POST", routes(RemoteKind::GitHub).pulls, 1, fault.clone());
        let error = world.deliver(&item).await.expect_err("limited");
        assert_eq!(kind_of(&error), DeliverErrorKind::Transient, "{fault:?}: {error}");
        world.clock.advance(25 * 3_600_000);
        world.deliver(&item).await.expect("after the limit");
    }
}

async fn failed_read_is_reported_and_not_an_empty_list(kind: RemoteKind) {
    for fault in
        [ForgeFault::ServerError(500), ForgeFault::CutBefore, ForgeFault::MalformedJson, ForgeFault::HtmlPage(200)]
    {
        let world = World::new(kind);
        world.fake.fail("GET", routes(kind).pulls, 1, fault.clone());
        let error = world.forge.pulls(&ItemQuery::open(), None).await.expect_err("no list");
        assert!(matches!(error, ForgeError::Unavailable { .. }), "{fault:?}: {error:?}");
        assert!(world.forge.pulls(&ItemQuery::open(), None).await.is_ok());
    }
}

async fn unreachable_forge_is_transient(kind: RemoteKind) {
    let world = World::with(kind, |_, connection| {
        let path = connection.api_url.as_deref().unwrap_or_default().splitn(4, '/').nth(3).unwrap_or_default();
        // Port 1 of loopback has no listener.
        connection.api_url = Some(format!("http://127.0.0.1:1/{path}"));
    });
    let error = world.deliver(&world.pull("r1")).await.expect_err("nothing listens");
    assert_eq!(kind_of(&error), DeliverErrorKind::Transient);
    assert!(error.text.contains("127.0.0.1:1"), "{error}");
}

async fn rejected_token_names_its_location_and_keeps_the_item(kind: RemoteKind) {
    let mut world = World::new(kind);
    let ForgeToken::Account(token) = world.connection.token.clone() else { panic!("an account's token") };
    world.fake.revoke_token(token.expose());
    let item = world.pull("r1");
    let error = world.deliver(&item).await.expect_err("revoked");
    assert!(waits_for_a_person(&error), "{error}");
    assert!(error.text.contains("BOT_TOKEN") && error.text.contains("401"), "{error}");
    let read = world.forge.pulls(&ItemQuery::open(), None).await.expect_err("revoked");
    assert!(matches!(read, ForgeError::Refused(_)), "{read:?}");
    world.connection.token = ForgeToken::Account(SecretText::new(world.fake.token("bot")));
    world.reconnect();
    world.deliver(&item).await.expect("a new token recovers");
}

async fn deleted_repository_keeps_the_item_and_missing_target_refuses_it(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.delivery("r1", world.about(ActionKind::IssueComment, 99, "Hello."));
    let error = world.deliver(&item).await.expect_err("no issue 99");
    assert_eq!(kind_of(&error), DeliverErrorKind::Refused, "{error}");
    world.fake.delete_repo(REPO);
    for item in [item, world.pull("r1")] {
        let error = world.deliver(&item).await.expect_err("no repository");
        assert!(waits_for_a_person(&error), "{error}");
        assert!(error.text.contains(REPO) && error.text.contains("BOT_TOKEN"), "{error}");
    }
    let read = world.forge.issues(&ItemQuery::open(), None).await.expect_err("no repository");
    assert!(matches!(&read, ForgeError::Refused(text) if text.contains(REPO)), "{read:?}");
}

#[tokio::test]
async fn missing_permission_is_named() {
    let table = [
        (FakeToken::fine_grained("bot", &["metadata:read", "contents:write", "pull_requests:read"]), "BOT_TOKEN"),
        (FakeToken::personal("bot", &["repo:status"]), "`repo`"),
    ];
    for (grant, expected) in table {
        let world = World::with(RemoteKind::GitHub, |fake, connection| {
            connection.token = ForgeToken::Account(SecretText::new(fake.add_token(grant.clone())));
        });
        // The branch is there, so only the right to create a pull request is missing.
        let item = world.pull("r1");
        world.repo().copy_branches_from(&{
            world.local.git(["branch", "--force", &item.branch]);
            world.local.path().join(".git")
        });
        let error = world.forge.deliver(&item).await.expect_err("no permission");
        assert!(waits_for_a_person(&error), "{grant:?}: {error}");
        assert!(error.text.contains(expected), "{grant:?}: {error}");
    }
}

#[tokio::test]
async fn base_branch_that_the_forge_lacks_keeps_the_item_and_pushes_nothing() {
    let world = World::new(RemoteKind::GitHub);
    let item = Delivery { base_branch: "no-such-base".to_owned(), ..world.pull("r1") };
    let error = world.deliver(&item).await.expect_err("no such base");
    assert_eq!(error.kind, DeliverErrorKind::Blocked, "{error}");
    assert!(error.text.contains("`no-such-base` does not contain"), "{error}");
    assert_eq!(world.repo().branch(&item.branch), None);
}

#[tokio::test]
async fn content_that_the_forge_rejects_is_refused_with_its_words() {
    let world = World::new(RemoteKind::GitHub);
    world.deliver(&world.pull("r1")).await.expect("a pull request");
    let item = world.about(ActionKind::PrInline, world.repo().pulls()[0].number, "");
    let (path, body) = ("no-such-file.txt".to_owned(), "Why?".to_owned());
    let comments = vec![InlineComment { path, line: 1, side: DiffSide::Right, start_line: None, body }];
    let item = world.delivery("r2", StagedItem { comments, ..item });
    let error = world.deliver(&item).await.expect_err("no such file");
    assert_eq!(kind_of(&error), DeliverErrorKind::Refused, "{error}");
    assert!(error.text.contains("422"), "{error}");
}

#[tokio::test]
async fn labels_that_a_failure_prevented_are_added_by_the_next_try() {
    let table = [
        ("/repos/*/*/issues/*/labels", ForgeFault::ServerError(500), DeliverErrorKind::Transient),
        ("/repos/*/*/pulls", ForgeFault::CutAfter, DeliverErrorKind::InDoubt),
    ];
    // Asking for a review changes the pull request before it has its labels.
    let rows = table.into_iter().flat_map(|row| [(Vec::new(), row.clone()), (vec!["ada".to_owned()], row)]);
    for (reviewers, (path, fault, expected)) in rows {
        let asks = !reviewers.is_empty();
        let world = World::with(RemoteKind::GitHub, |fake, connection| {
            fake.repo(REPO).add_writer("ada");
            connection.reviewers = reviewers;
        });
        let item = world.pull("r1");
        world.fake.fail("POST", path, 1, fault);
        let error = world.deliver(&item).await.expect_err("the first try");
        assert_eq!(kind_of(&error), expected, "{error}");
        assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::No);
        let receipt = world.deliver(&item).await.expect("the second try");
        assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::Yes(receipt));
        let pulls = world.repo().pulls();
        assert_eq!(pulls.len(), 1);
        assert_eq!(pulls[0].labels, ["loopwright"]);
        if asks {
            continue;
        }
        // A person who removes the label has decided.
        world.repo().remove_label(pulls[0].number, "loopwright");
        assert!(matches!(world.forge.find(&item).await, Ok(DeliveryLookup::Yes(_))));
    }
}

async fn no_message_contains_the_token(kind: RemoteKind) {
    let world = World::new(kind);
    let ForgeToken::Account(token) = world.connection.token.clone() else { panic!("an account's token") };
    let issue = StagedItem { title: Some("T".to_owned()), ..StagedItem::new(1, "i.md", ActionKind::IssueCreate, "B") };
    let issue = world.delivery("r1", issue);
    for fault in [ForgeFault::Status(401), ForgeFault::Status(403), ForgeFault::Status(422), ForgeFault::CutAfter] {
        world.fake.fail("POST", routes(kind).issues, 1, fault);
        if let Err(error) = world.forge.deliver(&issue).await {
            assert!(!error.text.contains(token.expose()), "{error}");
        }
        world.fake.clear_faults();
    }
    assert!(!format!("{:?} {:?}", world.connection, world.forge).contains(token.expose()));
}

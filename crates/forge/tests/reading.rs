//! Reads: pages, conditional requests, comments of every kind, checks.

mod support;

use loopwright_core::forge::{
    CheckQuery, CheckState, CommentKind, CommentsOf, ForgePage, ItemQuery, ItemState, PAGE_ROWS_MAX, ReadForge as _,
};
use loopwright_forge::{FindingState, ForgeToken, RemoteKind, SecretText};
use loopwright_testkit::fake_forge::{FakeToken, IssueDraft};
use std::num::NonZeroUsize;
use support::{World, routes};

on_every_forge! {
    many_issues_are_read_in_order_and_pull_requests_are_not_among_them
    comments_of_people_are_read_with_their_kind
    merged_and_closed_pull_requests_are_distinguished
    checks_have_their_state_and_output
    inspection_finds_nothing_wrong_with_a_good_connection
    inspection_names_what_is_wrong
}

async fn many_issues_are_read_in_order_and_pull_requests_are_not_among_them(kind: RemoteKind) {
    let world = World::new(kind);
    world.deliver(&world.pull("r1")).await.expect("a pull request");
    for number in 0..110 {
        let title = format!("issue {number}");
        world.repo().open_issue(&IssueDraft { author: "ada", title: &title, ..IssueDraft::default() });
    }
    let query = ItemQuery::open();
    let (mut titles, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let ForgePage { rows, next } = world.forge.issues(&query, from.as_ref()).await.expect("a page");
        assert!(rows.len() <= PAGE_ROWS_MAX);
        titles.extend(rows.into_iter().filter_map(|issue| issue.about.title));
        pages += 1;
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(titles, (0..110).map(|number| format!("issue {number}")).collect::<Vec<_>>());
    assert!(pages > 1);
    let most = NonZeroUsize::new(105).expect("not zero");
    let some = loopwright_core::forge::read_rows(most, |from| {
        let forge = &world.forge;
        let query = ItemQuery::open();
        Box::pin(async move { forge.issues(&query, from.as_ref()).await })
    });
    assert_eq!(some.await.expect("rows").len(), 105);
}

#[tokio::test]
async fn listing_that_has_not_changed_is_read_from_the_cache() {
    let world = World::new(RemoteKind::GitHub);
    let path = routes(RemoteKind::GitHub).issues;
    world.repo().open_issue(&IssueDraft { author: "ada", title: "One", ..IssueDraft::default() });
    let query = ItemQuery::open();
    let first = world.forge.issues(&query, None).await.expect("a page");
    let second = world.forge.issues(&query, None).await.expect("a page");
    assert_eq!(first, second);
    let statuses: Vec<_> = world.fake.requests_to("GET", path).iter().map(|request| request.status).collect();
    assert_eq!(statuses, [Some(200), Some(304)]);
    world.repo().open_issue(&IssueDraft { author: "ada", title: "Two", ..IssueDraft::default() });
    assert_eq!(world.forge.issues(&query, None).await.expect("a page").rows.len(), 2);
}

async fn comments_of_people_are_read_with_their_kind(kind: RemoteKind) {
    let world = World::new(kind);
    world.deliver(&world.pull("r1")).await.expect("a pull request");
    let number = world.repo().pulls()[0].number;
    world.repo().comment(number, "ada", "A plain one.");
    world.repo().comment_inline(number, "eve", "fix.txt", 1, "On a line.");
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = world.forge.comments(CommentsOf::Pull(number), from.as_ref()).await.expect("a page");
        all.extend(page.rows);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let of = |author: &str, kind: CommentKind| {
        let found = all.iter().find(|comment| comment.author.as_deref() == Some(author) && comment.kind == kind);
        found.unwrap_or_else(|| panic!("{author} {kind:?}: {all:?}"))
    };
    assert_eq!(of("ada", CommentKind::Plain).body, "A plain one.");
    assert_eq!(of("eve", CommentKind::Inline).body, "fix.txt:1: On a line.");
    assert!(all.iter().all(|comment| comment.loop_name.is_none()));
    let mut ids: Vec<_> = all.iter().map(|comment| &comment.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), all.len());
}

async fn merged_and_closed_pull_requests_are_distinguished(kind: RemoteKind) {
    let mut world = World::new(kind);
    for round in ["r1", "r2", "r3"] {
        world.commit_more(round);
        world.deliver(&world.pull(round)).await.expect("a pull request");
    }
    let numbers: Vec<u64> = world.repo().pulls().iter().map(|pull| pull.number).collect();
    world.repo().close_item(numbers[0]);
    world.repo().merge_pull(numbers[1]);
    for (state, number) in
        [(ItemState::Closed, numbers[0]), (ItemState::Merged, numbers[1]), (ItemState::Open, numbers[2])]
    {
        let query = ItemQuery { state: Some(state), ..ItemQuery::default() };
        let found = world.forge.pulls(&query, None).await.expect("pull requests").rows;
        let found: Vec<u64> = found.iter().map(|pull| pull.about.number).collect();
        assert_eq!(found, [number], "{state:?}");
    }
}

async fn checks_have_their_state_and_output(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.pull("r1");
    world.deliver(&item).await.expect("a pull request");
    world.repo().report_status("lint", &world.commit, "success", "fine");
    world.repo().report_status("build", &world.commit, "failure", "2 errors");
    world.repo().report_status("deploy", &world.commit, "pending", "waits");
    let query = CheckQuery { branch: Some(item.branch.clone()), ..CheckQuery::default() };
    let checks = world.forge.checks(&query, None).await.expect("checks").rows;
    let of =
        |name: &str| checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}: {checks:?}"));
    assert_eq!(of("lint").state, CheckState::Passed);
    assert_eq!((of("build").state, of("build").body.as_str()), (CheckState::Failed, "2 errors"));
    assert_eq!(of("deploy").state, CheckState::Pending);
    assert!(checks.iter().all(|check| check.head == world.commit && check.branch.as_ref() == Some(&item.branch)));
    // Without a branch, the checks of open pull requests count.
    let all = world.forge.checks(&CheckQuery::default(), None).await.expect("checks").rows;
    assert_eq!(all.len(), 3);
}

async fn inspection_finds_nothing_wrong_with_a_good_connection(kind: RemoteKind) {
    let world = World::new(kind);
    world.repo().protect("main");
    let findings = world.forge.inspect("main").await;
    assert!(findings.iter().all(|finding| finding.state == FindingState::Good), "{findings:?}");
    let text = |subject: &str| {
        let found = findings.iter().find(|finding| finding.subject == subject);
        found.map(|finding| finding.text.clone()).unwrap_or_else(|| panic!("{subject}: {findings:?}"))
    };
    assert!(text("token").contains("`bot`"));
    assert!(text("base-branch").contains("is protected"));
    for subject in ["reachable", "repository", "push"] {
        text(subject);
    }
    assert!(world.fake.requests().iter().all(|request| request.method == "GET"), "read-only");
}

async fn inspection_names_what_is_wrong(kind: RemoteKind) {
    let mut world = World::new(kind);
    let bad = async |world: &World, base: &str| {
        let findings = world.forge.inspect(base).await;
        findings.into_iter().filter(|finding| finding.state == FindingState::Bad).collect::<Vec<_>>()
    };
    let missing = bad(&world, "no-such-branch").await;
    assert_eq!(missing.iter().map(|finding| finding.subject).collect::<Vec<_>>(), ["base-branch"], "{missing:?}");
    world.repo().remove_writer("bot");
    let readonly = bad(&world, "main").await;
    assert_eq!(readonly.iter().map(|finding| finding.subject).collect::<Vec<_>>(), ["push"], "{readonly:?}");
    world.fake.delete_repo(support::REPO);
    assert_eq!(bad(&world, "main").await[0].subject, "repository");
    world.connection.token = ForgeToken::Account(SecretText::new("wrong"));
    world.reconnect();
    let token = bad(&world, "main").await;
    assert_eq!(token[0].subject, "token", "{token:?}");
}

#[tokio::test]
async fn inspection_names_missing_scopes() {
    let world = World::with(RemoteKind::GitHub, |fake, connection| {
        let token = fake.add_token(FakeToken::personal("bot", &["repo:status"]));
        connection.token = ForgeToken::Account(SecretText::new(token));
    });
    let findings = world.forge.inspect("main").await;
    let scopes = findings.iter().find(|finding| finding.subject == "scopes").expect("scopes are reported");
    assert_eq!(scopes.state, FindingState::Bad, "{scopes:?}");
}

#[tokio::test]
async fn row_after_a_full_last_page_is_not_hidden_by_the_cache() {
    let world = World::new(RemoteKind::GitHub);
    let open = |number: usize| {
        let title = format!("issue {number}");
        world.repo().open_issue(&IssueDraft { author: "ada", title: &title, ..IssueDraft::default() });
    };
    (0..100).for_each(open);
    let query = ItemQuery::open();
    for _ in 0..2 {
        let page = world.forge.issues(&query, None).await.expect("a page");
        assert_eq!((page.rows.len(), page.next.is_some()), (100, false));
    }
    // The first page stays the same, and the server still calls it unmodified.
    open(100);
    let page = world.forge.issues(&query, None).await.expect("a page");
    let next = page.next.expect("a second page");
    assert_eq!(world.forge.issues(&query, Some(&next)).await.expect("a page").rows.len(), 1);
}

//! The contract of a forge: the behaviour that every implementation of [`Deliver`] and [`ReadForge`] must share. A
//! crate with a forge implements [`ForgeFixture`] for it and calls [`forge_contract!`](macro@crate::forge_contract), which
//! generates a test for each case.

use loopwright_core::deliver::{Deliver, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::forge::{
    CheckQuery, CheckState, CommentsOf, ForgePage, Issue, ItemQuery, ItemState, PAGE_ROWS_MAX, PullRequest, ReadForge,
    count_open_pulls,
};
use loopwright_core::outbox::{StagedItem, item_id, marker};
use loopwright_core::spec::ActionKind;
use std::pin::Pin;
use std::task::Poll;

/// The loop whose items the contract delivers.
pub const LOOP: &str = "fixer";

/// A forge under test, initially empty, with the actions of people on it.
pub trait ForgeFixture: Sync {
    /// The forge as the engine writes to it, with the push that an item needs.
    fn writer(&self) -> &dyn Deliver;

    /// The forge for reading.
    fn reader(&self) -> &dyn ReadForge;

    /// An item of a round to send, with a commit of the engine's repository.
    fn delivery(&self, round: &str, item: StagedItem) -> Delivery;

    /// A person closes a pull request.
    fn close_pull(&self, number: u64);

    /// A person changes the title of a pull request.
    fn rename_pull(&self, number: u64, title: &str);

    /// A person opens an issue.
    fn open_issue(&self, issue: &PersonIssue<'_>);

    /// A build server reports a failed check.
    fn fail_check(&self, name: &str, head: &str);

    /// A person pushes a commit of their own to a branch; returns the commit.
    fn push_other(&self, branch: &str) -> String;

    /// The commit that a branch has on the forge.
    fn branch(&self, name: &str) -> Option<String>;
}

/// An issue that a person opens.
#[derive(Debug, Clone, Copy, Default)]
pub struct PersonIssue<'a> {
    /// The account.
    pub author: &'a str,
    /// The title.
    pub title: &'a str,
    /// The text.
    pub body: &'a str,
    /// The labels.
    pub labels: &'a [&'a str],
    /// The account that it is assigned to.
    pub assignee: Option<&'a str>,
}

/// The marker and the key of an item, as the engine computes them.
#[must_use]
pub fn marks(round: &str, item: &StagedItem) -> (String, String) {
    (marker(LOOP, round, item.position, "c1"), item_id(LOOP, round, item.position, "c1"))
}

fn pull(forge: &dyn ForgeFixture, round: &str) -> Delivery {
    let item = StagedItem::new(1, "pull-request.md", ActionKind::PullRequest, "It was wrong.");
    forge.delivery(round, StagedItem { title: Some(format!("Fix {round}")), ..item })
}

async fn deliver(forge: &dyn ForgeFixture, item: &Delivery) -> DeliveryReceipt {
    forge.writer().deliver(item).await.expect("the item is delivered")
}

async fn pulls(forge: &dyn ForgeFixture, query: &ItemQuery) -> Vec<PullRequest> {
    forge.reader().pulls(query, None).await.expect("pull requests can be read").rows
}

async fn issues(forge: &dyn ForgeFixture, query: &ItemQuery) -> Vec<Issue> {
    forge.reader().issues(query, None).await.expect("issues can be read").rows
}

/// Delivering the same key twice has one effect and one receipt.
pub async fn same_key_twice_has_one_effect(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    let first = deliver(forge, &item).await;
    assert_eq!(deliver(forge, &item).await, first);
    assert_eq!(pulls(forge, &ItemQuery::default()).await.len(), 1);
}

/// Concurrent deliveries of one key have one effect.
pub async fn concurrent_deliveries_of_one_key_have_one_effect(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    let writer = forge.writer();
    let mut running: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> =
        (0..4).map(|_| writer.deliver(&item)).collect();
    let mut answers = Vec::new();
    std::future::poll_fn(|cx| {
        running.retain_mut(|work| match work.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            Poll::Pending => true,
        });
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let receipts: Vec<DeliveryReceipt> =
        answers.into_iter().map(|answer| answer.expect("each try is answered")).collect();
    assert!(receipts.windows(2).all(|two| two[0].place == two[1].place), "{receipts:?}");
    assert_eq!(pulls(forge, &ItemQuery::default()).await.len(), 1);
}

/// An item is found after its delivery and certainly not before.
pub async fn item_is_found_after_its_delivery_and_not_before(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    assert_eq!(forge.writer().find(&item).await.expect("it answers"), DeliveryLookup::No);
    let receipt = deliver(forge, &item).await;
    assert_eq!(forge.writer().find(&item).await.expect("it answers"), DeliveryLookup::Yes(receipt));
}

/// A pull request has the delivered branch, commit, base and loop.
pub async fn delivered_pull_request_is_read_back_as_it_was_sent(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    let receipt = deliver(forge, &item).await;
    let all = pulls(forge, &ItemQuery::open()).await;
    let [one] = all.as_slice() else { panic!("one is open: {all:?}") };
    assert_eq!(one.about.title, item.item.title);
    assert_eq!((&one.branch, &one.base_branch), (&item.branch, &item.base_branch));
    assert_eq!((Some(&one.head), one.draft), (item.commit.as_ref(), item.draft));
    assert_eq!(one.about.loop_name.as_deref(), Some(LOOP));
    assert!(one.about.body.contains("It was wrong."), "{}", one.about.body);
    assert!(item.labels.iter().all(|label| one.about.labels.contains(label)), "{:?}", one.about.labels);
    assert_eq!(receipt.head, item.commit);
    assert_eq!(forge.branch(&item.branch), item.commit);
}

/// A person's close and edit stay and are visible; the same item is not delivered again.
pub async fn close_and_edit_of_a_person_are_seen_and_kept(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    let receipt = deliver(forge, &item).await;
    let number = pulls(forge, &ItemQuery::open()).await[0].about.number;
    forge.rename_pull(number, "A better title");
    forge.close_pull(number);
    assert_eq!(deliver(forge, &item).await, receipt);
    assert_eq!(pulls(forge, &ItemQuery::open()).await, []);
    let all = pulls(forge, &ItemQuery::default()).await;
    let [one] = all.as_slice() else { panic!("there is one: {all:?}") };
    assert_eq!((one.about.title.as_deref(), one.about.state), (Some("A better title"), ItemState::Closed));
}

/// A branch with a commit of another person stays unchanged.
pub async fn push_over_somebody_else_s_commit_is_refused(forge: &dyn ForgeFixture) {
    // The first item creates the repository and its base branch.
    deliver(forge, &pull(forge, "r1")).await;
    let item = pull(forge, "r2");
    let theirs = forge.push_other(&item.branch);
    let refused = forge.writer().deliver(&item).await.expect_err("the branch is not ours");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    assert_eq!(forge.branch(&item.branch), Some(theirs));
    assert_eq!(pulls(forge, &ItemQuery::open()).await.len(), 1);
}

/// The open pull requests of a loop are counted up to a limit; closed ones and those of others are not.
pub async fn open_pull_requests_of_a_loop_are_counted(forge: &dyn ForgeFixture) {
    let count = async |most| count_open_pulls(forge.reader(), LOOP, most).await.expect("they can be counted");
    assert_eq!(count(10).await, 0);
    for round in ["r1", "r2", "r3"] {
        deliver(forge, &pull(forge, round)).await;
    }
    assert_eq!((count(10).await, count(2).await), (3, 2));
    forge.close_pull(pulls(forge, &ItemQuery::open()).await[0].about.number);
    assert_eq!(count(10).await, 2);
    let others = count_open_pulls(forge.reader(), "another", 10).await.expect("they can be counted");
    assert_eq!(others, 0);
}

/// Issues of people and of loops are filtered by label, author, assignee, mention and text.
pub async fn issues_are_filtered(forge: &dyn ForgeFixture) {
    let bug = PersonIssue { author: "ada", title: "It breaks", body: "Look, @bob", labels: &["bug"], assignee: None };
    forge.open_issue(&bug);
    forge.open_issue(&PersonIssue { author: "eve", title: "An idea", labels: &["idea"], assignee: Some("bob"), ..bug });
    let titles = async |query: ItemQuery| {
        let found = issues(forge, &ItemQuery { state: Some(ItemState::Open), ..query }).await;
        found.into_iter().filter_map(|issue| issue.about.title).collect::<Vec<_>>().join(", ")
    };
    let list = |text: &str| vec![text.to_owned()];
    let some = |text: &str| Some(text.to_owned());
    let empty = ItemQuery::default;
    assert_eq!(titles(empty()).await, "It breaks, An idea");
    assert_eq!(titles(ItemQuery { labels: list("bug"), ..empty() }).await, "It breaks");
    assert_eq!(titles(ItemQuery { not_labels: list("bug"), ..empty() }).await, "An idea");
    assert_eq!(titles(ItemQuery { author: list("eve"), ..empty() }).await, "An idea");
    assert_eq!(titles(ItemQuery { assignee: some("bob"), ..empty() }).await, "An idea");
    assert_eq!(titles(ItemQuery { mention: some("bob"), ..empty() }).await, "It breaks, An idea");
    assert_eq!(titles(ItemQuery { mention: some("bo"), ..empty() }).await, "");
    assert_eq!(titles(ItemQuery { text: some("BREAKS"), ..empty() }).await, "It breaks");
}

/// A loop's comment is found below its issue, with the loop's name.
pub async fn comment_of_a_loop_is_read_below_its_issue(forge: &dyn ForgeFixture) {
    forge.open_issue(&PersonIssue { author: "ada", title: "It breaks", ..PersonIssue::default() });
    let number = issues(forge, &ItemQuery::open()).await[0].about.number;
    let item = StagedItem::new(1, "comment.md", ActionKind::IssueComment, "I looked.");
    let comment = forge.delivery("r1", StagedItem { target: Some(number.to_string()), ..item });
    deliver(forge, &comment).await;
    deliver(forge, &comment).await;
    let said = forge.reader().comments(CommentsOf::Issue(number), None).await.expect("comments can be read").rows;
    let [one] = said.as_slice() else { panic!("one comment: {said:?}") };
    assert_eq!(one.loop_name.as_deref(), Some(LOOP));
    assert!(one.body.contains("I looked."), "{}", one.body);
}

/// Failed checks are found by their state and by the branch whose commit they ran on.
pub async fn failed_checks_are_found_by_state_and_branch(forge: &dyn ForgeFixture) {
    let item = pull(forge, "r1");
    deliver(forge, &item).await;
    let head = item.commit.clone().unwrap_or_default();
    forge.fail_check("build", &head);
    let names = async |query: CheckQuery| {
        let found = forge.reader().checks(&query, None).await.expect("checks can be read").rows;
        found.into_iter().map(|check| (check.name, check.head)).collect::<Vec<_>>()
    };
    let failed = CheckQuery { state: Some(CheckState::Failed), ..CheckQuery::default() };
    let on = |branch: &str| CheckQuery { branch: Some(branch.to_owned()), ..failed.clone() };
    assert_eq!(names(on(&item.branch)).await, [("build".to_owned(), head.clone())]);
    assert_eq!(names(on("no-such-branch")).await, []);
    assert_eq!(names(CheckQuery { state: Some(CheckState::Passed), ..on(&item.branch) }).await, []);
    let of = |head: &str| CheckQuery { heads: vec![head.to_owned()], ..failed.clone() };
    assert_eq!(names(of(&head)).await, [("build".to_owned(), head.clone())]);
    assert_eq!(names(of(&item.base_commit)).await, []);
}

/// The files of a pull request are read with their diff.
pub async fn changed_files_of_a_pull_request_have_their_diff(forge: &dyn ForgeFixture) {
    deliver(forge, &pull(forge, "r1")).await;
    let number = pulls(forge, &ItemQuery::open()).await[0].about.number;
    let files = forge.reader().changed_files(number).await.expect("changed files can be read");
    let [file] = files.as_slice() else { panic!("one file: {files:?}") };
    let patch = file.patch.as_deref().unwrap_or_default();
    assert!(
        !file.path.is_empty() && patch.contains("@@ ") && patch.lines().any(|line| line.starts_with('+')),
        "{file:?}"
    );
}

/// Pages are bounded, and together they contain every row once.
pub async fn pages_are_bounded_and_complete(forge: &dyn ForgeFixture) {
    let all = PAGE_ROWS_MAX + 3;
    for number in 0..all {
        forge.open_issue(&PersonIssue { author: "ada", title: &format!("issue {number}"), ..PersonIssue::default() });
    }
    let (query, mut titles, mut from) = (ItemQuery::open(), Vec::new(), None);
    loop {
        let ForgePage { rows, next } = forge.reader().issues(&query, from.as_ref()).await.expect("a page can be read");
        assert!(rows.len() <= PAGE_ROWS_MAX, "{} rows", rows.len());
        titles.extend(rows.into_iter().filter_map(|issue| issue.about.title));
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(titles, (0..all).map(|number| format!("issue {number}")).collect::<Vec<_>>());
}

/// Generates a test for each case of the contract; `$make` is an async function that returns an empty forge.
#[macro_export]
macro_rules! forge_contract {
    ($make:path) => {
        $crate::forge_contract!($make;
            same_key_twice_has_one_effect
            concurrent_deliveries_of_one_key_have_one_effect
            item_is_found_after_its_delivery_and_not_before
            delivered_pull_request_is_read_back_as_it_was_sent
            close_and_edit_of_a_person_are_seen_and_kept
            push_over_somebody_else_s_commit_is_refused
            open_pull_requests_of_a_loop_are_counted
            issues_are_filtered
            comment_of_a_loop_is_read_below_its_issue
            failed_checks_are_found_by_state_and_branch
            changed_files_of_a_pull_request_have_their_diff
            pages_are_bounded_and_complete
        );
    };
    ($make:path; $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::forge_contract::$case(&$make().await).await;
            }
        )*
    };
}

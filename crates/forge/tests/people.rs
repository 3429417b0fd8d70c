//! People act on the forge, too: their edits, closes, merges and pushes stay.

mod support;

use loopwright_core::deliver::{Deliver as _, DeliverErrorKind, Delivery, DeliveryLookup};
use loopwright_core::outbox::{StagedItem, item_id, marker};
use loopwright_core::spec::ActionKind;
use loopwright_forge::RemoteKind;
use loopwright_testkit::forge_contract::{ForgeFixture as _, LOOP};
use support::World;

on_every_forge! {
    next_version_updates_the_open_pull_request_of_its_branch
    text_that_a_person_edited_stays_and_the_new_one_is_a_comment
    closed_and_merged_pull_requests_are_not_proposed_again
    branch_that_a_person_force_pushed_is_not_overwritten
    branch_that_a_person_deleted_stays_deleted
    pull_request_of_another_author_on_the_branch_is_left_alone
    commit_of_a_person_between_push_and_delivery_is_not_proposed
    protected_branch_refuses_the_push_and_stays
}

/// Another item for the branch of the first round.
fn next_version(world: &World) -> Delivery {
    let first = world.pull("r1");
    let title = Some("Fix it better".to_owned());
    let item = StagedItem { title, body: "It was still wrong.".to_owned(), ..first.item.clone() };
    let second = world.delivery("r2", item);
    Delivery { branch: first.branch, ..second }
}

async fn next_version_updates_the_open_pull_request_of_its_branch(kind: RemoteKind) {
    let mut world = World::new(kind);
    let first = world.pull("r1");
    let receipt = world.deliver(&first).await.expect("the first version");
    let commit = world.commit_more("better\n");
    let second = next_version(&world);
    let updated = world.deliver(&second).await.expect("the second version");
    assert_eq!((updated.place, updated.head), (receipt.place.clone(), Some(commit.clone())));
    let pulls = world.repo().pulls();
    assert_eq!(pulls.len(), 1);
    assert!(pulls[0].title.ends_with("Fix it better"), "{}", pulls[0].title);
    let body = pulls[0].body.clone().unwrap_or_default();
    assert!(body.contains("still wrong") && !body.contains("It was wrong."), "{body}");
    assert_eq!(world.repo().branch(&first.branch), Some(commit));
    for item in [&first, &second] {
        assert!(matches!(world.forge.find(item).await, Ok(DeliveryLookup::Yes(_))));
    }
}

async fn text_that_a_person_edited_stays_and_the_new_one_is_a_comment(kind: RemoteKind) {
    let mut world = World::new(kind);
    let first = world.pull("r1");
    world.deliver(&first).await.expect("the first version");
    let number = world.repo().pulls()[0].number;
    let edited = format!("A person's words.\n\n{}\n", first.marker);
    world.repo().edit_body(number, &edited);
    world.commit_more("better\n");
    let second = next_version(&world);
    let receipt = world.deliver(&second).await.expect("the second version");
    assert_eq!(world.repo().item(number).body.as_deref(), Some(edited.as_str()));
    let comments = world.repo().comments(number);
    assert_eq!(comments.len(), 1);
    assert!(comments[0].body.contains("still wrong"), "{}", comments[0].body);
    assert_eq!(world.forge.find(&second).await.expect("it answers"), DeliveryLookup::Yes(receipt));
    world.deliver(&second).await.expect("again");
    assert_eq!(world.repo().comments(number).len(), 1);
}

async fn closed_and_merged_pull_requests_are_not_proposed_again(kind: RemoteKind) {
    for merged in [false, true] {
        let mut world = World::new(kind);
        world.deliver(&world.pull("r1")).await.expect("the first version");
        let number = world.repo().pulls()[0].number;
        if merged {
            world.repo().merge_pull(number);
        } else {
            world.repo().close_item(number);
        }
        world.commit_more("better\n");
        let refused = world.deliver(&next_version(&world)).await.expect_err("a person decided");
        assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
        assert_eq!(world.repo().pulls().len(), 1);
        assert!(!world.repo().item(number).open);
    }
}

async fn branch_that_a_person_force_pushed_is_not_overwritten(kind: RemoteKind) {
    let mut world = World::new(kind);
    let first = world.pull("r1");
    world.deliver(&first).await.expect("the first version");
    let theirs = world.repo().force_push(&first.branch, "a person's version");
    world.commit_more("better\n");
    let refused = world.deliver(&next_version(&world)).await.expect_err("the branch is a person's");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    assert_eq!(world.repo().branch(&first.branch), Some(theirs));
    assert!(matches!(world.forge.find(&first).await, Ok(DeliveryLookup::Yes(_))));
}

async fn branch_that_a_person_deleted_stays_deleted(kind: RemoteKind) {
    let world = World::new(kind);
    let first = world.pull("r1");
    let receipt = world.deliver(&first).await.expect("the first version");
    let number = world.repo().pulls()[0].number;
    world.repo().close_item(number);
    world.repo().delete_branch(&first.branch);
    assert_eq!(world.deliver(&first).await.expect("it was delivered"), receipt);
    assert_eq!(world.repo().branch(&first.branch), None);
}

async fn pull_request_of_another_author_on_the_branch_is_left_alone(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.pull("r1");
    // The same account, but another loop.
    let mark = marker("another", "r1", 1, "c1");
    let other = Delivery { loop_name: "another".to_owned(), marker: mark, ..item.clone() };
    world.deliver(&Delivery { key: item_id("another", "r1", 1, "c1"), ..other }).await.expect("the other loop's");
    let body = world.repo().pulls()[0].body.clone();
    let refused = world.deliver(&item).await.expect_err("the branch is not of this loop");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    assert_eq!(world.repo().pulls().len(), 1);
    assert_eq!(world.repo().pulls()[0].body, body);
    assert_eq!(item.loop_name, LOOP);
}

async fn commit_of_a_person_between_push_and_delivery_is_not_proposed(kind: RemoteKind) {
    let world = World::new(kind);
    let item = world.pull("r1");
    world.repo().push_commit(&item.branch, "a person's commit");
    // The push happened before the person's commit; only the delivery is left.
    let refused = world.forge.deliver(&item).await.expect_err("the branch has another commit");
    assert_eq!(refused.kind, DeliverErrorKind::Refused, "{refused}");
    assert_eq!(world.repo().pulls().len(), 0);
}

async fn protected_branch_refuses_the_push_and_stays(kind: RemoteKind) {
    let world = World::new(kind);
    world.repo().protect("main");
    let item = world.delivery("r1", StagedItem::new(1, "commit.md", ActionKind::Commit, "fix: the sign"));
    world.deliver(&item).await.expect_err("the branch is protected");
    assert_eq!(world.forge.find(&item).await.expect("it answers"), DeliveryLookup::No);
    assert_eq!(world.repo().branch("main"), Some(world.base.clone()));
}

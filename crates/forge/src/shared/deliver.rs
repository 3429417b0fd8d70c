//! Delivers one item: looks for it, creates it, and returns its receipt.

use super::{SharedForge, comment_target, review, target, text};
use crate::api::{ApiError, ForgeApi, RemoteComment};
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget, WorkLookup,
};
use loopwright_core::forge::ItemState;
use loopwright_core::outbox::ReviewDecision;
use loopwright_core::spec::ActionKind;

/// The longest address in a receipt.
const PLACE_CHARS_MAX: usize = 2_000;

impl<A: ForgeApi> SharedForge<A> {
    async fn send(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let _turn = self.turn.lock().await;
        match self.look(item).await? {
            DeliveryLookup::Yes(receipt) => return Ok(receipt),
            DeliveryLookup::No | DeliveryLookup::Unknown => {}
        }
        match item.item.kind {
            ActionKind::PullRequest => self.send_pull(item).await,
            ActionKind::Commit => self.confirm_commit(item).await,
            ActionKind::IssueCreate => self.send_issue(item).await,
            ActionKind::IssueLabel => self.send_labels(item).await,
            ActionKind::IssueComment | ActionKind::PrComment => self.send_comment(item).await,
            ActionKind::PrInline | ActionKind::PrReview => self.send_review(item).await,
            ActionKind::Report | ActionKind::Slack | ActionKind::Webhook => {
                Err(DeliverError::refused(format!("{} is not an item for a forge", item.item.kind)))
            }
        }
    }

    /// The error of a call, as that of a delivery.
    pub(super) async fn checked<T>(&self, answer: Result<T, ApiError>) -> Result<T, DeliverError> {
        match answer {
            Ok(value) => Ok(value),
            Err(error) => Err(self.delivery_error(error).await),
        }
    }

    /// The push moved the base branch; the look-up before this call did not find the commit there.
    async fn confirm_commit(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let (commit, branch) = (item.commit.as_deref().unwrap_or("no commit"), &item.base_branch);
        // A forge may show a push some seconds later; the next attempt finds it.
        Err(DeliverError::transient(format!("`{branch}` does not contain {commit} yet")))
    }

    async fn send_issue(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let created = self.api.create_issue(&text::title(item), &text::marked(item), &item.all_labels()).await;
        let issue = self.created(item, created).await?;
        Ok(DeliveryReceipt { place: issue.url, head: None, at_ms: issue.created_ms, note: None })
    }

    async fn send_labels(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let number = target(item)?;
        let added = self.api.add_labels(number, &item.item.labels).await;
        self.checked(added).await?;
        let issue = self.api.issue(number).await;
        let issue = self.checked(issue).await.map_err(DeliverError::after_effect)?;
        Ok(DeliveryReceipt { place: issue.url, head: None, at_ms: issue.updated_ms, note: None })
    }

    async fn send_comment(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let added = self.api.add_comment(comment_target(item)?, &text::marked(item)).await;
        Ok(receipt(self.created(item, added).await?))
    }

    async fn send_review(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let pull = self.api.pull(target(item)?).await;
        let pull = self.checked(pull).await?;
        let is_open = pull.row.about.state == ItemState::Open;
        if !is_open && item.item.review == Some(ReviewDecision::Approve) {
            let words = self.api.client().words;
            return Err(DeliverError::refused(format!("{} {} is no longer open", words.pull, pull.row.about.number)));
        }
        // A commit that was pushed after the review is not approved unseen.
        let (number, head) = (pull.row.about.number, &pull.row.head);
        match &item.reviewed_head {
            Some(reviewed) if reviewed != head => {
                let text = format!("{number} was reviewed at {reviewed} and is at {head} now: review it again");
                return Err(DeliverError::refused(text));
            }
            None if item.item.review == Some(ReviewDecision::Approve) => {
                let text = format!(
                    "an approval needs a round for the item `pr-{number}@…`, so that it binds the reviewed commit: add \
                     `probe: open-prs` to the loop"
                );
                return Err(DeliverError::refused(text));
            }
            _ => {}
        }
        let body = text::marked(item);
        let added = self.api.add_review(&pull, &review(item, &body)).await;
        Ok(receipt(self.created(item, added).await?))
    }
}

fn receipt(comment: RemoteComment) -> DeliveryReceipt {
    DeliveryReceipt { place: comment.url, head: comment.head, at_ms: comment.created_ms, note: None }
}

/// The receipt with an address of at most this length, in which nothing is hidden: a forge chooses it.
fn bounded(receipt: DeliveryReceipt) -> DeliveryReceipt {
    let place = receipt.place.chars().filter(char::is_ascii_graphic).take(PLACE_CHARS_MAX).collect();
    DeliveryReceipt { place, ..receipt }
}

impl<A: ForgeApi> Deliver for SharedForge<A> {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move { self.send(item).await.map(bounded) })
    }

    fn push_target<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        Box::pin(self.target_of_push(item))
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(async move {
            Ok(match self.look(item).await? {
                DeliveryLookup::Yes(receipt) => DeliveryLookup::Yes(bounded(receipt)),
                other => other,
            })
        })
    }

    fn expect_earlier(&self, item: &Delivery) {
        self.lost.expect(&item.key, self.api.client().http.now_ms());
    }

    fn find_work<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<WorkLookup, DeliverError>> {
        Box::pin(self.look_for_work(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_receipt_is_short_and_shows_everything() {
        let place = format!("https://forge.example/\u{202e}\n1{}", "x".repeat(1 << 20));
        let receipt = bounded(DeliveryReceipt { place, head: None, at_ms: 0, note: None });
        assert_eq!(receipt.place.len(), PLACE_CHARS_MAX);
        assert!(receipt.place.starts_with("https://forge.example/1xxx"), "{:.60}", receipt.place);
    }
}

//! Looks for an item that was delivered earlier, without a change. The marker in its text identifies it; labels and
//! commits, which have no text, are compared themselves.

use super::{SharedForge, comment_target, review, target, text};
use crate::api::{ApiError, ForgeApi, LabelMoment, RemotePull};
use loopwright_core::deliver::{DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::forge::{CommentsOf, ItemState};
use loopwright_core::spec::ActionKind;

/// The most pages of comments that a look-up reads.
const COMMENT_PAGES_MAX: usize = 100;
/// The most pages of issues that a look-up reads.
const ISSUE_PAGES_MAX: usize = 20;
/// An item is sent again within days, so an older issue cannot be it.
const ISSUE_AGE_MAX_MS: i64 = 30 * 24 * 3_600_000;

/// An earlier delivery, or an API error.
type Look = Result<DeliveryLookup, ApiError>;

impl<A: ForgeApi> SharedForge<A> {
    /// Whether the item was delivered. After a lost answer, "no" needs several look-ups with pauses.
    pub(super) async fn look(&self, item: &Delivery) -> Result<DeliveryLookup, DeliverError> {
        let found = self.look_once(item).await?;
        match &found {
            DeliveryLookup::Yes(_) => self.lost.remove(&item.key),
            DeliveryLookup::No | DeliveryLookup::Unknown => {
                if let Some(at_ms) = self.lost.next_look(&item.key, self.api.client().http.now_ms()) {
                    let text = format!(
                        "{} did not confirm this {} and does not show it yet; it may be late, so Loopwright searches again",
                        self.api.client().words.name,
                        item.item.kind
                    );
                    return Err(DeliverError::transient(text).retry_at(Some(at_ms)));
                }
            }
        }
        Ok(found)
    }

    async fn look_once(&self, item: &Delivery) -> Result<DeliveryLookup, DeliverError> {
        let found = match item.item.kind {
            ActionKind::PullRequest => self.look_for_pull(item).await,
            ActionKind::Commit => self.look_for_commit(item).await,
            ActionKind::IssueCreate => self.look_for_issue(item).await,
            ActionKind::IssueLabel => self.look_for_labels(item, target(item)?).await,
            ActionKind::IssueComment | ActionKind::PrComment => {
                self.look_for_comment(item, comment_target(item)?).await
            }
            ActionKind::PrInline | ActionKind::PrReview => self.look_for_review(item, target(item)?).await,
            ActionKind::Report | ActionKind::Slack | ActionKind::Webhook => Ok(DeliveryLookup::No),
        };
        match found {
            Ok(found) => Ok(found),
            Err(error) => Err(self.delivery_error(error).await),
        }
    }

    async fn look_for_pull(&self, item: &Delivery) -> Look {
        let pulls = self.api.branch_pulls(&item.branch, &item.base_branch).await?;
        match pulls.iter().find(|pull| pull.row.about.body.contains(&item.marker)) {
            Some(pull) if self.is_incomplete(pull, item) => {
                // It arrived, so the next attempt need not wait for it.
                self.lost.remove(&item.key);
                Ok(DeliveryLookup::No)
            }
            Some(pull) => Ok(DeliveryLookup::Yes(pull_receipt(pull, item))),
            None => self.look_below(item, &pulls).await,
        }
    }

    /// A new version of a pull request that a person edited is a comment.
    async fn look_below(&self, item: &Delivery, pulls: &[RemotePull]) -> Look {
        let ours = |pull: &&RemotePull| pull.row.about.loop_name.as_ref() == Some(&item.loop_name);
        for pull in pulls.iter().filter(ours) {
            let found = self.look_for_comment(item, CommentsOf::Pull(pull.row.about.number)).await?;
            if let DeliveryLookup::Yes(receipt) = found {
                return Ok(DeliveryLookup::Yes(DeliveryReceipt { head: item.commit.clone(), ..receipt }));
            }
        }
        Ok(DeliveryLookup::No)
    }

    /// Whether a crash prevented the labels: the pull request has none of them, and is as it was created, or only the
    /// request for reviews, which comes before the labels, has changed it.
    pub(super) fn is_incomplete(&self, pull: &RemotePull, item: &Delivery) -> bool {
        let labels = item.all_labels();
        self.api.client().words.labels == LabelMoment::Later
            && pull.row.about.state == ItemState::Open
            && (pull.created_ms == pull.updated_ms || pull.has_reviewers)
            && !labels.is_empty()
            && !labels.iter().any(|label| pull.row.about.labels.contains(label))
    }

    async fn look_for_commit(&self, item: &Delivery) -> Look {
        let Some(commit) = &item.commit else { return Ok(DeliveryLookup::No) };
        let found = self.api.contained(&item.base_branch, commit).await?;
        Ok(found.map_or(DeliveryLookup::No, |found| {
            let (place, at_ms) = (found.url, found.at_ms);
            DeliveryLookup::Yes(DeliveryReceipt { place, head: item.commit.clone(), at_ms, note: None })
        }))
    }

    /// Searches from the newest issue backwards.
    async fn look_for_issue(&self, item: &Delivery) -> Look {
        let oldest_ms = self.api.client().http.now_ms() - ISSUE_AGE_MAX_MS;
        let mut from = None;
        for _ in 0..ISSUE_PAGES_MAX {
            let page = self.api.newest_issues(from.as_ref()).await?;
            for issue in &page.rows {
                if issue.row.about.body.contains(&item.marker) {
                    let (place, at_ms) = (issue.url.clone(), issue.created_ms);
                    return Ok(DeliveryLookup::Yes(DeliveryReceipt { place, head: None, at_ms, note: None }));
                }
            }
            let is_old = page.rows.last().is_some_and(|issue| issue.created_ms < oldest_ms);
            from = page.next;
            if from.is_none() || is_old {
                return Ok(DeliveryLookup::No);
            }
        }
        Ok(DeliveryLookup::Unknown)
    }

    async fn look_for_labels(&self, item: &Delivery, issue: u64) -> Look {
        let issue = self.api.issue(issue).await?;
        let has_all = item.item.labels.iter().all(|label| issue.row.about.labels.contains(label));
        let receipt = DeliveryReceipt { place: issue.url, head: None, at_ms: issue.updated_ms, note: None };
        Ok(if has_all { DeliveryLookup::Yes(receipt) } else { DeliveryLookup::No })
    }

    async fn look_for_comment(&self, item: &Delivery, of: CommentsOf) -> Look {
        let mut from = None;
        for _ in 0..COMMENT_PAGES_MAX {
            let page = self.api.plain_comments(of, from.as_ref()).await?;
            if let Some(found) = page.rows.iter().find(|comment| comment.row.body.contains(&item.marker)) {
                let (place, head, at_ms) = (found.url.clone(), found.head.clone(), found.created_ms);
                return Ok(DeliveryLookup::Yes(DeliveryReceipt { place, head, at_ms, note: None }));
            }
            from = page.next;
            if from.is_none() {
                return Ok(DeliveryLookup::No);
            }
        }
        Ok(DeliveryLookup::Unknown)
    }

    async fn look_for_review(&self, item: &Delivery, pull: u64) -> Look {
        let body = text::marked(item);
        let found = self.api.find_review(pull, &review(item, &body)).await?;
        Ok(found.map_or(DeliveryLookup::No, |found| {
            DeliveryLookup::Yes(DeliveryReceipt {
                place: found.url,
                head: found.head,
                at_ms: found.created_ms,
                note: None,
            })
        }))
    }
}

/// The receipt of a pull request: its commit is the one that was sent, also after a person added more.
pub(super) fn pull_receipt(pull: &RemotePull, item: &Delivery) -> DeliveryReceipt {
    DeliveryReceipt { place: pull.url.clone(), head: item.commit.clone(), at_ms: pull.created_ms, note: None }
}

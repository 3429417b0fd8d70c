//! Pull requests: created once, updated while they are open and ours, and left alone after a person closed, merged or
//! edited them.

use super::lookup::pull_receipt;
use super::{SharedForge, text};
use crate::api::{ApiErrorKind, ForgeApi, PullDraft, RemotePull};
use loopwright_core::deliver::{DeliverError, Delivery, DeliveryReceipt};
use loopwright_core::forge::{CommentsOf, ItemState};

/// GitHub's limit for the text of a commit status.
const STATUS_CHARS_MAX: usize = 140;

/// The pull requests of an item's branch.
pub(super) enum BranchPulls {
    /// There is none.
    Free,
    /// This item is there.
    Sent(Box<RemotePull>),
    /// An open one of the same loop, with another item.
    Ours(Box<RemotePull>),
}

impl<A: ForgeApi> SharedForge<A> {
    /// The pull requests of the item's branch, or why the branch must not be used.
    pub(super) async fn branch_state(&self, item: &Delivery) -> Result<BranchPulls, DeliverError> {
        let pulls = self.api.branch_pulls(&item.branch, &item.base_branch).await;
        let mut pulls = self.checked(pulls).await?;
        if let Some(at) = pulls.iter().position(|pull| pull.row.about.body.contains(&item.marker)) {
            return Ok(BranchPulls::Sent(Box::new(pulls.swap_remove(at))));
        }
        let Some(latest) = pulls.into_iter().max_by_key(|pull| (pull.is_open(), pull.row.about.number)) else {
            return Ok(BranchPulls::Free);
        };
        let (word, number) = (self.api.client().words.pull, latest.row.about.number);
        let refused = |why: &str| Err(DeliverError::refused(format!("{word} {number} of `{}` {why}", item.branch)));
        match latest.row.about.state {
            ItemState::Open if latest.row.about.loop_name.as_ref() == Some(&item.loop_name) => {
                Ok(BranchPulls::Ours(Box::new(latest)))
            }
            ItemState::Open => refused("is not from this loop"),
            ItemState::Closed => refused("was closed by a person; it is not proposed again"),
            ItemState::Merged => refused("was merged; it is not proposed again"),
        }
    }

    pub(super) async fn send_pull(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let state = self.branch_state(item).await?;
        if let BranchPulls::Sent(pull) = state {
            let note = self.finish(&pull, item).await?;
            return Ok(DeliveryReceipt { note, ..pull_receipt(&pull, item) });
        }
        let commit = self.pushed_commit(item, &state).await?;
        self.set_status(item, &commit).await?;
        match state {
            BranchPulls::Ours(pull) => self.update(&pull, item).await,
            _ => self.create(item).await,
        }
    }

    /// States the results of the gates on the commit. A loop without gates gets no status.
    async fn set_status(&self, item: &Delivery, commit: &str) -> Result<(), DeliverError> {
        let (Some(prefix), Some(gates)) = (&self.options.status_context, item.passed_gates()) else { return Ok(()) };
        let text: String = format!("gates: {gates}").chars().take(STATUS_CHARS_MAX).collect();
        let set = self.api.set_status(commit, &format!("{prefix}/{}", item.loop_name), &text).await;
        // Setting a status again has the same effect, so a lost answer leaves no doubt.
        self.checked(set.map_err(|error| crate::api::ApiError { writes: false, ..error })).await
    }

    /// The commit that passed, if the branch is still there: a person may have pushed after us. A forge may also show a
    /// push some seconds later, and the old commit until then.
    async fn pushed_commit(&self, item: &Delivery, state: &BranchPulls) -> Result<String, DeliverError> {
        let missing = || DeliverError::refused(format!("{} without a change to push", item.item.kind));
        let commit = item.commit.clone().ok_or_else(missing)?;
        let head = self.api.branch_head(&item.branch).await;
        match self.checked(head).await? {
            Some(head) if head == commit => Ok(commit),
            Some(head) if matches!(state, BranchPulls::Ours(pull) if pull.row.head == head) => {
                Err(DeliverError::transient(format!("`{}` does not show the pushed commit yet", item.branch)))
            }
            Some(head) => Err(DeliverError::refused(format!(
                "`{}` is at {head}, which is not the commit that passed",
                item.branch
            ))),
            None => Err(DeliverError::transient(format!("`{}` is not on the forge yet", item.branch))),
        }
    }

    async fn create(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let title = text::title(item);
        let body = text::pull_body(item, &title, "");
        let labels = item.all_labels();
        match self.api.create_pull(&self.new_pull(item, &title, &body, &labels)).await {
            Ok(pull) => {
                let note = self.finish(&pull, item).await?;
                Ok(DeliveryReceipt { note, ..pull_receipt(&pull, item) })
            }
            // A forge has at most one open pull request of a branch: another process may have created this one.
            Err(error) if matches!(error.kind, ApiErrorKind::Rejected | ApiErrorKind::Conflict) => {
                match self.branch_state(item).await? {
                    BranchPulls::Sent(pull) => {
                        let note = match self.is_incomplete(&pull, item) {
                            true => self.finish(&pull, item).await?,
                            false => None,
                        };
                        Ok(DeliveryReceipt { note, ..pull_receipt(&pull, item) })
                    }
                    _ => Err(error.in_delivery()),
                }
            }
            // The listing may be late: the next attempt must not take the pull request for missing.
            error => self.created(item, error).await.map(|pull| pull_receipt(&pull, item)),
        }
    }

    fn new_pull<'a>(
        &'a self,
        item: &'a Delivery,
        title: &'a str,
        body: &'a str,
        labels: &'a [String],
    ) -> PullDraft<'a> {
        let (branch, base_branch) = (item.branch.as_str(), item.base_branch.as_str());
        PullDraft { title, body, branch, base_branch, draft: item.draft, labels, reviewers: &self.options.reviewers }
    }

    /// Adds labels and reviewers to a pull request that nothing has changed since its creation. A label or a reviewer
    /// that the forge rejects does not undo the pull request; the note names it for a person.
    async fn finish(&self, pull: &RemotePull, item: &Delivery) -> Result<Option<String>, DeliverError> {
        let labels = item.all_labels();
        let new = self.new_pull(item, "", "", &labels);
        match self.api.finish_pull(pull.row.about.number, &new).await {
            Ok(()) => Ok(None),
            Err(error) if matches!(error.kind, ApiErrorKind::Unavailable | ApiErrorKind::Lost) => {
                Err(DeliverError::transient(error.text).retry_at(error.retry_at_ms).after_effect())
            }
            Err(error) => {
                let word = self.api.client().words.pull;
                Ok(Some(format!("the {word} lacks labels or reviewers: {}", error.text)))
            }
        }
    }

    /// The branch has the new commit. The text is replaced if it is ours; the text of a person stays, and the new one
    /// becomes a comment.
    async fn update(&self, pull: &RemotePull, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let about = &pull.row.about;
        if text::is_untouched(about.title.as_deref().unwrap_or_default(), &about.body) {
            let title = text::title(item);
            let body = text::pull_body(item, &title, &about.body);
            let edited = self.api.edit_pull(pull, &title, &body).await;
            // The push has already changed what people see in the pull request.
            self.checked(edited).await.map_err(DeliverError::after_effect)?;
            return Ok(pull_receipt(pull, item));
        }
        let added = self.api.add_comment(CommentsOf::Pull(about.number), &text::marked(item)).await;
        let added = self.created(item, added).await.map_err(DeliverError::after_effect)?;
        Ok(DeliveryReceipt { place: added.url, head: item.commit.clone(), at_ms: added.created_ms, note: None })
    }
}

impl RemotePull {
    fn is_open(&self) -> bool {
        self.row.about.state == ItemState::Open
    }
}

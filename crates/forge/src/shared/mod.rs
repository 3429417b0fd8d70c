//! The algorithms that all forges share: look for an item before it is created, create it once, respect the actions of
//! people, and read rows in common terms. The calls themselves are a [`ForgeApi`].

mod deliver;
mod inspect;
mod lookup;
mod pull;
mod push;
mod read;
mod text;
mod work;

use crate::api::{ApiError, ApiErrorKind, ForgeApi, ReviewDraft};
use crate::lost::LostCreates;
use loopwright_core::deliver::{DeliverError, Delivery};
use loopwright_core::forge::CommentsOf;
use loopwright_core::spec::ActionKind;

/// The options of a connection that deliveries use.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryOptions {
    /// The address for pushes.
    pub(crate) git_url: String,
    /// Accounts that are asked to review new pull requests.
    pub(crate) reviewers: Vec<String>,
    /// The first part of the commit status's name; without it no status is set.
    pub(crate) status_context: Option<String>,
}

/// A forge with its calls.
pub(crate) struct SharedForge<A> {
    pub(crate) api: A,
    options: DeliveryOptions,
    /// One delivery at a time: forges have no idempotency keys, so two concurrent deliveries of one item would not see
    /// each other's look-up.
    turn: tokio::sync::Mutex<()>,
    lost: LostCreates,
}

impl<A: ForgeApi> SharedForge<A> {
    pub(crate) fn new(api: A, options: DeliveryOptions) -> Self {
        Self { api, options, turn: tokio::sync::Mutex::default(), lost: LostCreates::default() }
    }

    /// The error of a delivery. "Not found" has two meanings: a target that does not exist refuses the item, and a
    /// missing repository keeps it until a person corrects the configuration.
    async fn delivery_error(&self, error: ApiError) -> DeliverError {
        if error.kind == ApiErrorKind::Missing
            && let Err(gone) = self.api.repository().await
            && gone.kind == ApiErrorKind::Missing
        {
            return self.api.client().no_repository().in_delivery();
        }
        error.in_delivery()
    }

    /// The answer of a create that a forge would perform twice. A lost answer is remembered, so that the next attempt
    /// looks for the item long enough.
    async fn created<T>(&self, item: &Delivery, answer: Result<T, ApiError>) -> Result<T, DeliverError> {
        if answer.as_ref().is_err_and(|error| error.kind == ApiErrorKind::Lost && error.writes) {
            self.lost.add(&item.key, self.api.client().http.now_ms());
        }
        self.checked(answer).await
    }

    /// The error of a read, with the same distinction.
    async fn read_error(&self, error: ApiError) -> loopwright_core::forge::ForgeError {
        if error.kind == ApiErrorKind::Missing
            && let Err(gone) = self.api.repository().await
            && gone.kind == ApiErrorKind::Missing
        {
            return self.api.client().no_repository().in_read();
        }
        error.in_read()
    }
}

/// The number of an item's target.
fn target(item: &Delivery) -> Result<u64, DeliverError> {
    let number = item.item.target.as_deref().and_then(|target| target.parse().ok());
    number.ok_or_else(|| DeliverError::refused(format!("{} without the number of its target", item.item.kind)))
}

/// The issue or pull request that a comment belongs to.
fn comment_target(item: &Delivery) -> Result<CommentsOf, DeliverError> {
    let number = target(item)?;
    Ok(match item.item.kind {
        ActionKind::IssueComment | ActionKind::IssueLabel => CommentsOf::Issue(number),
        _ => CommentsOf::Pull(number),
    })
}

/// The review of an item; `body` is its text with the marker.
fn review<'a>(item: &'a Delivery, body: &'a str) -> ReviewDraft<'a> {
    ReviewDraft { decision: item.item.review, body, marker: &item.marker, comments: &item.item.comments }
}

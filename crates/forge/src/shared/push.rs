//! The push that an item needs: the branch, the commit that the forge has there now, and a credential for this push.

use super::SharedForge;
use super::pull::BranchPulls;
use crate::api::ForgeApi;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopwright_core::deliver::{DeliverError, Delivery, DeliveryLookup, PushCredential, PushTarget};
use loopwright_core::spec::ActionKind;

impl<A: ForgeApi> SharedForge<A> {
    pub(super) async fn target_of_push(&self, item: &Delivery) -> Result<Option<PushTarget>, DeliverError> {
        match item.item.kind {
            ActionKind::PullRequest => self.push_of_pull(item).await,
            ActionKind::Commit => self.push_of_commit(item).await,
            _ => Ok(None),
        }
    }

    async fn push_of_pull(&self, item: &Delivery) -> Result<Option<PushTarget>, DeliverError> {
        if item.branch == item.base_branch {
            return Err(DeliverError::refused(format!("`{}` is the base branch", item.branch)));
        }
        let state = self.branch_state(item).await?;
        // A person may have deleted the branch of a closed pull request; it stays deleted.
        if matches!(state, BranchPulls::Sent(_)) {
            return Ok(None);
        }
        self.require_known_base(item).await?;
        let head = self.api.branch_head(&item.branch).await;
        let head = self.checked(head).await?;
        match (&head, state) {
            (Some(there), BranchPulls::Free) if item.commit.as_ref() != Some(there) => {
                Err(DeliverError::refused(format!("`{}` is at {there}, which this loop did not push", item.branch)))
            }
            _ => self.lend(item.branch.clone(), head).await.map(Some),
        }
    }

    async fn push_of_commit(&self, item: &Delivery) -> Result<Option<PushTarget>, DeliverError> {
        if let DeliveryLookup::Yes(_) = self.look(item).await? {
            return Ok(None);
        }
        let head = self.api.branch_head(&item.base_branch).await;
        match self.checked(head).await? {
            None => Err(DeliverError::refused(format!("the forge has no branch `{}`", item.base_branch))),
            head => {
                self.require_known_base(item).await?;
                self.lend(item.base_branch.clone(), head).await.map(Some)
            }
        }
    }

    /// A push sends every ancestor that the forge lacks. A round that started from commits which the user has not pushed
    /// would publish them, so it waits until its base is on the forge.
    async fn require_known_base(&self, item: &Delivery) -> Result<(), DeliverError> {
        let known = self.api.contained(&item.base_branch, &item.base_commit).await;
        match self.checked(known).await? {
            Some(_) => Ok(()),
            None => Err(DeliverError::blocked(format!(
                "the forge's `{}` does not contain {}, from which the work started: push that branch first, or start a \
                 new round from a pushed commit",
                item.base_branch, item.base_commit
            ))),
        }
    }

    async fn lend(&self, branch: String, expected_old: Option<String>) -> Result<PushTarget, DeliverError> {
        self.require_push().await?;
        let client = self.api.client();
        let token = client.current_token().await;
        let token = self.checked(token).await?;
        let user = STANDARD.encode(format!("{}:{}", client.words.push_user, token.expose()));
        let credential = PushCredential::new(format!("Basic {user}"));
        Ok(PushTarget { url: self.options.git_url.clone(), branch, expected_old, credential })
    }
}

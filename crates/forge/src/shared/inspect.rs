//! Checks a connection without a change: token, scopes, repository, right to push, base branch.

use super::SharedForge;
use crate::api::{ApiErrorKind, ForgeApi, RemoteRepository};
use crate::inspect::ForgeFinding;
use loopwright_core::deliver::DeliverError;

impl<A: ForgeApi> SharedForge<A> {
    /// The findings that `doctor` shows.
    pub(crate) async fn findings(&self, base_branch: &str) -> Vec<ForgeFinding> {
        let client = self.api.client();
        let mut findings = Vec::new();
        match self.api.account().await {
            Ok((account, scopes)) => {
                let (forge, host) = (client.words.name, client.http.base().authority());
                findings.push(ForgeFinding::good("reachable", format!("{forge} at {host} answers")));
                let text = format!("the token from {} is valid, for {account}", client.token_name);
                findings.push(ForgeFinding::good("token", text));
                findings.extend(scopes);
            }
            Err(error) => {
                let subject = if error.kind == ApiErrorKind::Access { "token" } else { "reachable" };
                findings.push(ForgeFinding::bad(subject, error.text));
                return findings;
            }
        }
        match self.api.repository().await {
            Err(error) => {
                let is_missing = error.kind == ApiErrorKind::Missing;
                let text = if is_missing { client.no_repository().text } else { error.text };
                findings.push(ForgeFinding::bad("repository", text));
            }
            Ok(repository) => {
                findings.extend(self.repository_findings(&repository));
                findings.push(self.base_finding(base_branch).await);
            }
        }
        findings
    }

    fn repository_findings(&self, repository: &RemoteRepository) -> Vec<ForgeFinding> {
        let name = &self.api.client().repository;
        let mut findings = vec![ForgeFinding::good("repository", format!("`{name}` exists"))];
        findings.push(match (self.no_push(repository), repository.may_push) {
            (Some(why), _) => ForgeFinding::bad("push", why),
            (None, Some(_)) => ForgeFinding::good("push", format!("may push to `{name}`")),
            (None, None) => {
                let text = format!("the forge does not report whether `{name}` may be pushed to");
                ForgeFinding::doubtful("push", text)
            }
        });
        if repository.has_issues == Some(false) {
            let text = format!("issues are disabled in `{name}`; outputs for issues will be refused");
            findings.push(ForgeFinding::doubtful("repository", text));
        }
        findings
    }

    async fn base_finding(&self, branch: &str) -> ForgeFinding {
        let name = &self.api.client().repository;
        match self.api.is_protected(branch).await {
            Ok(Some(true)) => ForgeFinding::good(
                "base-branch",
                format!("`{branch}` is protected; pull requests work, outputs of the kind `commit` may be refused"),
            ),
            Ok(Some(false)) => ForgeFinding::good("base-branch", format!("`{branch}` exists and is not protected")),
            Ok(None) => ForgeFinding::bad("base-branch", format!("`{name}` has no branch `{branch}`")),
            Err(error) => ForgeFinding::doubtful("base-branch", error.text),
        }
    }

    /// Why nothing can be pushed, with the next step.
    fn no_push(&self, repository: &RemoteRepository) -> Option<String> {
        let client = self.api.client();
        let (forge, name) = (client.words.name, &client.repository);
        if repository.archived {
            return Some(format!("{forge}: `{name}` is archived and read-only; unarchive it, or retire the loop"));
        }
        (repository.may_push == Some(false)).then(|| {
            let (token, rights) = (&client.token_name, client.words.rights);
            format!("{forge}: the account of the token from {token} may not push to `{name}`; give it {rights}")
        })
    }

    /// A push that cannot succeed keeps the item, with a clearer message than git has.
    pub(super) async fn require_push(&self) -> Result<(), DeliverError> {
        let repository = self.api.repository().await;
        match self.no_push(&self.checked(repository).await?) {
            Some(why) => Err(DeliverError::blocked(why)),
            None => Ok(()),
        }
    }
}

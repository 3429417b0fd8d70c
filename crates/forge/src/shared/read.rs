//! Reads a forge. The forge filters as far as it can; the filters of `core` decide.

use super::SharedForge;
use crate::api::ForgeApi;
use loopwright_core::answer::CommandForm;
use loopwright_core::forge::{
    Answer, CHANGED_FILES_MAX, CheckQuery, CheckRun, CommentsOf, ForgeComment, ForgePage, Issue, ItemQuery,
    LabelChange, PageToken, PullFile, PullRequest, ReadForge,
};

/// The most commits whose checks one query reads.
const HEADS_MAX: usize = 50;

impl<A: ForgeApi> SharedForge<A> {
    /// The commits to read checks of, each with its branch: those of the branch, those that the query names, or of all
    /// open pull requests and the default branch.
    async fn heads(&self, query: &CheckQuery) -> Result<Vec<(String, Option<String>)>, crate::api::ApiError> {
        let mut heads = Vec::new();
        let branches = match &query.branch {
            Some(branch) => vec![branch.clone()],
            None if !query.heads.is_empty() => Vec::new(),
            None => vec![self.api.repository().await?.default_branch],
        };
        for branch in branches {
            heads.extend(self.api.branch_head(&branch).await?.map(|head| (head, Some(branch))));
        }
        heads.extend(query.heads.iter().map(|head| (head.clone(), query.branch.clone())));
        if query.branch.is_none() && query.heads.is_empty() {
            let open = self.api.pulls(&ItemQuery::open(), None).await?.rows;
            heads.extend(open.into_iter().map(|pull| (pull.row.head, Some(pull.row.branch))));
        }
        heads.truncate(HEADS_MAX);
        let mut unique: Vec<(String, Option<String>)> = Vec::new();
        for (head, branch) in heads {
            if !unique.iter().any(|(known, _)| *known == head) {
                unique.push((head, branch));
            }
        }
        Ok(unique)
    }

    async fn read_checks(&self, query: &CheckQuery) -> Result<Vec<CheckRun>, crate::api::ApiError> {
        let mut checks = Vec::new();
        let heads = self.heads(query).await?;
        let tip = heads.first().filter(|_| query.branch.is_some()).map(|(head, _)| head.clone());
        for (head, branch) in heads {
            checks.extend(self.api.checks(&head, branch.as_deref()).await?);
        }
        checks.retain(|check| query.wants(check, tip.as_deref()));
        Ok(checks)
    }
}

impl<A: ForgeApi> ReadForge for SharedForge<A> {
    fn pulls<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>> {
        Box::pin(async move {
            match self.api.pulls(query, from).await {
                Ok(page) => {
                    let rows = page.rows.into_iter().map(|pull| pull.row).filter(|pull| query.wants_pull(pull));
                    Ok(ForgePage { rows: rows.collect(), next: page.next })
                }
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn branch_pulls<'a>(&'a self, branch: &'a str, base_branch: &'a str) -> Answer<'a, Vec<PullRequest>> {
        Box::pin(async move {
            match self.api.branch_pulls(branch, base_branch).await {
                Ok(pulls) => Ok(pulls.into_iter().map(|pull| pull.row).collect()),
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn issues<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>> {
        Box::pin(async move {
            match self.api.issues(query, from).await {
                Ok(page) => {
                    let rows = page.rows.into_iter().map(|issue| issue.row).filter(|issue| query.wants_issue(issue));
                    Ok(ForgePage { rows: rows.collect(), next: page.next })
                }
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn checks<'a>(&'a self, query: &'a CheckQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>> {
        Box::pin(async move {
            match self.read_checks(query).await {
                Ok(checks) => Ok(ForgePage::cut(checks, from)),
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn changed_files(&self, pull: u64) -> Answer<'_, Vec<PullFile>> {
        Box::pin(async move {
            match self.api.changed_files(pull).await {
                Ok(mut files) => {
                    files.truncate(CHANGED_FILES_MAX);
                    Ok(files)
                }
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn comments<'a>(&'a self, of: CommentsOf, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>> {
        Box::pin(async move {
            match self.api.comments(of, from).await {
                Ok(page) => {
                    let rows = page.rows.into_iter().map(|comment| comment.row);
                    Ok(ForgePage { rows: rows.collect(), next: page.next })
                }
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn label_changes(&self, of: CommentsOf) -> Answer<'_, Vec<LabelChange>> {
        Box::pin(async move {
            match self.api.label_changes(of).await {
                Ok(changes) => Ok(changes),
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }

    fn command_form(&self) -> CommandForm {
        self.api.client().words.commands
    }

    fn own_account(&self) -> Answer<'_, Option<String>> {
        Box::pin(async move {
            match self.api.own_account().await {
                Ok(id) => Ok(id),
                Err(error) => Err(self.read_error(error).await),
            }
        })
    }
}

//! Work that waits on a forge: open pull requests, open issues, failed checks. It reads only through [`ReadForge`] and
//! leaves out items that the loop wrote itself, so that no loop creates its own work.

use super::built_in::DIGITS;
use super::chain;
use super::command::ITEMS_MAX;
use crate::engine::Engine;
use crate::store::StoreError;
use loopwright_core::forge::{
    CheckQuery, CheckState, CommentsOf, ForgeError, ForgeItem, ItemQuery, PullRequest, ReadForge, read_rows,
};
use loopwright_core::hash;
use loopwright_core::paths::Globs;
use loopwright_core::round::ProbeItem;
use loopwright_core::spec::Ask;
use std::num::NonZeroUsize;

/// The most rows of one listing; those of the loop itself are among them and are skipped.
const ROWS_MAX: NonZeroUsize = NonZeroUsize::new(10 * ITEMS_MAX).expect("it is not zero");

/// A forge, read for the probe of one loop.
pub(super) struct ForgeProbe<'a> {
    pub(super) engine: &'a Engine,
    pub(super) forge: &'a dyn ReadForge,
    pub(super) loop_name: &'a str,
    pub(super) ask: &'a Ask,
}

impl ForgeProbe<'_> {
    fn query(&self) -> ItemQuery {
        let Ask { labels, not_labels, author, assignee, mention, text, branch, .. } = self.ask;
        ItemQuery {
            labels: labels.clone(),
            not_labels: not_labels.clone(),
            author: author.clone(),
            assignee: assignee.clone(),
            mention: mention.clone(),
            text: text.clone(),
            base_branch: branch.clone(),
            ..ItemQuery::open()
        }
    }

    fn is_own(&self, loop_name: Option<&String>) -> bool {
        loop_name.is_some_and(|name| name == self.loop_name)
    }

    /// The open pull requests of others, and the loop's own if it follows them.
    pub(super) async fn open_pulls(&self) -> Result<Vec<PullRequest>, ForgeError> {
        let (forge, query) = (self.forge, &self.query());
        let pulls =
            read_rows(ROWS_MAX, |from| Box::pin(async move { forge.pulls(query, from.as_ref()).await })).await?;
        let is_wanted = |pull: &PullRequest| self.ask.follow_own || !self.is_own(pull.about.loop_name.as_ref());
        let others = pulls.into_iter().filter(is_wanted);
        Ok(others.take(ITEMS_MAX).collect())
    }

    /// `issue-3@<hash>`: an issue counts again when anyone except this loop comments.
    pub(super) async fn open_issues(&self) -> Result<Vec<ProbeItem>, ForgeError> {
        let (forge, query) = (self.forge, &self.query());
        let rows = ITEMS_MAX.try_into().unwrap_or(NonZeroUsize::MIN);
        let issues = read_rows(rows, |from| Box::pin(async move { forge.issues(query, from.as_ref()).await })).await?;
        let mut items = Vec::new();
        for issue in issues {
            let of = CommentsOf::Issue(issue.about.number);
            let said =
                read_rows(ROWS_MAX, |from| Box::pin(async move { forge.comments(of, from.as_ref()).await })).await?;
            let chain = chain::of_issue(self.engine, &issue.about, &said).await.map_err(unreadable)?;
            let others = said.iter().filter(|comment| !self.is_own(comment.loop_name.as_ref()));
            let said: Vec<&[u8]> = std::iter::once(&issue.about.body)
                .chain(others.map(|comment| &comment.body))
                .map(String::as_bytes)
                .collect();
            let revision = hash::hash_fields(&said)[..DIGITS].to_owned();
            let key = format!("issue-{}@{revision}", issue.about.number);
            items.push(ProbeItem { chain, ..item(key, issue.about) });
        }
        Ok(items)
    }

    /// `pr-7@<head>`: a pull request counts again when its branch moves. The item has no details.
    pub(super) async fn pull_item(&self, pull: &PullRequest) -> Result<ProbeItem, ForgeError> {
        let chain = chain::after_round(self.engine, &pull.about.body).await.map_err(unreadable)?;
        let (key, title) = (format!("pr-{}@{}", pull.about.number, pull.head), pull.about.title.clone());
        Ok(ProbeItem { key, title, data: None, chain })
    }

    /// `ci-<name>@<head>`: a failed check. If the probe names a branch, `tip` is its commit in the user's clone.
    pub(super) async fn failing_checks(&self, tip: Option<String>) -> Result<Vec<ProbeItem>, ForgeError> {
        let (state, branch) = (Some(CheckState::Failed), self.ask.branch.clone());
        let (forge, query) = (self.forge, &CheckQuery { state, branch, heads: tip.into_iter().collect() });
        let checks =
            read_rows(ROWS_MAX, |from| Box::pin(async move { forge.checks(query, from.as_ref()).await })).await?;
        let names = Globs::new(&self.ask.checks).unwrap_or_default();
        let wanted = checks.into_iter().filter(|check| names.is_empty() || names.matches(&check.name));
        let items = wanted.map(|check| ProbeItem {
            key: format!("ci-{}@{}", check.name, check.head),
            title: check.title,
            data: Some(check.body),
            chain: 0,
        });
        Ok(items.take(ITEMS_MAX).collect())
    }
}

fn unreadable(error: StoreError) -> ForgeError {
    ForgeError::unavailable(error.to_string())
}

/// Whether an item is about a pull request.
pub(super) fn is_about(item: &ProbeItem, pull: &PullRequest) -> bool {
    let rest = item.key.strip_prefix(&format!("pr-{}", pull.about.number));
    rest.is_some_and(|rest| rest.starts_with('@') || rest.starts_with(':'))
}

fn item(key: String, about: ForgeItem) -> ProbeItem {
    ProbeItem { key, title: about.title, data: Some(about.body), chain: 0 }
}

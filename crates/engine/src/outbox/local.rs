//! The local forge: a bare repository and a folder of Markdown that replace a forge on this machine. It is the default
//! for embedders and for a first try.

use super::folder::{ForgeFolder, PageSlot, PublishRequest};
use super::front::PageFrontMatter;
use super::read::LocalReader;
use super::{page, push};
use crate::clock::Clock;
use crate::git::{EngineRepo, GitError};
use crate::seam::Seam;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt, WorkLookup};
use loopwright_core::forge::{
    Answer, CheckQuery, CheckRun, CommentsOf, ForgeComment, ForgePage, Issue, ItemQuery, ItemState, PageToken,
    PullFile, PullRequest, ReadForge,
};
use loopwright_core::spec::ActionKind;
use std::path::Path;
use std::sync::Arc;

/// A local forge of one repository.
pub struct LocalForge {
    folder: ForgeFolder,
    engine: EngineRepo,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for LocalForge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalForge").field("root", &self.folder.root).finish_non_exhaustive()
    }
}

impl LocalForge {
    /// Opens the forge in `folder`; nothing is created before the first delivery. Commits come from the engine's
    /// repository.
    ///
    /// # Errors
    /// None today; a later version may open the repository here.
    pub async fn open(folder: &Path, engine: EngineRepo, clock: Arc<dyn Clock>) -> Result<Self, GitError> {
        Ok(Self { folder: ForgeFolder { root: folder.to_owned(), seam: Seam::none() }, engine, clock })
    }

    /// The same forge with seams `forge.pointer` and `forge.file` around its writes.
    #[must_use]
    pub fn with_seam(mut self, seam: Seam) -> Self {
        self.folder.seam = seam;
        self
    }

    async fn send(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        if let Some(receipt) = self.look(item).await? {
            return Ok(receipt);
        }
        let head = match item.item.kind {
            ActionKind::PullRequest | ActionKind::Commit => Some(self.ship(item).await?),
            ActionKind::PrReview => self.reviewed_head(item).await?,
            _ => None,
        };
        let at_ms = self.clock.now_ms();
        let new = PublishRequest {
            key: checked_key(item)?,
            marker: item.marker.clone(),
            slot: self.slot(item).await?,
            page: page::page(item, head.as_deref(), at_ms),
            head,
            at_ms,
        };
        match self.blocking(move |folder| folder.publish(&new)).await {
            Ok(receipt) => Ok(receipt),
            // The page may have appeared before the failure.
            Err(error) => match self.look(item).await {
                Ok(Some(receipt)) => Ok(receipt),
                Ok(None) => Err(error),
                Err(_) => Err(error.after_effect()),
            },
        }
    }

    /// A new version of an open pull request replaces its page.
    async fn slot(&self, item: &Delivery) -> Result<PageSlot, DeliverError> {
        if item.item.kind != ActionKind::PullRequest {
            return Ok(page::slot(item));
        }
        let pulls = self.reader().branch_pulls(&item.branch, &item.base_branch).await;
        let pulls = pulls.map_err(|error| DeliverError::transient(error.to_string()))?;
        let ours = |pull: &PullRequest| pull.about.loop_name.as_ref() == Some(&item.loop_name);
        let open = pulls.into_iter().find(|pull| pull.about.state == ItemState::Open && ours(pull));
        Ok(open.map_or_else(|| page::slot(item), |pull| PageSlot::Replaced(format!("pulls/{}.md", pull.about.number))))
    }

    async fn look(&self, item: &Delivery) -> Result<Option<DeliveryReceipt>, DeliverError> {
        let (key, marker) = (checked_key(item)?, item.marker.clone());
        self.blocking(move |folder| folder.find(&key, &marker)).await
    }

    /// Pushes the commit to the forge's repository and returns its name.
    async fn ship(&self, item: &Delivery) -> Result<String, DeliverError> {
        let passed = push::PassedCommit::from_delivery(item, &self.engine).await?;
        let forge = push::open(&self.folder.root, item, &self.engine).await?;
        match item.item.kind {
            ActionKind::Commit => passed.fast_forward(item, &self.engine, &forge).await?,
            _ => passed.push(item, &self.engine, &forge).await?,
        }
        Ok(passed.head())
    }

    /// The commit that a review is about: the current head of the pull request's branch.
    async fn reviewed_head(&self, item: &Delivery) -> Result<Option<String>, DeliverError> {
        let path = format!("pulls/{}.md", item.item.target.as_deref().unwrap_or_default());
        let Some(pull) = self.blocking(move |folder| folder.read(&path)).await? else { return Ok(None) };
        let Some(branch) = PageFrontMatter::read(&pull).and_then(|(front, _)| front.text("branch").map(str::to_owned))
        else {
            return Ok(None);
        };
        let forge = push::open(&self.folder.root, item, &self.engine).await?;
        Ok(forge.branch(&branch).await.map_err(push::push_failed)?.map(|head| head.to_string()))
    }

    /// Writing and flushing files blocks, so it runs on a thread of its own.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ForgeFolder) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, DeliverError> {
        let folder = self.folder.clone();
        let root = folder.root.display().to_string();
        let answer = tokio::task::spawn_blocking(move || work(&folder)).await;
        // Publishing again is safe, so any failure is transient.
        let failed = |error: &dyn std::fmt::Display| DeliverError::transient(format!("local forge `{root}`: {error}"));
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Checks the key, which becomes a file name.
fn checked_key(item: &Delivery) -> Result<String, DeliverError> {
    let key = &item.key;
    if !key.is_empty() && key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(key.clone());
    }
    Err(DeliverError::refused("the item's key is not a plain word"))
}

impl LocalForge {
    fn reader(&self) -> LocalReader {
        LocalReader { folder: self.folder.root.clone(), git: self.engine.git().clone() }
    }
}

impl ReadForge for LocalForge {
    fn pulls<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>> {
        Box::pin(async move { self.reader().pulls(query, from).await })
    }

    fn branch_pulls<'a>(&'a self, branch: &'a str, base_branch: &'a str) -> Answer<'a, Vec<PullRequest>> {
        Box::pin(async move { self.reader().branch_pulls(branch, base_branch).await })
    }

    fn issues<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>> {
        Box::pin(async move { self.reader().issues(query, from).await })
    }

    fn checks<'a>(&'a self, query: &'a CheckQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>> {
        Box::pin(async move { self.reader().checks(query, from).await })
    }

    fn changed_files(&self, pull: u64) -> Answer<'_, Vec<PullFile>> {
        Box::pin(async move { self.reader().changed_files(pull).await })
    }

    fn comments<'a>(&'a self, of: CommentsOf, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>> {
        Box::pin(async move { self.reader().comments(of, from).await })
    }
}

impl Deliver for LocalForge {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(self.send(item))
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(async move { Ok(self.look(item).await?.map_or(DeliveryLookup::No, DeliveryLookup::Yes)) })
    }

    /// The forge is a part of the state: it was restored with the record, and has nothing that the record does not know.
    fn find_work<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<WorkLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(WorkLookup::Known(Vec::new()))))
    }
}

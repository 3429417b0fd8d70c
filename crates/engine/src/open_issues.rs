//! The open issues of a forge, for the task registry. It reads only through [`ReadForge`] and writes nothing.

use crate::engine::Engine;
use crate::git::UserRepo;
use crate::probe;
use loopwright_core::forge::{ForgeError, Issue, ItemQuery, ReadForge, read_rows};
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::LoopSpec;
use std::num::NonZeroUsize;

/// The most issues of one listing.
const ISSUES_MAX: NonZeroUsize = NonZeroUsize::new(1000).expect("it is not zero");

/// The open issues of a forge, by its name in the configuration, with one of these labels if any are given.
///
/// # Errors
/// When the forge is not configured or cannot be read.
pub async fn open_issues(
    engine: &Engine,
    forge: &str,
    labels: &[String],
    repo: &UserRepo,
) -> Result<Vec<Issue>, ForgeError> {
    let spec = LoopSpec { forge: forge.to_owned(), ..LoopSpec::new("tasks", "List the issues.", LoopLevel::L1Report) };
    let reader = probe::read_forge(engine, &spec, &repo.id, &repo.work_tree).await?;
    let (reader, query): (&dyn ReadForge, _) =
        (reader.as_ref(), &ItemQuery { labels: labels.to_vec(), ..ItemQuery::open() });
    read_rows(ISSUES_MAX, |from| Box::pin(async move { reader.issues(query, from.as_ref()).await })).await
}

//! The fixture that all runs share and none changes, so that no process has to prepare it again: a repository, and the
//! host's sandbox features.

use loopwright::boundary::{self, HostSupport};
use loopwright::git::Git;
use loopwright::seam::Seam;
use loopwright_testkit::TestRepo;
use std::sync::LazyLock;

static GROUND: LazyLock<Result<Ground, String>> = LazyLock::new(look);

/// The fixture of all runs.
pub(crate) struct Ground {
    /// One repository: rounds work on copies.
    pub(crate) repo: TestRepo,
    /// Its id, which depends only on its path.
    pub(crate) repo_id: String,
    pub(crate) host: HostSupport,
}

/// The fixture, prepared once.
pub(crate) fn ground() -> Result<&'static Ground, String> {
    GROUND.as_ref().map_err(String::clone)
}

fn look() -> Result<Ground, String> {
    let repo = TestRepo::new();
    repo.write("README.md", "hello\n").commit("first");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
    let found = runtime.block_on(Git::new(Seam::none()).discover(repo.path())).map_err(|why| why.to_string())?;
    let host = runtime.block_on(boundary::probe(repo.path()));
    Ok(Ground { repo, repo_id: found.id, host })
}

//! `take`: put a round's candidate on a new branch of your repository. The only command that writes there.

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::view::find;
use crate::view::rounds::RoundRecord;
use loopwright::git::{GitErrorKind, Oid};
use loopwright::workspace::Workspaces;
use loopwright_core::round::RoundFacts;
use serde_json::json;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct TakeArgs {
    /// The id of the round, or its first characters
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: TakeArgs, cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    let row = find::find_round(store.as_ref(), &args.id).await?;
    let story = RoundRecord::read(store.as_ref(), &row.id).await?;
    let (commit, base) = last_sealed_attempt(story.round.facts(), &row.id)?;
    let git = cx.git();
    let repo = git.discover(Path::new(&row.repo_path)).await?;
    let spaces = Workspaces::open(git.clone(), &cx.state_dir()?.0, repo.clone()).await;
    let spaces = spaces.map_err(|error| CommandError::failed(crate::error::error_chain(&error)))?;
    let taken = repo.add_take_branch(&git, spaces.engine(), &row.id, &commit, &base).await;
    let branch = taken.map_err(|error| match error.kind {
        GitErrorKind::Moved => CommandError::refused(format!("branch `take/{}` already exists", row.id))
            .hint(format!("see it: git switch take/{0}, or delete it: git branch -D take/{0}", row.id)),
        _ => error.into(),
    })?;
    let document =
        json!({"schema": 1, "round": row.id, "branch": branch, "commit": commit.as_str(), "repo": row.repo_path});
    Ok(cx.out.answer(&document, || {
        format!(
            "branch {branch} has the candidate; your work tree did not change\nsee it: git switch {}",
            safe(&branch)
        )
    }))
}

/// The last attempt that was sealed with a change, and its base.
fn last_sealed_attempt(facts: &RoundFacts, round: &str) -> Result<(Oid, Oid), CommandError> {
    let sealed = facts.attempts.iter().rev().find(|attempt| attempt.commit.is_some() && attempt.has_change());
    let commit = sealed.and_then(|attempt| attempt.commit.as_deref()).and_then(|commit| commit.parse().ok());
    let base = facts.base.as_deref().and_then(|base| base.parse().ok());
    commit.zip(base).ok_or_else(|| {
        CommandError::refused(format!("round {round} sealed no change, so there is nothing to take"))
            .hint(format!("see `loopwright why {round}`"))
    })
}

//! `take`: put a round's candidate on a new branch of your repository. The only command that writes there.

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::view::diff::{LastSealedChange, no_change_error, open_workspaces};
use crate::view::find;
use crate::view::rounds::RoundRecord;
use loopwright::git::GitErrorKind;
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
    if story.round.facts().started.calibration {
        let text = format!("round {} tested the checker with a planted bad change, which is not for use", row.id);
        return Err(CommandError::refused(text));
    }
    let change = LastSealedChange::last(story.round.facts()).ok_or_else(|| no_change_error(&row.id))?;
    let LastSealedChange { commit, base, .. } = change;
    let git = cx.git();
    let repo = git.discover(Path::new(&row.repo_path)).await?;
    let spaces = open_workspaces(cx, &row, &commit).await?;
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

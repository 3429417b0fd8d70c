//! Reads the facts of a repository that loop files depend on: the commands that install its dependencies and run its
//! tests, and its instructions for agents. `core::project` decides; this file only reads.

use crate::context::{CommandContext, read_repo_file};
use crate::error::CommandError;
use crate::verbs::safe;
use loopwright::git::{GitErrorKind, UserRepo};
use loopwright_core::project::{self, GateNeed, ProjectFiles, ProjectPlan};
use loopwright_core::spec::{Argv, INSTRUCTION_FILES};
use std::collections::BTreeSet;
use std::fs;

/// The most entries of a folder that are read in a repository without a commit.
const ENTRIES_MAX: usize = 10_000;

/// The facts of a repository.
#[derive(Debug, Default)]
pub(in crate::verbs) struct RepoProject {
    /// Its commands.
    pub(in crate::verbs) plan: ProjectPlan,
    /// The files at its root with instructions for agents.
    pub(in crate::verbs) instructions: Vec<&'static str>,
}

impl RepoProject {
    /// Reads the files that base has; their text is the working copy's.
    pub(in crate::verbs) async fn read(cx: &CommandContext, repo: &UserRepo) -> Result<Self, CommandError> {
        let paths = base_paths(cx, repo).await?;
        let read = |path: &str| read_manifest(cx, repo, path);
        let folders = cx.extra_path(Some(&repo.work_tree));
        let has_program = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
        let files = ProjectFiles { paths: &paths, read: &read, has_program: &has_program };
        let instructions = INSTRUCTION_FILES.into_iter().filter(|name| paths.contains(*name)).collect();
        Ok(Self { plan: project::detect(&files), instructions })
    }

    /// The first command of every gate that a loop should have.
    pub(in crate::verbs) fn first_choices(&self) -> Vec<(String, Argv)> {
        let kept = self.plan.gates.iter().filter(|gate| gate.need == GateNeed::Kept);
        kept.filter_map(|gate| Some((gate.name.clone(), gate.runs.first()?.clone()))).collect()
    }

    /// The command that runs the tests.
    pub(in crate::verbs) fn test_command(&self) -> Option<Argv> {
        self.first_choices().into_iter().next().map(|(_, run)| run)
    }
}

/// The text of a file that decides about commands. The user sees why one is not read.
fn read_manifest(cx: &CommandContext, repo: &UserRepo, path: &str) -> Option<String> {
    match read_repo_file(&repo.work_tree, path) {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(error) if error.is_not_found() => None,
        Err(error) => {
            cx.out.note(&format!("note: `{}` is not read: {error}", safe(path)));
            None
        }
    }
}

/// The files of base; without a commit, the files at the top of the working copy.
async fn base_paths(cx: &CommandContext, repo: &UserRepo) -> Result<BTreeSet<String>, CommandError> {
    match cx.git().head(repo, None).await {
        Ok(head) => Ok(cx.git().paths(repo, &head.commit).await?),
        Err(error) if matches!(error.kind, GitErrorKind::NoCommits) => {
            let entries = fs::read_dir(&repo.work_tree).into_iter().flatten().flatten().take(ENTRIES_MAX);
            Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
        }
        Err(error) => Err(error.into()),
    }
}

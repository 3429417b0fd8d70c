//! The plan of an import: everything that it will write, decided before anything is written.

use super::ItemLine;
use crate::context::{CommandContext, FileProblem, LOOPS_FOLDER, RepoLoops, error_from_problems};
use crate::error::CommandError;
use crate::verbs::init;
use loopwright::git::{GitErrorKind, UserRepo};
use loopwright_core::import::{ImportFit, ImportNotes, ImportedLoop};
use loopwright_core::spec::Argv;
use std::collections::BTreeMap;

/// The folder of skills, from the root of the working copy.
const SKILLS_FOLDER: &str = ".loopwright/skills";

/// The processed items of one loop.
#[derive(Debug)]
pub(super) struct LoopItems {
    pub(super) loop_name: String,
    /// The file that they come from.
    pub(super) source: String,
    /// Keys, each with the time in milliseconds.
    pub(super) items: Vec<(String, Option<i64>)>,
}

/// Everything that an import writes and reports.
#[derive(Debug)]
pub(super) struct ImportPlan {
    pub(super) source: &'static str,
    /// The folder or the file, as the user named it.
    pub(super) from: String,
    pub(super) loops: Vec<ImportedLoop>,
    /// Skill files by name.
    pub(super) skills: BTreeMap<String, String>,
    pub(super) items: Vec<LoopItems>,
    pub(super) notes: ImportNotes,
    pub(super) settings: Option<String>,
    pub(super) next: Vec<String>,
}

/// The path of an imported loop's file, from the root of the working copy.
pub(super) fn loop_path(one: &ImportedLoop) -> String {
    format!("{LOOPS_FOLDER}/{}", one.file_name())
}

impl ImportPlan {
    /// The files to write. Skills come first, so that no loop exists without its skill.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let skills = self.skills.iter().map(|(name, text)| (format!("{SKILLS_FOLDER}/{name}"), text.clone()));
        skills.chain(self.loops.iter().map(|one| (loop_path(one), one.written.text.clone()))).collect()
    }

    /// The lines about items; nothing is recorded yet.
    pub(super) fn item_lines(&self) -> Vec<ItemLine> {
        let line = |one: &LoopItems| ItemLine {
            name: one.loop_name.clone(),
            source: one.source.clone(),
            processed: one.items.len(),
            new: 0,
        };
        self.items.iter().map(line).collect()
    }

    /// Refuses a name that two imported loops have, or that another file of the repository has.
    pub(super) fn refuse_taken_names(&self, existing: &RepoLoops) -> Result<(), CommandError> {
        let mut problems = Vec::new();
        for (at, one) in self.loops.iter().enumerate() {
            let own = loop_path(one);
            let twin = self.loops[..at].iter().find(|other| other.name().is_same(one.name()));
            problems.extend(twin.map(|twin| {
                let what = format!("loop `{}` is also in {}", one.name(), twin.source);
                FileProblem::for_file(&one.source, what).with_hint("rename one of them")
            }));
            let taken = existing.loops.iter().find(|file| file.spec.name().is_same(one.name()) && file.file != own);
            problems.extend(taken.map(|file| {
                let what = format!("loop `{}` exists already: {}", one.name(), file.file);
                FileProblem::for_file(&one.source, what)
                    .with_hint("rename or remove one of them; `--force` replaces only a file of the same name")
            }));
        }
        if problems.is_empty() { Ok(()) } else { Err(error_from_problems(&problems)) }
    }

    /// The commands to type next.
    pub(super) fn add_next_commands(&mut self) {
        self.next.push("loopwright check".to_owned());
        if let Some(first) = self.loops.first() {
            self.next.push(format!("loopwright run {} --dry-run", first.name()));
        }
        self.next.push("git add .loopwright && git commit -m \"import loops\"".to_owned());
        self.next.push("loopwright up".to_owned());
    }
}

/// The repository and the user's configuration, as imported loops depend on them.
#[derive(Debug, Default)]
pub(super) struct RepoFacts {
    tests: Option<Argv>,
    setup: Vec<Argv>,
    branch: Option<String>,
    head: Option<String>,
    forge: Option<String>,
    has_slack: bool,
}

impl RepoFacts {
    pub(super) async fn read(cx: &CommandContext, repo: &UserRepo) -> Result<Self, CommandError> {
        let effective = cx.config(Some(&repo.work_tree))?;
        let config = effective.config();
        let mut facts = Self { has_slack: config.slack.is_some(), ..Self::default() };
        if !config.forges.is_empty() {
            let origin = cx.git().origin_url(repo).await?;
            let found = config.forges.iter().find(|(_, forge)| forge.repository_at(origin.as_deref()).is_ok());
            facts.forge = found.map(|(name, _)| name.clone());
        }
        let base = match cx.git().head(repo, None).await {
            Err(error) if matches!(error.kind, GitErrorKind::NoCommits) => return Ok(facts),
            base => base?,
        };
        let project = init::RepoProject::read(cx, repo).await?;
        (facts.tests, facts.setup) = (project.test_command(), project.plan.setup);
        (facts.branch, facts.head) = (base.branch, Some(base.commit.to_string()));
        Ok(facts)
    }

    pub(super) fn fit(&self) -> ImportFit<'_> {
        ImportFit {
            tests: self.tests.as_deref(),
            setup: &self.setup,
            branch: self.branch.as_deref(),
            head: self.head.as_deref(),
            forge: self.forge.as_deref(),
            has_slack: self.has_slack,
        }
    }
}

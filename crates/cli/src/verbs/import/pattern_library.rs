//! `import loop-engineering DIR`: the loops and limits of a pattern library.

use super::plan::{ImportPlan, RepoFacts};
use super::source_folder::SourceFolder;
use crate::context::{CommandContext, FileProblem, error_from_problems};
use crate::error::CommandError;
use loopwright::git::UserRepo;
use loopwright_core::import::ImportNotes;
use loopwright_core::import::pattern_library::{BUDGET_FILE, GATE_FILE, LOOPS_FILE, LibraryGate, PatternLibrary};
use loopwright_core::patterns::LoopPattern;
use std::path::Path;

/// Files that makers read, if they are in the repository.
const CONTEXT: [&str; 2] = ["STATE.md", "loop-constraints.md"];
/// Files that have no counterpart, with the reason.
const NOT_CARRIED: [(&str, &str); 3] = [
    ("loop-run-log.md", "an agent wrote it; the journal starts empty and records every round"),
    ("loop-ledger.json", "an agent wrote it; the engine counts attempts itself"),
    (".loop-worktrees", "rounds work in private copies; merge or remove these worktrees yourself"),
];

pub(super) fn plan(
    cx: &CommandContext,
    repo: &UserRepo,
    facts: &RepoFacts,
    dir: &Path,
) -> Result<ImportPlan, CommandError> {
    let path = cx.env.cwd.join(dir);
    let folder = SourceFolder::open(&path)?;
    let mut notes = ImportNotes::default();
    let (loops, budget) = (text(&folder, LOOPS_FILE)?, text(&folder, BUDGET_FILE)?);
    let loops = loops.ok_or_else(|| {
        CommandError::invalid(format!("`{}` has no {LOOPS_FILE}", dir.display()))
            .hint("name the folder with LOOP.md, usually the root of the repository")
    })?;
    let failed = |problems: loopwright_core::spec::SpecProblems| {
        error_from_problems(&problems.into_iter().map(FileProblem::from).collect::<Vec<_>>())
    };
    let gate = match folder.read(GATE_FILE).map_err(|problem| error_from_problems(&[problem]))? {
        Some(bytes) => LibraryGate::read(&bytes, &mut notes).map_err(failed)?,
        None => LibraryGate::default(),
    };
    let context = context(repo, &path, &folder, &mut notes)?;
    let budget = budget.unwrap_or_default();
    let library = PatternLibrary { loops: &loops, budget: &budget, context: &context, fit: facts.fit() };
    let loops = library.loops(&gate, &mut notes).map_err(failed)?;
    for (name, why) in NOT_CARRIED {
        if path.join(name).symlink_metadata().is_ok() {
            notes.not_carried(name, "file", why);
        }
    }
    notes.changed(
        LOOPS_FILE,
        "loop-pause-all",
        "`loopwright stop --all` stops every loop at once, and `loopwright thaw` starts them again",
    );
    let skills =
        loops.iter().filter_map(|one| LoopPattern::find(one.name().as_str())).flat_map(|pattern| pattern.skills);
    let skills = skills.map(|skill| (skill.file.to_owned(), skill.text.to_owned())).collect();
    let from = dir.display().to_string();
    let (items, next) = (Vec::new(), Vec::new());
    let mut plan = ImportPlan { source: "loop-engineering", from, loops, skills, items, notes, settings: None, next };
    plan.add_next_commands();
    Ok(plan)
}

fn text(folder: &SourceFolder, name: &str) -> Result<Option<String>, CommandError> {
    let bytes = folder.read(name).map_err(|problem| error_from_problems(&[problem]))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let problem = |what: &str| {
        error_from_problems(&[FileProblem::for_file(name, what).with_hint("save it as UTF-8 text of less than 1 MiB")])
    };
    if bytes.len() > 1 << 20 {
        return Err(problem("the file has more than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| problem("this is not UTF-8 text"))
}

/// The paths of files for makers, from the root of the repository.
fn context(
    repo: &UserRepo,
    dir: &Path,
    folder: &SourceFolder,
    notes: &mut ImportNotes,
) -> Result<Vec<String>, CommandError> {
    let inside = dir.canonicalize().ok().zip(repo.work_tree.canonicalize().ok());
    let inside = inside.and_then(|(dir, root)| Some(dir.strip_prefix(root).ok()?.to_str()?.to_owned()));
    let mut paths = Vec::new();
    for name in CONTEXT {
        let is_there = folder.read(name).map_err(|problem| error_from_problems(&[problem]))?.is_some();
        match (&inside, is_there) {
            (_, false) => {}
            (Some(inside), true) => {
                let path = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
                notes.changed(name, "file", format!("`context: [{path}]`: every maker reads the committed file as data; no agent writes it, the store has the state"));
                paths.push(path);
            }
            (None, true) => notes.not_carried(
                name,
                "file",
                "it is not in this repository; commit it here and name it under `context`",
            ),
        }
    }
    Ok(paths)
}

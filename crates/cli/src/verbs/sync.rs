//! `sync`: copies the skills, agents and workflows of the repository to the places where agents find them for every
//! project. A manifest has the hash of each copy; a copy that was edited there, or that has another origin, is shown
//! and never replaced.

use super::{CommandContext, CommandError, CommandExit, VerbResult, safe};
use crate::context::{FileProblem, error_from_problems, list_repo_folder, read_bytes, read_repo_file};
use crate::error::with_count;
use loopwright::repo_file::RepoFileError;
use loopwright_core::hash::hash_bytes;
use loopwright_core::name::LoopName;
use loopwright_core::sync::{CopyState, as_skill};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The most files of one folder.
const FILES_MAX: usize = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// Only compare, and exit with 11 if any copy differs
    #[arg(long, conflicts_with_all = ["dry_run", "uninstall"])]
    check: bool,
    /// Show what would be written or removed
    #[arg(long)]
    dry_run: bool,
    /// Remove the copies of this repository that were not edited
    #[arg(long)]
    uninstall: bool,
}

/// The copies that were written: by path, with the repository and the hash.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SyncManifest {
    schema: u32,
    copies: BTreeMap<String, SyncedCopy>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SyncedCopy {
    repo: String,
    hash: String,
}

/// One copy.
#[derive(Debug)]
struct CopyPlan {
    target: PathBuf,
    /// The file of the repository; `None` if it is gone.
    source: Option<String>,
    text: String,
    state: CopyState,
}

pub(crate) async fn run(args: SyncArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let home = cx.env.home.clone().ok_or_else(|| CommandError::invalid("HOME is not set"))?;
    let manifest_path = cx.state_dir()?.0.join("sync.json");
    let mut manifest = read_manifest(&manifest_path)?;
    if args.uninstall {
        return uninstall(cx, &repo.id, &manifest_path, manifest, args.dry_run);
    }
    let config = cx.env.xdg_config.clone().unwrap_or_else(|| home.join(".config"));
    let plans = plan_copies(&repo.id, &manifest, copies(&repo.work_tree, &home, &config)?)?;
    if !args.check && !args.dry_run {
        perform(&repo.id, &plans, &mut manifest)?;
        write_manifest(&manifest_path, &manifest)?;
    }
    let differs = |plan: &&CopyPlan| if args.check { plan.state != CopyState::Same } else { is_kept(plan) };
    let count = plans.iter().filter(differs).count();
    let lines: Vec<_> = plans.iter().map(|plan| json!({"path": plan.target, "state": plan.state.word()})).collect();
    cx.out.answer(&json!({"schema": 1, "copies": lines, "differences": count}), || page(&plans, &args, count));
    Ok(if count == 0 { CommandExit::DONE } else { CommandExit::REJECTED })
}

/// The copies of all files of the repository, and those whose file it does not have any more.
fn plan_copies(repo: &str, manifest: &SyncManifest, wanted: Vec<WantedCopy>) -> Result<Vec<CopyPlan>, CommandError> {
    let hash_of = |target: &Path| Ok::<_, CommandError>(present(target)?.map(|bytes| hash_bytes(&bytes)));
    let mut plans = Vec::new();
    for WantedCopy { target, source, text } in wanted {
        let there = hash_of(&target)?;
        let known = manifest.copies.get(&*target.to_string_lossy()).filter(|copy| copy.repo == repo);
        let state = CopyState::compare(&hash_bytes(text.as_bytes()), there.as_deref(), known.map(|copy| &*copy.hash));
        plans.push(CopyPlan { target, source: Some(source), text, state });
    }
    let is_wanted = |target: &Path, plans: &[CopyPlan]| plans.iter().any(|plan| plan.target == target);
    for (target, copy) in manifest.copies.iter().filter(|(_, copy)| copy.repo == repo) {
        let target = PathBuf::from(target);
        if is_wanted(&target, &plans) {
            continue;
        }
        let state = CopyState::of_deleted(hash_of(&target)?.as_deref(), &copy.hash);
        plans.extend(state.map(|state| CopyPlan { target, source: None, text: String::new(), state }));
    }
    Ok(plans)
}

/// Writes and removes the copies that may be, and records them.
fn perform(repo: &str, plans: &[CopyPlan], manifest: &mut SyncManifest) -> Result<(), CommandError> {
    for plan in plans {
        let target = plan.target.to_string_lossy().into_owned();
        if plan.state.may_write() {
            write(&plan.target, &plan.text)?;
        }
        if plan.state.may_write() || plan.state == CopyState::Same {
            let copy = SyncedCopy { repo: repo.to_owned(), hash: hash_bytes(plan.text.as_bytes()) };
            manifest.copies.insert(target, copy);
        } else if plan.state == CopyState::Deleted {
            fs::remove_file(&plan.target)
                .map_err(|error| CommandError::failed(format!("remove `{target}`: {error}")))?;
            manifest.copies.remove(&target);
        }
    }
    Ok(())
}

/// Whether a copy stays as it is, because something would be lost.
fn is_kept(plan: &CopyPlan) -> bool {
    matches!(plan.state, CopyState::Edited | CopyState::Conflict)
}

fn page(plans: &[CopyPlan], args: &SyncArgs, count: usize) -> String {
    let mut lines = Vec::new();
    for plan in plans.iter().filter(|plan| plan.state != CopyState::Same) {
        let source = plan.source.as_deref().filter(|_| is_kept(plan)).map(|source| format!(" (here: {source})"));
        let target = plan.target.to_string_lossy();
        lines.push(format!("{:<8}  {}{}", plan.state.word(), safe(&target), safe(&source.unwrap_or_default())));
    }
    let written = plans.iter().filter(|plan| plan.state.may_write()).count();
    let deleted = plans.iter().filter(|plan| plan.state == CopyState::Deleted).count();
    let compared = with_count(plans.len(), "copy").replace("copys", "copies");
    lines.push(match args.check || args.dry_run {
        true => format!("{compared} compared, {written} to write, {deleted} to remove"),
        false => {
            let same = plans.len() - written - deleted - count;
            format!("{written} written, {deleted} removed, {same} the same")
        }
    });
    if plans.iter().any(is_kept) {
        lines.push(
            "edited copies and conflicts are kept: compare both files, move your changes to the one in the repository, then \
             remove the copy"
                .to_owned(),
        );
    }
    lines.join("\n")
}

/// Removes the copies of a repository that are as they were written.
fn uninstall(cx: &CommandContext, repo: &str, path: &Path, mut manifest: SyncManifest, dry_run: bool) -> VerbResult {
    let own: Vec<String> =
        manifest.copies.iter().filter(|(_, copy)| copy.repo == repo).map(|(target, _)| target.clone()).collect();
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for target in own {
        let there = present(Path::new(&target))?.map(|bytes| hash_bytes(&bytes));
        let written = manifest.copies.get(&target).map(|copy| copy.hash.clone());
        if there.is_some() && there != written {
            kept.push(target);
            continue;
        }
        if !dry_run {
            if there.is_some() {
                fs::remove_file(&target)
                    .map_err(|error| CommandError::failed(format!("remove `{target}`: {error}")))?;
            }
            manifest.copies.remove(&target);
        }
        removed.push(target);
    }
    if !dry_run {
        write_manifest(path, &manifest)?;
    }
    let exit = if kept.is_empty() { CommandExit::DONE } else { CommandExit::REJECTED };
    cx.out.answer(&json!({"schema": 1, "removed": removed, "kept": kept}), || {
        let mut lines: Vec<String> = removed.iter().map(|target| format!("removed   {}", safe(target))).collect();
        lines.extend(kept.iter().map(|target| format!("kept      {}: it was edited", safe(target))));
        lines.push(format!("{} removed, {} kept", removed.len(), kept.len()));
        lines.join("\n")
    });
    Ok(exit)
}

/// A copy that there should be.
struct WantedCopy {
    target: PathBuf,
    source: String,
    text: String,
}

/// Every copy with its text: skills for all agents, agents for those that read Markdown, workflows for Claude Code.
fn copies(root: &Path, home: &Path, config: &Path) -> Result<Vec<WantedCopy>, CommandError> {
    let opencode = config.join("opencode");
    // Codex, opencode and Gemini read the second folder; a further copy would show them each skill twice.
    let skills = [home.join(".claude/skills"), home.join(".agents/skills")];
    let agents = [home.join(".claude/agents"), opencode.join("agents"), home.join(".gemini/agents")];
    let mut all = Vec::new();
    let mut add = |target: PathBuf, folder: &str, file: &str, text: &str| {
        all.push(WantedCopy { target, source: format!(".loopwright/{folder}/{file}"), text: text.to_owned() });
    };
    for (name, file, text) in files(root, "skills", &["md"])? {
        let text = as_skill(&name, &text);
        skills.iter().for_each(|folder| add(folder.join(&name).join("SKILL.md"), "skills", &file, &text));
    }
    for (_, file, text) in files(root, "agents", &["md"])? {
        agents.iter().for_each(|folder| add(folder.join(&file), "agents", &file, &text));
    }
    for (_, file, text) in files(root, "workflows", &["js", "md"])? {
        add(home.join(".claude/workflows").join(&file), "workflows", &file, &text);
    }
    Ok(all)
}

/// The plain files of a folder in order: stem, name and text. A name that is not safe as a path is an error.
fn files(root: &Path, folder: &str, endings: &[&str]) -> Result<Vec<(String, String, String)>, CommandError> {
    let shown = format!(".loopwright/{folder}");
    let mut found = Vec::new();
    for file in list_repo_folder(root, Path::new(&shown), FILES_MAX).map_err(|error| unreadable(&shown, &error))? {
        let Some((stem, ending)) = file.rsplit_once('.') else { continue };
        let path = Path::new(&shown).join(&file);
        if !endings.contains(&ending) || root.join(&path).is_dir() {
            continue;
        }
        LoopName::parse(stem).map_err(|error| CommandError::invalid(format!("`{shown}/{file}`: {error}")))?;
        let bytes = read_repo_file(root, &path).map_err(|error| unreadable(&path.to_string_lossy(), &error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| CommandError::invalid(format!("`{shown}/{file}` is not UTF-8 text")))?;
        found.push((stem.to_owned(), file.clone(), text));
    }
    found.sort();
    Ok(found)
}

/// A file that would be copied to all projects is refused as one for a brief is.
fn unreadable(shown: &str, error: &RepoFileError) -> CommandError {
    error_from_problems(&[FileProblem::unreadable(shown, "copy it", error)])
}

/// The bytes of a copy; `None` if there is none. A link or a folder in its place is an error.
fn present(path: &Path) -> Result<Option<Vec<u8>>, CommandError> {
    let failed = |why: String| CommandError::invalid(format!("`{}`: {why}", path.display()));
    match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(failed(error.to_string())),
        Ok(about) if !about.is_file() => Err(failed("it is a link or not a plain file".to_owned())),
        Ok(_) => read_bytes(path).map(Some).map_err(|error| failed(error.to_string())),
    }
}

/// Writes a copy beside its place first, so that no reader sees a part of it.
fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let written = || {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(folder)?;
        let beside = path.with_extension("loopwright-new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(|error: io::Error| CommandError::failed(format!("write `{}`: {error}", path.display())))
}

fn read_manifest(path: &Path) -> Result<SyncManifest, CommandError> {
    let damaged = |why: String| CommandError::failed(format!("`{}`: {why}", path.display()));
    match present(path)? {
        None => Ok(SyncManifest { schema: 1, ..SyncManifest::default() }),
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string())),
    }
}

fn write_manifest(path: &Path, manifest: &SyncManifest) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(manifest).map_err(|error| CommandError::failed(error.to_string()))?;
    write(path, &(text + "\n"))
}

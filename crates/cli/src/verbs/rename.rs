//! `rename`: a loop gets another name, in its file and in the store. It keeps its history, its pause, its marks, its
//! items and its memory. Other loops that name it are listed; their files are not edited.

use super::{CommandContext, CommandError, VerbResult, close, safe};
use crate::context::{CheckedLoopFile, LOOPS_FOLDER, RepoLoops, read_repo_file};
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use loopwright::git::UserRepo;
use loopwright::rename::{RenameRequest, ensure_renamable, rename_loop};
use loopwright_core::name::LoopName;
use loopwright_core::spec::{LoopSpec, read_loop_file};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct RenameArgs {
    /// The name of the loop
    #[arg(value_name = "OLD")]
    old: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    new: String,
}

/// The edit of a loop file: the path and the text before, and the path and the text after.
struct FileEdit {
    before: String,
    after: String,
    text: String,
}

pub(crate) async fn run(args: RenameArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    LoopName::parse(&args.new).map_err(|error| CommandError::invalid(format!("`{}`: {error}", safe(&args.new))))?;
    if cx.daemon().is_some() {
        // It may be about to start the loop under its old name.
        return Err(CommandError::failed("a daemon uses the loops of this state directory")
            .hint("`loopwright stop`, then this command, then `loopwright up`"));
    }
    let loops = cx.loops(&repo)?;
    let edit = plan_edit(cx, &repo, &loops, &args).await?;
    let request =
        RenameRequest { repo: repo.id.clone(), from: args.old.clone(), to: args.new.clone(), actor: cx.actor_name() };
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let renamed = async {
        ensure_renamable(&engine, &request).await?;
        // The file is last, and complete before the store is touched: a renaming that is refused changes nothing.
        let draft = edit.as_ref().map(|edit| FileDraft::write(&repo, edit)).transpose()?;
        rename_loop(&engine, &request).await?;
        let Some(Err(error)) = draft.map(|draft| draft.put_in_place(&repo)) else { return Ok(()) };
        let RenameRequest { from, to, .. } = request.clone();
        rename_loop(&engine, &RenameRequest { from: to, to: from, ..request }).await?;
        Err::<(), CommandError>(error)
    };
    close(&engine, renamed.await).await?;
    let followers: Vec<&str> = followers(&loops, &args.old).collect();
    let file = edit.as_ref().map(|edit| edit.after.as_str());
    let document = json!({
        "schema": SCHEMA, "loop": args.new, "from": args.old, "repo": repo.id, "file": file, "followers": followers,
    });
    Ok(cx.out.answer(&document, || page(&args, edit.as_ref(), &followers)))
}

/// The edit of the file; `None` if a person has renamed it already.
async fn plan_edit(
    cx: &CommandContext,
    repo: &UserRepo,
    loops: &RepoLoops,
    args: &RenameArgs,
) -> Result<Option<FileEdit>, CommandError> {
    match (loops.find(&args.old), loops.find(&args.new)) {
        (Ok(_), Ok(other)) => {
            Err(CommandError::invalid(format!("the name `{}` is used by {}", safe(&args.new), other.file))
                .hint("choose another name"))
        }
        (Ok(file), Err(_)) => Ok(Some(edited(repo, file, &args.new)?)),
        (Err(unknown), Ok(_)) => {
            let store = super::status::open_store_if_any(cx).await?;
            let known = match store {
                Some(store) => {
                    let has_run = store.loop_row(&repo.id, &args.old).await?.is_some();
                    has_run || store.schedule(&repo.id, &args.old).await?.is_some()
                }
                None => false,
            };
            if known { Ok(None) } else { Err(unknown) }
        }
        (Err(unknown), Err(_)) => Err(unknown),
    }
}

/// The file with the new name. Only the line of the name changes, and the result must be the same loop otherwise.
fn edited(repo: &UserRepo, file: &CheckedLoopFile, new: &str) -> Result<FileEdit, CommandError> {
    let (path, old) = (Path::new(&file.file), file.spec.name.as_str());
    let hint = format!("change `name:` in {} yourself, then repeat this command", file.file);
    let unreadable = |why: String| CommandError::failed(format!("read `{}`: {why}", file.file));
    let bytes = read_repo_file(&repo.work_tree, path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("md");
    let is_named_after = path.file_stem().and_then(|stem| stem.to_str()) == Some(old);
    let after = if is_named_after { format!("{LOOPS_FOLDER}/{new}.{ending}") } else { file.file.clone() };
    let renamed = LoopSpec { name: new.to_owned(), ..LoopSpec::clone(&file.spec) };
    let is_same =
        |text: &String| read_loop_file(&after, text.as_bytes()).is_ok_and(|spec| LoopSpec::clone(&spec) == renamed);
    let text = replacements(&text, old, new).find(is_same);
    let text = text
        .ok_or_else(|| CommandError::invalid(format!("{}: the line of its name is unclear", file.file)).hint(hint))?;
    if after != file.file && std::fs::symlink_metadata(repo.work_tree.join(&after)).is_ok() {
        return Err(CommandError::invalid(format!("{after} exists")).hint("remove it, or choose another name"));
    }
    Ok(FileEdit { before: file.file.clone(), after, text })
}

/// The text with one occurrence of the old name replaced, in each place where it may be the value of `name`.
fn replacements<'t>(text: &'t str, old: &'t str, new: &'t str) -> impl Iterator<Item = String> + 't {
    text.match_indices(old).filter_map(move |(at, _)| {
        let (before, rest) = (&text[..at], &text[at + old.len()..]);
        let key = before.trim_end_matches(['"', '\'', ' ']).strip_suffix(':')?.trim_end_matches(['"', '\'', ' ']);
        key.ends_with("name").then(|| format!("{before}{new}{rest}"))
    })
}

/// The new file beside its place; removed again unless it is put there.
struct FileDraft<'e> {
    path: PathBuf,
    edit: &'e FileEdit,
}

impl<'e> FileDraft<'e> {
    /// Writes a file that did not exist. A link of that name, which a landed change could have brought, is not followed.
    fn write(repo: &UserRepo, edit: &'e FileEdit) -> Result<Self, CommandError> {
        let path = repo.work_tree.join(&edit.after).with_extension("renamed");
        let failed = |error| CommandError::failed(format!("write `{}`: {error}", path.display()));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        let draft = Self { path: path.clone(), edit };
        file.write_all(edit.text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(draft)
    }

    /// Gives it its name; never the name of something that exists, except of the file that it replaces.
    fn put_in_place(self, repo: &UserRepo) -> Result<(), CommandError> {
        let FileEdit { before, after, .. } = self.edit;
        let (target, source) = (repo.work_tree.join(after), repo.work_tree.join(before));
        let failed = |error: std::io::Error| CommandError::failed(format!("write `{after}`: {error}"));
        if target == source {
            return std::fs::rename(&self.path, &target).map_err(failed);
        }
        std::fs::hard_link(&self.path, &target).map_err(failed)?;
        std::fs::remove_file(&source).map_err(|error| {
            // The loop must not be there twice.
            let _ = std::fs::remove_file(&target);
            CommandError::failed(format!("remove `{before}`: {error}"))
        })
    }
}

impl Drop for FileDraft<'_> {
    fn drop(&mut self) {
        // It is gone if it was renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The loops that start after the renamed one.
fn followers<'l>(loops: &'l RepoLoops, old: &'l str) -> impl Iterator<Item = &'l str> {
    let names = move |file: &&CheckedLoopFile| file.spec.on.after.iter().any(|name| name == old);
    loops.loops.iter().filter(names).map(|file| file.spec.name.as_str())
}

fn page(args: &RenameArgs, edit: Option<&FileEdit>, followers: &[&str]) -> String {
    let (old, new) = (safe(&args.old), safe(&args.new));
    let mut page = format!("{old} is {new} now, with its history, its pause, its items and its memory");
    if let Some(FileEdit { before, after, .. }) = edit {
        let what = if before == after { format!("changed {after}") } else { format!("moved {before} to {after}") };
        page.push_str(&format!("\n{what}; commit it"));
    }
    for follower in followers {
        page.push_str(&format!("\n{} starts after {old}: change `after:` in its file", safe(follower)));
    }
    page
}

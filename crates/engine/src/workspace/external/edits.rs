//! Finds edits to external content. The candidate keeps the base's commits of submodules and pointers of large files, so
//! an edit could not be sealed, and each one is refused with its path. Touched files with the same bytes are no edit,
//! and neither are ignored files in a submodule, such as build outputs.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{ExternalLayer, large_files};
use crate::depth::FolderDepth;
use crate::git::{EngineRepo, TREE_MAX};
use crate::workspace::base::ReadyBase;
use crate::workspace::catalogue::PathCatalogue;
use crate::workspace::index::{GITLINK, mode_of};
use crate::workspace::survey::{CheckoutSurvey, OPAQUE, SurveyScope, SurveyedFile, UnsealableKind};
use crate::workspace::untracked::is_litter;
use crate::workspace::{Workspace, WorkspaceError, blocking, seal};

/// Most edits that are reported; further ones add no information.
const REPORTED_MAX: usize = 100;

/// Removes from a survey the external content that is as in the base, and adds a refusal for each edit to it.
pub(in crate::workspace) async fn drop_unchanged(
    engine: &EngineRepo,
    workspace: &Workspace,
    ready: &ReadyBase,
    catalogue: PathCatalogue,
    mut survey: CheckoutSurvey,
) -> Result<(PathCatalogue, CheckoutSurvey), WorkspaceError> {
    let Some(layer) = ExternalLayer::of(&workspace.root) else { return Ok((catalogue, survey)) };
    if has_files(&layer.pointers()) {
        refuse_new_large(engine, ready, &mut survey).await?;
    }
    let (files, dir, view) = (layer.files(), workspace.dir.clone(), seal::view_of(workspace));
    let (catalogue, mut survey, edits) = blocking(move || {
        judge_large(&layer, &dir, &mut survey, &catalogue);
        let edits = judge_submodules(&layer.files(), &dir, view, &catalogue, &mut survey);
        Ok((catalogue, survey, edits))
    })
    .await?;
    let kept = drop_ignored(engine, &files, edits).await?;
    survey.odd.extend(kept.into_iter().map(|path| (path, UnsealableKind::Submodule)));
    Ok((catalogue, survey))
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// A new file that LFS should store would be sealed as plain content.
async fn refuse_new_large(
    engine: &EngineRepo,
    ready: &ReadyBase,
    survey: &mut CheckoutSurvey,
) -> Result<(), WorkspaceError> {
    let new = survey.changed.iter().filter(|file| file.is_new).map(|file| file.path.as_slice());
    let filtered = large_files::filtered_paths(engine, &ready.index(), new).await?;
    refuse(survey, |file| file.is_new && filtered.binary_search(&file.path).is_ok());
    Ok(())
}

/// Changed files that only have their content instead of their pointer are dropped; edits are refused.
fn judge_large(layer: &ExternalLayer, dir: &Path, survey: &mut CheckoutSurvey, catalogue: &PathCatalogue) {
    let (files, pointers) = (layer.files(), layer.pointers());
    let is_large =
        |file: &SurveyedFile| !file.is_new && pointers.join(OsStr::from_bytes(&file.path)).symlink_metadata().is_ok();
    let is_kept = |file: &SurveyedFile| {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let mode = catalogue.find(&file.path).map(|at| catalogue.entries()[at].mode);
        let place = dir.join(path);
        mode == Some(file.mode) && (is_same(&files.join(path), &place) || is_same_bytes(&pointers.join(path), &place))
    };
    survey.changed.retain(|file| !is_large(file) || !is_kept(file));
    refuse(survey, is_large);
}

fn refuse(survey: &mut CheckoutSurvey, is_edit: impl Fn(&SurveyedFile) -> bool) {
    let (edits, rest) = std::mem::take(&mut survey.changed).into_iter().partition(|file| is_edit(file));
    survey.changed = rest;
    let edits: Vec<SurveyedFile> = edits;
    survey.odd.extend(edits.into_iter().map(|file| (file.path, UnsealableKind::LargeFile)));
}

/// Compares every submodule that is still a folder, and returns the edits in it.
fn judge_submodules(
    files: &Path,
    dir: &Path,
    view: SurveyScope,
    catalogue: &PathCatalogue,
    survey: &mut CheckoutSurvey,
) -> Vec<ContentEdit> {
    let mut walk = EditWalk { files, dir, edits: Vec::new() };
    let links = catalogue.entries().iter().filter(|entry| entry.mode == GITLINK);
    for link in links.map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path))) {
        let is_folder = |root: &Path| fs::symlink_metadata(root.join(&link)).is_ok_and(|found| found.is_dir());
        if is_folder(files) && is_folder(dir) {
            survey.odd.retain(|(path, odd)| *odd != UnsealableKind::Submodule || path != link.as_os_str().as_bytes());
            walk.folders(link, view);
        }
    }
    walk.edits
}

/// A path in a submodule that is not as in the base.
struct ContentEdit {
    path: PathBuf,
    /// The submodule does not have this path, so it may be ignored.
    is_new: bool,
}

/// Compares folders of a workspace with the same folders of a layer.
struct EditWalk<'a> {
    files: &'a Path,
    dir: &'a Path,
    edits: Vec<ContentEdit>,
}

impl EditWalk<'_> {
    fn folders(&mut self, top: PathBuf, view: SurveyScope) {
        let mut waiting = vec![(top, view, FolderDepth::default())];
        while let Some((path, view, depth)) = waiting.pop() {
            if self.edits.len() >= REPORTED_MAX {
                return;
            }
            let hides_below = view == SurveyScope::Upper && is_opaque(&self.dir.join(&path));
            let view = if hides_below { SurveyScope::Whole } else { view };
            let Ok(names) = names_in(&self.dir.join(&path)) else {
                self.edit(path, false);
                continue;
            };
            for name in &names {
                let path = path.join(name);
                match (self.name(&path), depth.child()) {
                    (Step::Into, Ok(depth)) => waiting.push((path, view, depth)),
                    (Step::Into, Err(_)) => self.edit(path, false),
                    (Step::Done, _) => {}
                }
            }
            if view == SurveyScope::Whole {
                self.missing(&path, &names);
            }
        }
    }

    fn name(&mut self, path: &Path) -> Step {
        let (ours, theirs) = (self.files.join(path), self.dir.join(path));
        let is_new = fs::symlink_metadata(&ours).is_err();
        match fs::symlink_metadata(&theirs) {
            Ok(found) if found.is_dir() && !is_git(path) => return Step::Into,
            // The mark of a deleted path hides nothing if the submodule does not have the path.
            Ok(found) if found.file_type().is_char_device() && found.rdev() == 0 && is_new => {}
            Ok(_) if is_same(&ours, &theirs) => {}
            _ => self.edit(path.to_owned(), is_new && !is_git(path)),
        }
        Step::Done
    }

    /// The paths of a folder of the submodule that the workspace no longer has.
    fn missing(&mut self, path: &Path, present: &[OsString]) {
        let present: HashSet<&OsString> = present.iter().collect();
        let ours = names_in(&self.files.join(path)).unwrap_or_default();
        for name in ours.iter().filter(|name| !present.contains(name)) {
            self.edit(path.join(name), false);
        }
    }

    fn edit(&mut self, path: PathBuf, is_new: bool) {
        self.edits.push(ContentEdit { path, is_new });
    }
}

enum Step {
    Into,
    Done,
}

fn is_git(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new(".git"))
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 8];
    matches!(rustix::fs::getxattr(folder, OPAQUE, &mut value), Ok(len) if value[..len] == *b"y")
}

fn names_in(folder: &Path) -> std::io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// Drops new paths that the submodule's own `.gitignore` excludes. The rules are read from the layer, not from the
/// workspace, where a maker could have changed them.
async fn drop_ignored(
    engine: &EngineRepo,
    files: &Path,
    edits: Vec<ContentEdit>,
) -> Result<Vec<Vec<u8>>, WorkspaceError> {
    let bytes = |edit: ContentEdit| (edit.path.into_os_string().into_vec(), edit.is_new);
    let edits: Vec<(Vec<u8>, bool)> =
        edits.into_iter().map(bytes).filter(|(path, new)| !new || !is_litter(path)).collect();
    let new: Vec<Vec<u8>> =
        edits.iter().filter(|(_, is_new)| *is_new).map(|(path, _)| [b"./", path.as_slice()].concat()).collect();
    if new.is_empty() {
        return Ok(edits.into_iter().map(|(path, _)| path).collect());
    }
    let call = engine.call("git.check-ignore").work_tree(files).in_folder(files).out_max(TREE_MAX);
    let call = call.env("GIT_LITERAL_PATHSPECS", "0").args(["--no-index", "-z", "--stdin"]);
    let answer = engine.git().run(call.stdin(new.join(&0)).allow_exit_one()).await?;
    let ignored: HashSet<&[u8]> = answer.stdout.split(|byte| *byte == 0).filter_map(|path| path.get(2..)).collect();
    let is_kept = |edit: &(Vec<u8>, bool)| !edit.1 || !ignored.contains(edit.0.as_slice());
    Ok(edits.into_iter().filter(is_kept).map(|(path, _)| path).collect())
}

/// Whether two paths are equal files or links, with the same executable bit.
fn is_same(ours: &Path, theirs: &Path) -> bool {
    let stat = |path: &Path| rustix::fs::lstat(path).ok().as_ref().and_then(mode_of);
    match (fs::read_link(ours), fs::read_link(theirs)) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        (Err(_), Err(_)) => stat(ours).is_some() && stat(ours) == stat(theirs) && is_same_bytes(ours, theirs),
        _ => false,
    }
}

/// Compares two plain files, which may be larger than the memory.
fn is_same_bytes(ours: &Path, theirs: &Path) -> bool {
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if !is_file(ours) || !is_file(theirs) {
        return false;
    }
    let (Ok(ours), Ok(theirs)) = (fs::File::open(ours), fs::File::open(theirs)) else { return false };
    if !matches!((ours.metadata(), theirs.metadata()), (Ok(a), Ok(b)) if a.len() == b.len()) {
        return false;
    }
    let (mut ours, mut theirs) = (std::io::BufReader::new(ours), std::io::BufReader::new(theirs));
    let (mut a, mut b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        match ours.read(&mut a) {
            Ok(0) => return true,
            Ok(count) if theirs.read_exact(&mut b[..count]).is_ok() && a[..count] == b[..count] => {}
            _ => return false,
        }
    }
}

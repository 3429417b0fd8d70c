//! A commit as layers: shared folders that together show a checkout of it, and others that show its repository.
//!
//! A base is a whole checkout (an *anchor*) or, if an anchor is similar enough, a delta over it; never a delta over a
//! delta. Files and `.git` are in different folders, so that a view without a repository only omits the second kind.
//! Layers are built under another name and renamed when complete. They are never written to afterwards: overlayfs
//! requires that of lower layers, and it makes them safe to share.

use std::fs;
use std::path::{Path, PathBuf};

use super::base::{BasePool, ReadyBase};
use super::delta::CommitDelta;
use super::external::ExternalLayer;
use super::folder::{half_name, link_files, marked_dir, private_dir, remove_tree};
use super::index::IndexEntry;
use super::{Workspace, WorkspaceError, blocking, index, io, pool, skeleton};
use crate::git::Oid;

/// The file that names a base's layers; written last, so its presence means "complete".
const COMPLETE: &str = "layers";
/// A base with more changed paths than this is an anchor of its own.
const DELTA_MAX: usize = 2_000;
/// A base with more changed paths than a tenth of the anchor's files is also an anchor, unless the number is at most
/// this.
const DELTA_SMALL: usize = 50;
/// Number of anchors that are compared with a new base, the youngest first.
const ANCHORS_MAX: usize = 3;

/// The layers of one commit, each list from the top down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitLayers {
    git: Vec<PathBuf>,
    /// The candidate's changes to its base.
    sealed: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl CommitLayers {
    /// All layers; the extra layers are between the candidate's changes and its base.
    pub(super) fn with_git(&self, extra: &[PathBuf]) -> Vec<PathBuf> {
        self.git.iter().cloned().chain(self.without_git(extra)).collect()
    }

    /// The layers without the repository.
    pub(super) fn without_git(&self, extra: &[PathBuf]) -> Vec<PathBuf> {
        self.sealed.iter().chain(extra).chain(&self.files).cloned().collect()
    }

    /// With external content above the base's files.
    pub(super) fn with_external(mut self, external: Option<&ExternalLayer>) -> Self {
        self.files.splice(0..0, external.map(ExternalLayer::files));
        self
    }

    /// The index with the stats of these layers' files.
    pub(super) fn index(&self) -> Option<PathBuf> {
        self.git.first().map(|git| git.join(".git/index"))
    }

    fn to_text(&self, bases: &Path) -> String {
        let line =
            |word: &str, path: &PathBuf| format!("{word} {}\n", path.strip_prefix(bases).unwrap_or(path).display());
        let git = self.git.iter().map(|path| line("git", path));
        git.chain(self.files.iter().map(|path| line("files", path))).collect()
    }

    /// Parses the output of [`CommitLayers::to_text`]; `None` if a layer no longer exists.
    fn from_text(text: &str, bases: &Path) -> Option<Self> {
        let mut layers = Self::default();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("git", path) => layers.git.push(bases.join(path)),
                ("files", path) => layers.files.push(bases.join(path)),
                _ => return None,
            }
        }
        let is_there = |path: &PathBuf| path.is_dir();
        (!layers.files.is_empty() && layers.git.iter().chain(&layers.files).all(is_there)).then_some(layers)
    }
}

/// The commits whose layers are below those of the base in this folder.
pub(super) fn anchors_of(base: &Path) -> Vec<String> {
    let text = fs::read_to_string(base.join(COMPLETE)).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_once(' ')?.1.split('/').next());
    names.filter(|name| base.file_name().is_none_or(|own| own != *name)).map(str::to_owned).collect()
}

/// An anchor that can be below a new base.
struct Anchor {
    commit: Oid,
    layers: CommitLayers,
}

impl BasePool {
    /// The layers of a base, created unless they exist.
    pub(super) async fn layers(&self, commit: &Oid) -> Result<CommitLayers, WorkspaceError> {
        if let Some(layers) = self.known_layers(commit) {
            pool::mark_used(&self.dir(commit))?;
            return Ok(layers);
        }
        let _one = self.lock().await?;
        if let Some(layers) = self.known_layers(commit) {
            return Ok(layers);
        }
        let ready = self.ready_locked(commit).await?;
        let half = half_name(&ready.dir);
        marked_dir(&half).map_err(io("create", &half))?;
        let layers = self.build_layers(&ready, &half).await?;
        for part in ["files", "git"] {
            let place = ready.dir.join(part);
            remove_tree(&place).map_err(io("remove", &place))?;
            fs::rename(half.join(part), &place).map_err(io("rename", &place))?;
        }
        self.write_rules(&ready, &half).await?;
        let list = half.join(COMPLETE);
        fs::write(&list, layers.to_text(&self.folder)).map_err(io("write", &list))?;
        fs::rename(&list, ready.dir.join(COMPLETE)).map_err(io("rename", &list))?;
        remove_tree(&half).map_err(io("remove", &half))?;
        Ok(layers)
    }

    /// Writes the ignore rules of a base as an index of their own. In an overlay the folder of changed files lacks
    /// them, and git reads missing rule files from the index, for entries that are marked as not checked out.
    async fn write_rules(&self, ready: &ReadyBase, half: &Path) -> Result<(), WorkspaceError> {
        let entries = index::read(&ready.index(), self.oid_len())?;
        let is_rules = |entry: &&IndexEntry| entry.path.split(|byte| *byte == b'/').next_back() == Some(b".gitignore");
        let rules: Vec<&IndexEntry> = entries.iter().filter(is_rules).collect();
        let index = half.join("index-ignore");
        let git = self.engine.git();
        let update = || self.engine.call("git.update-index").unflushed().index(&index).work_tree(half).in_folder(half);
        git.run(self.engine.call("git.read-tree").unflushed().index(&index).arg("--empty")).await?;
        if !rules.is_empty() {
            let lines = rules.iter().flat_map(|entry| {
                let head = format!("{:o} {}\t", entry.mode, entry.oid(self.oid_len()));
                [head.as_bytes(), entry.path.as_slice(), b"\0"].concat()
            });
            git.run(update().args(["-z", "--index-info"]).stdin(lines.collect::<Vec<u8>>())).await?;
            let paths: Vec<&[u8]> = rules.iter().map(|entry| entry.path.as_slice()).collect();
            git.run(update().args(["--skip-worktree", "-z", "--stdin"]).stdin(paths.join(&0))).await?;
        }
        fs::rename(&index, ready.ignore_index()).map_err(io("rename", &index))
    }

    fn known_layers(&self, commit: &Oid) -> Option<CommitLayers> {
        let text = fs::read_to_string(self.dir(commit).join(COMPLETE)).ok()?;
        CommitLayers::from_text(&text, &self.folder)
    }

    /// Builds `files` and `git` in a folder of the temporary name, and returns the layers that the base will have.
    async fn build_layers(&self, ready: &ReadyBase, half: &Path) -> Result<CommitLayers, WorkspaceError> {
        let (files, git) = (half.join("files"), half.join("git"));
        let git_dir = git.join(".git");
        fs::create_dir(&files).and_then(|()| private_dir(&git_dir)).map_err(io("create", half))?;
        let index = git_dir.join("index");
        let (own_files, own_git) = (ready.dir.join("files"), ready.dir.join("git"));
        let Some((anchor, delta)) = self.anchor_for(ready).await? else {
            fs::copy(ready.index(), &index).map_err(io("copy", &index))?;
            self.engine.checkout_index(&index, &files).await?;
            self.write_whole_git(ready, &git_dir).await?;
            return Ok(CommitLayers { git: vec![own_git], sealed: Vec::new(), files: vec![own_files] });
        };
        let theirs = anchor.layers.index().unwrap_or_default();
        fs::copy(&theirs, &index).map_err(io("copy", &theirs))?;
        delta.write(self, &ready.commit, &index, &files).await?;
        let mut layers = CommitLayers { git: vec![own_git], sealed: Vec::new(), files: vec![own_files] };
        layers.files.extend(anchor.layers.files);
        // A base may show an anchor's history only if the anchor is its ancestor.
        if self.engine.is_ancestor(&anchor.commit, &ready.commit).await? {
            self.write_git_over(ready, &anchor.commit, &git_dir).await?;
            layers.git.extend(anchor.layers.git);
        } else {
            self.write_whole_git(ready, &git_dir).await?;
        }
        Ok(layers)
    }

    async fn write_whole_git(&self, ready: &ReadyBase, git_dir: &Path) -> Result<(), WorkspaceError> {
        self.full_pack(ready).await?;
        let packs = skeleton::write_body(git_dir, self.repo.format, &ready.shallow()).map_err(io("create", git_dir))?;
        skeleton::write_head(git_dir, "base", &ready.commit).map_err(io("create", git_dir))?;
        link_files(&ready.packs(), &packs).map_err(io("link", &packs))
    }

    async fn write_git_over(&self, ready: &ReadyBase, anchor: &Oid, git_dir: &Path) -> Result<(), WorkspaceError> {
        let packs = git_dir.join("objects/pack");
        private_dir(&packs).map_err(io("create", &packs))?;
        skeleton::copy_shallow(git_dir, &ready.shallow()).map_err(io("copy", git_dir))?;
        skeleton::write_head(git_dir, "base", &ready.commit).map_err(io("create", git_dir))?;
        self.engine.pack_into(&packs, &format!("{}\n^{anchor}\n", ready.commit)).await?;
        Ok(())
    }

    /// The anchor that is similar enough to a base, with the differences.
    async fn anchor_for(&self, ready: &ReadyBase) -> Result<Option<(Anchor, CommitDelta)>, WorkspaceError> {
        for anchor in self.anchors() {
            let files = index::read(&anchor.layers.index().unwrap_or_default(), self.oid_len())?.len();
            let delta = CommitDelta::between(&self.engine, &anchor.commit, &ready.commit).await?;
            let is_near = delta.len() <= DELTA_MAX && (delta.len() <= DELTA_SMALL || delta.len() * 10 <= files);
            if is_near && delta.keeps_the_rest() {
                return Ok(Some((anchor, delta)));
            }
        }
        Ok(None)
    }

    /// The anchors of this repository, the youngest first.
    fn anchors(&self) -> Vec<Anchor> {
        let listed = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut anchors: Vec<_> = listed
            .filter_map(|entry| {
                let commit: Oid = entry.file_name().to_str()?.parse().ok()?;
                let layers = self.known_layers(&commit).filter(|layers| layers.files.len() == 1)?;
                let made = fs::metadata(entry.path().join(COMPLETE)).and_then(|about| about.modified()).ok()?;
                Some((made, Anchor { commit, layers }))
            })
            .collect();
        anchors.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
        anchors.into_iter().map(|(_, anchor)| anchor).take(ANCHORS_MAX).collect()
    }

    /// The layers of a commit that was sealed in a workspace, or of its base.
    pub(super) async fn layers_of(&self, workspace: &Workspace, commit: &Oid) -> Result<CommitLayers, WorkspaceError> {
        let external = ExternalLayer::of(&workspace.root);
        let base = self.layers(&workspace.base).await?.with_external(external.as_ref());
        if *commit == workspace.base {
            return Ok(base);
        }
        let place = workspace.root.join(format!("sealed-{commit}"));
        if !place.is_dir() {
            let half = half_name(&place);
            self.build_sealed(workspace, commit, &base, &half).await?;
            fs::rename(&half, &place).map_err(io("rename", &half))?;
        }
        let git = std::iter::once(place.join("git")).chain(base.git).collect();
        let files = if place.join("whole").is_file() { Vec::new() } else { base.files };
        Ok(CommitLayers { git, sealed: vec![place.join("files")], files })
    }

    /// Copies the external content of a workspace's base into a whole checkout of a commit.
    pub(super) async fn fill_external(
        &self,
        workspace: &Workspace,
        index: &Path,
        files: &Path,
    ) -> Result<(), WorkspaceError> {
        let Some(external) = ExternalLayer::of(&workspace.root) else { return Ok(()) };
        let (entries, files) = (index::read(index, self.oid_len())?, files.to_owned());
        blocking(move || external.fill(&files, &entries).map_err(io("fill", &files))).await
    }

    async fn build_sealed(
        &self,
        workspace: &Workspace,
        commit: &Oid,
        base: &CommitLayers,
        half: &Path,
    ) -> Result<(), WorkspaceError> {
        let (files, git_dir) = (half.join("files"), half.join("git/.git"));
        let packs = git_dir.join("objects/pack");
        private_dir(&packs).and_then(|()| fs::create_dir(&files)).map_err(io("create", half))?;
        let index = git_dir.join("index");
        let delta = CommitDelta::between(&self.engine, &workspace.base, commit).await?;
        if delta.keeps_the_rest() {
            let theirs = base.index().unwrap_or_default();
            fs::copy(&theirs, &index).map_err(io("copy", &theirs))?;
            delta.write(self, commit, &index, &files).await?;
        } else {
            self.engine.read_tree(commit, &index).await?;
            self.engine.checkout_index(&index, &files).await?;
            self.fill_external(workspace, &index, &files).await?;
            fs::write(half.join("whole"), b"").map_err(io("write", half))?;
        }
        self.engine.pack_into(&packs, &format!("{commit}\n^{}\n", workspace.base)).await?;
        Ok(())
    }
}

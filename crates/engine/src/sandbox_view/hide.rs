//! Hides names of the workspace from one program: an empty read-only file or folder is mounted over each that exists. A
//! name that does not exist is skipped, because creating a mount point would change the workspace.

use super::inside;
use crate::proc::{Confinement, MountSource, SandboxMount};
use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

/// The most links that are followed from one name.
const LINKS_MAX: usize = 8;

/// The mounts that hide these names in the workspace of a view. `empty` is an empty folder of the host.
///
/// # Errors
/// When a name leads out of the workspace: a mount inside the workspace cannot hide it.
pub(super) fn mounts(
    confine: &Confinement,
    names: &[impl AsRef<Path>],
    empty: &Path,
) -> Result<Vec<SandboxMount>, String> {
    let layers = layers(confine);
    let mut found: Vec<SandboxMount> = Vec::new();
    for name in names {
        let Some((path, kind)) = resolve(&layers, name.as_ref())? else { continue };
        let what = if kind.is_dir() { MountSource::ReadOnly(empty.to_owned()) } else { MountSource::File(Vec::new()) };
        let mount = SandboxMount { at: Path::new(inside::WORKSPACE).join(path), what };
        if !found.contains(&mount) {
            found.push(mount);
        }
    }
    Ok(found)
}

/// The names that exist at the top of a folder.
pub(super) fn existing<'n>(folder: &Path, names: &[&'n str]) -> Vec<&'n str> {
    names.iter().copied().filter(|name| fs::symlink_metadata(folder.join(name)).is_ok()).collect()
}

/// The layers of a view's workspace, topmost first.
pub(super) fn layers(confine: &Confinement) -> Vec<&Path> {
    let workspace = confine.mounts.iter().find(|mount| mount.at == Path::new(inside::WORKSPACE));
    match workspace.map(|mount| &mount.what) {
        Some(MountSource::ReadOnly(path) | MountSource::Writable(path)) => vec![path],
        Some(MountSource::Layers(lower)) => lower.iter().map(PathBuf::as_path).collect(),
        Some(MountSource::Overlay { lower, upper, .. }) => {
            [upper].into_iter().chain(lower).map(PathBuf::as_path).collect()
        }
        Some(MountSource::Memory(_) | MountSource::File(_) | MountSource::Pinned) | None => Vec::new(),
    }
}

/// The path inside that a name resolves to, links followed: the kernel cannot mount over a link.
fn resolve(layers: &[&Path], name: &Path) -> Result<Option<(PathBuf, FileType)>, String> {
    let mut path = name.to_owned();
    for _ in 0..LINKS_MAX {
        let Some((kind, host)) = topmost_entry(layers, &path) else { return Ok(None) };
        if !kind.is_symlink() {
            return if path == name || may_go_along(name, &path) {
                Ok(Some((path, kind)))
            } else {
                let (name, path) = (name.display(), path.display());
                Err(format!("`{name}` is a link to `{path}`, which would be hidden with it"))
            };
        }
        let target = fs::read_link(&host).map_err(|error| format!("`{}`: {error}", name.display()))?;
        path = within(path.parent().unwrap_or(Path::new("")), &target)
            .ok_or_else(|| format!("`{}` is a link that leads out of the repository", name.display()))?;
    }
    Err(format!("`{}` is a chain of too many links", name.display()))
}

/// Whether a link's target may be hidden with it: a Markdown file, or something of the same name. Hiding any other
/// target would hide files that the agent works on or judges.
fn may_go_along(name: &Path, target: &Path) -> bool {
    target.file_name() == name.file_name() || target.extension().is_some_and(|extension| extension == "md")
}

/// The topmost layer that has the path decides; a character device there marks a deletion.
fn topmost_entry(layers: &[&Path], path: &Path) -> Option<(FileType, PathBuf)> {
    let found = layers.iter().map(|layer| layer.join(path));
    let (kind, host) =
        found.into_iter().find_map(|host| Some((fs::symlink_metadata(&host).ok()?.file_type(), host)))?;
    (!kind.is_char_device()).then_some((kind, host))
}

/// A link's target as a path from the top of the workspace.
fn within(folder: &Path, target: &Path) -> Option<PathBuf> {
    let target = target.strip_prefix(inside::WORKSPACE).map_or_else(|_| folder.join(target), Path::to_owned);
    let mut path = PathBuf::new();
    for part in target.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => (),
            Component::ParentDir if path.pop() => (),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a temporary folder"))
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn file(&self, name: &str) {
            let path = self.at(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }

        /// The mounts over the workspace, as `path: folder` or `path: file`.
        fn hidden(&self, what: MountSource, names: &[&str]) -> Result<Vec<String>, String> {
            let mut confine = Confinement::default();
            confine.mount(inside::WORKSPACE, what);
            let found = mounts(&confine, names, Path::new("/empty"))?;
            let describe = |mount: SandboxMount| {
                let kind = if matches!(mount.what, MountSource::File(_)) { "file" } else { "folder" };
                format!("{}: {kind}", mount.at.display())
            };
            Ok(found.into_iter().map(describe).collect())
        }
    }

    #[test]
    fn existing_names_are_hidden_by_their_kind_and_no_other_file_is_made() {
        let world = World::new();
        world.file("work/.opencode/plugin/evil.js");
        world.file("work/GEMINI.md");
        let names = [".opencode", "GEMINI.md", "CLAUDE.md"];
        let hidden = world.hidden(MountSource::Writable(world.at("work")), &names).expect("it can be hidden");
        assert_eq!(hidden, ["/workspace/.opencode: folder", "/workspace/GEMINI.md: file"]);
    }

    #[test]
    fn every_layer_is_read_and_the_topmost_decides() {
        let world = World::new();
        world.file("lower/A.md");
        world.file("lower/B.md");
        world.file("upper/A.md/inner");
        let what =
            MountSource::Overlay { lower: vec![world.at("lower")], upper: world.at("upper"), work: world.at("w") };
        let hidden = world.hidden(what, &["A.md", "B.md"]).expect("it can be hidden");
        assert_eq!(hidden, ["/workspace/A.md: folder", "/workspace/B.md: file"]);
        let hidden = world.hidden(MountSource::Layers(vec![world.at("upper"), world.at("lower")]), &["B.md"]);
        assert_eq!(hidden.expect("it can be hidden"), ["/workspace/B.md: file"]);
    }

    #[test]
    fn link_is_hidden_at_its_target_and_refused_if_it_leads_out() {
        let world = World::new();
        world.file("work/docs/AGENTS.md");
        symlink("docs/../docs/AGENTS.md", world.at("work/GEMINI.md")).expect("a link");
        symlink("GEMINI.md", world.at("work/CLAUDE.md")).expect("a link");
        symlink("nowhere", world.at("work/dangling")).expect("a link");
        let what = || MountSource::ReadOnly(world.at("work"));
        let hidden = world.hidden(what(), &["GEMINI.md", "CLAUDE.md", "dangling"]).expect("it can be hidden");
        assert_eq!(hidden, ["/workspace/docs/AGENTS.md: file"]);
        for (name, target) in [("up", "../elsewhere"), ("root", "/etc/passwd"), ("self", "self")] {
            symlink(target, world.at("work").join(name)).expect("a link");
            assert!(world.hidden(what(), &[name]).is_err(), "{name}");
        }
    }

    #[test]
    fn link_hides_no_code_from_the_checker() {
        let world = World::new();
        world.file("work/src/main.rs");
        world.file("work/config/.gemini/settings.json");
        symlink("../src/main.rs", world.at("work/config/GEMINI.md")).expect("a link");
        symlink("src", world.at("work/.opencode")).expect("a link");
        symlink("config/.gemini", world.at("work/.gemini")).expect("a link");
        let hidden = |name| world.hidden(MountSource::ReadOnly(world.at("work")), &[name]);
        let why = hidden("config/GEMINI.md").expect_err("it would hide a program");
        assert_eq!(why, "`config/GEMINI.md` is a link to `src/main.rs`, which would be hidden with it");
        assert!(hidden(".opencode").is_err(), "it would hide a folder");
        assert_eq!(hidden(".gemini").expect("it can be hidden"), ["/workspace/config/.gemini: folder"]);
    }
}

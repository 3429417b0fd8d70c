//! The layout of toolchains on disk: which folders belong to a folder of programs, and which variables name its home.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folders beside `bin` in an installation. `etc` is not among them: settings hold tokens.
const SUBFOLDERS: [&str; 8] = ["bin", "lib", "lib32", "lib64", "libexec", "include", "share", "standard"];

/// Entries beside `bin` that identify a self-contained installation: a JDK, Go, conda, a virtual environment, Homebrew,
/// GHCup. The whole installation is shown, and agents can read it, so these are names that no project of the user has
/// by chance.
const WHOLE_BY: [&str; 7] = ["lib/modules", "pkg/tool", "conda-meta", "pyvenv.cfg", "Cellar", "ghc", "libexec/pyenv"];

/// Homes of version managers by their folder's name, with the variable that names the home.
const HOMES: [(&str, &str); 10] = [
    (".rustup", "RUSTUP_HOME"),
    (".pyenv", "PYENV_ROOT"),
    (".rbenv", "RBENV_ROOT"),
    (".nodenv", "NODENV_ROOT"),
    (".goenv", "GOENV_ROOT"),
    (".asdf", "ASDF_DATA_DIR"),
    ("mise", "MISE_DATA_DIR"),
    (".volta", "VOLTA_HOME"),
    (".jenv", "JENV_ROOT"),
    (".sdkman", "SDKMAN_DIR"),
];

/// The most programs of one folder that are followed.
const ENTRIES_MAX: usize = 5000;

/// The folders that belong to a folder of programs, besides itself.
pub(super) fn companion_folders(dir: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(prefix) = dir.parent() else { return Vec::new() };
    let name = dir.file_name().unwrap_or_default();
    let below = |names: &[&str]| names.iter().map(|name| prefix.join(name)).filter(|path| path.exists()).collect();
    // The home folder and its `.local` are shared by all programs of the user.
    if home.is_some_and(|home| prefix == home) || prefix.components().count() < 3 {
        return Vec::new();
    }
    match prefix.file_name().and_then(OsStr::to_str) {
        Some(".local") => below(&["lib"]),
        // Its programs are proxies for toolchains in another home.
        Some(".cargo") => below(&["../.rustup"]).into_iter().map(|path: PathBuf| super::follow_links(&path)).collect(),
        Some(".volta") => below(&["tools"]),
        // The installed programs share the folder with sources that the user works on.
        Some("go" | ".deno" | ".bun") if !prefix.join("VERSION").exists() => Vec::new(),
        _ if known(prefix).is_some() => vec![prefix.to_owned()],
        // A working copy: only its programs are shown.
        _ if prefix.join(".git").exists() => Vec::new(),
        _ if WHOLE_BY.iter().any(|mark| prefix.join(mark).exists()) => vec![prefix.to_owned()],
        _ if matches!(name.to_str(), Some("bin" | "sbin")) => below(&SUBFOLDERS),
        _ => Vec::new(),
    }
}

/// The variables that name the homes around a folder of programs.
pub(super) fn variables(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let mut found: Vec<_> = dir.ancestors().skip(1).filter_map(|home| Some((known(home)?, home.to_owned()))).collect();
    let rustup = dir.join("../../.rustup");
    if dir.ends_with(".cargo/bin") && rustup.is_dir() {
        found.push(("RUSTUP_HOME", super::follow_links(&rustup)));
    }
    // The current JDK of a version manager.
    if dir.ends_with("java/current/bin") {
        found.extend(dir.parent().map(|home| ("JAVA_HOME", home.to_owned())));
    }
    found
}

fn known(home: &Path) -> Option<&'static str> {
    let name = home.file_name()?.to_str()?;
    HOMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable)
}

/// The targets of the links in a folder, as real paths.
pub(super) fn link_targets(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let mut targets: Vec<_> = links.filter_map(|link| link.path().canonicalize().ok()).collect();
    targets.sort();
    targets.dedup();
    targets
}

/// The part of an installation that a program needs.
pub(super) enum ProgramLocation {
    /// A folder of programs with its installation.
    Programs(PathBuf),
    /// A folder.
    Folder(PathBuf),
    /// The file alone.
    File,
}

pub(super) fn program_location(program: &Path) -> ProgramLocation {
    let named =
        |dir: &&Path, names: &[&str]| dir.file_name().is_some_and(|name| names.iter().any(|known| name == *known));
    if let Some(dir) = program.ancestors().skip(1).find(|dir| named(dir, &["node_modules"])) {
        return ProgramLocation::Folder(dir.to_owned());
    }
    match program.parent() {
        Some(dir) if named(&dir, &["bin", "sbin", "shims"]) => ProgramLocation::Programs(dir.to_owned()),
        _ => ProgramLocation::File,
    }
}

//! Toolchains: which host paths the programs in the folders of the user's PATH, and in homes that a loop names, need
//! inside the sandbox. This module finds them; the sandbox view mounts them.
//!
//! It never shows a whole home folder or a folder with credentials: it shows a toolchain's own sub-folders, not their
//! parents. A folder of the PATH that cannot be shown is left out with a reason; a home that a loop names and that
//! cannot be shown is an error.

mod credentials;
mod prefix;

pub use credentials::credential_in;

use crate::path_roots::{PathRoots, follow_links};
use crate::sandbox_view::{HiddenPaths, is_system};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The most folders that are shown.
const SHOWN_MAX: usize = 200;

/// The programs of a loop besides the system's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Folders in which programs are searched, in the order of the PATH.
    pub path: Vec<PathBuf>,
    /// The same folders including those that cannot be shown, for programs that see the host directly.
    pub everything: Vec<PathBuf>,
    /// Variables by which programs find their own files, since HOME differs inside.
    pub env: BTreeMap<OsString, OsString>,
    /// Host paths that are shown, read-only.
    pub shown: Vec<ShownPath>,
    /// Requested folders that are not shown, each with its reason.
    pub left_out: Vec<String>,
}

/// One file or folder of the host that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath {
    /// The path inside.
    pub at: PathBuf,
    /// The host path, links resolved.
    pub host: PathBuf,
}

/// A home in `toolchains` that cannot be shown: exit 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("toolchain `{path}` {why}")]
pub struct ToolchainError {
    /// The path as written.
    pub path: String,
    /// The reason.
    pub why: String,
    /// The suggested fix.
    pub hint: &'static str,
}

/// Finds what the programs in `path_dirs` and the homes in `declared` need.
///
/// # Errors
/// Every declared home that is missing, holds credentials, or would show what must not be seen.
pub fn detect(
    ground: &PathRoots,
    path_dirs: &[PathBuf],
    declared: &[String],
    keep_out: &HiddenPaths,
) -> Result<Toolchains, Vec<ToolchainError>> {
    let mut search = Search { ground, keep_out, found: Toolchains::default() };
    path_dirs.iter().for_each(|dir| search.path_dir(dir));
    search.found.everything = path_dirs.to_vec();
    let errors: Vec<_> = declared.iter().filter_map(|home| search.declared(home).err()).collect();
    if errors.is_empty() { Ok(search.found) } else { Err(errors) }
}

struct Search<'a> {
    ground: &'a PathRoots,
    keep_out: &'a HiddenPaths,
    found: Toolchains,
}

impl Search<'_> {
    fn path_dir(&mut self, dir: &Path) {
        if self.found.path.iter().any(|known| known == dir) {
            return;
        }
        if is_system(dir) {
            return self.found.path.push(dir.to_owned());
        }
        match self.objection(dir) {
            Some(why) => self.found.left_out.push(format!("`{}` is not shown to programs: {why}", dir.display())),
            None => {
                self.found.path.push(dir.to_owned());
                self.programs(dir);
            }
        }
    }

    /// Shows a folder of programs, its companion folders, and the targets of its links.
    fn programs(&mut self, dir: &Path) {
        if self.is_shown(dir) {
            return self.links(dir);
        }
        self.show(dir);
        for name in [dir.to_owned(), follow_links(dir)] {
            for beside in prefix::companion_folders(&name, self.ground.home.as_deref()) {
                self.show(&beside);
            }
            self.variables(&name);
        }
        self.links(dir);
    }

    fn variables(&mut self, dir: &Path) {
        for (name, home) in prefix::variables(dir) {
            self.found.env.entry(name.into()).or_insert_with(|| home.into_os_string());
        }
    }

    /// Follows the links in a folder of programs to the real programs.
    fn links(&mut self, dir: &Path) {
        for target in prefix::link_targets(dir) {
            if self.found.shown.len() > SHOWN_MAX || is_system(&target) || self.is_shown(&target) {
                continue;
            }
            match prefix::program_location(&target) {
                // Each call shows something new, so this ends.
                prefix::ProgramLocation::Programs(dir) if self.objection(&dir).is_none() => self.programs(&dir),
                prefix::ProgramLocation::Folder(dir) if self.objection(&dir).is_none() => self.show(&dir),
                _ => self.show(&target),
            }
        }
    }

    fn is_shown(&self, path: &Path) -> bool {
        self.found.shown.iter().any(|shown| path.strip_prefix(&shown.at).is_ok_and(|rest| is_at(shown, rest, path)))
    }

    /// Shows a path under its own name and, if it is a link, under its real path too.
    fn show(&mut self, path: &Path) {
        let host = follow_links(path);
        if self.refuses(&host) || self.found.shown.len() > SHOWN_MAX {
            return;
        }
        for at in [path.to_owned(), host.clone()] {
            if !is_system(&at) && !self.is_shown(&at) {
                self.found.shown.retain(|shown| !shown.host.starts_with(&host) || !shown.at.starts_with(&at));
                self.found.shown.push(ShownPath { at, host: host.clone() });
            }
        }
    }

    fn refuses(&self, host: &Path) -> bool {
        !host.exists() || self.keep_out.denial_reason(host).is_some() || credential_in(host, 2).is_some()
    }

    fn objection(&self, dir: &Path) -> Option<String> {
        if !dir.is_dir() {
            return Some("it is not a folder".to_owned());
        }
        let found = self.keep_out.denial_reason(dir);
        found.or_else(|| Some(format!("it holds credentials: `{}`", credential_in(dir, 1)?.display())))
    }

    fn declared(&mut self, text: &str) -> Result<(), ToolchainError> {
        let error = |why: String, hint| ToolchainError { path: text.to_owned(), why, hint };
        let home = self.ground.resolve(text);
        if !home.is_dir() {
            let hint = "relative paths start at the root of the repository, `~` is your home";
            return Err(error("is not a folder on this machine".to_owned(), hint));
        }
        if let Some(why) = self.keep_out.denial_reason(&home) {
            return Err(error(format!("cannot be shown: {why}"), "name the toolchain's own folder"));
        }
        if let Some(file) = credential_in(&home, 3) {
            let why = format!("holds credentials: `{}`", file.display());
            return Err(error(why, "name the folders of the toolchain that hold programs and libraries only"));
        }
        self.show(&home);
        for dir in ["bin", "shims"].map(|name| home.join(name)) {
            if dir.is_dir() {
                self.found.path.push(dir.clone());
                self.found.everything.push(dir.clone());
                self.variables(&dir);
                self.links(&dir);
            }
        }
        self.variables(&home.join("toolchains"));
        Ok(())
    }
}

/// Whether a shown path makes this path visible at its own place.
fn is_at(shown: &ShownPath, rest: &Path, path: &Path) -> bool {
    let host = if rest.as_os_str().is_empty() { shown.host.clone() } else { shown.host.join(rest) };
    follow_links(&host) == follow_links(path)
}

#[cfg(test)]
mod tests;

//! Package-manager caches that loops share: found on this machine or named by a loop, and never written to. This module
//! finds them and decides how programs see them; the sandbox view mounts them.
//!
//! A cache below the user's home appears at the same path in the loop's own HOME, with a private layer on top: programs
//! can write to it, and no write reaches the shared cache. A cache elsewhere is mounted read-only at its own path.

use crate::path_roots::PathRoots;
use crate::sandbox_view::{HiddenPaths, inside};
use crate::toolchains::credential_in;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One shared cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageCache {
    /// The path at which programs see it.
    pub at: PathBuf,
    /// Its layers, the top one first; the last is the host's folder.
    pub layers: Vec<PathBuf>,
    /// The access that programs have.
    pub access: CacheAccess,
}

/// The access of programs to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheAccess {
    /// Writable, in a private layer.
    Private,
    /// Read-only.
    ReadOnly,
}

/// A path in `caches` that cannot be shared: exit 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cache `{path}` {why}")]
pub struct CacheError {
    /// The path as written.
    pub path: String,
    /// The reason.
    pub why: String,
    /// The suggested fix.
    pub hint: &'static str,
}

/// Package stores by the manifest that uses them. Each holds packages only; tokens and settings are stored beside it.
const STORES: [(&str, &[&str]); 9] = [
    ("Cargo.toml", &[".cargo/registry", ".cargo/git"]),
    (
        "package.json",
        &[".npm/_cacache", ".local/share/pnpm/store", ".cache/yarn", ".yarn/berry/cache", ".bun/install/cache"],
    ),
    ("pyproject.toml", &[".cache/pip", ".cache/uv", ".cache/pypoetry", ".cache/pdm"]),
    ("requirements.txt", &[".cache/pip", ".cache/uv"]),
    ("setup.py", &[".cache/pip", ".cache/uv"]),
    ("go.mod", &["go/pkg/mod"]),
    ("pom.xml", &[".m2/repository"]),
    ("build.gradle", &[".gradle/caches", ".gradle/wrapper"]),
    ("build.gradle.kts", &[".gradle/caches", ".gradle/wrapper"]),
];

/// The caches of a loop: those it names, or else the package stores of this machine that base has a manifest for.
///
/// # Errors
/// Every named cache that holds credentials or that must stay hidden. A named cache that does not exist is left out: no
/// loop depends on a cache.
pub fn find(
    ground: &PathRoots,
    declared: &[String],
    base: &BTreeSet<String>,
    keep_out: &HiddenPaths,
) -> Result<Vec<PackageCache>, Vec<CacheError>> {
    if declared.is_empty() {
        let places = detected(ground, base).into_iter().filter(|place| objection(place, keep_out).is_none());
        return Ok(places.map(|place| cache(ground, &place)).collect());
    }
    let (mut caches, mut errors) = (Vec::new(), Vec::new());
    for text in declared {
        let Ok(place) = ground.resolve_real(text) else { continue };
        match objection(&place, keep_out) {
            None => caches.push(cache(ground, &place)),
            Some((why, hint)) => errors.push(CacheError { path: text.clone(), why, hint }),
        }
    }
    if errors.is_empty() { Ok(caches) } else { Err(errors) }
}

fn detected(ground: &PathRoots, base: &BTreeSet<String>) -> BTreeSet<PathBuf> {
    let Some(home) = &ground.home else { return BTreeSet::new() };
    let has = |manifest: &str| base.iter().any(|path| path.rsplit('/').next() == Some(manifest));
    let wanted = STORES.iter().filter(|(manifest, _)| has(manifest)).flat_map(|(_, stores)| stores.iter());
    wanted.filter_map(|store| home.join(store).canonicalize().ok()).filter(|place| place.is_dir()).collect()
}

fn objection(place: &Path, keep_out: &HiddenPaths) -> Option<(String, &'static str)> {
    if !place.is_dir() {
        return Some(("is not a folder".to_owned(), "name the folder that holds the packages"));
    }
    if let Some(why) = keep_out.denial_reason(place) {
        return Some((format!("cannot be shared: {why}"), "name the folder that holds the packages"));
    }
    let file = credential_in(place, 1)?;
    Some((format!("holds credentials: `{}`", file.display()), "name the folder that holds packages only"))
}

fn cache(ground: &PathRoots, place: &Path) -> PackageCache {
    let layers = vec![place.to_owned()];
    match ground.below_home(place) {
        Some(rest) => PackageCache { at: Path::new(inside::HOME).join(rest), layers, access: CacheAccess::Private },
        None => PackageCache { at: place.to_owned(), layers, access: CacheAccess::ReadOnly },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn world(folders: &[&str]) -> (tempfile::TempDir, PathRoots, HiddenPaths) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().canonicalize().expect("it exists").join("u/me");
        folders.iter().for_each(|name| fs::create_dir_all(home.join(name)).expect("a folder can be made"));
        let ground = PathRoots { repo: home.join("project"), home: Some(home.clone()) };
        let keep_out = HiddenPaths { whole: vec![home.join("project")], around: vec![home] };
        (folder, ground, keep_out)
    }

    fn base(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn stores_are_shared_only_with_a_repository_that_has_their_manifest() {
        let (_folder, ground, keep_out) = world(&[".cargo/registry", ".npm/_cacache", ".cache/pip"]);
        let at = |paths: &[&str]| {
            let found = find(&ground, &[], &base(paths), &keep_out).expect("nothing was named");
            found.iter().map(|cache| cache.at.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(at(&["README.md"]), "");
        assert_eq!(at(&["crates/a/Cargo.toml"]), "/home/loop/.cargo/registry");
        assert_eq!(at(&["package.json", "py/pyproject.toml"]), "/home/loop/.cache/pip /home/loop/.npm/_cacache");
    }

    #[test]
    fn named_caches_replace_the_found_ones_and_are_checked() {
        let (folder, ground, keep_out) = world(&[".cargo/registry", "store", "leaky"]);
        let other = folder.path().canonicalize().expect("it exists").join("elsewhere");
        fs::create_dir(&other).expect("a folder can be made");
        fs::write(ground.resolve("~/leaky/.npmrc"), "").expect("a file can be written");
        let named = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            find(&ground, &names, &base(&["Cargo.toml"]), &keep_out)
        };
        let found = named(&["~/store", "~/not-there", &other.to_string_lossy()]).expect("both can be shared");
        assert_eq!(found[0].at, Path::new("/home/loop/store"));
        assert_eq!((found[0].access, found[1].access), (CacheAccess::Private, CacheAccess::ReadOnly));
        assert_eq!((&found[1].at, found.len()), (&other, 2));
        let errors = named(&["~", "~/leaky"]).expect_err("neither can");
        assert!(errors[0].to_string().contains("cannot be shared"), "{errors:?}");
        assert!(errors[1].to_string().contains("holds credentials"), "{errors:?}");
    }
}

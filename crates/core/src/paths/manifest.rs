//! Honest changes edit manifests all the time. Only the parts of a manifest that run code, or that choose what the
//! tests run, are sensitive. The harmless keys are listed; any other key may redirect a build in an unknown way.

use serde_json::Value;

/// Keys of `package.json` that do not run code or resolve a name to a file.
const PACKAGE_JSON: &str = "name version description keywords author contributors maintainers license repository \
    homepage bugs funding private engines files publishConfig browserslist eslintConfig prettier dependencies \
    devDependencies peerDependencies optionalDependencies";

/// Paths into `Cargo.toml`.
const CARGO_TOML: &str = "package.version package.description package.authors package.keywords package.categories \
    package.readme package.documentation package.repository package.homepage package.license package.license-file \
    package.publish package.rust-version package.exclude package.include dependencies dev-dependencies \
    workspace.dependencies lints";

/// Paths into `pyproject.toml`.
const PYPROJECT_TOML: &str = "project.name project.version project.description project.readme project.authors \
    project.maintainers project.keywords project.classifiers project.urls project.license project.license-files \
    project.requires-python project.dependencies project.optional-dependencies dependency-groups tool.black \
    tool.ruff tool.mypy tool.isort tool.pyright tool.pylint tool.flake8 tool.bandit tool.poetry.name \
    tool.poetry.version tool.poetry.description tool.poetry.authors tool.poetry.dependencies \
    tool.poetry.dev-dependencies tool.poetry.group";

/// `composer.json` runs what is under `scripts` and loads what `autoload` names.
const COMPOSER_JSON: &str = "name version description keywords authors license homepage support require require-dev";

/// `deno.json` runs tasks and resolves names to files.
const DENO_JSON: &str = "name version license fmt lint";

type Reader = fn(&[u8]) -> Option<Value>;

/// The reason, if more than the harmless parts of a manifest differ between base and the sealed tree.
pub(super) fn changed_scripts(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let (read, harmless): (Reader, &str) = match name.as_str() {
        "package.json" => (json, PACKAGE_JSON),
        "composer.json" => (json, COMPOSER_JSON),
        "deno.json" => (json, DENO_JSON),
        "cargo.toml" => (toml, CARGO_TOML),
        "pyproject.toml" => (toml, PYPROJECT_TOML),
        _ => return None,
    };
    // A deleted manifest loses its scripts; an unreadable one cannot be trusted.
    let version = |bytes: Option<&[u8]>| bytes.map_or(Some(Value::Null), read);
    let (Some(mut before), Some(mut after)) = (version(before), version(after)) else {
        return Some("a manifest that cannot be read");
    };
    if local(&after).any(|found| !local(&before).any(|known| known == found)) {
        return Some("a manifest's dependency on a file or an address");
    }
    for value in [&mut before, &mut after] {
        harmless.split_whitespace().for_each(|key| remove(value, key));
    }
    (solid(&before) != solid(&after)).then_some("a manifest's scripts or test settings")
}

fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

fn toml(bytes: &[u8]) -> Option<Value> {
    let table: ::toml::Table = ::toml::from_str(std::str::from_utf8(bytes).ok()?).ok()?;
    serde_json::to_value(table).ok()
}

/// Removes the value at a dotted path.
fn remove(value: &mut Value, path: &str) {
    let (folder, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut steps = folder.split('.').filter(|step| !step.is_empty());
    let holder = steps.try_fold(value, |value, step| value.get_mut(step));
    if let Some(map) = holder.and_then(Value::as_object_mut) {
        map.remove(key);
    }
}

/// A value without empty maps and lists, which count as absent.
fn solid(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(key, value)| (key.clone(), solid(value))).filter(|(_, value)| !value.is_null());
            let map: serde_json::Map<_, _> = kept.collect();
            if map.is_empty() { Value::Null } else { Value::Object(map) }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        other => other.clone(),
    }
}

/// Dependencies that do not come from a registry, each with its name: they can replace a package with any code.
fn local(manifest: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let tables = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "dev-dependencies"];
    let nested = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let tables = tables.into_iter().filter_map(|key| manifest.get(key)).chain(nested);
    let entries = tables.filter_map(Value::as_object).flatten();
    entries.filter(|(_, value)| is_local(value)).map(|(name, value)| (name.as_str(), value))
}

fn is_local(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            ["file:", "link:", "portal:", "git", "http"].iter().any(|head| text.starts_with(head))
                || text.contains("://")
                || text.contains('/')
        }
        Value::Object(map) => ["path", "git", "registry", "package"].iter().any(|key| map.contains_key(*key)),
        _ => false,
    }
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
        assert!(changed("package.json", base, &base.replace("\"1\"", "\"file:./mine\"")));
        for key in ["type", "imports", "exports", "main", "workspaces", "jest"] {
            assert!(changed("package.json", base, &base.replacen('{', &format!("{{\"{key}\": \"x\", "), 1)), "{key}");
        }
    }

    #[test]
    fn cargo_and_python_manifests_are_read() {
        let cargo = "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\n";
        assert!(!changed("Cargo.toml", cargo, &cargo.replace("b = ", "c = ")));
        assert!(!changed("Cargo.toml", cargo, &cargo.replace("name", "version = \"2.0.0\"\nname")));
        assert!(changed("Cargo.toml", cargo, &cargo.replace("name", "autotests = false\nname")));
        assert!(changed("Cargo.toml", cargo, &cargo.replace("\"1\"", "{ path = \"mine\" }")));
        for more in [
            "[lib]\ntest = false",
            "[lib]\npath = \"src/other.rs\"",
            "[lib]\npath = \"src/b.rs\"",
            "[[test]]\nname = \"t\"\nharness = false",
            "[workspace]\nmembers = [\"p\"]\ndefault-members = [\"p\"]",
            "[features]\nfull = [\"b\"]",
        ] {
            assert!(changed("Cargo.toml", cargo, &format!("{cargo}{more}\n")), "{more}");
        }
        let python = "[project]\nname = \"a\"\n";
        assert!(!changed("pyproject.toml", python, &format!("{python}version = \"2\"\n")));
        assert!(changed("pyproject.toml", python, &format!("{python}[tool.pytest.ini_options]\naddopts = \"-k x\"\n")));
    }
}

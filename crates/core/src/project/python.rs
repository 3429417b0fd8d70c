//! Python: uv, Poetry and PDM by their lock files, else pip in a virtual environment; pytest or unittest.

use super::{ProjectFolder, ProjectPart, argv};
use crate::spec::Argv;
use toml::{Table, Value};

/// The files that identify a project.
pub(super) const MANIFESTS: [&str; 6] =
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini", "tox.ini"];

/// Names of extras, groups and requirement files that hold the dependencies of tests, best first.
const TEST_NAMES: [&str; 8] = ["tests", "test", "testing", "dev", "develop", "development", "all", "ci"];

/// The interpreter of the virtual environment that the set-up makes. `env` starts it, because a gate's own program must
/// be in base or installed.
const VENV: &str = "env .venv/bin/python";

/// Installs packages there.
const PIP: &str = ".venv/bin/python -m pip install -q --disable-pip-version-check";

/// uv in the virtual environment. It trusts the authorities that this machine trusts, as git and pip do here.
const UV: &str = "env UV_SYSTEM_CERTS=1 .venv/bin/uv";

pub(super) fn part(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let pyproject = folder.toml("pyproject.toml");
    let runner = runner(folder, &pyproject)?;
    let (tool, note) = tool(folder, &pyproject);
    let (setup, run) = match tool {
        // The virtual environment gets uv itself, so that the lock file counts. `--inexact` keeps uv there, and `--python` the environment.
        "uv" if !(folder.files.has_program)("uv") => (
            vec![
                argv("python3 -m venv .venv"),
                argv(&format!("{PIP} uv")),
                argv(&format!("{UV} sync --inexact --quiet --python .venv/bin/python{}", uv_flags(folder, &pyproject))),
            ],
            format!("{VENV} -m {runner}"),
        ),
        "uv" => (
            vec![argv(&format!("uv sync{}", uv_flags(folder, &pyproject)))],
            format!("uv run --offline --no-sync python -m {runner}"),
        ),
        "poetry" => {
            (vec![argv("poetry install --no-interaction --all-extras")], format!("poetry run python -m {runner}"))
        }
        "pdm" if folder.has("pdm.lock") => {
            (vec![argv("pdm install --frozen-lockfile")], format!("pdm run python -m {runner}"))
        }
        "pdm" => (vec![argv("pdm install")], format!("pdm run python -m {runner}")),
        _ => match pip(folder, &pyproject, &runner) {
            install if install.is_empty() => (Vec::new(), format!("python3 -m {runner}")),
            install => (venv(install), format!("{VENV} -m {runner}")),
        },
    };
    let notes = note.into_iter().collect();
    Some(ProjectPart { kind: "Python", tool: tool.to_owned(), setup, runs: vec![argv(&run)], notes })
}

/// Tests of a repository without a manifest: files at the root, or in the folder of tests.
pub(super) fn loose_tests(root: ProjectFolder<'_>) -> Option<ProjectPart> {
    let is_near = |path: &str| matches!(path.rsplit_once('/'), None | Some(("tests" | "test", _)));
    root.below().any(|path| is_test(path) && is_near(path)).then(|| part(root)).flatten()
}

/// Whether a command of a CI file expects its own environment to be active.
pub(super) fn needs_other_venv(run: &Argv) -> bool {
    run.first().is_some_and(|word| matches!(word.as_str(), "pytest" | "python" | "python3"))
}

/// The manager of the project, and a note if another one takes its place on this machine.
fn tool(folder: ProjectFolder<'_>, pyproject: &Table) -> (&'static str, Option<String>) {
    let section = |name: &str| pyproject.get("tool").and_then(|tool| tool.get(name)).is_some();
    let named = match folder.first(&["uv.lock", "poetry.lock", "pdm.lock"]) {
        Some("uv.lock") => "uv",
        Some("poetry.lock") => "poetry",
        Some("pdm.lock") => "pdm",
        // Without a lock file pip installs these too, except the classic form of Poetry's own dependency groups.
        _ if section("poetry") && !pyproject.contains_key("project") => "poetry",
        _ => return ("pip", None),
    };
    if (folder.files.has_program)(named) || named == "uv" || !is_package(folder, pyproject) {
        return (named, None);
    }
    ("pip", Some(format!("{named} is not installed here: the set-up uses pip, which ignores the lock file")))
}

/// The module that runs the tests, with its arguments.
fn runner(folder: ProjectFolder<'_>, pyproject: &Table) -> Option<String> {
    let says = |name: &str| folder.text(name).contains("pytest");
    let named = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "requirements.txt", "noxfile.py"];
    let files: Vec<&str> = folder.below().filter(|path| is_test(path)).collect();
    let configured = pyproject.get("tool").and_then(|tool| tool.get("pytest")).is_some() || folder.has("pytest.ini");
    let conftest = folder.below().any(|path| path == "conftest.py" || path.ends_with("/conftest.py"));
    let imports = || files.iter().take(20).any(|path| folder.text(path).contains("pytest"));
    if configured || conftest || (!files.is_empty() && (named.iter().any(|name| says(name)) || imports())) {
        return Some("pytest -q".to_owned());
    }
    let top = files.iter().find(|path| !path.contains('/') || folder.has(&format!("{}/__init__.py", root_of(path))));
    match (top, files.first()) {
        (Some(_), _) => Some("unittest".to_owned()),
        (None, Some(path)) => {
            Some(format!("unittest discover -s {}", path.rsplit_once('/').map_or(".", |(dir, _)| dir)))
        }
        (None, None) => None,
    }
}

fn root_of(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".py") && (name.starts_with("test") || name.ends_with("_test.py"))
}

fn uv_flags(folder: ProjectFolder<'_>, pyproject: &Table) -> String {
    let frozen = if folder.has("uv.lock") { " --frozen" } else { "" };
    let extras = if pyproject.get("project").and_then(|project| project.get("optional-dependencies")).is_some() {
        " --all-extras"
    } else {
        ""
    };
    // The group of the tests, if it has a usual name: other groups hold documentation tools and take minutes.
    let groups = match TEST_NAMES.iter().find(|name| has_group(pyproject, name)) {
        Some(name) => format!(" --group {name}"),
        None if pyproject.contains_key("dependency-groups") => " --all-groups".to_owned(),
        None => String::new(),
    };
    format!("{frozen}{extras}{groups}")
}

fn venv(install: Argv) -> Vec<Argv> {
    vec![argv("python3 -m venv .venv"), argv(PIP).into_iter().chain(install).collect()]
}

/// The arguments of `pip install`; empty if there is nothing to install.
fn pip(folder: ProjectFolder<'_>, pyproject: &Table, runner: &str) -> Argv {
    let mut install: Argv = Vec::new();
    if is_package(folder, pyproject) {
        let extras = extras(folder, pyproject);
        install.extend([
            "-e".to_owned(),
            if extras.is_empty() { ".".to_owned() } else { format!(".[{}]", extras.join(",")) },
        ]);
    }
    for file in requirement_files(folder) {
        install.extend(["-r".to_owned(), file]);
    }
    install.extend(group(
        pyproject,
        TEST_NAMES.iter().find(|name| has_group(pyproject, name)).copied().unwrap_or_default(),
    ));
    install.extend(poetry_group(pyproject));
    install.extend(tox_requirements(&folder.text("tox.ini")));
    if runner.starts_with("pytest") && !install.iter().any(|word| word.starts_with("pytest")) {
        install.push("pytest".to_owned());
    }
    install.dedup();
    install
}

/// Whether pip can install the folder itself: it has a build system, or a set-up script.
fn is_package(folder: ProjectFolder<'_>, pyproject: &Table) -> bool {
    let has_name = pyproject.get("project").is_some_and(|project| project.get("name").is_some());
    has_name
        || pyproject.contains_key("build-system") && folder.has("setup.cfg")
        || folder.has("setup.py")
        || folder.text("setup.cfg").contains("[metadata]")
}

fn extras(folder: ProjectFolder<'_>, pyproject: &Table) -> Vec<String> {
    let declared = pyproject.get("project").and_then(|project| project.get("optional-dependencies"));
    let known: Vec<String> = declared
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::keys)
        .cloned()
        .chain(cfg_extras(&folder.text("setup.cfg")))
        .collect();
    let best = TEST_NAMES.iter().find(|name| known.iter().any(|known| known == *name));
    best.map(|name| (*name).to_owned()).into_iter().collect()
}

/// The extras that `setup.cfg` declares.
fn cfg_extras(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| line.trim() != "[options.extras_require]").skip(1);
    let section = lines.take_while(|line| !line.starts_with('['));
    section
        .filter(|line| !line.starts_with([' ', '\t', '#']))
        .filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()))
        .collect()
}

/// Requirement files: the project's own, and the best one for tests.
fn requirement_files(folder: ProjectFolder<'_>) -> Vec<String> {
    let spellings = |name: &&str| {
        [
            format!("requirements/{name}.txt"),
            format!("requirements-{name}.txt"),
            format!("requirements_{name}.txt"),
            format!("{name}-requirements.txt"),
            format!("{name}_requirements.txt"),
        ]
    };
    let own = Some("requirements.txt".to_owned()).filter(|name| folder.has(name));
    let tests = TEST_NAMES.iter().flat_map(spellings).find(|name| folder.has(name));
    own.into_iter().chain(tests).collect()
}

fn has_group(pyproject: &Table, name: &str) -> bool {
    pyproject.get("dependency-groups").is_some_and(|groups| groups.get(name).is_some())
}

/// The requirements of a dependency group, with the groups that it includes. Older versions of pip know no groups.
fn group(pyproject: &Table, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![name.to_owned()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(name) = pending.pop().filter(|name| !name.is_empty()) {
        if !seen.insert(name.clone()) {
            continue;
        }
        let entries = pyproject.get("dependency-groups").and_then(|groups| groups.get(&name)).and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            match entry {
                Value::String(requirement) => found.push(requirement.clone()),
                other => pending.extend(other.get("include-group").and_then(Value::as_str).map(str::to_owned)),
            }
        }
    }
    found
}

/// The packages of Poetry's group for tests, without their versions: pip does not read Poetry's form of them.
fn poetry_group(pyproject: &Table) -> Vec<String> {
    let poetry = pyproject.get("tool").and_then(|tool| tool.get("poetry"));
    let group = |name: &str| poetry?.get("group")?.get(name)?.get("dependencies")?.as_table();
    let classic = || poetry?.get("dev-dependencies")?.as_table();
    let found = TEST_NAMES.into_iter().find_map(group).or_else(classic);
    let is_package = |(name, wanted): &(&String, &Value)| {
        let has = |key: &str| wanted.get(key).is_some();
        *name != "python" && !has("path") && !has("git") && !has("url")
    };
    found.into_iter().flatten().filter(is_package).map(|(name, _)| name.clone()).collect()
}

/// The plain requirements of tox's test environment; lines with a condition or a substitution are left out.
fn tox_requirements(text: &str) -> Vec<String> {
    let section =
        text.lines().skip_while(|line| line.trim() != "[testenv]").skip(1).take_while(|line| !line.starts_with('['));
    let mut lines = section.skip_while(|line| !line.starts_with("deps")).peekable();
    let first = lines.next().and_then(|line| Some(line.split_once('=')?.1.trim().to_owned()));
    let more = lines.take_while(|line| line.starts_with([' ', '\t'])).map(|line| line.trim().to_owned());
    let is_plain = |line: &String| {
        line.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !line.contains(['{', ':', '#', '/'])
            && !line.contains(char::is_whitespace)
    };
    first.into_iter().chain(more).filter(is_plain).collect()
}

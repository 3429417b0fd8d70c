//! JavaScript and TypeScript: the package manager that the repository names or has a lock file of, and its test script.
//! A manager that is not installed is fetched by npm, in the version that the repository wants.

use super::{ProjectFolder, ProjectPart, argv};
use crate::spec::Argv;
use serde_json::Value;

/// The package managers of npm's registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Npm,
    Pnpm,
    /// Yarn 1.
    YarnClassic,
    /// Yarn 2 and later.
    Yarn,
    Bun,
}

/// Scripts that run tests when there is no `test`, or when `test` does more than testing.
const SCRIPTS: [&str; 7] = ["tests-only", "test:unit", "unit", "unit-test", "test-unit", "tests", "test:ci"];

pub(super) fn part(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let package = folder.json("package.json");
    let manager = manager(folder, &package);
    let has_workspaces = !package["workspaces"].is_null() || folder.has("pnpm-workspace.yaml");
    let start = ManagerStart::new(manager, folder, &package);
    let runs: Vec<Argv> = runs(manager, &package, has_workspaces).into_iter().map(|run| start.gate(run)).collect();
    let setup = install(manager, folder, &package, has_workspaces);
    let setup: Vec<Argv> = setup.into_iter().map(|run| start.setup(run)).collect();
    if runs.is_empty() && folder.folder.is_empty() && setup.is_empty() {
        return None;
    }
    let notes = start.note.into_iter().collect();
    Some(ProjectPart { kind: "JavaScript", tool: word(manager).to_owned(), setup, runs, notes })
}

/// The words that start a package manager in place of its own name.
#[derive(Debug, Default)]
struct ManagerStart {
    setup: Argv,
    gate: Argv,
    note: Option<String>,
}

impl ManagerStart {
    /// The manager itself, the release of it that is in the repository, or npm's `npx`, which fetches it in the set-up.
    fn new(manager: Manager, folder: ProjectFolder<'_>, package: &Value) -> Self {
        let has = folder.files.has_program;
        if manager == Manager::Npm || has(word(manager)) {
            return Self::default();
        }
        let is_release = |path: &&str| path.starts_with(".yarn/releases/yarn-") && path.ends_with("js");
        if let Some(release) = folder.below().find(is_release).filter(|_| word(manager) == "yarn") {
            let run: Argv = vec!["node".to_owned(), release.to_owned()];
            return Self { setup: run.clone(), gate: run, note: None };
        }
        if !has("npx") {
            return Self::default();
        }
        let name = fetched(manager, folder, package);
        let note = format!("{} is not installed here: the set-up fetches {name} with npx", word(manager));
        let gate = argv(&format!("npx --yes --offline {name}"));
        Self { setup: argv(&format!("npx --yes {name}")), gate, note: Some(note) }
    }

    fn setup(&self, run: Argv) -> Argv {
        started_by(&self.setup, run)
    }

    fn gate(&self, run: Argv) -> Argv {
        started_by(&self.gate, run)
    }
}

/// A command of a package manager, started by other words than the manager's name.
fn started_by(start: &Argv, run: Argv) -> Argv {
    if start.is_empty() { run } else { start.iter().cloned().chain(run.into_iter().skip(1)).collect() }
}

/// The package of a manager in npm's registry, with the version that the repository names or that reads its lock file.
fn fetched(manager: Manager, folder: ProjectFolder<'_>, package: &Value) -> String {
    let named = package["packageManager"].as_str().and_then(|named| named.split_once('@')?.1.split('+').next());
    let is_plain = |version: &&str| {
        !version.is_empty()
            && version.len() <= 40
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
    };
    let lock = folder.text("pnpm-lock.yaml");
    let lock = lock.lines().find_map(|line| line.strip_prefix("lockfileVersion:")).unwrap_or_default();
    let (name, usual) = match (manager, lock.trim().trim_matches(['\'', '"']).split('.').next()) {
        (Manager::Pnpm, Some("5")) => ("pnpm", "7"),
        (Manager::Pnpm, Some("6")) => ("pnpm", "8"),
        (Manager::YarnClassic, _) => ("yarn", "1"),
        (Manager::Yarn, _) => ("@yarnpkg/cli-dist", "4"),
        (Manager::Bun, _) => ("bun", "1"),
        (Manager::Pnpm | Manager::Npm, _) => ("pnpm", "9"),
    };
    format!("{name}@{}", named.filter(is_plain).unwrap_or(usual))
}

fn manager(folder: ProjectFolder<'_>, package: &Value) -> Manager {
    let named = package["packageManager"].as_str().unwrap_or_default();
    let (name, version) = named.split_once('@').unwrap_or((named, ""));
    let is_classic = || folder.text("yarn.lock").contains("yarn lockfile v1");
    match name {
        "npm" => return Manager::Npm,
        "pnpm" => return Manager::Pnpm,
        "bun" => return Manager::Bun,
        "yarn" => return if version.starts_with("1.") { Manager::YarnClassic } else { Manager::Yarn },
        _ => {}
    }
    match folder.first(&[
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "yarn.lock",
    ]) {
        Some("pnpm-lock.yaml") => Manager::Pnpm,
        Some("bun.lock" | "bun.lockb") => Manager::Bun,
        Some("yarn.lock") if is_classic() => Manager::YarnClassic,
        Some("yarn.lock") => Manager::Yarn,
        _ => Manager::Npm,
    }
}

fn word(manager: Manager) -> &'static str {
    match manager {
        Manager::Npm => "npm",
        Manager::Pnpm => "pnpm",
        Manager::YarnClassic | Manager::Yarn => "yarn",
        Manager::Bun => "bun",
    }
}

fn install(manager: Manager, folder: ProjectFolder<'_>, package: &Value, has_workspaces: bool) -> Vec<Argv> {
    let lists = ["dependencies", "devDependencies", "optionalDependencies"];
    let needs = lists.iter().any(|list| package[list].as_object().is_some_and(|list| !list.is_empty()));
    let locks = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "yarn.lock"];
    let is_locked = folder.first(&locks).is_some();
    if !needs && !has_workspaces {
        return Vec::new();
    }
    let command = match (manager, is_locked) {
        (Manager::Npm, true) => "npm ci --no-audit --no-fund",
        (Manager::Npm, false) => "npm install --no-audit --no-fund",
        (Manager::Pnpm, true) => "pnpm install --frozen-lockfile",
        (Manager::Pnpm, false) => "pnpm install",
        (Manager::YarnClassic, true) => "yarn install --frozen-lockfile --non-interactive",
        (Manager::YarnClassic, false) => "yarn install --non-interactive",
        (Manager::Yarn, true) => "yarn install --immutable",
        (Manager::Yarn, false) => "yarn install",
        (Manager::Bun, true) => "bun install --frozen-lockfile",
        (Manager::Bun, false) => "bun install",
    };
    vec![argv(command)]
}

fn runs(manager: Manager, package: &Value, has_workspaces: bool) -> Vec<Argv> {
    let scripts = &package["scripts"];
    // npm writes a failing `test` script by default; that one does not count.
    let real = |name: &str| scripts[name].as_str().is_some_and(|script| !script.contains("no test specified"));
    let mut runs = Vec::new();
    if real("test") {
        runs.push(argv(test_script(manager)));
        if manager == Manager::Npm && (real("pretest") || real("posttest")) {
            // Only the tests: scripts before and after often lint, audit or publish, which needs the network.
            runs.push(argv("npm test --ignore-scripts"));
        }
    }
    runs.extend(SCRIPTS.iter().filter(|name| real(name)).map(|name| argv(&format!("{} run {name}", word(manager)))));
    if runs.is_empty() && has_workspaces {
        runs.push(argv(match manager {
            Manager::Npm => "npm test --workspaces --if-present",
            Manager::Pnpm => "pnpm -r test",
            Manager::YarnClassic => "yarn workspaces run test",
            Manager::Yarn => "yarn workspaces foreach -A run test",
            Manager::Bun => "bun run --filter * test",
        }));
    }
    if runs.is_empty() && manager == Manager::Bun {
        runs.push(argv("bun test"));
    }
    runs
}

fn test_script(manager: Manager) -> &'static str {
    match manager {
        Manager::Npm => "npm test",
        Manager::Pnpm => "pnpm test",
        Manager::YarnClassic | Manager::Yarn => "yarn test",
        Manager::Bun => "bun run test",
    }
}

//! Go, Maven and Gradle; programs that only run commands (make, just, scripts); and pre-commit.

use super::{GateNeed, PlannedGate, ProjectFolder, ProjectPart, ProjectPlan, argv};
use crate::spec::Argv;

/// Scripts whose name says that they run the tests.
const SCRIPTS: [&str; 8] =
    ["run-tests.sh", "run-tests", "run_tests.sh", "test.sh", "tests.sh", "test/run.sh", "scripts/test", "script/test"];

pub(super) fn go(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let modules = go_modules(&folder.text("go.work"));
    let packages = if modules.is_empty() { "./...".to_owned() } else { modules.join(" ") };
    let needs = folder.text("go.mod").contains("require") || !modules.is_empty();
    Some(ProjectPart {
        kind: "Go",
        tool: "go".to_owned(),
        setup: if needs { vec![argv("go mod download")] } else { Vec::new() },
        runs: vec![argv(&format!("go test -v {packages}")), argv(&format!("go test {packages}"))],
        notes: Vec::new(),
    })
}

/// The packages of a workspace: `go test ./...` finds those of one module only.
fn go_modules(text: &str) -> Vec<String> {
    let is_path = |word: &&str| word.starts_with('.');
    let words = text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(str::split_whitespace);
    words.filter(is_path).map(|path| format!("{}/...", path.trim_end_matches('/'))).collect()
}

pub(super) fn maven(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let program = if folder.has("mvnw") { "./mvnw" } else { "mvn" };
    Some(ProjectPart {
        kind: "Java",
        tool: "maven".to_owned(),
        // The plugins that run tests are resolved only when tests run, so the set-up runs them once.
        setup: vec![argv(&format!("{program} -B -q -Dmaven.test.failure.ignore=true test"))],
        runs: vec![argv(&format!("{program} -B -o test"))],
        notes: Vec::new(),
    })
}

pub(super) fn gradle(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let program = if folder.has("gradlew") { "./gradlew" } else { "gradle" };
    Some(ProjectPart {
        kind: "Java",
        tool: "gradle".to_owned(),
        // Running the tests once resolves everything; whether they pass is a matter for the gate.
        setup: vec![vec![
            "sh".to_owned(),
            "-c".to_owned(),
            format!("{program} --no-daemon -q test --continue || true"),
        ]],
        runs: vec![argv(&format!("{program} --no-daemon --offline test"))],
        notes: Vec::new(),
    })
}

/// Commands of the root that run the tests: targets of make and just, and scripts.
pub(super) fn scripts(root: ProjectFolder<'_>) -> Vec<Argv> {
    let mut runs = Vec::new();
    let makefile = root.first(&["GNUmakefile", "makefile", "Makefile"]).map(|name| root.text(name)).unwrap_or_default();
    runs.extend(
        ["test", "check"].iter().find(|name| has_target(&makefile, name)).map(|name| argv(&format!("make {name}"))),
    );
    let justfile = root.first(&["justfile", "Justfile", ".justfile"]).map(|name| root.text(name)).unwrap_or_default();
    runs.extend(
        ["test", "check"].iter().find(|name| has_recipe(&justfile, name)).map(|name| argv(&format!("just {name}"))),
    );
    runs.extend(SCRIPTS.iter().filter(|name| root.text(name).starts_with("#!")).map(|name| vec![format!("./{name}")]));
    runs
}

/// A target of a Makefile: `test:` or `test: all`, and not `test := x`.
fn has_target(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let Some((targets, rest)) = line.split_once(':') else { return false };
        !rest.starts_with('=')
            && !line.starts_with(['\t', ' ', '.'])
            && targets.split_whitespace().any(|target| target == name)
    })
}

/// A recipe of a justfile: `test:`, `test arg="x":`, `@test:`.
fn has_recipe(text: &str, name: &str) -> bool {
    text.lines().filter(|line| !line.contains(":=")).any(|line| {
        let Some((head, _)) = line.split_once(':') else { return false };
        head.split_whitespace()
            .next()
            .is_some_and(|word| word.trim_start_matches('@') == name && !line.starts_with(' '))
    })
}

/// Hooks of pre-commit as a gate, if they pass on base; a note if this machine cannot run them.
pub(super) fn pre_commit(root: ProjectFolder<'_>, plan: &mut ProjectPlan) {
    if !root.has(".pre-commit-config.yaml") {
        return;
    }
    if !(root.files.has_program)("pre-commit") {
        plan.notes.push("pre-commit is not installed here, so its hooks are no gate".to_owned());
        return;
    }
    let runs = vec![argv("pre-commit run --all-files")];
    plan.gates.push(PlannedGate { name: "pre-commit".to_owned(), runs, need: GateNeed::OnlyIfGreen });
}

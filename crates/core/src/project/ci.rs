//! The CI file as a hint of the test command: the lines that a workflow runs, if they look like tests and depend on
//! nothing but the checkout.

use super::{ProjectFiles, argv};
use crate::spec::Argv;

/// The beginnings of commands that run tests.
const STARTS: [&str; 26] = [
    "cargo test",
    "cargo nextest",
    "npm test",
    "npm run test",
    "npm t",
    "pnpm test",
    "pnpm run test",
    "yarn test",
    "yarn run test",
    "bun test",
    "bun run test",
    "pytest",
    "python -m pytest",
    "python3 -m pytest",
    "python -m unittest",
    "python3 -m unittest",
    "go test",
    "make test",
    "make check",
    "just test",
    "mvn test",
    "mvn verify",
    "./mvnw test",
    "./gradlew test",
    "./gradlew check",
    "ctest",
];
/// The most commands that are proposed.
const HINTS_MAX: usize = 2;

/// The test commands of the repository's CI files.
pub(super) fn test_commands(files: &ProjectFiles<'_>) -> Vec<Argv> {
    let is_ci = |path: &&String| {
        (path.starts_with(".github/workflows/") && (path.ends_with(".yml") || path.ends_with(".yaml")))
            || matches!(path.as_str(), ".gitlab-ci.yml" | ".travis.yml" | ".circleci/config.yml" | ".woodpecker.yml")
    };
    let texts = files.paths.iter().filter(is_ci).take(20).filter_map(|path| (files.read)(path));
    let mut found: Vec<Argv> = Vec::new();
    for command in texts.flat_map(|text| text.lines().filter_map(command).collect::<Vec<_>>()) {
        if found.len() < HINTS_MAX && !found.contains(&command) {
            found.push(command);
        }
    }
    found
}

/// The command of a line, without YAML around it.
fn command(line: &str) -> Option<Argv> {
    let text = line.trim().trim_start_matches("- ").trim_start_matches("run:").trim().trim_matches(['"', '\'']);
    let is_plain = !text.contains(['$', '|', '&', ';', '>', '<', '`', '"', '\'', '*', '#']);
    let is_test = STARTS
        .iter()
        .any(|start| text.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':'])));
    (is_plain && is_test).then(|| argv(text))
}

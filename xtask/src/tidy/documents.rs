//! The required content of documents: the commands of the README and the words of the glossary.

use std::path::Path;

/// All commands under the README's *Quick start*.
const QUICK_START: [&str; 1] = ["cargo run --release -- demo"];
/// The test command, which the README names for contributors.
const TEST_COMMAND: &str = "`cargo xtask test`";

/// The nouns of the product. Each has one meaning, which the glossary defines.
const WORDS: [&str; 31] = [
    "loop",
    "loop file",
    "skill",
    "trigger",
    "occurrence",
    "probe",
    "item",
    "round",
    "attempt",
    "stage",
    "role",
    "agent",
    "workspace",
    "seal",
    "gate",
    "human gate",
    "proof",
    "finding",
    "verdict",
    "rubric",
    "outbox item",
    "delivery",
    "receipt",
    "report",
    "journal",
    "budget",
    "spend",
    "level",
    "lease",
    "inbox",
    "candidate",
];

pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    match std::fs::read_to_string(root.join("README.md")) {
        Ok(readme) => findings.extend(quick_start_finding(&readme)),
        Err(error) => findings.push(format!("README.md: {error}")),
    }
    match std::fs::read_to_string(root.join("docs/glossary.md")) {
        Ok(glossary) => {
            findings.extend(missing_words(&glossary).map(|word| format!("docs/glossary.md: `{word}` is missing")))
        }
        Err(error) => findings.push(format!("docs/glossary.md: {error}")),
    }
    findings
}

fn quick_start_finding(readme: &str) -> Option<String> {
    if !readme.contains(TEST_COMMAND) {
        return Some(format!("README.md: does not name the test command, {TEST_COMMAND}"));
    }
    let commands = quick_start(readme);
    (commands != QUICK_START)
        .then(|| format!("README.md: *Quick start* holds {commands:?}, it should hold {QUICK_START:?}"))
}

/// The lines inside code fences of the section *Quick start*.
fn quick_start(readme: &str) -> Vec<&str> {
    let section = readme.lines().skip_while(|line| !line.to_lowercase().starts_with("## quick start")).skip(1);
    let mut inside = false;
    let mut commands = Vec::new();
    for line in section.take_while(|line| !line.starts_with("## ")) {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside && !line.trim().is_empty() {
            commands.push(line.trim());
        }
    }
    commands
}

/// A word is defined if it opens a definition: `**word**` at the start of a line.
fn missing_words(glossary: &str) -> impl Iterator<Item = &'static str> + '_ {
    WORDS.into_iter().filter(|word| !glossary.lines().any(|line| line.starts_with(&format!("**{word}**"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_commands_of_the_quick_start_count() {
        let readme = "# X\n```sh\nno\n```\n## Quick start\ntext\n```sh\n\ncargo run --release -- demo\n```\nRun `cargo xtask test`.\n## Next\n```sh\nno\n```\n";
        assert_eq!(quick_start(readme), QUICK_START);
        assert_eq!(quick_start_finding(readme), None);
        assert!(quick_start_finding("## Quick start\n```\ncargo run\n```\nRun `cargo xtask test`.\n").is_some());
        assert!(quick_start_finding("## Quick start\n```\ncargo run --release -- demo\n```\n").is_some());
    }

    #[test]
    fn a_word_without_a_definition_is_missing() {
        let glossary = "**loop** is work.\nA **round** is mentioned only.\n";
        let missing: Vec<&str> = missing_words(glossary).collect();
        assert!(!missing.contains(&"loop"));
        assert!(missing.contains(&"round"));
    }
}

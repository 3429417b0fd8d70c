//! The real agent programs for tests: installed by `cargo xtask setup` in the versions that `xtask/agents.json` pins.

use crate::skip;
use std::path::{Path, PathBuf};

/// The programs, and the packages they come in.
const PACKAGES: [(&str, &str); 9] = [
    ("node", "node"),
    ("claude", "@anthropic-ai/claude-code"),
    ("codex", "@openai/codex"),
    ("opencode", "opencode-ai"),
    ("gemini", "@google/gemini-cli"),
    ("goose", "@aaif/goose-binary-linux-x64"),
    ("codex-acp", "@zed-industries/codex-acp"),
    ("qwen", "@qwen-code/qwen-code"),
    ("copilot", "@github/copilot"),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the testkit lies in crates").to_path_buf()
}

/// The folder with all of them and their node, for a PATH; `None` if nothing is installed.
#[must_use]
pub fn bin_dir() -> Option<PathBuf> {
    Some(workspace().join("target/agents/node_modules/.bin")).filter(|folder| folder.is_dir())
}

/// One program of the table above; `None` if it is not installed.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    bin_dir().map(|folder| folder.join(name)).filter(|path| path.is_file())
}

/// A program that the calling test needs. If it is missing, this records the test as skipped, and the test returns.
#[must_use]
pub fn require_program(name: &str) -> Option<PathBuf> {
    let found = program(name);
    if found.is_none() {
        skip(&format!("the agent `{name}` is not installed; run `cargo xtask setup`"));
    }
    found
}

/// The pinned version of a program.
///
/// # Panics
/// If `xtask/agents.json` does not name it: the test would test an arbitrary version.
#[must_use]
pub fn version(name: &str) -> String {
    let (_, package) = PACKAGES.iter().find(|(known, _)| *known == name).expect("a known program");
    let text = std::fs::read(workspace().join("xtask/agents.json")).expect("the pinned versions");
    let pins: serde_json::Value = serde_json::from_slice(&text).expect("the pinned versions are JSON");
    let pin = |section: &str| pins[section][package].as_str().map(str::to_owned);
    pin("dependencies").or_else(|| pin("optionalDependencies")).expect("the program is pinned")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_pinned() {
        for (name, _) in PACKAGES {
            assert!(version(name).starts_with(|c: char| c.is_ascii_digit()), "{name}");
        }
    }
}

//! Rust: Cargo fetches and builds with the network, and tests without it.

use super::{ProjectFolder, ProjectPart, argv};

pub(super) fn part(folder: ProjectFolder<'_>) -> Option<ProjectPart> {
    let manifest = folder.toml("Cargo.toml");
    let all = if manifest.contains_key("workspace") { " --workspace" } else { "" };
    let locked = if folder.has("Cargo.lock") { " --locked" } else { "" };
    // Gates start from the build of base, so that they compile only what changed. A base that does not compile is a
    // matter for the gate, not for the set-up.
    let build = vec!["sh".to_owned(), "-c".to_owned(), format!("cargo test{all} --offline --no-run || true")];
    Some(ProjectPart {
        kind: "Rust",
        tool: "cargo".to_owned(),
        setup: vec![argv(&format!("cargo fetch{locked}")), build],
        runs: vec![argv(&format!("cargo test{all} --offline"))],
        notes: Vec::new(),
    })
}

//! The places in a repository from which agents' programs take instructions, settings, servers, hooks and skills: one
//! list for all programs. A program whose own flags turn all of them off reads them as plain data; tests with a word in
//! each place show that. From every other program the whole list is hidden, also the places of other programs, because
//! programs adopt each other's.

/// Files with instructions, in any folder: programs that read a file also read its folder's instructions.
pub const INSTRUCTION_FILES: [&str; 17] = [
    ".clinerules",
    ".cursorrules",
    ".goosehints",
    ".roorules",
    ".rules",
    ".windsurfrules",
    "AGENT.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "CONTEXT.md",
    "CRUSH.md",
    "GEMINI.md",
    "QWEN.md",
    "WARP.md",
    "copilot-instructions.md",
];

/// Files and folders at fixed paths with settings, servers, hooks, skills, commands or rules.
pub const STEERING_PLACES: [&str; 33] = [
    ".agents",
    ".aider.conf.yml",
    ".amazonq",
    ".augment",
    ".claude",
    ".codex",
    ".continue",
    ".copilot",
    ".crush",
    ".cursor",
    ".gemini",
    ".github/agents",
    ".github/chatmodes",
    ".github/copilot",
    ".github/copilot-instructions.md",
    ".github/hooks",
    ".github/instructions",
    ".github/prompts",
    ".github/skills",
    ".goose",
    ".junie",
    ".kilocode",
    ".kiro",
    ".mcp.json",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".vscode/mcp.json",
    ".windsurf",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
];

/// The whole list for the top of a workspace.
pub(super) fn at_top() -> Vec<&'static str> {
    INSTRUCTION_FILES.into_iter().chain(STEERING_PLACES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_listed_once_and_no_place_contains_another() {
        let all = at_top();
        for (at, place) in all.iter().enumerate() {
            assert!(!all[..at].contains(place), "{place} is listed twice");
            let inner = all.iter().find(|other| other.starts_with(&format!("{place}/")));
            assert_eq!(inner, None, "{place} contains it");
        }
    }
}

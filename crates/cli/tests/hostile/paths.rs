//! Paths: files that may not change, files that need a human, and files that may not be sealed (families D and G).

use crate::stage::{FIX, Stage};

fn refused(steps: &str) {
    Stage::new().maker(&format!("{FIX}{steps}")).ends("refused", "path-refused");
}

#[test]
fn h111_files_that_run_for_people_later_need_a_human() {
    let paths = [
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".githooks/pre-commit",
        ".husky/pre-commit",
        ".claude/settings.json",
        ".codex/config.toml",
        ".mcp.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".envrc",
        "AGENTS.md",
        "docs/CLAUDE.md",
        ".gitattributes",
        ".gitmodules",
    ];
    let writes: String = paths.iter().map(|path| format!("write {path} x\n")).collect();
    let round = Stage::new().maker(&format!("{FIX}{writes}")).ends("escalated", "sensitive-path");
    paths.into_iter().fold(round, |round, path| round.saying(path));
}

#[test]
fn h084_an_edited_ci_file_needs_a_human_at_l3() {
    let stage = Stage::new().base(".github/workflows/ci.yml", "on: push\n");
    stage.maker(&format!("{FIX}append .github/workflows/ci.yml \"# x\\n\"")).ends("escalated", "sensitive-path");
}

#[test]
fn h111_a_deleted_ci_file_needs_a_human() {
    let stage = Stage::new().base(".github/workflows/ci.yml", "on: push\n");
    stage.maker(&format!("{FIX}delete .github/workflows/ci.yml")).ends("escalated", "sensitive-path");
}

#[test]
fn h093_the_loops_own_file_needs_a_human_and_has_no_effect_now() {
    let steps = format!("{FIX}replace .loopwright/loops/fix.md \"attempts: 1\" \"attempts: 9\"");
    let stage = Stage::new().with("attempts: 1");
    stage.maker(&steps).ends("escalated", "sensitive-path").saying(".loopwright/loops/fix.md");
}

#[test]
fn h093_its_own_script_needs_a_human() {
    Stage::new().maker(&format!("{FIX}append .loopwright/s.script \"# x\\n\"")).ends("escalated", "sensitive-path");
}

#[test]
fn protected_file_changed_is_rejected_at_once() {
    let stage = Stage::new().with("protect: [README.md]");
    let round = stage.maker(&format!("{FIX}append README.md more")).ends("rejected", "protected-path");
    assert_eq!(round.json["attempts"], 1);
}

#[test]
fn protected_file_renamed_is_rejected() {
    let stage = Stage::new().with("protect: [\"docs/**\"]").base("docs/a.md", "words\n");
    stage.maker(&format!("{FIX}run mv docs/a.md b.md")).ends("rejected", "protected-path");
}

#[test]
fn protected_file_deleted_is_rejected() {
    let stage = Stage::new().with("protect: [\"docs/**\"]").base("docs/a.md", "words\n");
    stage.maker(&format!("{FIX}delete docs")).ends("rejected", "protected-path");
}

#[test]
fn protected_file_made_executable_is_rejected() {
    let stage = Stage::new().with("protect: [README.md]");
    stage.maker(&format!("{FIX}run chmod +x README.md")).ends("rejected", "protected-path");
}

#[test]
fn protected_file_made_a_link_is_rejected() {
    let stage = Stage::new().with("protect: [README.md]").base("other.md", "words\n");
    stage.maker(&format!("{FIX}delete README.md\nsymlink README.md other.md")).ends("rejected", "protected-path");
}

#[test]
fn protection_beats_sensitivity() {
    let stage = Stage::new().with("protect: [AGENTS.md]").base("AGENTS.md", "words\n");
    stage.maker(&format!("{FIX}append AGENTS.md more")).ends("rejected", "protected-path");
}

#[test]
fn new_file_under_a_protected_path_ships_and_is_pointed_out() {
    let stage = Stage::new().with("protect: [\"docs/**\"]").base("docs/a.md", "words\n");
    let _ = stage.maker(&format!("{FIX}write docs/b.md new")).ships().saying("docs/b.md");
}

#[test]
fn change_outside_the_allowed_paths_is_rejected() {
    let stage = Stage::new().with("allow_paths: [calc.sh]").with("attempts: 1");
    stage.maker(&format!("{FIX}append README.md more")).ends("rejected", "outside-paths");
}

#[test]
fn h059_a_link_out_of_the_tree_is_refused() {
    refused("symlink out /etc/passwd");
}

#[test]
fn h059_a_link_above_the_root_is_refused() {
    refused("symlink docs/out ../../../x");
}

#[test]
fn h108_a_link_into_the_git_folder_is_refused() {
    refused("symlink out .git/config");
}

#[test]
fn h058_a_fifo_is_refused() {
    refused("fifo pipe");
}

#[test]
fn h058_a_nested_repository_is_refused() {
    refused("run git init -q inner\nwrite inner/x.txt x");
}

#[test]
fn h058_a_name_with_a_line_break_is_refused() {
    refused("write \"a\\nb\" x");
}

#[test]
fn h058_a_name_that_is_no_text_is_refused() {
    refused("run sh -c \"touch \\\"$(printf 'a\\\\377')\\\"\"");
}

#[test]
fn h058_names_that_other_systems_take_for_the_git_folder_are_refused() {
    refused("write .GIT/config x");
    refused("write docs/git~1 x");
}

#[test]
fn h058_names_that_differ_by_case_alone_are_refused() {
    refused("write CALC.sh x");
}

#[test]
fn h058_a_leading_dash_is_only_a_name() {
    let stage = Stage::new();
    let round = stage.maker(&format!("{FIX}write ./--upload-pack=x x")).ships();
    assert!(round.shipped_paths().contains(&"--upload-pack=x".to_owned()));
}

#[test]
fn h108_a_folder_replaced_by_a_link_is_not_followed() {
    let stage = Stage::new().base("docs/a.md", "words\n");
    let home = stage.env.home();
    std::fs::write(home.join("a.md"), "a secret of the user\n").expect("a file can be written");
    let steps = format!("{FIX}delete docs\nsymlink docs {}", home.display());
    stage.maker(&steps).ends("refused", "path-refused").never_shows("a secret of the user");
}

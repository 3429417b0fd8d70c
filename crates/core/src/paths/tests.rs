//! Examples of sensitive, protected and allowed paths.

use super::*;

fn why(path: &str) -> Option<String> {
    let change = PathChange::new(path, ChangeKind::Modified);
    let file = ChangedFile { change: &change, before: Some(b""), after: Some(b"x") };
    let found = find_sensitive([file].into_iter(), &["deploy/**"], |_| false).expect("the globs are right");
    found.into_iter().next().map(|one| one.why)
}

const SENSITIVE: &[&str] = &[
    ".github/workflows/ci.yml",
    ".GitHub/workflows/ci.yml",
    ".gitlab-ci.yml",
    "Jenkinsfile",
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".vscode/tasks.json",
    "sub/.vscode/settings.json",
    ".envrc",
    ".claude/settings.json",
    "CLAUDE.md",
    "docs/AGENTS.md",
    ".mcp.json",
    ".loopwright/loops/a.md",
    "conftest.py",
    "tests/unit/conftest.py",
    "sitecustomize.py",
    "build.rs",
    "crates/a/build.rs",
    ".cargo/config.toml",
    "rust-toolchain.toml",
    ".gitattributes",
    ".gitmodules",
    ".npmrc",
    "pytest.ini",
    "deploy/run.sh",
    ".aider.conf.yml",
    ".claude",
    "sub/.vscode",
    ".loopwright",
    "deploy",
    ".gitlab-ci.yml",
    "azure-pipelines.yml",
    ".circleci/config.yml",
    ".githooks/pre-push",
    ".idea/runConfigurations/a.xml",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".opencode/agent/a.md",
    ".cursor/rules/a.mdc",
    "GEMINI.md",
    ".devcontainer/devcontainer.json",
    "setup.py",
    "usercustomize.py",
    "lib/a.pth",
    "tox.ini",
    "setup.cfg",
    ".coveragerc",
    "noxfile.py",
    ".yarnrc.yml",
    "jest.config.ts",
    "vitest.config.mts",
    ".mocharc.json",
    "babel.config.js",
    "tsconfig.base.json",
    "CMakePresets.json",
    "Dockerfile",
    "ops/Dockerfile.prod",
    "docker-compose.override.yml",
    "lib/__pycache__/a.cpython-311.pyc",
    "native/fast.so",
    "node_modules/.bin/jest",
    "tests/__init__.py",
];

#[test]
fn sensitive_paths_match_at_any_case_and_depth() {
    for path in SENSITIVE {
        assert!(why(path).is_some(), "{path}");
    }
    for path in [
        "src/main.rs",
        "README.md",
        "github/a.yml",
        "src/build.rs.txt",
        "tests/test_a.py",
        "docs/claude.txt",
        "app/types.py",
    ] {
        assert_eq!(why(path), None, "{path}");
    }
}

#[test]
fn files_that_shadow_others_are_reported() {
    let new = |path: &str, text: &str| {
        let change = PathChange::new(path, ChangeKind::Added);
        let file = ChangedFile { change: &change, before: None, after: Some(text.as_bytes()) };
        let found = find_sensitive::<&str>([file].into_iter(), &[], |path| path == "sums.py").expect("globs");
        found.into_iter().next().map(|one| one.why)
    };
    for path in
        ["pytest.py", "unittest/__main__.py", "tests/unittest.py", "argparse.py", "src/json.py", "sums/__init__.py"]
    {
        assert!(new(path, "x = 1\n").is_some(), "{path}");
    }
    for path in ["app/json.py", "totals/__init__.py", "sums2.py", "helpers.py", "tests/test_json.py"] {
        assert_eq!(new(path, "x = 1\n"), None, "{path}");
    }
    assert_eq!(new("tests/__init__.py", "\n# marks the folder\n"), None);
    assert!(new("tests/unit/__init__.py", "import unittest\n").is_some());
}

#[test]
fn both_ends_of_a_rename_are_checked() {
    let change = PathChange::new("old.yml", ChangeKind::Renamed { from: ".github/ci.yml".into() });
    let file = ChangedFile { change: &change, before: None, after: None };
    assert_eq!(find_sensitive::<&str>([file].into_iter(), &[], |_| false).expect("globs").len(), 1);
}

#[test]
fn protected_files_of_base_may_not_change() {
    let protected = ProtectedPaths::new(&["tests/**", "spec"]).expect("globs");
    let changes = [
        PathChange::new("tests/a.py", ChangeKind::Modified),
        PathChange::new("tests/b.py", ChangeKind::Deleted),
        PathChange::new("src/c.py", ChangeKind::Renamed { from: "spec/c.py".into() }),
        PathChange::new("tests/d.py", ChangeKind::Renamed { from: "src/d.py".into() }),
        PathChange::new("tests/new.py", ChangeKind::Added),
        PathChange::new("src/x.py", ChangeKind::Modified),
    ];
    let found = protected.violations(&changes, |path| path == "tests/d.py");
    assert_eq!(
        found.violations,
        [
            "`tests/a.py` was changed",
            "`tests/b.py` was deleted",
            "`spec/c.py` was renamed to `src/c.py`",
            "`tests/d.py` was replaced"
        ]
    );
    assert_eq!(found.notes, ["`tests/new.py` is new under a protected path"]);
}

#[test]
fn allowed_paths_exclude_all_others() {
    let changes = [PathChange::new("src/a.rs", ChangeKind::Modified), PathChange::new("b.rs", ChangeKind::Added)];
    assert_eq!(outside_allowed(&["src"], &changes).expect("globs"), ["`b.rs` is outside the allowed paths"]);
    assert_eq!(outside_allowed::<&str>(&[], &changes).expect("globs"), Vec::<String>::new());
    assert!(outside_allowed(&["["], &changes).is_err());
}

#[test]
fn a_star_stays_in_its_folder() {
    let globs = Globs::new(&["src/*.rs"]).expect("globs");
    assert!(globs.matches("src/a.rs"));
    assert!(!globs.matches("src/deep/a.rs"));
}

//! Where a change may be: globs, protected paths, allowed paths, and the built-in list of sensitive ones.
//!
//! Paths are repository-relative with `/`, as git spells them. What becomes of a violation is the caller's business.

mod manifest;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// How a path changed between base and the sealed tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// New; base has no such path.
    Added,
    /// Other content, mode or type.
    Modified,
    /// Gone.
    Deleted,
    /// The same file under another name.
    Renamed {
        /// Its name in base.
        from: String,
    },
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path in the sealed tree; in base for a deleted one.
    pub path: String,
    /// How it changed.
    pub kind: ChangeKind,
    /// Added lines; 0 for binary files.
    pub added: u64,
    /// Removed lines; 0 for binary files.
    pub removed: u64,
    /// Whether either version is no text.
    pub binary: bool,
}

impl Change {
    /// A change without counted lines.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: ChangeKind) -> Self {
        Self { path: path.into(), kind, added: 0, removed: 0, binary: false }
    }

    /// Every path it touches: both ends of a rename.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let from = match &self.kind {
            ChangeKind::Renamed { from } => Some(from.as_str()),
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted => None,
        };
        from.into_iter().chain([self.path.as_str()])
    }
}

/// A pattern that is not a glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a glob: {why}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

/// A set of globs over repository paths: `*` stays within a folder, `**` does not, and a folder's name means all in it.
#[derive(Debug, Clone, Default)]
pub struct Globs(GlobSet);

#[derive(Clone, Copy)]
enum Case {
    Kept,
    Ignored,
}

impl Globs {
    /// Compiles patterns.
    ///
    /// # Errors
    /// The first pattern that is not a glob.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, GlobError> {
        Self::build(patterns, Case::Kept)
    }

    fn build<S: AsRef<str>>(patterns: &[S], case: Case) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let bad = |error: &globset::Error| GlobError { pattern: pattern.to_owned(), why: error.kind().to_string() };
            let plain = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
            for text in [plain.to_owned(), format!("{plain}/**")] {
                let mut glob = GlobBuilder::new(&text);
                glob.literal_separator(true).case_insensitive(matches!(case, Case::Ignored));
                set.add(glob.build().map_err(|error| bad(&error))?);
            }
        }
        let set = set.build().map_err(|error| GlobError { pattern: String::new(), why: error.kind().to_string() })?;
        Ok(Self(set))
    }

    /// Whether any of the globs matches the path or a folder around it.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// Whether there is no glob at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a change did to protected paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedFindings {
    /// What existed in base and was changed, renamed or deleted, as short sentences.
    pub violations: Vec<String>,
    /// New files there, which are allowed and pointed out.
    pub notes: Vec<String>,
}

/// The paths whose existing files may not change.
#[derive(Debug, Clone)]
pub struct Protected(Globs);

impl Protected {
    /// Compiles the loop's `protect`.
    ///
    /// # Errors
    /// A pattern is not a glob.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, GlobError> {
        Globs::new(patterns).map(Self)
    }

    /// Looks at every change; `in_base` says whether base has a path.
    pub fn violations(&self, changes: &[Change], in_base: impl Fn(&str) -> bool) -> ProtectedFindings {
        let mut found = ProtectedFindings::default();
        for change in changes {
            let is_here = self.0.matches(&change.path);
            match &change.kind {
                ChangeKind::Deleted if is_here => found.violations.push(format!("`{}` was deleted", change.path)),
                ChangeKind::Renamed { from } if self.0.matches(from) => {
                    found.violations.push(format!("`{from}` was renamed to `{}`", change.path));
                }
                ChangeKind::Modified if is_here => found.violations.push(format!("`{}` was changed", change.path)),
                // A file can be added or moved over one that base has.
                ChangeKind::Added | ChangeKind::Renamed { .. } if is_here && in_base(&change.path) => {
                    found.violations.push(format!("`{}` was replaced", change.path));
                }
                ChangeKind::Added | ChangeKind::Renamed { .. } if is_here => {
                    found.notes.push(format!("`{}` is new under a protected path", change.path));
                }
                _ => {}
            }
        }
        found
    }
}

/// Paths outside the loop's `allow_paths`; nothing is outside an empty list.
///
/// # Errors
/// A pattern is not a glob.
pub fn outside_allowed<S: AsRef<str>>(patterns: &[S], changes: &[Change]) -> Result<Vec<String>, GlobError> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let allowed = Globs::new(patterns)?;
    let paths = changes.iter().flat_map(Change::paths).filter(|path| !allowed.matches(path));
    Ok(paths.map(|path| format!("`{path}` is outside the allowed paths")).collect())
}

/// A path that always needs a human.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensitivePath {
    /// The path.
    pub path: String,
    /// What it can do.
    pub why: String,
}

/// A change with the bytes of both versions, as far as they exist.
#[derive(Debug, Clone, Copy)]
pub struct ChangedFile<'a> {
    /// The change.
    pub change: &'a Change,
    /// The bytes in base.
    pub before: Option<&'a [u8]>,
    /// The bytes in the sealed tree.
    pub after: Option<&'a [u8]>,
}

/// The built-in list: why, and the globs, matched whatever the case since some file systems fold it.
const SENSITIVE: [(&str, &[&str]); 6] = [
    (
        "continuous integration",
        &[
            ".github/**",
            "**/.gitlab-ci.yml",
            "**/.gitlab-ci.yaml",
            ".gitlab/**",
            ".circleci/**",
            "**/jenkinsfile*",
            ".forgejo/**",
            ".gitea/**",
            "**/azure-pipelines*.yml",
            "**/azure-pipelines*.yaml",
            ".azure-pipelines/**",
            ".buildkite/**",
            "**/bitbucket-pipelines.yml",
            ".travis.yml",
            "**/appveyor.yml",
            ".appveyor.yml",
            ".drone.yml",
            ".drone.star",
            ".woodpecker/**",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".teamcity/**",
            ".tekton/**",
            ".semaphore/**",
            ".cirrus.yml",
            ".cirrus.star",
            "**/cloudbuild.yaml",
            "**/buildspec.yml",
            ".ci/**",
            "**/codeowners",
        ],
    ),
    (
        "git hooks",
        &[
            "**/.husky/**",
            "**/.githooks/**",
            "**/.git-hooks/**",
            "**/.hooks/**",
            "**/.pre-commit-config.yaml",
            "**/.pre-commit-hooks.yaml",
            "**/lefthook*.y*ml",
            "**/.lefthook*.y*ml",
            "**/.overcommit.yml",
            "**/.lintstagedrc*",
            "**/lint-staged.config.*",
            "**/.gitattributes",
            "**/.gitmodules",
            "**/.lfsconfig",
        ],
    ),
    (
        "editor or agent settings",
        &[
            "**/.vscode/**",
            "**/.idea/**",
            "**/.fleet/**",
            "**/.zed/**",
            "**/.vim/**",
            "**/.nvim.lua",
            "**/.exrc",
            "**/.envrc",
            "**/.claude/**",
            "**/.claude.json",
            "**/.codex/**",
            "**/.gemini/**",
            "**/.opencode/**",
            "**/opencode.json*",
            "**/.cursor/**",
            "**/.cursorrules",
            "**/.windsurf/**",
            "**/.windsurfrules",
            "**/.clinerules",
            "**/.roo/**",
            "**/.continue/**",
            "**/.mcp.json",
            "**/mcp.json",
            "**/claude.md",
            "**/claude.local.md",
            "**/agents.md",
            "**/agent.md",
            "**/gemini.md",
            "**/.aider*",
            "**/.devcontainer/**",
            "**/.devcontainer.json",
            "**/.editorconfig-hooks",
        ],
    ),
    ("the loop files", &["**/.loopwright/**", "**/.loopwright.*", "loopwright.toml"]),
    (
        "the test runner's or build's hooks",
        &[
            "**/conftest.py",
            "**/sitecustomize.py",
            "**/usercustomize.py",
            "**/pyvenv.cfg",
            "**/*.pth",
            "**/setup.py",
            "**/setup.cfg",
            "**/pytest.ini",
            "**/.pytest.ini",
            "**/tox.ini",
            "**/noxfile.py",
            "**/.coveragerc",
            "**/build.rs",
            "**/.cargo/**",
            "**/rust-toolchain",
            "**/rust-toolchain.toml",
            "**/.config/nextest.toml",
            "**/clippy.toml",
            "**/.npmrc",
            "**/.yarnrc",
            "**/.yarnrc.yml",
            "**/.yarn/**",
            "**/.pnp.*",
            "**/.pnpmfile.cjs",
            "**/pnpmfile.js",
            "**/bunfig.toml",
            "**/.mocharc*",
            "**/jest.config.*",
            "**/jest.setup.*",
            "**/vitest.config.*",
            "**/vitest.workspace.*",
            "**/vitest.setup.*",
            "**/playwright.config.*",
            "**/karma.conf.*",
            "**/ava.config.*",
            "**/cypress.config.*",
            "**/.nycrc*",
            "**/.babelrc*",
            "**/babel.config.*",
            "**/node_modules/**",
            "**/vendor/bundle/**",
            "**/.bundle/**",
        ],
    ),
    (
        "tool versions and environments",
        &[
            "**/.tool-versions",
            "**/mise.toml",
            "**/.mise.toml",
            "**/.mise/**",
            "**/.python-version",
            "**/.node-version",
            "**/.nvmrc",
            "**/.ruby-version",
            "**/.sdkmanrc",
            "**/.env",
            "**/.env.*",
        ],
    ),
];

/// Finds changed paths that need a human: the built-in list, the loop's own additions, and manifests whose scripts changed.
///
/// # Errors
/// A pattern of `more` is not a glob.
pub fn sensitive<'a, S: AsRef<str>>(
    files: impl Iterator<Item = ChangedFile<'a>>,
    more: &[S],
) -> Result<Vec<SensitivePath>, GlobError> {
    static BUILT_IN: LazyLock<Vec<(&str, Globs)>> = LazyLock::new(|| {
        let build = |patterns| Globs::build(patterns, Case::Ignored).expect("the built-in globs are constants");
        SENSITIVE.iter().map(|(why, patterns)| (*why, build(patterns))).collect()
    });
    let more = ("named by the loop", Globs::build(more, Case::Ignored)?);
    let mut found: Vec<SensitivePath> = Vec::new();
    for file in files {
        for path in file.change.paths() {
            // A link in the place of a sensitive folder brings its files there under other names.
            let below = format!("{path}/x");
            let is_listed = |globs: &Globs| globs.matches(path) || globs.matches(&below);
            let listed = BUILT_IN.iter().chain([&more]).find(|(_, globs)| is_listed(globs)).map(|(why, _)| *why);
            let why = listed.or_else(|| manifest::changed_scripts(path, file.before, file.after));
            found.extend(why.map(|why| SensitivePath { path: path.to_owned(), why: why.to_owned() }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(path: &str) -> Option<String> {
        let change = Change::new(path, ChangeKind::Modified);
        let file = ChangedFile { change: &change, before: Some(b""), after: Some(b"x") };
        let found = sensitive([file].into_iter(), &["deploy/**"]).expect("the globs are right");
        found.into_iter().next().map(|one| one.why)
    }

    #[test]
    fn sensitive_paths_are_known_whatever_their_case_and_depth() {
        for path in [
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
        ] {
            assert!(why(path).is_some(), "{path}");
        }
        for path in
            ["src/main.rs", "README.md", "github/a.yml", "src/build.rs.txt", "tests/test_a.py", "docs/claude.txt"]
        {
            assert_eq!(why(path), None, "{path}");
        }
    }

    #[test]
    fn both_ends_of_a_rename_are_looked_at() {
        let change = Change::new("old.yml", ChangeKind::Renamed { from: ".github/ci.yml".into() });
        let file = ChangedFile { change: &change, before: None, after: None };
        assert_eq!(sensitive::<&str>([file].into_iter(), &[]).expect("globs").len(), 1);
    }

    #[test]
    fn protected_files_of_base_may_not_change() {
        let protected = Protected::new(&["tests/**", "spec"]).expect("globs");
        let changes = [
            Change::new("tests/a.py", ChangeKind::Modified),
            Change::new("tests/b.py", ChangeKind::Deleted),
            Change::new("src/c.py", ChangeKind::Renamed { from: "spec/c.py".into() }),
            Change::new("tests/d.py", ChangeKind::Renamed { from: "src/d.py".into() }),
            Change::new("tests/new.py", ChangeKind::Added),
            Change::new("src/x.py", ChangeKind::Modified),
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
    fn allowed_paths_bound_everything_else() {
        let changes = [Change::new("src/a.rs", ChangeKind::Modified), Change::new("b.rs", ChangeKind::Added)];
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
}

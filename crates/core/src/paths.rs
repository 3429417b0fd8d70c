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
const SENSITIVE: [(&str, &[&str]); 8] = [
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
            "**/buildspec*.y*ml",
            "**/cloudbuild*.y*ml",
            ".ci/**",
            ".builds/**",
            ".build.yml",
            ".harness/**",
            ".azuredevops/**",
            ".zuul.y*ml",
            "zuul.d/**",
            "**/bitrise.yml",
            "**/codemagic.yaml",
            "**/screwdriver.yaml",
            ".gitpod.yml",
            "netlify.toml",
            "vercel.json",
            "renovate.json*",
            ".renovaterc*",
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
            "**/*.code-workspace",
            "**/.dir-locals.el",
            "**/.vimrc",
            "**/.nvimrc",
            "**/.agents/**",
            "**/.kiro/**",
            "**/.junie/**",
            "**/.amazonq/**",
            "**/.augment/**",
            "**/.trae/**",
            "**/.qwen/**",
            "**/.kilocode/**",
            "**/.goosehints",
            "**/crush.json",
            "**/.crush.json",
            "**/.roomodes",
            "**/.roorules*",
            "**/warp.md",
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
            "**/node.config.json",
            "**/.taprc",
            "**/pytest.toml",
            "**/.pytest.toml",
            "**/tox.toml",
            "**/unittest.cfg",
            "**/nose2.cfg",
            "**/.swcrc",
            "**/vite.config.*",
            "**/webpack.config.*",
            "**/rollup.config.*",
            "**/tsconfig*.json",
            "**/jsconfig.json",
            "**/cmakepresets.json",
            "**/cmakeuserpresets.json",
            "**/build.gradle*",
            "**/settings.gradle*",
            "**/gradle.properties",
            "**/gradlew*",
            "**/gradle/wrapper/**",
            "**/.mvn/**",
            "**/go.work",
            "**/phpunit.xml*",
            "**/.rspec",
            "**/.config/cargo.toml",
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
    (
        "containers that others build",
        &[
            "**/dockerfile*",
            "**/*.dockerfile",
            "**/containerfile*",
            "**/docker-compose*.y*ml",
            "**/compose.y*ml",
            "**/docker-bake.*",
            "**/vagrantfile",
        ],
    ),
    (
        "compiled code that nobody can read",
        &[
            "**/__pycache__/**",
            "**/*.pyc",
            "**/*.pyo",
            "**/*.pyd",
            "**/*.so",
            "**/*.dylib",
            "**/*.dll",
            "**/*.node",
            "**/*.rlib",
            "**/*.rmeta",
            "**/*.egg-link",
            "**/*.egg-info/**",
            "**/*.dist-info/**",
            "**/target/debug/**",
            "**/target/release/**",
        ],
    ),
];

/// Modules of Python's own, and of its runners, that a file of the same name would stand in for.
const PYTHON_MODULES: &str = " __future__ _pytest abc argparse ast asyncio atexit base64 bdb builtins calendar cmd code codecs \
    collections compileall configparser contextlib contextvars copy coverage csv ctypes dataclasses datetime decimal difflib \
    dis doctest email encodings enum errno exceptiongroup faulthandler fnmatch fractions functools gc genericpath getopt \
    getpass gettext glob gzip hashlib heapq hmac html http hypothesis importlib inspect iniconfig io itertools json keyword \
    linecache locale logging marshal math mock multiprocessing nose nose2 nox numbers opcode operator os packaging pathlib \
    pdb pickle pkgutil platform pluggy posixpath pprint py py_compile pytest queue random re reprlib runpy select selectors \
    shlex shutil signal site socket ssl stat string struct subprocess sys sysconfig tempfile textwrap threading time timeit \
    tokenize tomllib tox trace traceback tracemalloc types typing unittest urllib uuid warnings weakref xml zipfile zipimport \
    zlib ";

/// Why a file in this place is loaded where another is meant; `in_base` says what base has.
fn stands_in(path: &str, in_base: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    let module = path.strip_suffix("/__init__.py").or_else(|| path.strip_suffix("/__main__.py"));
    let module = module.or_else(|| path.strip_suffix(".py"))?;
    let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
    // Runners put the root and the folders of tests and sources first; a package's own folder shadows nothing.
    let is_first = matches!(folder, "" | "tests" | "test" | "src" | "lib" | "spec");
    if is_first && PYTHON_MODULES.contains(&format!(" {name} ")) {
        return Some("a module that stands in for one of Python's own");
    }
    let is_package = path.ends_with("/__init__.py");
    (is_package && in_base(&format!("{module}.py"))).then_some("a package that stands in for a module")
}

/// Code of a package of tests runs before each of them; an empty file only marks the folder.
fn runs_before_tests(path: &str, after: Option<&[u8]>) -> bool {
    let is_package = path.strip_suffix("__init__.py").is_some_and(|folder| {
        folder.is_empty() || folder.split('/').any(|part| matches!(part, "tests" | "test" | "testing"))
    });
    let says_nothing = |line: &[u8]| line.trim_ascii().is_empty() || line.trim_ascii().starts_with(b"#");
    is_package && !after.unwrap_or_default().split(|byte| *byte == b'\n').all(says_nothing)
}

/// Finds changed paths that need a human: the built-in list, the loop's own additions, manifests whose scripts changed, and
/// files that are loaded in the place of others. `in_base` says whether base has a path.
///
/// # Errors
/// A pattern of `more` is not a glob.
pub fn sensitive<'a, S: AsRef<str>>(
    files: impl Iterator<Item = ChangedFile<'a>>,
    more: &[S],
    in_base: impl Fn(&str) -> bool,
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
            let why = why.or_else(|| file.before.is_none().then(|| stands_in(path, &in_base)).flatten());
            let why = why.or_else(|| runs_before_tests(path, file.after).then_some("code that runs before the tests"));
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
        let found = sensitive([file].into_iter(), &["deploy/**"], |_| false).expect("the globs are right");
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
    fn sensitive_paths_are_known_whatever_their_case_and_depth() {
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
    fn files_that_stand_in_for_others_are_told() {
        let new = |path: &str, text: &str| {
            let change = Change::new(path, ChangeKind::Added);
            let file = ChangedFile { change: &change, before: None, after: Some(text.as_bytes()) };
            let found = sensitive::<&str>([file].into_iter(), &[], |path| path == "sums.py").expect("globs");
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
    fn both_ends_of_a_rename_are_looked_at() {
        let change = Change::new("old.yml", ChangeKind::Renamed { from: ".github/ci.yml".into() });
        let file = ChangedFile { change: &change, before: None, after: None };
        assert_eq!(sensitive::<&str>([file].into_iter(), &[], |_| false).expect("globs").len(), 1);
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

//! Paths that always need a human: the built-in list, manifests whose scripts changed, and files that are loaded in
//! place of others. The caller decides how to handle them.

use super::{Case, ChangeKind, GlobError, Globs, PathChange, manifest};
use crate::words::worded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A path that always needs a human.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensitivePath {
    /// The path.
    pub path: String,
    /// The effect that the file can have.
    pub why: String,
    /// The kind that a loop may allow; `None` always needs a person.
    pub kind: Option<SensitiveKind>,
}

worded! {
    /// A kind of sensitive change that a loop may allow with a reason.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum SensitiveKind {
        /// A lock file whose sources or integrity moved.
        Lockfile = "lockfile",
        /// A dependency with a look-alike name, or a new source of packages.
        Dependency = "dependency",
        /// Files of continuous integration.
        Ci = "ci",
        /// Files that build containers.
        Container = "container",
        /// Instructions for agents, such as `AGENTS.md`.
        AgentInstructions = "agent-instructions",
        /// An ignore file that hides code.
        IgnoreFile = "ignore-file",
        /// Settings and hooks of test runners and builds.
        RunnerConfig = "runner-config",
    }
}

/// The reason of a package of tests with code in it.
pub const RUNS_BEFORE_TESTS: &str = "code that runs before the tests";

/// The kind of a reason of the built-in list.
fn kind_of(why: &str, path: &str) -> Option<SensitiveKind> {
    match why {
        "continuous integration" => Some(SensitiveKind::Ci),
        "containers that others build" => Some(SensitiveKind::Container),
        "the test runner's or build's hooks" | "code that runs before the tests" => Some(SensitiveKind::RunnerConfig),
        // Settings may start programs; texts only instruct.
        "editor or agent settings" if path.to_ascii_lowercase().ends_with(".md") => {
            Some(SensitiveKind::AgentInstructions)
        }
        _ => None,
    }
}

/// A change with the bytes of both versions, if they exist.
#[derive(Debug, Clone, Copy)]
pub struct ChangedFile<'a> {
    /// The change.
    pub change: &'a PathChange,
    /// The bytes in base.
    pub before: Option<&'a [u8]>,
    /// The bytes in the sealed tree.
    pub after: Option<&'a [u8]>,
}

/// The built-in list: the reason, and the globs separated by spaces. They are matched ignoring case, because some file
/// systems ignore it.
const SENSITIVE: [(&str, &str); 8] = [
    (
        "continuous integration",
        ".github/** **/.gitlab-ci.yml **/.gitlab-ci.yaml .gitlab/** .circleci/** **/jenkinsfile* .forgejo/** \
        .gitea/** **/azure-pipelines*.yml **/azure-pipelines*.yaml .azure-pipelines/** .buildkite/** \
        **/bitbucket-pipelines.yml .travis.yml **/appveyor.yml .appveyor.yml .drone.yml .drone.star .woodpecker/** \
        .woodpecker.yml .woodpecker.yaml .teamcity/** .tekton/** .semaphore/** .cirrus.yml .cirrus.star \
        **/cloudbuild.yaml **/buildspec*.y*ml **/cloudbuild*.y*ml .ci/** .builds/** .build.yml .harness/** \
        .azuredevops/** .zuul.y*ml zuul.d/** **/bitrise.yml **/codemagic.yaml **/screwdriver.yaml .gitpod.yml \
        netlify.toml vercel.json renovate.json* .renovaterc* **/codeowners",
    ),
    (
        "git hooks",
        "**/.husky/** **/.githooks/** **/.git-hooks/** **/.hooks/** **/.pre-commit-config.yaml \
        **/.pre-commit-hooks.yaml **/lefthook*.y*ml **/.lefthook*.y*ml **/.overcommit.yml **/.lintstagedrc* \
        **/lint-staged.config.* **/.gitattributes **/.gitmodules **/.lfsconfig",
    ),
    (
        "editor or agent settings",
        "**/.vscode/** **/.idea/** **/.fleet/** **/.zed/** **/.vim/** **/.nvim.lua **/.exrc **/.envrc **/.claude/** \
        **/.claude.json **/.codex/** **/.gemini/** **/.opencode/** **/opencode.json* **/.cursor/** **/.cursorrules \
        **/.windsurf/** **/.windsurfrules **/.clinerules **/.roo/** **/.continue/** **/.mcp.json **/mcp.json \
        **/claude.md **/claude.local.md **/agents.md **/agent.md **/gemini.md **/.aider* **/.devcontainer/** \
        **/.devcontainer.json **/*.code-workspace **/.dir-locals.el **/.vimrc **/.nvimrc **/.agents/** **/.kiro/** \
        **/.junie/** **/.amazonq/** **/.augment/** **/.trae/** **/.qwen/** **/.kilocode/** **/.goosehints \
        **/crush.json **/.crush.json **/.roomodes **/.roorules* **/warp.md",
    ),
    ("the loop files", "**/.loopwright/** **/.loopwright.* loopwright.toml"),
    (
        "the test runner's or build's hooks",
        "**/conftest.py **/sitecustomize.py **/usercustomize.py **/pyvenv.cfg **/*.pth **/setup.py **/setup.cfg \
        **/pytest.ini **/.pytest.ini **/tox.ini **/noxfile.py **/.coveragerc **/build.rs **/.cargo/** \
        **/rust-toolchain **/rust-toolchain.toml **/.config/nextest.toml **/clippy.toml **/.npmrc **/.yarnrc \
        **/.yarnrc.yml **/.yarn/** **/.pnp.* **/.pnpmfile.cjs **/pnpmfile.js **/bunfig.toml **/.mocharc* \
        **/jest.config.* **/jest.setup.* **/vitest.config.* **/vitest.workspace.* **/vitest.setup.* \
        **/playwright.config.* **/karma.conf.* **/ava.config.* **/cypress.config.* **/.nycrc* **/.babelrc* \
        **/babel.config.* **/node.config.json **/.taprc **/pytest.toml **/.pytest.toml **/tox.toml **/unittest.cfg \
        **/nose2.cfg **/.swcrc **/vite.config.* **/webpack.config.* **/rollup.config.* **/tsconfig*.json \
        **/jsconfig.json **/cmakepresets.json **/cmakeuserpresets.json **/build.gradle* **/settings.gradle* \
        **/gradle.properties **/gradlew* **/gradle/wrapper/** **/.mvn/** **/go.work **/phpunit.xml* **/.rspec \
        **/.config/cargo.toml **/node_modules/** **/vendor/bundle/** **/.bundle/**",
    ),
    (
        "tool versions and environments",
        "**/.tool-versions **/mise.toml **/.mise.toml **/.mise/** **/.python-version **/.node-version **/.nvmrc \
        **/.ruby-version **/.sdkmanrc **/.env **/.env.*",
    ),
    (
        "containers that others build",
        "**/dockerfile* **/*.dockerfile **/containerfile* **/docker-compose*.y*ml **/compose.y*ml **/docker-bake.* \
        **/vagrantfile",
    ),
    (
        "compiled code that cannot be reviewed",
        "**/__pycache__/** **/*.pyc **/*.pyo **/*.pyd **/*.so **/*.dylib **/*.dll **/*.node **/*.rlib **/*.rmeta \
        **/*.egg-link **/*.egg-info/** **/*.dist-info/** **/target/debug/** **/target/release/**",
    ),
];

/// Modules of Python and its test runners that a file of the same name would shadow.
const PYTHON_MODULES: &str = " __future__ _collections_abc _compat_pickle _compression _distutils_hack _markupbase \
    _py_abc _pydatetime _pydecimal _pyio _pytest _sitebuiltins _strptime _threading_local _weakrefset abc antigravity argparse array ast asyncio atexit attr attrs base64 bdb binascii bisect \
    builtins bz2 cProfile calendar cgi cmath cmd code codecs codeop collections colorsys compileall compression \
    concurrent configparser contextlib contextvars copy copyreg coverage csv ctypes curses dataclasses datetime \
    dbm decimal difflib dis doctest email encodings ensurepip enum errno exceptiongroup faulthandler fcntl \
    filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib \
    grp gzip hashlib heapq hmac html http hypothesis imaplib imghdr imp importlib iniconfig inspect io \
    ipaddress itertools json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap mock \
    modulefinder multiprocessing netrc nose nose2 nox ntpath nturl2path numbers opcode operator optparse os \
    packaging pathlib pdb pickle pickletools pipes pkgutil platform plistlib pluggy poplib posix posixpath \
    pprint profile pstats pty pwd py py_compile pyclbr pydoc pyexpat pygments pytest queue quopri random re \
    readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site \
    smtplib socket socketserver sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string \
    stringprep struct subprocess symtable sys sysconfig syslog tarfile tempfile termios textwrap this threading \
    time timeit tkinter token tokenize tomli tomllib tox trace traceback tracemalloc tty turtle types typing \
    typing_extensions unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser wsgiref xml \
    xmlrpc zipapp zipfile zipimport zlib zoneinfo ";

/// The reason why this file is loaded in place of another; `in_base` returns whether base has a path.
fn stands_in(path: &str, in_base: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    let module = path.strip_suffix("/__init__.py").or_else(|| path.strip_suffix("/__main__.py"));
    let module = module.or_else(|| path.strip_suffix(".py"))?;
    let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
    // Runners search the root and the folders of tests and sources first; a package's own folder shadows nothing.
    let is_first = matches!(folder, "" | "tests" | "test" | "src" | "lib" | "spec");
    if is_first && PYTHON_MODULES.contains(&format!(" {name} ")) {
        return Some("a module that shadows one of Python's own");
    }
    let is_package = path.ends_with("/__init__.py");
    (is_package && in_base(&format!("{module}.py"))).then_some("a package that shadows a module")
}

/// Code in a package of tests runs before each of them; an empty file only marks the folder.
fn runs_before_tests(path: &str, after: Option<&[u8]>) -> bool {
    let is_package = path.strip_suffix("__init__.py").is_some_and(|folder| {
        folder.is_empty() || folder.split('/').any(|part| matches!(part, "tests" | "test" | "testing"))
    });
    let says_nothing = |line: &[u8]| line.trim_ascii().is_empty() || line.trim_ascii().starts_with(b"#");
    is_package && !after.unwrap_or_default().split(|byte| *byte == b'\n').all(says_nothing)
}

/// Whether a file only configures a test runner, by its name. Gates use base's version of it, and run without it if it is
/// new.
#[must_use]
pub fn is_runner_config(path: &str) -> bool {
    static NAMES: LazyLock<Globs> = LazyLock::new(|| {
        let names = "**/conftest.py **/pytest.ini **/.pytest.ini **/tox.ini **/pytest.toml **/.pytest.toml **/.coveragerc \
            **/unittest.cfg **/nose2.cfg **/jest.config.* **/jest.setup.* **/vitest.config.* **/vitest.workspace.* \
            **/vitest.setup.* **/.mocharc* **/ava.config.* **/karma.conf.* **/.taprc **/.nycrc* **/.rspec \
            **/phpunit.xml* **/.config/nextest.toml";
        Globs::build(&names.split_whitespace().collect::<Vec<_>>(), Case::Ignored).expect("the globs are constants")
    });
    NAMES.matches(path)
}

/// Finds changed paths that need a human: the built-in list, the loop's own additions, manifests whose scripts changed,
/// and files that are loaded in place of others. `in_base` returns whether base has a path.
///
/// # Errors
/// A pattern of `more` is not a glob.
pub fn find_sensitive<'a, S: AsRef<str>>(
    files: impl Iterator<Item = ChangedFile<'a>>,
    more: &[S],
    in_base: impl Fn(&str) -> bool,
) -> Result<Vec<SensitivePath>, GlobError> {
    static BUILT_IN: LazyLock<Vec<(&str, Globs)>> = LazyLock::new(|| {
        let build = |globs: &str| Globs::build(&globs.split_whitespace().collect::<Vec<_>>(), Case::Ignored);
        SENSITIVE.map(|(why, globs)| (why, build(globs).expect("the built-in globs are constants"))).into()
    });
    let more = ("named by the loop", Globs::build(more, Case::Ignored)?);
    let files: Vec<ChangedFile<'_>> = files.collect();
    let is_deleted =
        |path: &str| files.iter().any(|file| file.change.path == path && file.change.kind == ChangeKind::Deleted);
    let in_base = |path: &str| in_base(path) && !is_deleted(path);
    let mut found: Vec<SensitivePath> = Vec::new();
    for file in &files {
        for path in file.change.paths() {
            // A link in place of a sensitive folder makes its files appear under other names.
            let below = format!("{path}/x");
            let is_listed = |globs: &Globs| globs.matches(path) || globs.matches(&below);
            let listed = BUILT_IN.iter().chain([&more]).find(|(_, globs)| is_listed(globs)).map(|(why, _)| *why);
            let why = listed.or_else(|| manifest::changed_scripts(path, file.before, file.after));
            let why = why.or_else(|| file.before.is_none().then(|| stands_in(path, &in_base)).flatten());
            let why = why.or_else(|| runs_before_tests(path, file.after).then_some(RUNS_BEFORE_TESTS));
            let kind = why.and_then(|why| kind_of(why, path));
            found.extend(why.map(|why| SensitivePath { path: path.to_owned(), why: why.to_owned(), kind }));
        }
    }
    Ok(found)
}

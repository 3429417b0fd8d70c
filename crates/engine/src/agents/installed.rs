//! Finds the agents on this machine: the first executable of each name on the sandbox's PATH, its real file, and its
//! version. Starts nothing, except for a version that no file contains.

use super::driven_agents::dialect;
use crate::path_roots::follow_links;
use crate::proc::{CancelToken, ProcessRunner, RunEnd, RunLimits, SpawnRequest, TreeCookie, base_env, trusted_path};
use loopwright_core::spec::AgentUse;
use serde::Deserialize;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of folders above a program that are searched for its package description.
const PACKAGE_DEPTH: usize = 5;
/// Bytes of a `package.json`; a real one has a few thousand.
const PACKAGE_MAX: u64 = 1 << 20;

/// An agent's program on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledAgent {
    /// Which agent.
    pub agent: AgentUse,
    /// Its program, links followed.
    pub program: PathBuf,
    /// Its version, if a file contains it.
    pub version: Option<String>,
    /// The Node.js that runs it, for a program that is a script.
    node: Option<PathBuf>,
}

/// Searches for an agent in the system's program folders and on `path`, in the order of a sandbox's PATH. A program
/// inside the repository is never used as the user's.
#[must_use]
pub fn find(agent: AgentUse, path: &[PathBuf], repo: Option<&Path>) -> Option<InstalledAgent> {
    dialect(agent).and_then(|_| find_as(agent, agent.word(), path, repo))
}

/// The same for a program of any name.
pub(super) fn find_as(agent: AgentUse, name: &str, path: &[PathBuf], repo: Option<&Path>) -> Option<InstalledAgent> {
    let repo = repo.map(follow_links);
    let allowed = |program: &Path| repo.as_deref().is_none_or(|repo| !program.starts_with(repo));
    let (folder, found) = find_executable(name, path, &allowed)?;
    let version = package(&found).map(|(_, version)| version);
    let program = native(agent, &found).filter(|native| allowed(native)).unwrap_or(found);
    let node = if is_node_script(&program) { node(&folder, path, &allowed) } else { None };
    Some(InstalledAgent { agent, program, version, node })
}

/// The command that installs it; `None` for an agent without a program of its own.
#[must_use]
pub fn install_hint(agent: AgentUse) -> Option<String> {
    let package = dialect(agent)?.package;
    Some(format!("`npm install -g {package}` with Node.js 22 or later, and make sure that it is on PATH"))
}

impl InstalledAgent {
    /// A program whose path is known.
    #[must_use]
    pub fn from_path(agent: AgentUse, program: PathBuf) -> Self {
        let version = package(&follow_links(&program)).map(|(_, version)| version);
        Self { agent, version, program, node: None }
    }

    /// The same for a path of the workspace, whose version is not known.
    pub(super) fn in_workspace(agent: AgentUse, program: PathBuf) -> Self {
        Self { agent, program, version: None, node: None }
    }

    /// The file that is executed: the program, or its interpreter.
    pub(super) fn executable(&self) -> &Path {
        self.node.as_deref().unwrap_or(&self.program)
    }

    /// The program as an argument, if an interpreter runs it.
    pub(super) fn script_argument(&self) -> Option<&Path> {
        self.node.as_ref().map(|_| self.program.as_path())
    }

    /// The folder that a script needs besides itself: that of its package. `None` for a native program.
    pub(super) fn package_folder(&self) -> Option<&Path> {
        package(self.script_argument()?).map(|(folder, _)| folder)
    }

    /// The version, queried from the program if no file contains it. `scratch` is a folder for its HOME.
    pub async fn query_version(&self, proc: &ProcessRunner, scratch: &Path) -> Option<String> {
        if self.version.is_some() {
            return self.version.clone();
        }
        let mut spawn = SpawnRequest::new(self.executable(), scratch, TreeCookie::new("lw-version"));
        let folder = self.program.parent().map(Path::to_owned);
        spawn.env = base_env(scratch, scratch, folder.as_slice());
        spawn.args = self.script_argument().map(Into::into).into_iter().chain(["--version".into()]).collect();
        spawn.limits = RunLimits { wall: Some(VERSION_TIMEOUT), output_max: 64 << 10, ..RunLimits::default() };
        let ended = proc.run(spawn, &mut (), &CancelToken::new(), |_| ()).await.ok()?;
        if ended.how == RunEnd::Exited(0) { version_in(&ended.stdout.to_lossy_string()) } else { None }
    }
}

/// The first executable of a name: the folder it was found in, and its real file.
fn find_executable(name: &str, path: &[PathBuf], allowed: &dyn Fn(&Path) -> bool) -> Option<(PathBuf, PathBuf)> {
    let system: Vec<_> = std::env::split_paths(trusted_path()).collect();
    let folders = path.iter().chain(&system);
    let candidates = folders.map(|folder| (folder.clone(), follow_links(&folder.join(name))));
    candidates.into_iter().find(|(_, program)| is_executable(program) && allowed(program))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The program that a package's script only starts. For Codex it is in a package for the platform, beside its own or in
/// it.
fn native(agent: AgentUse, script: &Path) -> Option<PathBuf> {
    if agent != AgentUse::Codex || script.extension() != Some(OsStr::new("js")) {
        return None;
    }
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let platform = format!("codex-linux-{arch}");
    let package = script.parent()?.parent()?;
    let places = [package.with_file_name(&platform), package.join("node_modules/@openai").join(&platform)];
    let builds = places.iter().filter_map(|place| std::fs::read_dir(place.join("vendor")).ok()).flatten().flatten();
    builds.map(|build| build.path().join("bin/codex")).find(|program| is_executable(program))
}

fn is_node_script(program: &Path) -> bool {
    let mut start = [0_u8; 64];
    let read = std::fs::File::open(program).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let first = start[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"#!") && first.windows(4).any(|part| part == b"node")
}

/// The Node.js of a script: the one beside it, then the user's own, then the system's, which may be older.
fn node(folder: &Path, path: &[PathBuf], allowed: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let beside = follow_links(&folder.join("node"));
    let own = std::iter::once(beside).chain(path.iter().map(|folder| follow_links(&folder.join("node"))));
    let own = own.into_iter().find(|node| is_executable(node) && allowed(node));
    own.or_else(|| Some(find_executable("node", &[], allowed)?.1))
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// The nearest folder above a program that is described as a package, and its version.
fn package(program: &Path) -> Option<(&Path, String)> {
    let folders = program.ancestors().skip(1).take(PACKAGE_DEPTH);
    folders.into_iter().find_map(|folder| {
        let mut text = String::new();
        let file = std::fs::File::open(folder.join("package.json")).ok()?;
        file.take(PACKAGE_MAX).read_to_string(&mut text).ok()?;
        let package: Package = serde_json::from_str(&text).ok()?;
        (!package.name.is_empty()).then_some((folder, package.version))
    })
}

/// The first word of a text that looks like a version.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || "()/,".contains(c));
    let plain = words.map(|word| word.strip_prefix('v').unwrap_or(word));
    let versions = plain.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    versions.map(|word| word.chars().take(60).collect()).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a temporary folder"))
        }

        fn at(&self, name: &str) -> PathBuf {
            follow_links(self.0.path()).join(name)
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.at(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        }

        fn link(&self, name: &str, target: &str) {
            let path = self.at(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            symlink(target, path).expect("a link");
        }
    }

    #[test]
    fn npm_layout_gives_program_version_and_native_binary() {
        let world = World::new();
        world.file("node_modules/@openai/codex/bin/codex.js", "#!/usr/bin/env node\n");
        world.file("node_modules/@openai/codex/package.json", r#"{"name":"@openai/codex","version":"0.166.0"}"#);
        world.link("node_modules/.bin/codex", "../@openai/codex/bin/codex.js");
        let path = [world.at("node_modules/.bin")];
        let shim = find(AgentUse::Codex, &path, None).expect("it is there");
        assert_eq!(shim.program, world.at("node_modules/@openai/codex/bin/codex.js"));
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let native = format!("node_modules/@openai/codex-linux-{arch}/vendor/some-triple/bin/codex");
        world.file(&native, "\x7fELF");
        let found = find(AgentUse::Codex, &path, None).expect("it is there");
        assert_eq!(found.program, world.at(&native));
        assert_eq!(found.version.as_deref(), Some("0.166.0"));
        assert_eq!(found.script_argument(), None);
    }

    #[test]
    fn script_is_run_by_the_node_beside_it() {
        let world = World::new();
        world.file("prefix/bin/node", "\x7fELF");
        world.file("prefix/lib/node_modules/@google/gemini-cli/bundle/gemini.js", "#!/usr/bin/env -S node --x\n");
        world.link("prefix/bin/gemini", "../lib/node_modules/@google/gemini-cli/bundle/gemini.js");
        let found = find(AgentUse::Gemini, &[world.at("prefix/bin")], None).expect("it is there");
        assert_eq!(found.executable(), world.at("prefix/bin/node"));
        assert_eq!(found.script_argument(), Some(found.program.as_path()));
        assert_eq!(found.package_folder(), None);
        world.file("prefix/lib/node_modules/@google/gemini-cli/package.json", r#"{"name":"gemini","version":"1.0"}"#);
        assert_eq!(found.package_folder(), Some(world.at("prefix/lib/node_modules/@google/gemini-cli").as_path()));
    }

    #[test]
    fn program_of_the_repository_is_never_used_as_the_users_own() {
        let world = World::new();
        world.file("repo/tools/claude", "\x7fELF");
        world.link("bin/claude", "../repo/tools/claude");
        world.file("other/claude", "\x7fELF");
        let path = [world.at("bin"), world.at("other")];
        let found = find(AgentUse::Claude, &path, Some(&world.at("repo"))).expect("the other one");
        assert_eq!(found.program, world.at("other/claude"));
        assert_eq!(find(AgentUse::Claude, &path[..1], Some(&world.at("repo"))), None);
    }

    #[test]
    fn versions_are_found_in_the_output_of_programs() {
        let cases = [("2.1.325 (Claude Code)", "2.1.325"), ("codex-cli 0.166.0\n", "0.166.0"), ("v1.18.33", "1.18.33")];
        for (text, version) in cases {
            assert_eq!(version_in(text).as_deref(), Some(version));
        }
        assert_eq!(version_in("no version 7 here"), None);
    }
}

//! Decides before the maker runs which program each gate will execute: a program of the trusted path, or a script in
//! base. Nothing a maker writes can change that later.

use super::GateEnv;
use crate::proc;
use loopwright_core::inventory::{TestSuite, is_suite, test_folder};
use loopwright_core::paths::Globs;
use loopwright_core::spec::{Gate, RunGate};
use loopwright_sandbox::resolve_program;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The program that a gate executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateProgram {
    /// A program of this machine.
    Installed(PathBuf),
    /// A script of the repository, by its path there; base's version runs.
    Script(String),
    /// No installed program has this name; the gate will fail.
    Missing(String),
}

impl GateProgram {
    /// Its file, for a checkout in this folder.
    pub(super) fn path_in(&self, checkout: &Path) -> PathBuf {
        match self {
            Self::Installed(path) => path.clone(),
            Self::Script(path) => checkout.join(path),
            Self::Missing(name) => PathBuf::from(name),
        }
    }
}

/// A run gate, resolved.
#[derive(Debug, Clone)]
pub struct ResolvedRun {
    /// The gate as declared.
    pub gate: RunGate,
    /// The program it executes.
    pub program: GateProgram,
    /// Globs of the files that decide it: the declared ones, and every file of base that the command names.
    pub inputs: Vec<String>,
    /// Files that its program reads although the command does not name them, whether base has them or not.
    pub unasked: Vec<String>,
    /// The folders of base that hold tests.
    pub test_folders: Vec<String>,
    print: Option<FileFingerprint>,
}

impl ResolvedRun {
    /// Whether the installed program is still the file that was found before the maker ran.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.print == FileFingerprint::read(&self.program)
    }
}

/// Distinguishes a file from a replacement at the same path: only the system can set the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileFingerprint {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileFingerprint {
    fn read(program: &GateProgram) -> Option<Self> {
        let GateProgram::Installed(path) = program else { return None };
        let about = std::fs::metadata(path).ok()?;
        Some(Self {
            file: (about.dev(), about.ino()),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

/// A gate, resolved.
#[derive(Debug, Clone)]
pub(super) enum ResolvedGate {
    Run(Box<ResolvedRun>),
    Mechanical(Box<Gate>),
}

/// All gates of a loop, resolved and in order.
#[derive(Debug, Clone, Default)]
pub struct ResolvedGates {
    pub(super) gates: Vec<ResolvedGate>,
}

impl ResolvedGates {
    /// The gates that run on base before the maker.
    pub fn on_base(&self) -> impl Iterator<Item = &ResolvedRun> {
        self.runs().filter(|run| run.gate.red_before || super::needs_base(&run.gate))
    }

    /// The gates that run a command.
    pub fn runs(&self) -> impl Iterator<Item = &ResolvedRun> {
        self.gates.iter().filter_map(|gate| match gate {
            ResolvedGate::Run(run) => Some(run.as_ref()),
            ResolvedGate::Mechanical(_) => None,
        })
    }
}

/// A gate declaration that is not allowed: exit 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The script is not in base.
    #[error("gate script `{0}` is not in base")]
    NotInBase(String),
    /// The script is a path out of the repository.
    #[error("gate script `{0}` leads out of the repository")]
    Outside(String),
    /// There is no command.
    #[error("gate `{0}` has no command")]
    Empty(String),
}

/// Programs that run the file their first argument names.
const INTERPRETERS: [&str; 15] = [
    "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "ruby", "perl", "php", "lua", "Rscript", "deno",
    "bun",
];

/// Files that a program reads although no argument names them.
const IMPLICIT: [(&str, &[&str]); 3] = [
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
];

/// Resolves every gate against base's paths and the trusted path.
///
/// # Errors
/// Every gate whose script base does not have.
pub fn resolve(
    gates: &[Gate],
    base_paths: &BTreeSet<String>,
    env: &GateEnv,
) -> Result<ResolvedGates, Vec<ResolveError>> {
    resolve_with(gates, base_paths, &mut |word| find_installed(word, env))
}

/// As [`resolve`], with the caller's search for installed programs, so that a check of many loops searches for each
/// program once.
///
/// # Errors
/// Every gate whose script base does not have.
pub fn resolve_with(
    gates: &[Gate],
    base_paths: &BTreeSet<String>,
    installed: &mut dyn FnMut(&str) -> GateProgram,
) -> Result<ResolvedGates, Vec<ResolveError>> {
    let mut resolved = ResolvedGates::default();
    let mut errors = Vec::new();
    for gate in gates {
        match gate {
            Gate::Run(run) => match resolve_run(run, base_paths, installed) {
                Ok(run) => resolved.gates.push(ResolvedGate::Run(Box::new(run))),
                Err(error) => errors.push(error),
            },
            other => resolved.gates.push(ResolvedGate::Mechanical(Box::new(other.clone()))),
        }
    }
    if errors.is_empty() { Ok(resolved) } else { Err(errors) }
}

fn resolve_run(
    gate: &RunGate,
    base: &BTreeSet<String>,
    installed: &mut dyn FnMut(&str) -> GateProgram,
) -> Result<ResolvedRun, ResolveError> {
    let Some(first) = gate.run.first().filter(|word| !word.is_empty()) else {
        return Err(ResolveError::Empty(gate.name.clone()));
    };
    let program = match first.contains('/') && !first.starts_with('/') {
        true => GateProgram::Script(in_base(first, base)?),
        false => installed(first),
    };
    if let Some(script) = interpreted(&gate.run) {
        in_base(script, base)?;
    }
    let named = gate.run.iter().filter_map(|word| file_word(word)).filter(|path| base.contains(path));
    let name = first.rsplit('/').next().unwrap_or(first);
    let unasked = IMPLICIT.iter().filter(|(known, _)| *known == name).flat_map(|(_, files)| files.iter());
    let unasked: Vec<String> = unasked.map(|file| (*file).to_owned()).collect();
    let implicit = unasked.iter().filter(|file| base.contains(*file)).cloned();
    let mut inputs: Vec<String> = named.chain(implicit).map(|path| escape_glob(&path)).collect();
    inputs.extend(gate.inputs.iter().flatten().cloned());
    let test_folders = test_folders(base, &inputs);
    Ok(ResolvedRun {
        gate: gate.clone(),
        print: FileFingerprint::read(&program),
        program,
        inputs,
        unasked,
        test_folders,
    })
}

/// The folders named like folders of tests in which base has a test or a gate's input.
fn test_folders(base: &BTreeSet<String>, inputs: &[String]) -> Vec<String> {
    let globs = Globs::new(inputs).ok();
    let holds_tests = |path: &&String| {
        let suite = TestSuite::from_path(path);
        let is_test = matches!(suite, Some(TestSuite::JavaScript | TestSuite::Go | TestSuite::Shell)) || is_suite(path);
        is_test || globs.as_ref().is_some_and(|globs| globs.matches(path))
    };
    let folders: BTreeSet<&str> = base.iter().filter(holds_tests).filter_map(|path| test_folder(path)).collect();
    folders.into_iter().map(str::to_owned).collect()
}

/// The program that a held-out check executes. A path is inside the candidate, because the candidate is under test.
pub(super) fn heldout_program(run: &[String], env: &GateEnv) -> GateProgram {
    let first = run.first().map_or("", String::as_str);
    if first.contains('/') && !first.starts_with('/') {
        return normalise(first).map_or_else(|| GateProgram::Missing(first.to_owned()), GateProgram::Script);
    }
    find_installed(first, env)
}

/// A program of this machine, by its absolute path or by its name in the trusted path.
///
/// It looks at every folder of the path.
#[must_use]
pub fn find_installed(word: &str, env: &GateEnv) -> GateProgram {
    let path = proc::base_env(Path::new("/"), Path::new("/"), &env.extra_path);
    let path = path.get(OsStr::new("PATH")).map_or(OsStr::new(""), |path| path.as_os_str());
    let found = resolve_program(word, path, Path::new("/"));
    found.map_or_else(|| GateProgram::Missing(word.to_owned()), GateProgram::Installed)
}

fn in_base(word: &str, base: &BTreeSet<String>) -> Result<String, ResolveError> {
    let path = normalise(word).ok_or_else(|| ResolveError::Outside(word.to_owned()))?;
    if base.contains(&path) { Ok(path) } else { Err(ResolveError::NotInBase(path)) }
}

/// The script that an interpreter's first argument names; `None` after a flag, which may take code or a module.
fn interpreted(run: &[String]) -> Option<&str> {
    let (first, rest) = run.split_first()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    // A flag may take a value or code of its own, so only a plain first argument is certainly a script.
    let script = rest.first().filter(|word| !word.starts_with('-') && !word.starts_with('/'))?;
    let looks_like_file = script.contains('/') || script.contains('.');
    looks_like_file.then_some(script.as_str())
}

/// The part of a word that can name a file, also after `--flag=`.
fn file_word(word: &str) -> Option<String> {
    let value = if word.starts_with('-') { word.split_once('=').map(|(_, value)| value)? } else { word };
    normalise(value)
}

/// The path as git spells it; `None` if it is absolute or leads out of the repository.
fn normalise(word: &str) -> Option<String> {
    if word.starts_with('/') || word.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in word.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Escapes a path so that, as a glob, it matches only itself.
fn escape_glob(path: &str) -> String {
    path.chars().fold(String::new(), |mut out, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str], base: &[&str]) -> Result<ResolvedRun, ResolveError> {
        let base = base.iter().map(|path| (*path).to_owned()).collect();
        let gate = RunGate::new("g", words.iter().map(|word| (*word).to_owned()).collect());
        resolve_run(&gate, &base, &mut |word| find_installed(word, &GateEnv::default()))
    }

    #[test]
    fn scripts_must_be_in_base() {
        let fine = run(&["./check.sh", "--config=conf/a.toml"], &["check.sh", "conf/a.toml"]).expect("in base");
        assert_eq!(fine.program, GateProgram::Script("check.sh".to_owned()));
        assert_eq!(fine.inputs, ["check.sh", "conf/a.toml"]);
        for words in [&["./check.sh"] as &[&str], &["sh", "check.sh"], &["python3", "tests/run.py"], &["a/../check.sh"]]
        {
            let error = run(words, &["other.sh"]).expect_err("not in base");
            assert!(error.to_string().ends_with("is not in base"), "{error}");
        }
        assert!(matches!(run(&["../x"], &["x"]), Err(ResolveError::Outside(_))));
        assert!(matches!(run(&[], &[]), Err(ResolveError::Empty(_))));
    }

    #[test]
    fn names_are_looked_up_in_the_trusted_path_only() {
        let found = run(&["sh", "-c", "true"], &["sh"]).expect("sh is a name");
        assert!(matches!(found.program, GateProgram::Installed(path) if path.is_absolute()));
        let missing = run(&["no-such-program-here"], &["no-such-program-here"]).expect("a name");
        assert_eq!(missing.program, GateProgram::Missing("no-such-program-here".to_owned()));
    }

    #[test]
    fn a_program_that_changes_after_it_was_found_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runner");
        let write = |text: &str| std::fs::write(&path, text).expect("writes");
        write("#!/bin/sh\nexit 1\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("executable");
        let found = run(&[path.to_str().expect("text")], &[]).expect("a program");
        assert!(matches!(found.program, GateProgram::Installed(_)) && found.is_unchanged());
        write("#!/bin/sh\nexit 0\n");
        assert!(!found.is_unchanged());
        std::fs::remove_file(&path).expect("removes");
        assert!(!found.is_unchanged());
    }

    #[test]
    fn files_that_programs_read_unasked_are_inputs() {
        assert_eq!(run(&["make", "test"], &["Makefile"]).expect("a name").inputs, ["Makefile"]);
        assert_eq!(run(&["env", "a[1].sh"], &["a[1].sh"]).expect("a name").inputs, ["a\\[1\\].sh"]);
    }
}

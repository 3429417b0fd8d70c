//! The kind of a repository, from the files of a commit: which ecosystems it has, which commands install its
//! dependencies, and which commands run its tests. These are proposals: `init` runs them once and writes the ones that
//! pass into a file that a person reads. This module starts no program and reads files only through its caller.

mod ci;
mod node;
mod python;
mod runners;
mod rust;

use crate::spec::Argv;
use std::collections::{BTreeMap, BTreeSet};

/// The most projects of a monorepo that get gates of their own.
const PARTS_MAX: usize = 6;
/// How many folders below the root a project of a monorepo may be.
const DEPTH_MAX: usize = 3;
/// Folders whose projects are material and not the product.
const SKIPPED: &str = "test tests fixture fixtures testdata test-data example examples sample samples demo demos doc docs vendor \
     third_party node_modules templates template bench benches benchmark benchmarks fuzz scripts hack";

/// The files of a commit.
pub struct ProjectFiles<'a> {
    /// The path of every file.
    pub paths: &'a BTreeSet<String>,
    /// Reads a file as text; `None` if it is missing, too large or not text.
    pub read: &'a dyn Fn(&str) -> Option<String>,
    /// Whether this machine has a program of this name.
    pub has_program: &'a dyn Fn(&str) -> bool,
}

impl ProjectFiles<'_> {
    /// The same files, seen from a folder; the root is the empty name.
    fn at<'s>(&'s self, folder: &'s str) -> ProjectFolder<'s> {
        ProjectFolder { files: self, folder }
    }
}

/// One folder of the commit.
#[derive(Clone, Copy)]
struct ProjectFolder<'a> {
    files: &'a ProjectFiles<'a>,
    folder: &'a str,
}

impl ProjectFolder<'_> {
    fn path(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    fn has(&self, name: &str) -> bool {
        self.files.paths.contains(&self.path(name))
    }

    fn text(&self, name: &str) -> String {
        if self.has(name) { (self.files.read)(&self.path(name)).unwrap_or_default() } else { String::new() }
    }

    fn toml(&self, name: &str) -> toml::Table {
        self.text(name).parse().unwrap_or_default()
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(name)).unwrap_or_default()
    }

    /// The paths below this folder, seen from it.
    fn below(&self) -> impl Iterator<Item = &str> {
        let prefix = self.path("");
        self.files.paths.iter().filter_map(move |path| path.strip_prefix(prefix.as_str()))
    }

    fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }
}

/// The commands that a repository needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectPlan {
    /// Commands that install the dependencies, in order.
    pub setup: Vec<Argv>,
    /// Gates that should pass on base.
    pub gates: Vec<PlannedGate>,
    /// The recognised ecosystems, for people: `Rust (cargo)`.
    pub kinds: Vec<String>,
    /// Further remarks for people.
    pub notes: Vec<String>,
}

/// One gate, with the commands that could be it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedGate {
    /// Its name.
    pub name: String,
    /// The command, then alternatives to try when it does not pass on base.
    pub runs: Vec<Argv>,
    /// Whether it stays in the loop when it does not pass on base.
    pub need: GateNeed,
}

/// Whether a loop keeps a gate that does not pass on base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateNeed {
    /// It stays: a loop without tests proves nothing.
    Kept,
    /// It is left out.
    OnlyIfGreen,
}

/// One project: its folder, and the commands of its ecosystem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ProjectPart {
    kind: &'static str,
    /// The tool that installs, for people.
    tool: String,
    setup: Vec<Argv>,
    runs: Vec<Argv>,
    notes: Vec<String>,
}

/// An ecosystem: the files that identify it, and its commands in a folder.
type Ecosystem = (&'static [&'static str], fn(ProjectFolder<'_>) -> Option<ProjectPart>);

const ECOSYSTEMS: [Ecosystem; 6] = [
    (&["Cargo.toml"], rust::part),
    (&["package.json"], node::part),
    (&python::MANIFESTS, python::part),
    (&["go.work", "go.mod"], runners::go),
    (&["pom.xml"], runners::maven),
    (&["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"], runners::gradle),
];

/// The commands of a repository.
#[must_use]
pub fn detect(files: &ProjectFiles<'_>) -> ProjectPlan {
    let mut found: Vec<(String, ProjectPart)> = Vec::new();
    let mut left_out = 0;
    for (manifests, part) in ECOSYSTEMS {
        for folder in project_folders(files, manifests) {
            let Some(part) = part(files.at(&folder)) else { continue };
            if found.len() < PARTS_MAX { found.push((folder, part)) } else { left_out += 1 }
        }
    }
    let root = files.at("");
    let hints = ci::test_commands(files);
    if found.is_empty() {
        found.extend(python::loose_tests(root).map(|part| (String::new(), part)));
    }
    if !found.iter().any(|(_, part)| !part.runs.is_empty()) {
        let runs: Vec<Argv> = runners::scripts(root).into_iter().chain(hints.clone()).collect();
        found.extend((!runs.is_empty()).then(|| (String::new(), ProjectPart { runs, ..ProjectPart::default() })));
    } else if let [(folder, part)] = found.as_mut_slice()
        && folder.is_empty()
    {
        // The commands of the CI file and of the Makefile are second choices: they often need more than this machine has.
        let others: Vec<Argv> = hints.into_iter().chain(runners::scripts(root)).collect();
        let is_new = |run: &Argv| !part.runs.contains(run) && !python::needs_other_venv(run);
        let others: Vec<Argv> = others.into_iter().filter(is_new).collect();
        part.runs.extend(others);
    }
    let mut plan = plan(found);
    if left_out > 0 {
        plan.notes.push(format!("{left_out} more projects were found; add gates for those that matter"));
    }
    runners::pre_commit(root, &mut plan);
    plan
}

/// The folders of an ecosystem: the root if it has a manifest, because workspaces are the tool's business; else the
/// highest folders that have one.
fn project_folders(files: &ProjectFiles<'_>, manifests: &[&str]) -> Vec<String> {
    if manifests.iter().any(|name| files.paths.contains(*name)) {
        return vec![String::new()];
    }
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    for path in files.paths {
        let Some((folder, name)) = path.rsplit_once('/') else { continue };
        let is_skipped =
            |part: &str| part.starts_with('.') || SKIPPED.split_whitespace().any(|skipped| skipped == part);
        let is_near = folder.split('/').count() <= DEPTH_MAX && !folder.split('/').any(is_skipped);
        if is_near && manifests.contains(&name) {
            folders.insert(folder);
        }
    }
    let is_top = |folder: &&str| !folders.iter().any(|other| is_below(folder, other));
    folders.iter().copied().filter(is_top).map(str::to_owned).collect()
}

fn is_below(folder: &str, other: &str) -> bool {
    folder.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

fn plan(found: Vec<(String, ProjectPart)>) -> ProjectPlan {
    let mut plan = ProjectPlan::default();
    let with_tests = found.iter().filter(|(_, part)| !part.runs.is_empty()).count();
    let mut in_one: BTreeMap<String, usize> = BTreeMap::new();
    found.iter().for_each(|(folder, _)| *in_one.entry(folder.clone()).or_default() += 1);
    for (folder, part) in found {
        plan.setup.extend(part.setup.into_iter().map(|run| in_folder(&folder, run)));
        plan.notes.extend(part.notes);
        if !part.kind.is_empty() {
            let place = if folder.is_empty() { String::new() } else { format!(" in {folder}") };
            plan.kinds.push(format!("{} ({}){place}", part.kind, part.tool));
        }
        if part.runs.is_empty() {
            continue;
        }
        let name = match (with_tests, folder.as_str()) {
            (1, _) => "tests".to_owned(),
            (_, "") => format!("tests-{}", gate_word(part.kind)),
            (_, folder) if in_one[folder] > 1 => format!("tests-{}-{}", gate_word(folder), gate_word(part.kind)),
            (_, folder) => format!("tests-{}", gate_word(folder)),
        };
        let runs = part.runs.into_iter().map(|run| in_folder(&folder, run)).collect();
        plan.gates.push(PlannedGate { name, runs, need: GateNeed::Kept });
    }
    plan
}

/// A part of a gate's name.
fn gate_word(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(safe).collect::<String>().trim_matches('-').to_owned()
}

/// A command that runs in a folder below the root, where gates and set-ups start.
fn in_folder(folder: &str, run: Argv) -> Argv {
    if folder.is_empty() {
        return run;
    }
    let skip = usize::from(run.first().is_some_and(|word| word == "env"));
    let start = ["env".to_owned(), format!("--chdir={folder}")];
    start.into_iter().chain(run.into_iter().skip(skip)).collect()
}

/// A command from its words.
fn argv(text: &str) -> Argv {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;

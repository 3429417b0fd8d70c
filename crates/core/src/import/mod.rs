//! Imports: loops that were written for another tool become loop files. Each module reads one format and decides what
//! its keys mean here; every key ends in a note. This module opens and writes no file.

pub mod harness;
pub mod item_keys;
pub mod pattern_library;
pub mod seed_specs;
mod tables;

use crate::name::LoopName;
use crate::spec::problem::ProblemKind;
use crate::spec::reader::value::{ProblemCollector, SpecValue};
use crate::spec::source::{SourceSpan, SourceText};
use crate::spec::tree::{self, YamlNode};
use crate::spec::{Argv, CheckedSpec, LoopSpec, SpecProblem, SpecProblems, WrittenLoop, write_loop_file};
use crate::words::worded;
use serde::Serialize;

worded! {
    /// The fate of a part of the source.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ImportEffect {
        /// It means the same here.
        Carried = "carried",
        /// It is carried over, and means something else here.
        Changed = "changed",
        /// It has no counterpart here.
        NotCarried = "not-carried",
    }
}

/// One line of the report of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportNote {
    /// The fate of the part.
    pub effect: ImportEffect,
    /// The file and the line, if there is one.
    pub source: String,
    /// The key, or the part of the file.
    pub key: String,
    /// The meaning here, with the reason for a difference.
    pub text: String,
}

/// The report of an import, in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportNotes(pub Vec<ImportNote>);

impl ImportNotes {
    fn add(&mut self, effect: ImportEffect, source: &str, key: &str, text: impl Into<String>) {
        self.0.push(ImportNote { effect, source: source.to_owned(), key: key.to_owned(), text: text.into() });
    }

    /// Adds a part that means the same here.
    pub fn carried(&mut self, source: &str, key: &str, text: impl Into<String>) {
        self.add(ImportEffect::Carried, source, key, text);
    }

    /// Adds a part that means something else here.
    pub fn changed(&mut self, source: &str, key: &str, text: impl Into<String>) {
        self.add(ImportEffect::Changed, source, key, text);
    }

    /// Adds a part without a counterpart.
    pub fn not_carried(&mut self, source: &str, key: &str, text: impl Into<String>) {
        self.add(ImportEffect::NotCarried, source, key, text);
    }
}

/// The facts of the repository and of the user's configuration that imported loops depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportFit<'a> {
    /// The command that runs the repository's tests.
    pub tests: Option<&'a [String]>,
    /// The commands that install what the tests need.
    pub setup: &'a [Argv],
    /// The checked-out branch.
    pub branch: Option<&'a str>,
    /// The checked-out commit.
    pub head: Option<&'a str>,
    /// The configured forge that has the repository.
    pub forge: Option<&'a str>,
    /// Whether the user's configuration has a Slack workspace.
    pub has_slack: bool,
}

/// A loop that an import writes.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedLoop {
    /// The file that it comes from.
    pub source: String,
    /// The loop.
    pub spec: CheckedSpec,
    /// Its file.
    pub written: WrittenLoop,
}

impl ImportedLoop {
    /// Checks a loop and writes its file.
    ///
    /// # Errors
    /// Violated rules, at the file that the loop comes from.
    pub fn new(source: &str, spec: LoopSpec, comments: &[String]) -> Result<Self, SpecProblems> {
        let at_source = |problems: SpecProblems| {
            let named = problems.into_iter().map(|problem| SpecProblem { file: source.to_owned(), ..problem });
            SpecProblems::new(named.collect())
        };
        let written = write_loop_file(&spec, comments).map_err(at_source)?;
        let spec = spec.check().map_err(at_source)?;
        Ok(Self { source: source.to_owned(), spec, written })
    }

    /// The name of its file in the folder of loops.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.spec.name(), self.written.ending)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &LoopName {
        self.spec.name()
    }
}

/// Reads a YAML or JSON file of another tool; every problem has its position.
fn read_tree<T>(file: &str, bytes: &[u8], read: impl FnOnce(&SpecValue<'_>) -> Option<T>) -> Result<T, SpecProblems> {
    let text = crate::spec::file::decode(file, bytes)?;
    let source = SourceText::new(file, text);
    let parsed = tree::parse(&source, text, 1).map_err(SpecProblems::new)?;
    let findings = ProblemCollector::new(&source);
    let found = read(&SpecValue::root(&findings, &parsed.root));
    let mut problems = parsed.problems;
    problems.extend(findings.into_problems());
    match found {
        Some(found) if problems.is_empty() => Ok(found),
        _ if problems.is_empty() => Err(whole_file(file, "the file has no content that can be imported", None)),
        _ => Err(SpecProblems::new(problems)),
    }
}

/// A problem of a file as a whole.
fn whole_file(file: &str, what: &str, hint: Option<&str>) -> SpecProblems {
    let (place, hint) = (SourceSpan::default(), hint.map(str::to_owned));
    let problem = SourceText::new(file, "").problem(ProblemKind::Value, place, what.to_owned(), hint);
    SpecProblems::new(vec![problem])
}

/// A file with the line of a value.
fn place(file: &str, node: &YamlNode) -> String {
    format!("{file}:{}", node.place.line)
}

/// Reports a name that no loop can have, with one that it could have.
fn check_name(at: &SpecValue<'_>, name: &str) {
    let Err(error) = LoopName::parse(name) else { return };
    let near: String = name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let near = near.trim_matches('-').to_owned();
    let hint = LoopName::parse(&near).ok().map(|near| format!("rename it to `{near}`"));
    let what = format!("{} is not a valid name for a loop: {error}", crate::spec::problem::quoted(name));
    at.add_problem(ProblemKind::Value, what, hint);
}

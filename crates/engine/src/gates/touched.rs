//! A candidate's changes to the files that decide a gate, and the runs that follow from them. Tests and everything beside
//! them come from base, whatever their names: a candidate is judged by the tests that its maker was given.

use super::GatesError;
use super::resolve::{ResolvedGates, ResolvedRun};
use crate::workspace::{ChangeStatus, SealedTree};
use loopwright_core::inventory::{is_suite, test_folder};
use loopwright_core::paths::{Globs, is_runner_config};
use std::collections::BTreeSet;

/// Every input of any gate that the candidate edited: base's version runs, and a person must review the edit.
///
/// # Errors
/// An input of a gate is not a glob.
pub fn edited_inputs(resolved: &ResolvedGates, sealed: &SealedTree) -> Result<Vec<String>, GatesError> {
    let mut edited = BTreeSet::new();
    for run in resolved.runs() {
        edited.extend(Touched::of(run, sealed)?.declared);
    }
    Ok(edited.into_iter().collect())
}

/// The changed files that a run gets from base: its inputs, the suites and everything else in folders of tests, and the
/// settings of runners.
///
/// # Errors
/// An input of a gate is not a glob.
pub fn restored_inputs(resolved: &ResolvedGates, sealed: &SealedTree) -> Result<Vec<String>, GatesError> {
    let mut restored = BTreeSet::new();
    for run in resolved.runs() {
        let touched = Touched::of(run, sealed)?;
        restored.extend(touched.edited.into_iter().chain(touched.declared));
    }
    Ok(restored.into_iter().collect())
}

/// The files of base that decide these runs, and the folders of tests beside them.
///
/// # Errors
/// An input of a gate is not a glob.
pub fn deciding_files(
    resolved: &ResolvedGates,
    base: &BTreeSet<String>,
) -> Result<(Vec<String>, Vec<String>), GatesError> {
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for run in resolved.runs() {
        let globs = Globs::new(&run.inputs)?;
        files.extend(base.iter().filter(|path| globs.matches(path)).cloned());
        folders.extend(run.test_folders.iter().cloned());
    }
    Ok((files.into_iter().collect(), folders.into_iter().collect()))
}

/// A candidate's changes to the files that decide a gate.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Files that are restored from base: the gate's inputs, suites that runners find by their names, everything else in
    /// the folders of tests, and the runners' own settings.
    pub(super) edited: Vec<String>,
    /// New files among or beside them.
    pub(super) new: Vec<String>,
    /// The files of both lists that need a person: declared inputs, and new files that a program reads before base's.
    pub(super) declared: Vec<String>,
    /// Whether a file among them is no suite: settings of a runner, helpers and data of tests.
    pub(super) has_support: bool,
}

impl Touched {
    pub(super) fn of(run: &ResolvedRun, sealed: &SealedTree) -> Result<Self, GatesError> {
        let globs = Globs::new(&run.inputs)?;
        let mut touched = Self::default();
        for change in &sealed.changes {
            let path = &change.path;
            let (is_input, outranks) = (globs.matches(path), run.unasked.contains(path));
            let is_new = change.status == ChangeStatus::Added;
            let is_beside =
                test_folder(path).is_some_and(|folder| run.test_folders.iter().any(|known| known == folder));
            if is_input || outranks || is_beside || is_suite(path) || is_runner_config(path) {
                if is_new { &mut touched.new } else { &mut touched.edited }.push(path.clone());
                touched.has_support |= is_runner_config(path) || (is_beside && !is_suite(path));
            }
            if outranks || (is_input && !is_new) {
                touched.declared.push(path.clone());
            }
        }
        Ok(touched)
    }

    /// The runs that together decide, strictest first.
    pub(super) fn looks(&self) -> Vec<GateRunView> {
        let new = (!self.new.is_empty()).then_some(GateRunView::WithoutNew);
        let edited = (!self.edited.is_empty()).then_some(GateRunView::AsSealed);
        new.into_iter().chain([GateRunView::WithBase]).chain(edited).collect()
    }

    /// The note in the report about a run that was not simply of the sealed tree.
    pub(super) fn run_note(&self, look: GateRunView) -> Option<String> {
        match look {
            GateRunView::WithoutNew => Some(format!("ran without the new {}", shorten(&self.new))),
            GateRunView::WithBase => {
                (!self.edited.is_empty()).then(|| format!("ran with base's {}", shorten(&self.edited)))
            }
            GateRunView::AsSealed => Some("ran again as sealed".to_owned()),
        }
    }
}

/// The files that one run of a gate sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateRunView {
    /// Base's inputs without the new ones.
    WithoutNew,
    /// Base's inputs and the new ones.
    WithBase,
    /// The candidate's own inputs.
    AsSealed,
}

fn shorten(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

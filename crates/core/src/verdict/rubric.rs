//! The dimensions on which a candidate is scored. `judge` applies floors and means.

use crate::spec::Rubric;

/// Whether the candidate changes the tree or has only staged items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeChange {
    /// Some files changed.
    Some,
    /// No file changed.
    None,
}

const CORRECTNESS: (&str, &str) = ("correctness", "it does what the intent asks, and what it says is true");
const SCOPE: (&str, &str) = ("scope", "nothing is done that the intent did not ask for");
const TESTS: (&str, &str) = ("tests", "the change is covered by tests that can fail, and none was weakened");

/// The dimensions with their meanings: the loop's own, else the built-in ones. Tests are only scored for a changed
/// tree.
#[must_use]
pub fn dimensions(rubric: &Rubric, change: TreeChange) -> Vec<(String, String)> {
    if !rubric.dimensions.is_empty() {
        return rubric.dimensions.iter().map(|(name, meaning)| (name.clone(), meaning.clone())).collect();
    }
    let built_in: &[_] = match change {
        TreeChange::Some => &[CORRECTNESS, SCOPE, TESTS],
        TreeChange::None => &[CORRECTNESS, SCOPE],
    };
    built_in.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned())).collect()
}

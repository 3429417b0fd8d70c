//! A file's text with its lines, from which problems get their place and snippet. Reads nothing itself.

use super::problem::{Problem, ProblemKind, Snippet};

/// A range of characters on one line. Line 0 stands for "no place": the value came from code, not from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// Line from 1.
    pub(crate) line: u32,
    /// Column from 1, in characters.
    pub(crate) column: u32,
    /// Characters meant, at least 1 when rendered.
    pub(crate) len: u32,
}

impl Place {
    /// A place by its numbers.
    pub(crate) fn new(line: usize, column: usize, len: usize) -> Self {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: small(line), column: small(column), len: small(len) }
    }
}

/// A named text, split into lines once.
#[derive(Debug)]
pub(crate) struct Source<'t> {
    file: String,
    lines: Vec<&'t str>,
}

impl<'t> Source<'t> {
    /// A file's text under the name that messages show.
    pub(crate) fn new(file: &str, text: &'t str) -> Self {
        Self { file: file.to_owned(), lines: text.lines().collect() }
    }

    /// The absence of a file, for values that come from code.
    pub(crate) fn none() -> Source<'static> {
        Source { file: String::new(), lines: Vec::new() }
    }

    /// A problem at a place of this text.
    pub(crate) fn problem(&self, kind: ProblemKind, place: Place, what: String, hint: Option<String>) -> Problem {
        let Place { line, column, len } = place;
        let text = (line as usize).checked_sub(1).and_then(|at| self.lines.get(at)).unwrap_or(&"");
        let snippet = Snippet::around(text, column, len);
        Problem { kind, file: self.file.clone(), line, column, len, what, hint, snippet }
    }
}

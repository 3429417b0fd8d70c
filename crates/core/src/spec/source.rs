//! A file's text with its lines, which gives problems their position and snippet. Reads nothing itself.

use super::problem::{ProblemKind, SourceSnippet, SpecProblem};
use std::cell::OnceCell;

/// A range of characters on one line. Line 0 means "no position": the value came from code, not from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SourceSpan {
    /// Line from 1.
    pub(crate) line: u32,
    /// Column from 1, in characters.
    pub(crate) column: u32,
    /// Number of characters, at least 1 when rendered.
    pub(crate) len: u32,
}

impl SourceSpan {
    /// A position by its numbers.
    pub(crate) fn new(line: usize, column: usize, len: usize) -> Self {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: small(line), column: small(column), len: small(len) }
    }
}

/// A text whose lines are split on first use, because most files have no problems.
#[derive(Debug)]
pub(crate) struct SourceLines<'t> {
    text: &'t str,
    starts: OnceCell<Vec<usize>>,
}

impl<'t> SourceLines<'t> {
    /// The lines of a text.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, starts: OnceCell::new() }
    }

    /// One of them, from 1, without its end.
    pub(crate) fn get(&self, line: usize) -> Option<&'t str> {
        let starts = || std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let start = *self.starts.get_or_init(starts).get(line.checked_sub(1)?)?;
        self.text.get(start..)?.lines().next()
    }
}

/// A named text.
#[derive(Debug)]
pub(crate) struct SourceText<'t> {
    file: &'t str,
    lines: SourceLines<'t>,
}

impl<'t> SourceText<'t> {
    /// A file's text under the name that messages show.
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, lines: SourceLines::new(text) }
    }

    /// The absence of a file, for values that come from code.
    pub(crate) fn none() -> SourceText<'static> {
        SourceText::new("", "")
    }

    /// A problem at a position of this text.
    pub(crate) fn problem(
        &self,
        kind: ProblemKind,
        place: SourceSpan,
        what: String,
        hint: Option<String>,
    ) -> SpecProblem {
        let SourceSpan { line, column, len } = place;
        let snippet = SourceSnippet::around(self.lines.get(line as usize).unwrap_or_default(), column, len);
        SpecProblem { kind, file: self.file.to_owned(), line, column, len, what, hint, snippet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_the_text_has() {
        for text in ["", "\n", "one", "one\r\n\ntwo\n", "\r\nä\n\n"] {
            let lines = SourceLines::new(text);
            let found: Vec<&str> = (1..).map_while(|line| lines.get(line)).collect();
            assert_eq!(found, text.lines().collect::<Vec<_>>(), "{text:?}");
            assert_eq!(lines.get(0), None);
        }
    }
}

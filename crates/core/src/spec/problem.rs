//! Problems of a file with their positions, and how they are shown: all at once, each with a caret and a hint.
//!
//! Rendering is plain text without colour; the command line prints it unchanged.

use serde::Serialize;
use std::fmt;

/// The kind of a problem, so that callers and tests need not parse text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The bytes cannot be parsed: encoding, front matter, YAML or JSON syntax.
    Syntax,
    /// A limit on size, depth or count was exceeded.
    Limit,
    /// An anchor, an alias or a merge key.
    Alias,
    /// The same key twice in one mapping.
    Duplicate,
    /// An unknown key.
    UnknownKey,
    /// A required key or section is missing.
    Missing,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that is not allowed.
    Value,
}

/// One problem and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecProblem {
    /// The kind.
    pub kind: ProblemKind,
    /// The file as it was named by the caller; empty for specs built in code.
    pub file: String,
    /// Line from 1; 0 if there is no position.
    pub line: u32,
    /// Column from 1, in characters; 0 if there is no position.
    pub column: u32,
    /// How many characters the caret marks.
    #[serde(skip)]
    pub len: u32,
    /// The problem.
    #[serde(rename = "text")]
    pub what: String,
    /// A suggested fix.
    pub hint: Option<String>,
    /// The text of that line, for the caret.
    #[serde(skip)]
    pub(crate) snippet: SourceSnippet,
}

/// The shown part of a line, already safe to print, with the caret's position in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceSnippet {
    text: String,
    indent: usize,
    carets: usize,
}

/// All problems of a file, in the order of their positions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct SpecProblems(Vec<SpecProblem>);

impl SpecProblems {
    /// Sorts the problems by position.
    #[must_use]
    pub fn new(mut problems: Vec<SpecProblem>) -> Self {
        problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        Self(problems)
    }

    /// Adds another file's problems.
    pub fn extend(&mut self, more: Self) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(more.0);
        *self = Self::new(all);
    }
}

impl IntoIterator for SpecProblems {
    type Item = SpecProblem;
    type IntoIter = std::vec::IntoIter<SpecProblem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl std::ops::Deref for SpecProblems {
    type Target = [SpecProblem];

    fn deref(&self) -> &[SpecProblem] {
        &self.0
    }
}

impl std::error::Error for SpecProblems {}

impl fmt::Display for SpecProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        let number = self.line.to_string();
        let gutter = " ".repeat(if self.line == 0 { 1 } else { number.len() });
        if self.line > 0 {
            write!(f, "\n {gutter}--> {}:{}:{}", printable(&self.file), self.line, self.column)?;
            let SourceSnippet { text, indent, carets } = &self.snippet;
            let (indent, carets) = (" ".repeat(*indent), "^".repeat((*carets).max(1)));
            write!(f, "\n {gutter} |\n {number} | {text}")?;
            write!(f, "\n {gutter} | {indent}{carets}")?;
        } else if !self.file.is_empty() {
            write!(f, "\n {gutter}--> {}", printable(&self.file))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n {gutter} = hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The most characters of a source line that are shown.
const WINDOW: usize = 100;
/// How many characters before the caret stay visible when a long line is cut.
const BEFORE: usize = 40;

impl SourceSnippet {
    /// Cuts a window around the caret out of a line and makes it safe to print.
    pub(crate) fn around(line: &str, column: u32, len: u32) -> Self {
        let at = (column as usize).saturating_sub(1);
        let start = if at + (len as usize) < WINDOW { 0 } else { at.saturating_sub(BEFORE) };
        let mut rest = line.chars().skip(start);
        let shown: Vec<char> = rest.by_ref().take(WINDOW).collect();
        let head = if start > 0 { "…" } else { "" };
        let tail = if rest.next().is_some() { "…" } else { "" };
        let width = |chars: &[char]| chars.iter().map(|c| shown_char(*c).chars().count()).sum::<usize>();
        let (before, from) = shown.split_at((at - start).min(shown.len()));
        // The scanner counts the blanks after some tokens as part of them; the caret leaves them out.
        let meant = &from[..from.len().min(len as usize)];
        let blanks = meant.iter().rev().take_while(|c| **c == ' ').count();
        let carets = width(&meant[..meant.len() - blanks]);
        let text: String = shown.iter().map(|c| shown_char(*c)).collect();
        Self { text: format!("{head}{text}{tail}"), indent: width(before) + head.chars().count(), carets }
    }
}

/// Escapes everything that could move the cursor, change colours or change the writing direction.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(shown_char).collect()
}

/// A piece of the user's text in a message: escaped, and cut if it is long.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let cut: String = text.chars().take(MOST).collect();
    let tail = if text.chars().nth(MOST).is_some() { "…" } else { "" };
    format!("`{}{tail}`", printable(&cut))
}

fn shown_char(c: char) -> String {
    match c {
        '\t' => "\\t".to_owned(),
        c if c.is_control() || is_invisible(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    }
}

/// Characters that print nothing or change the direction of the following text.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(line: &str, column: u32, len: u32, expect: &Expect) {
        let problem = SpecProblem {
            kind: ProblemKind::Value,
            file: "x.md".to_owned(),
            line: 4,
            column,
            len,
            what: "bad".to_owned(),
            hint: Some("good".to_owned()),
            snippet: SourceSnippet::around(line, column, len),
        };
        expect.assert_eq(&problem.to_string());
    }

    #[test]
    fn a_problem_points_at_its_characters() {
        check(
            "budjet: 3",
            1,
            6,
            &expect![[r#"
                error: bad
                  --> x.md:4:1
                   |
                 4 | budjet: 3
                   | ^^^^^^
                   = hint: good"#]],
        );
    }

    #[test]
    fn long_lines_are_cut_and_control_characters_escaped() {
        let line = format!("{}\u{1b}[31mx\u{202e}y", "a".repeat(200));
        check(
            &line,
            206,
            1,
            &expect![[r#"
                error: bad
                  --> x.md:4:206
                   |
                 4 | …aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u{1b}[31mx\u{202e}y
                   |                                               ^
                   = hint: good"#]],
        );
    }

    #[test]
    fn position_past_the_end_of_the_line_still_renders() {
        check(
            "ab",
            9,
            3,
            &expect![[r#"
                error: bad
                  --> x.md:4:9
                   |
                 4 | ab
                   |   ^
                   = hint: good"#]],
        );
    }
}

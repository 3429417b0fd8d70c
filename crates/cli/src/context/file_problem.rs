//! A problem in a file that people write, from any reader: one shape for terminals and for JSON.

use crate::error::{CommandError, ErrorDetail, with_count};
use loopwright::repo_file::RepoFileError;
use loopwright_core::spec::SpecProblem;
use serde::Serialize;

/// One problem and its location.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileProblem {
    /// The file from the root of the working copy.
    pub(crate) file: String,
    /// Line from 1; `None` when the whole file is meant.
    pub(crate) line: Option<u32>,
    /// Column from 1.
    pub(crate) column: Option<u32>,
    /// The problem.
    pub(crate) text: String,
    /// The fix.
    pub(crate) hint: Option<String>,
    /// The text for people, with the line and a caret if there is one.
    #[serde(skip)]
    shown: Option<String>,
}

impl FileProblem {
    /// A problem of a file as a whole.
    pub(crate) fn for_file(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None, text: text.into(), hint: None, shown: None }
    }

    /// A file of the repository that is not read.
    pub(crate) fn unreadable(file: impl Into<String>, what: &str, error: &RepoFileError) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { hint, ..Self::for_file(file, format!("{what}: {error}")) }
    }

    /// Sets the location to the first occurrence of `word` in the file, if there is one.
    pub(crate) fn located_at(self, text: &str, word: &str) -> Self {
        let found =
            text.lines().enumerate().find_map(|(at, line)| Some((at, line[..line.find(word)?].chars().count())));
        let number = |number: usize| u32::try_from(number + 1).ok();
        match found {
            Some((line, column)) => Self { line: number(line), column: number(column), ..self },
            None => self,
        }
    }

    /// Sets the line.
    pub(crate) fn on_line(self, line: u32) -> Self {
        Self { line: Some(line), column: Some(1), ..self }
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The problem in one line.
    pub(crate) fn one_line(&self) -> String {
        let line = self.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{}{line}: {}", self.file, self.text)
    }

    /// The problem for people.
    pub(crate) fn render(&self) -> String {
        if let Some(shown) = &self.shown {
            return shown.clone();
        }
        let place = self.line.map_or(String::new(), |line| format!(":{line}:{}", self.column.unwrap_or(1)));
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("\n   = hint: {hint}"));
        let safe = |text: &str| crate::output::safe_lines(text);
        format!("error: {}\n  --> {}{place}{}", safe(&self.text), safe(&self.file), safe(&hint))
    }
}

impl From<SpecProblem> for FileProblem {
    fn from(problem: SpecProblem) -> Self {
        let shown = Some(problem.to_string());
        let number = |number| Some(number).filter(|number| *number > 0);
        let SpecProblem { file, line, column, what: text, hint, .. } = problem;
        Self { file, line: number(line), column: number(column), text, hint, shown }
    }
}

/// One error for all problems.
pub(crate) fn error_from_problems(findings: &[FileProblem]) -> CommandError {
    let mut files: Vec<_> = findings.iter().map(|finding| finding.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let summary = format!("{} in {}", with_count(findings.len(), "problem"), with_count(files.len(), "file"));
    let texts: Vec<_> = findings.iter().map(|finding| finding.text.as_str()).collect();
    let mut error = CommandError::invalid(format!("{summary}: {}", texts.join("; ")));
    for finding in findings {
        error = error.at_location(&finding.file, finding.line.unwrap_or(0), finding.column.unwrap_or(0));
    }
    let shown: Vec<_> = findings.iter().map(FileProblem::render).collect();
    error.detail = Some(Box::new(ErrorDetail { rendered: shown.join("\n\n"), summary }));
    error
}

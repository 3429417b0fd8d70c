//! Parses a script: blocks, headers, steps. Every error has its line; nothing is performed here.

use super::verb::{OnFailure, ScriptStep};
use super::verbs::ScriptLine;
use super::words;
use crate::agents::AgentError;
use loopwright_core::spec::Role;

/// A script larger than this is not read.
pub(super) const SCRIPT_MAX: usize = 4 << 20;

/// A parsed script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentScript {
    pub(super) blocks: Vec<ScriptBlock>,
}

/// The steps of one start of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptBlock {
    pub(super) header: Option<ScriptBlockHeader>,
    pub(super) steps: Vec<ScriptStep>,
}

/// `@ role [attempt=N]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptBlockHeader {
    pub(super) role: Role,
    pub(super) attempt: Option<u32>,
}

impl AgentScript {
    pub(super) fn parse(text: &str) -> Result<Self, AgentError> {
        if text.len() > SCRIPT_MAX {
            return Err(complaint(1, format!("the script has {} bytes, at most {SCRIPT_MAX} are read", text.len())));
        }
        let mut reader = Reader { lines: text.lines().enumerate(), blocks: Vec::new(), open: None };
        while let Some((index, line)) = reader.lines.next() {
            reader.line(index + 1, line).map_err(|text| complaint(index + 1, text))?;
        }
        reader.close();
        Ok(Self { blocks: reader.blocks })
    }
}

fn complaint(line: usize, text: String) -> AgentError {
    AgentError::Script { line, text }
}

struct Reader<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    blocks: Vec<ScriptBlock>,
    open: Option<ScriptBlock>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() {
            // A block without a header ends at an empty line, because nothing else ends it.
            if self.open.as_ref().is_some_and(|block| block.header.is_none()) {
                self.close();
            }
            return Ok(());
        }
        if line.starts_with('#') {
            return Ok(());
        }
        match line.strip_prefix('@') {
            Some(words) => self.header(words),
            None => self.step(number, line),
        }
    }

    fn header(&mut self, words: &str) -> Result<(), String> {
        self.close();
        let header = header(words)?;
        let twin = |block: &ScriptBlock| header.is_some() && block.header == header;
        if self.blocks.iter().any(twin) {
            return Err("the script already has a block with this header, so this one would never be used".to_owned());
        }
        self.open = Some(ScriptBlock { header, steps: Vec::new() });
        Ok(())
    }

    fn step(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (on_failure, line) = match line.strip_prefix("try ") {
            Some(line) => (OnFailure::GoOn, line.trim_start()),
            None => (OnFailure::Exit, line),
        };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (rest, heredoc) = self.heredoc(rest.trim())?;
        let verb = ScriptLine { name, rest, heredoc }.verb()?;
        let block = self.open.get_or_insert_with(|| ScriptBlock { header: None, steps: Vec::new() });
        block.steps.push(ScriptStep { line: number, on_failure, verb });
        Ok(())
    }

    /// Takes the lines up to the end word if the line ends with `<<WORD`.
    fn heredoc<'l>(&mut self, rest: &'l str) -> Result<(&'l str, Option<String>), String> {
        let at = rest.rfind("<<").filter(|at| *at == 0 || rest[..*at].ends_with(char::is_whitespace));
        let Some((at, end)) = at.map(|at| (at, &rest[at + 2..])).filter(|(_, end)| is_end_word(end)) else {
            return Ok((rest, None));
        };
        let mut text = String::new();
        for (_, line) in self.lines.by_ref() {
            if line == end {
                return Ok((rest[..at].trim_end(), Some(text)));
            }
            text.push_str(line);
            text.push('\n');
        }
        Err(format!("the text that starts here has no line `{end}` at its end"))
    }

    fn close(&mut self) {
        self.blocks.extend(self.open.take());
    }
}

fn is_end_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn header(text: &str) -> Result<Option<ScriptBlockHeader>, String> {
    let words = words::words(text)?;
    let Some((role, options)) = words.split_first() else { return Ok(None) };
    let Some(role) = Role::ALL.into_iter().find(|known| known.word() == role) else {
        let known: Vec<_> = Role::ALL.into_iter().map(Role::word).collect();
        return Err(format!("unknown role `{role}`; roles are {}", known.join(", ")));
    };
    let attempt = match options {
        [] => None,
        [option] => Some(attempt(option)?),
        _ => return Err("a header is `@ role` or `@ role attempt=N`".to_owned()),
    };
    Ok(Some(ScriptBlockHeader { role, attempt }))
}

fn attempt(option: &str) -> Result<u32, String> {
    let number = option.strip_prefix("attempt=").and_then(|number| number.parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| format!("`{option}` is not `attempt=N` with N from 1"))
}

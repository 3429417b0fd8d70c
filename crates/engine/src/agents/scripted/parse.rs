//! Parses a script: blocks, headers, steps. Every error has its line; nothing is performed here. A start gets the block
//! with its header, which is used every time it matches, or the next one without a header, which is used once.

use super::script_text::{self, ScriptItem, ScriptLine};
use super::verb::{OnFailure, ScriptStep};
use crate::agents::AgentError;
use loopwright_core::spec::Role;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// `@ role [attempt=N] [phase=N] [role=NAME]`; an option that is absent matches every start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptBlockHeader {
    pub(super) role: Role,
    pub(super) attempt: Option<u32>,
    /// The phase of a maker.
    pub(super) phase: Option<u32>,
    /// The role of an attacker in the loop file.
    pub(super) attack_role: Option<String>,
}

impl ScriptBlockHeader {
    /// How many options of the header name this start; `None` if one of them names another start.
    fn matches(&self, start: &Self) -> Option<usize> {
        let options = [
            self.attempt.map(|attempt| start.attempt == Some(attempt)),
            self.phase.map(|phase| start.phase == Some(phase)),
            self.attack_role.as_ref().map(|role| start.attack_role.as_ref() == Some(role)),
        ];
        let is_same = self.role == start.role && options.iter().flatten().all(|same| *same);
        is_same.then(|| options.iter().flatten().count())
    }
}

impl AgentScript {
    pub(super) fn parse(text: &str) -> Result<Self, AgentError> {
        let (mut blocks, mut open) = (Vec::new(), None);
        let read = script_text::read_script(text, "script", |item| match item {
            ScriptItem::Header(words) => {
                blocks.extend(open.take());
                open = Some(ScriptBlock { header: header(words, &blocks)?, steps: Vec::new() });
                Ok(())
            }
            ScriptItem::Step(line) => {
                let step = step(line)?;
                open.get_or_insert_with(|| ScriptBlock { header: None, steps: Vec::new() }).steps.push(step);
                Ok(())
            }
            // A block without a header ends at an empty line, because nothing else ends it.
            ScriptItem::Blank => {
                blocks.extend(open.take_if(|block| block.header.is_none()));
                Ok(())
            }
        });
        read.map_err(|error| AgentError::Script { line: error.line, text: error.text })?;
        blocks.extend(open);
        Ok(Self { blocks })
    }
}

fn step(mut line: ScriptLine<'_>) -> Result<ScriptStep, String> {
    let on_failure = if line.name == "try" && !line.rest.is_empty() { OnFailure::GoOn } else { OnFailure::Exit };
    if on_failure == OnFailure::GoOn {
        (line.name, line.rest) = script_text::split_verb(line.rest);
    }
    Ok(ScriptStep { line: line.number, on_failure, verb: line.verb()? })
}

fn header(text: &str, known: &[ScriptBlock]) -> Result<Option<ScriptBlockHeader>, String> {
    let words = script_text::words(text)?;
    let Some((role, options)) = words.split_first() else { return Ok(None) };
    let role = script_text::read_role(role)?;
    let mut header = ScriptBlockHeader { role, attempt: None, phase: None, attack_role: None };
    for option in options {
        match (option.split_once('='), role) {
            (Some(("phase", number)), Role::Maker) if header.phase.is_none() => {
                header.phase = Some(script_text::number(number)?);
            }
            (Some(("role", name)), Role::Attacker) if header.attack_role.is_none() => {
                header.attack_role = Some(name.to_owned());
            }
            _ if header.attempt.is_none() => header.attempt = Some(script_text::read_attempt(option)?),
            _ => {
                return Err(
                    "a header is `@ role`, `@ role attempt=N`, `@ maker phase=N` or `@ attacker role=NAME`".to_owned()
                );
            }
        }
    }
    let header = Some(header);
    if known.iter().any(|block| block.header == header) {
        return Err("the script already has a block with this header, so this one would never be used".to_owned());
    }
    Ok(header)
}

/// A script, and the number of its used blocks without a header.
#[derive(Debug)]
pub(super) struct BlockChooser {
    script: AgentScript,
    used: AtomicUsize,
}

impl BlockChooser {
    pub(super) fn new(script: AgentScript) -> Self {
        Self { script, used: AtomicUsize::new(0) }
    }

    /// The steps for this start: the first of the blocks whose header names the most of it, else the next without a
    /// header.
    pub(super) fn choose(&self, start: &ScriptBlockHeader) -> Option<Vec<ScriptStep>> {
        self.headed(start).or_else(|| self.next())
    }

    fn headed(&self, start: &ScriptBlockHeader) -> Option<Vec<ScriptStep>> {
        let blocks = self.script.blocks.iter();
        let named = blocks.filter_map(|block| Some((block.header.as_ref()?.matches(start)?, block)));
        // `max_by_key` returns the last of equals.
        let (_, block) = named.rev().max_by_key(|(named, _)| *named)?;
        Some(block.steps.clone())
    }

    fn next(&self) -> Option<Vec<ScriptStep>> {
        let turn = self.used.fetch_add(1, Ordering::Relaxed);
        let block = self.script.blocks.iter().filter(|block| block.header.is_none()).nth(turn)?;
        Some(block.steps.clone())
    }
}

//! Chooses the block of a start: a block with a header is used every time it matches, one without a header only once.

use super::parse::{AgentScript, ScriptBlockHeader};
use super::verb::ScriptStep;
use loopwright_core::spec::Role;
use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// The steps for this start: a block with the attempt in its header, else one of the role, else the next without a
    /// header.
    pub(super) fn choose(&self, role: Role, attempt: u32) -> Option<Vec<ScriptStep>> {
        let exact = self.headed(ScriptBlockHeader { role, attempt: Some(attempt) });
        exact.or_else(|| self.headed(ScriptBlockHeader { role, attempt: None })).or_else(|| self.next())
    }

    fn headed(&self, wanted: ScriptBlockHeader) -> Option<Vec<ScriptStep>> {
        let block = self.script.blocks.iter().find(|block| block.header == Some(wanted))?;
        Some(block.steps.clone())
    }

    fn next(&self) -> Option<Vec<ScriptStep>> {
        let turn = self.used.fetch_add(1, Ordering::Relaxed);
        let block = self.script.blocks.iter().filter(|block| block.header.is_none()).nth(turn)?;
        Some(block.steps.clone())
    }
}

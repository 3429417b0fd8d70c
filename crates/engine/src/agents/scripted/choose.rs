//! Which block a start gets: by header for ever, without one once.

use super::parse::{Header, Script};
use super::verb::Step;
use loopwright_core::spec::Role;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A script and how far its blocks without a header are used up.
#[derive(Debug)]
pub(super) struct Chooser {
    script: Script,
    used: AtomicUsize,
}

impl Chooser {
    pub(super) fn new(script: Script) -> Self {
        Self { script, used: AtomicUsize::new(0) }
    }

    /// The steps for this start: a header with the attempt, else one of the role, else the next without any.
    pub(super) fn choose(&self, role: Role, attempt: u32) -> Option<Vec<Step>> {
        let exact = self.headed(Header { role, attempt: Some(attempt) });
        exact.or_else(|| self.headed(Header { role, attempt: None })).or_else(|| self.next())
    }

    fn headed(&self, wanted: Header) -> Option<Vec<Step>> {
        let block = self.script.blocks.iter().find(|block| block.header == Some(wanted))?;
        Some(block.steps.clone())
    }

    fn next(&self) -> Option<Vec<Step>> {
        let turn = self.used.fetch_add(1, Ordering::Relaxed);
        let block = self.script.blocks.iter().filter(|block| block.header.is_none()).nth(turn)?;
        Some(block.steps.clone())
    }
}

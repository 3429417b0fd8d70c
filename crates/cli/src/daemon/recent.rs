//! The loops that were started last, checked, so that one that is due every minute is not read every minute.

use super::stamp::Stamp;
use loopwright_core::spec::CheckedSpec;
use std::collections::VecDeque;

/// So many are kept; they are a few kilobytes each.
const MOST: usize = 256;

/// The loops with the stamps of their files.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Stamp, CheckedSpec)>);

impl Recent {
    /// A loop whose file is still what it was.
    pub(super) fn get(&self, name: &str, stamp: Stamp) -> Option<&CheckedSpec> {
        let (known, spec) = self.0.iter().find(|(_, spec)| spec.name == name)?;
        (*known == stamp).then_some(spec)
    }

    /// Remembers a loop, and forgets the one that was put here first.
    pub(super) fn put(&mut self, stamp: Stamp, spec: CheckedSpec) {
        self.0.retain(|(_, known)| known.name != spec.name);
        self.0.push_back((stamp, spec));
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }
}

//! What tells a file from what it was, without reading it.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The coarsest grain of a file's times that is met (FAT has two seconds): two writes within it can have one stamp.
const GRAIN_MS: i64 = 2_000;

/// Device, inode, length, and when content and inode were changed, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp(u64, u64, u64, i64, i64);

impl Stamp {
    /// Of the file at a path, links followed.
    pub(super) fn of(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|about| Self::from(&about))
    }

    /// Whether a change from now on gives another stamp: not so soon after the last one, and not where clocks disagree.
    pub(super) fn is_settled(self, now_ms: i64) -> bool {
        now_ms >= self.settled_ms()
    }

    /// From when on that is so.
    pub(super) fn settled_ms(self) -> i64 {
        self.3.max(self.4) / 1_000_000 + GRAIN_MS
    }
}

impl From<&Stat> for Stamp {
    fn from(about: &Stat) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let changed_ns = nanos(about.st_mtime, about.st_mtime_nsec as i64);
        let inode_ns = nanos(about.st_ctime, about.st_ctime_nsec as i64);
        Self(about.st_dev, about.st_ino, about.st_size as u64, changed_ns, inode_ns)
    }
}

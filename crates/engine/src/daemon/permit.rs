//! A loop's one place, as long as somebody has it.

use super::mail::{Mail, Post};
use crate::live::Stay;

/// Keeps a loop's one place; given back when it is dropped, also by a panic or an abandoned future.
pub struct Permit {
    post: Post,
    slot: u64,
}

impl Permit {
    pub(super) fn new(post: Post, slot: u64) -> Self {
        Self { post, slot }
    }
}

impl Stay for Permit {}

impl Drop for Permit {
    fn drop(&mut self) {
        // A daemon that has ended gives out no more places.
        let _ = self.post.send(Mail::Vacated { slot: self.slot });
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.slot).finish()
    }
}

//! The hash chains of the journal: how the hash of an event and of a checkpoint is computed. It reads no database.
//!
//! An event is chained to the previous event of its round; events of versions before 5 are chained to the previous
//! event of the store. A checkpoint is chained to the previous checkpoint.

use loopwright_core::hash::hash_fields;

use super::rows::{Checkpoint, StoredEvent};

/// The hash before the first event.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The hash of an event after `prev`. Every field is preceded by its length, so that no two different
/// events have the same text to hash.
pub(super) fn link(prev: &str, event: &StoredEvent) -> String {
    hash_fields(&[
        prev.as_bytes(),
        &event.seq.to_le_bytes(),
        event.round.as_bytes(),
        &event.index.to_le_bytes(),
        &event.at_ms.to_le_bytes(),
        event.kind.as_bytes(),
        event.body.as_bytes(),
    ])
}

/// The hash of a checkpoint after the one with the hash `prev`.
pub(super) fn link_checkpoint(prev: &str, checkpoint: &Checkpoint) -> String {
    hash_fields(&[
        b"loopwright checkpoint 1",
        prev.as_bytes(),
        &checkpoint.number.to_le_bytes(),
        checkpoint.round.as_bytes(),
        &checkpoint.events.to_le_bytes(),
        checkpoint.last_hash.as_bytes(),
        &checkpoint.at_ms.to_le_bytes(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, body: &str) -> StoredEvent {
        let text = String::from;
        StoredEvent { seq: 1, round: text("r"), index: 0, at_ms: 7, kind: text(kind), body: text(body), hash: text("") }
    }

    #[test]
    fn moving_a_byte_between_fields_changes_the_hash() {
        assert_ne!(link(GENESIS, &event("ab", "c")), link(GENESIS, &event("a", "bc")));
    }

    #[test]
    fn hash_of_a_known_event_never_changes() {
        let hash = link(GENESIS, &event("started", "{}"));
        assert_eq!(hash, "9b9c0b296ff36ff0875f1bcfc03108cf497bb0649ce7d4eaf4641ae620ad7c8f");
    }
}

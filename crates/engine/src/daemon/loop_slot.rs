//! A loop's one slot, for as long as a round holds it.

use super::message::{DaemonMessage, DaemonSender};
use crate::live_rounds::LoopSlotHold;

/// Holds a loop's one slot. Dropping it releases the slot, also after a panic or in an abandoned future.
pub struct LoopSlot {
    sender: DaemonSender,
    slot: u64,
}

impl LoopSlot {
    pub(super) fn new(sender: DaemonSender, slot: u64) -> Self {
        Self { sender, slot }
    }
}

impl LoopSlotHold for LoopSlot {}

impl Drop for LoopSlot {
    fn drop(&mut self) {
        // A daemon that has ended grants no more slots.
        let _ = self.sender.send(DaemonMessage::SlotReleased { slot: self.slot });
    }
}

impl std::fmt::Debug for LoopSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.slot).finish()
    }
}

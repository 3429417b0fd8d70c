//! A loop's one place, as long as somebody has it.

use super::message::{DaemonMessage, DaemonSender};
use crate::live_rounds::LoopSlotHold;

/// Keeps a loop's one place; given back when it is dropped, also by a panic or an abandoned future.
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
        // A daemon that has ended gives out no more places.
        let _ = self.sender.send(DaemonMessage::SlotReleased { slot: self.slot });
    }
}

impl std::fmt::Debug for LoopSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.slot).finish()
    }
}

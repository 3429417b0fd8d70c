//! Makers that want the gate green without the work. None of them contains the right fix, except those that show it
//! only to the gate.

mod code;
mod edits;
mod forge;
mod hooks;
mod tools;

use super::behaviour::MakerBehaviour;

/// Every dishonest class.
pub(super) fn all() -> impl Iterator<Item = &'static MakerBehaviour> {
    [edits::CHEATS, code::CHEATS, hooks::CHEATS, tools::CHEATS, forge::CHEATS].into_iter().flatten()
}

//! Makers that want the gate green without the work. None of them contains the right fix, except those that show it
//! only to the gate.

mod code;
mod edits;
mod evasive;
mod forge;
mod hooks;
mod tools;

pub(super) use code::{right_when_code, rust_types, shell_old, shell_rows};

use super::behaviour::MakerBehaviour;

/// Every dishonest class that is written as code.
pub(super) fn all() -> impl Iterator<Item = &'static MakerBehaviour> {
    [edits::CHEATS, code::CHEATS, evasive::CHEATS, hooks::CHEATS, tools::CHEATS, forge::CHEATS].into_iter().flatten()
}

//! What holds agents and gates on this host, said honestly. Today: process trees are ended whole and workspaces are private
//! copies; the kernel holds neither files nor network.

use crate::room::Walls;
use loopwright_core::round::{Boundary, BoundaryLevel};
use loopwright_core::spec::SandboxMode;

/// The boundary in force for a loop.
#[must_use]
pub fn of(mode: SandboxMode) -> Boundary {
    let level = match mode {
        SandboxMode::On => BoundaryLevel::Process,
        SandboxMode::Off => BoundaryLevel::Off,
    };
    Boundary {
        level,
        filesystem: "private copy, not enforced by the kernel".to_owned(),
        network: "open".to_owned(),
        processes: "process group, session and subreaper; the whole tree is killed".to_owned(),
        gaps: vec![
            "an agent with the same user id can read and write outside its workspace".to_owned(),
            "an agent can reach the network".to_owned(),
        ],
    }
}

/// The walls that a boundary means.
#[must_use]
pub fn walls(boundary: &Boundary) -> Walls {
    match boundary.level {
        BoundaryLevel::Kernel => Walls::Kernel,
        BoundaryLevel::Process | BoundaryLevel::Off => Walls::None,
    }
}

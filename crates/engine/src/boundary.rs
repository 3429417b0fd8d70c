//! What holds agents and gates on this host, said honestly. Today: process trees are ended whole and workspaces are private
//! copies; the kernel holds neither files nor network.

use loopwright_core::round::Boundary;
use loopwright_core::spec::SandboxMode;

/// The boundary in force for a loop.
#[must_use]
pub fn of(mode: SandboxMode) -> Boundary {
    let level = match mode {
        SandboxMode::On => "process",
        SandboxMode::Off => "off",
    };
    Boundary {
        level: level.to_owned(),
        filesystem: "private copy, not enforced by the kernel".to_owned(),
        network: "open".to_owned(),
        processes: "process group, session and subreaper; the whole tree is killed".to_owned(),
        gaps: vec![
            "an agent with the same user id can read and write outside its workspace".to_owned(),
            "an agent can reach the network".to_owned(),
        ],
    }
}

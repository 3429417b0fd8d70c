//! The helper that starts a confined program. Executed from memory by the engine with a plan on descriptor 3; it has no
//! arguments and no settings.
//!
//! Three processes: *outer* (this one) waits outside and ends everything when the engine's lifeline closes; *init* is the
//! first process of the pid namespace, builds the walls, collects orphans and keeps the network's door; the *program* is
//! its child. Whatever cannot be built keeps the program from starting, and the engine is told which step it was.

#![no_main]

mod port_forwarder;
mod init;
mod probe_checks;
mod outer;
mod mounts;
mod program;
mod report;
mod root;
mod sys;
mod system;
mod restrictions;
#[allow(dead_code, reason = "the engine uses the other half")]
mod wire;

/// Without Rust's own start: it would change signal handling that the program inherits, and takes time.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    outer::run()
}

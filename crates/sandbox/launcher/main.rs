//! The helper that starts a confined program. The engine executes it from memory with a plan on descriptor 3; it has no
//! arguments and no settings.
//!
//! There are three processes. *Outer* (this one) waits outside and ends everything when the engine's lifeline closes.
//! *Init* is the first process of the pid namespace; it builds the sandbox, reaps orphans and runs the port forwarder.
//! The *program* is its child. If a step fails, the program does not start, and the helper reports the step to the
//! engine.

#![no_main]

#[path = "../src/confinement.rs"]
#[allow(dead_code, reason = "the engine uses the rest")]
mod confinement;
mod init;
mod mounts;
mod outer;
mod port_forwarder;
mod probe_checks;
mod program;
mod report;
mod restrictions;
mod root;
mod sys;
mod system;
#[allow(dead_code, reason = "the engine uses the other half")]
mod wire;

/// Without Rust's own startup code, which would change signal handling that the program inherits, and takes time.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    outer::run()
}

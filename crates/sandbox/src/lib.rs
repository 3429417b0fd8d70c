//! How Loopwright confines: spawning, process trees and their end. The only crate with `unsafe`.
//!
//! Responsible for starting a program with an environment built from nothing, reading its output in
//! constant memory, and ending the whole tree it grew, whatever that tree did to get away. Not
//! responsible for deciding what may run: policy lives in `core`, the engine's door is `engine::proc`.
//!
//! A tree is recognised by four marks: descent (`ppid`), the session its first process leads, the cookie in
//! its environment, and adoption: this process is a subreaper, so an orphan of the tree becomes our child.
//! A process that runs loops therefore must not start detached (`setsid`) children past this crate while a
//! tree is alive: they look like orphans. Ordinary children share our session and are never touched.

#[cfg(not(target_os = "linux"))]
compile_error!("unsupported: loopwright-sandbox ends process trees through Linux's /proc and pidfds");

mod cancel;
mod capture;
mod cgroup;
mod confine;
mod confined;
mod disk;
mod dump;
mod error;
mod feed;
mod helper;
mod herd;
mod identity;
mod launch;
mod members;
mod memory;
mod path;
mod plan;
mod probe;
mod pump;
mod remedy;
mod run;
mod seccomp;
mod spawn;
mod sweep;
mod table;
mod tree;
#[path = "../launcher/wire.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the helper uses the other half, and has no documentation")]
mod wire;

pub use cancel::Cancel;
pub use capture::Captured;
pub use confine::{Confine, Mount, Network, Resources, What};
pub use dump::make_undumpable;
pub use error::{SpawnError, SpawnErrorKind, SweepError};
pub use feed::{Feed, FeedError};
pub use identity::{Identity, identity, is_alive};
pub use memory::give_memory_back;
pub use path::resolve_program;
pub use probe::{Finding, Held, Host, Wall, probe};
pub use pump::{Flow, Stream, Watch};
pub use run::{Ended, How, Started, run};
pub use spawn::{COOKIE_VAR, Cookie, Limits, Output, Spawn, Stdin, Trust};
pub use sweep::{leftovers, sweep};

//! Confinement: spawning, process trees and their end. The only crate with `unsafe`.
//!
//! It starts a program with an environment built from scratch, reads its output in constant memory, and ends the whole
//! process tree, even if processes of the tree try to escape. It does not decide what may run: the policy is in `core`,
//! and the engine uses this crate only through `engine::proc`.
//!
//! A tree is recognised by four marks: descent (`ppid`), the session of its first process, the cookie in its
//! environment, and adoption: this process is a subreaper, so an orphan of the tree becomes its child. Therefore a
//! process that runs loops must not start detached (`setsid`) children without this crate while a tree is alive: they
//! look like orphans. Ordinary children share the engine's session and are never touched.

#[cfg(not(target_os = "linux"))]
compile_error!("unsupported: loopwright-sandbox ends process trees through Linux's /proc and pidfds");

mod cancel;
mod capture;
mod cgroup;
mod confined_tree;
mod confinement;
mod disk_watch;
mod error;
mod helper;
mod launch;
mod memory;
mod output_pump;
mod plan;
mod probe;
mod process_table;
mod process_tree;
mod remedy;
mod run;
mod seccomp;
mod spawn;
mod stdin_feed;
mod sweep;
mod tree_members;
#[path = "../launcher/wire.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the helper uses the other half, and has no documentation")]
mod wire;

pub use cancel::CancelToken;
pub use capture::CapturedOutput;
pub use confinement::{Confinement, MountSource, ResourceCeilings, SandboxIdentity, SandboxMount, SandboxNetwork};
pub use error::{SpawnError, SpawnErrorKind, SweepError};
pub use memory::{hide_memory, make_undumpable, release_memory, resident_memory};
pub use output_pump::{OutputStream, OutputWatch, WatchFlow};
pub use probe::{FeatureFinding, FeatureSupport, HostSupport, SandboxFeature, probe};
pub use process_table::{ProcessIdentity, identity, is_alive};
pub use run::{FinishedRun, RunEnd, run};
pub use spawn::{
    COOKIE_VAR, OutputChannel, ProgramTrust, RunLimits, SpawnRequest, StdinSource, TreeCookie, resolve_program,
};
pub use stdin_feed::{FeedError, StdinFeed};
pub use sweep::{leftovers, sweep};
pub use tree_members::StartedProcess;

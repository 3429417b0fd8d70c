//! The basis of the tests: a hermetic environment, real repositories, real databases. Never shipped.
//!
//! It knows the command line only from outside. Of Loopwright's crates it uses only `core`, for the contract of forges,
//! so that every other crate may use it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests start the real binary, read the test runner's environment and print what went wrong"
)]

pub mod agents;
mod canary;
pub mod clients;
pub mod env;
pub mod fake_forge;
pub mod fake_slack;
pub mod forge_contract;
pub mod model;
pub mod redact;
pub mod repo;
mod skip;
pub mod terminal;
mod tls_files;
pub mod tripwires;
pub mod user;
pub mod wait;
mod wire_proxy;

pub use canary::Canary;
pub use env::{CommandRun, TestEnv};
pub use fake_forge::{FakeForge, FakeRepo};
pub use fake_slack::FakeSlack;
pub use model::ModelServer;
pub use repo::{TestRepo, TreeDigest};
pub use skip::skip;
pub use terminal::TestTerminal;
pub use tls_files::CertificateFiles;
pub use tripwires::Tripwires;
pub use wire_proxy::WireProxy;

/// The PATH of the tests: the system's folders, independent of the developer's shell.
pub const TRUSTED_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub mod postgres;

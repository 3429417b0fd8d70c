//! The one module that runs git: every git process of the engine is built and started here, with hooks, prompts,
//! file-system monitors, filters and foreign configuration disabled.
//!
//! It only reads the user's repository; the one exception is [`take`](crate::git::UserRepo::add_take_branch), which
//! adds one new branch on a person's request. The engine writes in repositories of its own ([`EngineRepo`],
//! [`ForgeRepo`]). This module does not decide what is sealed or shipped.

mod call;
mod compact;
mod engine_repo;
mod error;
mod forge_repo;
mod forget;
mod merge;
mod oid;
mod push;
mod sign;
mod stale_locks;
mod user_repo;

pub use call::Git;
pub(crate) use call::{GitCall, TREE_MAX};
pub(crate) use compact::{ObjectPruning, RefOwner, pack_objects};
pub use engine_repo::{CommitMetadata, EngineRepo, TreeEntry, UnifiedDiff};
pub use error::{GitError, GitErrorKind};
pub use forge_repo::{ForgeRepo, PushedBranch};
pub use merge::MergedTree;
pub use oid::{BadOid, Oid};
pub use sign::CommitSigner;
pub(crate) use stale_locks::remove_stale_locks;
pub use user_repo::{ObjectFormat, RoundBase, UserRepo};

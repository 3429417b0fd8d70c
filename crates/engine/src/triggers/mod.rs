//! Triggers other than time: changed files, moved branches, external events. Each becomes a signal; a signal that is
//! already known is ignored.
//!
//! Nothing here starts a round or decides when one starts: signals go to the implementation of [`Signals`]. External
//! text is data; it is capped here and fenced where prompts are made.

mod files;
pub mod hooks;
mod inotify;
mod repo_queries;
mod signal;
mod trigger_hub;
mod walk;
mod watch;
mod watch_globs;
mod watched_repos;
mod webhook;

pub use hooks::poke_folder;
pub(crate) use repo_queries::{branch_heads, commit_contents};
pub use signal::Signals;
pub use watch::TriggerWatch;
pub use watched_repos::{FolderContent, WatchedFolder, WatchedLoop, WatchedRepo};
pub use webhook::{
    BadSecret, BoundWebhookServer, IgnoreReason, WebhookCounts, WebhookOptions, WebhookSecret, WebhookServer,
};

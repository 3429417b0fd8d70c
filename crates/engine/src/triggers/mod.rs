//! What makes a loop due, other than time: changed files, moved branches, events from outside. Each becomes a signal, and a
//! signal that is known already is none.
//!
//! Nothing here starts a round, and nothing here decides when one starts: signals go to whoever implements [`Signals`].
//! What comes from outside is data; it is capped here and fenced where prompts are made.

mod files;
pub mod hooks;
mod hub;
mod inotify;
mod look;
mod reach;
mod roster;
mod signal;
mod walk;
mod watch;
mod webhook;

pub use hooks::poke_folder;
pub(crate) use look::{contents, heads};
pub use roster::{FolderContent, Watched, WatchedFolder, WatchedLoop};
pub use signal::{New, Signals};
pub use watch::Watch;
pub use webhook::{BadSecret, BoundWebhooks, Counts, Ignored, Secret, WebhookOptions, Webhooks};

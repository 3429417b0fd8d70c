//! Pull requests as the work of a loop, with the real binary against a fake GitHub: what a maker sees of one, and how our
//! own open ones are followed.
#![allow(clippy::disallowed_methods, reason = "tests start the program")]

#[path = "pull_requests/item.rs"]
mod item;
#[path = "pull_requests/own.rs"]
mod own;
#[path = "pull_requests/stage.rs"]
mod stage;

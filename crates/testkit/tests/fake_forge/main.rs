//! The fake forge is itself tested: its APIs by plain requests, by clients that others wrote and against the forges'
//! own descriptions.

#![allow(clippy::disallowed_methods, reason = "tests start real clients")]

mod apps;
mod client;
mod foreign;
mod git_push;
mod gitea;
mod github;
mod gitlab;
mod transports;

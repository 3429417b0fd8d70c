//! The fake forge is itself tested: its APIs by plain requests, by clients that others wrote and against the forges'
//! own descriptions.

mod client;
mod git_push;
mod github;
mod transports;

//! Approvals from anywhere: the real binary asks on a fake forge and in a fake Slack, and people answer there.
#![allow(clippy::disallowed_methods, reason = "tests start the program and sign with the time of now")]

#[path = "approvals/forge.rs"]
mod forge;
#[path = "approvals/slack.rs"]
mod slack;
#[path = "approvals/world.rs"]
mod world;

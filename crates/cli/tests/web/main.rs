//! The dashboard and the HTTP API through the real binary: routes and access, reports as files, and every page in a real
//! Chromium.
#![allow(clippy::disallowed_methods, reason = "tests start the program and a browser")]

mod browser;
mod notify;
mod receiver;
mod reports;
mod routes;
mod scale;
mod server;
mod tls;
#[path = "../daemon/world.rs"]
#[allow(dead_code, reason = "the tests of the daemon use more of it")]
mod world;

//! The daemon through the real binary: the rounds it starts, commands beside it, its end and its restart.
#![allow(clippy::disallowed_methods, reason = "tests start the program and send it signals")]
#![expect(clippy::disallowed_methods, reason = "tests send signals and become somebody else by programs of the system")]

mod backup;
mod beside;
mod fires;
mod fleet;
mod hears;
mod keys;
mod service;
mod shared;
mod workers;
mod world;

//! The daemon on a manual clock, with agents of this process: due loops fire at their due time, once, and their outcome
//! is on record, even if rounds, the store or the daemon itself fail.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/manual_clock.rs"]
mod manual_clock;
mod watch;
mod workers;
mod world;

mod after;
mod blocked;
mod collection;
mod control;
mod due;
mod fenced;
mod forge_access;
mod hand;
mod locks;
mod restart;
mod rounds;
mod scheduler;
mod store;

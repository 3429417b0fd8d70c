//! The daemon on a clock that is moved by hand, with agents of this process: what is due fires when it is due, once, and what
//! becomes of it is on record, whatever happens to rounds, to the store and to the daemon itself.

#[path = "../common/mod.rs"]
mod common;
mod watch;
mod world;

mod after;
mod control;
mod due;
mod fenced;
mod hand;
mod locks;
mod restart;
mod rounds;
mod scheduler;
mod store;

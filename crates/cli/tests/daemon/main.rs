//! The daemon through the real binary: what it starts, what others do beside it, how it ends and comes back.

mod beside;
mod fires;
mod hears;
mod service;
mod world;

//! Loopwright as a library: run AI coding agents in loops you can trust.

pub mod agents;
pub mod clock;
pub mod git;
pub mod proc;
pub mod seam;
pub mod store;
pub mod workspace;

//! Loopwright as a library: run AI coding agents in loops you can trust.

//! What Loopwright decides: the spec, the round as a state machine, the policy, the verdict.
//!
//! Pure and sync: no I/O, no clock, no environment, no randomness. The engine performs what is decided here.

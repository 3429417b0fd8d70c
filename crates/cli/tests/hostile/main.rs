//! Hostile makers, gates and checkers against the real binary in real repositories. A test is named `hNNN_…` after the
//! fault it shows. The common stage checks after every round what no round may break: the user's checkout is untouched,
//! nothing left the machine unless the test expects it, and no process of the round is alive.
#![allow(clippy::disallowed_methods, reason = "tests look at processes and start the real binary")]

mod stage;

mod boundaries;
mod checkers;
mod claims;
mod gates;
mod ground;
mod heldout;
mod heldouts;
mod lingering;
mod network;
mod obedient;
mod outbox;
mod paths;
mod people;
mod poison;
mod processes;
mod proofs;
mod secrets;
mod spend;
mod suites;
mod target;
mod walls;
mod withheld;
mod workspaces;

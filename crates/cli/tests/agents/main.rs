//! Whole rounds with the real agent programs against a scripted model on loopback, in the walls. A program that is not
//! installed is said to be skipped; `cargo xtask setup` installs them.

mod acp;
mod hostile;
mod mentions;
mod race;
mod rounds;
mod world;

//! Whole rounds with the real agent programs against a scripted model on loopback, in the sandbox. A test whose program
//! is not installed skips itself; `cargo xtask setup` installs them.

mod acp;
mod hostile;
mod mentions;
mod race;
mod rounds;
mod world;

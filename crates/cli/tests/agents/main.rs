//! Whole rounds with the real agent programs against a scripted model on loopback, in the sandbox. A test whose program
//! is not installed skips itself; `cargo xtask setup` installs them.

mod acp;
mod clouds;
mod free;
mod hostile;
mod matrix;
mod mcp_servers;
mod mentions;
mod options;
mod price;
mod race;
mod refused;
mod rounds;
mod world;

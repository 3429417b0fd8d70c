//! The files of loop-harness, the bash orchestrator: `config.yaml`, `definitions/*.yaml`, `skills/*.md` and
//! `state/*.json`. [`HarnessLoop`] decides what a definition means here.

mod config;
mod definition;
mod harness_loop;
mod skill;
mod state;

pub use config::{HarnessConfig, HarnessDefaults, HarnessRepo};
pub use definition::{HarnessDefinition, HarnessOutput};
pub use harness_loop::HarnessLoop;
pub use state::HarnessState;

//! Loopwright's decisions: the spec, the round as a state machine, the policy, the verdict.
//!
//! Pure and sync: no I/O, no clock, no environment, no randomness. The engine performs what this crate decides.

pub mod actor;
pub mod after;
pub mod answer;
pub mod attack;
pub mod autonomy;
pub mod budget;
pub mod cadence;
pub mod calibration;
pub mod config;
pub mod deliver;
pub mod dispatch;
pub mod executor;
pub mod forecast;
pub mod forge;
pub mod gate;
pub mod goal;
pub mod goal_plan;
pub mod hash;
pub mod human_gate;
pub mod import;
pub mod inventory;
pub mod level;
pub mod memory;
pub mod name;
pub mod network;
pub mod notify;
pub mod outbox;
pub mod outcome;
pub mod paths;
pub mod patterns;
pub mod prices;
pub mod project;
pub mod prompt;
pub mod provider;
pub mod question;
pub mod report;
pub mod round;
pub mod route;
pub mod secrets;
pub mod spec;
pub mod sync;
pub mod task;
pub mod task_list;
pub mod units;
pub mod verdict;
mod words;
pub mod workflow;

/// A boxed future, so that traits which other crates implement stay object-safe and independent of any runtime.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

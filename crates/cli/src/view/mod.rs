//! The view model: data read from the store and the loop files, in the shapes that users see. The command line prints
//! these; other front ends draw the same shapes. This module neither writes nor prints.

pub(crate) mod budget;
pub(crate) mod costs;
pub(crate) mod diff;
pub(crate) mod evidence;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod heatmap;
pub(crate) mod inbox;
pub(crate) mod last_action;
pub(crate) mod list_page;
pub(crate) mod log;
mod log_event;
pub(crate) mod loop_page;
mod offered;
pub(crate) mod page;
pub(crate) mod problems;
pub(crate) mod proposal;
pub(crate) mod repo_names;
pub(crate) mod repo_view;
pub(crate) mod rounds;
pub(crate) mod schedule;
pub(crate) mod simulate;
pub(crate) mod stages;
pub(crate) mod standing;
pub(crate) mod status;
pub(crate) mod time;
pub(crate) mod transcript;
pub(crate) mod workflows;

use crate::error::CommandError;
use crate::output::{TextTable, safe};
use loopwright::store::Store;
use serde::Serialize;

/// The version of every document.
pub(crate) const SCHEMA: u32 = 1;

/// The text for an unknown value.
pub(crate) const NOTHING: &str = "–";

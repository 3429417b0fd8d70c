//! The view model: what every face shows, read from the store and the loop files and put into shapes. The command line prints
//! it; other faces draw the same shapes. Nothing here writes, and nothing here prints.

pub(crate) mod budget;
pub(crate) mod costs;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod heatmap;
pub(crate) mod inbox;
pub(crate) mod log;
pub(crate) mod loop_page;
pub(crate) mod loop_state;
pub(crate) mod page;
pub(crate) mod repo_view;
pub(crate) mod round_record;
pub(crate) mod rounds;
pub(crate) mod schedule;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod time;

/// The version of every document.
pub(crate) const SCHEMA: u32 = 1;

/// What stands where nothing is known.
pub(crate) const NOTHING: &str = "–";

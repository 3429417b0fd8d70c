//! Earned autonomy: counts the evidence about a loop, records the decisions of people and of `core`, and follows sent
//! work. `loopwright_core::autonomy` decides what the counts mean.

mod confirm;
mod follow;
mod landing;
mod standing;

pub use confirm::{IntentConfirmed, LevelPromotion};
pub use standing::{LevelStanding, StandingRows, read_standing};
pub(crate) use standing::{read_debts, settle_level};

//! Earned autonomy: counts the evidence about a loop, records the decisions of people and of `core`, and follows sent
//! work. `loopwright_core::autonomy` decides what the counts mean.

mod confirm;
mod follow;
mod landing;
mod refresh;
mod standing;

pub use confirm::{
    IntentConfirmed, LevelDemotion, LevelPromotion, confirm_intent, record_demotion, record_promotion, record_readings,
};
pub use follow::follow_works;
pub(crate) use refresh::conflicts;
pub use refresh::rebase_proposals;
pub use standing::{LevelStanding, StandingRows, read_standing};
pub(crate) use standing::{read_debts, settle_level};

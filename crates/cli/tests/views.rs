//! The views and the answers, as users see them: the real binary, scripted loops, real repositories.

#[path = "views/answers.rs"]
mod answers;
#[path = "views/fixture.rs"]
mod fixture;
#[path = "views/looks.rs"]
mod looks;
#[path = "views/proposals.rs"]
mod proposals;
#[path = "views/record.rs"]
mod record;
#[path = "views/repositories.rs"]
mod repositories;
#[path = "views/states.rs"]
mod states;
#[path = "views/terminal.rs"]
mod terminal;

//! `demo`: the whole story on a throw-away repository, with the scripted agent.

use crate::context::Context;
use crate::error::CommandError;
use crate::verbs::Ended;

pub(crate) async fn run(_: &Context) -> Ended {
    Err(CommandError::failed("not in this build yet"))
}

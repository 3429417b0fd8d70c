//! `schema`: the JSON Schema of loop files, from the same types that read them. The answer is JSON with and without `--json`.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use loopwright_core::spec::LoopSpec;

pub(crate) fn run(cx: &Context) -> Ended {
    cx.out.document(&schemars::schema_for!(LoopSpec));
    Ok(Exit::DONE)
}

//! `schema`: the JSON Schema of loop files, from the same types that read them. The answer is JSON with and without `--json`.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;

pub(crate) fn run(cx: &Context) -> Ended {
    cx.out.document(&loopwright_core::spec::schema());
    Ok(Exit::DONE)
}

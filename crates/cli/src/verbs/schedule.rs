//! `schedule`: what is due in the coming days, as a list and as a picture.

use super::Ended;
use super::status::store_if_any;
use crate::context::Context;
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::view::schedule::{Coming, Planned, Standing};
use crate::view::time::now_ms;
use loopwright_core::dispatch::Entry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this loop
    #[arg(value_name = "LOOP")]
    loop_name: Option<String>,
    /// How many days to look ahead
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (repo, store) = tokio::join!(cx.repo(), store_if_any(cx));
    let (repo, store) = (repo?, store?);
    let loops = cx.loops(&repo)?;
    let files = match &args.loop_name {
        Some(name) => vec![loops.find(name)?],
        None => loops.loops.iter().collect(),
    };
    let rows = match &store {
        Some(store) => store.schedules().await?,
        None => Vec::new(),
    };
    let is_paused =
        |name: &str| rows.iter().any(|row| row.repo == repo.id && row.loop_name == name && row.paused_ms.is_some());
    let zone = cx.system_zone();
    let planned = files.iter().map(|file| {
        let entry = Entry::of(&file.spec, &repo.id, &zone).map_err(|problem| {
            CommandError::new(Kind::Invalid, format!("{}: {problem}", file.file)).hint(problem.hint)
        })?;
        let name = file.spec.name.clone();
        let standing = if is_paused(&name) { Standing::Paused } else { Standing::Active };
        Ok(Planned { name, schedule: entry.schedule, standing })
    });
    let planned = planned.collect::<Result<Vec<_>, CommandError>>()?;
    let coming = Coming::look(&planned, now_ms(), args.days, &zone);
    cx.out.answer(&coming, || {
        let page = coming.render(&planned, cx.out.width(), &|look, text| cx.out.look(look, text));
        if loops.findings.is_empty() { page } else { format!("{page}\n\nsome loops are not usable: loopwright check") }
    });
    Ok(Exit::DONE)
}

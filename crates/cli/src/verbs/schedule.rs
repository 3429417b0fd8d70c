//! `schedule`: the loops that are due in the coming days, as a list and as a heat map, of every repository that a
//! daemon started here would manage.

use super::status::open_store_if_any;
use super::{CommandContext, CommandError, VerbResult, safe};
use crate::context::{FleetRepo, FleetScan, loop_entry};
use crate::view::list_page::ListWindow;
use crate::view::repo_view::read_stop_file;
use crate::view::schedule::{PlannedLoop, ScheduleStatus, ScheduleView};
use crate::view::status::stop_reason;
use crate::view::time::now_ms;
use loopwright::store::{ScheduleRow, Store};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, clap::Args)]
pub(crate) struct ScheduleArgs {
    /// Show only this loop
    #[arg(value_name = "LOOP")]
    loop_name: Option<String>,
    /// How many days to look ahead
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
    /// With `--json`: also the receipts of this many past days
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=31))]
    past: u16,
    #[command(flatten)]
    window: ListWindow,
}

/// The schedule of some days, and the loops behind it.
struct ComingSchedule {
    view: ScheduleView,
    planned: Vec<PlannedLoop>,
    unusable: usize,
}

pub(crate) async fn run(args: ScheduleArgs, cx: &CommandContext) -> VerbResult {
    let ComingSchedule { view, planned, unusable } = read(cx, args.loop_name.as_deref(), args.days, args.past).await?;
    let view = view.cut(args.window);
    Ok(cx.out.answer(&view, || {
        let page = view.render(&planned, cx.out.width(), &|look, text| cx.out.style(look, text));
        if unusable == 0 { page } else { format!("{page}\n\nsome loops are not usable: loopwright check") }
    }))
}

/// The document of `schedule` for the next day.
pub(super) async fn coming_day(cx: &CommandContext) -> Result<Value, CommandError> {
    let coming = read(cx, None, 1, 0).await?;
    serde_json::to_value(&coming.view).map_err(|error| CommandError::failed(format!("write the schedule: {error}")))
}

async fn read(
    cx: &CommandContext,
    loop_name: Option<&str>,
    days: u16,
    past: u16,
) -> Result<ComingSchedule, CommandError> {
    let (looked, store) = tokio::join!(FleetScan::read(cx), open_store_if_any(cx));
    let (FleetScan { repos: wanted, missing }, store) = (looked?, store?);
    if wanted.is_empty() {
        // Reports a missing repository, as every verb about a repository does.
        cx.repo().await?;
    }
    let stopped = stopped(store.as_deref(), cx).await?;
    let rows = match &store {
        Some(store) => store.schedules().await?,
        None => Vec::new(),
    };
    let rows = rows.into_iter().map(|row| ((row.repo.clone(), row.loop_name.clone()), row)).collect();
    let now_ms = now_ms();
    let mut plan = ScheduleSources { now_ms, rows, planned: Vec::new(), unusable: 0, unknown: None };
    for one in &wanted {
        plan.add(cx, one, loop_name)?;
    }
    if let (Some(unknown), true) = (plan.unknown.take(), plan.planned.is_empty()) {
        return Err(unknown);
    }
    let ScheduleSources { mut planned, unusable, .. } = plan;
    if wanted.len() == 1 {
        planned.iter_mut().for_each(|planned| planned.place = None);
    }
    missing.iter().for_each(|missing| cx.out.note(&safe(&missing.reason)));
    let mut view = ScheduleView::compute(&planned, now_ms, days, &cx.system_zone()).with_stop(stopped);
    if let (Some(store), 1..) = (&store, past) {
        view.read_past(store.as_ref(), &planned, past).await?;
    }
    Ok(ComingSchedule { view, planned, unusable })
}

/// The reason why everything is stopped, if it is.
async fn stopped(store: Option<&Store>, cx: &CommandContext) -> Result<Option<String>, CommandError> {
    let by_flag = match store {
        Some(store) => stop_reason(store).await?,
        None => None,
    };
    Ok(by_flag.or_else(|| read_stop_file(cx).map(|why| format!("by the file STOP: {why}"))))
}

/// The inputs from the repositories.
struct ScheduleSources {
    now_ms: i64,
    /// The rows by repository and loop.
    rows: HashMap<(String, String), ScheduleRow>,
    planned: Vec<PlannedLoop>,
    unusable: usize,
    unknown: Option<CommandError>,
}

impl ScheduleSources {
    /// Adds the loops of a repository, or only the requested one.
    fn add(&mut self, cx: &CommandContext, wanted: &FleetRepo, name: Option<&str>) -> Result<(), CommandError> {
        let loops = wanted.read_loops(cx)?;
        self.unusable += loops.problems.len();
        let files = match name.map(|name| loops.find(name)) {
            Some(Ok(file)) => vec![file],
            Some(Err(unknown)) => {
                self.unknown.get_or_insert(unknown);
                Vec::new()
            }
            None => loops.loops.iter().collect(),
        };
        let zone = cx.system_zone();
        for file in files {
            let entry = loop_entry(&zone, &wanted.repo, file)?;
            let row = self.rows.get(&(wanted.repo.id.clone(), file.spec.name.clone()));
            let standing = ScheduleStatus::from_row(row, self.now_ms);
            let folder = wanted.repo.work_tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.planned.push(PlannedLoop {
                name: file.spec.name.clone(),
                repo: wanted.repo.id.clone(),
                place: Some(folder),
                schedule: entry.schedule,
                status: standing,
            });
        }
        Ok(())
    }
}

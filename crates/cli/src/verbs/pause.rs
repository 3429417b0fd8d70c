//! `pause`, `resume` and `thaw`: whether a loop, or all loops, start on their own. `run` starts a paused loop anyway. A
//! round is paused before its next agent, and a workflow before the next agent of each of its rounds.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, close, safe, steer, workflow};
use crate::context::FleetScan;
use crate::view::find::{self, RunTarget};
use crate::view::time::now_ms;
use loopwright::daemon::ThawReport;
use loopwright::proc::CancelToken;
use loopwright::store::{InboxKind, RoundRow, ScheduleRow, Store};
use loopwright_core::dispatch::{LoopEntry, LoopKey};
use loopwright_core::round::RoundPhase;
use serde_json::json;

/// The longest reason, in bytes.
const WHY_MAX: usize = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// The name of the loop, or the id of a running round or workflow
    #[arg(value_name = "LOOP|ROUND")]
    name: String,
    /// The reason, for the record
    #[arg(long, value_name = "TEXT", default_value = "paused manually")]
    why: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The name of the loop, the id of a paused round or workflow, or the id of the inbox item about a loop
    #[arg(value_name = "LOOP|ROUND|ID")]
    name: String,
}

pub(crate) async fn pause(args: PauseArgs, cx: &CommandContext) -> VerbResult {
    let (key, entry) = match (find_loop_by_name(cx, &args.name).await, find_run(cx, &args.name).await?) {
        (Err(_), Some(RunTarget::Round(row))) => return steer::pause_round(cx, &row, &args.why).await,
        (Err(_), Some(RunTarget::Workflow(row))) => return workflow::control::pause(cx, &row, &args.why).await,
        (found, _) => found?,
    };
    let (by, why) = (cx.actor_name(), args.why.chars().take(WHY_MAX).collect::<String>());
    match cx.daemon() {
        Some(daemon) => daemon.pause(&key, &by, &why).await?,
        None => {
            let engine = cx.open_engine(None, &CancelToken::new()).await?;
            let fingerprint = entry.as_ref().map_or("", |entry| entry.schedule.fingerprint());
            close(&engine, engine.pause_loop(&key, fingerprint, &by, &why).await).await?;
        }
    }
    let document = json!({"schema": 1, "loop": &*key.name, "repo": &*key.repo, "paused": true, "reason": why});
    Ok(cx.out.answer(&document, || {
        let name = safe(&key.name);
        format!("{name} does not start on its own any more: {}\nresume it with: loopwright resume {name}", safe(&why))
    }))
}

pub(crate) async fn resume(args: ResumeArgs, cx: &CommandContext) -> VerbResult {
    let (key, entry) = match (find_loop(cx, &args.name).await, find_run(cx, &args.name).await?) {
        (Err(_), Some(RunTarget::Round(row))) => return resume_round(cx, &row).await,
        (Err(_), Some(RunTarget::Workflow(row))) => return workflow::control::resume(cx, &row).await,
        (found, _) => found?,
    };
    let (was_paused, waited) = pause_state(cx, &key).await?;
    match cx.daemon() {
        Some(daemon) => daemon.resume(&key, &cx.actor_name()).await?,
        None => {
            let engine = cx.open_engine(None, &CancelToken::new()).await?;
            close(&engine, engine.resume_loop(&key, entry, &cx.actor_name()).await).await?;
        }
    }
    let document = json!({
        "schema": 1, "loop": &*key.name, "repo": &*key.repo, "paused": false, "was_paused": was_paused, "waited": waited
    });
    Ok(cx.out.answer(&document, || match was_paused || waited {
        true => format!("{} starts on its own again; missed runs are skipped", safe(&key.name)),
        false => format!("{} was not paused", safe(&key.name)),
    }))
}

/// Resumes a paused round, or withdraws a pause that has not taken effect.
async fn resume_round(cx: &CommandContext, row: &RoundRow) -> VerbResult {
    let is_withdrawn = steer::withdraw_pause(cx, &row.id).await?;
    if row.phase == RoundPhase::Suspended {
        return super::retry::resume(cx, row).await;
    }
    if !is_withdrawn {
        let text = format!("round {} is not paused: it is {}", row.id, row.phase);
        return Err(CommandError::refused(text).hint(format!("see `loopwright show {}`", row.id)));
    }
    let document = json!({"schema": 1, "loop": row.loop_name, "round": row.id, "paused": false});
    Ok(cx.out.answer(&document, || format!("round {} does not pause", safe(&row.id))))
}

/// The round or workflow that a text names by its id, its beginning or a question about it.
async fn find_run(cx: &CommandContext, text: &str) -> Result<Option<RunTarget>, CommandError> {
    match super::status::open_store_if_any(cx).await? {
        Some(store) => Ok(find::find_run(store.as_ref(), text).await.ok()),
        None => Ok(None),
    }
}

/// Ends the global stop, also one by file, and accepts a clock that seemed implausible.
pub(crate) async fn thaw(cx: &CommandContext) -> VerbResult {
    let thawed = match cx.daemon() {
        Some(daemon) => daemon.thaw(&cx.actor_name()).await?,
        None => {
            let engine = cx.open_engine(None, &CancelToken::new()).await?;
            let thawed = match FleetScan::loop_entries(cx).await {
                Ok(entries) => engine.thaw_all(entries, &cx.actor_name()).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            close(&engine, thawed).await?
        }
    };
    let document = json!({"schema": 1, "thawed": thawed.has_effect(), "clock_taken": thawed.was_clock_behind});
    Ok(cx.out.answer(&document, || describe(thawed).to_owned()))
}

fn describe(thawed: ThawReport) -> &'static str {
    match (thawed.was_stopped, thawed.was_clock_behind) {
        (true, false) => "loops start again; missed runs are skipped",
        (false, true) => "the clock is accepted as it is; loops start again",
        (true, true) => "the clock is accepted as it is, and loops start again; missed runs are skipped",
        (false, false) => "nothing was stopped",
    }
}

/// Whether a loop is paused, and whether it waits after a failure or a limit.
async fn pause_state(cx: &CommandContext, key: &LoopKey) -> Result<(bool, bool), CommandError> {
    let Some(store) = super::status::open_store_if_any(cx).await? else { return Ok((false, false)) };
    let row = store.schedule(&key.repo, &key.name).await?;
    let waits = |row: &ScheduleRow| row.wait_until_ms.is_some_and(|until_ms| until_ms > now_ms());
    Ok((row.as_ref().is_some_and(|row| row.paused_ms.is_some()), row.as_ref().is_some_and(waits)))
}

/// The loop of an inbox question, or the loop of that name.
async fn find_loop(cx: &CommandContext, text: &str) -> Result<(LoopKey, Option<LoopEntry>), CommandError> {
    let question = match super::status::open_store_if_any(cx).await? {
        Some(store) => store.inbox_item(text).await?.filter(|question| question.kind == InboxKind::LoopPaused),
        None => None,
    };
    let Some(question) = question else { return find_loop_by_name(cx, text).await };
    let key = LoopKey::new(&question.repo, &question.loop_name);
    let entry = FleetScan::loop_entries(cx).await.unwrap_or_default().into_iter().find(|entry| entry.key == key);
    Ok((key, entry))
}

/// The loop by its file here, or one whose state the store has.
async fn find_loop_by_name(cx: &CommandContext, name: &str) -> Result<(LoopKey, Option<LoopEntry>), CommandError> {
    let unknown = match cx.repo().await {
        Ok(repo) => match cx.loops(&repo)?.find(name) {
            Ok(file) => {
                let entry = LoopEntry::from_spec(&file.spec, &repo.id, &cx.system_zone());
                let entry = entry.map_err(|problem| CommandError::invalid(problem.to_string()))?;
                return Ok((entry.key.clone(), Some(entry)));
            }
            Err(unknown) => unknown,
        },
        Err(unknown) => unknown,
    };
    if let Some(entry) = find_loop_in_fleet(cx, name).await? {
        return Ok((entry.key.clone(), Some(entry)));
    }
    match super::status::open_store_if_any(cx).await? {
        Some(store) => Ok((find_loop_in_store(store.as_ref(), name).await?.ok_or(unknown)?, None)),
        None => Err(unknown),
    }
}

/// The loop of that name in the repositories of the configuration.
async fn find_loop_in_fleet(cx: &CommandContext, name: &str) -> Result<Option<LoopEntry>, CommandError> {
    if cx.has_explicit_repo() {
        return Ok(None);
    }
    // A broken configuration names no loop.
    let mut named = FleetScan::loop_entries(cx).await.unwrap_or_default();
    named.retain(|entry| &*entry.key.name == name);
    match named.len() {
        0 | 1 => Ok(named.pop()),
        _ => Err(CommandError::new(CommandErrorKind::Usage, format!("several repositories have a loop `{name}`"))
            .hint("name one: --repo DIR")),
    }
}

async fn find_loop_in_store(store: &Store, name: &str) -> Result<Option<LoopKey>, CommandError> {
    let rows = store.schedules().await?;
    let mut named = rows.iter().filter(|row| row.loop_name == name);
    Ok(match (named.next(), named.next()) {
        (Some(row), None) => Some(LoopKey::new(&row.repo, &row.loop_name)),
        _ => None,
    })
}

//! `status`: show all loops and their state.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, safe};
use crate::control::DaemonConnection;
use crate::view::repo_view::{RepoView, read_stop_file};
use crate::view::status::{DaemonLine, LoopFilter, LoopLine, StatusView};
use crate::view::time::{self, Moment, now_ms};
use loopwright::store::{DISPATCHER, Store};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Refresh the list until you press Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Show the loops of all repositories, also inside a repository
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: LoopFilter,
}

/// How long a page of `--watch` is shown.
const STANDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: StatusArgs, cx: &CommandContext) -> VerbResult {
    if !args.watch || !cx.out.is_terminal() || cx.out.is_json() {
        return once(cx, &args).await;
    }
    let mut pages = tokio::time::interval(STANDS);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(CommandExit::DONE),
            _ = pages.tick() => cx.out.redraw(&page(&read_watched(cx, &args).await?, cx)),
        }
    }
}

async fn once(cx: &CommandContext, args: &StatusArgs) -> VerbResult {
    let status = read_watched(cx, args).await?;
    Ok(cx.out.answer(&status, || page(&status, cx)))
}

async fn read_watched(cx: &CommandContext, args: &StatusArgs) -> Result<StatusView, CommandError> {
    let status = if args.all { read_all(cx).await? } else { read(cx).await? };
    Ok(status.filtered(&args.filter))
}

/// The repository here and the store. Searches the one while the other opens: each takes a few milliseconds.
pub(super) async fn here_and_store(
    cx: &CommandContext,
) -> Result<(Option<RepoView>, Option<Arc<Store>>), CommandError> {
    let (here, store) = tokio::join!(RepoView::find_current(cx), open_store_if_any(cx));
    Ok((here?, store?))
}

async fn read(cx: &CommandContext) -> Result<StatusView, CommandError> {
    let (here, store) = here_and_store(cx).await?;
    let Some(here) = here.filter(RepoView::has_loops) else { return read_all(cx).await };
    let mut status = StatusView::read(store.as_deref(), Some(&here), now_ms()).await?;
    status.daemon = find_daemon(cx, store.as_deref()).await?;
    Ok(status)
}

/// The loops of every repository that a daemon started here would manage, and those that have ever run.
async fn read_all(cx: &CommandContext) -> Result<StatusView, CommandError> {
    let (store, fleet) = (open_store_if_any(cx).await?, RepoView::find_fleet(cx).await?);
    let mut status = StatusView::read_fleet(store.as_deref(), &fleet, read_stop_file(cx), now_ms()).await?;
    status.daemon = find_daemon(cx, store.as_deref()).await?;
    Ok(status)
}

/// The process that answers at the control socket, and the time when it opened the store.
pub(super) async fn find_daemon(
    cx: &CommandContext,
    store: Option<&Store>,
) -> Result<Option<DaemonLine>, CommandError> {
    let Some(pid) = DaemonConnection::connect(&cx.state_dir()?.0).await?.and_then(|peer| peer.pid) else {
        return Ok(None);
    };
    let leases = match store {
        Some(store) => store.leases().await?,
        None => Vec::new(),
    };
    let lease = leases.into_iter().find(|lease| lease.name == DISPATCHER);
    let process = lease.and_then(|lease| lease.process).filter(|process| process.pid == i64::from(pid));
    Ok(Some(DaemonLine { pid, since: process.map(|process| Moment(process.since_ms)) }))
}

/// The store, read-only; `None` if nothing has run yet.
pub(super) async fn open_store_if_any(cx: &CommandContext) -> Result<Option<Arc<Store>>, CommandError> {
    match cx.open_store_read_only().await {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind == CommandErrorKind::Unknown => Ok(None),
        Err(error) => Err(error),
    }
}

/// The most running rounds that are listed.
const RUNNING_MAX: usize = 20;

/// The running rounds, a line each.
fn running(status: &StatusView, cx: &CommandContext) -> String {
    let Ok((state, _)) = cx.state_dir() else { return String::new() };
    let width = cx.out.width();
    let lines: Vec<_> =
        status.running.iter().take(RUNNING_MAX).map(|line| line.render(&state, now_ms(), width)).collect();
    if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
}

fn page(status: &StatusView, cx: &CommandContext) -> String {
    if status.loops.is_empty() && status.counts.values().any(|count| *count > 0) {
        return "no loop matches".to_owned();
    }
    if status.loops.is_empty() {
        return "no loops yet\nwrite one with `loopwright init`, or see `loopwright demo`".to_owned();
    }
    let waiting: usize = status.loops.iter().map(|line| line.waiting).sum();
    let mut page = status.render(now_ms(), &cx.out);
    page.push_str(&running(status, cx));
    let workflows: Vec<_> = status.workflows.iter().map(|line| format!("\n\n{}", line.render())).collect();
    page.push_str(&workflows.concat());
    let invalid = status.loops.iter().filter(|line| line.status.word() == "invalid").count();
    if let Some(why) = &status.stopped {
        page.push_str(&format!("\n\neverything is stopped {}\nto let loops start again: loopwright thaw", safe(why)));
    }
    let is_timed = status.loops.iter().any(|line| line.next.is_some());
    match &status.daemon {
        Some(daemon) => {
            let up = |since: Moment| format!(", up {}", time::duration_text(now_ms() - since.0));
            let since = daemon.since.map_or(String::new(), up);
            page.push_str(&format!("\n\nthe daemon runs: process {}{since}", daemon.pid));
        }
        None if is_timed => page.push_str("\n\nno daemon runs, so nothing starts on its own: loopwright up"),
        None => {}
    }
    // In the other states the reason is the one of the state.
    let is_plain = |line: &&LoopLine| matches!(line.status.word(), "idle" | "due" | "running" | "waiting");
    for line in status.loops.iter().filter(is_plain) {
        if let Some(kept) = &line.paused_reason {
            page.push_str(&format!("\n\n{}: {}", safe(&line.name), safe(kept)));
        }
    }
    for line in &status.loops {
        if let Some(ceiling) = &line.ceiling {
            page.push_str(&format!("\n\n{}: {}", safe(&line.name), safe(&ceiling.text)));
        }
    }
    let unread: u64 = status.loops.iter().filter_map(|line| Some(line.debts.as_ref()?.comprehension.lines)).sum();
    if unread > 0 {
        page.push_str(&format!("\n\n{unread} sent lines that no person has read: loopwright review"));
    }
    if waiting > 0 {
        page.push_str(&format!("\n\n{waiting} waiting for you: loopwright inbox"));
    }
    if invalid > 0 {
        page.push_str(&format!("\n\n{invalid} not usable: loopwright check"));
    }
    page
}

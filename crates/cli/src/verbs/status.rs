//! `status`: show all loops and their state.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, safe};
use crate::control::DaemonConnection;
use crate::view::repo_view::{RepoView, read_stop_file};
use crate::view::status::{DaemonLine, StatusView};
use crate::view::time::{self, Moment, now_ms};
use loopwright::store::{DISPATCHER, Store};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Refresh the list until you press Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
}

/// How long a page of `--watch` is shown.
const STANDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: StatusArgs, cx: &CommandContext) -> VerbResult {
    if !args.watch || !cx.out.is_terminal() || cx.out.is_json() {
        return once(cx).await;
    }
    let mut pages = tokio::time::interval(STANDS);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(CommandExit::DONE),
            _ = pages.tick() => cx.out.redraw(&page(&read(cx).await?, cx)),
        }
    }
}

async fn once(cx: &CommandContext) -> VerbResult {
    let status = read(cx).await?;
    Ok(cx.out.answer(&status, || page(&status, cx)))
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
    let mut status = match here.filter(RepoView::has_loops) {
        Some(here) => StatusView::read(store.as_deref(), Some(&here), now_ms()).await?,
        None => {
            StatusView::read_fleet(store.as_deref(), &RepoView::find_fleet(cx).await?, read_stop_file(cx), now_ms())
                .await?
        }
    };
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

fn page(status: &StatusView, cx: &CommandContext) -> String {
    if status.loops.is_empty() {
        return "no loops yet\nwrite one with `loopwright init`, or see `loopwright demo`".to_owned();
    }
    let waiting: usize = status.loops.iter().map(|line| line.waiting).sum();
    let mut page = status.render(now_ms(), cx.out.width());
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

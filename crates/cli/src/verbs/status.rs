//! `status`: show all loops and how they stand.

use super::Ended;
use crate::context::Context;
use crate::control::Peer;
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::output::safe;
use crate::view::loops::{Here, stop_file};
use crate::view::status::{DaemonLine, Status};
use crate::view::time::{self, moment, now_ms};
use loopwright::store::{DISPATCHER, Store};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Refresh the page until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
}

/// How long a page of `--watch` stands.
const STANDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    if !args.watch || !cx.out.is_terminal() || cx.out.is_json() {
        return once(cx).await;
    }
    let mut pages = tokio::time::interval(STANDS);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(Exit::DONE),
            _ = pages.tick() => cx.out.redraw(&page(&read(cx).await?, cx)),
        }
    }
}

async fn once(cx: &Context) -> Ended {
    let status = read(cx).await?;
    cx.out.answer(&status, || page(&status, cx));
    Ok(Exit::DONE)
}

/// The repository is looked for while the store is opened: each takes a few milliseconds.
async fn read(cx: &Context) -> Result<Status, CommandError> {
    let (here, store) = tokio::join!(Here::find(cx), store_if_any(cx));
    let (here, store) = (here?, store?);
    let mut status = match here.filter(Here::has_loops) {
        Some(here) => Status::read(store.as_deref(), Some(&here), now_ms()).await?,
        None => Status::of_fleet(store.as_deref(), &Here::fleet(cx).await?, stop_file(cx), now_ms()).await?,
    };
    status.daemon = daemon(cx, store.as_deref()).await?;
    Ok(status)
}

/// The process that answers at the control socket, and since when it has the store open.
pub(super) async fn daemon(cx: &Context, store: Option<&dyn Store>) -> Result<Option<DaemonLine>, CommandError> {
    let Some(pid) = Peer::find(&cx.state_dir()?.0).await?.and_then(|peer| peer.pid) else { return Ok(None) };
    let leases = match store {
        Some(store) => store.leases().await?,
        None => Vec::new(),
    };
    let lease = leases.into_iter().find(|lease| lease.name == DISPATCHER);
    let process = lease.and_then(|lease| lease.process).filter(|process| process.pid == i64::from(pid));
    let since_ms = process.map(|process| process.since_ms);
    Ok(Some(DaemonLine { pid, since: since_ms.map(moment), since_ms }))
}

/// The store for looking, or none where nothing has run yet.
pub(super) async fn store_if_any(cx: &Context) -> Result<Option<Arc<dyn Store>>, CommandError> {
    match cx.reader().await {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind == Kind::Unknown => Ok(None),
        Err(error) => Err(error),
    }
}

fn page(status: &Status, cx: &Context) -> String {
    if status.loops.is_empty() {
        return "no loops yet\nwrite one with `loopwright init`, or see `loopwright demo`".to_owned();
    }
    let waiting: usize = status.loops.iter().map(|line| line.waiting).sum();
    let mut page = status.render(now_ms(), cx.out.width());
    let invalid = status.loops.iter().filter(|line| line.status.word() == "invalid").count();
    if let Some(why) = &status.stopped {
        page.push_str(&format!("\n\neverything is stopped {}\nlet loops start again: loopwright thaw", safe(why)));
    }
    let is_timed = status.loops.iter().any(|line| line.next.is_some());
    match &status.daemon {
        Some(daemon) => {
            let since = daemon.since_ms.map_or(String::new(), |ms| format!(", up {}", time::span(now_ms() - ms)));
            page.push_str(&format!("\n\nthe daemon runs: process {}{since}", daemon.pid));
        }
        None if is_timed => page.push_str("\n\nno daemon runs, so nothing starts by itself: loopwright up"),
        None => {}
    }
    if waiting > 0 {
        page.push_str(&format!("\n\n{waiting} waiting for you: loopwright inbox"));
    }
    if invalid > 0 {
        page.push_str(&format!("\n\n{invalid} not usable: loopwright check"));
    }
    page
}

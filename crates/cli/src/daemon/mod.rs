//! The daemon: the one process that schedules. It starts loops when they are due, performs commands of other processes,
//! and ends in order. The dispatcher decides what is due; this module is the process around it.

mod daemon_log;
pub(crate) mod detach;
mod fleet;
mod input_watcher;
mod loop_catalogue;
mod notifier;
mod service_notifier;
mod standby;
mod telemetry_exporter;
mod webhooks;

pub(crate) use daemon_log::{DaemonLog, TimestampStyle};
pub(crate) use fleet::DaemonFleet;

use crate::context::CommandContext;
use crate::control::{ControlServer, DaemonConnection, DaemonResources, is_frozen, socket};
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult, with_count};
use crate::panic;
use crate::signals::SignalListener;
use crate::upkeep::keep_up_loops;
use crate::web::{BoundWebServer, WebServer};
use input_watcher::{DaemonSignalSink, FolderNews, WatchedTrees};
use loopwright::daemon::{Daemon, DaemonEnd as DaemonEnded, DaemonJoin};
use loopwright::proc::CancelToken;
use loopwright::{Engine, triggers};
use notifier::DaemonNotifier;
use serde_json::json;
use service_notifier::ServiceNotifier;
use standby::StandbyEnd;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use telemetry_exporter::TelemetryExporter;
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use webhooks::DaemonWebhooks;

/// How long forwarded commands may take to send their last output once no round runs any more.
const COMMANDS_GRACE: Duration = Duration::from_secs(10);

/// Signals that arrive this soon after the one that interrupts rounds count as the same request: `stop --now` sends
/// two, and a terminal and a wrapper may both pass one on.
const SIGNAL_MERGE_WINDOW: Duration = Duration::from_secs(2);

/// How the daemon was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DaemonLaunch {
    /// Started manually or by a service manager, which keep the output.
    Foreground,
    /// Started by `--detach`: prints one document and switches to its log.
    Detached,
}

/// Runs the daemon until it is asked to end.
pub(crate) async fn run(
    cx: &CommandContext,
    grace: Duration,
    terminal: DaemonLaunch,
    listen: Option<SocketAddr>,
) -> VerbResult {
    if terminal == DaemonLaunch::Detached {
        detach::detach_from_terminal();
    }
    panic::report_and_continue();
    // Agents may run beside this process from here on, and it knows keys: make its memory unreadable to them.
    // If that fails, it stays as it was.
    let _ = loopwright::proc::make_undumpable();
    let Some(mut house) = RunningDaemon::open(cx, terminal, listen).await? else { return Ok(CommandExit::DONE) };
    house.ready(cx, terminal).await?;
    let broke = house.run_until_stopped(cx).await;
    house.close(broke, grace).await
}

/// The engine with the lease of the one process that schedules. If a daemon already has the lease, the error names it
/// and adds a hint.
pub(crate) async fn open_as_owner(cx: &CommandContext) -> Result<Engine, CommandError> {
    let engine = Engine::open(cx.settings(None)?).await?;
    lease_dispatcher(cx, &engine).await.map(|()| engine)
}

async fn lease_dispatcher(cx: &CommandContext, engine: &Engine) -> Result<(), CommandError> {
    match engine.lease_dispatcher().await.map_err(CommandError::from) {
        Err(error)
            if error.kind == CommandErrorKind::Held
                && DaemonConnection::connect(&cx.state_dir()?.0).await?.is_some() =>
        {
            let hints = vec!["a daemon runs: see `loopwright status`, or stop it with `loopwright stop`".to_owned()];
            Err(CommandError { hints, ..error })
        }
        leased => leased,
    }
}

/// The error for a control socket that cannot be opened; a frozen daemon that holds it is named.
async fn unbound(state: &Path, error: &std::io::Error) -> CommandError {
    let failed = CommandError::failed(format!("open the control socket: {error}"));
    let other = DaemonConnection::connect(state).await.ok().flatten().and_then(|other| other.pid);
    match other.filter(|pid| is_frozen(*pid)) {
        Some(pid) => failed
            .hint(format!("process {pid} is frozen: `kill -CONT {pid}` lets it continue, `kill -KILL {pid}` ends it")),
        None => failed,
    }
}

struct RunningDaemon {
    engine: Engine,
    state: PathBuf,
    daemon: Daemon,
    ending: JoinHandle<DaemonEnded>,
    fleet: DaemonFleet,
    control: Arc<ControlServer>,
    log: Arc<DaemonLog>,
    notify: ServiceNotifier,
    trees: WatchedTrees,
    news: Arc<FolderNews>,
    triggers: triggers::TriggerWatch,
    webhooks: DaemonWebhooks,
    /// The HTTP server, if it is not off.
    web: Option<WebServer>,
    /// Sends notifications and telemetry.
    reporters: DaemonReporters,
    /// The upkeep of the loops besides their cadences, and its stop.
    upkeep: (JoinHandle<()>, CancelToken),
    signals: DaemonSignals,
}

/// The signals that the daemon catches from its start on.
struct DaemonSignals {
    /// Those that ask it to end; one listener for its whole life, so that no second signal is lost between two
    /// listeners.
    stop: SignalListener,
    /// The one that asks it to reload; its default action ends the process.
    hangup: SignalListener,
}

impl RunningDaemon {
    /// A start that fails releases the lease that it took. Returns nothing if it was asked to end while it stood by.
    async fn open(
        cx: &CommandContext,
        terminal: DaemonLaunch,
        listen: Option<SocketAddr>,
    ) -> Result<Option<Self>, CommandError> {
        let mut signals = DaemonSignals {
            stop: SignalListener::for_kinds([SignalKind::interrupt(), SignalKind::terminate()]),
            hangup: SignalListener::for_kinds([SignalKind::hangup()]),
        };
        let engine = Engine::open(cx.settings(None)?).await?;
        let mut leased = lease_dispatcher(cx, &engine).await.map(|()| StandbyEnd::Leading);
        if let Err(held) = &leased
            && held.kind == CommandErrorKind::Held
            && engine.store().is_leased()
            && terminal == DaemonLaunch::Foreground
        {
            let log = DaemonLog::new(&cx.out, TimestampStyle::TimeOfDay, cx.progress_detail()?);
            let notify = ServiceNotifier::new(cx.env.notify.clone());
            leased = standby::stand_by(&engine, &held.text, (&log, &notify), &mut signals.stop).await;
        }
        let opened = match leased {
            Ok(StandbyEnd::Leading) => {
                Box::pin(Self::open_on(cx, engine.clone(), terminal, listen, signals)).await.map(Some)
            }
            Ok(StandbyEnd::Stopped) => Ok(None),
            Err(error) => Err(error),
        };
        if !matches!(opened, Ok(Some(_))) {
            // The error that is reported is the one that ended the start.
            let _ = engine.close().await;
        }
        opened
    }

    async fn open_on(
        cx: &CommandContext,
        engine: Engine,
        terminal: DaemonLaunch,
        listen: Option<SocketAddr>,
        signals: DaemonSignals,
    ) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        // Bound at once, so that commands wait instead of finding no daemon; served once everything is ready.
        let listener = match socket::bind(&state).await {
            Ok(listener) => listener,
            Err(error) => return Err(unbound(&state, &error).await),
        };
        let stamp =
            if terminal == DaemonLaunch::Detached { TimestampStyle::DateAndTime } else { TimestampStyle::TimeOfDay };
        let log = Arc::new(DaemonLog::new(&cx.out, stamp, cx.progress_detail()?));
        // If the address is unavailable, this fails before anything was started.
        let mut webhooks = DaemonWebhooks::bind(cx, listen).await?;
        let web = WebServer::bind(cx).await?;
        let fleet = DaemonFleet::new(cx, &log, &engine)?;
        let (news, mut trees) = (Arc::new(FolderNews::default()), WatchedTrees::default());
        let (own, clock) = (engine.clone(), Arc::clone(&engine.settings().clock));
        let hearing = Arc::new(DaemonSignalSink { engine: own, daemon: OnceLock::new(), news: Arc::clone(&news) });
        let ears: Arc<dyn triggers::Signals> = Arc::clone(&hearing) as _;
        let triggers =
            triggers::TriggerWatch::start(engine.git().clone(), &state, Arc::clone(&clock), Arc::clone(&ears));
        // Watched before they are read, so that no change is missed in between.
        triggers.set_folders(trees.folders(cx, &fleet.configured_paths().await)).await;
        engine.events().attach(Arc::clone(&log) as _).keep();
        let (daemon, ending) = Daemon::start(engine.clone(), Arc::new(fleet.clone()), fleet.limits()?).await?;
        // It is set once, and no trigger is watched yet.
        let _ = hearing.daemon.set(daemon.clone());
        webhooks.serve(&clock, &ears);
        let shared = shared_resources(cx, &engine, &daemon, &state, web.as_ref());
        let control = ControlServer::new(Arc::new(shared));
        let web = web.map(|web| web.serve(cx.duplicate(), Arc::clone(&control), engine.clone()));
        tokio::spawn(Arc::clone(&control).serve(listener));
        let reporters = DaemonReporters::start(cx, &engine, &log)?;
        let upkeep = start_upkeep(cx, &engine, &log);
        let notify = ServiceNotifier::new(cx.env.notify.clone());
        let ending = tokio::spawn(DaemonJoin::wait(ending));
        Ok(Self {
            engine,
            state,
            daemon,
            ending,
            fleet,
            control,
            log,
            notify,
            trees,
            news,
            triggers,
            webhooks,
            web,
            reporters,
            upkeep,
            signals,
        })
    }

    async fn ready(&mut self, cx: &CommandContext, terminal: DaemonLaunch) -> Result<(), CommandError> {
        self.listen(cx).await;
        let (pid, now) = (std::process::id(), self.daemon.snapshot().await?);
        let document = json!({"schema": 1, "daemon": {"pid": pid, "loops": now.loops, "state": self.state}});
        let loops = with_count(now.loops, "loop");
        cx.out.answer(&document, || {
            let none = if now.loops == 0 { "\nno loops here yet: loopwright init writes one" } else { "" };
            format!("up: process {pid}, {loops}; Ctrl-C stops it; see: loopwright status{none}")
        });
        if let Some(frozen) = &now.frozen {
            self.log.warn(&format!("everything is stopped by {}: {}; loopwright thaw", frozen.by, frozen.why));
        }
        self.webhooks.log_address(&self.log);
        if let Some(web) = &self.web {
            self.log.log("web", &format!("{}/; to open it: loopwright web", web.origin()));
        }
        self.notify.ready(&loops);
        if terminal == DaemonLaunch::Detached {
            self.log.redirect_to_file(detach::DaemonLogFile::redirect_stdout(&self.state));
            self.log.log("up", &format!("process {pid}, {loops}"));
        }
        // The memory used for reading is not needed while no loop is due.
        drop(tokio::task::spawn_blocking(loopwright::proc::release_memory));
        Ok(())
    }

    /// Watches the triggers of the loops that were read last.
    async fn listen(&mut self, cx: &CommandContext) {
        self.watch_folders(cx).await;
        let watched = self.fleet.watched();
        self.webhooks.set_loops(self.engine.git(), &watched).await;
        self.webhooks.warn_about_unreceived_events(&watched, &self.log);
        self.triggers.watch_only(watched).await;
    }

    async fn watch_folders(&mut self, cx: &CommandContext) {
        self.triggers.set_folders(self.trees.folders(cx, &self.fleet.work_trees())).await;
    }

    /// Runs until it is asked to end, or fails; returns the reason in the latter case.
    async fn run_until_stopped(&mut self, cx: &CommandContext) -> Option<String> {
        let had_terminal = cx.out.is_terminal();
        loop {
            let again = tokio::select! {
                () = self.signals.stop.next() => return None,
                ended = &mut self.ending => return Some(why(ended)),
                // A daemon whose terminal closed has no reader any more and ends; any other one reloads its files.
                () = self.signals.hangup.next() => match had_terminal && !cx.out.is_terminal() {
                    true => return None,
                    false => true,
                },
                () = self.news.loops.notified() => true,
                () = self.news.state.notified() => {
                    // The daemon checks the file that stops everything before it answers.
                    let _ = self.daemon.snapshot().await;
                    false
                }
            };
            if again {
                // A new folder is watched before it is read, so that no change is missed in between.
                self.watch_folders(cx).await;
                if self.daemon.reload().await.is_ok() {
                    self.webhooks.reload_config(cx, &self.log);
                    self.listen(cx).await;
                }
            }
        }
    }

    /// Lets rounds end, answers waiting commands, and releases the store.
    async fn close(mut self, broke: Option<String>, grace: Duration) -> VerbResult {
        self.notify.stopping();
        self.upkeep.1.cancel();
        self.control.stop_accepting();
        let ended = match broke {
            Some(why) => Err(CommandError::failed(why)),
            None => self.drain(grace).await,
        };
        self.control.cancel_all();
        self.reporters.notifier.stop().await;
        // A round that the upkeep started ends when it is cancelled.
        if tokio::time::timeout(COMMANDS_GRACE, &mut self.upkeep.0).await.is_err() {
            self.upkeep.0.abort();
        }
        // Commands that are still running then have no reader any more.
        let _ = tokio::time::timeout(COMMANDS_GRACE, self.control.wait_until_idle()).await;
        socket::remove(&self.state);
        self.engine.close().await?;
        ended
    }

    async fn drain(&mut self, grace: Duration) -> VerbResult {
        // A daemon that has already ended cannot be asked any more, at either place; its ending has the reason.
        let _ = self.daemon.drain(grace).await;
        let mut interrupted: Option<Instant> = None;
        loop {
            tokio::select! {
                ended = &mut self.ending => return match ended {
                    Ok(DaemonEnded::Drained) => Ok(CommandExit::DONE),
                    ended => Err(CommandError::failed(why(ended))),
                },
                () = self.signals.stop.next() => match interrupted {
                    Some(since) if since.elapsed() < SIGNAL_MERGE_WINDOW => {}
                    Some(_) => {
                        socket::remove(&self.state);
                        CommandExit::INTERRUPTED.end_process()
                    }
                    None => {
                        interrupted = Some(Instant::now());
                        self.log.log("ending", "interrupting rounds; another signal ends them at once");
                        let _ = self.daemon.drain(Duration::ZERO).await;
                        self.control.cancel_all();
                    }
                }
            }
        }
    }
}

/// The parts of the daemon that report rounds to other systems.
struct DaemonReporters {
    /// Sends the notifications of the user's routes.
    notifier: DaemonNotifier,
    /// Sends traces and metrics, if a collector is configured.
    _telemetry: Option<TelemetryExporter>,
}

impl DaemonReporters {
    fn start(cx: &CommandContext, engine: &Engine, log: &Arc<DaemonLog>) -> Result<Self, CommandError> {
        let telemetry = TelemetryExporter::start(cx, engine, log)?;
        Ok(Self { notifier: DaemonNotifier::start(cx.duplicate(), engine, log)?, _telemetry: telemetry })
    }
}

/// The resources that commands of other processes and of the HTTP server use.
fn shared_resources(
    cx: &CommandContext,
    engine: &Engine,
    daemon: &Daemon,
    state: &Path,
    web: Option<&BoundWebServer>,
) -> DaemonResources {
    DaemonResources {
        engine: engine.clone(),
        daemon: daemon.clone(),
        env: cx.env.clone(),
        state: state.to_owned(),
        store: engine.settings().store.clone(),
        clients: cx.clients(),
        web: web.map(BoundWebServer::links),
    }
}

/// How often the upkeep of the loops runs.
const UPKEEP_EVERY_MS: i64 = 3_600_000;

fn start_upkeep(cx: &CommandContext, engine: &Engine, log: &Arc<DaemonLog>) -> (JoinHandle<()>, CancelToken) {
    let stop = CancelToken::new();
    (tokio::spawn(upkeep(cx.duplicate(), engine.clone(), Arc::clone(log), stop.clone())), stop)
}

/// Runs the upkeep now and then every hour, until it is cancelled.
async fn upkeep(cx: CommandContext, engine: Engine, log: Arc<DaemonLog>, cancel: CancelToken) {
    let clock = Arc::clone(&engine.settings().clock);
    while !cancel.is_cancelled() {
        let report = keep_up_loops(&cx, &engine, &cancel).await;
        report.done.iter().for_each(|line| log.log("upkeep", line));
        report.problems.iter().for_each(|line| log.warn(line));
        tokio::select! {
            () = clock.until(clock.now_ms().saturating_add(UPKEEP_EVERY_MS)) => {}
            () = cancel.cancelled() => {}
        }
    }
}

fn why(ended: Result<DaemonEnded, tokio::task::JoinError>) -> String {
    match ended {
        Ok(DaemonEnded::Drained) => "the daemon ended unexpectedly".to_owned(),
        Ok(DaemonEnded::Fenced(why)) => format!("another process schedules the loops now: {why}"),
        Ok(DaemonEnded::Failed(why)) => format!("the daemon failed: {why}"),
        Err(error) => format!("the daemon failed: {error}"),
    }
}

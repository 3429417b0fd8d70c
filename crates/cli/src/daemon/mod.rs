//! The daemon: the one process that schedules. It starts loops when they are due, performs the commands of others, and ends in order. What is
//! due is the dispatcher's business; here is the process around it.

mod catalogue;
mod deliveries;
pub(crate) mod detach;
mod ears;
mod fleet;
mod ground;
pub(crate) mod log;
mod notify;
mod teller;
mod watch;

pub(crate) use fleet::Repositories;
pub(crate) use teller::{Stamp, Teller};

use crate::context::Context;
use crate::control::{Hall, Peer, Shared, socket};
use crate::error::{CommandError, Kind, counted};
use crate::exit::Exit;
use crate::panic;
use crate::signals::Heard;
use crate::verbs::Ended;
use deliveries::{Bound, Deliveries};
use ears::Ears;
use loopwright::daemon::{Daemon, Ended as DaemonEnded, Ending};
use loopwright::{Engine, triggers};
use notify::Notify;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use watch::{FolderNews, WatchedTrees};

/// How long commands of others may take to say their last word once nothing runs any more.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Signals that come so soon after the one that interrupts rounds are the same wish: `stop --now` sends two, and a terminal
/// and a wrapper may both pass one on.
const ONE_WISH: Duration = Duration::from_secs(2);

/// Whether somebody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// Started by hand or by a manager, which keep what is printed.
    Own,
    /// Started by `--detach`: says one document and turns to its log.
    None,
}

/// Runs the daemon until it is asked to end.
pub(crate) async fn run(cx: &Context, grace: Duration, terminal: Terminal, listen: Option<SocketAddr>) -> Ended {
    if terminal == Terminal::None {
        detach::leave();
    }
    panic::report_and_go_on();
    // From here on agents run beside us, and this process knows keys. A kernel that says no leaves what was before.
    let _ = loopwright::proc::make_undumpable();
    let mut house = House::open(cx, terminal, listen).await?;
    house.ready(cx, terminal).await?;
    let broke = house.live(cx).await;
    house.close(broke, grace).await
}

/// The engine with the lease of the one process that schedules; a daemon that has it already is named with what to do about
/// it.
pub(crate) async fn own(cx: &Context) -> Result<Engine, CommandError> {
    let engine = Engine::open(cx.settings(None)?).await?;
    let leased = engine.lease_dispatcher().await;
    match leased.map(|()| engine).map_err(CommandError::from) {
        Err(error) if error.kind == Kind::Held && Peer::find(&cx.state_dir()?.0).await?.is_some() => {
            let hints = vec!["a daemon runs: see `loopwright status`, or end it with `loopwright stop`".to_owned()];
            Err(CommandError { hints, ..error })
        }
        opened => opened,
    }
}

struct House {
    engine: Engine,
    state: PathBuf,
    daemon: Daemon,
    ending: JoinHandle<DaemonEnded>,
    fleet: Repositories,
    hall: Arc<Hall>,
    teller: Arc<Teller>,
    notify: Notify,
    trees: WatchedTrees,
    news: Arc<FolderNews>,
    triggers: triggers::Watch,
    deliveries: Deliveries,
    /// Asks it to end; one for its whole life, so that a second signal is not lost between two listeners.
    end: Heard,
    /// Asks it to look again; heard from the start as well, for whoever does not hear it is ended by it.
    hangup: Heard,
}

impl House {
    async fn open(cx: &Context, terminal: Terminal, listen: Option<SocketAddr>) -> Result<Self, CommandError> {
        let end = Heard::of([SignalKind::interrupt(), SignalKind::terminate()]);
        let hangup = Heard::of([SignalKind::hangup()]);
        let (state, _) = cx.state_dir()?;
        let engine = own(cx).await?;
        let failed = |what: &str, error| CommandError::failed(format!("{what}: {error}"));
        // Bound at once, so that commands wait for us instead of finding nobody; heard when everything stands.
        let listener = socket::bind(&state).await.map_err(|error| failed("open the control socket", error))?;
        let stamp = if terminal == Terminal::None { Stamp::Moment } else { Stamp::Clock };
        let teller = Arc::new(Teller::new(&cx.out, stamp, cx.telling()?));
        // An address that cannot be had ends this before anything was started.
        let bound = Bound::take(cx, listen).await?;
        let fleet = Repositories::new(cx, &teller, &engine)?;
        let (news, mut trees) = (Arc::new(FolderNews::default()), WatchedTrees::default());
        let (own, clock) = (engine.clone(), Arc::clone(&engine.settings().clock));
        let hearing = Ears { engine: own, daemon: OnceLock::new(), news: Arc::clone(&news) };
        let hearing = Arc::new(hearing);
        let ears: Arc<dyn triggers::Signals> = Arc::clone(&hearing) as _;
        let triggers = triggers::Watch::start(engine.git().clone(), &state, Arc::clone(&clock), Arc::clone(&ears));
        // Watched before they are read, so that no change falls between.
        triggers.set_folders(trees.folders(cx, &fleet.places().await)).await;
        engine.events().attach(Arc::clone(&teller) as _).keep();
        let (daemon, ending) = Daemon::start(engine.clone(), Arc::new(fleet.clone()), fleet.limits()?).await?;
        // It is set once, and nothing that makes loops due is watched yet.
        let _ = hearing.daemon.set(daemon.clone());
        let deliveries = bound.serve(&clock, &ears);
        let store = engine.settings().store.clone();
        let (env, place) = (cx.env.clone(), state.clone());
        let shared = Shared { engine: engine.clone(), daemon: daemon.clone(), env, state: place, store };
        let hall = Hall::new(Arc::new(shared));
        tokio::spawn(Arc::clone(&hall).open(listener));
        let notify = Notify::new(cx.env.notify.clone());
        let ending = tokio::spawn(Ending::wait(ending));
        Ok(Self {
            engine,
            state,
            daemon,
            ending,
            fleet,
            hall,
            teller,
            notify,
            trees,
            news,
            triggers,
            deliveries,
            end,
            hangup,
        })
    }

    async fn ready(&mut self, cx: &Context, terminal: Terminal) -> Result<(), CommandError> {
        self.listen(cx).await;
        let (pid, now) = (std::process::id(), self.daemon.snapshot().await?);
        let document = json!({"schema": 1, "daemon": {"pid": pid, "loops": now.loops, "state": self.state}});
        let loops = counted(now.loops, "loop");
        cx.out.answer(&document, || {
            let none = if now.loops == 0 { "\nno loops here yet: loopwright init writes one" } else { "" };
            format!("up: process {pid}, {loops}; Ctrl-C ends it; look with: loopwright status{none}")
        });
        if let Some(frozen) = &now.frozen {
            self.teller.warn(&format!("everything is stopped by {}: {}; loopwright thaw", frozen.by, frozen.why));
        }
        self.deliveries.say(&self.teller);
        self.notify.ready(&loops);
        if terminal == Terminal::None {
            self.teller.turn_to(log::Streams::take(&self.state));
            self.teller.say("up", &format!("process {pid}, {loops}"));
        }
        // What it took to read all that is not needed while nothing is due.
        drop(tokio::task::spawn_blocking(loopwright::proc::give_memory_back));
        Ok(())
    }

    /// Watches what the loops that were read last want watched.
    async fn listen(&mut self, cx: &Context) {
        self.watch_folders(cx).await;
        let watched = self.fleet.watched();
        self.deliveries.set(self.engine.git(), &watched).await;
        self.deliveries.say_unheard(&watched, &self.teller);
        self.triggers.set(watched).await;
    }

    async fn watch_folders(&mut self, cx: &Context) {
        self.triggers.set_folders(self.trees.folders(cx, &self.fleet.work_trees())).await;
    }

    /// Until it is asked to end, or cannot go on; answers with why in the latter case.
    async fn live(&mut self, cx: &Context) -> Option<String> {
        let had_terminal = cx.out.is_terminal();
        loop {
            let again = tokio::select! {
                () = self.end.next() => return None,
                ended = &mut self.ending => return Some(why(ended)),
                // Nobody looks any more after one whose terminal went away; every other one reads its files again.
                () = self.hangup.next() => match had_terminal && !cx.out.is_terminal() {
                    true => return None,
                    false => true,
                },
                () = self.news.loops.notified() => true,
                () = self.news.state.notified() => {
                    // The daemon looks at the file that stops everything before it answers.
                    let _ = self.daemon.snapshot().await;
                    false
                }
            };
            if again {
                // A folder that has just come is watched before it is read, so that no change falls between.
                self.watch_folders(cx).await;
                if self.daemon.reload().await.is_ok() {
                    self.deliveries.tell(cx, &self.teller);
                    self.listen(cx).await;
                }
            }
        }
    }

    /// Lets rounds end, tells those who wait, and gives the store back.
    async fn close(mut self, broke: Option<String>, grace: Duration) -> Ended {
        self.notify.stopping();
        self.hall.close();
        let ended = match broke {
            Some(why) => Err(CommandError::failed(why)),
            None => self.drain(grace).await,
        };
        self.hall.cancel_all();
        // Commands that say nothing more by then have nobody to say it to.
        let _ = tokio::time::timeout(LAST_WORDS, self.hall.is_empty()).await;
        socket::remove(&self.state);
        self.engine.close().await?;
        ended
    }

    async fn drain(&mut self, grace: Duration) -> Ended {
        // One that has ended already cannot be asked any more, at either place: how it ended is in its ending.
        let _ = self.daemon.drain(grace).await;
        let mut interrupted: Option<Instant> = None;
        loop {
            tokio::select! {
                ended = &mut self.ending => return match ended {
                    Ok(DaemonEnded::Drained) => Ok(Exit::DONE),
                    ended => Err(CommandError::failed(why(ended))),
                },
                () = self.end.next() => match interrupted {
                    Some(since) if since.elapsed() < ONE_WISH => {}
                    Some(_) => {
                        socket::remove(&self.state);
                        std::process::exit(Exit::INTERRUPTED.into());
                    }
                    None => {
                        interrupted = Some(Instant::now());
                        self.teller.say("ending", "interrupting rounds; once more ends at once");
                        let _ = self.daemon.drain(Duration::ZERO).await;
                        self.hall.cancel_all();
                    }
                }
            }
        }
    }
}

fn why(ended: Result<DaemonEnded, tokio::task::JoinError>) -> String {
    match ended {
        Ok(DaemonEnded::Drained) => "the daemon ended unasked".to_owned(),
        Ok(DaemonEnded::Fenced(why)) => format!("another process schedules the loops now: {why}"),
        Ok(DaemonEnded::Failed(why)) => format!("the daemon broke: {why}"),
        Err(error) => format!("the daemon broke: {error}"),
    }
}

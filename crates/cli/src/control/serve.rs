//! The daemon's end of the control socket: looks who asks, understands what, performs it and says how it ended. At most so
//! many at a time, each within its limits; one that leaves or lies changes nothing for the others.

use super::hands::{Hands, Shared};
use super::socket;
use super::wire::{self, PROTOCOL, Reply, Request, VERSION, Wish};
use crate::args::Cli;
use crate::context::Context;
use crate::error::{CommandError, Kind};
use crate::output::{Heard, Line};
use crate::verbs;
use clap::Parser as _;
use loopwright::proc::Cancel;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Commands performed at a time.
const GUESTS_MAX: u32 = 64;

/// How long a request may take to arrive.
const ARRIVES: Duration = Duration::from_secs(5);

/// How long an answer may stand unread before its reader counts as gone.
const READS: Duration = Duration::from_secs(30);

/// How long nobody is let in after that failed, for want of descriptors for example.
const RESTS: Duration = Duration::from_millis(200);

/// Where commands are received.
pub(crate) struct Hall {
    shared: Arc<Shared>,
    seats: Arc<Semaphore>,
    guests: Mutex<HashMap<u64, Cancel>>,
    count: AtomicU64,
    is_closing: AtomicBool,
}

impl Hall {
    /// An empty one.
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let seats = Arc::new(Semaphore::new(GUESTS_MAX as usize));
        Arc::new(Self {
            shared,
            seats,
            guests: Mutex::default(),
            count: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Receives for ever.
    pub(crate) async fn open(self: Arc<Self>, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(Arc::clone(&self).receive(stream))),
                // Nothing ever comes, so that only the time does.
                Err(_) => drop(tokio::time::timeout(RESTS, std::future::pending::<()>()).await),
            }
        }
    }

    /// From now on nothing new begins.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    /// Asks everything under way to end.
    pub(crate) fn cancel_all(&self) {
        self.guests().values().for_each(Cancel::cancel);
    }

    /// Comes back when nothing is under way.
    pub(crate) async fn is_empty(&self) {
        // The semaphore is never closed.
        let _ = self.seats.acquire_many(GUESTS_MAX).await;
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<u64, Cancel>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn receive(self: Arc<Self>, stream: UnixStream) {
        // A stranger is not even told that somebody is here.
        let Some(uid) = stream.peer_cred().ok().map(|peer| peer.uid()).filter(|uid| socket::is_welcome(*uid)) else {
            return;
        };
        let (mut from, mut to) = stream.into_split();
        let request = tokio::time::timeout(ARRIVES, wire::receive::<Request>(&mut from)).await;
        let Ok(Ok(Some(request))) = request else { return };
        match self.admit(&request) {
            Ok((seat, cli)) => self.attend(seat, request, cli, uid, from, to).await,
            // Whoever left does not need to be told.
            Err(error) => drop(wire::send(&mut to, &Reply::from(error)).await),
        }
    }

    fn admit(&self, request: &Request) -> Result<(OwnedSemaphorePermit, Cli), CommandError> {
        same_build(request)?;
        if self.is_closing.load(Ordering::SeqCst) {
            return Err(CommandError::new(
                Kind::Held,
                format!("the daemon, process {}, is ending", std::process::id()),
            )
            .hint("try again when it has"));
        }
        let words = request.argv.iter().map(|word| OsString::from(word.clone()));
        let cli = Cli::try_parse_from(std::iter::once(OsString::from("loopwright")).chain(words));
        let cli = cli.map_err(|error| CommandError::new(Kind::Usage, error.to_string()))?;
        let seat = Arc::clone(&self.seats).try_acquire_owned();
        let seat = seat.map_err(|_| CommandError::failed("the daemon has its hands full with other commands"))?;
        Ok((seat, cli))
    }

    async fn attend(
        self: Arc<Self>,
        seat: OwnedSemaphorePermit,
        request: Request,
        cli: Cli,
        uid: u32,
        from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let cancel = Cancel::new();
        self.guests().insert(number, cancel.clone());
        let wishes = tokio::spawn(hear_wishes(from, cancel.clone()));
        let (line, heard) = Line::new(request.streams());
        let env = request.environment(&self.shared.env);
        let cx = Context::lent(env, cli.flags, line, Hands::Lent(Arc::clone(&self.shared), cancel), uid);
        let work = tokio::spawn(perform(cli.verb, cx));
        let begun = wire::send(&mut to, &Reply::Begun { version: VERSION.to_owned() }).await;
        pass_on(heard, &mut to, begun.is_ok()).await;
        let end = match work.await {
            Ok(end) => end,
            Err(_) => Reply::from(CommandError::failed("the command ended by a bug of the daemon; its log says more")),
        };
        // Whoever left does not need to be told.
        let _ = tokio::time::timeout(READS, wire::send(&mut to, &end)).await;
        wishes.abort();
        self.guests().remove(&number);
        drop(seat);
    }
}

/// Performs a command as its own process would.
async fn perform(verb: crate::args::Verb, cx: Context) -> Reply {
    if let Err(error) = cx.is_at_home() {
        return error.into();
    }
    let exit = verbs::lent(verb, &cx).await.unwrap_or_else(|error| {
        cx.out.error(&error);
        error.kind.exit()
    });
    Reply::Exit(cx.out.finish(exit).into())
}

/// Hands on what a command says, to its last word, also when nobody listens any more: the work is not to stop for that.
async fn pass_on(mut heard: Heard, to: &mut OwnedWriteHalf, mut is_heard: bool) {
    while let Some(said) = heard.next().await {
        for chunk in Reply::chunks(said) {
            is_heard = is_heard && matches!(tokio::time::timeout(READS, wire::send(to, &chunk)).await, Ok(Ok(())));
        }
    }
}

async fn hear_wishes(mut from: OwnedReadHalf, cancel: Cancel) -> io::Result<()> {
    while let Some(wish) = wire::receive(&mut from).await? {
        match wish {
            Wish::Cancel => cancel.cancel(),
        }
    }
    // Somebody who leaves without a word leaves the work to us.
    Ok(())
}

fn same_build(request: &Request) -> Result<(), CommandError> {
    if request.protocol == PROTOCOL && request.version == VERSION {
        return Ok(());
    }
    let (pid, theirs) = (std::process::id(), &request.version);
    Err(CommandError::failed(format!("the daemon, process {pid}, is loopwright {VERSION}; this command is {theirs}"))
        .hint(format!("end it and start it again: kill {pid}, then loopwright up")))
}

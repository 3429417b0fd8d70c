//! The daemon's end of the control socket: checks the peer, reads its request, performs it and sends its exit code. It
//! limits the number of requests and the time of each; a peer that leaves or lies does not affect the others.

use super::wire::{self, ControlMessage, ControlReply, ControlRequest, PROTOCOL, VERSION};
use super::{CommandHost, DaemonResources, FaceAnswer, FaceRequest, socket};
use crate::args::{Cli, CliVerb};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind};
use crate::output::{OutputReceiver, OutputSender, StreamInfo};
use crate::verbs;
use crate::web::access::AccessRegistry;
use clap::Parser as _;
use loopwright::Actor;
use loopwright::proc::{CancelToken, release_memory, resident_memory};
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
const REQUESTS_MAX: u32 = 64;

/// How long a request may take to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may stay unread before its reader counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after a failed accept, for example when there are no descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// When no command runs any more, the daemon keeps at most this much more resident memory than before. A command that reads thousands
/// of loop files needs far more for a moment, and the allocator would keep it in the arena of each thread.
const KEPT_BYTES: u64 = 4 << 20;

/// The server that receives commands.
pub(crate) struct ControlServer {
    resources: Arc<DaemonResources>,
    slots: Arc<Semaphore>,
    requests: Mutex<HashMap<u64, CancelToken>>,
    count: AtomicU64,
    /// The resident memory in bytes after the last release.
    resident: AtomicU64,
    is_closing: AtomicBool,
}

impl ControlServer {
    /// A server without requests.
    pub(crate) fn new(shared: Arc<DaemonResources>) -> Arc<Self> {
        let seats = Arc::new(Semaphore::new(REQUESTS_MAX as usize));
        Arc::new(Self {
            resources: shared,
            slots: seats,
            requests: Mutex::default(),
            count: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Receives until it is dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(Arc::clone(&self).handle_connection(stream))),
                // Waits for the timeout alone.
                Err(_) => drop(tokio::time::timeout(ACCEPT_RETRY_DELAY, std::future::pending::<()>()).await),
            }
        }
    }

    /// From now on no new command begins.
    pub(crate) fn stop_accepting(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    /// Asks all running commands to end.
    pub(crate) fn cancel_all(&self) {
        self.lock_requests().values().for_each(CancelToken::cancel);
    }

    /// Returns when no command is running.
    pub(crate) async fn wait_until_idle(&self) {
        // The semaphore is never closed.
        let _ = self.slots.acquire_many(REQUESTS_MAX).await;
    }

    fn lock_requests(&self) -> MutexGuard<'_, HashMap<u64, CancelToken>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle_connection(self: Arc<Self>, stream: UnixStream) {
        // A process of another user gets no answer at all.
        let Some(uid) = stream.peer_cred().ok().map(|peer| peer.uid()).filter(|uid| socket::is_trusted_peer(*uid))
        else {
            return;
        };
        let (mut from, mut to) = stream.into_split();
        let request = tokio::time::timeout(REQUEST_TIMEOUT, wire::receive::<ControlRequest>(&mut from)).await;
        let Ok(Ok(Some(request))) = request else { return };
        match self.admit_request(&request) {
            Ok((seat, cli)) => match self.token_actor(&request, &cli.verb) {
                Ok(actor) => self.run_request((seat, actor), request, cli, uid, from, to).await,
                Err(error) => drop(wire::send(&mut to, &ControlReply::from(error)).await),
            },
            // A peer that left needs no answer.
            Err(error) => drop(wire::send(&mut to, &ControlReply::from(error)).await),
        }
    }

    fn admit_request(&self, request: &ControlRequest) -> Result<(OwnedSemaphorePermit, Cli), CommandError> {
        ensure_same_build(request)?;
        self.admit_words(request.argv.iter().map(|word| OsString::from(word.clone())))
    }

    /// The actor of a request with a token; the token itself is the proof, and its role decides what it may do.
    fn token_actor(&self, request: &ControlRequest, verb: &CliVerb) -> Result<Option<Actor>, CommandError> {
        let Some(secret) = &request.token else { return Ok(None) };
        let entry = AccessRegistry::new(&self.resources.state).admit(secret, verb.token_role())?;
        Ok(Some(entry.actor()))
    }

    /// Parses a command line and takes one of the slots.
    fn admit_words(&self, words: impl Iterator<Item = OsString>) -> Result<(OwnedSemaphorePermit, Cli), CommandError> {
        if self.is_closing.load(Ordering::SeqCst) {
            return Err(CommandError::new(
                CommandErrorKind::Held,
                format!("the daemon, process {}, is ending", std::process::id()),
            )
            .hint("try again when it has ended"));
        }
        let cli = Cli::try_parse_from(std::iter::once(OsString::from("loopwright")).chain(words));
        let cli = cli.map_err(|error| CommandError::new(CommandErrorKind::Usage, error.to_string()))?;
        let seat = Arc::clone(&self.slots).try_acquire_owned();
        let seat = seat.map_err(|_| {
            CommandError::new(CommandErrorKind::Held, "the daemon already runs as many commands as it can")
        })?;
        Ok((seat, cli))
    }

    async fn run_request(
        self: Arc<Self>,
        (seat, actor): (OwnedSemaphorePermit, Option<Actor>),
        request: ControlRequest,
        cli: Cli,
        uid: u32,
        from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let cancel = CancelToken::new();
        self.lock_requests().insert(number, cancel.clone());
        let wishes = tokio::spawn(receive_messages(from, cancel.clone()));
        let (line, heard) = OutputSender::new(request.streams);
        let env = request.environment(&self.resources.env);
        let cx = CommandContext::for_daemon(
            env,
            cli.flags,
            line,
            CommandHost::Daemon(Arc::clone(&self.resources), cancel),
            uid,
        );
        let cx = match (actor, &request.token) {
            (Some(actor), Some(secret)) => cx.for_token(actor, secret),
            _ => cx,
        };
        let work = tokio::spawn(perform(cli.verb, cx));
        let begun = wire::send(&mut to, &ControlReply::Begun { version: VERSION.to_owned() }).await;
        forward_output(heard, &mut to, begun.is_ok()).await;
        let end = match work.await {
            Ok(end) => end,
            Err(_) => ControlReply::from(CommandError::failed(
                "the command failed because of a bug in the daemon; see its log",
            )),
        };
        // A peer that left needs no answer.
        let _ = tokio::time::timeout(WRITE_TIMEOUT, wire::send(&mut to, &end)).await;
        wishes.abort();
        self.finish_request(number, seat);
    }

    /// Performs a command for the HTTP server, as the daemon's own context has it. If the caller leaves, the command is
    /// cancelled; it keeps its slot until it has ended, so that clients that leave cannot pile up work.
    pub(crate) async fn perform_for_face(
        self: &Arc<Self>,
        own: &CommandContext,
        request: FaceRequest,
    ) -> Result<FaceAnswer, CommandError> {
        let (seat, cli) = self.admit_words(request.words.iter().map(OsString::from))?;
        let command = RunningCommand::begin(self, seat);
        let mut caller = CancelOnLeave(Some(command.cancel.clone()));
        let (line, output) = OutputSender::new(StreamInfo::default());
        let host = CommandHost::Daemon(Arc::clone(&self.resources), command.cancel.clone());
        let cx = own.for_face(&cli.flags, request.repo, line, host, request.actor).with_loop_files(request.files);
        let work = tokio::spawn(async move {
            let _running = command;
            cx.out.finish(verbs::run_for_face(cli.verb, &cx).await)
        });
        let (exit, answer) = tokio::join!(work, FaceAnswer::collect(output));
        caller.0 = None;
        exit.map_err(|_| CommandError::failed("the command failed because of a bug; see the daemon's log"))?;
        Ok(answer)
    }

    fn finish_request(self: Arc<Self>, number: u64, seat: OwnedSemaphorePermit) {
        if self.unregister(number)
            && resident_memory() > self.resident.load(Ordering::Relaxed).saturating_add(KEPT_BYTES)
        {
            // It ends by itself, and nothing depends on it.
            drop(tokio::task::spawn_blocking(move || {
                release_memory();
                self.resident.store(resident_memory(), Ordering::Relaxed);
            }));
        }
        drop(seat);
    }

    /// Returns whether no other command runs.
    fn unregister(&self, number: u64) -> bool {
        let mut requests = self.lock_requests();
        requests.remove(&number);
        requests.is_empty()
    }
}

/// A command of a face that runs. Its end, also by a panic, releases its slot.
struct RunningCommand {
    server: Arc<ControlServer>,
    number: u64,
    cancel: CancelToken,
    seat: Option<OwnedSemaphorePermit>,
}

impl RunningCommand {
    fn begin(server: &Arc<ControlServer>, seat: OwnedSemaphorePermit) -> Self {
        let number = server.count.fetch_add(1, Ordering::Relaxed);
        let cancel = CancelToken::new();
        server.lock_requests().insert(number, cancel.clone());
        Self { server: Arc::clone(server), number, cancel, seat: Some(seat) }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            Arc::clone(&self.server).finish_request(self.number, seat);
        }
    }
}

/// Cancels a command when its caller drops this.
struct CancelOnLeave(Option<CancelToken>);

impl Drop for CancelOnLeave {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

/// Performs a command as its own process would.
async fn perform(verb: CliVerb, cx: CommandContext) -> ControlReply {
    if let Err(error) = cx.ensure_same_state_dir() {
        return error.into();
    }
    ControlReply::Exit(cx.out.finish(verbs::run_in_daemon(verb, &cx).await).0)
}

/// Forwards the output of a command to its end. The work does not stop when the reader leaves.
async fn forward_output(mut heard: OutputReceiver, to: &mut OwnedWriteHalf, mut is_heard: bool) {
    while let Some(said) = heard.next().await {
        for chunk in ControlReply::chunks(said) {
            is_heard =
                is_heard && matches!(tokio::time::timeout(WRITE_TIMEOUT, wire::send(to, &chunk)).await, Ok(Ok(())));
        }
    }
}

async fn receive_messages(mut from: OwnedReadHalf, cancel: CancelToken) -> io::Result<()> {
    while let Some(wish) = wire::receive(&mut from).await? {
        match wish {
            ControlMessage::Cancel => cancel.cancel(),
        }
    }
    // A peer that leaves without a cancel message leaves the work to the daemon.
    Ok(())
}

fn ensure_same_build(request: &ControlRequest) -> Result<(), CommandError> {
    if request.protocol == PROTOCOL && request.version == VERSION {
        return Ok(());
    }
    let (pid, theirs) = (std::process::id(), &request.version);
    Err(CommandError::failed(format!("the daemon, process {pid}, is loopwright {VERSION}; this command is {theirs}"))
        .hint(format!("end it and start it again: kill {pid}, then loopwright up")))
}

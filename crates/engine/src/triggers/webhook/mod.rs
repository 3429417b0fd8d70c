//! Events from outside: a small HTTP listener, on loopback unless told otherwise, that turns signed deliveries into signals.
//!
//! The order is fixed: method and path, size and kind of the body, signature over its raw bytes, and only then its meaning.
//! What a delivery says is data; whether anybody may make a loop due by it is decided before there is a signal.

mod event;
mod github;
mod gitlab;
mod remote;
mod secret;
mod serve;
mod signature;
#[cfg(test)]
mod tests;
mod throttle;
mod webhook_roster;

pub use secret::{BadSecret, WebhookSecret};
pub use webhook_roster::IgnoreReason;

use super::signal::Signals;
use super::watched_repos::WatchedRepo;
use crate::clock::Clock;
use crate::git::Git;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use throttle::EventThrottle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use webhook_roster::WebhookRoster;

/// What the listener is told.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Where it listens. There is no TLS here: beyond loopback it belongs behind a proxy that has it.
    pub listen: SocketAddr,
    /// The secrets of each source: `github`, `gitlab`, `generic.NAME`. A source without one is not there.
    pub secrets: BTreeMap<String, WebhookSecret>,
    /// People whose events count although a forge does not say that they belong to a repository.
    pub trusted: Vec<String>,
    /// Names of our own on forges; what they do makes nothing due.
    pub own: Vec<String>,
    /// Most bytes of a body.
    pub body_max: usize,
    /// How long a head, and then a body, may take to come.
    pub patience: Duration,
}

impl WebhookOptions {
    /// The defaults for an address.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            secrets: BTreeMap::new(),
            trusted: Vec::new(),
            own: Vec::new(),
            body_max: 1 << 20,
            patience: Duration::from_secs(10),
        }
    }
}

/// How many deliveries came to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WebhookCounts {
    /// Made a loop due.
    pub accepted: u64,
    /// Were known already.
    pub duplicate: u64,
    /// Made no loop due.
    pub ignored: u64,
    /// Were refused: unsigned, too large, too slow, malformed.
    pub refused: u64,
}

/// A running listener; it ends when this is dropped.
#[derive(Debug)]
pub struct WebhookServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// A listener that has its address and answers nobody yet: whoever connects waits.
#[derive(Debug)]
pub struct BoundWebhookServer {
    options: WebhookOptions,
    listener: TcpListener,
    address: SocketAddr,
}

/// What all connections share.
struct Shared {
    /// As they were told last; a request is answered by those that it met.
    options: RwLock<Arc<WebhookOptions>>,
    clock: Arc<dyn Clock>,
    signals: Arc<dyn Signals>,
    roster: RwLock<Arc<WebhookRoster>>,
    pace: Mutex<EventThrottle>,
    connection_slots: Arc<Semaphore>,
    counted: [AtomicU64; 4],
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").field("options", &self.options()).finish_non_exhaustive()
    }
}

impl WebhookServer {
    /// Takes the address, so that one that cannot be had is known before anything else begins.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(options: WebhookOptions) -> io::Result<BoundWebhookServer> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        Ok(BoundWebhookServer { options, listener, address })
    }

    /// Listens, for no loop yet.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn start(options: WebhookOptions, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> io::Result<Self> {
        Ok(Self::bind(options).await?.serve(clock, signals))
    }

    /// Hands events to these loops and no others. Repositories are told apart by their remotes, which are read here.
    pub async fn set_loops(&self, git: &Git, watched: &[WatchedRepo]) {
        let roster = WebhookRoster::from_watched(git, watched).await;
        *self.shared.roster.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(roster);
    }

    /// Goes by other secrets and people from the next request on. The address stays: another one needs another listener.
    pub fn update_options(&self, options: WebhookOptions) {
        *self.shared.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
    }

    /// What it was told last.
    #[must_use]
    pub fn options(&self) -> Arc<WebhookOptions> {
        self.shared.options()
    }

    /// Where it listens; the port is a real one.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came of deliveries so far.
    #[must_use]
    pub fn counts(&self) -> WebhookCounts {
        let [accepted, duplicate, ignored, refused] = &self.shared.counted;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WebhookCounts {
            accepted: read(accepted),
            duplicate: read(duplicate),
            ignored: read(ignored),
            refused: read(refused),
        }
    }
}

impl BoundWebhookServer {
    /// Answers, for no loop yet.
    #[must_use]
    pub fn serve(self, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> WebhookServer {
        let Self { options, listener, address } = self;
        let shared = Arc::new(Shared::new(options, clock, signals));
        let task = tokio::spawn(serve::accept(Arc::clone(&shared), listener));
        WebhookServer { shared, address, task }
    }
}

impl Shared {
    fn new(options: WebhookOptions, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> Self {
        Self {
            options: RwLock::new(Arc::new(options)),
            clock,
            signals,
            roster: RwLock::default(),
            pace: Mutex::default(),
            connection_slots: Arc::new(Semaphore::new(serve::CONNECTIONS_MAX)),
            counted: Default::default(),
        }
    }

    fn options(&self) -> Arc<WebhookOptions> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.task.abort();
        // Connections that are open end at their deadline; nothing new is taken from them.
        self.shared.connection_slots.close();
    }
}

//! External events: a small HTTP listener, by default on loopback, that turns signed deliveries into signals.
//!
//! The order is fixed: method and path, size and kind of the body, signature over its raw bytes, and only then its
//! content. That content is data; whether its sender may make a loop due is decided before there is a signal.

mod event;
mod github;
mod gitlab;
mod serve;
mod signature;
mod slack;
#[cfg(test)]
mod tests;
mod throttle;
mod webhook_roster;

pub use signature::{BadSecret, WebhookSecret};
pub use webhook_roster::IgnoreReason;

use super::Signals;
use super::watched_repos::WatchedRepo;
use crate::clock::Clock;
use crate::git::Git;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use throttle::EventThrottle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use webhook_roster::WebhookRoster;

/// The options of the listener.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// The address to listen on. There is no TLS here: beyond loopback it belongs behind a proxy with TLS.
    pub listen: SocketAddr,
    /// The secrets of each source: `github`, `gitlab`, `slack`, `generic.NAME`. A source without a secret is disabled.
    pub secrets: BTreeMap<String, WebhookSecret>,
    /// People whose events count even if the forge does not confirm that they belong to a repository.
    pub trusted: Vec<String>,
    /// Loopwright's own user names on forges; their events make nothing due.
    pub own: Vec<String>,
    /// The most bytes of a body.
    pub body_max: usize,
    /// The time limit for a head, and then for a body.
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

/// A running listener; it ends when this is dropped.
#[derive(Debug)]
pub struct WebhookServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// A listener that has its address and does not answer yet: clients that connect wait.
#[derive(Debug)]
pub struct BoundWebhookServer {
    options: WebhookOptions,
    listener: TcpListener,
    address: SocketAddr,
}

/// The state that all connections share.
struct Shared {
    /// The current options; a request uses the options from its start.
    options: RwLock<Arc<WebhookOptions>>,
    clock: Arc<dyn Clock>,
    signals: Arc<dyn Signals>,
    roster: RwLock<Arc<WebhookRoster>>,
    pace: Mutex<EventThrottle>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").field("options", &self.options()).finish_non_exhaustive()
    }
}

impl WebhookServer {
    /// Binds the address, so that an unavailable address is known before anything else starts.
    ///
    /// # Errors
    /// When the address is unavailable.
    pub async fn bind(options: WebhookOptions) -> io::Result<BoundWebhookServer> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        Ok(BoundWebhookServer { options, listener, address })
    }

    /// Sends events to these loops and no others. Repositories are distinguished by their remotes, which are read here.
    pub async fn set_loops(&self, git: &Git, watched: &[WatchedRepo]) {
        let roster = WebhookRoster::from_watched(git, watched).await;
        *self.shared.roster.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(roster);
    }

    /// Uses other secrets and people from the next request on. The address stays: another address needs another
    /// listener.
    pub fn update_options(&self, options: WebhookOptions) {
        *self.shared.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
    }

    /// The current options.
    #[must_use]
    pub fn options(&self) -> Arc<WebhookOptions> {
        self.shared.options()
    }

    /// The address it listens on, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl BoundWebhookServer {
    /// Starts to answer, for no loop yet.
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
        }
    }

    fn options(&self) -> Arc<WebhookOptions> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        // Open connections end at their deadline; no new connection is accepted.
        self.task.abort();
    }
}

//! What all connections of one proxy share, and how the tasks that serve them end with it.

use super::authority::Authority;
use super::dial::Dialer;
use super::ledger::{Account, Ledger, Limits};
use super::pass::Guest;
use super::provider::Provider;
use super::{EgressError, Options};
use loopwright_core::network::{Host, Hosts, Policy, Target};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, watch};

/// The proxy itself.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) policy: Policy,
    pub(super) providers: Vec<Provider>,
    /// Those who may ask providers now.
    guests: Mutex<Vec<Guest>>,
    pub(super) limits: Limits,
    pub(super) ledger: Arc<Ledger>,
    pub(super) dialer: Dialer,
    pub(super) authority: Option<Authority>,
    pub(super) room: Arc<Semaphore>,
    /// Where programs of the round meet it on 127.0.0.1.
    pub(super) port: u16,
    stopped: watch::Receiver<bool>,
}

impl Shared {
    pub(super) fn new(options: Options, port: u16, stopped: watch::Receiver<bool>) -> Result<Self, EgressError> {
        let Options { policy, providers, limits, used, world } = options;
        let authority = if policy.inspects() { Some(Authority::new(&world)?) } else { None };
        Ok(Self {
            policy,
            providers,
            guests: Mutex::default(),
            ledger: Arc::new(Ledger::new(used)),
            dialer: Dialer::new(world, limits),
            authority,
            room: Arc::new(Semaphore::new(limits.connections)),
            limits,
            port,
            stopped,
        })
    }

    pub(super) fn guests(&self) -> MutexGuard<'_, Vec<Guest>> {
        // Every change under the lock is whole in itself.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when the proxy is closed.
    pub(super) async fn stopped(&self) {
        // A sender that is gone has closed too.
        let _ = self.stopped.clone().wait_for(|stop| *stop).await;
    }

    /// Runs a task until it ends or the proxy is closed.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = shared.stopped() => {}
                () = task => {}
            }
        });
    }

    /// The account of a request to a host.
    pub(super) fn account(&self, target: &Target, method: &str) -> Account {
        Account::host(&self.ledger, self.limits, target, method)
    }

    /// Whether this is the proxy's own address, as programs of the round see it.
    pub(super) fn is_us(&self, target: &Target) -> bool {
        let here = Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        target.port == self.port && (target.host == here || target.host.is_localhost())
    }

    /// The hosts that programs inside talk to without the proxy: their own loopback. A rule that names the host's loopback
    /// is meant for the proxy, so its name is not among them.
    pub(super) fn direct(&self) -> String {
        let named = |text: &str| {
            let host = Host::parse(text);
            self.policy.rules().iter().any(|rule| matches!((&rule.hosts, &host), (Hosts::Only(a), Ok(b)) if a == b))
        };
        let own = [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")];
        own.into_iter().filter(|(host, _)| !named(host)).map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
    }
}

//! The state that all connections of one proxy share, and the tasks that serve them and end with it.

use super::authority::CertificateAuthority;
use super::dial::ProxyDialer;
use super::grant::ActiveGrant;
use super::ledger::{ByteBudget, ConnectionAccount, EgressLimits, TrafficLedger};
use super::provider::ModelProvider;
use super::{EgressError, EgressOptions};
use loopwright_core::network::{HostMatch, NetworkHost, NetworkPolicy, NetworkTarget};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, watch};

/// The state of one proxy.
#[derive(Debug)]
pub(super) struct ProxyState {
    pub(super) policy: NetworkPolicy,
    pub(super) providers: Vec<ModelProvider>,
    /// The starts that may send requests to providers now.
    grants: Mutex<Vec<ActiveGrant>>,
    pub(super) limits: EgressLimits,
    pub(super) ledger: Arc<TrafficLedger>,
    pub(super) dialer: ProxyDialer,
    pub(super) authority: Option<CertificateAuthority>,
    pub(super) connection_slots: Arc<Semaphore>,
    /// The proxy's port on 127.0.0.1 for programs of the round.
    pub(super) port: u16,
    stopped: watch::Receiver<bool>,
}

impl ProxyState {
    pub(super) fn new(options: EgressOptions, port: u16, stopped: watch::Receiver<bool>) -> Result<Self, EgressError> {
        let EgressOptions { policy, providers, limits, used, network: world } = options;
        let authority = if policy.inspects_traffic() { Some(CertificateAuthority::new(&world)?) } else { None };
        Ok(Self {
            policy,
            providers,
            grants: Mutex::default(),
            ledger: Arc::new(TrafficLedger::new(used)),
            dialer: ProxyDialer::new(world, limits),
            authority,
            connection_slots: Arc::new(Semaphore::new(limits.connections)),
            limits,
            port,
            stopped,
        })
    }

    pub(super) fn grants(&self) -> MutexGuard<'_, Vec<ActiveGrant>> {
        // Every change under the lock is complete in itself.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when the proxy is closed.
    pub(super) async fn stopped(&self) {
        // A dropped sender means closed too.
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
    pub(super) fn account(&self, target: &NetworkTarget, method: &str) -> ConnectionAccount {
        let whom = (&*target.host.to_string(), target.port);
        ConnectionAccount::new(&self.ledger, self.limits, ByteBudget::Hosts, whom, method)
    }

    /// Whether this is the proxy's own address, as programs of the round see it.
    pub(super) fn is_own_address(&self, target: &NetworkTarget) -> bool {
        let here = NetworkHost::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        target.port == self.port && (target.host == here || target.host.is_localhost())
    }

    /// The hosts that programs inside connect to without the proxy: their own loopback. A rule that names the host's
    /// loopback is meant for the proxy, so its name is not among them.
    pub(super) fn direct(&self) -> String {
        let named = |text: &str| {
            let host = NetworkHost::parse(text);
            self.policy.rules().iter().any(|rule| matches!((&rule.hosts, &host), (HostMatch::Only(a), Ok(b)) if a == b))
        };
        let own = [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")];
        own.into_iter().filter(|(host, _)| !named(host)).map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
    }
}

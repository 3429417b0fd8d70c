//! The proxy's ledger: bytes against their budgets, reached hosts, denied requests. All connections of a proxy share
//! it; the proxies of a round share its budgets.

use loopwright_core::network::{DenialReason, NetworkTraffic};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits: bytes of one round, connections and times of one proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Bytes that may be sent to the hosts of the policy.
    pub up: u64,
    /// Bytes that may be sent to providers. An agent sends its whole conversation again with every turn.
    pub provider_up: u64,
    /// Bytes that may be fetched.
    pub down: u64,
    /// Concurrent connections; further ones wait.
    pub connections: usize,
    /// The time limit for connecting, and for the client's first message.
    pub greeting: Duration,
    /// The time limit until a response starts, and between its parts.
    pub idle: Duration,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            up: 64 << 20,
            provider_up: 2 << 30,
            down: 8 << 30,
            connections: 128,
            greeting: Duration::from_secs(20),
            idle: Duration::from_secs(600),
        }
    }
}

/// The budget that bytes are charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteBudget {
    /// The hosts of the policy.
    Hosts,
    /// The providers.
    Providers,
}

/// The bytes are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes that a round may send or fetch are used up")]
pub(super) struct BytesExhausted;

/// The bytes that all proxies of one round have used together.
#[derive(Debug, Clone, Default)]
pub struct UsedBytes(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    up: AtomicU64,
    provider_up: AtomicU64,
    down: AtomicU64,
}

/// The ledger of one proxy.
#[derive(Debug, Default)]
pub(super) struct TrafficLedger {
    lines: Mutex<NetworkTraffic>,
    /// The bytes of this proxy.
    own: Sums,
    /// The bytes of all proxies of the round, which the limits apply to.
    used: UsedBytes,
}

impl TrafficLedger {
    pub(super) fn new(used: UsedBytes) -> Self {
        Self { used, ..Self::default() }
    }

    pub(super) fn deny(&self, host: &str, port: u16, method: &str, why: DenialReason) {
        self.lines().record_denied(host, port, method, why);
    }

    pub(super) fn reach(&self, host: &str, port: u16) {
        self.lines().record_reached(host, port);
    }

    /// All traffic so far.
    pub(super) fn traffic(&self) -> NetworkTraffic {
        let own = &self.own;
        let up = own.up.load(Ordering::Relaxed).saturating_add(own.provider_up.load(Ordering::Relaxed));
        NetworkTraffic { up, down: own.down.load(Ordering::Relaxed), ..self.lines().clone() }
    }

    fn lines(&self) -> MutexGuard<'_, NetworkTraffic> {
        // Lines are complete after each call, so a panic elsewhere leaves no partial line.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's account in the ledger.
#[derive(Debug, Clone)]
pub(super) struct ConnectionAccount {
    ledger: Arc<TrafficLedger>,
    limits: EgressLimits,
    budget: ByteBudget,
    host: String,
    port: u16,
    method: String,
}

impl ConnectionAccount {
    pub(super) fn new(
        ledger: &Arc<TrafficLedger>,
        limits: EgressLimits,
        budget: ByteBudget,
        whom: (&str, u16),
        method: &str,
    ) -> Self {
        let (host, port) = (whom.0.to_owned(), whom.1);
        Self { ledger: Arc::clone(ledger), limits, budget, host, port, method: method.to_owned() }
    }

    /// Records a denial.
    pub(super) fn deny(&self, why: DenialReason) {
        self.ledger.deny(&self.host, self.port, &self.method, why);
    }

    /// Records that the host was reached.
    pub(super) fn reached(&self) {
        self.ledger.reach(&self.host, self.port);
    }

    /// The same account with another longest silence.
    pub(super) fn with_idle(mut self, idle: Duration) -> Self {
        self.limits.idle = idle;
        self
    }

    /// The longest silence.
    pub(super) fn idle(&self) -> Duration {
        self.limits.idle
    }

    /// Charges bytes that are about to be sent.
    pub(super) fn charge_sent(&self, bytes: usize) -> Result<(), BytesExhausted> {
        match self.budget {
            ByteBudget::Hosts => self.charge(|sums| &sums.up, self.limits.up, bytes),
            ByteBudget::Providers => self.charge(|sums| &sums.provider_up, self.limits.provider_up, bytes),
        }
    }

    /// Charges bytes that were received.
    pub(super) fn charge_received(&self, bytes: usize) -> Result<(), BytesExhausted> {
        self.charge(|sums| &sums.down, self.limits.down, bytes)
    }

    /// Bytes are charged completely or not at all, so that the sum equals the bytes that passed.
    fn charge(&self, which: fn(&Sums) -> &AtomicU64, most: u64, bytes: usize) -> Result<(), BytesExhausted> {
        let more = |now: u64| now.checked_add(bytes as u64).filter(|new| *new <= most);
        let charged = which(&self.ledger.used.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if charged.is_err() {
            self.deny(DenialReason::Budget);
            return Err(BytesExhausted);
        }
        which(&self.ledger.own).fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxies_of_a_round_share_its_bytes_and_each_reports_its_own() {
        let (used, limits) = (UsedBytes::default(), EgressLimits { up: 100, ..EgressLimits::default() });
        let [roles, gates] = [(), ()].map(|()| Arc::new(TrafficLedger::new(used.clone())));
        let account = |ledger| ConnectionAccount::new(ledger, limits, ByteBudget::Hosts, ("host", 443), "CONNECT");
        assert_eq!(account(&roles).charge_sent(60), Ok(()));
        assert_eq!(account(&gates).charge_sent(60), Err(BytesExhausted));
        assert_eq!(account(&gates).charge_sent(40), Ok(()));
        assert_eq!((roles.traffic().up, gates.traffic().up), (60, 40));
    }
}

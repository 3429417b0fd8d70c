//! The exchanges of one start with its providers, as the proxy saw them. They decide what the provider's trouble was,
//! and when an agent that only waits for its provider is ended.

use hyper::header::HeaderMap;
use loopwright_core::provider::{ExchangeEnd, ProviderExchange, RetryHeaders, is_hopeless};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Most exchanges of one start that are kept; the oldest ones are dropped.
const EXCHANGES_MAX: usize = 256;

/// An exchange and its times.
#[derive(Debug)]
struct TimedExchange {
    number: u64,
    started: Instant,
    /// The last byte in either direction.
    last: Instant,
    ended: Option<Instant>,
    facts: ProviderExchange,
}

impl TimedExchange {
    fn facts_at(&self, now: Instant) -> ProviderExchange {
        let ended = self.ended.unwrap_or(now);
        ProviderExchange {
            silent_ms: in_ms(ended.saturating_duration_since(self.last)),
            age_ms: in_ms(now.saturating_duration_since(ended)),
            ..self.facts.clone()
        }
    }
}

fn in_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
struct KeptExchanges {
    next: u64,
    kept: VecDeque<TimedExchange>,
}

impl KeptExchanges {
    /// In the order of their ends; those that are still open come last.
    fn in_order(&self, now: Instant) -> Vec<ProviderExchange> {
        let mut all: Vec<&TimedExchange> = self.kept.iter().collect();
        all.sort_by_key(|one| (one.ended.is_none(), one.ended, one.number));
        all.into_iter().map(|one| one.facts_at(now)).collect()
    }
}

/// The exchanges of one start; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeLog {
    state: Arc<Mutex<KeptExchanges>>,
    hopeless: Arc<watch::Sender<bool>>,
}

impl Default for ExchangeLog {
    fn default() -> Self {
        Self { state: Arc::default(), hopeless: Arc::new(watch::Sender::new(false)) }
    }
}

impl ExchangeLog {
    fn state(&self) -> MutexGuard<'_, KeptExchanges> {
        // Every change under the lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an exchange with this provider.
    pub(crate) fn begin(&self, provider: &str) -> ExchangeRecorder {
        let (mut state, now) = (self.state(), Instant::now());
        state.next += 1;
        let number = state.next;
        if state.kept.len() >= EXCHANGES_MAX {
            state.kept.pop_front();
        }
        let facts = ProviderExchange::new(provider);
        state.kept.push_back(TimedExchange { number, started: now, last: now, ended: None, facts });
        ExchangeRecorder { log: self.clone(), number, is_over: false }
    }

    /// All kept exchanges. One that is still open counts as left by the agent.
    pub(crate) fn exchanges(&self) -> Vec<ProviderExchange> {
        self.state().in_order(Instant::now())
    }

    /// Whether the agent waits for something that its own retries cannot bring.
    pub(crate) fn is_hopeless(&self) -> bool {
        *self.hopeless.borrow()
    }

    /// Returns when it does.
    pub(crate) async fn wait_until_hopeless(&self) {
        let mut seen = self.hopeless.subscribe();
        // The sender lives in `self`, so the channel cannot close during the wait.
        let _ = seen.wait_for(|is_hopeless| *is_hopeless).await;
    }

    fn judge(&self) {
        let ended: Vec<ProviderExchange> = {
            let (state, now) = (self.state(), Instant::now());
            state.kept.iter().filter(|one| one.ended.is_some()).map(|one| one.facts_at(now)).collect()
        };
        if is_hopeless(&ended) {
            self.hopeless.send_replace(true);
        }
    }
}

/// Records one exchange. If it is dropped before the exchange ends, the agent left.
#[derive(Debug)]
pub(crate) struct ExchangeRecorder {
    log: ExchangeLog,
    number: u64,
    is_over: bool,
}

impl ExchangeRecorder {
    /// Changes the facts.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ProviderExchange)) {
        self.with_entry(|one| change(&mut one.facts));
    }

    fn with_entry(&self, change: impl FnOnce(&mut TimedExchange)) {
        let mut state = self.log.state();
        if let Some(one) = state.kept.iter_mut().find(|one| one.number == self.number) {
            change(one);
        }
    }

    /// The head of the answer was received.
    pub(crate) fn head(&self, status: u16, headers: &HeaderMap) {
        let named = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let headers = RetryHeaders::from_headers(named);
        self.with_entry(|one| {
            one.last = Instant::now();
            one.facts.status = Some(status);
            one.facts.headers = headers;
        });
    }

    /// Bytes of the answer were received.
    pub(crate) fn received(&self, bytes: u64) {
        self.with_entry(|one| {
            one.last = Instant::now();
            let waited = one.last.saturating_duration_since(one.started);
            one.facts.first_byte_ms.get_or_insert(in_ms(waited));
            one.facts.received_bytes = one.facts.received_bytes.saturating_add(bytes);
        });
    }

    /// The exchange is over. Only its first end counts.
    pub(crate) fn end(&mut self, end: ExchangeEnd) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.with_entry(|one| {
            one.ended = Some(Instant::now());
            one.facts.end = end;
        });
        self.log.judge();
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        self.end(ExchangeEnd::Left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_exchange_counts_its_silence_and_an_ended_one_its_age() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut one = TimedExchange {
            number: 1,
            started: start,
            last: start,
            ended: None,
            facts: ProviderExchange::new("house"),
        };
        let times = |one: &TimedExchange, seconds| {
            let facts = one.facts_at(after(seconds));
            (facts.silent_ms, facts.age_ms)
        };
        assert_eq!(times(&one, 20), (20_000, 0));
        one.ended = Some(after(3));
        assert_eq!(times(&one, 20), (3_000, 17_000));
    }

    #[tokio::test]
    async fn exchanges_are_bounded_and_the_newest_are_kept() {
        let log = ExchangeLog::default();
        (0..EXCHANGES_MAX + 5).for_each(|number| {
            let mut one = log.begin("house");
            one.update(|facts| facts.asked_model = number.to_string());
            one.end(ExchangeEnd::Complete);
        });
        let kept = log.exchanges();
        assert_eq!((kept.len(), kept[0].asked_model.as_str()), (EXCHANGES_MAX, "5"));
    }
}

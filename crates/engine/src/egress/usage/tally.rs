//! The usage that all answers to one start of an agent reported, and the ceilings that apply to it.

use crate::budget_meter::StartMeter;
use loopwright_core::budget::{BudgetLimit, ModelTokens, Reservation, Tokens};
use loopwright_core::prices::ModelPrices;
use loopwright_core::units::Usd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// Most models that one start may name; further ones cost what an unknown model does.
const MODELS_MAX: usize = 64;
/// Most concurrent requests of one start; further ones wait. Each may exceed a ceiling by its whole answer.
const REQUESTS_MAX: u32 = 16;
/// Bytes per token in estimates; a low number, so that estimates are high.
pub(super) const TOKEN_BYTES: u64 = 3;

/// The ceilings of one start.
#[derive(Debug, Clone)]
pub(crate) struct UsageBounds {
    /// Tokens.
    pub(crate) tokens: Option<u64>,
    /// Money.
    pub(crate) usd: Option<Usd>,
    /// The part of the ceilings that it shares with other starts.
    pub(crate) meter: StartMeter,
    /// The prices of tokens.
    pub(crate) prices: Arc<ModelPrices>,
}

/// The counted usage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UsageCount {
    /// Tokens by model.
    pub(crate) models: Vec<ModelTokens>,
    /// Answers with a complete usage report.
    pub(crate) reported: u32,
    /// Answers without a complete usage report: interrupted, or without any figure.
    pub(crate) unclear: u32,
    /// Requests that the provider refused.
    pub(crate) refused: u32,
    /// The estimated usage of unclear answers, by their size. It counts against ceilings, and is the least that is
    /// charged.
    pub(crate) guessed: Vec<ModelTokens>,
    /// Requests in flight.
    pub(super) open: u32,
    /// Their sent bytes, in tokens.
    pub(super) sent: u64,
}

impl UsageCount {
    /// All tokens.
    pub(crate) fn tokens(&self) -> Tokens {
        self.models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens))
    }

    /// Their price.
    pub(crate) fn cost(&self, prices: &ModelPrices) -> Usd {
        cost(&self.models, prices)
    }

    /// The estimated part.
    pub(crate) fn guess(&self, prices: &ModelPrices) -> Reservation {
        let tokens = self.guessed.iter().fold(0, |sum: u64, used| sum.saturating_add(used.tokens.total()));
        Reservation { tokens, usd: cost(&self.guessed, prices) }
    }
}

fn cost(models: &[ModelTokens], prices: &ModelPrices) -> Usd {
    let costs = models.iter().map(|used| prices.cost_of_used(used).0);
    Usd(costs.fold(0, u64::saturating_add))
}

/// The tokens of one model, those that cost nothing apart from the others.
fn tokens_of_model<'m>(models: &'m mut Vec<ModelTokens>, model: &str, is_free: bool) -> &'m mut Tokens {
    let place = |models: &[ModelTokens], model: &str| {
        models.iter().position(|used| used.model == model && used.is_free == is_free)
    };
    let at = place(models, model).unwrap_or_else(|| {
        let named = if models.len() < MODELS_MAX { model } else { "" };
        place(models, named).unwrap_or_else(|| {
            models.push(ModelTokens { model: named.to_owned(), tokens: Tokens::default(), is_free });
            models.len() - 1
        })
    });
    &mut models[at].tokens
}

#[derive(Debug, Default)]
struct State {
    count: UsageCount,
    bounds: Option<UsageBounds>,
    /// The start is over.
    is_closed: bool,
}

impl State {
    /// Whether another request may start: the first always, others while the sent tokens of all together cannot exceed
    /// the ceiling. A request without a declared length may have any length.
    fn has_room(&self, tokens: Option<u64>) -> bool {
        if self.count.open == 0 {
            return true;
        }
        let Some(tokens) = tokens.filter(|_| self.count.open < REQUESTS_MAX) else { return false };
        let Some((bounds, most)) = self.bounds.as_ref().and_then(|bounds| Some((bounds, bounds.tokens?))) else {
            return true;
        };
        let used = self.count.tokens().total().saturating_add(self.count.guess(&bounds.prices).tokens);
        used.saturating_add(self.count.sent).saturating_add(tokens) <= most
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// A ceiling was exceeded.
    Ceiling,
    /// The start is over.
    Closed,
}

/// The slot of one request in flight.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    pub(super) tally: UsageTally,
    tokens: u64,
    /// The declared length of the request.
    pub(super) bytes: u64,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let count = &mut self.tally.state().count;
        (count.open, count.sent) = (count.open.saturating_sub(1), count.sent.saturating_sub(self.tokens));
        self.tally.news.notify_waiters();
    }
}

/// The count of one start; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct UsageTally {
    state: Arc<Mutex<State>>,
    over: Arc<watch::Sender<Option<BudgetLimit>>>,
    /// Notifies that a request ended, or that no further one may start.
    news: Arc<Notify>,
}

impl Default for UsageTally {
    fn default() -> Self {
        Self { state: Arc::default(), over: Arc::new(watch::Sender::new(None)), news: Arc::default() }
    }
}

impl UsageTally {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies these ceilings from now on.
    pub(crate) fn set_bounds(&self, bounds: UsageBounds) {
        self.state().bounds = Some(bounds);
        self.judge();
    }

    /// The usage counted so far. Requests in flight count as unclear, because this start will not receive the rest of
    /// their answers.
    pub(crate) fn current_count(&self) -> UsageCount {
        let mut count = self.state().count.clone();
        if count.sent > 0 {
            let guessed = tokens_of_model(&mut count.guessed, "", false);
            guessed.input = guessed.input.saturating_add(count.sent);
        }
        UsageCount { unclear: count.unclear.saturating_add(count.open), open: 0, sent: 0, ..count }
    }

    /// Ends the start: no further request may be sent for it.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.news.notify_waiters();
    }

    /// Waits until a request of this size in bytes, if it is known, may be sent.
    pub(crate) async fn acquire_slot(&self, size: Option<u64>) -> Result<RequestSlot, RequestRefusal> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.passed_ceiling().is_some() {
                return Err(RequestRefusal::Ceiling);
            }
            if let Some(place) = self.try_acquire_slot(size)? {
                return Ok(place);
            }
            news.await;
        }
    }

    /// As [`UsageTally::acquire_slot`], but `None` if other requests have to end first.
    pub(super) fn try_acquire_slot(&self, size: Option<u64>) -> Result<Option<RequestSlot>, RequestRefusal> {
        let state = &mut *self.state();
        if state.is_closed {
            return Err(RequestRefusal::Closed);
        }
        let tokens = size.map(|bytes| bytes / TOKEN_BYTES);
        if !state.has_room(tokens) {
            return Ok(None);
        }
        let tokens = tokens.unwrap_or(0);
        state.count.open = state.count.open.saturating_add(1);
        state.count.sent = state.count.sent.saturating_add(tokens);
        Ok(Some(RequestSlot { tally: self.clone(), tokens, bytes: size.unwrap_or(0) }))
    }

    /// The ceiling that was exceeded.
    pub(crate) fn passed_ceiling(&self) -> Option<BudgetLimit> {
        *self.over.borrow()
    }

    /// Returns when a ceiling is exceeded, immediately if one already was.
    pub(crate) async fn wait_for_ceiling(&self) {
        let mut seen = self.over.subscribe();
        // The sender lives in `self`, so the channel cannot close during the wait.
        let _ = seen.wait_for(Option::is_some).await;
    }

    /// Counts one answer's usage, and replaces its earlier count.
    pub(super) fn count(&self, before: Option<&ModelTokens>, now: &ModelTokens) {
        let count = &mut self.state().count;
        if let Some(before) = before {
            let used = tokens_of_model(&mut count.models, &before.model, before.is_free);
            *used = used.less(before.tokens);
        }
        let used = tokens_of_model(&mut count.models, &now.model, now.is_free);
        *used = used.plus(now.tokens);
        count.models.retain(|used| used.tokens != Tokens::default());
    }

    pub(super) fn count_reported(&self) {
        let count = &mut self.state().count;
        count.reported = count.reported.saturating_add(1);
    }

    /// Counts an answer with an unknown cost, and an estimate of it.
    pub(super) fn count_unclear(&self, guess: &ModelTokens) {
        let count = &mut self.state().count;
        count.unclear = count.unclear.saturating_add(1);
        let guessed = tokens_of_model(&mut count.guessed, &guess.model, guess.is_free);
        *guessed = guessed.plus(guess.tokens);
    }

    pub(super) fn count_refused(&self) {
        let count = &mut self.state().count;
        count.refused = count.refused.saturating_add(1);
    }

    /// Checks the count against the ceilings. An exceeded ceiling stays exceeded.
    pub(super) fn judge(&self) {
        let state = self.state();
        let Some(bounds) = &state.bounds else { return };
        let guess = state.count.guess(&bounds.prices);
        let tokens = state.count.tokens().total().saturating_add(guess.tokens);
        let cost = Usd(state.count.cost(&bounds.prices).0.saturating_add(guess.usd.0));
        let shared = bounds.meter.report(tokens, cost);
        let limit = if bounds.tokens.is_some_and(|most| tokens > most) {
            Some(BudgetLimit::Total)
        } else if bounds.usd.is_some_and(|most| cost > most) {
            Some(BudgetLimit::Usd)
        } else {
            shared
        };
        if limit.is_some() {
            self.over.send_if_modified(|over| over.is_none() && std::mem::replace(over, limit).is_none());
            self.news.notify_waiters();
        }
    }
}

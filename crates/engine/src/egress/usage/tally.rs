//! What the answers to one start of an agent told of its use, all together, and the ceilings that this is held against.

use crate::budget_meter::StartMeter;
use loopwright_core::budget::{BudgetLimit, ModelTokens, Reservation, Tokens};
use loopwright_core::prices::ModelPrices;
use loopwright_core::units::Usd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// How many models one start may name; more are no list but a flood, and cost what an unknown one does.
const MODELS_MAX: usize = 64;
/// How many requests of one start are under way at once; further ones wait. Each may pass a ceiling by its whole answer.
const REQUESTS_MAX: u32 = 16;
/// How many bytes are taken for a token, at the dearest.
pub(super) const TOKEN_BYTES: u64 = 3;

/// What one start may use.
#[derive(Debug, Clone)]
pub(crate) struct UsageBounds {
    /// Tokens.
    pub(crate) tokens: Option<u64>,
    /// Money.
    pub(crate) usd: Option<Usd>,
    /// What it shares with other starts.
    pub(crate) meter: StartMeter,
    /// What tokens cost.
    pub(crate) prices: Arc<ModelPrices>,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UsageCount {
    /// Tokens by model.
    pub(crate) models: Vec<ModelTokens>,
    /// Answers that told all of their use.
    pub(crate) reported: u32,
    /// Answers of which that is not known: cut off, or without a word of it.
    pub(crate) unclear: u32,
    /// Requests that the provider did not take.
    pub(crate) refused: u32,
    /// What unclear answers may have cost, by their size: held against ceilings, and the least that is charged.
    pub(crate) guessed: Vec<ModelTokens>,
    /// Requests under way.
    pub(super) open: u32,
    /// What was sent with them, in tokens.
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

    /// What is only guessed.
    pub(crate) fn guess(&self, prices: &ModelPrices) -> Reservation {
        let tokens = self.guessed.iter().fold(0, |sum: u64, used| sum.saturating_add(used.tokens.total()));
        Reservation { tokens, usd: cost(&self.guessed, prices) }
    }
}

fn cost(models: &[ModelTokens], prices: &ModelPrices) -> Usd {
    let costs = models.iter().map(|used| prices.cost_of(&used.model, used.tokens).0);
    Usd(costs.fold(0, u64::saturating_add))
}

/// What one model has.
fn tokens_of_model<'m>(models: &'m mut Vec<ModelTokens>, model: &str) -> &'m mut Tokens {
    let known = models.iter().position(|used| used.model == model);
    let at = known.unwrap_or_else(|| {
        let named = if models.len() < MODELS_MAX { model } else { "" };
        models.iter().position(|used| used.model == named).unwrap_or_else(|| {
            models.push(ModelTokens { model: named.to_owned(), tokens: Tokens::default() });
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
    /// Whether one more request may be under way: the first always, others while all of them together cannot pass the ceiling
    /// by what they send. One that does not say how long it is may be of any length.
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

/// Why a request may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// A ceiling was passed.
    Ceiling,
    /// The start is over.
    Closed,
}

/// The place of one request that is under way.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    tally: UsageTally,
    tokens: u64,
    /// How long the request said that it is.
    pub(super) bytes: u64,
}

impl RequestSlot {
    pub(super) fn tally(&self) -> UsageTally {
        self.tally.clone()
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let count = &mut self.tally.state().count;
        (count.open, count.sent) = (count.open.saturating_sub(1), count.sent.saturating_sub(self.tokens));
        self.tally.news.notify_waiters();
    }
}

/// The count of one start; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct UsageTally {
    state: Arc<Mutex<State>>,
    over: Arc<watch::Sender<Option<BudgetLimit>>>,
    /// A request ended, or none may be made any more.
    news: Arc<Notify>,
}

impl Default for UsageTally {
    fn default() -> Self {
        Self { state: Arc::default(), over: Arc::new(watch::Sender::new(None)), news: Arc::default() }
    }
}

impl UsageTally {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is whole in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds it against these from now on.
    pub(crate) fn set_bounds(&self, bounds: UsageBounds) {
        self.state().bounds = Some(bounds);
        self.judge();
    }

    /// What was counted so far. What is under way is unclear: nobody will hear the rest of it for this start.
    pub(crate) fn current_count(&self) -> UsageCount {
        let mut count = self.state().count.clone();
        if count.sent > 0 {
            let guessed = tokens_of_model(&mut count.guessed, "");
            guessed.input = guessed.input.saturating_add(count.sent);
        }
        UsageCount { unclear: count.unclear.saturating_add(count.open), open: 0, sent: 0, ..count }
    }

    /// The start is over: nothing more is asked for it.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.news.notify_waiters();
    }

    /// Waits until a request of this size in bytes, where that is known, may leave.
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

    /// The same, or none when others have to end first.
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

    /// The ceiling that was passed.
    pub(crate) fn passed_ceiling(&self) -> Option<BudgetLimit> {
        *self.over.borrow()
    }

    /// Returns when a ceiling is passed, at once if one was.
    pub(crate) async fn wait_for_ceiling(&self) {
        let mut seen = self.over.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = seen.wait_for(Option::is_some).await;
    }

    /// One answer's use, in the place of what it had told before.
    pub(super) fn count(&self, before: Option<&(String, Tokens)>, now: &(String, Tokens)) {
        let count = &mut self.state().count;
        if let Some((model, tokens)) = before {
            let used = tokens_of_model(&mut count.models, model);
            *used = used.less(*tokens);
        }
        let used = tokens_of_model(&mut count.models, &now.0);
        *used = used.plus(now.1);
        count.models.retain(|used| used.tokens != Tokens::default());
    }

    pub(super) fn count_reported(&self) {
        let count = &mut self.state().count;
        count.reported = count.reported.saturating_add(1);
    }

    /// An answer of which nobody knows what it cost, and what it may have.
    pub(super) fn count_unclear(&self, model: &str, guess: Tokens) {
        let count = &mut self.state().count;
        count.unclear = count.unclear.saturating_add(1);
        let guessed = tokens_of_model(&mut count.guessed, model);
        *guessed = guessed.plus(guess);
    }

    pub(super) fn count_refused(&self) {
        let count = &mut self.state().count;
        count.refused = count.refused.saturating_add(1);
    }

    /// Holds what was counted against the ceilings. What has passed one stays so.
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

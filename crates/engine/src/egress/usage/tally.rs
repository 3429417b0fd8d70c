//! What the answers to one start of an agent told of its use, all together, and the ceilings that this is held against.

use crate::purse::Meter;
use loopwright_core::budget::{BudgetLimit, ModelTokens, Tokens};
use loopwright_core::prices::Prices;
use loopwright_core::units::Usd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How many models one start may name; more are no list but a flood, and count for the last one.
const MODELS_MAX: usize = 64;

/// What one start may use.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Tokens.
    pub(crate) tokens: Option<u64>,
    /// Money.
    pub(crate) usd: Option<Usd>,
    /// What it shares with other starts.
    pub(crate) meter: Meter,
    /// What tokens cost.
    pub(crate) prices: Arc<Prices>,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Tokens by model.
    pub(crate) models: Vec<ModelTokens>,
    /// Answers that told all of their use.
    pub(crate) told: u32,
    /// Answers of which that is not known: cut off, or without a word of it.
    pub(crate) unclear: u32,
    /// Requests that the provider did not take.
    pub(crate) refused: u32,
}

impl Count {
    /// All tokens.
    pub(crate) fn tokens(&self) -> Tokens {
        self.models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens))
    }

    /// Their price.
    pub(crate) fn cost(&self, prices: &Prices) -> Usd {
        let costs = self.models.iter().map(|used| prices.of(&used.model, used.tokens).0);
        Usd(costs.fold(0, u64::saturating_add))
    }

    /// What one model has.
    fn of(&mut self, model: &str) -> &mut Tokens {
        let known = self.models.iter().position(|used| used.model == model);
        let at = known.unwrap_or_else(|| {
            if self.models.len() < MODELS_MAX {
                self.models.push(ModelTokens { model: model.to_owned(), tokens: Tokens::default() });
            }
            self.models.len() - 1
        });
        &mut self.models[at].tokens
    }
}

#[derive(Debug, Default)]
struct State {
    count: Count,
    bounds: Option<Bounds>,
}

/// The count of one start; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    state: Arc<Mutex<State>>,
    over: Arc<watch::Sender<Option<BudgetLimit>>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { state: Arc::default(), over: Arc::new(watch::Sender::new(None)) }
    }
}

impl Tally {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is whole in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds it against these from now on.
    pub(crate) fn bound(&self, bounds: Bounds) {
        self.state().bounds = Some(bounds);
        self.judge();
    }

    /// What was counted so far.
    pub(crate) fn so_far(&self) -> Count {
        self.state().count.clone()
    }

    /// The ceiling that was passed.
    pub(crate) fn passed(&self) -> Option<BudgetLimit> {
        *self.over.borrow()
    }

    /// Returns when a ceiling is passed, at once if one was.
    pub(crate) async fn over(&self) {
        let mut seen = self.over.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = seen.wait_for(Option::is_some).await;
    }

    /// One answer's use, in the place of what it had told before.
    pub(super) fn count(&self, before: Option<&(String, Tokens)>, now: &(String, Tokens)) {
        let count = &mut self.state().count;
        if let Some((model, tokens)) = before {
            let used = count.of(model);
            *used = used.less(*tokens);
        }
        let used = count.of(&now.0);
        *used = used.plus(now.1);
        count.models.retain(|used| used.tokens != Tokens::default());
    }

    pub(super) fn told(&self) {
        let count = &mut self.state().count;
        count.told = count.told.saturating_add(1);
    }

    pub(super) fn unclear(&self) {
        let count = &mut self.state().count;
        count.unclear = count.unclear.saturating_add(1);
    }

    pub(super) fn refused(&self) {
        let count = &mut self.state().count;
        count.refused = count.refused.saturating_add(1);
    }

    /// Holds what was counted against the ceilings. What has passed one stays so.
    pub(super) fn judge(&self) {
        let state = self.state();
        let Some(bounds) = &state.bounds else { return };
        let (tokens, cost) = (state.count.tokens().total(), state.count.cost(&bounds.prices));
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
        }
    }
}

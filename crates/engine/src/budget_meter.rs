//! The purse: what agents of all rounds of this engine use right now, against the ceilings that they share.
//!
//! The store knows what was spent and what is reserved, and refuses a start for which there is no room. But a start may use
//! more than its reservation, as long as there is room, and several may do so at once. This process adds up what all of its own
//! report, at every report, and ends the one that passes a ceiling: never more than one report of each is beyond it. What
//! agents of other processes use counts by their reservations and when they have ended. Nothing here is kept; what must survive
//! is in the store.

use crate::store::{SpendRow, SpendScope, Store, StoreError};
use loopwright_core::budget::{BudgetAccount, BudgetLimit, BudgetScope, Reservation, SpendAllowance};
use loopwright_core::units::Usd;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sums without anybody at work are forgotten past this number; the store has them.
const ACCOUNTS_MAX: usize = 10_000;

/// Whose sum it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SpendKey {
    scope: SpendScope,
    /// The day, the month, or for an item nothing.
    when: String,
    repo: String,
    loop_name: String,
    item: String,
}

impl SpendKey {
    /// The sum of a scope for a start in this place.
    pub(crate) fn new(scope: SpendScope, place: &SpendOwner<'_>) -> Self {
        let none = String::new;
        let (repo, loop_name) = (place.repo.to_owned(), place.loop_name.to_owned());
        let day = place.day.to_owned();
        let (when, repo, loop_name, item) = match scope {
            SpendScope::Loop => (day, repo, loop_name, none()),
            SpendScope::Repo => (day, repo, none(), none()),
            SpendScope::Fleet => (day, none(), none(), none()),
            SpendScope::Month => (place.day.chars().take(7).collect(), none(), none(), none()),
            SpendScope::Item => (none(), repo, loop_name, place.item.unwrap_or_default().to_owned()),
        };
        Self { scope, when, repo, loop_name, item }
    }
}

/// Where a start is at home.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpendOwner<'a> {
    pub(crate) day: &'a str,
    pub(crate) repo: &'a str,
    pub(crate) loop_name: &'a str,
    pub(crate) item: Option<&'a str>,
}

/// A shared ceiling that a start draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedCeiling {
    /// The store's word for it.
    pub(crate) spend: SpendScope,
    /// People's word for it.
    pub(crate) scope: BudgetScope,
    /// The ceiling.
    pub(crate) ceiling: SpendAllowance,
}

/// What the purse knows of a sum: what the store has, and what runs beyond its reservations.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    spent: Reservation,
    reserved: Reservation,
    beyond: Reservation,
}

struct LiveStart {
    drawn: Vec<(SpendKey, SharedCeiling)>,
    reserved: Reservation,
    used: Reservation,
    over: Option<BudgetAccount>,
}

impl LiveStart {
    /// What it uses beyond its reservation.
    fn beyond(&self) -> Reservation {
        self.used.less(self.reserved)
    }
}

#[derive(Default)]
struct Inner {
    sums: HashMap<SpendKey, Sum>,
    live: HashMap<u64, LiveStart>,
    next: u64,
}

/// What all rounds of one engine use.
#[derive(Clone, Default)]
pub(crate) struct BudgetMeter(Arc<Mutex<Inner>>);

impl BudgetMeter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a start in: from now on its reservation counts, here before the store has it. `Err` is the account without room.
    pub(crate) async fn open_slot(
        &self,
        store: &dyn Store,
        place: &SpendOwner<'_>,
        drawn: Vec<SharedCeiling>,
        reserved: Reservation,
    ) -> Result<Result<MeterSlot, BudgetAccount>, StoreError> {
        let mut keyed = Vec::with_capacity(drawn.len());
        for one in drawn {
            let key = SpendKey::new(one.spend, place);
            self.load(store, place, &key).await?;
            keyed.push((key, one));
        }
        Ok(self.sit(keyed, reserved))
    }

    /// Reads a sum that nobody here is at: other processes may have changed it. Whoever comes first puts it down before its own
    /// reservation reaches the store, so a reading that is late cannot hold anything twice.
    async fn load(&self, store: &dyn Store, place: &SpendOwner<'_>, key: &SpendKey) -> Result<(), StoreError> {
        if self.lock().is_drawn(key) {
            return Ok(());
        }
        let row = match key.scope {
            SpendScope::Item => store.item_spend(place.repo, place.loop_name, &key.item).await?,
            scope => store.spend(scope, place.repo, place.loop_name, place.day).await?,
        };
        let (spent, reserved) = row_amounts(&row);
        let mut inner = self.lock();
        inner.forget_idle();
        if !inner.is_drawn(key) {
            inner.sums.insert(key.clone(), Sum { spent, reserved, beyond: Reservation::default() });
        }
        Ok(())
    }

    fn sit(&self, drawn: Vec<(SpendKey, SharedCeiling)>, reserved: Reservation) -> Result<MeterSlot, BudgetAccount> {
        let mut inner = self.lock();
        for (key, one) in &drawn {
            let account = inner.account(key, one);
            if account.ceiling.is_exceeded_by(account.used().plus(reserved)) {
                return Err(account);
            }
        }
        for (key, _) in &drawn {
            let sum = inner.sums.entry(key.clone()).or_default();
            sum.reserved = sum.reserved.plus(reserved);
        }
        let id = inner.next;
        inner.next += 1;
        inner.live.insert(id, LiveStart { drawn, reserved, used: Reservation::default(), over: None });
        Ok(MeterSlot { meter: self.clone(), id })
    }
}

impl Inner {
    fn account(&self, key: &SpendKey, drawn: &SharedCeiling) -> BudgetAccount {
        let sum = self.sums.get(key).copied().unwrap_or_default();
        let SharedCeiling { scope, ceiling, .. } = *drawn;
        BudgetAccount { scope, ceiling, spent: sum.spent, reserved: sum.reserved.plus(sum.beyond) }
    }

    /// Whether a running agent of this process draws on the sum.
    fn is_drawn(&self, key: &SpendKey) -> bool {
        self.live.values().any(|one| one.drawn.iter().any(|(drawn, _)| drawn == key))
    }

    fn forget_idle(&mut self) {
        if self.sums.len() >= ACCOUNTS_MAX {
            let live = &self.live;
            self.sums.retain(|key, _| live.values().any(|one| one.drawn.iter().any(|(drawn, _)| drawn == key)));
        }
    }

    /// Takes a report. Only what lies beyond a reservation can pass a ceiling: what was reserved was granted.
    fn report(&mut self, id: u64, used: Reservation) -> Option<BudgetAccount> {
        let mut live = self.live.remove(&id)?;
        let before = live.beyond();
        live.used = Reservation { tokens: live.used.tokens.max(used.tokens), usd: live.used.usd.max(used.usd) };
        let beyond = live.beyond();
        for (key, _) in &live.drawn {
            let sum = self.sums.entry(key.clone()).or_default();
            sum.beyond = sum.beyond.less(before).plus(beyond);
        }
        if live.over.is_none() {
            let passed = |account: &BudgetAccount| is_passed(account, beyond);
            live.over = live.drawn.iter().map(|(key, one)| self.account(key, one)).find(passed);
        }
        let over = live.over;
        self.live.insert(id, live);
        over
    }

    /// Ends a start: its reservation becomes `left_reserved`, and this much was spent.
    fn leave(&mut self, id: u64, spent: Reservation, held: Held) {
        let Some(live) = self.live.remove(&id) else { return };
        for (key, _) in &live.drawn {
            let sum = self.sums.entry(key.clone()).or_default();
            sum.beyond = sum.beyond.less(live.beyond());
            if held == Held::Freed {
                sum.reserved = sum.reserved.less(live.reserved);
                sum.spent = sum.spent.plus(spent);
            }
        }
    }
}

/// Whether an account is passed by money or tokens of which this start uses more than was reserved for it.
fn is_passed(account: &BudgetAccount, beyond: Reservation) -> bool {
    let used = account.used();
    let money = account.ceiling.usd.is_some_and(|most| used.usd > most) && beyond.usd > Usd(0);
    let tokens = account.ceiling.tokens.is_some_and(|most| used.tokens > most) && beyond.tokens > 0;
    money || tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The store has taken the reservation back, or never had it.
    Freed,
    /// The store still has it.
    Kept,
}

/// A row's amounts: spent, and held back.
pub(crate) fn row_amounts(row: &SpendRow) -> (Reservation, Reservation) {
    let amount = |micros: i64, tokens: i64| Reservation {
        usd: Usd(u64::try_from(micros).unwrap_or(0)),
        tokens: u64::try_from(tokens).unwrap_or(0),
    };
    (amount(row.settled_micros, row.settled_tokens), amount(row.reserved_micros, row.reserved_tokens))
}

/// The place of one start in the purse. A seat that is dropped without a word leaves its reservation where it is: in the
/// store, until somebody takes the round to its end.
pub(crate) struct MeterSlot {
    meter: BudgetMeter,
    id: u64,
}

impl MeterSlot {
    /// What the start reports to.
    pub(crate) fn meter(&self) -> StartMeter {
        StartMeter(Some((self.meter.clone(), self.id)))
    }

    /// The account that it passed, if it did.
    pub(crate) fn passed_account(&self) -> Option<BudgetAccount> {
        self.meter.lock().live.get(&self.id).and_then(|live| live.over)
    }

    /// The store has what it spent instead of its reservation.
    pub(crate) fn settle(self, spent: Reservation) {
        self.meter.lock().leave(self.id, spent, Held::Freed);
    }

    /// It was not started: the store has nothing of it.
    pub(crate) fn cancel(self) {
        self.settle(Reservation::default());
    }
}

impl Drop for MeterSlot {
    fn drop(&mut self) {
        self.meter.lock().leave(self.id, Reservation::default(), Held::Kept);
    }
}

/// Takes the reports of one start and says when it has to end, because a ceiling that it shares with others was passed. The
/// default one never does.
#[derive(Clone, Default)]
pub struct StartMeter(Option<(BudgetMeter, u64)>);

impl StartMeter {
    /// Takes what the start says it used so far.
    #[must_use]
    pub fn report(&self, tokens: u64, usd: Usd) -> Option<BudgetLimit> {
        let (purse, id) = self.0.as_ref()?;
        let account = purse.lock().report(*id, Reservation { tokens, usd })?;
        let is_money = account.ceiling.usd.is_some_and(|most| account.used().usd > most);
        Some(if is_money { BudgetLimit::Usd } else { BudgetLimit::Total })
    }
}

impl std::fmt::Debug for StartMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meter").field(&self.0.as_ref().map(|(_, id)| id)).finish()
    }
}

#[cfg(test)]
mod tests;

//! The budget meter: what the agents of all rounds of this engine use right now, checked against the ceilings they
//! share.
//!
//! The store knows the spend and the reservations, and refuses a start that does not fit. A running start may use more
//! than its reservation while the ceiling allows it, and several may do so at once. This process adds up the reports of
//! its own starts and ends the start that exceeds a ceiling, so each start exceeds it by at most one report. Agents of
//! other processes count by their reservations while they run and by their spend afterwards. The meter is not
//! persistent; the store holds everything that must survive.

use crate::store::{SpendRow, SpendScope, Store, StoreError};
use loopwright_core::budget::{BudgetAccount, BudgetLimit, BudgetScope, Reservation, SpendAllowance};
use loopwright_core::units::Usd;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Above this number the meter drops sums that no running start draws on; the store has them.
const ACCOUNTS_MAX: usize = 10_000;

/// The key of a sum.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SpendKey {
    scope: SpendScope,
    /// The day or the month; empty for an item.
    when: String,
    repo: String,
    loop_name: String,
    item: String,
}

impl SpendKey {
    /// The key of a scope's sum for a start of this owner.
    pub(crate) fn new(scope: SpendScope, place: &SpendOwner<'_>) -> Self {
        let none = String::new;
        let (repo, loop_name) = (place.repo.to_owned(), place.loop_name.to_owned());
        let day = if scope == SpendScope::Loop { place.loop_day.to_owned() } else { place.day.to_owned() };
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

/// The owner of a start's spend: its day, repository, loop and item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpendOwner<'a> {
    /// The day of the user's zone.
    pub(crate) day: &'a str,
    /// The day of the loop's zone.
    pub(crate) loop_day: &'a str,
    pub(crate) repo: &'a str,
    pub(crate) loop_name: &'a str,
    pub(crate) item: Option<&'a str>,
}

/// A shared ceiling that a start draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedCeiling {
    /// The scope as the store names it.
    pub(crate) spend: SpendScope,
    /// The scope as messages name it.
    pub(crate) scope: BudgetScope,
    /// The ceiling.
    pub(crate) ceiling: SpendAllowance,
}

/// A sum as the meter knows it: the store's amounts, and the use beyond reservations.
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
    /// The use beyond its reservation.
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

/// The use of all rounds of one engine.
#[derive(Clone, Default)]
pub(crate) struct BudgetMeter(Arc<Mutex<Inner>>);

impl BudgetMeter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change under the lock is complete, so the data is sound after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a start. Its reservation counts here from now on, before the store has it. `Err` is the account that is
    /// exhausted.
    pub(crate) async fn open_slot(
        &self,
        store: &Store,
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

    /// Reads a sum that no running start of this process draws on, since other processes may have changed it. The first
    /// start inserts the sum before its own reservation reaches the store, so a late read cannot count that reservation
    /// twice.
    async fn load(&self, store: &Store, place: &SpendOwner<'_>, key: &SpendKey) -> Result<(), StoreError> {
        if self.lock().is_drawn(key) {
            return Ok(());
        }
        let row = match key.scope {
            SpendScope::Item => store.item_spend(place.repo, place.loop_name, &key.item).await?,
            SpendScope::Loop => store.spend(key.scope, place.repo, place.loop_name, place.loop_day).await?,
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

    /// Records a report. Only use beyond a reservation can exceed a ceiling: the reservation itself was granted.
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

    /// Ends a start: its spend counts now, and its reservation is released or kept as `held` says.
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

/// Whether an account is exceeded in money or tokens, where this start uses more than its reservation.
fn is_passed(account: &BudgetAccount, beyond: Reservation) -> bool {
    let used = account.used();
    let money = account.ceiling.usd.is_some_and(|most| used.usd > most) && beyond.usd > Usd(0);
    let tokens = account.ceiling.tokens.is_some_and(|most| used.tokens > most) && beyond.tokens > 0;
    money || tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The store has released the reservation, or never had it.
    Freed,
    /// The store still has the reservation.
    Kept,
}

/// The amounts of a row: spent, and reserved.
pub(crate) fn row_amounts(row: &SpendRow) -> (Reservation, Reservation) {
    let amount = |micros: i64, tokens: i64| Reservation {
        usd: Usd(u64::try_from(micros).unwrap_or(0)),
        tokens: u64::try_from(tokens).unwrap_or(0),
    };
    (amount(row.settled_micros, row.settled_tokens), amount(row.reserved_micros, row.reserved_tokens))
}

/// The slot of one start in the budget meter. A slot that is dropped without `settle` or `cancel` leaves its
/// reservation in the store until the round is recovered.
pub(crate) struct MeterSlot {
    meter: BudgetMeter,
    id: u64,
}

impl MeterSlot {
    /// The meter that the start reports to.
    pub(crate) fn meter(&self) -> StartMeter {
        StartMeter(Some((self.meter.clone(), self.id)))
    }

    /// The account that the start exceeded, if any.
    pub(crate) fn passed_account(&self) -> Option<BudgetAccount> {
        self.meter.lock().live.get(&self.id).and_then(|live| live.over)
    }

    /// The store has recorded the spend in place of the reservation.
    pub(crate) fn settle(self, spent: Reservation) {
        self.meter.lock().leave(self.id, spent, Held::Freed);
    }

    /// The start did not happen: the store has no reservation for it.
    pub(crate) fn cancel(self) {
        self.settle(Reservation::default());
    }
}

impl Drop for MeterSlot {
    fn drop(&mut self) {
        self.meter.lock().leave(self.id, Reservation::default(), Held::Kept);
    }
}

/// Records the reports of one start and returns a limit when the start has to end because a shared ceiling is exceeded.
/// The default meter never does.
#[derive(Clone, Default)]
pub struct StartMeter(Option<(BudgetMeter, u64)>);

impl StartMeter {
    /// Records what the start has used so far.
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

//! The money of a round: the limits of a start, the ceilings it draws on, and the messages to people when one is
//! reached.

use super::{RoundDriver, StageError};
use crate::agents::AgentLimits;
use crate::budget_meter::{MeterSlot, SharedCeiling, SpendOwner, StartMeter, row_amounts};
use crate::clock;
use crate::store::{ReservationChange, RowChange, SpendCeiling, SpendRow, SpendScope, StoreError};
use loopwright_core::budget::{self, BudgetAccount, BudgetLimit, BudgetScope, Reservation, SpendAllowance};
use loopwright_core::round::{AgentEnd, Event, ProbeItem, RoleStarted, RoundFacts};
use loopwright_core::spec::CheckMode;
use loopwright_core::units::{TimeSpan, Usd};

/// The most bytes that an agent may print before its process tree is ended.
const OUTPUT_MAX: u64 = 512 << 20;

impl RoundDriver<'_> {
    /// One start's share of the round's ceiling, and no more than a single start or the attempt may cost. If the round
    /// has no ceiling, a default share applies, capped by the day's ceiling: a loop with neither can still start.
    pub(super) fn reservation(&self) -> Reservation {
        let spec = self.spec();
        let (round, day) = (&spec.budget.round, &spec.budget.day);
        let unsaid = SpendAllowance {
            usd: day.usd.filter(|_| round.usd.is_none()),
            tokens: day.tokens.filter(|_| round.tokens.is_none()),
        };
        let roles = if spec.check == CheckMode::None { 1 } else { 2 };
        let share = budget::reservation(round, spec.attempts, roles).capped_at(unsaid);
        share.capped_at(spec.budget.role.allowance()).capped_at(spec.budget.attempt.allowance())
    }

    /// The day to which a start at this time is charged.
    pub(super) fn today(&self) -> String {
        clock::day(self.engine.now_ms())
    }

    /// Records that an agent starts, with its reservation in the same transaction; refused when a ceiling has no room
    /// for it. Returns the meter to which the agent reports its usage.
    pub(super) async fn record_start(&mut self, started: RoleStarted, day: String) -> Result<StartMeter, StageError> {
        let (cookie, reserved) = (started.cookie.clone(), started.reserved);
        let seat = self.sit_down(reserved, &day).await?;
        let reserve = self.reserve(reserved, day);
        match self.apply(Event::RoleStarted(started), vec![reserve]).await {
            Ok(_) => {
                let meter = seat.meter();
                self.seats.insert(cookie, seat);
                Ok(meter)
            }
            Err(trouble) => {
                seat.cancel();
                Err(trouble)
            }
        }
    }

    async fn sit_down(&self, reserved: Reservation, day: &str) -> Result<MeterSlot, StageError> {
        let drawn = self.drawn(day).await?;
        let facts = self.round.facts();
        let (repo, loop_name) = (&facts.started.repo, &facts.started.spec.name);
        let place = SpendOwner { day, repo, loop_name, item: alone(facts).map(|item| item.key.as_str()) };
        let seated = self.engine.budget_meter.open_slot(self.engine.store.as_ref(), &place, drawn, reserved).await?;
        seated.map_err(|account| self.no_room(&account))
    }

    /// The shared ceilings that this round draws on, without raises.
    fn ceilings(&self) -> Vec<SharedCeiling> {
        let facts = self.round.facts();
        let own = &facts.started.spec.budget;
        let shared = &self.engine.settings.budget;
        let item = if alone(facts).is_some() { own.item.allowance() } else { SpendAllowance::default() };
        let all = [
            SharedCeiling { spend: SpendScope::Item, scope: BudgetScope::Item, ceiling: item },
            SharedCeiling { spend: SpendScope::Loop, scope: BudgetScope::Day, ceiling: own.day.allowance() },
            SharedCeiling { spend: SpendScope::Repo, scope: BudgetScope::RepoDay, ceiling: shared.repo_day },
            SharedCeiling { spend: SpendScope::Fleet, scope: BudgetScope::FleetDay, ceiling: shared.fleet_day },
            SharedCeiling { spend: SpendScope::Month, scope: BudgetScope::FleetMonth, ceiling: shared.fleet_month },
        ];
        all.into_iter().filter(|drawn| !drawn.ceiling.is_none()).collect()
    }

    /// The same with people's raises for the day or for this round.
    async fn drawn(&self, day: &str) -> Result<Vec<SharedCeiling>, StoreError> {
        let started = &self.round.facts().started;
        let store = self.engine.store();
        let (micros, tokens) = store.raised(&started.repo, &started.spec.name, day, &started.round).await?;
        let more =
            Reservation { usd: Usd(u64::try_from(micros).unwrap_or(0)), tokens: u64::try_from(tokens).unwrap_or(0) };
        let mut drawn = self.ceilings();
        for one in drawn.iter_mut().filter(|one| one.scope == BudgetScope::Day) {
            one.ceiling = one.ceiling.raised_by(more);
        }
        Ok(drawn)
    }

    /// The accounts of days and months, for the decision whether and how this round may run.
    pub(super) async fn accounts(&self) -> Result<Vec<BudgetAccount>, StoreError> {
        let started = &self.round.facts().started;
        let day = clock::day(self.started_ms);
        let mut accounts = Vec::new();
        for drawn in self.drawn(&day).await?.into_iter().filter(|drawn| drawn.scope.is_periodic()) {
            let row = self.engine.store().spend(drawn.spend, &started.repo, &started.spec.name, &day).await?;
            accounts.push(account(drawn, &row));
        }
        Ok(accounts)
    }

    /// The reservation as a row: the whole batch is refused when a ceiling has no room for it.
    fn reserve(&self, reserved: Reservation, day: String) -> RowChange {
        let facts = self.round.facts();
        let ceiling = |drawn: SharedCeiling| SpendCeiling {
            scope: drawn.spend,
            micros: drawn.ceiling.usd.map(|usd| number(usd.micros())),
            tokens: drawn.ceiling.tokens.map(number),
        };
        RowChange::Reserve(ReservationChange {
            repo: facts.started.repo.clone(),
            loop_name: facts.started.spec.name.clone(),
            day,
            round: facts.started.round.clone(),
            item: alone(facts).map(|item| item.key.clone()),
            micros: number(reserved.usd.micros()),
            tokens: number(reserved.tokens),
            ceilings: self.ceilings().into_iter().map(ceiling).collect(),
        })
    }

    /// The limits of a start: the least of the amounts left to it alone. Its meter watches the shared ceilings.
    pub(super) fn agent_limits(&self) -> AgentLimits {
        let budget = &self.spec().budget;
        let (round, role) = (&budget.round, &budget.role);
        let left = self
            .own_accounts()
            .iter()
            .map(BudgetAccount::left)
            .fold(SpendAllowance::default(), SpendAllowance::tightest);
        AgentLimits {
            wall: least(self.wall_left(), role.wall.map(TimeSpan::duration)),
            idle: least(round.idle.map(TimeSpan::duration), role.idle.map(TimeSpan::duration)),
            turns: least(round.turns, role.turns),
            tokens: left.tokens,
            usd: left.usd,
            meter: StartMeter::default(),
            output_max: OUTPUT_MAX,
        }
    }

    /// The ceilings that no other round draws on.
    fn own_accounts(&self) -> [BudgetAccount; 3] {
        let facts = self.round.facts();
        let budget = &facts.started.spec.budget;
        let account = |scope, ceiling, spent| BudgetAccount { scope, ceiling, spent, reserved: Reservation::default() };
        [
            account(BudgetScope::Role, budget.role.allowance(), Reservation::default()),
            account(BudgetScope::Attempt, budget.attempt.allowance(), facts.attempt_spend().amount()),
            account(BudgetScope::Round, facts.ceilings().allowance(), facts.spend.amount()),
        ]
    }

    /// The end of a start; names the ceiling if one of money or tokens was passed.
    pub(super) fn explain_end(&self, end: AgentEnd, spent: Reservation, cookie: &str) -> AgentEnd {
        let AgentEnd::Limit { limit: limit @ (BudgetLimit::Usd | BudgetLimit::Total), text } = end else { return end };
        let own = self.own_accounts().map(|account| BudgetAccount { spent: account.spent.plus(spent), ..account });
        let shared = self.seats.get(cookie).and_then(MeterSlot::passed_account);
        let passed = shared.or_else(|| own.into_iter().find(|account| account.ceiling.is_exceeded_by(account.spent)));
        match passed {
            Some(account) => AgentEnd::Limit { limit, text: format!("{text}: {}", self.ceiling_text(&account)) },
            None => AgentEnd::Limit { limit, text },
        }
    }

    /// A description of the ceiling: its scope, how much of it is used, and what a person can do.
    fn ceiling_text(&self, account: &BudgetAccount) -> String {
        let started = &self.round.facts().started;
        format!("{}; {}", account.describe(), account.scope.remedy(&started.spec.name, &started.round))
    }

    /// The error for a start for which an account has no room.
    fn no_room(&self, account: &BudgetAccount) -> StageError {
        let wanted = self.reservation();
        let is_money = account.ceiling.usd.is_some_and(|most| account.used().plus(wanted).usd > most);
        let (limit, wanted) = match is_money {
            true => (BudgetLimit::Usd, wanted.usd.to_string()),
            false => (BudgetLimit::Total, format!("{} tokens", wanted.tokens)),
        };
        let limit = if account.scope == BudgetScope::Day && is_money { BudgetLimit::Day } else { limit };
        StageError::Ceiling(
            limit,
            format!("no room for another agent, which may need {wanted}: {}", self.ceiling_text(account)),
        )
    }

    /// The same, from the store's error.
    pub(super) fn ceiling_error(&self, full: &SpendCeiling, spend: &SpendRow) -> StageError {
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        let ceiling =
            SpendAllowance { usd: full.micros.map(|most| Usd(unsigned(most))), tokens: full.tokens.map(unsigned) };
        let scope = match full.scope {
            SpendScope::Loop => BudgetScope::Day,
            SpendScope::Repo => BudgetScope::RepoDay,
            SpendScope::Fleet => BudgetScope::FleetDay,
            SpendScope::Month => BudgetScope::FleetMonth,
            SpendScope::Item => BudgetScope::Item,
        };
        self.no_room(&account(SharedCeiling { spend: full.scope, scope, ceiling }, spend))
    }

    /// The cost of agents is on record: this releases their slots in the budget meter.
    pub(super) fn settle_seats(&mut self, bills_before: usize) {
        for bill in self.round.facts().bills.iter().skip(bills_before) {
            if let Some(seat) = self.seats.remove(&bill.cookie) {
                seat.settle(bill.spend.amount());
            }
        }
    }
}

/// The one item to which the whole cost is charged. With several, no ceiling of an item counts: `check` refuses the
/// combination.
fn alone(facts: &RoundFacts) -> Option<&ProbeItem> {
    match facts.items.as_slice() {
        [item] => Some(item),
        _ => None,
    }
}

fn account(drawn: SharedCeiling, row: &SpendRow) -> BudgetAccount {
    let (spent, reserved) = row_amounts(row);
    BudgetAccount { scope: drawn.scope, ceiling: drawn.ceiling, spent, reserved }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

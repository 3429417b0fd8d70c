//! The budget of a round: the limits of a start, the ceilings it draws on, its wall time, and the messages to people
//! when one is reached.

use super::StageError;
use super::context::RoundContext;
use super::journal::RoundJournal;
use super::rows::clamp;
use crate::agents::AgentLimits;
use crate::budget_meter::{MeterSlot, SharedCeiling, SpendOwner, StartMeter, row_amounts};
use crate::ceiling_source::CeilingSource;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::store::{ReservationChange, RowChange, SpendCeiling, SpendRow, SpendScope, StoreError, StoreErrorKind};
use loopwright_core::budget::{self, BudgetAccount, BudgetLimit, BudgetScope, Reservation, SpendAllowance, StartBill};
use loopwright_core::config::SharedBudget;
use loopwright_core::round::{AgentEnd, Event, ProbeItem, RoleStarted, RoundFacts};
use loopwright_core::spec::{Ceilings, LoopSpec, Role};
use loopwright_core::units::{TimeSpan, Usd};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes that an agent may print before its process tree is ended.
const OUTPUT_MAX: u64 = 512 << 20;

/// The wall time of one round in this process, and the use of its running agents.
pub(super) struct RoundBudget {
    begun: Instant,
    /// The meter slots of running agents, by their cookies.
    slots: BTreeMap<String, MeterSlot>,
}

impl RoundBudget {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), slots: BTreeMap::new() }
    }

    /// The rest of the round's wall time.
    pub(super) fn wall_left(&self, spec: &LoopSpec) -> Option<Duration> {
        let whole = spec.timeout.or(spec.budget.round.wall)?.duration();
        Some(whole.saturating_sub(self.begun.elapsed()).max(Duration::from_millis(1)))
    }

    /// No agent starts once the round's wall time is used up.
    pub(super) fn ensure_time_left(&self, spec: &LoopSpec) -> Result<(), StageError> {
        let whole = spec.timeout.or(spec.budget.round.wall);
        let Some(whole) = whole.filter(|whole| self.begun.elapsed() >= whole.duration()) else { return Ok(()) };
        let text = format!("the round's wall time of {whole} is used up; raise `budget.round.wall`");
        Err(StageError::Ceiling(BudgetLimit::Wall, text))
    }

    /// Waits for a blocked provider until the given time, or until the round is stopped. The wait does not count
    /// towards the round's wall time.
    pub(super) async fn wait(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        until_ms: i64,
    ) -> Result<Event, StageError> {
        let why = facts.reasons.last().map_or("", |reason| reason.text.as_str());
        cx.publish(EventKind::ProviderWait { until_ms, why: why.to_owned() });
        let begun = Instant::now();
        let stopped = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => true,
            () = cx.engine.settings.clock.until(until_ms) => false,
        };
        self.begun += begun.elapsed();
        if stopped { Err(StageError::Stopped) } else { Ok(Event::Waited) }
    }

    /// Records that an agent starts, with its reservation in the same transaction; refused when a ceiling has no room
    /// for it. Returns the meter to which the agent reports its usage.
    pub(super) async fn record_start(
        &mut self,
        cx: &RoundContext<'_>,
        journal: &mut RoundJournal,
        started: RoleStarted,
        days: SpendDays,
    ) -> Result<StartMeter, StageError> {
        let present = PresentBudget::read(cx.engine, journal.facts());
        ensure_own_room(&present.facts, started.role, started.attempt)?;
        let (cookie, reserved) = (started.cookie.clone(), started.reserved);
        let slot = open_slot(cx, &present, reserved, &days).await?;
        let reserve = reservation_row(cx, &present, reserved, days);
        if let Err(trouble) = journal.apply(cx, Event::RoleStarted(started), vec![reserve]).await {
            slot.cancel();
            return Err(match trouble {
                StageError::Fatal(EngineError::Store(StoreError {
                    kind: StoreErrorKind::OverCeiling { full, spend, .. },
                    ..
                })) => over_ceiling(&present.facts, &full, &spend),
                trouble => trouble,
            });
        }
        let meter = slot.meter();
        self.slots.insert(cookie, slot);
        Ok(meter)
    }

    /// The limits of a start: the least of the amounts left to it alone. Its meter watches the shared ceilings.
    pub(super) fn agent_limits(&self, facts: &RoundFacts, role: Role, attempt: u32) -> AgentLimits {
        let spec = &facts.started.spec;
        let own = facts.own_accounts(role, attempt);
        let (round, role) = (&spec.budget.round, spec.role_ceilings(role));
        let left = own.iter().map(BudgetAccount::left).fold(SpendAllowance::default(), SpendAllowance::tightest);
        AgentLimits {
            wall: least(self.wall_left(spec), role.wall.map(TimeSpan::duration)),
            idle: least(round.idle.map(TimeSpan::duration), role.idle.map(TimeSpan::duration)),
            turns: least(round.turns, role.turns),
            tokens: left.tokens,
            usd: left.usd,
            meter: StartMeter::default(),
            output_max: OUTPUT_MAX,
        }
    }

    /// The end of a start; names the ceiling if one of money or tokens was passed.
    pub(super) fn explain_end(
        &self,
        facts: &RoundFacts,
        role: Role,
        end: AgentEnd,
        spent: Reservation,
        cookie: &str,
    ) -> AgentEnd {
        let AgentEnd::Limit { limit: limit @ (BudgetLimit::Usd | BudgetLimit::Total), text } = end else { return end };
        let own = facts
            .own_accounts(role, facts.attempt_number())
            .map(|account| BudgetAccount { spent: account.spent.plus(spent), ..account });
        let shared = self.slots.get(cookie).and_then(MeterSlot::passed_account);
        let passed = shared.or_else(|| own.into_iter().find(|account| account.ceiling.is_exceeded_by(account.spent)));
        match passed {
            Some(account) => AgentEnd::Limit {
                limit,
                text: format!("{text}: {}", ceiling_text(facts, &account, Reservation::default())),
            },
            None => AgentEnd::Limit { limit, text },
        }
    }

    /// The cost of agents is on record: this releases their slots in the budget meter.
    pub(super) fn settle(&mut self, bills: &[StartBill]) {
        for bill in bills {
            if let Some(slot) = self.slots.remove(&bill.cookie) {
                slot.settle(bill.spend.amount());
            }
        }
    }
}

/// One start's share of the round's ceiling, and no more than a single start or the attempt may cost. If the round has
/// no ceiling, a default share applies, capped by the day's ceiling: a loop with neither can still start.
pub(super) fn reservation(spec: &LoopSpec) -> Reservation {
    let (round, day) = (&spec.budget.round, &spec.budget.day);
    let unsaid = SpendAllowance {
        usd: day.usd.filter(|_| round.usd.is_none()),
        tokens: day.tokens.filter(|_| round.tokens.is_none()),
    };
    let attackers = spec.attack.as_ref().map_or(0, |attack| attack.roles.len());
    let agents = |role: Role| if role == Role::Attacker { attackers } else { usize::from(spec.plays(role)) };
    let roles = u32::try_from(Role::ALL.into_iter().map(agents).sum::<usize>()).unwrap_or(u32::MAX);
    let share = budget::reservation(round, spec.attempts, roles).capped_at(unsaid);
    share.capped_at(spec.budget.role.allowance()).capped_at(spec.budget.attempt.allowance())
}

/// The days to which a start is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpendDays {
    /// The day of the user's zone, for ceilings that loops share.
    pub(super) day: String,
    /// The day of the loop's zone, for the loop's own ceiling.
    pub(super) own_day: String,
}

impl SpendDays {
    pub(super) fn at(engine: &Engine, spec: &LoopSpec, at_ms: i64) -> Self {
        let zone = &engine.settings.zone;
        Self { day: zone.day(at_ms), own_day: zone.of_loop(spec).day(at_ms) }
    }

    fn of(&self, scope: SpendScope) -> &str {
        if scope == SpendScope::Loop { &self.own_day } else { &self.day }
    }
}

/// The budgets of a round as they are now: those of its start, lowered where people have lowered them since.
pub(super) struct PresentBudget {
    /// The facts of the round, with the present budget of its loop.
    pub(super) facts: RoundFacts,
    shared: SharedBudget,
}

impl PresentBudget {
    pub(super) fn read(engine: &Engine, facts: &RoundFacts) -> Self {
        let mut facts = facts.clone();
        let started = &mut facts.started;
        let source = engine.settings.ceilings.as_ref();
        let read = |source: &Arc<dyn CeilingSource>| {
            source.present_ceilings(Path::new(&started.repo_path), &started.spec.name)
        };
        let present = source.map(read).unwrap_or_default();
        if let Some(mut own) = present.own {
            if started.workflow.is_some() {
                // The share of a part is its ceiling, and counts what its item has spent before.
                own.item = Ceilings::default();
            }
            started.spec.budget = started.spec.budget.tightest(own);
        }
        Self { facts, shared: present.shared.unwrap_or(engine.settings.budget) }
    }
}

async fn open_slot(
    cx: &RoundContext<'_>,
    present: &PresentBudget,
    reserved: Reservation,
    SpendDays { day, own_day }: &SpendDays,
) -> Result<MeterSlot, StageError> {
    let facts = &present.facts;
    let drawn = raised_ceilings(cx.engine, present, own_day).await?;
    let item = alone(facts).map(|item| item.key.as_str());
    let owner = SpendOwner { day, loop_day: own_day, repo: &cx.key.repo, loop_name: &cx.key.name, item };
    let opened = cx.engine.budget_meter.open_slot(cx.engine.store.as_ref(), &owner, drawn, reserved).await?;
    opened.map_err(|account| no_room(facts, &account))
}

/// The shared ceilings that this round draws on, without raises.
fn ceilings(PresentBudget { facts, shared }: &PresentBudget) -> Vec<SharedCeiling> {
    let own = &facts.started.spec.budget;
    let item = if alone(facts).is_some() { own.item.allowance() } else { SpendAllowance::default() };
    let all = [
        (SpendScope::Item, BudgetScope::Item, item),
        (SpendScope::Loop, BudgetScope::Day, own.day.allowance()),
        (SpendScope::Repo, BudgetScope::RepoDay, shared.repo_day),
        (SpendScope::Fleet, BudgetScope::FleetDay, shared.fleet_day),
        (SpendScope::Month, BudgetScope::FleetMonth, shared.fleet_month),
    ];
    let drawn = all.into_iter().filter(|(.., ceiling)| !ceiling.is_none());
    drawn.map(|(spend, scope, ceiling)| SharedCeiling { spend, scope, ceiling }).collect()
}

/// The same with people's raises for the day or for this round.
async fn raised_ceilings(
    engine: &Engine,
    present: &PresentBudget,
    own_day: &str,
) -> Result<Vec<SharedCeiling>, StoreError> {
    let started = &present.facts.started;
    let (micros, tokens) = engine.store.raised(&started.repo, &started.spec.name, own_day, &started.round).await?;
    let more = Reservation { usd: Usd(unsigned(micros)), tokens: unsigned(tokens) };
    let mut drawn = ceilings(present);
    for one in drawn.iter_mut().filter(|one| one.scope == BudgetScope::Day) {
        one.ceiling = one.ceiling.raised_by(more);
    }
    Ok(drawn)
}

/// The accounts of days and months, for the decision whether and how this round may run.
pub(super) async fn accounts(
    engine: &Engine,
    facts: &RoundFacts,
    now_ms: i64,
) -> Result<Vec<BudgetAccount>, StoreError> {
    let (days, started) = (SpendDays::at(engine, &facts.started.spec, now_ms), &facts.started);
    let present = PresentBudget::read(engine, facts);
    let mut accounts = Vec::new();
    for drawn in
        raised_ceilings(engine, &present, &days.own_day).await?.into_iter().filter(|drawn| drawn.scope.is_periodic())
    {
        let row = engine.store.spend(drawn.spend, &started.repo, &started.spec.name, days.of(drawn.spend)).await?;
        accounts.push(account(drawn, &row));
    }
    Ok(accounts)
}

/// Whether the accounts of days and months have room for another agent of the round now.
pub(crate) async fn has_room(engine: &Engine, facts: &RoundFacts) -> Result<bool, StoreError> {
    let wanted = reservation(&facts.started.spec);
    let accounts = accounts(engine, facts, engine.now_ms()).await?;
    Ok(accounts.iter().all(|account| !account.ceiling.is_exceeded_by(account.used().plus(wanted))))
}

/// The reservation as a row: the whole batch is refused when a ceiling has no room for it.
fn reservation_row(
    cx: &RoundContext<'_>,
    present: &PresentBudget,
    reserved: Reservation,
    days: SpendDays,
) -> RowChange {
    let facts = &present.facts;
    let ceiling = |drawn: SharedCeiling| SpendCeiling {
        scope: drawn.spend,
        micros: drawn.ceiling.usd.map(|usd| clamp(usd.micros())),
        tokens: drawn.ceiling.tokens.map(clamp),
    };
    RowChange::Reserve(ReservationChange {
        repo: cx.key.repo.to_string(),
        loop_name: cx.key.name.to_string(),
        day: days.day,
        loop_day: days.own_day,
        round: cx.id.clone(),
        item: alone(facts).map(|item| item.key.clone()),
        micros: clamp(reserved.usd.micros()),
        tokens: clamp(reserved.tokens),
        ceilings: ceilings(present).into_iter().map(ceiling).collect(),
    })
}

/// No agent starts when the attempt or the round has nothing left for it.
fn ensure_own_room(facts: &RoundFacts, role: Role, attempt: u32) -> Result<(), StageError> {
    let Some(full) = facts.full_account(role, attempt) else { return Ok(()) };
    let is_money = full.ceiling.usd.is_some_and(|most| full.spent.usd >= most);
    let limit = if is_money { BudgetLimit::Usd } else { BudgetLimit::Total };
    Err(StageError::Ceiling(
        limit,
        format!("no room for another agent: {}", ceiling_text(facts, &full, Reservation::default())),
    ))
}

/// A description of the ceiling: its scope, how much of it is used, and what a person can do.
fn ceiling_text(facts: &RoundFacts, account: &BudgetAccount, wanted: Reservation) -> String {
    let (started, option) = (&facts.started, account.raise_option(wanted));
    format!("{}; {}", account.describe(), account.scope.remedy(&started.spec.name, &started.round, option))
}

/// The error for a start for which an account has no room.
fn no_room(facts: &RoundFacts, account: &BudgetAccount) -> StageError {
    let wanted = reservation(&facts.started.spec);
    let is_money = account.ceiling.usd.is_some_and(|most| account.used().plus(wanted).usd > most);
    let (limit, need) = match is_money {
        true if account.scope == BudgetScope::Day => (BudgetLimit::Day, wanted.usd.to_string()),
        true => (BudgetLimit::Usd, wanted.usd.to_string()),
        false => (BudgetLimit::Total, format!("{} tokens", wanted.tokens)),
    };
    let text = ceiling_text(facts, account, wanted);
    StageError::Ceiling(limit, format!("no room for another agent, which may need {need}: {text}"))
}

/// The same, from the store's error.
fn over_ceiling(facts: &RoundFacts, full: &SpendCeiling, spend: &SpendRow) -> StageError {
    let ceiling =
        SpendAllowance { usd: full.micros.map(|most| Usd(unsigned(most))), tokens: full.tokens.map(unsigned) };
    let scope = match full.scope {
        SpendScope::Loop => BudgetScope::Day,
        SpendScope::Repo => BudgetScope::RepoDay,
        SpendScope::Fleet => BudgetScope::FleetDay,
        SpendScope::Month => BudgetScope::FleetMonth,
        SpendScope::Item => BudgetScope::Item,
    };
    no_room(facts, &account(SharedCeiling { spend: full.scope, scope, ceiling }, spend))
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

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

//! The current budgets: every ceiling that rounds share, the amount used, and the time of the next reset.

use super::list_page::{ListPage, ListWindow};
use super::repo_view::RepoView;
use super::standing::state_look;
use super::time::Moment;
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable, time};
use crate::context::CheckedLoopFile;
use crate::output::CommandOutput;
use loopwright::store::{RaiseRow, SpendRow, SpendScope};
use loopwright_core::budget::{BudgetAccount, BudgetScope, Reservation, SpendAllowance};
use loopwright_core::cadence::DayZone;
use loopwright_core::config::SharedBudget;
use loopwright_core::units::Usd;

/// The document of `budget --json`.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetView {
    schema: u32,
    day: String,
    page: ListPage,
    scopes: Vec<Line>,
    raises: Vec<Raised>,
}

/// One ceiling.
#[derive(Debug, Serialize)]
struct Line {
    scope: &'static str,
    #[serde(rename = "loop")]
    loop_name: Option<String>,
    repo: Option<String>,
    status: &'static str,
    ceiling: Amount,
    spent: Amount,
    reserved: Amount,
    left: Amount,
    resets: Moment,
}

/// Money and tokens; null where there is no ceiling.
#[derive(Debug, Serialize)]
struct Amount {
    usd: Option<f64>,
    tokens: Option<u64>,
}

/// An amount that a person added today.
#[derive(Debug, Serialize)]
struct Raised {
    #[serde(rename = "loop")]
    loop_name: String,
    repo: String,
    round: Option<String>,
    usd: f64,
    tokens: i64,
    actor: String,
    at: String,
}

impl From<SpendAllowance> for Amount {
    fn from(allowance: SpendAllowance) -> Self {
        Self { usd: allowance.usd.map(Usd::dollars), tokens: allowance.tokens }
    }
}

impl From<Reservation> for Amount {
    fn from(amount: Reservation) -> Self {
        Self { usd: Some(amount.usd.dollars()), tokens: Some(amount.tokens) }
    }
}

/// The inputs of the view.
pub(crate) struct BudgetQuery<'a> {
    pub(crate) store: Option<&'a Store>,
    pub(crate) here: Option<&'a RepoView>,
    pub(crate) shared: SharedBudget,
    pub(crate) scopes: BudgetsListed,
    /// The wanted part of the budgets; only these are read from the store.
    pub(crate) window: ListWindow,
    pub(crate) now: i64,
}

/// The budgets that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetsListed {
    /// All of them.
    All,
    /// Those that several loops share.
    Shared,
}

/// A budget before its spend is read.
struct BudgetPlan {
    scope: BudgetScope,
    spend: SpendScope,
    zone: DayZone,
    repo: Option<String>,
    loop_name: Option<String>,
    ceiling: SpendAllowance,
}

impl BudgetView {
    /// Reads the budgets: of the loops of this repository, of the repository's day, and of all loops together.
    pub(crate) async fn read(looked: &BudgetQuery<'_>) -> Result<Self, CommandError> {
        let zone = time::day_zone();
        let day = zone.day(looked.now);
        let mut raises = Vec::new();
        // The days of loops in other zones are at most one day away.
        for shift_ms in [-DAY_MS, 0, DAY_MS] {
            if let Some(store) = looked.store {
                raises.extend(store.raises(&zone.day(looked.now + shift_ms)).await?);
            }
        }
        let plans = looked.plans(&zone, &mut raises);
        let is_here = |row: &RaiseRow| {
            let here = looked.here.filter(|here| here.repo.id == row.repo);
            here.is_some_and(|here| here.has_loop_named(&row.loop_name))
        };
        raises.retain(|row| is_here(row) || row.day == day);
        let page = looked.window.page(plans.len());
        let mut scopes = Vec::new();
        for plan in &plans[looked.window.places(plans.len())] {
            scopes.push(looked.line(plan).await?);
        }
        Ok(Self { schema: SCHEMA, day, page, scopes, raises: raises.into_iter().map(raised).collect() })
    }

    /// The page for people.
    pub(crate) fn render(&self, out: &CommandOutput) -> String {
        let headings = ["SCOPE", "USED", "", "SPENT", "RESERVED", "CEILING", "LEFT", "STATUS", "RESETS"];
        let mut page =
            TextTable::new(headings, self.scopes.iter().map(Line::cells)).with_look(7, state_look).render_for(out);
        for raise in &self.raises {
            let of = raise.round.as_ref().map_or("today".to_owned(), |round| format!("round {round}"));
            let what = crate::output::safe(&format!("{} raised {} for {of}", raise.actor, raise.loop_name));
            page.push_str(&format!("\n{what}: {:.2} USD, {} tokens, at {}", raise.usd, raise.tokens, raise.at));
        }
        page
    }
}

impl BudgetPlan {
    fn shared((scope, spend): (BudgetScope, SpendScope), zone: &DayZone, ceiling: SpendAllowance) -> Self {
        Self { scope, spend, zone: zone.clone(), repo: None, loop_name: None, ceiling }
    }
}

impl BudgetQuery<'_> {
    /// The budgets of the loops here, of the repository, and of all loops together.
    fn plans(&self, zone: &DayZone, raises: &mut Vec<RaiseRow>) -> Vec<BudgetPlan> {
        let mut plans = Vec::new();
        let SharedBudget { repo_day, fleet_day, fleet_month, .. } = self.shared;
        if let Some(here) = self.here {
            if self.scopes == BudgetsListed::All {
                plans = self.loop_plans(here, zone, raises);
            }
            let repo = Some(here.repo.id.clone());
            plans.push(BudgetPlan {
                repo,
                ..BudgetPlan::shared((BudgetScope::RepoDay, SpendScope::Repo), zone, repo_day)
            });
        }
        plans.push(BudgetPlan::shared((BudgetScope::FleetDay, SpendScope::Fleet), zone, fleet_day));
        plans.push(BudgetPlan::shared((BudgetScope::FleetMonth, SpendScope::Month), zone, fleet_month));
        plans
    }

    /// The day's budget of each loop with its raises; raises of other days of the loop's zone are left out.
    fn loop_plans(&self, here: &RepoView, zone: &DayZone, raises: &mut Vec<RaiseRow>) -> Vec<BudgetPlan> {
        let repo = &here.repo.id;
        let plan = |file: &CheckedLoopFile| {
            let (name, zone) = (&file.spec.name, zone.of_loop(&file.spec));
            let today = zone.day(self.now);
            let is_own = |row: &RaiseRow| row.repo == *repo && row.loop_name == *name;
            raises.retain(|row| !is_own(row) || row.day == today);
            let ceiling = file.spec.budget.day.allowance().raised_by(added(raises, repo, name));
            let (repo, loop_name) = (Some(repo.clone()), Some(name.clone()));
            BudgetPlan { scope: BudgetScope::Day, spend: SpendScope::Loop, zone, repo, loop_name, ceiling }
        };
        here.loops.loops.iter().map(plan).collect()
    }

    async fn line(&self, plan: &BudgetPlan) -> Result<Line, CommandError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let BudgetPlan { scope, spend, zone, repo, loop_name, ceiling } = plan;
        let (scope, ceiling) = (*scope, *ceiling);
        let row = match self.store {
            Some(store) => store.spend(*spend, &text(repo), &text(loop_name), &zone.day(self.now)).await?,
            None => SpendRow::default(),
        };
        let spent = amount(row.settled_micros, row.settled_tokens);
        let reserved = amount(row.reserved_micros, row.reserved_tokens);
        let account = BudgetAccount { scope, ceiling, spent, reserved };
        let status = match (ceiling.is_none(), account.is_full(), account.is_low()) {
            (true, ..) => "unlimited",
            (_, true, _) => "full",
            (_, _, true) => "low",
            (false, false, false) => "open",
        };
        Ok(Line {
            scope: scope.word(),
            loop_name: loop_name.clone(),
            repo: repo.clone(),
            status,
            ceiling: ceiling.into(),
            spent: spent.into(),
            reserved: reserved.into(),
            left: account.left().into(),
            resets: Moment(next_reset_ms(scope, self.now, zone)),
        })
    }
}

impl Line {
    fn cells(&self) -> [String; 9] {
        let name = self.loop_name.as_ref().map_or(self.scope.to_owned(), |name| format!("{} {name}", self.scope));
        let used = self.part();
        let money = |amount: &Amount| {
            let tokens =
                amount.tokens.filter(|_| self.ceiling.tokens.is_some()).map(|tokens| format!("{tokens} tokens"));
            let usd = amount.usd.map(|usd| format!("${usd:.2}"));
            let parts: Vec<_> = [usd, tokens].into_iter().flatten().collect();
            if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
        };
        [
            name,
            used.map_or(NOTHING.to_owned(), |part| format!("{:.0}%", part * 100.0)),
            used.map_or(String::new(), bar),
            money(&self.spent),
            money(&self.reserved),
            money(&self.ceiling),
            money(&self.left),
            self.status.to_owned(),
            time::date_and_time(self.resets.0),
        ]
    }

    /// The used part of the ceiling, in money or tokens, whichever is larger.
    fn part(&self) -> Option<f64> {
        let usd =
            self.ceiling.usd.map(|most| (self.spent.usd.unwrap_or(0.0) + self.reserved.usd.unwrap_or(0.0)) / most);
        let used = |amount: &Amount| amount.tokens.unwrap_or(0) as f64;
        let tokens = self.ceiling.tokens.map(|most| (used(&self.spent) + used(&self.reserved)) / most as f64);
        let parts = [usd, tokens].into_iter().flatten().filter(|part| part.is_finite());
        parts.reduce(f64::max)
    }
}

/// Ten characters, one `#` for each used tenth.
fn bar(part: f64) -> String {
    let full = (part * 10.0).clamp(0.0, 10.0).round() as usize;
    format!("[{}{}]", "#".repeat(full), "-".repeat(10 - full))
}

fn amount(micros: i64, tokens: i64) -> Reservation {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    Reservation { usd: Usd(unsigned(micros)), tokens: unsigned(tokens) }
}

/// The amount that was added to a loop's day.
fn added(raises: &[RaiseRow], repo: &str, name: &str) -> Reservation {
    let own = raises.iter().filter(|row| row.repo == repo && row.loop_name == name && row.round.is_none());
    own.fold(Reservation::default(), |sum, row| sum.plus(amount(row.micros, row.tokens)))
}

fn raised(row: RaiseRow) -> Raised {
    Raised {
        loop_name: row.loop_name,
        repo: row.repo,
        round: row.round,
        usd: row.micros as f64 / 1.0e6,
        tokens: row.tokens,
        actor: row.actor,
        at: time::timestamp(row.at_ms),
    }
}

const DAY_MS: i64 = 86_400_000;

/// The next reset of a scope: the next midnight of the zone, or the first of the next month.
fn next_reset_ms(scope: BudgetScope, now: i64, zone: &DayZone) -> i64 {
    if scope == BudgetScope::FleetMonth { zone.next_month_ms(now) } else { zone.next_day_ms(now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_and_months_on_their_first() {
        let at = |ms| time::timestamp(ms);
        let now = 1_793_700_000_000; // 2026-11-03
        assert_eq!(at(next_reset_ms(BudgetScope::Day, now, &DayZone::default())).get(10..), Some("T00:00:00Z"));
        assert!(
            at(next_reset_ms(BudgetScope::FleetMonth, now, &DayZone::default())).ends_with("-12-01T00:00:00Z"),
            "{}",
            at(next_reset_ms(BudgetScope::FleetMonth, now, &DayZone::default()))
        );
    }

    #[test]
    fn a_bar_has_ten_characters_whatever_was_spent() {
        assert_eq!(
            (bar(0.0), bar(0.62), bar(7.5)),
            ("[----------]".into(), "[######----]".into(), "[##########]".into())
        );
    }
}

//! The ceilings that no other round draws on: those of one start, of an attempt and of the round. Ceilings that rounds
//! share are the engine's to compare, because only the store knows their use.

use super::provider_waits::ResumePoint;
use super::{Phase, Round, RoundFacts};
use crate::budget::{BudgetAccount, BudgetScope, Reservation};
use crate::outcome::RoundOutcome;
use crate::spec::{Ceilings, Role};

impl RoundFacts {
    /// The accounts of a role's start in an attempt, with people's raises for the round.
    #[must_use]
    pub fn own_accounts(&self, role: Role, attempt: u32) -> [BudgetAccount; 3] {
        let (budget, start) = (&self.started.spec.budget, self.started.spec.role_ceilings(role));
        let account = |scope, ceiling, spent| BudgetAccount { scope, ceiling, spent, reserved: Reservation::default() };
        let raised = |ceiling: &Ceilings| ceiling.allowance().raised_by(self.raised);
        [
            account(BudgetScope::Role, raised(&start), Reservation::default()),
            account(BudgetScope::Attempt, raised(&budget.attempt), self.attempt_spend(attempt).amount()),
            account(BudgetScope::Round, self.ceilings().allowance(), self.spend.amount()),
        ]
    }

    /// The account that leaves nothing for another agent of the role. A role that starts over, unlike a maker that
    /// continues its files, does not start again after it exceeded the ceiling of one start.
    #[must_use]
    pub fn full_account(&self, role: Role, attempt: u32) -> Option<BudgetAccount> {
        let last = self.bills.iter().rfind(|bill| bill.role == role && bill.attempt == attempt && role != Role::Maker);
        let last = last.map_or(Reservation::default(), |bill| bill.spend.amount());
        let own = self.own_accounts(role, attempt).map(|account| match account.scope {
            BudgetScope::Role => BudgetAccount { spent: last, ..account },
            _ => account,
        });
        own.into_iter().find(|account| match account.scope {
            BudgetScope::Role => account.ceiling.is_exceeded_by(account.spent),
            _ => account.is_full() && account.spent != Reservation::default(),
        })
    }
}

impl Round {
    /// Whether a ceiling of the round itself is exhausted: only a person can change that, not a new day.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let facts = &self.facts;
        let is_own_full = match &self.phase {
            Phase::Suspended(_, ResumePoint::Seal | ResumePoint::Make) => false,
            Phase::Suspended(_, due) => facts.full_account(due.role(), facts.attempt_number()).is_some(),
            _ => false,
        };
        is_own_full || facts.exhausted_limit().is_some() || facts.reached_limit().is_some()
    }

    /// Whether the round is suspended because a day's or a month's ceiling was reached. The text of the last reason
    /// names the scope, in records of every age.
    #[must_use]
    pub fn waits_for_period(&self) -> bool {
        let is_over_budget = matches!(self.phase, Phase::Suspended(RoundOutcome::OverBudget, _));
        let last = self.facts.reasons.last().filter(|reason| is_over_budget && reason.code == "ceiling");
        let periodic = BudgetScope::ALL.iter().filter(|scope| scope.is_periodic());
        let mut labels = periodic.map(|scope| scope.label());
        last.is_some_and(|reason| labels.any(|label| reason.text.contains(label)))
    }
}

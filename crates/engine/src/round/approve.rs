//! Approve: asks the level's human gate. It advises; the level and the sensitive paths were decided before.

use super::Run;
use super::bindings::Outlet;
use loopwright_core::human_gate::{GateDecision, ProposedAction};
use loopwright_core::round::Event;

impl Run<'_> {
    pub(super) fn ask(&self, proposed: &[ProposedAction]) -> Event {
        Event::Decided { decision: self.decide(proposed) }
    }

    fn decide(&self, proposed: &[ProposedAction]) -> GateDecision {
        if matches!(self.bind.outlet, Outlet::ApprovalOnly) {
            return GateDecision::escalate("no action executor is configured");
        }
        let level = self.spec().level;
        let answers = proposed.iter().map(|action| self.bind.gate.decide(level, action));
        answers.into_iter().find(|answer| !answer.is_auto()).unwrap_or(GateDecision::AutoProceed)
    }
}

//! Approve: asks the level's human gate, which only advises: the level and the sensitive paths were decided before.

use super::RoundDriver;
use super::bindings::DeliveryOutlet;
use loopwright_core::human_gate::{GateDecision, ProposedAction};
use loopwright_core::round::Event;

impl RoundDriver<'_> {
    pub(super) fn ask_human(&self, proposed: &[ProposedAction]) -> Event {
        Event::Decided { decision: self.decide(proposed) }
    }

    fn decide(&self, proposed: &[ProposedAction]) -> GateDecision {
        if matches!(self.bind.outlet, DeliveryOutlet::ApprovalOnly) {
            return GateDecision::escalate("no action executor is configured");
        }
        let level = self.spec().level;
        let answers = proposed.iter().map(|action| self.bind.gate.decide(level, action));
        answers.into_iter().find(|answer| !answer.is_auto()).unwrap_or(GateDecision::AutoProceed)
    }
}

//! The facts that a round has gathered so far: the material of its report and of its next decision.

use super::approval_policy::Approval;
use super::attack::{AttackerRun, JudgedFinding, RegressionCheck};
use super::attempts::AttemptFeedback;
use super::event::{
    AgentEnd, AnswerWindow, Boundary, ChangeFact, DeliveryResult, PersonSteer, ProbeItem, RoleEnded, RoleStarted,
    RoundStarted, SealFindings, Stage,
};
use super::goal_event::ProofFinished;
use super::provider_waits::ProviderWaits;
use crate::autonomy::{IntentFingerprint, LoopDebts};
use crate::budget::{
    self, AgentUsage, BudgetLimit, CountedUsage, ModelSpend, Reservation, Spend, StartBill, spend_from_usage,
};
use crate::gate::GateResult;
use crate::goal_plan::{PlanPhase, RoundPlan};
use crate::level::LoopLevel;
use crate::memory::{MemoryEntry, MemoryNote};
use crate::network::NetworkTraffic;
use crate::outbox::StagedItem;
use crate::spec::{Ceilings, Role};
use crate::units::Usd;
use crate::verdict::Judgement;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of the line that names several items.
const ITEMS_LINE: usize = 160;

/// The reason for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundReason {
    /// The stage.
    pub stage: Stage,
    /// A short, stable code.
    pub code: String,
    /// As text.
    pub text: String,
}

/// The seal at the end of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSeal {
    /// The phase's title.
    pub title: String,
    /// The sealed tree.
    pub tree: String,
    /// The engine's commit of it.
    pub commit: String,
    /// The files that differ from base.
    pub files: usize,
}

/// One make → verify pass.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// How the maker ended.
    pub end: Option<AgentEnd>,
    /// Its final text.
    pub text: String,
    /// The items it staged; after the seal, the sealed ones.
    pub items: Vec<StagedItem>,
    /// The sealed tree.
    pub tree: Option<String>,
    /// The engine's commit of it.
    pub commit: Option<String>,
    /// The hash that everything later is bound to.
    pub candidate: Option<String>,
    /// The changed files.
    pub changes: Vec<ChangeFact>,
    /// The findings of the seal.
    pub findings: SealFindings,
    /// Secrets found in the maker's staged items.
    pub staged_secrets: Vec<String>,
    /// The seals at the ends of the phases before the last one.
    pub phases: Vec<PhaseSeal>,
    /// Whether its gates ran.
    pub was_gated: bool,
    /// Gate results.
    pub gates: Vec<GateResult>,
    /// Gate inputs the maker edited.
    pub inputs_edited: Vec<String>,
    /// The proof.
    pub proof: Option<ProofFinished>,
    /// The attackers.
    pub attackers: Vec<AttackerRun>,
    /// Their findings, merged, ordered and judged.
    pub judged: Vec<JudgedFinding>,
    /// The verdict.
    pub judgement: Option<Judgement>,
    /// The failure in a form that compares across attempts.
    pub signature: Option<String>,
    /// How often its maker was started.
    pub starts: u32,
    /// How often a checker was started.
    pub checker_starts: u32,
    /// How many of these starts count: a start that a provider blocked does not.
    pub checker_tries: u32,
    /// Content hash of the maker's transcript.
    pub transcript: Option<String>,
    /// The maker's notes for later rounds.
    pub notes: Vec<MemoryNote>,
}

impl Attempt {
    /// Whether files changed.
    #[must_use]
    pub fn has_change(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// Everything that a round knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoundFacts {
    /// Its start.
    pub started: RoundStarted,
    /// The loop's spend today, before this round.
    pub day_micros: u64,
    /// The last rounds, for the maker.
    pub history: Vec<String>,
    /// The loop's memory, for the maker.
    pub memory: Vec<MemoryEntry>,
    /// The items worked on: one, unless the loop takes several in a round.
    pub items: Vec<ProbeItem>,
    /// The pinned base.
    pub base: Option<String>,
    /// Its branch.
    pub branch: Option<String>,
    /// Gates on base.
    pub baseline: Vec<GateResult>,
    /// The frozen plan of a goal round.
    pub plan: Option<RoundPlan>,
    /// How often a planner was started.
    pub planner_starts: u32,
    /// How many of these starts count: a start that a provider blocked does not.
    pub planner_tries: u32,
    /// The reproduced findings, whose reproductions are gates of the later attempts.
    pub regressions: Vec<RegressionCheck>,
    /// Every attempt so far.
    pub attempts: Vec<Attempt>,
    /// The reasons for its decisions, in order.
    pub reasons: Vec<RoundReason>,
    /// The total spend.
    pub spend: Spend,
    /// The same, as one bill for each start of an agent.
    pub bills: Vec<StartBill>,
    /// Refused tool calls by role and agent, as the agents' output shows them.
    pub refused_calls: BTreeMap<(Role, String), u32>,
    /// The level in the loop file, if the round runs at a lower one.
    pub lowered_from: Option<LoopLevel>,
    /// Whether it runs at a lower level to save budget.
    pub saves_budget: bool,
    /// The intent of the loop at the start; a round at a lower level may drop parts of its spec.
    pub intent: IntentFingerprint,
    /// The debts of the loop when the report was written.
    pub debts: Option<LoopDebts>,
    /// The agents that were started and have not ended.
    pub running: Vec<RoleStarted>,
    /// The feedback on the previous attempt for the maker that is due or running.
    pub feedback: Option<AttemptFeedback>,
    /// The waits for providers so far, and their limit.
    pub provider_waits: ProviderWaits,
    /// The amount allowed on top of the round's ceilings.
    pub raised: Reservation,
    /// The agents' wall time before the round was last resumed; a resumed round has its full wall time again.
    pub wall_before_ms: u64,
    /// The outcome of each suspension.
    pub suspensions: Vec<crate::outcome::RoundOutcome>,
    /// The words of people for its agents, in order.
    pub steers: Vec<PersonSteer>,
    /// Deliveries so far, by position.
    pub deliveries: Vec<(u32, DeliveryResult)>,
    /// Whether a receiver blocked the approved candidate; it then waits until the engine or a person sends it again.
    pub is_blocked: bool,
    /// The number of times in a row that the engine's own attempts were blocked.
    pub blocked_times: u32,
    /// The positions of items that are kept and may have been sent.
    pub maybe_sent: BTreeSet<u32>,
    /// The forge and the repository that the sealed items are for.
    pub destination: Option<String>,
    /// The approvals that count, in the order of arrival.
    pub approvals: Vec<Approval>,
    /// How long the round waits for a person; `None` before it waits, and in records of earlier builds.
    pub window: Option<AnswerWindow>,
    /// Path of the report.
    pub report: Option<String>,
    /// The network requests.
    pub network: NetworkTraffic,
}

impl RoundFacts {
    /// Whether a gate's result is that of a held-out check.
    #[must_use]
    pub fn is_heldout(&self, name: &str) -> bool {
        self.started.spec.heldout.iter().any(|check| check.name == name)
    }

    /// The facts of a round that has just started.
    #[must_use]
    pub fn new(started: RoundStarted) -> Self {
        Self {
            items: started.item.iter().chain(&started.more).cloned().collect(),
            provider_waits: ProviderWaits::new(started.provider_wait_ms),
            intent: IntentFingerprint::from_spec(&started.spec),
            started,
            ..Self::default()
        }
    }

    /// The items worked on, in one line: the key of a single item, the first keys of several.
    #[must_use]
    pub fn item(&self) -> Option<String> {
        let (first, rest) = self.items.split_first()?;
        let mut line = first.key.clone();
        for (at, item) in rest.iter().enumerate() {
            if line.len() + item.key.len() > ITEMS_LINE {
                line.push_str(&format!(" and {} more", rest.len() - at));
                break;
            }
            line.push_str(", ");
            line.push_str(&item.key);
        }
        Some(line)
    }

    /// The current attempt, or the last one.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The number of the current attempt, from 1.
    #[must_use]
    pub fn attempt_number(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// The phase of the plan that a maker of this attempt works on: its number from 0, and the phase. Only the first
    /// attempt has phases; a later one fixes the whole work.
    #[must_use]
    pub fn maker_phase(&self, attempt: u32) -> Option<(usize, &PlanPhase)> {
        let phases = self.plan.as_ref().filter(|_| attempt == 1)?.phases.as_slice();
        let at = self.attempts.first().map_or(0, |attempt| attempt.phases.len());
        Some((at, phases.get(at)?)).filter(|_| phases.len() > 1)
    }

    /// Whether the work being sealed is a phase before the last one.
    #[must_use]
    pub fn is_between_phases(&self) -> bool {
        let phases = self.plan.as_ref().map_or(0, |plan| plan.phases.len());
        self.maker_phase(self.attempt_number()).is_some_and(|(at, _)| at + 1 < phases)
    }

    /// The boundary in force.
    #[must_use]
    pub fn boundary(&self) -> &Boundary {
        &self.started.boundary
    }

    /// The round's ceilings plus the amounts allowed on top.
    #[must_use]
    pub fn ceilings(&self) -> Ceilings {
        let round = self.started.spec.budget.round;
        Ceilings {
            tokens: round.tokens.map(|most| most.saturating_add(self.raised.tokens)),
            usd: round.usd.map(|most| Usd(most.0.saturating_add(self.raised.usd.0))),
            ..round
        }
    }

    /// The spend that counts against the ceilings.
    fn counted(&self) -> Spend {
        Spend { wall_ms: self.spend.wall_ms.saturating_sub(self.wall_before_ms), ..self.spend }
    }

    /// The first ceiling that the round has exceeded.
    pub(super) fn reached_limit(&self) -> Option<BudgetLimit> {
        budget::reached_limit(&self.counted(), &self.ceilings())
    }

    /// The first ceiling that leaves no budget for another start.
    pub(super) fn exhausted_limit(&self) -> Option<BudgetLimit> {
        budget::exhausted_limit(&self.counted(), &self.ceilings())
    }

    pub(super) fn attempt_mut(&mut self) -> &mut Attempt {
        if self.attempts.is_empty() {
            self.attempts.push(Attempt::default());
        }
        self.attempts.last_mut().expect("an attempt was pushed above when there was none")
    }

    /// Records that an agent has ended, writes its bill, and returns its start. `None` if no such start is on record.
    pub(super) fn agent_ended(&mut self, ended: &RoleEnded) -> Option<RoleStarted> {
        let is_meant = |running: &RoleStarted| ended.cookie.as_ref().is_none_or(|cookie| *cookie == running.cookie);
        let at = self.running.iter().position(|running| running.role == ended.role() && is_meant(running))?;
        let running = self.running.remove(at);
        self.write_bill(&running, ended.spend, ended.models.clone(), ended.counted);
        if ended.refused_calls > 0 {
            let count = self.refused_calls.entry((running.role, running.agent.clone())).or_default();
            *count = count.saturating_add(ended.refused_calls);
        }
        Some(running)
    }

    fn write_bill(&mut self, start: &RoleStarted, spend: Spend, models: Vec<ModelSpend>, counted: CountedUsage) {
        self.spend = self.spend.plus(spend);
        self.bills.push(StartBill {
            role: start.role,
            attempt: start.attempt,
            agent: start.agent.clone(),
            day: start.day.clone(),
            loop_day: start.loop_day.clone(),
            cookie: start.cookie.clone(),
            reserved: start.reserved,
            spend,
            models,
            counted,
        });
    }

    /// Agents whose end was never recorded cost the amount reserved for them.
    pub(super) fn charge_lost_agents(&mut self) {
        for lost in std::mem::take(&mut self.running) {
            let spend = spend_from_usage(AgentUsage::Unknown, lost.reserved, |_| lost.reserved.usd, 0);
            self.write_bill(&lost, spend, Vec::new(), CountedUsage::default());
        }
    }

    /// The names of the people who approved, if any.
    #[must_use]
    pub fn approved_by(&self) -> Option<String> {
        let names: Vec<_> = self.approvals.iter().map(|approval| approval.actor.name()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The cost so far of the starts in an attempt.
    #[must_use]
    pub fn attempt_spend(&self, attempt: u32) -> Spend {
        let bills = self.bills.iter().filter(|bill| bill.attempt == attempt);
        bills.fold(Spend::default(), |sum, bill| sum.plus(bill.spend))
    }

    pub(super) fn add_reason(&mut self, stage: Stage, code: &str, text: impl Into<String>) {
        self.reasons.push(RoundReason { stage, code: code.to_owned(), text: text.into() });
    }
}

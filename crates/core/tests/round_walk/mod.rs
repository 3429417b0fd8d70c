//! Walks of events for properties: choices become events that mostly fit the round's phase. The memory of accepted
//! events is independent of the code under test. Test material only.

mod goal;

use loopwright_core::actor::Actor;
use loopwright_core::budget::{BudgetLimit, Reservation, Spend, SpendKnown, Tokens};
use loopwright_core::calibration::PlantKind;
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::human_gate::GateDecision;
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::StagedItem;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::round::{
    AgentEnd, AnswerWindow, BaselineFinished, Boundary, CandidateSealed, CeilingReached, ChangeFact, CheckerResult,
    DeliveryEnded, DeliveryResult, Event, Expired, GatesFinished, MakerResult, MemoryRecalled, PersonDecision,
    PersonSteer, Phase, PlantedChange, ProbeAnswer, ProbeItem, QuestionHeld, RoleEnded, RoleResult, RoleStarted, Round,
    RoundPaused, RoundRecorded, RoundResumed, RoundStarted, RoundStopped, SealFindings, Stage, StageFailed,
    StagedBatch, StoppedBy, WorkspaceIsolated,
};
use loopwright_core::spec::{ActionKind, CheckMode, Gate, ItemsForm, LoopSpec, OutputSpec, ProbeSpec, Role, RunGate};
use loopwright_core::units::Usd;
use loopwright_core::verdict::{Judgement, ScoredVerdict, VerdictWord};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The random material of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// The kind of step: mostly one that fits.
    kind: u8,
    /// The variant inside it.
    pub(crate) a: u8,
    /// A second variant.
    b: u8,
}

pub(crate) fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let choice = any::<(u8, u8, u8)>().prop_map(|(kind, a, b)| Choice { kind, a, b });
    prop::collection::vec(choice, 4..60)
}

/// The accepted events since the last seal, and over the whole walk.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sealed: Option<String>,
    pub(crate) sensitive: bool,
    pub(crate) green: bool,
    pub(crate) passed: bool,
    pub(crate) escalated: bool,
    pub(crate) auto: bool,
    pub(crate) approved: Option<String>,
    /// The different people who approved it.
    pub(crate) voices: BTreeSet<String>,
    pub(crate) sent: BTreeSet<u32>,
    /// Deliveries in doubt; a person's later approval states that they arrived.
    pub(crate) doubted: BTreeSet<u32>,
    /// Kept deliveries that may have been sent; they are in doubt when the round gives up on them.
    pub(crate) maybe: BTreeSet<u32>,
    pub(crate) makers: Vec<u32>,
    /// Agents whose start was accepted and whose end was not.
    pub(crate) at_work: u32,
    /// The highest number of concurrent starts, without attackers.
    pub(crate) at_once: u32,
    /// The brief of the accepted plan.
    pub(crate) brief: Option<String>,
    /// The proof since the last seal works and has an artefact.
    pub(crate) proven: bool,
    /// The attack since the last seal ended without a reproduced blocking finding.
    pub(crate) attacked: bool,
    blocking: BTreeSet<String>,
}

impl Seen {
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::RoleStarted(started) => {
                if started.role == Role::Maker {
                    self.makers.push(started.attempt);
                }
                if started.role != Role::Attacker {
                    self.begins();
                }
            }
            Event::Recovered => self.at_work = 0,
            Event::Sealed(sealed) => {
                let (makers, brief) = (std::mem::take(&mut self.makers), self.brief.take());
                *self = Self { makers, brief, at_once: self.at_once, ..Self::default() };
                self.sealed = Some(sealed.candidate.clone());
                self.sensitive = !sealed.findings.sensitive.is_empty();
            }
            Event::Gated(gated) => {
                self.green = gated.results.iter().all(|gate| gate.status == GateStatus::Passed);
                self.sensitive |= !gated.inputs_edited.is_empty();
            }
            Event::RoleEnded(ended) => {
                self.at_work = 0;
                self.note_goal(ended);
                let RoleResult::Checker(checked) = &ended.result else { return };
                let usable = ended.end == AgentEnd::Exited { code: 0 };
                self.passed = usable && matches!(checked.judgement, Judgement::Pass { .. });
                self.escalated = usable && matches!(checked.judgement, Judgement::Escalate { .. });
            }
            Event::Proved(proof) => self.note_proof(proof),
            Event::Attacked(attacked) => self.note_attack(attacked),
            Event::Decided { decision } => self.auto = decision.is_auto(),
            Event::Approved(said) => {
                self.approved = Some(said.candidate.clone());
                self.voices.insert(said.actor.name().to_owned());
                let is_meant = |position: &u32| said.position.is_none_or(|meant| meant == *position);
                self.sent.extend(self.doubted.iter().copied().filter(is_meant));
                self.doubted.retain(|position| !is_meant(position));
            }
            Event::Denied(_) | Event::Expired(_) | Event::Stopped(_) => self.doubted.append(&mut self.maybe),
            Event::Delivered(DeliveryEnded { position, result: DeliveryResult::Blocked { maybe_sent, .. } }) => {
                self.maybe.remove(position);
                self.maybe.extend(maybe_sent.then_some(*position));
            }
            Event::Delivered(DeliveryEnded { position, result: DeliveryResult::InDoubt { .. } }) => {
                self.doubted.insert(*position);
            }
            Event::Delivered(DeliveryEnded { position, result: DeliveryResult::Sent { .. } }) => {
                self.sent.insert(*position);
            }
            _ => {}
        }
    }

    fn begins(&mut self) {
        self.at_work += 1;
        self.at_once = self.at_once.max(self.at_work);
    }
}

/// Positions of the items that are sent.
pub(crate) fn outward(round: &Round) -> impl Iterator<Item = u32> {
    let items = round.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    items.iter().filter(|item| item.kind != ActionKind::Report).map(|item| item.position)
}

pub(crate) fn start(choice: &Choice) -> RoundStarted {
    let level = [LoopLevel::L1Report, LoopLevel::L2Assisted, LoopLevel::L3Unattended][usize::from(choice.kind % 3)];
    let mut spec = LoopSpec::new("demo", "mend the sum", level);
    spec.attempts = 1 + u32::from(choice.a % 3);
    spec.gates = ["tests", "lint"].into_iter().take(usize::from(choice.b % 3)).map(|name| gate(name, choice)).collect();
    spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
    spec.approvals.quorum = 1 + u32::from(choice.b % 2);
    spec.approvals.separate = choice.a.is_multiple_of(2);
    if choice.a.is_multiple_of(3) {
        spec.approvers = vec!["ada".into(), "grace".into()];
    }
    if choice.a.is_multiple_of(7) {
        spec.check = CheckMode::None;
    }
    goal::declare(&mut spec, choice);
    if choice.b.is_multiple_of(5) {
        spec.on.probe = Some(ProbeSpec::Run { run: vec!["./probe".into()], items: ItemsForm::Lines, batch: 1 });
    }
    RoundStarted {
        round: "r1".into(),
        repo: "repo".into(),
        repo_path: "/repo".into(),
        trigger: "manual".into(),
        occurrence: "manual:r1".into(),
        spec_hash: "hash".into(),
        spec,
        actor: "linus".into(),
        item: None,
        more: Vec::new(),
        chain: 0,
        dry_run: choice.kind > 240,
        boundary: Boundary::default(),
        refusal: None,
        inputs: vec![("fix.script".into(), "hash".into())],
        provider_wait_ms: if choice.b.is_multiple_of(2) { 900_000 } else { 0 },
        waits_first: !choice.b.is_multiple_of(5),
        retry_of: choice.b.is_multiple_of(3).then(|| "r0".to_owned()),
        calibration: choice.kind.is_multiple_of(11),
        rebase: choice.kind.is_multiple_of(13).then(loopwright_core::round::RebaseOrigin::default),
        workflow: None,
        goal: None,
    }
}

fn gate(name: &str, choice: &Choice) -> Gate {
    let mut gate = RunGate::new(name, vec!["./check".into()]);
    gate.red_before = choice.a.is_multiple_of(4);
    Gate::Run(gate)
}

/// The next event: nine of twelve fit, two are trouble, one is unexpected.
pub(crate) fn event(round: &Round, choice: &Choice) -> Event {
    match choice.kind % 24 {
        0 => trouble(choice),
        1 | 2 => {
            let all = strangers(round, choice);
            all[usize::from(choice.b) % all.len()].clone()
        }
        _ => fitting(round, choice),
    }
}

fn trouble(choice: &Choice) -> Event {
    match choice.a % 5 {
        0 => Event::Broke(StageFailed { stage: Stage::Gate, code: "git".into(), text: "git broke".into() }),
        1 => Event::Stopped(RoundStopped { by: StoppedBy::Signal, text: "stopped".into() }),
        2 => Event::Stopped(RoundStopped { by: StoppedBy::Person, text: "stopped".into() }),
        3 => Event::Ceiling(CeilingReached { limit: BudgetLimit::Day, text: "no room".into() }),
        _ => Event::Recovered,
    }
}

/// One of each kind of event, fitting or not.
pub(crate) fn strangers(round: &Round, choice: &Choice) -> Vec<Event> {
    let attempt = round.facts().attempt_number().saturating_add(u32::from(choice.a % 2));
    vec![
        Event::Started(Box::new(start(choice))),
        Event::Recalled(MemoryRecalled {
            day_micros: 5,
            settled_items: vec!["a".into()],
            history: vec!["b".into()],
            accounts: Vec::new(),
            memory: Vec::new(),
            ceiling: None,
        }),
        probed(choice),
        Event::Isolated(WorkspaceIsolated { base: "b0".into(), branch: None }),
        Event::Baselined(BaselineFinished { results: results(round, choice) }),
        Event::RoleStarted(agent(Role::Maker, attempt)),
        Event::RoleStarted(turn(round, Role::Maker, attempt, choice)),
        Event::Waited,
        Event::Resent,
        Event::Steered(PersonSteer { actor: "ada".into(), text: "smaller".into() }),
        Event::Paused(RoundPaused { actor: "ada".into(), why: "lunch".into() }),
        held(choice),
        resumed(choice),
        made(attempt, choice),
        sealed(attempt, choice),
        planted(),
        goal::planned(0, choice),
        goal::attacker_started(round, attempt),
        goal::attacked_by(round, attempt, choice),
        goal::proved(attempt, choice),
        goal::reproduced(round, attempt, choice),
        Event::RoleStarted(turn(round, Role::Planner, 0, choice)),
        Event::Gated(GatesFinished { attempt, results: results(round, choice), inputs_edited: Vec::new() }),
        Event::RoleStarted(RoleStarted { nonce: Some("n".into()), ..agent(Role::Checker, attempt) }),
        checked(attempt, choice),
        Event::Decided { decision: GateDecision::AutoProceed },
        Event::Decided { decision: GateDecision::escalate("no") },
        Event::Approved(said(round, choice)),
        Event::Denied(said(round, choice)),
        Event::Expired(Expired::default()),
        delivered(u32::from(choice.b % 4), choice),
        Event::Recorded(RoundRecorded {
            report: None,
            network: Default::default(),
            window: window(choice),
            debts: None,
        }),
        trouble(&Choice { a: 0, ..*choice }),
        trouble(&Choice { a: 1, ..*choice }),
        trouble(&Choice { a: 2, ..*choice }),
        trouble(&Choice { a: 3, ..*choice }),
        Event::Recovered,
    ]
}

/// An event that the engine would send in the round's phase. Long because it is one table, a phase an arm.
fn fitting(round: &Round, choice: &Choice) -> Event {
    let attempt = round.facts().attempt_number();
    match round.phase() {
        Phase::Recalling => {
            let day_micros = if choice.a.is_multiple_of(30) { u64::MAX } else { 0 };
            Event::Recalled(MemoryRecalled { day_micros, ..MemoryRecalled::default() })
        }
        Phase::Probing => probed(choice),
        Phase::Isolating => Event::Isolated(WorkspaceIsolated { base: "b0".into(), branch: Some("main".into()) }),
        Phase::Baselining => Event::Baselined(BaselineFinished { results: results(round, choice) }),
        Phase::Making(loopwright_core::round::AgentRun::Due) => {
            Event::RoleStarted(turn(round, Role::Maker, attempt + 1, choice))
        }
        Phase::Planning(loopwright_core::round::AgentRun::Started) => goal::planned(attempt, choice),
        Phase::Planning(_) => Event::RoleStarted(turn(round, Role::Planner, attempt, choice)),
        Phase::Making(loopwright_core::round::AgentRun::Again | loopwright_core::round::AgentRun::NextPhase) => {
            Event::RoleStarted(turn(round, Role::Maker, attempt, choice))
        }
        Phase::Held(..) => Event::Waited,
        Phase::Suspended(..) => match choice.a % 8 {
            0 => Event::Expired(Expired::default()),
            1 => Event::Recorded(RoundRecorded {
                report: Some("/r".into()),
                network: Default::default(),
                window: window(choice),
                debts: None,
            }),
            _ => resumed(choice),
        },
        Phase::Making(loopwright_core::round::AgentRun::Started) => made(attempt, choice),
        Phase::Planting => planted(),
        Phase::Calibrating(loopwright_core::round::AgentRun::Started) => checked(attempt, choice),
        Phase::Calibrating(_) => {
            let turn = turn(round, Role::Checker, attempt, choice);
            Event::RoleStarted(RoleStarted { nonce: Some("n".into()), ..turn })
        }
        Phase::Sealing => sealed(attempt, choice),
        Phase::Gating | Phase::PlantGating => {
            let edited = choice.b.is_multiple_of(9).then(|| "tests/a".to_owned());
            let inputs_edited = edited.into_iter().collect();
            Event::Gated(GatesFinished { attempt, results: results(round, choice), inputs_edited })
        }
        Phase::Proving(_) => goal::proved(attempt, choice),
        Phase::Attacking(_) if !round.facts().running.is_empty() && !choice.a.is_multiple_of(4) => {
            goal::attacked_by(round, attempt, choice)
        }
        Phase::Attacking(_) => goal::attacker_started(round, attempt),
        Phase::Reproducing(_) => goal::reproduced(round, attempt, choice),
        Phase::Checking(_, loopwright_core::round::AgentRun::Started) => checked(attempt, choice),
        Phase::Checking(..) => {
            let turn = turn(round, Role::Checker, attempt, choice);
            Event::RoleStarted(RoleStarted { nonce: Some("n".into()), ..turn })
        }
        Phase::Approving(_) if choice.a.is_multiple_of(3) => Event::Decided { decision: GateDecision::escalate("no") },
        Phase::Approving(_) => Event::Decided { decision: GateDecision::AutoProceed },
        Phase::Waiting(_) if round.facts().is_blocked && choice.b.is_multiple_of(3) => Event::Resent,
        Phase::Waiting(_) => match choice.a % 6 {
            0 => Event::Recorded(RoundRecorded {
                report: Some("/r".into()),
                network: Default::default(),
                window: window(choice),
                debts: None,
            }),
            1 => Event::Denied(said(round, choice)),
            2 => Event::Expired(Expired::default()),
            3 if choice.b.is_multiple_of(4) => held(choice),
            _ => Event::Approved(said(round, choice)),
        },
        // Earlier builds continued to the items behind a change in doubt.
        Phase::Doubting(_) if choice.b.is_multiple_of(3) => delivered(first_open(round), choice),
        Phase::Doubting(_) => match choice.a % 4 {
            0 => Event::Recorded(RoundRecorded {
                report: Some("/r".into()),
                network: Default::default(),
                window: window(choice),
                debts: None,
            }),
            1 => Event::Denied(said(round, choice)),
            _ => Event::Approved(said(round, choice)),
        },
        Phase::Sending(_) => delivered(first_open(round), choice),
        Phase::Recording(_) | Phase::Ended(_) => Event::Recorded(RoundRecorded {
            report: Some("/r".into()),
            network: Default::default(),
            window: window(choice),
            debts: None,
        }),
    }
}

fn first_open(round: &Round) -> u32 {
    let is_open = |position: &u32| !round.facts().deliveries.iter().any(|(done, _)| done == position);
    outward(round).find(is_open).unwrap_or(1)
}

fn planted() -> Event {
    Event::Planted(Box::new(PlantedChange {
        kind: PlantKind::OffByOne,
        path: "src/a.rs".into(),
        line: 1,
        tree: "t9".into(),
        commit: "c9".into(),
        candidate: "planted".into(),
        changes: Vec::new(),
    }))
}

fn probed(choice: &Choice) -> Event {
    let item = ProbeItem { key: "7".into(), title: Some("t".into()), data: None, chain: 0 };
    Event::Probed(match choice.a % 8 {
        0 => ProbeAnswer::Nothing,
        1 => ProbeAnswer::Failed { text: "exit 7".into() },
        2 => ProbeAnswer::Work { items: Vec::new() },
        _ => ProbeAnswer::Work { items: vec![item] },
    })
}

pub(crate) fn agent(role: Role, attempt: u32) -> RoleStarted {
    let reserved = Reservation { tokens: 100, usd: Usd(1_000_000) };
    RoleStarted {
        role,
        attempt,
        part: None,
        agent: "scripted".into(),
        version: None,
        model: None,
        cookie: "c".into(),
        reserved,
        day: None,
        loop_day: None,
        nonce: None,
        place: 0,
        left: 0,
    }
}

/// The start that is due in a role's chain of three.
fn turn(round: &Round, role: Role, attempt: u32, choice: &Choice) -> RoleStarted {
    let place = round.facts().provider_waits.chain_position(role);
    let model = choice.b.is_multiple_of(2).then(|| "small".to_owned());
    RoleStarted { place, left: 2_u32.saturating_sub(place), model, ..agent(role, attempt) }
}

fn resumed(choice: &Choice) -> Event {
    let raised = Reservation { tokens: u64::from(choice.b) << 33, usd: Usd(u64::from(choice.a) << 20) };
    Event::Resumed(RoundResumed { actor: "ada".into(), provider_wait_ms: u64::from(choice.a) * 10_000, raised })
}

fn provider(choice: &Choice) -> AgentEnd {
    let kind = TroubleKind::ALL[usize::from(choice.a) % TroubleKind::ALL.len()];
    let at_ms = 1_000_000 * i64::from(choice.a % 4);
    let retry_at_ms = choice.a.is_multiple_of(3).then(|| at_ms + 1000 * i64::from(choice.b) - 50_000);
    AgentEnd::Provider {
        trouble: ProviderTrouble { kind, status: Some(429), retry_at_ms, text: "later".into() },
        at_ms,
    }
}

fn spend(choice: &Choice) -> Spend {
    let input = if choice.b.is_multiple_of(40) { 1 << 40 } else { u64::from(choice.b) };
    let tokens = Tokens { input, cache_read: 3, ..Tokens::default() };
    let known = if choice.a.is_multiple_of(2) { SpendKnown::Yes } else { SpendKnown::No };
    Spend { tokens, usd: Usd(u64::from(choice.a)), wall_ms: 1, known }
}

fn end(choice: &Choice) -> AgentEnd {
    match choice.b % 16 {
        0 => AgentEnd::Exited { code: 3 },
        1 => AgentEnd::Signaled { signal: 9 },
        2 => AgentEnd::Limit { limit: BudgetLimit::Idle, text: "no output".into() },
        3 => AgentEnd::Unusable { text: "script exhausted".into() },
        4..=6 => provider(choice),
        _ => AgentEnd::Exited { code: 0 },
    }
}

fn made(attempt: u32, choice: &Choice) -> Event {
    let staged = match choice.a % 20 {
        0 => StagedBatch::Refused { problems: vec!["evil.sh: unknown name".into()] },
        _ => StagedBatch::Items { items: Vec::new() },
    };
    let result = MakerResult {
        text: "done".into(),
        cannot: (choice.a % 20 == 1).then(|| "I cannot".to_owned()),
        staged,
        secrets: Vec::new(),
        survivors: u32::from(choice.a % 20 == 2),
        notes: Default::default(),
    };
    ended(attempt, choice, RoleResult::Maker(result))
}

fn ended(attempt: u32, choice: &Choice, result: RoleResult) -> Event {
    Event::RoleEnded(Box::new(RoleEnded {
        attempt,
        cookie: choice.a.is_multiple_of(2).then(|| "c".to_owned()),
        end: end(choice),
        spend: spend(choice),
        models: Vec::new(),
        counted: Default::default(),
        refused_calls: 0,
        transcript: Some("hash".into()),
        result,
    }))
}

fn sealed(attempt: u32, choice: &Choice) -> Event {
    let found = |on: bool, what: &str| if on { vec![what.to_owned()] } else { Vec::new() };
    let rare = choice.a % 40;
    let change = ChangeFact { path: "sum.py".into(), status: "modified".into(), added: 1, removed: 1 };
    let kinds: &[ActionKind] = match choice.b % 5 {
        0 => &[],
        1 => &[ActionKind::Report],
        2 => &[ActionKind::PullRequest, ActionKind::Report, ActionKind::IssueComment],
        _ => &[ActionKind::PullRequest],
    };
    let item = |(at, kind): (u32, &ActionKind)| StagedItem::new(at, format!("{kind}.md"), *kind, "body");
    let tree = format!("t{}", choice.a % 4);
    Event::Sealed(Box::new(CandidateSealed {
        attempt,
        commit: format!("commit-{tree}"),
        candidate: format!("candidate-{tree}-{}", kinds.len()),
        tree,
        changes: if choice.b % 4 < 2 { Vec::new() } else { vec![change] },
        items: (1..).zip(kinds).map(item).collect(),
        findings: SealFindings {
            refused_paths: found(rare == 1, "link"),
            secrets: found(rare == 2, "a:1"),
            protected: found(rare == 3, "tests/a"),
            missing_tests: found(rare == 4, "a::b"),
            outside: found(rare == 5, "docs/a"),
            sensitive: found(choice.a.is_multiple_of(6), ".github/ci.yml"),
            notes: found(rare == 7, "note"),
            proposed_before: found(rare == 8, "round r1").pop(),
            ..SealFindings::default()
        },
        destination: found(choice.a.is_multiple_of(2), "acme/app").pop(),
    }))
}

/// A result for each declared gate; sometimes one is missing, broken or duplicated.
fn results(round: &Round, choice: &Choice) -> Vec<GateResult> {
    let status = match choice.a % 8 {
        0 | 1 => GateStatus::Rejected,
        2 if choice.b.is_multiple_of(3) => GateStatus::Failed,
        3 if choice.b.is_multiple_of(3) => GateStatus::Skipped,
        _ => GateStatus::Passed,
    };
    let declared = round.facts().started.spec.gates.iter().map(|gate| gate.name().to_owned());
    let names: Vec<_> = declared.chain(round.facts().regressions.iter().map(|check| check.gate.clone())).collect();
    let mut results: Vec<_> = names.iter().map(|name| GateResult::new(name.as_str(), status)).collect();
    for result in &mut results {
        result.excerpt = format!("line {}", choice.b % 3);
        result.score = Some(f64::from(choice.b) / 8.0);
    }
    match choice.b % 24 {
        0 => drop(results.pop()),
        1 => results.extend(results.first().cloned()),
        _ => {}
    }
    results
}

fn checked(attempt: u32, choice: &Choice) -> Event {
    let mean = Some(f64::from(choice.b % 40) / 8.0);
    let scored = |verdict| ScoredVerdict { verdict, said: verdict, mean, summary: "seen".into(), scores: Vec::new() };
    let judgement = match choice.a % 12 {
        0 | 1 => {
            Judgement::Fail { reasons: vec![format!("scope {}", choice.b % 3)], scored: scored(VerdictWord::Fail) }
        }
        2 | 3 => Judgement::Escalate { reasons: vec!["unsure".into()], scored: scored(VerdictWord::Escalate) },
        4 => Judgement::Malformed { why: "not JSON".into() },
        5 => Judgement::Missing,
        6 if choice.b.is_multiple_of(2) => Judgement::Forged { why: "the nonce is not this round's".into() },
        _ => Judgement::Pass { scored: scored(VerdictWord::Pass) },
    };
    let shown = loopwright_core::round::ShownChange::Whole;
    ended(attempt, choice, RoleResult::Checker(CheckerResult { judgement, shown }))
}

fn held(choice: &Choice) -> Event {
    let (until_ms, at_ms) = (i64::from(choice.b) * 2, i64::from(choice.a));
    Event::QuestionHeld(QuestionHeld { actor: "ada".into(), candidate: String::new(), until_ms, why: None, at_ms })
}

/// Short enough that some answers come too late.
fn window(choice: &Choice) -> Option<AnswerWindow> {
    choice.b.is_multiple_of(2).then_some(AnswerWindow { from_ms: 0, until_ms: 200 })
}

/// A person's answer, mostly about the waiting candidate.
fn said(round: &Round, choice: &Choice) -> PersonDecision {
    let current = round.facts().attempt().and_then(|attempt| attempt.candidate.clone());
    let candidate = if choice.b.is_multiple_of(5) { Some("candidate-other".to_owned()) } else { current };
    PersonDecision {
        actor: Actor::user(["ada", "grace", "linus"][usize::from(choice.b % 3)], u32::from(choice.b % 3)),
        candidate: candidate.unwrap_or_default(),
        why: Some("because".into()),
        at_ms: Some(i64::from(choice.kind)),
        position: choice.a.is_multiple_of(3).then(|| u32::from(choice.b % 3)),
        same_as: None,
    }
}

fn delivered(position: u32, choice: &Choice) -> Event {
    let text = || "why".to_owned();
    let result = match choice.a % 10 {
        0 => DeliveryResult::InDoubt { text: text() },
        1 => DeliveryResult::Refused { text: text() },
        2 => DeliveryResult::Quarantined { text: text() },
        3 => DeliveryResult::Blocked { text: text(), maybe_sent: choice.b.is_multiple_of(2) },
        _ => DeliveryResult::Sent { place: "pulls/1.md".into(), note: None },
    };
    Event::Delivered(DeliveryEnded { position, result })
}

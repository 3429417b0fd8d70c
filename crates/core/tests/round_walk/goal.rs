//! The events of goal rounds in walks: plans, proofs, attackers and reproductions. Test material only.

use super::{Choice, Seen, agent, ended};
use loopwright_core::attack::{AttackFinding, AttackRole, FindingSeverity, FindingsReading};
use loopwright_core::goal_plan::{PlanDraft, PlanPhase};
use loopwright_core::round::{
    AgentEnd, AttackFinished, AttackerResult, Event, PlannerResult, ProofArtefact, ProofFinished, ProofVerdict,
    ReproductionEnd, ReproductionResult, RoleEnded, RoleResult, RoleStarted, Round,
};
use loopwright_core::spec::{AttackSpec, LoopMode, LoopSpec, PlateauSpec, ProverSpec, Role};

/// Some loops plan, prove, attack and have a rule for plateaus.
pub(super) fn declare(spec: &mut LoopSpec, choice: &Choice) {
    if choice.b % 4 == 1 {
        spec.mode = LoopMode::GoalLoop;
    }
    if choice.a % 4 == 1 {
        let (exercise, keep) = (vec!["./exercise".into()], choice.b.is_multiple_of(2));
        spec.prover = Some(ProverSpec { exercise, keep, ..ProverSpec::default() });
    }
    if choice.a % 4 == 1 || choice.b % 8 == 1 {
        let roles = ["hostile-user", "security"].map(|name| AttackRole::BuiltIn(name.into())).into();
        spec.attack = Some(AttackSpec { roles, timeout: None });
    }
    if choice.kind.is_multiple_of(5) {
        spec.plateau = Some(PlateauSpec { window: 1 });
    }
}

pub(super) fn planned(attempt: u32, choice: &Choice) -> Event {
    let phase = |title: &str| PlanPhase { title: title.into(), text: "do it".into() };
    let plan = match choice.b % 8 {
        0 => PlanDraft::Missing { file: "PLAN.md".into() },
        1 => PlanDraft::Malformed { why: "not UTF-8".into() },
        2..=4 => PlanDraft::Written { brief: "why".into(), plan: "how".into(), phases: vec![phase("all")] },
        _ => PlanDraft::Written {
            brief: format!("why {}", choice.a),
            plan: "how".into(),
            phases: vec![phase("first"), phase("second")],
        },
    };
    let cannot = (choice.a % 20 == 1).then(|| "the goal contradicts itself".to_owned());
    ended(attempt, choice, RoleResult::Planner(PlannerResult { plan, cannot }))
}

pub(super) fn attacker_started(round: &Round, attempt: u32) -> Event {
    let running = &round.facts().running;
    let free = |role: &String| !running.iter().any(|one| one.part.as_ref() == Some(role));
    let due = round.facts().attackers_due().into_iter().find(free).unwrap_or_else(|| "security".into());
    let place = round.facts().provider_waits.chain_position(Role::Attacker);
    let (part, cookie) = (Some(due.clone()), format!("c-{due}"));
    Event::RoleStarted(RoleStarted {
        part,
        cookie,
        place,
        left: 2_u32.saturating_sub(place),
        ..agent(Role::Attacker, attempt)
    })
}

pub(super) fn attacked_by(round: &Round, attempt: u32, choice: &Choice) -> Event {
    let running: Vec<_> = round.facts().running.iter().filter(|one| one.role == Role::Attacker).collect();
    let cookie = running.get(usize::from(choice.kind) % running.len().max(1)).map(|one| one.cookie.clone());
    let finding = |severity, trigger: &str| AttackFinding {
        severity,
        title: "a hole".into(),
        path: "sum.py".into(),
        line: Some(2),
        trigger: trigger.into(),
        reproduction: (!choice.b.is_multiple_of(3)).then(|| "exit 1".to_owned()),
    };
    let findings = match choice.b % 8 {
        0 => FindingsReading::Missing,
        1 => FindingsReading::Malformed { why: "not JSON".into() },
        2 if choice.a.is_multiple_of(5) => FindingsReading::Forged { why: "another nonce".into() },
        3 => FindingsReading::Findings { findings: vec![finding(FindingSeverity::Critical, "empty input")] },
        4 => FindingsReading::Findings {
            findings: vec![finding(FindingSeverity::High, "nan"), finding(FindingSeverity::Low, "colour")],
        },
        _ => FindingsReading::Findings { findings: Vec::new() },
    };
    let Event::RoleEnded(end) = ended(attempt, choice, RoleResult::Attacker(AttackerResult { findings })) else {
        unreachable!("an end is an end")
    };
    Event::RoleEnded(Box::new(RoleEnded { cookie, ..*end }))
}

pub(super) fn proved(attempt: u32, choice: &Choice) -> Event {
    let verdict = ProofVerdict::ALL[usize::from(choice.b % 8).min(2) % 3];
    let verdict = if choice.b % 8 > 2 { ProofVerdict::Works } else { verdict };
    let artefact = ProofArtefact { name: "exercise.log".into(), hash: "h".into(), bytes: 3 };
    Event::Proved(ProofFinished {
        attempt,
        verdict,
        text: format!("exit {}", choice.a % 2),
        excerpt: "output".into(),
        artefacts: if choice.a.is_multiple_of(6) { Vec::new() } else { vec![artefact] },
        duration_ms: 5,
    })
}

pub(super) fn reproduced(round: &Round, attempt: u32, choice: &Choice) -> Event {
    let end = match choice.b % 4 {
        0 => ReproductionEnd::Reproduced,
        1 => ReproductionEnd::Inconclusive { why: "timeout".into() },
        _ => ReproductionEnd::NotThere,
    };
    let due = round.facts().reproductions_due();
    let result = |key: String| ReproductionResult { key, end: end.clone(), excerpt: "output".into(), script: 0 };
    let mut reproductions: Vec<_> = due.into_iter().map(|finding| result(finding.key)).collect();
    if choice.a.is_multiple_of(16) {
        reproductions.pop();
    }
    Event::Attacked(AttackFinished { attempt, reproductions })
}

impl Seen {
    pub(super) fn note_goal(&mut self, ended: &RoleEnded) {
        match &ended.result {
            RoleResult::Planner(planned) => {
                let usable = ended.end == AgentEnd::Exited { code: 0 } && planned.cannot.is_none();
                if let (true, PlanDraft::Written { brief, .. }) = (usable, &planned.plan) {
                    self.brief = Some(brief.clone());
                }
            }
            RoleResult::Attacker(attacker) => {
                self.attacked = false;
                // The findings of a blocked attacker are not kept; it starts again.
                let is_blocked = matches!(ended.end, AgentEnd::Provider { .. } | AgentEnd::Unusable { .. });
                if let (false, FindingsReading::Findings { findings }) = (is_blocked, &attacker.findings) {
                    let blocks = findings.iter().filter(|one| one.severity.is_blocking() && one.reproduction.is_some());
                    self.blocking.extend(blocks.map(|one| one.trigger.clone()));
                }
            }
            RoleResult::Maker(_) | RoleResult::Checker(_) => {}
        }
    }

    pub(super) fn note_proof(&mut self, proof: &ProofFinished) {
        self.proven = proof.verdict == ProofVerdict::Works && !proof.artefacts.is_empty();
    }

    /// Every blocking finding with a reproduction needs a result, and no result may show the defect.
    pub(super) fn note_attack(&mut self, attacked: &AttackFinished) {
        let shown = attacked.reproductions.iter().any(|result| result.end == ReproductionEnd::Reproduced);
        self.attacked = !shown && attacked.reproductions.len() >= self.blocking.len();
    }
}

//! The rows of earned autonomy that change with a step: decided and sent work, rounds out of scope, and calibrations.

use super::rows::{clamp, entered, items};
use crate::store::{CalibrationRow, LevelLogKind, LevelLogRow, RowChange, WorkRow};
use loopwright_core::autonomy::{WorkDecision, WorkFate};
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, StagedItem};
use loopwright_core::round::{DeliveryResult, Event, PLANTED_CAUGHT, PLANTED_MISSED, Phase, Round};
use loopwright_core::spec::ActionKind;
use loopwright_core::verdict::Judgement;

/// Adds the rows that change with a step.
pub(super) fn work_rows(
    before: Option<&Round>,
    after: &Round,
    event: &Event,
    now_ms: i64,
    changes: &mut Vec<RowChange>,
) {
    // A moved proposal is the work of the round that made it.
    let started = &after.facts().started;
    if started.rebase.is_some() && started.workflow.is_none() {
        return;
    }
    let was_waiting = before.is_some_and(|round| matches!(round.phase(), Phase::Waiting(_)));
    if entered(before, after, |phase| matches!(phase, Phase::Sending(_))) {
        let decided = if after.facts().approvals.is_empty() { WorkDecision::Automatic } else { WorkDecision::Approved };
        let open = outward(after).filter(|item| result_of(after, item).is_none());
        changes.extend(open.map(|item| work(after, item, decided, WorkFate::Unsent, now_ms)));
    }
    // A duplicate of an answered candidate was not turned down.
    if matches!(event, Event::Denied(said) if was_waiting && said.same_as.is_none()) {
        let open = outward(after).filter(|item| result_of(after, item).is_none());
        changes.extend(open.map(|item| work(after, item, WorkDecision::Denied, WorkFate::Unsent, now_ms)));
    }
    let decided = if after.facts().approvals.is_empty() { WorkDecision::Automatic } else { WorkDecision::Approved };
    let is_sent =
        |round: &Round, item: &StagedItem| matches!(result_of(round, item), Some(DeliveryResult::Sent { .. }));
    let newly = outward(after).filter(|item| is_sent(after, item) && !before.is_some_and(|round| is_sent(round, item)));
    changes.extend(newly.map(|item| work(after, item, decided, WorkFate::Sent, now_ms)));
    if matches!(after.phase(), Phase::Ended(_)) && is_out_of_scope(after) {
        changes.push(out_of_scope(after, now_ms));
    }
    changes.extend(calibration(before, after, now_ms));
}

/// The items that would leave, at a level at which they may.
fn outward(round: &Round) -> impl Iterator<Item = &StagedItem> {
    let may_leave = round.facts().started.spec.level != LoopLevel::L1Report;
    items(round).filter(move |item| may_leave && item.kind != ActionKind::Report)
}

fn result_of<'r>(round: &'r Round, item: &StagedItem) -> Option<&'r DeliveryResult> {
    let mut done = round.facts().deliveries.iter().rev();
    done.find(|(position, _)| *position == item.position).map(|(_, result)| result)
}

fn work(round: &Round, item: &StagedItem, decision: WorkDecision, fate: WorkFate, now_ms: i64) -> RowChange {
    let (facts, attempt) = (round.facts(), round.facts().attempt());
    let candidate = attempt.and_then(|attempt| attempt.candidate.clone()).unwrap_or_default();
    let changes = attempt.map(|attempt| attempt.changes.as_slice()).unwrap_or_default();
    let ships_tree = matches!(item.kind, ActionKind::PullRequest | ActionKind::Commit);
    let lines: u64 = changes.iter().map(|change| change.added.saturating_add(change.removed)).sum();
    let denied_by = facts.reasons.last().filter(|_| decision == WorkDecision::Denied).map(|reason| reason.text.clone());
    RowChange::Work(WorkRow {
        id: outbox::item_id(&facts.started.spec.name, &facts.started.round, item.position, &candidate),
        repo: facts.started.repo.clone(),
        loop_name: facts.started.spec.name.clone(),
        round: facts.started.round.clone(),
        kind: item.kind.word().to_owned(),
        level: facts.started.spec.level.short().to_owned(),
        candidate,
        decision,
        actor: facts.approved_by(),
        decided_ms: now_ms,
        fate,
        fate_ms: now_ms,
        detail: denied_by,
        lines: if ships_tree { clamp(lines) } else { 0 },
    })
}

/// Whether the round was rejected because it changed other paths, or the checker's score for scope is too low.
fn is_out_of_scope(round: &Round) -> bool {
    let facts = round.facts();
    let outside = facts.reasons.last().is_some_and(|reason| reason.code == "outside-paths");
    let judged = facts.attempt().and_then(|attempt| attempt.judgement.as_ref());
    let low = match judged {
        Some(Judgement::Fail { scored, .. } | Judgement::Escalate { scored, .. }) => {
            let floor = facts.started.spec.rubric.floor;
            scored.scores.iter().any(|score| score.dimension == "scope" && score.score < floor)
        }
        _ => false,
    };
    !facts.started.calibration && (outside || low)
}

fn out_of_scope(round: &Round, now_ms: i64) -> RowChange {
    let started = &round.facts().started;
    RowChange::LevelLog(LevelLogRow {
        id: format!("scope-{}", started.round),
        repo: started.repo.clone(),
        loop_name: started.spec.name.clone(),
        kind: LevelLogKind::OutOfScope,
        level: started.spec.level,
        spec_hash: started.spec_hash.clone(),
        actor: "loopwright".to_owned(),
        at_ms: now_ms,
        why: round.facts().reasons.last().map(|reason| reason.text.clone()).unwrap_or_default(),
        evidence: "{}".to_owned(),
    })
}

/// The checker's answer to a planted change, when it arrives.
fn calibration(before: Option<&Round>, after: &Round, now_ms: i64) -> Option<RowChange> {
    let before = before.filter(|round| matches!(round.phase(), Phase::Calibrating(_)))?;
    let reason = after.facts().reasons.last()?;
    let caught = match reason.code.as_str() {
        PLANTED_CAUGHT => 1,
        PLANTED_MISSED => 0,
        _ => return None,
    };
    let (started, checker) = (&after.facts().started, before.facts().running.first()?);
    let planted = after.facts().reasons.iter().find(|reason| reason.code == "planted");
    Some(RowChange::Calibration(CalibrationRow {
        round: started.round.clone(),
        repo: started.repo.clone(),
        loop_name: started.spec.name.clone(),
        agent: checker.agent.clone(),
        model: checker.model.clone(),
        planted: planted.map(|reason| reason.text.clone()).unwrap_or_default(),
        caught,
        at_ms: now_ms,
    }))
}

//! A recorded event in a few words, as a line of a round's log.

use super::time::date_and_time;
use crate::error::with_count;
use loopwright_core::attack::FindingsReading;
use loopwright_core::gate::GateResult;
use loopwright_core::goal_plan::PlanDraft;
use loopwright_core::round::{
    AgentEnd, AttackFinished, DeliveryResult, Event, ProbeAnswer, ReproductionEnd, ReproductionResult, RoleEnded,
    RoleResult,
};

fn role_ended(ended: &RoleEnded) -> String {
    let (role, end) = (ended.role().word(), end(&ended.end));
    match &ended.result {
        RoleResult::Maker(_) => {
            format!("{role}, attempt {}, {end}, {} tokens", ended.attempt, ended.spend.tokens.total())
        }
        RoleResult::Planner(planned) => format!("{role}, {end}, {}", plan_draft(&planned.plan)),
        RoleResult::Attacker(attacker) => format!("{role}, {end}, {}", findings(&attacker.findings)),
        RoleResult::Checker(checked) => format!("{role}, {end}, {}", judgement(&checked.judgement)),
    }
}

/// An event in a few words.
pub(super) fn detail(event: &Event) -> String {
    match event {
        Event::Started(started) => {
            format!("{} by {} ({}), {}", started.spec.name, started.actor, started.trigger, started.spec.level.label())
        }
        Event::Recalled(recalled) => format!("{} rounds remembered", recalled.history.len()),
        Event::Probed(ProbeAnswer::Work { items }) => format!("{} items", items.len()),
        Event::Probed(ProbeAnswer::Nothing) => "nothing to do".to_owned(),
        Event::Probed(ProbeAnswer::Failed { text }) => text.clone(),
        Event::Isolated(isolated) => format!("base {}", isolated.base),
        Event::Baselined(baselined) => gates(&baselined.results),
        Event::RoleStarted(start) => {
            let part = start.part.as_deref().map_or(String::new(), |part| format!(" ({part})"));
            format!("{}{part}, attempt {} with {}", start.role.word(), start.attempt, start.agent)
        }
        Event::RoleEnded(ended) => role_ended(ended),
        Event::Planted(planted) => format!("{} in {}:{}", planted.kind, planted.path, planted.line),
        Event::Sealed(sealed) => format!("{} files, candidate {}", sealed.changes.len(), sealed.candidate),
        Event::Gated(gated) => gates(&gated.results),
        Event::Proved(proof) => format!("{}: {}", proof.verdict, proof.text),
        Event::Attacked(one) => attacked(one),
        Event::Decided { decision } => if decision.is_auto() { "proceeds" } else { "a person must approve" }.to_owned(),
        Event::Approved(said) => format!("by {}", said.actor),
        Event::Denied(said) => format!("by {}: {}", said.actor, said.why.as_deref().unwrap_or_default()),
        Event::Expired(_) => "no answer arrived in time".to_owned(),
        Event::Delivered(delivered) => delivery(&delivered.result),
        Event::Recorded(recorded) => recorded.report.clone().unwrap_or_default(),
        Event::Ceiling(ceiling) => ceiling.text.clone(),
        Event::Broke(broke) => format!("{}: {}", broke.stage.word(), broke.text),
        Event::Stopped(stopped) => stopped.text.clone(),
        Event::Waited => "the wait is over".to_owned(),
        Event::Resumed(resumed) => format!("by {}", resumed.actor),
        Event::Resent => "sent again by the engine".to_owned(),
        Event::Steered(steer) => format!("{}: {}", steer.actor, steer.text),
        Event::QuestionHeld(held) => {
            let why = held.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
            format!("by {} until {}{why}", held.actor.name(), date_and_time(held.until_ms))
        }
        Event::Paused(paused) => format!("by {}: {}", paused.actor, paused.why),
        Event::Recovered => "recovered from a process that is gone".to_owned(),
    }
}

fn gates(results: &[GateResult]) -> String {
    let words: Vec<_> = results.iter().map(|gate| format!("{} {}", gate.name, gate.status)).collect();
    if words.is_empty() { "no gates".to_owned() } else { words.join(", ") }
}

fn end(end: &AgentEnd) -> String {
    match end {
        AgentEnd::Exited { code } => format!("exit {code}"),
        AgentEnd::Signaled { signal } => format!("signal {signal}"),
        AgentEnd::Limit { text, .. } => format!("stopped: {text}"),
        AgentEnd::Unusable { text } => format!("could not run: {text}"),
        AgentEnd::Provider { trouble, .. } => format!("{}: {}", trouble.kind.word(), trouble.text),
    }
}

fn judgement(judgement: &loopwright_core::verdict::Judgement) -> String {
    use loopwright_core::verdict::Judgement;
    match judgement {
        Judgement::Pass { .. } => "pass".to_owned(),
        Judgement::Fail { reasons, .. } => format!("fail: {}", reasons.join("; ")),
        Judgement::Escalate { reasons, .. } => format!("escalate: {}", reasons.join("; ")),
        Judgement::Malformed { why } => format!("malformed: {why}"),
        Judgement::Missing => "no verdict".to_owned(),
        Judgement::Forged { why } => format!("forged: {why}"),
    }
}

fn delivery(result: &DeliveryResult) -> String {
    match result {
        DeliveryResult::Sent { place, note: None } => format!("sent: {place}"),
        DeliveryResult::Sent { place, note: Some(note) } => format!("sent: {place}; {note}"),
        DeliveryResult::InDoubt { text } => format!("in doubt: {text}"),
        DeliveryResult::Refused { text } => format!("refused: {text}"),
        DeliveryResult::Quarantined { text } => format!("given up: {text}"),
        DeliveryResult::Blocked { text, maybe_sent: false } => format!("blocked: {text}"),
        DeliveryResult::Blocked { text, maybe_sent: true } => format!("blocked, and may have been sent: {text}"),
    }
}

fn plan_draft(draft: &PlanDraft) -> String {
    match draft {
        PlanDraft::Written { phases, .. } => with_count(phases.len(), "phase"),
        PlanDraft::Missing { file } => format!("no {file}"),
        PlanDraft::Malformed { why } => why.clone(),
    }
}

fn findings(reading: &FindingsReading) -> String {
    match reading {
        FindingsReading::Findings { findings } => format!("{} findings", findings.len()),
        FindingsReading::Missing => "no findings file".to_owned(),
        FindingsReading::Malformed { why } => format!("malformed: {why}"),
        FindingsReading::Forged { why } => format!("forged: {why}"),
    }
}

fn attacked(attacked: &AttackFinished) -> String {
    let is_shown = |one: &&ReproductionResult| one.end == ReproductionEnd::Reproduced;
    let shown = attacked.reproductions.iter().filter(is_shown).count();
    format!("{shown} of {} reproductions show their defect", attacked.reproductions.len())
}

//! A round's history as text: each event, the phase after it, the actions that followed, and the reasons. It is for
//! people, for `loopwright why`, and for fixtures that must not change by accident.

use super::provider_waits::format_moment;
use super::{Action, AgentRun, Event, Phase, Round, Step, StepError, step};
use std::fmt::Write as _;

/// Renders a round's events, one line for each step; reasons follow on their own lines.
///
/// # Errors
/// If the events do not form a round.
pub fn render(events: &[Event]) -> Result<String, StepError> {
    let mut out = String::new();
    let mut rest = events.iter();
    let first = rest.next().cloned();
    let mut now = Round::replay(first)?;
    tell(&mut out, 1, "started", &now, 0);
    for (number, event) in (2..).zip(rest) {
        let known = now.round.facts().reasons.len();
        now = step(&now.round, event.clone())?;
        tell(&mut out, number, &label(event), &now, known);
    }
    Ok(out)
}

/// The event's kind and its role.
fn label(event: &Event) -> String {
    match event.role() {
        Some(role) => format!("{} {}", event.kind(), role.word()),
        None => event.kind().to_owned(),
    }
}

fn tell(out: &mut String, number: usize, event: &str, step: &Step, known: usize) {
    let actions: Vec<_> = step.actions.iter().map(action).collect();
    let follows = if actions.is_empty() { String::new() } else { format!(", then {}", actions.join(", ")) };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{number:>3} {event} → {}{follows}", standing(&step.round));
    for reason in step.round.facts().reasons.iter().skip(known) {
        let _ = writeln!(out, "      {} {}: {}", reason.stage.word(), reason.code, flat(&reason.text));
    }
}

/// Keeps foreign text on its line, so that it cannot pass for a step.
fn flat(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

fn standing(round: &Round) -> String {
    match round.phase() {
        Phase::Ended(outcome) => format!("ended {outcome}"),
        Phase::Recording(outcome) => format!("recording {outcome}"),
        Phase::Planning(run) => format!("plan {run:?}").to_lowercase(),
        Phase::Making(AgentRun::NextPhase) => "make next phase".to_owned(),
        Phase::Making(run) => format!("make {run:?}").to_lowercase(),
        Phase::Reproducing(_) => "reproduce".to_owned(),
        Phase::PlantGating => "plant-gate".to_owned(),
        Phase::Calibrating(run) => format!("calibrate {run:?}").to_lowercase(),
        Phase::Checking(_, run) => format!("check {run:?}").to_lowercase(),
        Phase::Held(due, until_ms) => format!("held before {} until {}", due.stage().word(), format_moment(*until_ms)),
        Phase::Suspended(outcome, due) => format!("suspended {outcome} before {}", due.stage().word()),
        Phase::Baselining => "baseline".to_owned(),
        Phase::Doubting(_) => "in doubt".to_owned(),
        phase => phase.word().to_owned(),
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::Recall => "recall".to_owned(),
        Action::Probe => "probe".to_owned(),
        Action::Isolate => "isolate".to_owned(),
        Action::Baseline => "gates on base".to_owned(),
        Action::Plant => "plant a known-bad change".to_owned(),
        Action::Plan => "plan".to_owned(),
        Action::Make(None) => "make".to_owned(),
        Action::Make(Some(feedback)) => format!("make with feedback on attempt {}", feedback.attempt),
        Action::Wait { until_ms } => format!("wait until {}", format_moment(*until_ms)),
        Action::Seal => "seal".to_owned(),
        Action::Gate => "gates".to_owned(),
        Action::Prove => "prove".to_owned(),
        Action::Attack => "attack".to_owned(),
        Action::Reproduce => "run reproductions".to_owned(),
        Action::Check => "check".to_owned(),
        Action::AskHumanGate(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|action| action.kind.as_str()).collect();
            format!("ask the human gate about {}", kinds.join(", "))
        }
        Action::Send(positions) => format!("send {} items", positions.len()),
        Action::Record => "record".to_owned(),
    }
}

//! The end of a round as text: its outcome, the reasons, the report and the next steps. Facts of the engine come first;
//! foreign text is escaped.

use crate::output::{CommandOutput, TextStyle, safe};
use crate::view::page;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::round::BoundaryLevel;

/// The end of a round, for people, and the probable next steps.
pub(crate) fn render_end_and_steps(out: &CommandOutput, report: &RoundReport) -> String {
    let steps = next_steps(report).into_iter().map(|step| format!("\n  next: {step}"));
    format!("{}{}", render_end(out, report), steps.collect::<String>())
}

/// The end of a round, for people.
pub(crate) fn render_end(out: &CommandOutput, report: &RoundReport) -> String {
    let mut lines = vec![headline(out, report)];
    lines.extend(report.reasons.iter().map(|reason| format!("  {}: {}", reason.stage.word(), safe(&reason.text))));
    lines.extend(page::failed_outputs(report).into_iter().map(|line| format!("    {line}")));
    // The report itself has its own line below.
    for item in report.outbox.iter().filter(|item| item.receipt.is_none() || item.receipt != report.report) {
        let target = item.target.as_ref().map_or(String::new(), |target| format!(" on {}", safe(target)));
        let receipt = item.receipt.as_ref().map_or(String::new(), |place| format!(": {}", safe(place)));
        lines.push(format!("  {}{target} {}{receipt}", item.kind, item.state));
    }
    if report.boundary.level != BoundaryLevel::Kernel {
        lines.push(format!("  boundary: {}", boundary_text(report)));
    }
    if let Some(path) = &report.report {
        lines.push(format!("  report: {}", safe(path)));
    }
    lines.join("\n")
}

/// The boundary around the round's agents and gates, and the reason for it.
pub(crate) fn boundary_text(report: &RoundReport) -> String {
    match report.boundary.level {
        BoundaryLevel::Kernel if report.boundary.gaps.is_empty() => "kernel".to_owned(),
        BoundaryLevel::Kernel => format!("kernel; not enforced: {}", safe(&report.boundary.gaps.join("; "))),
        BoundaryLevel::Process => "process: this host cannot confine agents; see `loopwright doctor`".to_owned(),
        BoundaryLevel::Off => "off, because the loop sets `sandbox: off`".to_owned(),
    }
}

fn headline(out: &CommandOutput, report: &RoundReport) -> String {
    let outcome = report.outcome.map_or("running", RoundOutcome::word);
    let look = match report.outcome {
        Some(RoundOutcome::Escalated) => TextStyle::Yellow,
        Some(outcome) if outcome.is_success() => TextStyle::Green,
        _ => TextStyle::Red,
    };
    let round = safe(&report.round);
    format!("{} {} ({round})", safe(&report.loop_name), out.style(look, outcome))
}

/// Whether a person paused the round, and none resumed it since.
fn is_paused(report: &RoundReport) -> bool {
    report.reasons.last().is_some_and(|reason| reason.code == "paused")
}

/// The probable next steps of a person.
pub(crate) fn next_steps(report: &RoundReport) -> Vec<String> {
    let round = safe(&report.round);
    match report.outcome {
        Some(RoundOutcome::Escalated) if is_paused(report) => vec![format!("loopwright resume {round}")],
        Some(RoundOutcome::Escalated) => vec![
            format!("loopwright show {round}"),
            format!("loopwright approve {round}, or loopwright deny {round} --why \"…\""),
        ],
        Some(
            RoundOutcome::Rejected
            | RoundOutcome::Plateaued
            | RoundOutcome::Failed
            | RoundOutcome::Refused
            | RoundOutcome::Empty
            | RoundOutcome::Cannot,
        ) => vec![format!("loopwright why {round}, loopwright logs {round}")],
        Some(RoundOutcome::Interrupted | RoundOutcome::Cancelled) => vec![format!("loopwright retry {round}")],
        Some(RoundOutcome::OverBudget | RoundOutcome::RateLimited) => page::next_steps(report),
        Some(RoundOutcome::Shipped | RoundOutcome::Reported) => vec![format!("loopwright report {round}")],
        Some(RoundOutcome::NothingToDo) | None => Vec::new(),
    }
}

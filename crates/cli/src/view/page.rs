//! One round as a page for people: engine facts first, then the reasons, then foreign text, marked and escaped; last,
//! the next steps.

use super::proposal::gate_output;
use super::standing::{RoundStanding, state_look};
use super::{TextTable, safe};
use crate::output::CommandOutput;
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;

/// Files listed before the rest is only counted.
const FILES_SHOWN: usize = 20;

/// The page of one round.
pub(crate) fn render_report(report: &RoundReport, standing: RoundStanding, out: &CommandOutput) -> String {
    let mut page = facts(report, standing);
    section(&mut page, "why", reasons(report));
    section(&mut page, "changes", changes(report));
    section(&mut page, "gates", gates(report, out));
    section(&mut page, "outbox", outbox(report));
    section(&mut page, "spend", spend(report, out));
    section(&mut page, "refused tool calls", refused_calls(report));
    section(&mut page, "network", network(report));
    section(&mut page, "debts", debts(report));
    section(&mut page, "next", steps_of(report, standing));
    page.trim_end().to_owned()
}

fn facts(report: &RoundReport, standing: RoundStanding) -> String {
    let (round, name) = (safe(&report.round), safe(&report.loop_name));
    let mut page = format!("round {round} of {name}: {}\n", standing.text());
    let spend = &report.spend;
    let known = if spend.known { String::new() } else { format!(" ({})", spend.basis_text()) };
    let rows = [
        ("intent", report.intent.clone()),
        ("level", report.level.label().to_owned()),
        ("retry of", report.retry_of.clone().unwrap_or_default()),
        ("item", report.item.clone().unwrap_or_default()),
        ("base", report.base.clone().unwrap_or_default()),
        ("candidate", report.candidate.clone().unwrap_or_default()),
        ("attempts", report.attempts.to_string()),
        ("verdict", verdict(report)),
        ("spend", format!("{} tokens, {}{known}", spend.tokens.total(), spend.usd)),
        ("boundary", crate::round_summary::boundary_text(report)),
        ("report", report.report.clone().unwrap_or_default()),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        page.push_str(&format!("  {name:<10} {}\n", safe(value)));
    }
    page
}

fn verdict(report: &RoundReport) -> String {
    let Some(verdict) = &report.verdict else { return String::new() };
    let mean = verdict.mean.map_or(String::new(), |mean| format!(", mean {mean:.2}"));
    format!("{}{mean}", verdict.verdict.word())
}

fn section(page: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    page.push_str(&format!("\n{title}\n"));
    for line in lines {
        page.push_str(&format!("  {line}\n"));
    }
}

fn reasons(report: &RoundReport) -> Vec<String> {
    let reason = report
        .reasons
        .iter()
        .map(|reason| format!("{} {}: {}", reason.stage.word(), safe(&reason.code), safe(&reason.text)));
    reason.chain(report.notes.iter().map(|note| format!("note: {}", safe(note)))).collect()
}

fn changes(report: &RoundReport) -> Vec<String> {
    let shown = report.changes.iter().take(FILES_SHOWN);
    let mut lines: Vec<_> = shown
        .map(|change| format!("{} {} +{} -{}", change.status, safe(&change.path), change.added, change.removed))
        .collect();
    if report.changes.len() > FILES_SHOWN {
        lines.push(format!("and {} more files", report.changes.len() - FILES_SHOWN));
    }
    lines
}

fn gates(report: &RoundReport, out: &CommandOutput) -> Vec<String> {
    if report.gates.is_empty() {
        return Vec::new();
    }
    let row = |gate: &GateResult| {
        let exit = gate.exit.map_or(super::NOTHING.to_owned(), |code| code.to_string());
        let took = format!("{} ms", gate.duration_ms);
        [gate.name.clone(), gate.status.to_string(), exit, took, gate.evidence.join("; ")]
    };
    let table = TextTable::new(["GATE", "STATUS", "EXIT", "TIME", "EVIDENCE"], report.gates.iter().map(row));
    let table = table.with_look(1, state_look);
    let mut lines: Vec<String> = table.render_for(out).lines().map(str::to_owned).collect();
    lines.extend(failed_outputs(report));
    lines
}

/// The last lines of the gates that did not pass.
pub(crate) fn failed_outputs(report: &RoundReport) -> Vec<String> {
    let failed = report.gates.iter().filter(|gate| gate.status != GateStatus::Passed);
    let outputs = failed.filter_map(|gate| gate_output(gate, &report.round));
    outputs.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn outbox(report: &RoundReport) -> Vec<String> {
    let line = |item: &loopwright_core::report::OutboxLine| {
        let target = item.target.as_ref().map_or(String::new(), |target| format!(" on {}", safe(target)));
        let receipt = item.receipt.as_ref().map_or(String::new(), |receipt| format!(": {}", safe(receipt)));
        format!("{}{target}, {}{receipt}", safe(&item.kind), safe(&item.state))
    };
    report.outbox.iter().map(line).collect()
}

fn spend(report: &RoundReport, out: &CommandOutput) -> Vec<String> {
    if report.spend.by.is_empty() {
        return Vec::new();
    }
    let rows = report.spend.by.iter().map(|part| {
        let basis = part.basis_text().to_owned();
        let (starts, tokens) = (part.starts.to_string(), part.tokens.total().to_string());
        let model = part.model.clone().unwrap_or_else(|| super::NOTHING.to_owned());
        [part.role.word().to_owned(), part.agent.clone(), model, starts, tokens, part.usd.to_string(), basis]
    });
    let table = TextTable::new(["ROLE", "AGENT", "MODEL", "STARTS", "TOKENS", "COST", "BASIS"], rows);
    table.render_for(out).lines().map(str::to_owned).collect()
}

fn refused_calls(report: &RoundReport) -> Vec<String> {
    report.refused_calls.iter().map(|refused| safe(&refused.text())).collect()
}

fn network(report: &RoundReport) -> Vec<String> {
    report.network.lines().iter().map(|line| safe(line)).collect()
}

fn debts(report: &RoundReport) -> Vec<String> {
    let Some(debts) = &report.debts else { return Vec::new() };
    let pay = debts.pay.iter().map(|command| format!("pay with: {}", safe(command)));
    debts.lines().iter().map(|line| safe(line)).chain(pay).collect()
}

/// The next steps of a person for a round in this state.
pub(crate) fn steps_of(report: &RoundReport, standing: RoundStanding) -> Vec<String> {
    match standing {
        RoundStanding::Abandoned(_) => {
            vec![format!("recover it, and start again: loopwright retry {}", safe(&report.round))]
        }
        _ => next_steps(report),
    }
}

/// The next steps of a person for a round with this outcome or phase.
pub(crate) fn next_steps(report: &RoundReport) -> Vec<String> {
    let round = safe(&report.round);
    let name = safe(&report.loop_name);
    let steps: Vec<String> = match report.outcome {
        None => vec![format!("loopwright logs -f {round}")],
        Some(RoundOutcome::Escalated) if report.outbox.iter().any(|item| item.state == "in-doubt") => {
            vec![
                "check the receiver: an item may have arrived or not; it is not sent again before you answer"
                    .to_owned(),
                format!("it arrived:         loopwright approve {round}"),
                format!("it did not arrive:  loopwright deny {round} --why \"…\""),
            ]
        }
        Some(RoundOutcome::Escalated) => vec![
            format!("see:     loopwright report {round}"),
            format!("approve: loopwright approve {round}"),
            format!("deny:    loopwright deny {round} --why \"…\""),
        ],
        Some(RoundOutcome::Shipped | RoundOutcome::Reported) => vec![format!("loopwright report {round}")],
        Some(RoundOutcome::NothingToDo) => vec![format!("nothing; loopwright run {name} checks again")],
        Some(RoundOutcome::OverBudget) => over_budget(report, &round),
        Some(RoundOutcome::RateLimited) => {
            let when = report.retry_at.as_ref().map_or("later".to_owned(), |at| format!("from {} on", safe(at)));
            vec![format!("resume {when} with the saved work: loopwright retry {round}")]
        }
        Some(
            RoundOutcome::Rejected
            | RoundOutcome::Plateaued
            | RoundOutcome::Cannot
            | RoundOutcome::Refused
            | RoundOutcome::Empty
            | RoundOutcome::Failed
            | RoundOutcome::Interrupted
            | RoundOutcome::Cancelled,
        ) => again(report, &round),
    };
    steps
}

/// The steps after a ceiling. Only some ceilings have a command that raises them; the reason names the others.
fn over_budget(report: &RoundReport, round: &str) -> Vec<String> {
    let see = format!("see how: loopwright why {round}, loopwright logs {round}");
    match report.raise_command() {
        Some(command) => vec![
            see,
            format!("raise it: {}; see loopwright budget", safe(command)),
            format!("then resume with the saved work: loopwright retry {round}"),
        ],
        None => vec![see, format!("resume with the saved work: loopwright retry {round}")],
    }
}

fn again(report: &RoundReport, round: &str) -> Vec<String> {
    let mut steps = vec![format!("see how: loopwright logs {round}"), format!("again:   loopwright retry {round}")];
    if !report.changes.is_empty() {
        steps.push(format!("finish it yourself: loopwright take {round}"));
    }
    steps
}

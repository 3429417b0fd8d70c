//! The Markdown form of a report. Deterministic: the same round gives the same bytes.

use super::RoundReport;
use crate::gate::GateResult;
use crate::outcome::RoundOutcome;
use crate::spec::OnOff;
use std::fmt::Write as _;

/// The last lines that are shown of a gate that did not pass.
const OUTPUT_LINES: usize = 12;

/// The largest number of listed files; further files are only counted.
const FILES_SHOWN: usize = 50;

pub(super) fn render(report: &RoundReport) -> String {
    let mut out = String::new();
    let outcome = report.outcome.map_or("running", RoundOutcome::word);
    line(&mut out, &format!("# {}: {outcome}", plain(&report.loop_name)));
    line(&mut out, "");
    line(&mut out, &plain(&report.intent));
    facts(&mut out, report);
    reasons(&mut out, report);
    agent_words(&mut out, report);
    changes(&mut out, report);
    goal(&mut out, report);
    gates(&mut out, &report.gates);
    verdict(&mut out, report);
    outbox(&mut out, report);
    spend(&mut out, report);
    refused_calls(&mut out, report);
    boundary(&mut out, report);
    network(&mut out, report);
    debts(&mut out, report);
    next_steps(&mut out, report);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn heading(out: &mut String, text: &str) {
    line(out, "");
    line(out, &format!("## {text}"));
    line(out, "");
}

/// Text that cannot leave a table cell or a line, nor control a terminal.
fn plain(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    flat.replace('|', "\\|").replace('<', "\\<")
}

fn facts(out: &mut String, report: &RoundReport) {
    line(out, "");
    line(out, "| fact | value |");
    line(out, "|---|---|");
    let spend = &report.spend;
    let rows = [
        ("round", report.round.clone()),
        ("level", report.level.label().to_owned()),
        ("started by", report.actor.clone()),
        (if report.items.len() > 1 { "items" } else { "item" }, worked_on(report)),
        ("base", report.base.clone().unwrap_or_else(|| "none".to_owned())),
        ("tree", report.tree.clone().unwrap_or_else(|| "none".to_owned())),
        ("candidate", report.candidate.clone().unwrap_or_else(|| "none".to_owned())),
        ("attempts", report.attempts.to_string()),
        ("tokens", spend.tokens.total().to_string()),
        ("cost", format!("{} ({})", spend.usd, spend.basis_text())),
    ];
    for (name, value) in rows {
        line(out, &format!("| {name} | {} |", plain(&value)));
    }
}

/// All items by their keys; reports of old rounds have one line.
fn worked_on(report: &RoundReport) -> String {
    match report.items.as_slice() {
        [] => report.item.clone().unwrap_or_else(|| "none".to_owned()),
        all => all.join(", "),
    }
}

fn goal(out: &mut String, report: &RoundReport) {
    let Some(goal) = &report.goal else { return };
    heading(out, "Goal");
    goal.lines(plain).iter().for_each(|text| line(out, text));
}

fn reasons(out: &mut String, report: &RoundReport) {
    heading(out, "Why");
    if report.reasons.is_empty() {
        line(out, "- nothing unusual");
    }
    for reason in &report.reasons {
        line(out, &format!("- {} ({}): {}", reason.stage.word(), plain(&reason.code), plain(&reason.text)));
    }
    for note in &report.notes {
        line(out, &format!("- note: {}", plain(note)));
    }
}

/// Text of an agent is quoted line by line, so that it cannot pass for the engine's.
fn agent_words(out: &mut String, report: &RoundReport) {
    let Some(text) = &report.agent_report else { return };
    heading(out, "Report, in the agent's words");
    if report.outcome == Some(RoundOutcome::Rejected) {
        line(out, "The checker rejected this report.");
        line(out, "");
    }
    for words in text.lines() {
        let safe: String = words.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        line(out, format!("> {safe}").trim_end());
    }
}

fn changes(out: &mut String, report: &RoundReport) {
    if report.changes.is_empty() {
        return;
    }
    heading(out, "Change");
    for change in report.changes.iter().take(FILES_SHOWN) {
        line(out, &format!("- {} `{}` +{} −{}", change.status, plain(&change.path), change.added, change.removed));
    }
    if report.changes.len() > FILES_SHOWN {
        line(out, &format!("- and {} more files", report.changes.len() - FILES_SHOWN));
    }
}

fn gates(out: &mut String, gates: &[GateResult]) {
    heading(out, "Gates");
    if gates.is_empty() {
        line(out, "gates: none");
        return;
    }
    line(out, "| gate | status | exit | time | evidence |");
    line(out, "|---|---|---|---|---|");
    for gate in gates {
        let exit = gate.exit.map_or("–".to_owned(), |code| code.to_string());
        let evidence = plain(&gate.evidence.join("; "));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {exit} | {} ms | {evidence} |",
            plain(&gate.name),
            gate.status,
            gate.duration_ms
        );
    }
    gates.iter().filter(|gate| !gate.is_passed()).for_each(|gate| output(out, gate));
}

/// The last lines of a gate that did not pass, as indented code, which no text in it can end.
fn output(out: &mut String, gate: &GateResult) {
    let lines: Vec<&str> = gate.excerpt.lines().collect();
    if lines.is_empty() {
        return;
    }
    line(out, "");
    line(out, &format!("Last lines of {}:", plain(&gate.name)));
    line(out, "");
    for text in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
        line(out, &format!("    {text}"));
    }
}

fn verdict(out: &mut String, report: &RoundReport) {
    let Some(verdict) = &report.verdict else { return };
    heading(out, "Verdict");
    let mean = verdict.mean.map_or("none".to_owned(), |mean| format!("{mean:.2}"));
    line(out, &format!("{} (mean {mean})", verdict.verdict.word()));
    line(out, "");
    for score in &verdict.scores {
        line(out, &format!("- {}: {} – {}", plain(&score.dimension), score.score, plain(&score.why)));
    }
}

fn outbox(out: &mut String, report: &RoundReport) {
    if report.outbox.is_empty() {
        return;
    }
    heading(out, "Outbox");
    for item in &report.outbox {
        let target = item.target.as_ref().map_or(String::new(), |target| format!(" on {}", plain(target)));
        let receipt = item.receipt.as_ref().map_or(String::new(), |receipt| format!(": {}", plain(receipt)));
        line(out, &format!("- {}{target}, {}{receipt}", item.kind, item.state));
    }
}

fn spend(out: &mut String, report: &RoundReport) {
    if report.spend.by.is_empty() {
        return;
    }
    heading(out, "Spend");
    line(out, "| role | agent | model | starts | tokens | cost | basis |");
    line(out, "|---|---|---|---|---|---|---|");
    for part in &report.spend.by {
        let (agent, model) = (plain(&part.agent), plain(part.model.as_deref().unwrap_or("not said")));
        let (role, starts, tokens, basis) = (part.role.word(), part.starts, part.tokens.total(), part.basis_text());
        line(out, &format!("| {role} | {agent} | {model} | {starts} | {tokens} | {} | {basis} |", part.usd));
    }
}

fn refused_calls(out: &mut String, report: &RoundReport) {
    if report.refused_calls.is_empty() {
        return;
    }
    heading(out, "Refused tool calls");
    for refused in &report.refused_calls {
        line(out, &format!("- {}", plain(&refused.text())));
    }
    line(out, &format!("- `loopwright logs {}` shows them", report.round));
}

fn boundary(out: &mut String, report: &RoundReport) {
    heading(out, "Boundary");
    let boundary = &report.boundary;
    line(out, &format!("- level: {}", boundary.level.word()));
    line(out, &format!("- files: {}", boundary.filesystem));
    line(out, &format!("- network: {}", boundary.network));
    line(out, &format!("- processes: {}", boundary.processes));
    let instructions = match report.instructions {
        OnOff::On => "the maker saw them, as data",
        OnOff::Off => "the maker did not see them",
    };
    line(out, &format!("- the repository's own instructions for agents: {instructions}"));
    for gap in &boundary.gaps {
        line(out, &format!("- gap: {gap}"));
    }
}

fn network(out: &mut String, report: &RoundReport) {
    let lines = report.network.lines();
    if lines.is_empty() {
        return;
    }
    heading(out, "Network");
    for text in lines {
        line(out, &format!("- {}", plain(&text)));
    }
}

fn debts(out: &mut String, report: &RoundReport) {
    let Some(debts) = &report.debts else { return };
    heading(out, "Debts");
    for text in debts.lines() {
        line(out, &format!("- {}", plain(&text)));
    }
    for command in &debts.pay {
        line(out, &format!("- pay with `{}`", plain(command)));
    }
}

fn next_steps(out: &mut String, report: &RoundReport) {
    let round = &report.round;
    let steps = match report.outcome {
        Some(RoundOutcome::Escalated) => {
            format!("`loopwright approve {round}` or `loopwright deny {round} --why \"…\"`")
        }
        Some(RoundOutcome::Rejected | RoundOutcome::Plateaued | RoundOutcome::Failed | RoundOutcome::Interrupted) => {
            format!("`loopwright retry {round}`, or `loopwright take {round}` to get the work on a branch")
        }
        Some(RoundOutcome::OverBudget) => {
            let room = report.raise_command();
            let room = room.map(|command| format!("`{}` raises the budget; after that, ", plain(command)));
            format!("{}`loopwright retry {round}` resumes the kept work", room.unwrap_or_default())
        }
        Some(RoundOutcome::RateLimited) => {
            let from = report.retry_at.as_ref().map_or(String::new(), |at| format!("from {at} on, "));
            format!("{from}`loopwright retry {round}` resumes the kept work")
        }
        Some(_) | None => return,
    };
    heading(out, "Next");
    line(out, &steps);
}

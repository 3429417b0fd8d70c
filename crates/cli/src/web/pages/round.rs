//! One round: its result and the reasons, where its time went, its change, gates, verdict, items, log, spend, isolation
//! and journal.

use super::diff::{self, CitedLines};
use super::items;
use super::parts::{
    PageError, badge, block, count, details, empty, facts, faint, list, loop_link, moment, moment_ms, number,
    problem_box, section, span, spend_of_ceiling, table, text, texts, tokens_of, usd,
};
use super::picture::{events_of, time_bar};
use super::{FieldNeed, PageContent, PageSource, field};
use crate::view::time::now_ms;
use crate::web::access::AccessRole;
use crate::web::markdown::{self, HeadingForm};
use crate::web::markup::{Markup, element, link, path_with};
use serde_json::Value;

/// The lines of a log that the page has; the command prints all.
const LOG_LINES: usize = 400;

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let id = source.value("round").to_owned();
    let round = source.document(&["show", "--", &id]).await?;
    if round.get("outcome").is_none() || round.get("round").is_none() {
        return Err(PageError::not_found(format!("no round is called `{id}`")));
    }
    let id = text(&round, "round").to_owned();
    let journal = source.document(&["logs", "--", &id]).await?;
    let log = source.text(&["logs", "--", &id]).await?;
    let change = source.document(&["diff", "--", &id]).await;
    let why = source.document(&["why", "--", &id]).await;
    let log = section("log", "Log", log_part(&log, &round));
    let change = section("diff", "Change", change_part(change, &round));
    let work = match text(&round, "status") {
        "running" => log.and(change),
        _ => change.and(log),
    };
    let proof = section("gates", "Gates", gates(&round))
        .and(section("verdict", "Verdict", verdict(&round)))
        .and(section("outbox", "Items", outbox(&round)))
        .and(section("spend", "Spend", spend(&round)))
        .and(section("boundary", "Isolation", boundary(&round)))
        .and(section("journal", "Journal", journal_part(&journal, moment)));
    let body = head(&round)
        .and(actions(source, &round))
        .and(section("time", "Where the time went", time(&journal)))
        .and(section("why", "Why", reasons(&round, why)))
        .and(element("div", &[("class", "cols")], element("div", &[], work).and(element("div", &[], proof))));
    Ok(PageContent::new(format!("Round {id}"), body).with_badge(state(&round)))
}

/// The one word for its state.
fn state(round: &Value) -> &str {
    match (text(round, "status"), text(round, "outcome")) {
        ("", "") => "running",
        ("", word) | (word, _) => word,
    }
}

fn head(round: &Value) -> Markup {
    let lead = Markup::text("of ").and(loop_link(round));
    let intent = element("p", &[("class", "intent")], lead.and(Markup::text(": ")).and(text(round, "intent").into()));
    intent.and(known(round, moment))
}

/// The facts at the top of a round; `when` shows a moment.
pub(super) fn known(round: &Value, when: fn(&str) -> Markup) -> Markup {
    let item = match text(round, "item") {
        "" => faint("none"),
        item => item.into(),
    };
    let phase = match state(round) {
        "running" => element("b", &[], text(round, "phase")),
        _ => text(round, "phase").into(),
    };
    facts(vec![
        ("Phase", phase),
        ("Level", text(round, "level").into()),
        ("Item", item),
        ("Started", when(text(round, "started"))),
        ("Time", lasted(round)),
        ("Started by", text(round, "actor").into()),
        ("Attempts", format!("{}", number(round, "attempts")).into()),
        ("Spend", spend_of_ceiling(round).into()),
        ("Base", element("code", &[], short(text(round, "base")))),
        ("Candidate", element("code", &[("title", text(round, "candidate"))], short(text(round, "candidate")))),
    ])
}

/// The time from the start to the end, or so far.
fn lasted(round: &Value) -> Markup {
    if let Some(seconds) = round.get("duration_s").and_then(Value::as_f64) {
        return span(seconds * 1_000.0).into();
    }
    let started = text(round, "started");
    let Some(from) = moment_ms(started).filter(|_| state(round) == "running") else { return faint("not over") };
    #[expect(clippy::cast_precision_loss, reason = "a page needs no more precision")]
    let so_far = now_ms().saturating_sub(from).max(0) as f64;
    element("span", &[("data-since", started)], span(so_far))
}

fn short(hash: &str) -> &str {
    match hash {
        "" => "–",
        hash => hash.get(..12).unwrap_or(hash),
    }
}

fn actions(source: &PageSource<'_>, round: &Value) -> Markup {
    let id = text(round, "round");
    let back = path_with(&["rounds", id]);
    let path = |verb: &str| path_with(&["api", "v1", "rounds", id, verb]);
    let button = |verb: &'static str, shown: &'static str, fields: Markup| {
        source.button(AccessRole::Operate, &path(verb), &back, shown, fields)
    };
    let buttons = match state(round) {
        "running" => {
            let words = field("text", "Words for the next agent", "", FieldNeed::Required);
            let pause = button("pause", "Pause before the next agent", Markup::default());
            button("stop", "Stop", Markup::default()).and(pause).and(button("steer", "Steer", words))
        }
        "waiting" | "escalated" => {
            let place = link(&format!("/inbox#q-{id}"), "It waits for you in the inbox");
            return element("div", &[("class", "box wait")], element("p", &[], place));
        }
        "suspended" | "abandoned" => button("resume", "Resume", Markup::default()),
        _ => button("retry", "Retry", Markup::default()),
    };
    if buttons.is_empty() { buttons } else { element("div", &[("class", "actions")], buttons) }
}

pub(super) fn time(journal: &Value) -> Markup {
    let stages = list(journal, "stages");
    if stages.is_empty() { empty("It has just started.") } else { time_bar(stages) }
}

pub(super) fn reasons(round: &Value, why: Result<Value, PageError>) -> Markup {
    let reasons = list(round, "reasons");
    let row = |one: &Value| {
        vec![text(one, "stage").into(), element("code", &[], text(one, "code")), text(one, "text").into()]
    };
    let stated = match reasons.is_empty() {
        true => Markup::default(),
        false => table(&["Stage", "Code", "Reason"], reasons.iter().map(row)),
    };
    match why {
        Ok(why) => texts(list(&why, "because")).and(stated).and(next_steps(list(&why, "next"))),
        Err(error) => stated.and(problem_box(&error.text, &error.hints)),
    }
}

fn next_steps(next: &[Value]) -> Markup {
    if next.is_empty() { Markup::default() } else { element("p", &[], "Next:").and(texts(next)) }
}

fn log_part(log: &str, round: &Value) -> Markup {
    let id = text(round, "round");
    let lines: Vec<&str> = log.lines().collect();
    let left = lines.len().saturating_sub(LOG_LINES);
    let note = match left {
        0 => Markup::default(),
        left => element("p", &[("class", "faint")], format!("{left} earlier lines: loopwright logs {id}")),
    };
    let shown = lines.get(left..).unwrap_or_default().join("\n");
    let mut attributes =
        vec![("class", "log"), ("tabindex", "0"), ("id", "log-lines"), ("aria-label", "lines of the log")];
    attributes.extend([("role", "group")]);
    if state(round) == "running" {
        attributes.push(("data-live", id));
    }
    note.and(element("pre", &attributes, shown))
}

/// The citations of the verdict, by file and line.
pub(super) fn citations(round: &Value) -> CitedLines {
    let mut cited = CitedLines::new();
    for score in round.get("verdict").map_or(&[][..], |verdict| list(verdict, "scores")) {
        for one in list(score, "evidence") {
            let Some(place) = one.get("evidence") else { continue };
            let Some(line) = place.get("line").and_then(Value::as_u64) else { continue };
            let note = format!("{} {}: {}", text(score, "dimension"), number(score, "score"), text(score, "why"));
            cited.entry((text(place, "path").to_owned(), line)).or_default().push(note);
        }
    }
    cited
}

pub(super) fn change_part(change: Result<Value, PageError>, round: &Value) -> Markup {
    match change {
        Ok(change) => diff::change(&change, &citations(round)),
        Err(error) => empty(&error.text),
    }
}

pub(super) fn gates(round: &Value) -> Markup {
    let gates = list(round, "gates");
    if gates.is_empty() {
        return empty("No gate ran.");
    }
    element("ul", &[("class", "gates")], gates.iter().map(gate).collect::<Markup>())
}

fn gate(gate: &Value) -> Markup {
    let flags: Vec<&str> =
        [("flaky", "flaky"), ("red_before", "failed on base"), ("inputs_edited", "the maker edited its inputs")]
            .iter()
            .filter(|(key, _)| gate.get(*key).and_then(Value::as_bool) == Some(true))
            .map(|(_, shown)| *shown)
            .collect();
    let lasted = element("span", &[("class", "faint")], span(number(gate, "duration_ms")));
    let said = format!("{} {}", text(gate, "reason"), flags.join(", "));
    let head = badge(text(gate, "status")).and(element("b", &[], text(gate, "name"))).and(lasted);
    let head = element("p", &[("class", "gate-head")], head.and(said.trim().into()));
    let evidence = match list(gate, "evidence") {
        [] => Markup::default(),
        evidence => texts(evidence),
    };
    let output = match text(gate, "excerpt") {
        "" => Markup::default(),
        output => details(&format!("Output of {}", text(gate, "name")), block("log", output)),
    };
    element("li", &[], head.and(evidence).and(output))
}

pub(super) fn verdict(round: &Value) -> Markup {
    let Some(verdict) = round.get("verdict").filter(|verdict| verdict.is_object()) else {
        return empty("There is no verdict on this candidate.");
    };
    let row = |score: &Value| {
        let cited = list(score, "evidence").iter().map(|one| element("li", &[], citation(one)));
        vec![
            text(score, "dimension").into(),
            format!("{}", number(score, "score")).into(),
            text(score, "counts").into(),
            text(score, "why").into(),
            element("ul", &[], cited.collect::<Markup>()),
        ]
    };
    let said = facts(vec![
        ("Verdict", badge(text(verdict, "verdict"))),
        ("The checker's own word", badge(text(verdict, "said"))),
        ("Mean of the scores that count", format!("{:.1}", number(verdict, "mean")).into()),
    ]);
    let scores = table(&["Dimension", "Score", "Counts", "Why", "Evidence"], list(verdict, "scores").iter().map(row));
    said.and(element("p", &[], text(verdict, "summary"))).and(scores)
}

fn citation(one: &Value) -> Markup {
    let place = one.get("evidence").cloned().unwrap_or_default();
    let named = match (text(&place, "path"), text(&place, "gate"), text(&place, "item")) {
        ("", "", item) => format!("item {item}"),
        ("", gate, _) => format!("gate {gate}"),
        (path, ..) => format!("{path}:{}", number(&place, "line")),
    };
    let found = if text(one, "resolved") == "yes" { "found" } else { "not found" };
    element("code", &[], named).and(format!(" {} ({found})", text(&place, "quote")).into())
}

pub(super) fn outbox(round: &Value) -> Markup {
    let report = match text(round, "agent_report") {
        "" => Markup::default(),
        report => {
            let words = element("div", &[("class", "md")], markdown::render(report, HeadingForm::Inside));
            details("The agent's own report", words)
        }
    };
    items::cards(round).and(report)
}

pub(super) fn spend(round: &Value) -> Markup {
    let spend = round.get("spend").cloned().unwrap_or_default();
    let known = facts(vec![
        ("Money", usd(number(&spend, "usd")).into()),
        ("Time of agents and gates", span(number(&spend, "wall_ms")).into()),
        ("Basis", text(&spend, "basis").into()),
    ]);
    let row = |one: &Value| {
        vec![
            text(one, "role").into(),
            text(one, "agent").into(),
            text(one, "model").into(),
            format!("{}", number(one, "starts")).into(),
            count(one.get("tokens").map_or(0.0, tokens_of)).into(),
            usd(number(one, "usd")).into(),
        ]
    };
    known.and(table(&["Role", "Agent", "Model", "Starts", "Tokens", "Money"], list(&spend, "by").iter().map(row)))
}

pub(super) fn boundary(round: &Value) -> Markup {
    let boundary = round.get("boundary").cloned().unwrap_or_default();
    let gaps = list(&boundary, "gaps");
    let known = facts(vec![
        ("Level", text(&boundary, "level").into()),
        ("Files", text(&boundary, "filesystem").into()),
        ("Network", text(&boundary, "network").into()),
        ("Processes", text(&boundary, "processes").into()),
    ]);
    if gaps.is_empty() { known } else { known.and(element("p", &[], "Not isolated:")).and(texts(gaps)) }
}

pub(super) fn journal_part(journal: &Value, when: fn(&str) -> Markup) -> Markup {
    let row = |event: &Value| {
        let seq = format!("{}", number(event, "seq"));
        vec![seq.into(), when(text(event, "at")), text(event, "kind").into()]
    };
    let events = events_of(journal);
    let listed = table(&["Number", "When", "Event"], events.iter().map(row));
    let others = list(journal, "transcripts").len();
    let count = format!("{} events, {others} transcripts", events.len());
    element("p", &[("class", "faint")], count).and(details("All events", listed))
}

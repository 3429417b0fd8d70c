//! One loop: its intent, level with the evidence behind it, schedule, history, costs, memory, items and debts.

use super::paging::PagedList;
use super::parts::{
    PageError, badge, block, details, empty, facts, faint, list, loop_path, moment, number, problem_box, round_link,
    rounds_table, section, table, text, texts, usd,
};
use super::picture::{day_line, history_strip};
use super::{FieldNeed, PageContent, PageSource, field};
use crate::view::time::now_ms;
use crate::web::access::AccessRole;
use crate::web::markup::{Markup, element, path_with};
use crate::web::pages::parts::hidden;
use serde_json::Value;

const ROUNDS: PagedList = PagedList { name: "page", size: 20, place: "history" };

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let name = source.value("loop").to_owned();
    let page = source.document(&["show", "--", &name]).await?;
    let why = source.document(&["why", "--", &name]).await;
    let costs = source.document(&["costs", "--by=loop", &format!("--loop={name}")]).await;
    let schedule = source.document(&["schedule", "--days=7", "--limit=1", "--", &name]).await;
    let rounds = source.page_of(ROUNDS, &["rounds", "--", &name]).await?;
    let listed = list(&rounds, "rounds");
    let history = history_strip(listed).and(rounds_table(listed)).and(source.turn(ROUNDS, &rounds));
    let pair = |one: Markup, other: Markup| element("div", &[("class", "pair")], one.and(other));
    let body = head(&page)
        .and(actions(source, &page))
        .and(pair(
            section("why", "Why it runs or waits", because(why)),
            section("schedule", "The coming week", week(schedule)),
        ))
        .and(section("history", "Rounds", history))
        .and(pair(section("trust", "Level and evidence", evidence(&page)), section("costs", "Costs", costs_of(costs))))
        .and(pair(section("items", "Items", items(&page)), section("memory", "Memory", memory(&page))))
        .and(section("receipts", "Due moments", receipts(&page)))
        .and(section("file", "Loop file", file(&page)));
    Ok(PageContent::new(name, body).with_badge(text(&page, "status")))
}

fn file(page: &Value) -> Markup {
    match text(page, "text") {
        "" => empty("Its file is not available here."),
        words => details(text(page, "file"), block("log", words)),
    }
}

fn head(page: &Value) -> Markup {
    let reason = text(page, "paused_reason");
    let notice = if reason.is_empty() { Markup::default() } else { element("p", &[("class", "box wait")], reason) };
    let spend = page.get("spend").map_or(0.0, |spend| number(spend, "usd"));
    let known = facts(vec![
        ("Level", Markup::text(text(page, "level"))),
        ("Cadence", Markup::text(text(page, "cadence"))),
        ("Next run", moment(text(page, "next"))),
        ("Last run", moment(text(page, "last_run"))),
        ("Spend today", Markup::text(&usd(spend))),
        ("Waiting for you", Markup::text(&format!("{}", number(page, "waiting")))),
        ("Loop file", element("code", &[], text(page, "file"))),
    ]);
    element("p", &[("class", "intent")], text(page, "intent")).and(notice).and(known)
}

fn actions(source: &PageSource<'_>, page: &Value) -> Markup {
    let (name, repo) = (text(page, "loop"), text(page, "repo"));
    let (back, fields) = (loop_path(name, repo), hidden("repo", repo));
    let path = |verb: &str| path_with(&["api", "v1", "loops", name, verb]);
    let button = |verb: &'static str, shown: &'static str, fields: Markup| {
        source.button(AccessRole::Operate, &path(verb), &back, shown, fields)
    };
    let reason = field("why", "Reason", "for the record", FieldNeed::Optional);
    let pause = match text(page, "status") {
        "paused" | "cooling-down" => button("resume", "Resume", fields.clone()),
        _ => button("pause", "Pause", fields.clone().and(reason)),
    };
    let amount = field("usd", "US dollars", "5", FieldNeed::Required);
    let raise =
        source.button(AccessRole::Approve, &path("budget"), &back, "Raise today's budget", fields.clone().and(amount));
    element("div", &[("class", "actions")], button("run", "Run now", fields).and(pause).and(raise))
}

fn because(why: Result<Value, PageError>) -> Markup {
    match why {
        Ok(why) => texts(list(&why, "because")),
        Err(error) => problem_box(&error.text, &error.hints),
    }
}

fn week(schedule: Result<Value, PageError>) -> Markup {
    match schedule {
        Ok(schedule) if list(&schedule, "occurrences").is_empty() => empty("It is not due in the coming week."),
        Ok(schedule) => day_line(list(&schedule, "marks"), now_ms(), 7 * 24),
        Err(error) => problem_box(&error.text, &error.hints),
    }
}

fn evidence(page: &Value) -> Markup {
    let evidence = page.get("evidence").cloned().unwrap_or_default();
    let debts = page.get("debts").cloned().unwrap_or_default();
    let catches = evidence.get("calibration").cloned().unwrap_or_default();
    let unread = debts.pointer("/comprehension/lines").and_then(Value::as_f64).unwrap_or_default();
    let known = facts(vec![
        ("Reports", Markup::text(&format!("{}", number(&evidence, "reports")))),
        ("Breaches", Markup::text(&format!("{}", number(&evidence, "breaches")))),
        ("Rejections in a row", Markup::text(&format!("{}", number(&evidence, "rejections_in_a_row")))),
        (
            "Planted changes caught",
            Markup::text(&format!("{} of {}", number(&catches, "caught"), number(&catches, "planted"))),
        ),
        ("Sent lines that no person has read", Markup::text(&format!("{unread}"))),
    ]);
    let pay = list(&debts, "pay");
    let gates = details("Gates and output", texts(list(page, "gates")).and(texts(list(page, "output"))));
    known.and(if pay.is_empty() { Markup::default() } else { texts(pay) }).and(gates)
}

fn costs_of(costs: Result<Value, PageError>) -> Markup {
    let costs = match costs {
        Ok(costs) => costs,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let total = costs.get("total").cloned().unwrap_or_default();
    let each = total.get("usd_per_accepted").and_then(Value::as_f64);
    facts(vec![
        ("All rounds", Markup::text(&usd(number(&total, "usd")))),
        ("Per accepted outcome", each.map_or_else(|| faint("no accepted outcome yet"), |each| usd(each).into())),
        ("Accepted", Markup::text(&format!("{} of {}", number(&total, "accepted"), number(&total, "rounds")))),
    ])
}

fn items(page: &Value) -> Markup {
    let state = page.get("state").cloned().unwrap_or_default();
    let failures = list(&state, "failures");
    let processed = state.get("processed").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    let working = state.get("in_progress").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    let count = element("p", &[], format!("{processed} processed, {working} in progress, {} failed", failures.len()));
    if failures.is_empty() {
        return count;
    }
    let row = |one: &Value| {
        vec![Markup::text(text(one, "item")), Markup::text(text(one, "error")), round_link(text(one, "round"))]
    };
    count.and(table(&["Item", "Problem", "Round"], failures.iter().map(row)))
}

fn memory(page: &Value) -> Markup {
    let notes = list(page, "memory");
    if notes.is_empty() {
        return empty("It has no notes for later rounds.");
    }
    let row = |note: &Value| {
        let words = block("note", text(note, "text"));
        vec![Markup::text(text(note, "key")), Markup::text(text(note, "kind")), words, round_link(text(note, "round"))]
    };
    table(&["Key", "Kind", "Text", "Round"], notes.iter().map(row))
}

fn receipts(page: &Value) -> Markup {
    let receipts = list(page, "receipts");
    if receipts.is_empty() {
        return empty("It was never due.");
    }
    let row = |one: &Value| {
        vec![
            moment(text(one, "due")),
            badge(text(one, "receipt")),
            Markup::text(text(one, "reason")),
            round_link(text(one, "round")),
        ]
    };
    table(&["Due", "Result", "Reason", "Round"], receipts.iter().take(20).map(row))
}

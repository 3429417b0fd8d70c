//! The overview: what needs a person, what runs, what broke, the spend of today, and the coming day.

use super::parts::{
    PageError, badge, empty, faint, list, loop_link, moment, moment_ms, number, problem_box, round_link, rounds_table,
    section, span, spend_of_ceiling, table, text, tile, total, usd,
};
use super::picture::{HOURS_OF_A_DAY, bar, day_line};
use super::{PageContent, PageSource};
use crate::view::time::now_ms;
use crate::web::access::AccessRole;
use crate::web::markup::{Markup, element, link};
use serde_json::Value;

/// The problems and the questions that are listed.
const LISTED_MAX: usize = 8;

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let status = source.document(&["status", "--all", "--limit=1"]).await?;
    let inbox = source.document(&["inbox", "--sort=risk", "--limit=8"]).await?;
    let rounds = source.document(&["rounds", "--all", "--limit=10"]).await?;
    let running = source.document(&["rounds", "--all", "--running", "--limit=20"]).await?;
    let schedule = source.document(&["schedule", "--days=1", "--limit=5"]).await;
    let left = section("needs", "Needs you", needs(&inbox)).and(section("running", "Running now", at_work(&running)));
    let spent = spend(&budgets(source).await, &status);
    let right = section("broke", "Problems", broke(&status)).and(section("spend", "Spend today", spent));
    let columns = element("div", &[], left).and(element("div", &[], right));
    let body = stopped(source, &status)
        .and(undelivered(source).await)
        .and(tiles(&status, total(&inbox), total(&running)))
        .and(element("div", &[("class", "cols")], columns))
        .and(section("next", "The next 24 hours", next(schedule)))
        .and(section("recent", "Latest rounds", rounds_table(list(&rounds, "rounds"))));
    Ok(PageContent::new("Overview", body))
}

/// The budgets that all loops share, then those of the first loops.
async fn budgets(source: &PageSource<'_>) -> Vec<Value> {
    let shared = source.document(&["budget", "--shared"]).await.unwrap_or_default();
    let first = source.document(&["budget", "--limit=6"]).await.unwrap_or_default();
    let own = list(&first, "scopes").iter().filter(|scope| !text(scope, "loop").is_empty());
    list(&shared, "scopes").iter().chain(own).cloned().collect()
}

/// The answers to the first questions of a reader, in numbers.
fn tiles(status: &Value, waiting: usize, running: usize) -> Markup {
    let tone = |count: usize, tone: &'static str| if count > 0 { tone } else { "calm" };
    let problems = problems_of(status);
    let tiles = tile("/inbox", tone(waiting, "wait"), &waiting.to_string(), "need you")
        .and(tile("#broke", tone(problems, "bad"), &problems.to_string(), "problems"))
        .and(tile("#running", tone(running, "busy"), &running.to_string(), "running now"))
        .and(tile("/spend", "calm", &usd(today(status)), "spent today"))
        .and(tile("/loops", "calm", &total(status).to_string(), "loops"));
    element("div", &[("class", "tiles")], tiles)
}

fn today(status: &Value) -> f64 {
    status.get("spend").map_or(0.0, |spend| number(spend, "usd"))
}

fn stopped(source: &PageSource<'_>, status: &Value) -> Markup {
    let why = text(status, "stopped");
    if why.is_empty() {
        return Markup::default();
    }
    let button = source.button(AccessRole::Operate, "/api/v1/thaw", "/", "Let loops start again", Markup::default());
    problem_box(&format!("Everything is stopped {why}"), &[]).and(button)
}

/// Notifications that were not sent: a person who relies on them must see it here.
async fn undelivered(source: &PageSource<'_>) -> Markup {
    let Ok(document) = source.document(&["notifications"]).await else { return Markup::default() };
    let is_stuck = |message: &&Value| !text(message, "error").is_empty();
    let stuck = list(&document, "notifications").iter().filter(is_stuck).count();
    match stuck {
        0 => Markup::default(),
        1 => problem_box("A notification could not be sent", &[]).and(link("/health#notifications", "See why")),
        _ => problem_box(&format!("{stuck} notifications could not be sent"), &[])
            .and(link("/health#notifications", "See why")),
    }
}

fn needs(inbox: &Value) -> Markup {
    let items = list(inbox, "items");
    if items.is_empty() {
        return empty("Nothing waits for you.");
    }
    let row = |item: &Value| {
        let place = if text(item, "round").is_empty() { text(item, "id") } else { text(item, "round") };
        let question = link(&format!("/inbox#q-{}", crate::web::markup::encode(place)), text(item, "summary"));
        vec![badge(text(item, "risk")), question, loop_link(item), moment(text(item, "expires"))]
    };
    let more = link("/inbox", format!("Open the inbox ({})", total(inbox)));
    let listed = table(&["Risk", "Question", "Loop", "Expires"], items.iter().take(LISTED_MAX).map(row));
    listed.and(element("p", &[("class", "more")], more))
}

/// The rounds that run, with their spend against its ceiling; the script adds the last line of each.
fn at_work(running: &Value) -> Markup {
    let rounds = list(running, "rounds");
    if rounds.is_empty() {
        return empty("No round runs at the moment.");
    }
    let row = |round: &Value| {
        let started = text(round, "started");
        #[expect(clippy::cast_precision_loss, reason = "a page needs no more precision")]
        let lasted = moment_ms(started).map_or(String::new(), |at| span(now_ms().saturating_sub(at).max(0) as f64));
        let lasted = element("span", &[("data-since", started)], lasted);
        let phase = badge("running").and(" ".into()).and(text(round, "phase").into());
        let last =
            element("span", &[("class", "liveline"), ("data-round", text(round, "round"))], text(round, "action"));
        vec![
            loop_link(round),
            phase,
            lasted,
            spend_of_ceiling(round).into(),
            round_link(text(round, "round")).and(last),
        ]
    };
    let left = total(running).saturating_sub(rounds.len());
    let more = if left > 0 { faint(&format!("and {left} more")) } else { Markup::default() };
    table(&["Loop", "Phase", "Time", "Spend", "Round"], rounds.iter().map(row)).and(more)
}

/// The number of loops with a problem.
fn problems_of(status: &Value) -> usize {
    list(status, "problems").iter().map(total).sum()
}

/// The first problems of each group: a state, a loop, a reason and a round each.
fn broke(status: &Value) -> Markup {
    let groups = list(status, "problems");
    if groups.is_empty() {
        return empty("No problems: the last round of every loop ended well.");
    }
    let row = |group: &Value, line: &Value| {
        let why = text(line, "why").into();
        vec![badge(text(group, "status")), loop_link(line), why, round_link(text(line, "round"))]
    };
    let rows = groups.iter().flat_map(|group| list(group, "loops").iter().map(|line| row(group, line)));
    let rows: Vec<_> = rows.take(LISTED_MAX).collect();
    let counted = |group: &Value| format!("{} {}", total(group), text(group, "status"));
    let counts: Vec<String> = groups.iter().map(counted).collect();
    let more = match problems_of(status) > rows.len() {
        true => element("p", &[("class", "more")], link("/loops", format!("all problems: {}", counts.join(", ")))),
        false => Markup::default(),
    };
    table(&["State", "Loop", "Why", "Round"], rows).and(more)
}

fn spend(scopes: &[Value], status: &Value) -> Markup {
    let limited = scopes.iter().filter(|scope| scope.pointer("/ceiling/usd").is_some_and(Value::is_number));
    let line = |scope: &Value| {
        let spent = scope.pointer("/spent/usd").and_then(Value::as_f64).unwrap_or_default();
        let ceiling = scope.pointer("/ceiling/usd").and_then(Value::as_f64).unwrap_or_default();
        let name = match text(scope, "loop") {
            "" => text(scope, "scope").to_owned(),
            name => format!("{name}, {}", text(scope, "scope")),
        };
        let label = format!("{name}: {} of {}", usd(spent), usd(ceiling));
        element("div", &[("class", "amount")], element("p", &[], label.as_str()).and(bar(spent, ceiling, &label)))
    };
    let lines: Markup = limited.take(6).map(line).collect();
    let lines = if lines.is_empty() { faint("No ceiling is set.") } else { lines };
    element("p", &[("class", "big")], usd(today(status))).and(lines)
}

fn next(schedule: Result<Value, PageError>) -> Markup {
    let schedule = match schedule {
        Ok(schedule) => schedule,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let coming = list(&schedule, "occurrences");
    if coming.is_empty() {
        return empty("No loop is due in the next 24 hours.");
    }
    let row = |one: &Value| vec![moment(text(one, "due")), loop_link(one), Markup::text(text(one, "trigger"))];
    let held = list(&schedule, "held")
        .iter()
        .take(LISTED_MAX)
        .map(|one| vec![loop_link(one), Markup::text(text(one, "reason"))]);
    let held = if held.len() == 0 { Markup::default() } else { table(&["Held loop", "Reason"], held) };
    let listed = table(&["Due", "Loop", "Trigger"], coming.iter().map(row));
    let more = match total(&schedule) {
        0..=5 => Markup::default(),
        all => element("p", &[("class", "more")], link("/calendar", format!("all {all} in the calendar"))),
    };
    day_line(list(&schedule, "marks"), now_ms(), HOURS_OF_A_DAY).and(listed).and(more).and(held)
}

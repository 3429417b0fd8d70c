//! The list of loops: search, filter by state, sort, and pages.

use super::paging::PagedList;
use super::parts::{PageError, badge, empty, list, loop_link, moment, number, repo_name, table, text, total, usd};
use super::{PageContent, PageSource};
use crate::web::markup::{Markup, element, void};
use serde_json::Value;

const LOOPS: PagedList = PagedList { name: "page", size: 50, place: "loops" };

const STATES: [&str; 9] =
    ["running", "waiting", "due", "idle", "paused", "cooling-down", "abandoned", "stopped", "invalid"];

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let (search, state, sort) = (source.value("q"), source.value("state"), source.value("sort"));
    let mut words = vec!["status".to_owned(), "--all".to_owned(), format!("--search={search}")];
    // A word that the command does not know, from an edited address, is left out.
    words.extend(STATES.contains(&state).then(|| format!("--only={state}")));
    words.extend(ORDERS.iter().any(|(word, _)| *word == sort).then(|| format!("--sort={sort}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let status = source.page_of(LOOPS, &words).await?;
    let loops = list(&status, "loops");
    let all: f64 =
        status.get("counts").and_then(Value::as_object).into_iter().flatten().filter_map(|(_, n)| n.as_f64()).sum();
    let count = element("p", &[("class", "faint")], format!("{} of {all} loops", total(&status)));
    let found = match (loops.is_empty(), all > 0.0) {
        (false, _) => rows(loops),
        (true, true) => empty("No loop matches."),
        (true, false) => empty("There are no loops yet: `loopwright init` writes some."),
    };
    let listed = element("div", &[("id", LOOPS.place)], found.and(source.turn(LOOPS, &status)));
    Ok(PageContent::new("Loops", filter(search, state, sort).and(count).and(listed)))
}

/// The orders of the list.
const ORDERS: [(&str, &str); 4] = [("name", "name"), ("last", "last run"), ("next", "next run"), ("spend", "spend")];

fn filter(search: &str, state: &str, sort: &str) -> Markup {
    let option = |value: &str, shown: &str, current: &str| match value == current {
        true => element("option", &[("value", value), ("selected", "selected")], shown),
        false => element("option", &[("value", value)], shown),
    };
    let states = std::iter::once(option("", "all states", state));
    let states: Markup = states.chain(STATES.iter().map(|word| option(word, word, state))).collect();
    let orders: Markup = ORDERS.iter().map(|(value, shown)| option(value, shown, sort)).collect();
    let label =
        |name: &'static str, field: Markup| element("label", &[], Markup::text(name).and(" ".into()).and(field));
    let fields = label("Search", void("input", &[("type", "search"), ("name", "q"), ("value", search)]))
        .and(label("State", element("select", &[("name", "state")], states)))
        .and(label("Sort by", element("select", &[("name", "sort")], orders)))
        .and(element("button", &[("type", "submit")], "Show"));
    element("form", &[("method", "get"), ("action", "/loops"), ("class", "filter"), ("role", "search")], fields)
}

fn rows(loops: &[Value]) -> Markup {
    let row = |line: &Value| {
        let rate = line
            .get("success_rate")
            .and_then(Value::as_f64)
            .map_or("–".to_owned(), |rate| format!("{:.0} %", rate * 100.0));
        let spend = line.get("spend").map_or(0.0, |spend| number(spend, "usd"));
        vec![
            loop_link(line),
            badge(text(line, "status")),
            Markup::text(text(line, "level")),
            Markup::text(text(line, "cadence")),
            moment(text(line, "last_run")),
            moment(text(line, "next")),
            Markup::text(&format!("{}", number(line, "runs"))),
            Markup::text(&rate),
            Markup::text(&usd(spend)),
            Markup::text(repo_name(text(line, "repo"))),
        ]
    };
    let headings =
        ["Loop", "State", "Level", "Cadence", "Last run", "Next", "Rounds", "Success", "Today", "Repository"];
    table(&headings, loops.iter().map(row))
}

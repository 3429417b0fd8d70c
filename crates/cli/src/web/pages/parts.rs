//! Small pieces of pages: states, moments, amounts, tables, problems and honest empty places.

use crate::error::{CommandError, CommandErrorKind};
use crate::view::rounds::spend_text;
use crate::view::time::{date_and_time, now_ms, parse_timestamp, time_since, time_until};
use crate::web::markup::{Markup, element, encode, link, path_with, void};
use crate::web::respond::status_of;
use hyper::StatusCode;
use serde_json::Value;

/// The reason why a page or a part of it cannot be shown.
#[derive(Debug)]
pub(crate) struct PageError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    pub(super) hints: Vec<String>,
}

impl From<CommandError> for PageError {
    fn from(error: CommandError) -> Self {
        let status = match error.kind {
            CommandErrorKind::Unknown => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, text: error.text, hints: error.hints }
    }
}

impl PageError {
    /// Nothing has that name.
    pub(super) fn not_found(text: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, text, hints: Vec::new() }
    }

    /// The document, unless it is an error.
    pub(super) fn check(document: Value) -> Result<Value, Self> {
        match status_of(&document) {
            StatusCode::OK => Ok(document),
            status => Err(Self { status, text: error_text(&document), hints: error_hints(&document) }),
        }
    }
}

/// The text of an error document.
pub(crate) fn error_text(document: &Value) -> String {
    document.pointer("/error/text").and_then(Value::as_str).unwrap_or("the command failed").to_owned()
}

/// The hints of an error document.
pub(crate) fn error_hints(document: &Value) -> Vec<String> {
    let hints = document.pointer("/error/hints").and_then(Value::as_array).into_iter().flatten();
    hints.filter_map(|hint| hint.as_str().map(str::to_owned)).collect()
}

/// The text of a key; empty if it is absent or not text.
pub(super) fn text<'d>(document: &'d Value, key: &str) -> &'d str {
    document.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number of a key; 0 if it is absent.
pub(super) fn number(document: &Value, key: &str) -> f64 {
    document.get(key).and_then(Value::as_f64).unwrap_or_default()
}

/// The list of a key; empty if it is absent.
pub(super) fn list<'d>(document: &'d Value, key: &str) -> &'d [Value] {
    document.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a document's whole list, of which it may have a page only.
pub(super) fn total(document: &Value) -> usize {
    let total = document.pointer("/page/total").and_then(Value::as_u64).unwrap_or_default();
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// A moment of a document in milliseconds since 1970.
pub(super) fn moment_ms(text: &str) -> Option<i64> {
    parse_timestamp(text)
}

/// A moment: how long ago it was, or how long it takes until then, with the date beside it.
pub(super) fn moment(text: &str) -> Markup {
    let (Some(ms), now) = (moment_ms(text), now_ms()) else { return faint("–") };
    let shown = if ms > now { time_until(ms, now) } else { format!("{} ago", time_since(ms, now)) };
    let shown = shown.replace("now ago", "now").replace("ago ago", "ago");
    element("time", &[("datetime", text), ("title", &date_and_time(ms))], shown)
}

/// A moment as a date.
pub(super) fn date(text: &str) -> Markup {
    let Some(ms) = moment_ms(text) else { return faint("–") };
    element("time", &[("datetime", text)], date_and_time(ms))
}

/// An amount of money.
pub(super) fn usd(amount: f64) -> String {
    if amount > 0.0 && amount < 0.01 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// The money and the tokens of a round against its ceilings.
pub(super) fn spend_of_ceiling(round: &Value) -> String {
    let most = |pointer: &str| round.pointer(pointer).and_then(Value::as_f64);
    let tokens = round.pointer("/spend/tokens").map_or(0.0, tokens_of);
    spend_text(most("/spend/usd").unwrap_or_default(), tokens, most("/ceiling/usd"), most("/ceiling/tokens"))
}

/// A count of tokens: a number, or the sum of its kinds.
pub(super) fn tokens_of(tokens: &Value) -> f64 {
    let kinds = ["input", "output", "cache_read", "cache_write"];
    tokens.as_f64().unwrap_or_else(|| kinds.iter().map(|kind| number(tokens, kind)).sum())
}

/// A number with separators.
pub(super) fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes in a readable unit.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// A span of milliseconds.
pub(super) fn span(ms: f64) -> String {
    match ms {
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms if ms < 60_000.0 => format!("{:.1} s", ms / 1_000.0),
        ms if ms < 3_600_000.0 => {
            format!("{:.0} min {:02.0} s", (ms / 60_000.0).floor(), (ms % 60_000.0 / 1_000.0).floor())
        }
        ms => format!("{:.0} h {:02.0} min", (ms / 3_600_000.0).floor(), (ms % 3_600_000.0 / 60_000.0).floor()),
    }
}

/// The class of a state: good, bad, waiting or neutral. The word itself is always shown too.
pub(super) fn tone(word: &str) -> &'static str {
    match word {
        "shipped" | "reported" | "passed" | "ok" | "sent" | "pass" | "open" | "low-risk" => "good",
        "running" | "due" | "claimed" => "busy",
        "waiting" | "escalated" | "suspended" | "staged" | "in-doubt" | "paused" | "cooling-down" | "medium"
        | "gap" | "rate-limited" | "escalate" => "wait",
        "failed" | "rejected" | "refused" | "over-budget" | "stopped" | "invalid" | "abandoned" | "missing"
        | "high" | "fail" | "full" | "cannot" | "plateaued" | "quarantined" => "bad",
        _ => "calm",
    }
}

/// A state as a word in its colour.
pub(super) fn badge(word: &str) -> Markup {
    element("span", &[("class", &format!("badge {}", tone(word)))], word)
}

/// Less important text.
pub(super) fn faint(text: &str) -> Markup {
    element("span", &[("class", "faint")], text)
}

/// An honest empty place.
pub(super) fn empty(text: &str) -> Markup {
    element("p", &[("class", "empty")], text)
}

/// A problem with its fixes.
pub(super) fn problem_box(text: &str, hints: &[String]) -> Markup {
    let hints: Markup = hints.iter().map(|hint| element("li", &[], hint.as_str())).collect();
    let hints = if hints.is_empty() { Markup::default() } else { element("ul", &[], hints) };
    element("div", &[("class", "box bad"), ("role", "alert")], element("p", &[], text).and(hints))
}

/// A part of a page under a heading; `id` lets links and the script find it.
pub(super) fn section(id: &str, title: &str, body: Markup) -> Markup {
    let heading = format!("{id}-title");
    let title = element("h2", &[("id", &heading)], title);
    element("section", &[("id", id), ("aria-labelledby", &heading)], title.and(body))
}

/// A table that scrolls by itself on a narrow screen.
pub(super) fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return empty("None.");
    }
    let heading = |heading: &&str| element("th", &[("scope", "col")], *heading);
    let head = element("thead", &[], element("tr", &[], headings.iter().map(heading).collect::<Markup>()));
    let cells = |row: Vec<Markup>| {
        let cell = |(at, cell): (usize, Markup)| {
            element("td", &[("data-label", headings.get(at).copied().unwrap_or_default())], cell)
        };
        element("tr", &[], row.into_iter().enumerate().map(cell).collect::<Markup>())
    };
    let body = element("tbody", &[], rows.map(cells).collect::<Markup>());
    element("div", &[("class", "scroll"), ("tabindex", "0"), ("role", "group")], element("table", &[], head.and(body)))
}

/// Names and values.
pub(super) fn facts(pairs: Vec<(&str, Markup)>) -> Markup {
    let pair =
        |(name, value): (&str, Markup)| element("div", &[], element("dt", &[], name).and(element("dd", &[], value)));
    element("dl", &[("class", "facts")], pairs.into_iter().map(pair).collect::<Markup>())
}

/// A list of texts.
pub(super) fn texts(items: &[Value]) -> Markup {
    let item = |item: &Value| element("li", &[], item.as_str().unwrap_or_default());
    element("ul", &[], items.iter().map(item).collect::<Markup>())
}

/// A hidden field of a form.
pub(super) fn hidden(name: &'static str, value: &str) -> Markup {
    void("input", &[("type", "hidden"), ("name", name), ("value", value)])
}

/// The path of a loop's page.
pub(super) fn loop_path(name: &str, repo: &str) -> String {
    let path = path_with(&["loops", name]);
    if repo.is_empty() { path } else { format!("{path}?repo={}", encode(repo)) }
}

/// A link to a loop.
pub(super) fn loop_link(document: &Value) -> Markup {
    let name = text(document, "loop");
    link(&loop_path(name, text(document, "repo")), name)
}

/// A link to a round by its id; only its text without one.
pub(super) fn round_link(round: &str) -> Markup {
    if round.is_empty() { faint("–") } else { link(&path_with(&["rounds", round]), round) }
}

/// A repository's readable name: its id ends with a hash.
pub(super) fn repo_name(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(name, _)| name)
}

/// Lines of a program, an agent or a file.
pub(super) fn block(class: &str, text: &str) -> Markup {
    element("pre", &[("class", class), ("tabindex", "0")], text)
}

/// A part that is closed at first.
pub(super) fn details(title: &str, body: Markup) -> Markup {
    details_of("page", title, body)
}

/// The same, one of several with this title: `place` distinguishes them, so that a refresh keeps the open ones open.
pub(super) fn details_of(place: &str, title: &str, body: Markup) -> Markup {
    let id = format!("d-{}-{}", encode(place), encode(title));
    element("details", &[("id", &id)], element("summary", &[], title).and(body))
}

/// A number with its meaning, as a link to the part of the page that has the details.
pub(super) fn tile(target: &str, tone: &str, amount: &str, name: &str) -> Markup {
    let content = element("b", &[], amount).and(element("span", &[], name));
    element("a", &[("class", &format!("tile {tone}")), ("href", target)], content)
}

/// A table of rounds.
pub(super) fn rounds_table(rounds: &[Value]) -> Markup {
    if rounds.is_empty() {
        return empty("No round has run yet.");
    }
    let row = |round: &Value| {
        let spend = round.get("spend").map_or(0.0, |spend| number(spend, "usd"));
        let lasted = round.get("duration_s").and_then(Value::as_f64).map_or("–".to_owned(), |s| span(s * 1_000.0));
        vec![
            badge(text(round, "status")),
            round_link(text(round, "round")),
            loop_link(round),
            Markup::text(text(round, "summary")),
            moment(text(round, "started")),
            Markup::text(&lasted),
            Markup::text(&usd(spend)),
        ]
    };
    table(&["State", "Round", "Loop", "Summary", "Started", "Time", "Spend"], rounds.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_spans_are_readable() {
        assert_eq!((usd(0.0012), usd(12.5)), ("$0.0012".to_owned(), "$12.50".to_owned()));
        assert_eq!((count(1_234_567.0), count(12.0)), ("1\u{2009}234\u{2009}567".to_owned(), "12".to_owned()));
        let round = serde_json::json!({
            "spend": {"usd": 0.42, "tokens": {"input": 11_000, "output": 1_000, "cache_read": 0, "cache_write": 0}},
            "ceiling": {"usd": 5.0, "tokens": 400_000},
        });
        assert_eq!(spend_of_ceiling(&round), "$0.42 of $5.00, 12k of 400k tokens");
        assert_eq!([12_400.0, 2_500_000.0, 7e9].map(bytes), ["12 kB", "2.5 MB", "7.0 GB"]);
        let spans = [400.0, 1_500.0, 61_000.0, 7_260_000.0].map(span);
        assert_eq!(spans, ["400 ms", "1.5 s", "1 min 01 s", "2 h 01 min"]);
    }
}

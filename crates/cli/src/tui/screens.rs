//! The five screens as rows, made from the documents. Problems come first everywhere. Nothing here knows the size of the
//! terminal or the position of the reader.

use super::documents::{TuiDocuments, moment, text};
use super::grid::{CellWidth, GridCell};
use super::theme::{TextTone, state_look};
use crate::view::time;
use serde_json::Value;
use std::collections::HashSet;

/// A screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TuiScreen {
    Overview,
    Loops,
    Rounds,
    Inbox,
    Spend,
}

impl TuiScreen {
    /// All of them, in the order of their keys.
    pub(super) const ALL: [Self; 5] = [Self::Overview, Self::Loops, Self::Rounds, Self::Inbox, Self::Spend];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Loops => "Loops",
            Self::Rounds => "Rounds",
            Self::Inbox => "Inbox",
            Self::Spend => "Spend",
        }
    }
}

/// The subject of a row, for the keys that act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowSubject {
    Loop(String),
    Round(String),
    /// A question: its id, and the round that it is about.
    Question(String, Option<String>),
}

/// A row of a screen.
#[derive(Debug, Clone)]
pub(super) enum ScreenRow {
    /// The title of a section, and a few words behind it.
    Section(String, TextTone, String),
    /// The titles of columns.
    Columns(Vec<GridCell>),
    /// A line that can be selected.
    Line(Vec<GridCell>, RowSubject),
    /// A line that only informs.
    Text(Vec<GridCell>),
    Gap,
}

impl ScreenRow {
    pub(super) fn subject(&self) -> Option<&RowSubject> {
        match self {
            Self::Line(_, subject) => Some(subject),
            Self::Section(..) | Self::Columns(_) | Self::Text(_) | Self::Gap => None,
        }
    }

    fn has_text(&self, wanted: &str) -> bool {
        match self {
            Self::Line(cells, _) => cells.iter().any(|cell| cell.text().to_lowercase().contains(wanted)),
            Self::Section(..) | Self::Columns(_) | Self::Text(_) | Self::Gap => true,
        }
    }
}

/// Rounds of the overview.
const LATEST: usize = 8;
/// Coming starts of the overview.
const COMING: usize = 5;

/// The rows of a screen that contain a text, in any case of letters.
pub(super) fn rows(screen: TuiScreen, docs: &TuiDocuments, now: i64, filter: &str) -> Vec<ScreenRow> {
    let mut rows = match screen {
        TuiScreen::Overview => overview(docs, now),
        TuiScreen::Loops => loops(docs, now),
        TuiScreen::Rounds => rounds(docs, now),
        TuiScreen::Inbox => inbox(docs, now),
        TuiScreen::Spend => spend(docs),
    };
    if !filter.is_empty() {
        let wanted = filter.to_lowercase();
        rows.retain(|row| row.has_text(&wanted));
    }
    rows
}

fn left(width: u16, tone: TextTone, text: &str) -> GridCell {
    GridCell::new(CellWidth::Left(width), tone, text)
}

fn right(width: u16, tone: TextTone, text: &str) -> GridCell {
    GridCell::new(CellWidth::Right(width), tone, text)
}

fn rest(tone: TextTone, text: &str) -> GridCell {
    GridCell::new(CellWidth::Rest, tone, text)
}

/// The sign and the word of a state.
fn state(word: &str) -> [GridCell; 2] {
    let (sign, tone) = state_look(word);
    [left(1, tone, sign), left(13, tone, word)]
}

fn section(title: &str, tone: TextTone, count: usize) -> ScreenRow {
    let count = if count == 0 { "none".to_owned() } else { count.to_string() };
    let tone = if count == "none" { TextTone::Dim } else { tone };
    ScreenRow::Section(title.to_owned(), tone, count)
}

fn since(value: &Value, key: &str, now: i64) -> String {
    moment(value, key).map_or_else(|| "–".to_owned(), |at| time::time_since(at, now))
}

fn until(value: &Value, key: &str, now: i64) -> String {
    moment(value, key).map_or_else(|| "–".to_owned(), |at| time::time_until(at, now))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()
}

fn round_subject(round: &Value) -> RowSubject {
    RowSubject::Round(text(round, "round").to_owned())
}

/// The words behind a name if nothing better is known.
fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

// The overview.

fn overview(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let problems = problems(docs, now);
    let mut rows = vec![section("Problems", TextTone::Bad, problems.len())];
    rows.extend(problems);
    rows.push(ScreenRow::Gap);
    let questions = docs.list("inbox", "items");
    rows.push(section("Needs you", TextTone::Waiting, questions.len()));
    rows.extend(questions.iter().map(|item| question(item, now)));
    rows.push(ScreenRow::Gap);
    let all = docs.list("rounds", "rounds");
    let running: Vec<&Value> = all.iter().filter(|round| text(round, "status") == "running").collect();
    rows.push(section("Running", TextTone::Live, running.len()));
    rows.extend(running.iter().flat_map(|round| running_rows(docs, round, now)));
    rows.push(ScreenRow::Gap);
    let coming = coming(docs, now);
    if !coming.is_empty() {
        rows.push(ScreenRow::Section("Next".to_owned(), TextTone::Strong, String::new()));
        rows.extend(coming);
        rows.push(ScreenRow::Gap);
    }
    let over: Vec<&Value> = all.iter().filter(|round| text(round, "status") != "running").take(LATEST).collect();
    rows.push(ScreenRow::Section("Latest rounds".to_owned(), TextTone::Strong, String::new()));
    rows.extend(over.iter().map(|round| latest(round, now)));
    rows
}

/// States of loops that a person should look at.
fn is_loop_problem(word: &str) -> bool {
    matches!(word, "invalid" | "paused" | "cooling-down" | "abandoned" | "stopped")
}

/// Ends of rounds that a person should look at.
fn is_round_problem(word: &str) -> bool {
    matches!(
        word,
        "failed"
            | "abandoned"
            | "suspended"
            | "over-budget"
            | "rejected"
            | "refused"
            | "cannot"
            | "plateaued"
            | "empty"
    )
}

/// Loops that do not work, and loops whose latest round did not end well.
fn problems(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let mut rows: Vec<ScreenRow> = docs
        .problems
        .iter()
        .map(|why| {
            ScreenRow::Text(vec![left(1, TextTone::Bad, "✗"), rest(TextTone::Bad, &format!("cannot read: {why}"))])
        })
        .collect();
    let loops = docs.list("status", "loops");
    let is_timed = loops.iter().any(|line| !text(line, "next").is_empty());
    if is_timed && docs.value("status", "/daemon").is_some_and(Value::is_null) {
        let why = "no daemon runs, so nothing starts on its own: loopwright up";
        rows.push(ScreenRow::Text(vec![left(1, TextTone::Bad, "✗"), rest(TextTone::Plain, why)]));
    }
    for line in loops.iter().filter(|line| is_loop_problem(text(line, "status"))) {
        let mut cells = state(text(line, "status")).to_vec();
        cells.push(left(18, TextTone::Strong, text(line, "loop")));
        cells.push(rest(TextTone::Plain, text(line, "paused_reason")));
        rows.push(ScreenRow::Line(cells, RowSubject::Loop(text(line, "loop").to_owned())));
    }
    let mut seen = HashSet::new();
    for round in docs.list("rounds", "rounds") {
        let key = (text(round, "repo"), text(round, "loop"));
        if text(round, "status") == "running" || !seen.insert(key) || !is_round_problem(text(round, "status")) {
            continue;
        }
        let mut cells = state(text(round, "status")).to_vec();
        cells.push(left(18, TextTone::Strong, text(round, "loop")));
        cells.push(rest(TextTone::Plain, or_dash(text(round, "summary"))));
        cells.push(right(8, TextTone::Dim, &since(round, "started", now)).only_from(60));
        rows.push(ScreenRow::Line(cells, round_subject(round)));
    }
    rows
}

fn question(item: &Value, now: i64) -> ScreenRow {
    let mut cells = state(text(item, "risk")).to_vec();
    cells.push(left(18, TextTone::Strong, text(item, "loop")));
    cells.push(rest(TextTone::Plain, text(item, "summary")));
    cells.push(right(8, TextTone::Dim, &until(item, "expires", now)).only_from(60));
    let round = Some(text(item, "round").to_owned()).filter(|round| !round.is_empty());
    ScreenRow::Line(cells, RowSubject::Question(text(item, "id").to_owned(), round))
}

/// A running round: its stage and its spend against the ceiling, and below what its agent does now.
fn running_rows(docs: &TuiDocuments, round: &Value, now: i64) -> Vec<ScreenRow> {
    let elapsed = moment(round, "started").map_or(0, |at| now.saturating_sub(at));
    let attempt = format!("attempt {}", number(round, "/attempts").max(1.0));
    let cells = vec![
        left(1, TextTone::Live, "●"),
        left(13, TextTone::Live, text(round, "phase")),
        left(18, TextTone::Strong, text(round, "loop")),
        left(8, TextTone::Plain, &time::elapsed_text(elapsed)),
        left(10, TextTone::Dim, &attempt).only_from(90),
        rest(TextTone::Plain, &spend_text(round)),
    ];
    let mut rows = vec![ScreenRow::Line(cells, round_subject(round))];
    if let Some(action) = docs.actions.get(text(round, "round")).filter(|action| !action.is_empty()) {
        rows.push(ScreenRow::Text(vec![
            left(1, TextTone::Dim, " "),
            left(1, TextTone::Live, "└"),
            rest(TextTone::Dim, action),
        ]));
    }
    rows
}

/// The spend of a round against its ceilings.
fn spend_text(round: &Value) -> String {
    let most = |pointer: &str| round.pointer(pointer).and_then(Value::as_f64);
    let (usd, tokens) = (number(round, "/spend/usd"), number(round, "/spend/tokens"));
    crate::view::rounds::spend_text(usd, tokens, most("/ceiling/usd"), most("/ceiling/tokens"))
}

fn coming(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let mut timed: Vec<(i64, &Value)> =
        docs.list("status", "loops").iter().filter_map(|line| Some((moment(line, "next")?, line))).collect();
    timed.sort_by_key(|(at, _)| *at);
    let row = |(at, line): &(i64, &Value)| {
        let cells = vec![
            left(1, TextTone::Dim, "›"),
            left(13, TextTone::Plain, &time::time_until(*at, now)),
            left(18, TextTone::Strong, text(line, "loop")),
            rest(TextTone::Dim, text(line, "cadence")),
        ];
        ScreenRow::Line(cells, RowSubject::Loop(text(line, "loop").to_owned()))
    };
    timed.iter().take(COMING).map(row).collect()
}

fn latest(round: &Value, now: i64) -> ScreenRow {
    let mut cells = state(text(round, "status")).to_vec();
    cells.push(left(18, TextTone::Plain, text(round, "loop")));
    cells.push(rest(TextTone::Dim, or_dash(text(round, "summary"))));
    cells.push(right(6, TextTone::Plain, &format!("${:.2}", number(round, "/spend/usd"))).only_from(60));
    cells.push(right(8, TextTone::Dim, &since(round, "started", now)).only_from(60));
    ScreenRow::Line(cells, round_subject(round))
}

// The lists.

/// The place of a loop in the list: those that need a person first.
fn loop_rank(word: &str) -> usize {
    const ORDER: [&str; 9] =
        ["invalid", "abandoned", "stopped", "paused", "cooling-down", "waiting", "running", "due", "idle"];
    ORDER.iter().position(|one| *one == word).unwrap_or(ORDER.len())
}

fn loops(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let heading = |cell: fn(u16, TextTone, &str) -> GridCell, width: u16, text: &str| cell(width, TextTone::Dim, text);
    let mut rows = vec![ScreenRow::Columns(vec![
        heading(left, 1, ""),
        heading(left, 13, "STATUS"),
        rest(TextTone::Dim, "LOOP"),
        heading(left, 6, "LEVEL"),
        heading(right, 8, "LAST"),
        heading(right, 8, "NEXT"),
        heading(right, 5, "RUNS").only_from(70),
        heading(right, 5, "OK").only_from(70),
        heading(right, 7, "TODAY").only_from(50),
        heading(left, 28, "CADENCE").only_from(110),
    ])];
    let mut sorted: Vec<&Value> = docs.list("status", "loops").iter().collect();
    sorted.sort_by_key(|line| (loop_rank(text(line, "status")), text(line, "loop")));
    rows.extend(sorted.into_iter().map(|line| loop_row(line, now)));
    if rows.len() == 1 {
        rows.push(ScreenRow::Text(vec![rest(TextTone::Dim, "no loops yet: loopwright init writes some")]));
    }
    rows
}

fn loop_row(line: &Value, now: i64) -> ScreenRow {
    let success = line.get("success_rate").and_then(Value::as_f64);
    let success = success.map_or_else(|| "–".to_owned(), |rate| format!("{:.0}%", rate * 100.0));
    let mut cells = state(text(line, "status")).to_vec();
    cells.extend([
        rest(TextTone::Strong, text(line, "loop")),
        left(6, TextTone::Plain, or_dash(text(line, "level"))),
        right(8, TextTone::Plain, &since(line, "last_run", now)),
        right(8, TextTone::Plain, &until(line, "next", now)),
        right(5, TextTone::Plain, &format!("{}", number(line, "/runs"))).only_from(70),
        right(5, TextTone::Plain, &success).only_from(70),
        right(7, TextTone::Plain, &format!("${:.2}", number(line, "/spend/usd"))).only_from(50),
        left(28, TextTone::Dim, or_dash(text(line, "cadence"))).only_from(110),
    ]);
    ScreenRow::Line(cells, RowSubject::Loop(text(line, "loop").to_owned()))
}

fn rounds(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let mut rows = vec![ScreenRow::Columns(vec![
        left(1, TextTone::Dim, ""),
        left(13, TextTone::Dim, "STATUS"),
        left(18, TextTone::Dim, "LOOP"),
        rest(TextTone::Dim, "RESULT"),
        right(5, TextTone::Dim, "TRIES").only_from(90),
        right(7, TextTone::Dim, "TOOK").only_from(60),
        right(7, TextTone::Dim, "SPEND").only_from(60),
        right(8, TextTone::Dim, "STARTED"),
        left(12, TextTone::Dim, "ROUND").only_from(110),
    ])];
    rows.extend(docs.list("rounds", "rounds").iter().map(|round| round_row(docs, round, now)));
    if rows.len() == 1 {
        rows.push(ScreenRow::Text(vec![rest(TextTone::Dim, "no rounds yet: loopwright run LOOP starts one")]));
    }
    rows
}

fn round_row(docs: &TuiDocuments, round: &Value, now: i64) -> ScreenRow {
    let is_running = text(round, "status") == "running";
    let elapsed = moment(round, "started").map_or(0, |at| now.saturating_sub(at));
    let took = match round.get("duration_s").and_then(Value::as_f64) {
        Some(seconds) => time::duration_text((seconds * 1000.0) as i64),
        None if is_running => time::elapsed_text(elapsed),
        None => "–".to_owned(),
    };
    let action = docs.actions.get(text(round, "round")).map_or("", String::as_str);
    let result =
        if is_running { format!("{}  {action}", text(round, "phase")) } else { text(round, "summary").to_owned() };
    let mut cells = state(text(round, "status")).to_vec();
    cells.extend([
        left(18, TextTone::Strong, text(round, "loop")),
        rest(TextTone::Plain, or_dash(&result)),
        right(5, TextTone::Plain, &format!("{}", number(round, "/attempts"))).only_from(90),
        right(7, TextTone::Plain, &took).only_from(60),
        right(7, TextTone::Plain, &format!("${:.2}", number(round, "/spend/usd"))).only_from(60),
        right(8, TextTone::Dim, &since(round, "started", now)),
        left(12, TextTone::Dim, text(round, "round")).only_from(110),
    ]);
    ScreenRow::Line(cells, round_subject(round))
}

fn inbox(docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
    let items = docs.list("inbox", "items");
    if items.is_empty() {
        return vec![ScreenRow::Text(vec![
            left(1, TextTone::Good, "✓"),
            rest(TextTone::Plain, "nothing waits for you"),
        ])];
    }
    let mut rows = vec![ScreenRow::Columns(vec![
        left(1, TextTone::Dim, ""),
        left(13, TextTone::Dim, "RISK"),
        left(18, TextTone::Dim, "LOOP"),
        rest(TextTone::Dim, "QUESTION"),
        right(8, TextTone::Dim, "EXPIRES").only_from(60),
    ])];
    rows.extend(items.iter().map(|item| question(item, now)));
    rows
}

// The spend.

/// The columns of a bar.
const BAR: usize = 20;

/// How much of a ceiling is spent, as a bar of this many columns.
fn bar(share: f64) -> String {
    let filled = ((share.clamp(0.0, 1.0) * BAR as f64).round() as usize).min(BAR);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

fn spend(docs: &TuiDocuments) -> Vec<ScreenRow> {
    let today = format!("${:.2}", docs.spent_today());
    let mut rows = vec![ScreenRow::Section("Today".to_owned(), TextTone::Strong, today), ScreenRow::Gap];
    rows.push(ScreenRow::Section("Budgets".to_owned(), TextTone::Strong, "of today, and of the month".to_owned()));
    let scopes = docs.list("budget", "scopes");
    rows.extend(scopes.iter().map(budget_row));
    if scopes.is_empty() {
        rows.push(ScreenRow::Text(vec![rest(TextTone::Dim, "no budget is set")]));
    }
    rows.push(ScreenRow::Gap);
    rows.push(ScreenRow::Section("Loops".to_owned(), TextTone::Strong, "last 7 days".to_owned()));
    let groups = docs.list("costs", "groups");
    let most = groups.iter().map(|group| number(group, "/usd")).fold(0.0, f64::max);
    rows.extend(groups.iter().map(|group| cost_row(group, most)));
    if groups.is_empty() {
        rows.push(ScreenRow::Text(vec![rest(TextTone::Dim, "nothing was spent in the last 7 days")]));
    }
    rows
}

fn budget_row(scope: &Value) -> ScreenRow {
    let (spent, ceiling) = (number(scope, "/spent/usd"), scope.pointer("/ceiling/usd").and_then(Value::as_f64));
    let tone = match text(scope, "status") {
        "full" => TextTone::Bad,
        "low" => TextTone::Waiting,
        _ => TextTone::Good,
    };
    let of = ceiling.map_or_else(|| "no ceiling".to_owned(), |most| format!("of ${most:.2}"));
    let name = match text(scope, "loop") {
        "" => text(scope, "scope").to_owned(),
        name => format!("{name}, {}", text(scope, "scope")),
    };
    ScreenRow::Text(vec![
        left(26, TextTone::Strong, &name),
        left(20, tone, &ceiling.map_or(String::new(), |most| bar(if most > 0.0 { spent / most } else { 1.0 }))),
        right(8, TextTone::Plain, &format!("${spent:.2}")),
        rest(TextTone::Dim, &of),
    ])
}

fn cost_row(group: &Value, most: f64) -> ScreenRow {
    let usd = number(group, "/usd");
    let accepted = group.get("usd_per_accepted").and_then(Value::as_f64);
    let accepted = accepted.map_or(String::new(), |usd| format!("${usd:.2} per accepted round"));
    let name = if text(group, "key").is_empty() { "unknown" } else { text(group, "key") };
    ScreenRow::Text(vec![
        left(26, TextTone::Strong, name),
        left(20, TextTone::Live, &bar(if most > 0.0 { usd / most } else { 0.0 })),
        right(8, TextTone::Plain, &format!("${usd:.2}")),
        rest(TextTone::Dim, &accepted),
    ])
}

//! The calendar: the coming week day by day, the loops that are held, and the receipts of the past week.

use super::paging::PagedList;
use super::parts::{
    PageError, badge, date, empty, list, loop_link, moment, moment_ms, problem_box, round_link, section, table, text,
    total,
};
use super::picture::day_line;
use super::{PageContent, PageSource};
use crate::view::time::{day_zone, now_ms};
use crate::web::markup::{Markup, link};
use loopwright_core::cadence::DayZone;
use serde_json::Value;
use std::collections::BTreeMap;

const COMING: PagedList = PagedList { name: "page", size: 50, place: "week" };
const PAST: PagedList = PagedList { name: "past", size: 50, place: "past" };

/// Held loops that are listed.
const HELD_MAX: usize = 20;

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let schedule = source.page_of(COMING, &["schedule", "--days=7"]).await?;
    let receipts = source.page_of(PAST, &["schedule", "--days=1", "--past=7"]).await?;
    let stop = match text(&schedule, "stopped") {
        "" => Markup::default(),
        why => problem_box(&format!("Everything is stopped {why}"), &[]),
    };
    let coming = list(&schedule, "occurrences");
    let week = match total(&schedule) == 0 {
        true => empty("No loop is due in the coming week."),
        false => day_line(list(&schedule, "marks"), now_ms(), 7 * 24).and(source.turn(COMING, &schedule)),
    };
    let mut body = stop.and(section("week", "The coming week", week));
    let held = list(&schedule, "held");
    if !held.is_empty() {
        let row = |one: &Value| {
            vec![loop_link(one), badge(text(one, "receipt")), text(one, "reason").into(), moment(text(one, "until"))]
        };
        let listed = table(&["Loop", "State", "Reason", "Until"], held.iter().take(HELD_MAX).map(row));
        let left = held.len().saturating_sub(HELD_MAX);
        let more = if left > 0 { link("/loops?state=paused", format!("and {left} more")) } else { Markup::default() };
        body = body.and(section("held", "Held loops", listed.and(more)));
    }
    for (day, ones) in by_day(coming, &day_zone()) {
        let row = |one: &&Value| {
            let receipt = one.get("receipt").and_then(Value::as_str).map_or_else(Markup::default, badge);
            vec![date(text(one, "due")), loop_link(one), text(one, "trigger").into(), receipt]
        };
        let listed = table(&["Due", "Loop", "Trigger", "Held back"], ones.iter().map(row));
        body = body.and(section(&format!("day-{day}"), &day, listed));
    }
    let total = receipts.pointer("/past_page/total").and_then(Value::as_u64).unwrap_or_default();
    let turn = source.turn_of(PAST, usize::try_from(total).unwrap_or(usize::MAX));
    body = body.and(section("past", "The past week", past(list(&receipts, "past")).and(turn)));
    Ok(PageContent::new("Calendar", body))
}

/// The due moments of each day of a zone.
fn by_day<'v>(coming: &'v [Value], zone: &DayZone) -> BTreeMap<String, Vec<&'v Value>> {
    let mut days = BTreeMap::<String, Vec<&Value>>::new();
    for one in coming {
        let day = moment_ms(text(one, "due")).map(|at_ms| zone.day(at_ms));
        days.entry(day.unwrap_or_default()).or_default().push(one);
    }
    days
}

/// The fate of each due moment: a round, or the reason why there was none.
fn past(receipts: &[Value]) -> Markup {
    if receipts.is_empty() {
        return empty("No loop was due in the past week.");
    }
    let row = |one: &Value| {
        let times = one.get("count").and_then(Value::as_i64).filter(|count| *count > 1);
        let times = times.map_or_else(Markup::default, |count| Markup::text(&format!(" {count} times")));
        let why = match text(one, "round") {
            "" => text(one, "reason").into(),
            round => round_link(round),
        };
        let receipt = badge(text(one, "receipt")).and(times);
        vec![date(text(one, "due")), loop_link(one), text(one, "trigger").into(), receipt, why]
    };
    table(&["Due", "Loop", "Trigger", "Receipt", "Round or reason"], receipts.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_moments_are_grouped_by_the_days_of_the_zone() {
        let coming = ["2026-05-01T03:30:00Z", "2026-05-01T05:00:00Z"].map(|due| serde_json::json!({"due": due}));
        let days = |zone: &str| {
            let zone = DayZone::find(zone).expect("a zone");
            by_day(&coming, &zone).into_iter().map(|(day, ones)| (day, ones.len())).collect::<Vec<_>>()
        };
        assert_eq!(days("UTC"), [("2026-05-01".to_owned(), 2)]);
        assert_eq!(days("America/New_York"), [("2026-04-30".to_owned(), 1), ("2026-05-01".to_owned(), 1)]);
    }
}

//! The spend: by day, loop, role, model and agent, and every budget with its ceiling.

use super::paging::PagedList;
use super::parts::{
    PageError, badge, count, empty, faint, list, number, problem_box, section, table, text, tokens_of, usd,
};
use super::picture::{bar, columns, share_bar};
use super::{PageContent, PageSource};
use crate::view::time::{now_ms, timestamp};
use crate::web::markup::{Markup, element};
use serde_json::{Value, json};

const BUDGETS: PagedList = PagedList { name: "budgets", size: 25, place: "budgets" };

/// The lists of groups, each with its pages.
const GROUPS: [(&str, &str, PagedList); 4] = [
    ("--by=loop", "By loop", PagedList { name: "loops", size: 25, place: "loop" }),
    ("--by=role", "By role", PagedList { name: "roles", size: 25, place: "role" }),
    ("--by=model", "By model", PagedList { name: "models", size: 25, place: "model" }),
    ("--by=agent", "By agent", PagedList { name: "agents", size: 25, place: "agent" }),
];

/// The days of the picture.
const DAYS: i64 = 30;

const DAY_MS: i64 = 86_400_000;

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let days = source.document(&["costs", "--by=day", "--since=30d"]).await?;
    let budget = source.page_of(BUDGETS, &["budget"]).await;
    let turn = budget.as_ref().map_or_else(|_| Markup::default(), |budget| source.turn(BUDGETS, budget));
    let total = days.get("total").cloned().unwrap_or_default();
    let each = total.get("usd_per_accepted").and_then(Value::as_f64);
    let sum = format!("{} in 30 days, {} rounds", usd(number(&total, "usd")), number(&total, "rounds"));
    let per = each.map_or("no accepted outcome yet".to_owned(), |each| format!("{} per accepted outcome", usd(each)));
    let head = element("p", &[("class", "big")], sum).and(element("p", &[("class", "faint")], per));
    let mut body = element("div", &[("class", "lead")], head)
        .and(section("days", "By day", by_day(&days)))
        .and(section("budgets", "Budgets today", budgets(budget).and(turn)));
    let mut parts = Vec::new();
    for (by, title, paged) in GROUPS {
        let costs = source.page_of(paged, &["costs", by, "--since=30d"]).await;
        let turn = costs.as_ref().map_or_else(|_| Markup::default(), |costs| source.turn(paged, costs));
        parts.push(section(paged.place, title, groups(costs).and(turn)));
    }
    body = body.and(element("div", &[("class", "tables")], parts.into_iter().collect::<Markup>()));
    Ok(PageContent::new("Spend", body))
}

fn by_day(days: &Value) -> Markup {
    let groups = list(days, "groups");
    if groups.is_empty() {
        return empty("Nothing was spent in the last 30 days.");
    }
    let shown = last_days(groups, now_ms());
    let row = |group: &Value| {
        vec![text(group, "key").into(), usd(number(group, "usd")).into(), format!("{}", number(group, "rounds")).into()]
    };
    let spent = shown.iter().rev().filter(|group| number(group, "rounds") > 0.0).take(14);
    columns(&shown).and(forecast(days)).and(table(&["Day", "Money", "Rounds"], spent.map(row)))
}

/// One group for each of the last days, oldest first; a day without rounds has no money.
fn last_days(groups: &[Value], now_ms: i64) -> Vec<Value> {
    let day = |back: i64| {
        let key = timestamp(now_ms.saturating_sub(back * DAY_MS)).get(..10).unwrap_or_default().to_owned();
        let known = groups.iter().find(|group| text(group, "key") == key).cloned();
        known.unwrap_or_else(|| json!({"key": key, "usd": 0.0, "rounds": 0}))
    };
    (0..DAYS).rev().map(day).collect()
}

fn forecast(days: &Value) -> Markup {
    let Some(forecast) = days.get("forecast").filter(|forecast| forecast.is_object()) else { return Markup::default() };
    let (each, month) = (number(forecast, "usd_per_day"), number(forecast, "usd_per_30_days"));
    let words = format!("{} on a day with rounds, so {} in 30 such days.", usd(each), usd(month));
    element("p", &[("class", "faint")], words)
}

fn groups(costs: Result<Value, PageError>) -> Markup {
    let costs = match costs {
        Ok(costs) => costs,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let groups = list(&costs, "groups");
    if groups.is_empty() {
        return empty("Nothing was spent.");
    }
    let most = groups.iter().map(|group| number(group, "usd")).fold(0.0, f64::max);
    let row = |group: &Value| {
        let key = if text(group, "key").is_empty() { "unknown" } else { text(group, "key") };
        let amount = number(group, "usd");
        let each = group.get("usd_per_accepted").and_then(Value::as_f64);
        vec![
            key.into(),
            share_bar(amount, most, &usd(amount)),
            usd(amount).into(),
            count(group.get("tokens").map_or(0.0, tokens_of)).into(),
            format!("{}", number(group, "rounds")).into(),
            each.map_or_else(|| faint("–"), |each| usd(each).into()),
        ]
    };
    table(&["Name", "Share", "Money", "Tokens", "Rounds", "Per accepted"], groups.iter().map(row))
}

fn budgets(budget: Result<Value, PageError>) -> Markup {
    let budget = match budget {
        Ok(budget) => budget,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let row = |scope: &Value| {
        let amount = |place: &str| scope.pointer(place).and_then(Value::as_f64);
        let (spent, ceiling) = (amount("/spent/usd").unwrap_or_default(), amount("/ceiling/usd"));
        let picture = ceiling.map_or_else(|| faint("no ceiling"), |ceiling| bar(spent, ceiling, &usd(spent)));
        vec![
            text(scope, "scope").into(),
            text(scope, "loop").into(),
            badge(text(scope, "status")),
            usd(spent).into(),
            ceiling.map_or_else(|| faint("–"), |ceiling| usd(ceiling).into()),
            picture,
        ]
    };
    let scopes = list(&budget, "scopes");
    if scopes.is_empty() {
        return empty("No budget is known yet.");
    }
    table(&["Scope", "Loop", "State", "Spent", "Ceiling", "Used"], scopes.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_without_rounds_has_its_place_in_the_picture() {
        let groups = [json!({"key": "2026-01-30", "usd": 1.5, "rounds": 2})];
        let days = last_days(&groups, 1_769_904_000_000);
        let keys: Vec<&str> = days.iter().map(|day| text(day, "key")).collect();
        assert_eq!((keys.len(), keys[0], keys[29]), (30, "2026-01-03", "2026-02-01"));
        assert_eq!((number(&days[27], "usd"), number(&days[28], "usd")), (1.5, 0.0));
    }
}

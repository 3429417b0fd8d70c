//! Pictures as SVG, drawn by the server: the stages of a round, bars of amounts, the strip of a loop's rounds. Each has a
//! text for readers who do not see it.

use super::parts::{list, moment_ms, number, span, text, tone};
use crate::view::time::date_and_time;
use crate::web::markup::{Markup, element};
use serde_json::Value;

/// The width of every picture in its own units; the style sheet scales it.
const WIDTH: f64 = 1000.0;

/// Where the time of a round went.
pub(crate) fn time_bar(stages: &[Value]) -> Markup {
    let spans: Vec<(&str, f64)> = stages.iter().map(|one| (text(one, "stage"), number(one, "ms"))).collect();
    let total: f64 = spans.iter().map(|(_, ms)| ms).sum();
    if total <= 0.0 {
        return Markup::default();
    }
    let mut x = 0.0;
    let mut parts = Vec::new();
    for (stage, ms) in &spans {
        let width = ms / total * WIDTH;
        let (at, wide) = (format!("{x:.1}"), format!("{:.1}", width.max(1.0)));
        let class = format!("stage {stage}");
        let name = element("title", &[], format!("{stage}: {}", span(*ms)));
        parts.push(element(
            "rect",
            &[("x", &at), ("y", "0"), ("width", &wide), ("height", "28"), ("class", &class)],
            name,
        ));
        x += width;
    }
    let label = spans.iter().map(|(stage, ms)| format!("{stage} {}", span(*ms))).collect::<Vec<_>>().join(", ");
    let bar = svg("timebar", "0 0 1000 28", &label, parts.into_iter().collect());
    let entry = |(stage, ms): &(&str, f64)| {
        let mark = element("i", &[("class", &format!("key {stage}"))], "");
        element("li", &[], mark.and(format!("{stage} ").into()).and(element("b", &[], span(*ms))))
    };
    bar.and(element("ul", &[("class", "legend")], spans.iter().map(entry).collect::<Markup>()))
}

fn svg(class: &str, view: &str, label: &str, content: Markup) -> Markup {
    let attributes =
        [("class", class), ("viewBox", view), ("preserveAspectRatio", "none"), ("role", "img"), ("aria-label", label)];
    element("svg", &attributes, content)
}

/// The rounds of a loop as a strip, oldest first.
pub(crate) fn history_strip(rounds: &[Value]) -> Markup {
    if rounds.is_empty() {
        return Markup::default();
    }
    #[expect(clippy::cast_precision_loss, reason = "a page has few rounds")]
    let wide = WIDTH / rounds.len().max(20) as f64;
    let mut parts = Vec::new();
    for (at, round) in rounds.iter().rev().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a page has few rounds")]
        let (x, width) = (format!("{:.1}", at as f64 * wide), format!("{:.1}", (wide - 4.0).max(1.0)));
        let title = format!("{} {}", text(round, "round"), text(round, "status"));
        let class = format!("cell {}", tone(text(round, "status")));
        let attributes = [("x", x.as_str()), ("y", "0"), ("width", &width), ("height", "28"), ("class", &class)];
        parts.push(element("rect", &attributes, element("title", &[], title)));
    }
    let label = format!("the last {} rounds, oldest first", rounds.len());
    svg("strip", "0 0 1000 28", &label, parts.into_iter().collect())
}

/// A bar for an amount of a ceiling; a ceiling that is nearly reached has the colour of problems.
pub(crate) fn bar(amount: f64, ceiling: f64, label: &str) -> Markup {
    let part = share_of(amount, ceiling);
    level_bar(part, if part >= 0.8 { "level full" } else { "level" }, label)
}

/// A bar for an amount beside the largest one.
pub(crate) fn share_bar(amount: f64, most: f64, label: &str) -> Markup {
    level_bar(share_of(amount, most), "level", label)
}

fn share_of(amount: f64, whole: f64) -> f64 {
    if whole > 0.0 { (amount / whole).clamp(0.0, 1.0) } else { 0.0 }
}

fn level_bar(part: f64, class: &str, label: &str) -> Markup {
    let wide = format!("{:.1}", part * WIDTH);
    let back = element("rect", &[("x", "0"), ("y", "0"), ("width", "1000"), ("height", "12"), ("class", "back")], "");
    let front = element("rect", &[("x", "0"), ("y", "0"), ("width", &wide), ("height", "12"), ("class", class)], "");
    svg("bar", "0 0 1000 12", label, back.and(front))
}

/// The hours of a day.
pub(crate) const HOURS_OF_A_DAY: i64 = 24;

/// The words below a line, at equal distances.
fn scale(words: &[String]) -> Markup {
    let word = |word: &String| element("span", &[], word.as_str());
    element("div", &[("class", "scale"), ("aria-hidden", "true")], words.iter().map(word).collect::<Markup>())
}

/// The words of a line of hours: hours within a day, days beyond it.
fn hours_scale(hours: i64) -> Markup {
    let (step, unit) = if hours <= HOURS_OF_A_DAY { (6, "h") } else { (HOURS_OF_A_DAY, "d") };
    let shown = |at: i64| if unit == "h" { at } else { at / HOURS_OF_A_DAY };
    let word = |at: i64| if at == 0 { "now".to_owned() } else { format!("+{} {unit}", shown(at)) };
    scale(&(0..=hours / step).map(|one| word(one * step)).collect::<Vec<_>>())
}

/// The moments of the coming hours as marks on a line; a mark can stand for many.
pub(crate) fn day_line(marks: &[Value], from_ms: i64, hours: i64) -> Markup {
    let whole = hours * 3_600_000;
    let mut parts =
        vec![element("rect", &[("x", "0"), ("y", "18"), ("width", "1000"), ("height", "2"), ("class", "back")], "")];
    let mut runs = 0.0;
    for one in marks {
        let Some(at) = moment_ms(text(one, "at")).map(|at| at - from_ms).filter(|at| (0..=whole).contains(at)) else {
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "a picture needs no more precision")]
        let x = format!("{:.1}", at as f64 / whole as f64 * WIDTH);
        let class = if number(one, "held") >= number(one, "count") { "mark held" } else { "mark" };
        let title = element("title", &[], mark_title(one));
        parts.push(element(
            "rect",
            &[("x", &x), ("y", "6"), ("width", "3"), ("height", "26"), ("class", class)],
            title,
        ));
        runs += number(one, "count");
    }
    let label = format!("{runs} runs in the next {hours} hours");
    svg("dayline", "0 0 1000 38", &label, parts.into_iter().collect()).and(hours_scale(hours))
}

fn mark_title(mark: &Value) -> String {
    let at = moment_ms(text(mark, "at")).map(date_and_time).unwrap_or_default();
    match (text(mark, "loop"), number(mark, "count")) {
        ("", count) => format!("{count} runs from {at}"),
        (name, 1.0) => format!("{name} {at}"),
        (name, count) => format!("{name}, {count} times from {at}"),
    }
}

/// Amounts of days as columns, oldest first.
pub(crate) fn columns(groups: &[Value]) -> Markup {
    let most =
        groups.iter().map(|group| group.get("usd").and_then(Value::as_f64).unwrap_or_default()).fold(0.0, f64::max);
    if most <= 0.0 {
        return Markup::default();
    }
    #[expect(clippy::cast_precision_loss, reason = "a page has few days")]
    let wide = WIDTH / groups.len().max(1) as f64;
    let mut parts = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let amount = group.get("usd").and_then(Value::as_f64).unwrap_or_default();
        let high = amount / most * 100.0;
        #[expect(clippy::cast_precision_loss, reason = "a page has few days")]
        let (x, y) = (format!("{:.1}", at as f64 * wide), format!("{:.1}", 110.0 - high));
        let (width, height) = (format!("{:.1}", (wide - 8.0).max(1.0)), format!("{high:.1}"));
        let title = element("title", &[], format!("{}: ${amount:.4}", text(group, "key")));
        parts.push(element(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("class", "level")],
            title,
        ));
    }
    let ends: Vec<String> =
        [groups.first(), groups.last()].iter().flatten().map(|group| text(group, "key").to_owned()).collect();
    let base = element("rect", &[("x", "0"), ("y", "110"), ("width", "1000"), ("height", "1"), ("class", "back")], "");
    let most = element("p", &[("class", "faint chart-top")], format!("highest day: ${most:.2}"));
    let chart = svg("columns", "0 0 1000 112", "spend by day, oldest first", base.and(parts.into_iter().collect()));
    most.and(chart).and(scale(&ends))
}

/// The journal of a round, or of any list under `events`.
pub(crate) fn events_of(document: &Value) -> &[Value] {
    list(document, "events")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_bar_names_each_stage_with_its_time() {
        let bar = time_bar(&[json!({"stage": "make", "ms": 11_000}), json!({"stage": "gate", "ms": 1_000})]);
        assert!(bar.into_text().contains("make: 11.0 s") && time_bar(&[]).is_empty());
    }
}

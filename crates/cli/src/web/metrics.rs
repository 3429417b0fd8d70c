//! Numbers for Prometheus, from the same documents as everything else.

use super::reply::{self, WebReply};
use super::respond::{RouteCall, reply_from};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The kind of the text, as Prometheus names it.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The states of loops, so that a state without a loop is 0 and not absent.
const STATES: [&str; 9] =
    ["idle", "due", "running", "waiting", "paused", "cooling-down", "abandoned", "stopped", "invalid"];

/// A metric: its name, its kind and its meaning.
type Metric = (&'static str, &'static str, &'static str);

const LOOPS: Metric = ("loopwright_loops", "gauge", "Loops by state.");
const INBOX: Metric = ("loopwright_inbox_items", "gauge", "Questions that wait for a person.");
const NOTIFICATIONS: Metric = ("loopwright_notifications", "gauge", "Notifications that are not sent, by state.");

/// The metrics of each loop, and their places in the document of `status`.
const BY_LOOP: [(Metric, &str); 4] = [
    (("loopwright_loop_rounds_total", "counter", "Rounds of a loop."), "/runs"),
    (("loopwright_loop_failures_total", "counter", "Failed rounds of a loop."), "/failures"),
    (("loopwright_loop_spend_today_usd", "gauge", "Money spent today, in US dollars."), "/spend/usd"),
    (("loopwright_loop_spend_today_tokens", "gauge", "Tokens spent today."), "/spend/tokens"),
];

/// All metrics, for the manual.
#[cfg(test)]
pub(crate) fn metrics_reference() -> Vec<Metric> {
    [LOOPS, INBOX, NOTIFICATIONS].into_iter().chain(BY_LOOP.map(|(metric, _)| metric)).collect()
}

/// Reads the documents and writes the numbers.
pub(super) async fn reply(call: &RouteCall<'_>) -> WebReply {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let status = call.run(words(&["--json", "status", "--all"])).await;
    let inbox = call.run(words(&["--json", "inbox"])).await;
    let sent = call.run(words(&["--json", "notifications"])).await;
    match (status, inbox, sent) {
        (Ok(status), Ok(inbox), Ok(sent)) => {
            let read = |answer: &crate::control::FaceAnswer| answer.document().unwrap_or_default();
            reply::text(KIND, numbers(&read(&status), &read(&inbox), &read(&sent)))
        }
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => reply_from(Err(error)),
    }
}

fn numbers(status: &Value, inbox: &Value, notifications: &Value) -> String {
    let empty = Vec::new();
    let loops = status["loops"].as_array().unwrap_or(&empty);
    let mut page = String::new();
    let mut states: BTreeMap<&str, u64> = STATES.iter().map(|state| (*state, 0)).collect();
    for line in loops {
        *states.entry(line["status"].as_str().unwrap_or("invalid")).or_default() += 1;
    }
    heading(&mut page, &LOOPS);
    for (state, count) in &states {
        let _ = writeln!(page, "loopwright_loops{{state=\"{state}\"}} {count}");
    }
    heading(&mut page, &INBOX);
    let waiting = inbox["page"]["total"].as_u64().unwrap_or_default();
    let _ = writeln!(page, "loopwright_inbox_items {waiting}");
    heading(&mut page, &NOTIFICATIONS);
    for state in ["failed", "waiting"] {
        let count = notifications[state].as_u64().unwrap_or_default();
        let _ = writeln!(page, "loopwright_notifications{{state=\"{state}\"}} {count}");
    }
    for (metric, place) in &BY_LOOP {
        let (name, ..) = metric;
        heading(&mut page, metric);
        for line in loops {
            let value = line.pointer(place).and_then(Value::as_f64).unwrap_or_default();
            let (repo, own) = (label(&line["repo"]), label(&line["loop"]));
            let _ = writeln!(page, "{name}{{repo=\"{repo}\",loop=\"{own}\"}} {value}");
        }
    }
    page
}

fn heading(page: &mut String, (name, kind, about): &Metric) {
    let _ = writeln!(page, "# HELP {name} {about}\n# TYPE {name} {kind}");
}

/// The value of a label, escaped as the format requires.
fn label(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_loops_cannot_break_a_line() {
        let status = json!({"loops": [{"loop": "a\"\n\\", "repo": null, "status": "idle", "runs": 3, "failures": 1,
            "spend": {"usd": 0.25, "tokens": 7}}]});
        let page = numbers(&status, &json!({"page": {"total": 1}}), &json!({"failed": 2}));
        assert!(page.contains("loopwright_loop_rounds_total{repo=\"\",loop=\"a\\\"\\n\\\\\"} 3\n"), "{page}");
        assert!(page.contains("loopwright_loops{state=\"idle\"} 1\n") && page.contains("loopwright_inbox_items 1\n"));
        assert!(page.contains("loopwright_notifications{state=\"failed\"} 2\n"), "{page}");
        assert!(page.lines().all(|line| line.starts_with('#') || line.rsplit_once(' ').is_some()), "{page}");
    }
}

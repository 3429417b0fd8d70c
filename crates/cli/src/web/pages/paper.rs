//! Reports as one HTML file: the same parts as the pages, with the style inside and nothing to load, no script, no link to
//! a server, and everything open, so that it can be sent and printed.

use super::parts::{self, PageError, badge, list, problem_box, text};
use super::picture::share_bar;
use super::{STYLE, round};
use crate::view::time::{date_and_time, now_ms};
use crate::web::markdown::{self, HeadingForm};
use crate::web::markup::{Markup, element};
use serde_json::Value;

/// The documents of one round.
pub(crate) struct RoundSources {
    /// The document of `show`.
    pub(crate) round: Value,
    /// The document of `logs`.
    pub(crate) journal: Value,
    /// The document of `diff`; an error text if there is no change.
    pub(crate) change: Result<Value, String>,
    /// The document of `why`.
    pub(crate) why: Value,
}

/// The report of a round.
pub(crate) fn round_report(sources: RoundSources) -> String {
    let RoundSources { round, journal, change, why } = sources;
    let name = format!("Round {} of {}", text(&round, "round"), text(&round, "loop"));
    let title = element("h1", &[], name.as_str()).and(badge(text(&round, "status")));
    let notes = list(&round, "notes");
    let notes =
        if notes.is_empty() { Markup::default() } else { parts::section("notes", "Notes", parts::texts(notes)) };
    let change = change.map_err(PageError::not_found);
    let body = element("div", &[("class", "title")], title)
        .and(element("p", &[("class", "intent")], text(&round, "intent")))
        .and(decision(&round))
        .and(round::known(&round, parts::date))
        .and(parts::section("why", "Why", round::reasons(&round, Ok(why))))
        .and(notes)
        .and(parts::section("gates", "Gates", round::gates(&round)))
        .and(parts::section("verdict", "Verdict", round::verdict(&round)))
        .and(parts::section("diff", "Change", round::change_part(change, &round)))
        .and(parts::section("outbox", "Items", round::outbox(&round)))
        .and(parts::section("time", "Where the time went", round::time(&journal)))
        .and(parts::section("spend", "Spend", round::spend(&round)))
        .and(parts::section("boundary", "Isolation", round::boundary(&round)))
        .and(parts::section("journal", "Journal", round::journal_part(&journal, parts::date)));
    file(&name, body)
}

/// A decision that the round waits for comes first.
fn decision(round: &Value) -> Markup {
    match text(round, "status") {
        "waiting" => problem_box(
            "This round waits for your decision.",
            &[
                format!("loopwright approve {0}", text(round, "round")),
                format!("loopwright deny {} --why TEXT", text(round, "round")),
            ],
        ),
        _ => Markup::default(),
    }
}

/// The money of one loop, for the picture of a digest.
pub(crate) struct LoopSpend {
    pub(crate) name: String,
    pub(crate) usd: f64,
}

/// The digest: its Markdown, and a picture of the spend.
pub(crate) fn digest(text: &str, spend: &[LoopSpend]) -> String {
    let most = spend.iter().map(|one| one.usd).fold(0.0, f64::max);
    let line = |one: &LoopSpend| {
        let label = format!("{}: {}", one.name, parts::usd(one.usd));
        element("div", &[("class", "amount")], element("p", &[], label.as_str()).and(share_bar(one.usd, most, &label)))
    };
    let lines: Markup = spend.iter().map(line).collect();
    let picture = if lines.is_empty() { lines } else { parts::section("spend", "Spend by loop", lines) };
    let words = element("section", &[("class", "md")], markdown::render(text, HeadingForm::Document));
    file("Loopwright digest", words.and(picture))
}

/// The whole file. Its policy allows the style inside it and nothing else.
fn file(title: &str, body: Markup) -> String {
    let head = Markup::fixed(
        "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\"><style>",
    )
    .and(Markup::fixed(STYLE))
    .and(Markup::fixed("</style>"))
    .and(element("title", &[], title));
    let written = format!("Written by Loopwright {} on {}.", env!("CARGO_PKG_VERSION"), date_and_time(now_ms()));
    let main = element("main", &[], body.and(element("p", &[("class", "faint")], written)));
    let html = element("html", &[("lang", "en")], element("head", &[], head).and(element("body", &[], main)));
    let html = Markup::fixed("<!doctype html>\n").and(html).into_text();
    // Foreign text is escaped, so that these can only be our own tags.
    html.replace(" open=\"open\"", "").replace("<details ", "<details open ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_one_inert_file() {
        let round = json!({"round": "r1", "loop": "<script>x</script>", "status": "waiting", "outcome": "escalated", "intent": "<img src=x>",
            "started": "2026-01-01T00:00:00Z", "gates": [{"name": "test", "status": "passed", "excerpt": "<b>ok</b>", "evidence": []}],
            "notes": ["<script>"], "agent_report": "[a](javascript:x)"});
        let change = json!({"round": "r1", "diff": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+<script>\n", "files": []});
        let html = round_report(RoundSources {
            round,
            journal: json!({"events": []}),
            change: Ok(change),
            why: json!({"because": ["b"]}),
        });
        for bad in ["<script", "<img", "<link", "href=\"javascript", "href=\"/", "url("] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert!(html.contains("loopwright approve r1") && html.contains("<details open class=\"dfile\""), "{html}");
        assert_eq!(html.matches("<details ").count(), html.matches("<details open ").count());
    }
}

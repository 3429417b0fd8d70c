//! The inbox: everything that waits for a person, the riskiest first, with the change and the items in place. An answer
//! carries the candidate that the page showed, so that a candidate that moved is not approved.

use super::diff::{self, CitedLines};
use super::items;
use super::paging::PagedList;
use super::parts::{
    PageError, badge, details_of, empty, facts, faint, list, loop_link, moment, round_link, text, total,
};
use super::{FieldNeed, PageContent, PageSource, field};
use crate::web::access::AccessRole;
use crate::web::markdown::{self, HeadingForm};
use crate::web::markup::{Markup, element, path_with};
use crate::web::pages::parts::hidden;
use serde_json::Value;

/// Each question has its change. A person who answered these sees the next ones.
const QUESTIONS: PagedList = PagedList { name: "page", size: 10, place: "keys" };

const KEYS: &str = "Keys: j and k move between questions, a approves the marked one, d denies it, ? shows this line.";

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let inbox = source.page_of(QUESTIONS, &["inbox", "--sort=risk"]).await?;
    let count = total(&inbox);
    if count == 0 {
        let more = element("p", &[("class", "faint")], "A candidate that needs a decision appears here by itself.");
        return Ok(PageContent::new("Inbox", empty("Nothing waits for you.").and(more)));
    }
    let mut body = element("p", &[("class", "faint keys"), ("id", "keys")], KEYS);
    for item in list(&inbox, "items") {
        body = body.and(question(source, item).await);
    }
    Ok(PageContent::new(format!("Inbox ({count})"), body.and(source.turn(QUESTIONS, &inbox))))
}

async fn question(source: &PageSource<'_>, item: &Value) -> Markup {
    let (id, round, candidate) = (text(item, "id"), text(item, "round"), text(item, "candidate"));
    let known = facts(vec![
        ("Loop", loop_link(item)),
        ("Round", round_link(round)),
        ("Kind", text(item, "kind").into()),
        ("Expires", moment(text(item, "expires"))),
        ("Candidate", element("code", &[("title", candidate)], candidate.get(..12).unwrap_or("–"))),
    ]);
    let proposal = if round.is_empty() { Markup::default() } else { proposal(source, round).await };
    let risk = element("p", &[("class", "risk")], badge(text(item, "risk")).and(" risk".into()));
    let content =
        risk.and(element("h2", &[], text(item, "summary"))).and(known).and(answers(source, item)).and(proposal);
    let place = if round.is_empty() { format!("q-{id}") } else { format!("q-{round}") };
    let class = format!("question {}", super::parts::tone(text(item, "risk")));
    let attributes = [("class", class.as_str()), ("id", &place), ("tabindex", "-1"), ("data-candidate", candidate)];
    element("article", &attributes, content)
}

/// The machine's facts, the items as they would be sent, and the change; the agent's own words are last and closed.
async fn proposal(source: &PageSource<'_>, round: &str) -> Markup {
    let change = match source.document(&["diff", "--", round]).await {
        Ok(change) => change,
        Err(error) => return empty(&error.text),
    };
    let report = source.document(&["show", "--", round]).await.unwrap_or_default();
    let gate = |gate: &Value| {
        let words = format!(" {}", text(gate, "name"));
        element("li", &[], badge(text(gate, "status")).and(words.into()))
    };
    let verdict = report.get("verdict").map_or("", |verdict| text(verdict, "verdict"));
    let verdict = match verdict {
        "" => Markup::default(),
        word => element("li", &[], badge(word).and(" verdict of the checker".into())),
    };
    let note = |note: &Value| element("li", &[("class", "warn")], note.as_str().unwrap_or_default());
    let gates: Markup = list(&report, "gates").iter().map(gate).collect();
    let notes: Markup = list(&report, "notes").iter().map(note).collect();
    let checks = element("ul", &[("class", "checks")], gates.and(verdict));
    let notes = if notes.is_empty() { notes } else { element("ul", &[], notes) };
    let cited: CitedLines = super::round::citations(&report);
    let words = match text(&report, "agent_report") {
        "" => Markup::default(),
        words => {
            let words = element("div", &[("class", "md")], markdown::render(words, HeadingForm::Inside));
            details_of(round, "The agent's own report", words)
        }
    };
    let title = |title: &'static str| element("h3", &[], title);
    checks
        .and(notes)
        .and(title("It would send"))
        .and(items::cards(&report))
        .and(title("Change"))
        .and(diff::change(&change, &cited))
        .and(words)
}

fn answers(source: &PageSource<'_>, item: &Value) -> Markup {
    let id = text(item, "id");
    match text(item, "kind") {
        "approval" | "in-doubt" => {}
        "loop-paused" => {
            let path = path_with(&["api", "v1", "loops", id, "resume"]);
            return source.button(AccessRole::Operate, &path, "/inbox", "Resume the loop", Markup::default());
        }
        _ => return faint("see the command line: loopwright inbox"),
    }
    if !source.may(AccessRole::Approve) {
        return faint("your role may not answer");
    }
    let path = |verb: &str| path_with(&["api", "v1", "inbox", id, verb]);
    let candidate = match text(item, "candidate") {
        "" => "none",
        candidate => candidate,
    };
    let yes = if text(item, "kind") == "approval" { "Approve" } else { "It arrived" };
    let no = if text(item, "kind") == "approval" { "Deny" } else { "It did not arrive" };
    let seen = hidden("candidate", candidate);
    let approve = source.button(AccessRole::Approve, &path("approve"), "/inbox", yes, seen);
    let seen = hidden("candidate", candidate);
    let why = field("why", "Reason", "makers of later rounds see it", FieldNeed::Required);
    let deny = source.button(AccessRole::Approve, &path("deny"), "/inbox", no, seen.and(why));
    let hold = match text(item, "kind") {
        "approval" => {
            let seen = hidden("candidate", candidate);
            source.button(AccessRole::Approve, &path("hold"), "/inbox", "Hold for 7 days", seen)
        }
        _ => Markup::default(),
    };
    element("div", &[("class", "actions answers")], approve.and(deny).and(hold))
}

//! Items as people see them on the forge: title, text, branch, labels and comments, and below it the state of the delivery.

use super::parts::{badge, empty, list, text};
use crate::web::markdown::{self, HeadingForm};
use crate::web::markup::{Markup, element, outside_link};
use serde_json::Value;

/// The items of a round: each as the forge receives it, with the state and the receipt of its delivery.
pub(super) fn cards(round: &Value) -> Markup {
    let (staged, whole) = (list(round, "outbox"), list(round, "would_send"));
    let mut lines: Vec<&Value> = staged.iter().filter(|line| text(line, "kind") != "report").collect();
    if whole.is_empty() && lines.is_empty() {
        return empty("It sends nothing.");
    }
    let card_of = |item: &Value| {
        let is_its =
            |line: &&Value| text(line, "kind") == text(item, "kind") && text(line, "target") == text(item, "target");
        let line = lines.iter().position(is_its).map(|at| lines.remove(at));
        card(item, line)
    };
    let cards: Markup = whole.iter().map(card_of).collect();
    // An item of an earlier attempt has no text in the document.
    let others: Markup = lines.into_iter().map(|line| card(line, Some(line))).collect();
    element("div", &[("class", "posts")], cards.and(others))
}

fn card(item: &Value, line: Option<&Value>) -> Markup {
    let is_draft = item.get("draft").and_then(Value::as_bool) == Some(true);
    let kind = if is_draft { format!("draft {}", text(item, "kind")) } else { text(item, "kind").to_owned() };
    let title = match (text(item, "title"), text(item, "target")) {
        ("", "") => Markup::default(),
        ("", target) => element("b", &[], format!("on {target}")),
        (title, _) => element("b", &[("class", "post-title")], title),
    };
    let head = element("p", &[("class", "post-head")], badge(&kind).and(" ".into()).and(title));
    let label = |label: &Value| element("span", &[("class", "pill")], label.as_str().unwrap_or_default());
    let pills: Markup = list(item, "labels").iter().map(label).collect();
    let branch = match text(item, "branch") {
        "" => Markup::default(),
        branch => Markup::text("branch ").and(element("code", &[], branch)).and(" ".into()),
    };
    let review = match text(item, "review") {
        "" => Markup::default(),
        review => Markup::text(&format!("review: {review} ")),
    };
    let facts = branch.and(review).and(pills);
    let facts = if facts.is_empty() { facts } else { element("p", &[("class", "faint post-facts")], facts) };
    let body = match text(item, "body") {
        "" => Markup::default(),
        body => element("div", &[("class", "md")], markdown::render(body, HeadingForm::Inside)),
    };
    let comment = |comment: &Value| {
        let place =
            format!("{}:{}", text(comment, "path"), comment.get("line").and_then(Value::as_u64).unwrap_or_default());
        element("li", &[], element("code", &[], place).and(" ".into()).and(text(comment, "body").into()))
    };
    let comments: Markup = list(item, "comments").iter().map(comment).collect();
    let comments = if comments.is_empty() { comments } else { element("ul", &[], comments) };
    element("article", &[("class", "post")], head.and(facts).and(body).and(comments).and(delivery(line)))
}

fn delivery(line: Option<&Value>) -> Markup {
    let Some(line) = line else { return Markup::default() };
    let receipt = match text(line, "receipt") {
        "" => Markup::default(),
        receipt => Markup::text(" ").and(outside_link(receipt)),
    };
    element("p", &[("class", "post-foot")], badge(text(line, "state")).and(receipt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_is_shown_as_the_forge_shows_it_with_its_receipt() {
        let round = json!({
            "outbox": [{"kind": "report", "state": "sent"}, {"kind": "pull-request", "target": null, "state": "sent", "receipt": "https://forge.example/1"},
                {"kind": "label", "target": "7", "state": "staged", "receipt": null}],
            "would_send": [{"kind": "pull-request", "target": null, "title": "Fix <b>", "body": "# Why\n\n- one\n<!-- marker -->", "labels": ["bug"],
                "comments": [], "branch": "loop/fix", "draft": true}],
        });
        let html = cards(&round).into_text();
        for needed in [
            "draft pull-request",
            "Fix &lt;b&gt;",
            "<li>one</li>",
            "loop/fix",
            "bug",
            "href=\"https://forge.example/1\"",
            "on 7",
        ] {
            assert!(html.contains(needed), "{needed}: {html}");
        }
        assert!(!html.contains("marker") && html.matches("<article").count() == 2, "{html}");
        assert!(cards(&json!({"outbox": [], "would_send": []})).into_text().contains("sends nothing"));
    }
}

//! A Slack message as Block Kit. Every text is escaped, and links are not expanded, so that an agent's words cannot
//! mention people, run commands or load images.

use super::SlackPost;
use loopwright_core::deliver::{COST_FACT, Delivery, QuestionPart};
use serde_json::{Value, json};

/// Slack's limit for the text of a block is 3000 characters.
const BLOCK_CHARS_MAX: usize = 2900;
/// Slack's limit for a message is 50 blocks; the last ones are the facts and the buttons.
const TEXT_BLOCKS_MAX: usize = 45;
/// The text of notifications.
const SUMMARY_CHARS_MAX: usize = 300;

/// Buttons below a message. The values return in the request that Slack sends when a person presses one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackButtons {
    /// The value of "Approve".
    pub approve: String,
    /// The value of "Deny".
    pub deny: String,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlackMessage {
    /// The text.
    pub text: String,
    /// The line below the text: the message's origin.
    pub origin: String,
    /// The key by which the message is found again.
    pub key: Option<String>,
    /// The time of the message whose thread it answers in.
    pub thread: Option<String>,
    /// Buttons for a decision.
    pub buttons: Option<SlackButtons>,
}

/// The loop, the round and the cost of an item.
fn origin(item: &Delivery) -> String {
    let cost = item.facts.iter().find(|fact| fact.name == COST_FACT);
    let cost = cost.map_or(String::new(), |cost| format!(" · cost {}", cost.value));
    format!("loop {} · round {}{cost}", item.loop_name, item.round)
}

impl SlackMessage {
    /// The message of an item.
    #[must_use]
    pub fn for_item(item: &Delivery) -> Self {
        Self {
            text: item.item.body.clone(),
            origin: origin(item),
            key: Some(item.key.clone()),
            thread: match &item.question {
                Some(QuestionPart::Reply { place }) => SlackPost::at(place).map(|post| post.ts),
                Some(QuestionPart::Ask { .. } | QuestionPart::Close { .. }) | None => None,
            },
            buttons: match &item.question {
                Some(QuestionPart::Ask { value }) => Some(SlackButtons { approve: value.clone(), deny: value.clone() }),
                Some(QuestionPart::Reply { .. } | QuestionPart::Close { .. }) | None => None,
            },
        }
    }

    /// The JSON without the channel.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut blocks: Vec<Value> = chunks(&self.text).into_iter().map(|text| section(&text)).collect();
        if !self.origin.is_empty() {
            blocks.push(json!({ "type": "context", "elements": [markdown(&self.origin)] }));
        }
        if let Some(buttons) = &self.buttons {
            let button = |text: &str, style: &str, action: &str, value: &str| {
                json!({
                    "type": "button", "style": style, "action_id": action, "value": value,
                    "text": { "type": "plain_text", "text": text },
                })
            };
            blocks.push(json!({ "type": "actions", "elements": [
                button("Approve", "primary", "loopwright_approve", &buttons.approve),
                button("Deny", "danger", "loopwright_deny", &buttons.deny),
            ] }));
        }
        let summary: String = self.text.chars().take(SUMMARY_CHARS_MAX).collect();
        let mut body = json!({
            "text": escape(&summary), "blocks": blocks, "mrkdwn": false,
            "link_names": false, "unfurl_links": false, "unfurl_media": false,
        });
        if let Some(key) = &self.key {
            body["metadata"] = json!({ "event_type": "loopwright_item", "event_payload": { "key": key } });
        }
        if let Some(thread) = &self.thread {
            body["thread_ts"] = json!(thread);
        }
        body
    }
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": markdown(text) })
}

/// `verbatim` keeps Slack from turning names, channels and addresses into links.
fn markdown(text: &str) -> Value {
    json!({ "type": "mrkdwn", "text": escape(text), "verbatim": true })
}

/// Escapes the characters that begin Slack's links and mentions.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The text in parts that fit into blocks, cut at line ends where possible. The escaped form counts.
fn chunks(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut length) = (Vec::new(), String::new(), 0);
    for c in text.trim().chars() {
        let width = match c {
            '&' => 5,
            '<' | '>' => 4,
            _ => 1,
        };
        let is_full = length + width > BLOCK_CHARS_MAX;
        if is_full || (c == '\n' && length > BLOCK_CHARS_MAX * 3 / 4) {
            parts.push(std::mem::take(&mut part));
            length = 0;
        }
        if c != '\n' || !part.is_empty() {
            part.push(c);
            length += width;
        }
    }
    parts.push(part);
    parts.retain(|part| !part.trim().is_empty());
    if parts.len() > TEXT_BLOCKS_MAX {
        parts.truncate(TEXT_BLOCKS_MAX - 1);
        parts.push("The text is cut here: it exceeds Slack's limit.".to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_agent_cannot_mention_link_or_load_anything() {
        let message =
            SlackMessage { text: "<!channel> <@U1> <https://x|y> a & b".to_owned(), ..SlackMessage::default() };
        let body = message.body();
        assert_eq!(body["blocks"][0]["text"]["text"], "&lt;!channel&gt; &lt;@U1&gt; &lt;https://x|y&gt; a &amp; b");
        assert_eq!(body["blocks"][0]["text"]["verbatim"], true);
        assert_eq!(body["unfurl_links"], false);
        assert!(!body["text"].as_str().is_some_and(|text| text.contains('<')));
    }

    #[test]
    fn long_text_stays_within_the_limits_of_slack() {
        for text in ["<&> ".repeat(100_000), "line\n".repeat(100_000)] {
            let body = SlackMessage { text, origin: "o".to_owned(), ..SlackMessage::default() }.body();
            let blocks = body["blocks"].as_array().expect("blocks");
            assert!(blocks.len() <= 50, "{}", blocks.len());
            assert!(blocks.iter().all(|block| block["text"]["text"].as_str().is_none_or(|text| text.len() <= 3000)));
        }
        let whole = chunks(&"word\n".repeat(1000));
        assert_eq!(whole.join("\n").matches("word").count(), 1000);
    }

    #[test]
    fn buttons_and_thread_are_part_of_the_message() {
        let buttons = SlackButtons { approve: "a1".to_owned(), deny: "d1".to_owned() };
        let message = SlackMessage {
            text: "Ship?".to_owned(),
            buttons: Some(buttons),
            thread: Some("1.2".to_owned()),
            ..SlackMessage::default()
        };
        let body = message.body();
        assert_eq!(body["thread_ts"], "1.2");
        assert_eq!(body["blocks"][1]["elements"][0]["value"], "a1");
        assert_eq!(body["blocks"][1]["elements"][1]["action_id"], "loopwright_deny");
    }
}

//! Questions with buttons in Slack, and presses that a daemon receives.

use crate::world::{AskingWorld, ListeningDaemon, SECRET, now, until};
use loopwright_testkit::FakeSlack;
use loopwright_testkit::fake_slack::{send_signed, send_with, slack_signature};
use serde_json::{Value, json};

const ASK: &str = "approvals: { ask: [slack] }\n";
const APPROVE: &str = "loopwright_approve";
const DENY: &str = "loopwright_deny";

/// The round and its question in Slack, with a daemon.
fn asked(world: &AskingWorld) -> (String, ListeningDaemon, Value) {
    let daemon = ListeningDaemon::start(world);
    let round = world.escalate();
    until("the question is asked", || !world.slack.messages().is_empty());
    (round, daemon, world.slack.messages()[0].clone())
}

fn ends(world: &AskingWorld, round: &str) -> String {
    until("the round ends", || !matches!(world.show(round).0.as_str(), "escalated" | "none"));
    world.show(round).0
}

/// The replies in the thread of the question.
fn replies(world: &AskingWorld) -> Vec<String> {
    let messages = world.slack.messages();
    let threads = messages.iter().filter(|message| !message["thread_ts"].is_null());
    threads.map(|message| message["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_button_approves_once_and_the_message_shows_the_decision() {
    let world = AskingWorld::new("github", ASK);
    let (round, daemon, message) = asked(&world);
    let text = message.to_string();
    for part in
        ["gates: tests passed", "sends: pull-request", "risk: medium", "files changed: 1", APPROVE, DENY, &round]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("@all"), "{text}");
    let (seconds, body) = (now(), FakeSlack::press(&message, APPROVE, "U0GRACE"));
    assert_eq!(send_signed(&daemon.address, SECRET, seconds, &body), "HTTP/1.1 200 OK recorded");
    assert_eq!(send_signed(&daemon.address, SECRET, seconds, &body), "HTTP/1.1 200 OK known already", "a replay");
    assert_eq!(ends(&world, &round), "shipped", "{}", daemon.said());
    assert!(world.show(&round).1.to_string().contains("approved by grace"));
    until("the message shows the decision", || world.slack.messages()[0].to_string().contains("Outcome: shipped"));
    let message = world.slack.messages()[0].clone();
    assert!(!message.to_string().contains(APPROVE), "no buttons any more: {message}");
    assert_eq!(world.remote().pulls().len(), 1);
    assert!(replies(&world).is_empty(), "{:?}", replies(&world));
}

#[test]
fn further_messages_of_a_round_answer_in_the_thread_of_its_first_one() {
    let world = AskingWorld::new("github", "");
    let front = "---\nname: news\nintent: Say what happened.\nlevel: L2\noutput: [{ slack: { max: 3 } }]\nagents: { maker: { \
                 use: scripted, script: news.script } }\n---\n# Maker\nSay what happened.\n";
    let script = "@ maker\nstage 01-slack.md \"Two things happened.\"\nstage 02-slack.md \"The first.\"\nstage \
                  03-slack.md \"The second.\"\n\n@ checker\nverdict pass correctness=5@item:01-slack.md:1 \
                  scope=5@item:01-slack.md:1\n";
    world.repo.write(".loopwright/loops/news.md", front).write(".loopwright/news.script", script).commit("news");
    for sent in 1..=2 {
        let ran = world.run(&["run", "news", "--json"]).code(10).json();
        let _ = world.run(&["approve", ran["round"].as_str().expect("a round")]).success();
        let messages = world.slack.messages();
        assert_eq!(messages.len(), 3 * sent, "{messages:?}");
        let [first, further @ ..] = &messages[3 * (sent - 1)..] else { panic!("{messages:?}") };
        assert!(first["thread_ts"].is_null() && first["text"] == "Two things happened.", "{first}");
        assert!(further.iter().all(|message| message["thread_ts"] == first["ts"]), "{messages:?}");
    }
}

#[test]
fn requests_without_a_valid_signature_have_no_effect() {
    let world = AskingWorld::new("github", ASK);
    let (round, daemon, message) = asked(&world);
    let body = FakeSlack::press(&message, APPROVE, "U0GRACE");
    let good = slack_signature(SECRET, now(), &body);
    let table = [
        ("bad signature", slack_signature("another-secret-of-many-bytes", now(), &body), now()),
        ("old timestamp", slack_signature(SECRET, now() - 400, &body), now() - 400),
        ("timestamp of the future", slack_signature(SECRET, now() + 400, &body), now() + 400),
        ("another time than the signed one", good.clone(), now() - 100),
        ("no signature", String::new(), now()),
    ];
    for (name, signature, seconds) in table {
        let answer = send_with(&daemon.address, &signature, seconds, &body);
        assert!(answer.starts_with("HTTP/1.1 401"), "{name}: {answer}");
    }
    let large = format!("payload={}", "x".repeat(2 << 20));
    let answer = send_signed(&daemon.address, SECRET, now(), &large);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "too large: {answer}");
    assert!(send_signed(&daemon.address, SECRET, now(), "payload=%7B%7D").contains("no button"));
    let (outcome, reasons) = world.show(&round);
    assert_eq!(outcome, "escalated", "{reasons}");
}

#[test]
fn presses_that_do_not_count_get_one_reply_in_the_thread() {
    let world = AskingWorld::new("github", "approvers: [grace]\napprovals: { ask: [slack] }\n");
    let (round, daemon, message) = asked(&world);
    let value = message.to_string();
    let question = value.split("slack-").nth(1).map(|rest| format!("slack-{}", &rest[..32])).expect("a question");
    let stale = FakeSlack::press_value(json!(format!("{question} {}", "0".repeat(64))), APPROVE, "U0GRACE");
    let table = [
        ("wrong person", FakeSlack::press(&message, APPROVE, "U0ADA"), "`ada` may not approve"),
        ("unmapped person", FakeSlack::press(&message, DENY, "U0EVE"), "no person in `people`"),
        ("another candidate", stale, "a different candidate"),
    ];
    for (at, (name, body, expected)) in table.into_iter().enumerate() {
        assert_eq!(send_signed(&daemon.address, SECRET, now(), &body), "HTTP/1.1 200 OK recorded", "{name}");
        until("the reply", || replies(&world).len() > at);
        assert!(replies(&world)[at].contains(expected), "{name}: {:?}", replies(&world));
    }
    assert_eq!(world.show(&round).0, "escalated");
    daemon.wait_for("the answer of u0eve on slack does not count");
    assert_eq!(replies(&world).len(), 3);
}

#[test]
fn a_question_survives_a_restart_of_the_daemon_and_an_answer_given_twice_counts_once() {
    let world = AskingWorld::new("github", "approvals: { ask: [slack, forge], quorum: 2 }\n");
    let (round, daemon, message) = asked(&world);
    drop(daemon);
    let daemon = ListeningDaemon::start(&world);
    assert!(daemon.press(&message, APPROVE, "U0GRACE").ends_with("recorded"));
    until("the first approval", || world.show(&round).1.to_string().contains("approved by grace (1 of 2)"));
    assert!(daemon.press(&message, APPROVE, "U0GRACE").ends_with("recorded"));
    until("the reply", || replies(&world).len() == 1);
    assert!(replies(&world)[0].contains("`grace` has already approved"), "{:?}", replies(&world));
    until("the question on the forge", || !world.remote().issues().is_empty());
    assert_eq!(world.slack.messages().iter().filter(|message| message["thread_ts"].is_null()).count(), 1);
    world.remote().comment(1, "ada", "/approve");
    drop(daemon);
    let _ = world.tick();
    assert_eq!(world.show(&round).0, "shipped", "{}", world.show(&round).1);
}

#[test]
fn a_denial_in_slack_has_a_fixed_reason() {
    let world = AskingWorld::new("github", ASK);
    let (round, daemon, message) = asked(&world);
    assert!(daemon.press(&message, DENY, "U0ADA").ends_with("recorded"));
    assert_eq!(ends(&world, &round), "rejected");
    assert!(world.show(&round).1.to_string().contains("denied by ada: denied on slack by ada"));
}

#[test]
fn doctor_checks_the_token_the_scopes_the_secret_and_the_people() {
    let world = AskingWorld::new("github", ASK);
    let line = |name: &str| {
        let ran = world.run(&["doctor", "--json"]).success().json();
        let checks = ran["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        (found["status"].as_str().unwrap_or_default().to_owned(), found["text"].to_string())
    };
    for name in ["slack token", "slack scopes", "slack signing-secret", "people accounts"] {
        assert_eq!(line(name).0, "ok", "{name}");
    }
    assert!(line("people accounts").1.contains("ada (os, slack, work)"), "{:?}", line("people accounts"));
    world.slack.set_scopes("chat:write");
    assert_eq!(line("slack scopes").0, "gap");
    world.slack.set_scopes("users:read");
    assert_eq!(line("slack scopes").0, "missing");
    std::fs::write(world.env.root().join("slack"), "xoxb-wrong").expect("a token");
    assert_eq!(line("slack token").0, "missing");
    assert!(!world.run(&["doctor"]).success().stdout().contains("xoxb-wrong"));
}

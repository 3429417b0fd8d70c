//! Journals written by earlier builds, event by event as they were stored. Today's rules must read every one of them and come
//! to the same end; a change that cannot needs an explicit upcast.

use loopwright_core::actor::Actor;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, PersonSaid, Phase, Round, step};

fn replayed(journal: &str) -> Round {
    let events = journal.lines().map(|line| serde_json::from_str::<Event>(line).expect("an old event reads"));
    Round::replay(events.collect::<Vec<_>>()).expect("an old history fits together").round
}

#[test]
fn a_round_that_shipped_under_version_one_has_shipped() {
    let round = replayed(include_str!("recorded/v1-shipped.jsonl"));
    assert_eq!(*round.phase(), Phase::Ended(RoundOutcome::Shipped));
    assert_eq!(round.facts().deliveries.len(), 2);
    assert_eq!(round.facts().spend.tokens.total(), 120);
}

/// Fields in any order.
fn value(line: &str) -> serde_json::Value {
    serde_json::from_str(line).expect("a line is JSON")
}

#[test]
fn stored_events_are_written_back_to_the_same_text() {
    let roles = [
        ("maker-started", "role-started", "maker"),
        ("made", "role-ended", "maker"),
        ("checker-started", "role-started", "checker"),
        ("checked", "role-ended", "checker"),
    ];
    let mut converted = 0;
    assert!(include_str!("recorded/v1-shipped.jsonl").lines().count() > 10);
    for line in include_str!("recorded/v1-shipped.jsonl").lines() {
        let event: Event = serde_json::from_str(line).expect("an old event reads");
        let written = serde_json::to_string(&event).expect("it writes");
        let mut old = value(line);
        match roles.iter().find(|(kind, ..)| old["event"] == *kind) {
            Some((_, kind, role)) => {
                converted += 1;
                (old["event"], old["role"]) = ((*kind).into(), (*role).into());
                assert_eq!(value(&written), old);
            }
            None => assert_eq!(written, line),
        }
    }
    assert_eq!(converted, 4, "one of each old kind");
}

/// A journal that an earlier build left waiting: its agents have kinds of their own, its question no moments.
#[test]
fn a_round_that_waited_under_version_one_can_be_approved_or_denied() {
    let journal = include_str!("recorded/v1-shipped.jsonl");
    let waiting = journal.lines().take_while(|line| value(line)["event"] != "approved").collect::<Vec<_>>().join("\n");
    let round = replayed(&waiting);
    assert!(matches!(round.phase(), Phase::Waiting(_)), "{:?}", round.phase());
    let candidate = round.facts().attempt().and_then(|attempt| attempt.candidate.clone()).expect("it is sealed");
    let said = PersonSaid { actor: Actor::user("ada", 7), candidate, why: None, at_ms: Some(i64::MAX) };
    let sending = step(&round, Event::Approved(said.clone())).expect("anybody may").round;
    assert!(matches!(sending.phase(), Phase::Sending(_)), "{:?}", sending.phase());
    let denied = step(&round, Event::Denied(said)).expect("anybody may").round;
    assert_eq!(*denied.phase(), Phase::Recording(RoundOutcome::Rejected));
}

/// What the rules of its day let in is not judged again.
#[test]
fn an_answer_of_an_earlier_build_counts_whatever_the_policy_says_today() {
    let lines = include_str!("recorded/v1-shipped.jsonl").lines();
    let strict = lines.map(|line| {
        let mut event = value(line);
        if event["event"] == "started" {
            event["spec"]["approvers"] = serde_json::json!(["nobody-else"]);
        }
        event.to_string()
    });
    let round = replayed(&strict.collect::<Vec<_>>().join("\n"));
    assert_eq!(*round.phase(), Phase::Ended(RoundOutcome::Shipped));
    assert_eq!(round.facts().started.spec.approvers, ["nobody-else"]);
}

#[test]
fn an_event_of_an_unknown_kind_is_an_error_and_not_dropped() {
    assert!(serde_json::from_str::<Event>(r#"{"event":"teleported","to":"mars"}"#).is_err());
}

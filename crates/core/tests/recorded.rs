//! Journals written by earlier builds, event by event as they were stored. Today's rules must read every one of them
//! and reach the same end; a change that cannot needs an explicit upcast.

use loopwright_core::actor::Actor;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, PersonDecision, Phase, Round, StepError, step};

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
            // A result of a gate has had this key since its tests are falsified.
            None => assert_eq!(written.replace(",\"canaries\":null", ""), line),
        }
    }
    assert_eq!(converted, 4, "one of each old kind");
}

/// A journal that an earlier build left waiting: its agents have separate event kinds, and its question has no times.
fn waiting() -> Round {
    let round = replayed(include_str!("recorded/v1-waiting.jsonl"));
    assert!(matches!(round.phase(), Phase::Waiting(_)), "{:?}", round.phase());
    round
}

fn candidate(round: &Round) -> String {
    round.facts().attempt().and_then(|attempt| attempt.candidate.clone()).expect("it is sealed")
}

#[test]
fn a_round_that_waited_under_version_one_can_be_approved_or_denied() {
    let round = waiting();
    let candidate = candidate(&round);
    let said = PersonDecision {
        actor: Actor::user("ada", 7),
        candidate,
        why: None,
        at_ms: Some(i64::MAX),
        position: None,
        same_as: None,
    };
    let sending = step(&round, Event::Approved(said.clone())).expect("anybody may").round;
    assert!(matches!(sending.phase(), Phase::Sending(_)), "{:?}", sending.phase());
    let denied = step(&round, Event::Denied(said)).expect("anybody may").round;
    assert_eq!(*denied.phase(), Phase::Recording(RoundOutcome::Rejected));
}

/// The rules of its build accepted it, so it is not judged again: an answer with a bare name, and a question that
/// expired.
#[test]
fn answers_of_an_earlier_build_count_whatever_the_policy_says_today() {
    let strict = include_str!("recorded/v1-waiting.jsonl").lines().map(|line| {
        let mut event = value(line);
        if event["event"] == "started" {
            event["spec"]["approvers"] = serde_json::json!(["somebody-else"]);
        }
        event.to_string()
    });
    let round = replayed(&strict.collect::<Vec<_>>().join("\n"));
    assert_eq!(round.facts().started.spec.approvers, ["somebody-else"]);
    let candidate = candidate(&round);
    let old = |kind: &str| format!(r#"{{"event":"{kind}","actor":"ada","candidate":"{candidate}","why":null}}"#);
    let answers = [old("approved"), old("denied"), r#"{"event":"expired"}"#.to_owned()];
    for (answer, stage) in answers.iter().zip(["send", "record", "record"]) {
        let event: Event = serde_json::from_str(answer).expect("an old answer reads");
        assert_eq!(serde_json::to_string(&event).expect("it writes"), *answer);
        assert_eq!(step(&round, event).expect("it fits").round.phase().stage().word(), stage, "{answer}");
    }
    let today = PersonDecision {
        actor: Actor::embedder("ada"),
        candidate,
        why: None,
        at_ms: Some(1),
        position: None,
        same_as: None,
    };
    assert!(matches!(step(&round, Event::Approved(today)), Err(StepError::Refused(_))));
}

#[test]
fn an_event_of_an_unknown_kind_is_an_error_and_not_dropped() {
    assert!(serde_json::from_str::<Event>(r#"{"event":"teleported","to":"mars"}"#).is_err());
}

//! Journals written by earlier builds, event by event as they were stored. Today's rules must read every one of them and come
//! to the same end; a change that cannot needs an explicit upcast.

use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, Phase, Round};

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

#[test]
fn stored_events_are_written_back_to_the_same_text() {
    assert!(include_str!("recorded/v1-shipped.jsonl").lines().count() > 10);
    for line in include_str!("recorded/v1-shipped.jsonl").lines() {
        let event: Event = serde_json::from_str(line).expect("an old event reads");
        assert_eq!(serde_json::to_string(&event).expect("it writes"), line);
    }
}

#[test]
fn an_event_of_an_unknown_kind_is_an_error_and_not_dropped() {
    assert!(serde_json::from_str::<Event>(r#"{"event":"teleported","to":"mars"}"#).is_err());
}

//! Round histories: each file of `rounds/` holds events in a short notation and, below a line of dashes, the expected
//! numbered history. `UPDATE_EXPECT=1 cargo nextest run -p loopwright-core rounds` rewrites the lower halves.
#![expect(clippy::disallowed_methods, reason = "tests read the flag that blesses")]

mod rounds_notation;

use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Action, Event, Round, RoundStarted, Step, StepError, history, step};
use loopwright_core::spec::Role;
use rounds_notation::events;
use std::fs;
use std::path::Path;

const LINE: &str = "-----\n";

#[test]
fn histories_read_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rounds");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry reads").path();
        let text = fs::read_to_string(&path).expect("a fixture reads");
        let (input, expected) = text.split_once(LINE).unwrap_or((&text, ""));
        let rendered = match history::render(&events(input)) {
            Ok(rendered) => rendered,
            Err(StepError::Misfit(misfit)) => format!("misfit: {misfit}\n"),
            Err(StepError::Refused(refusal)) => format!("refused: {refusal}; may: {:?}\n", refusal.approvers()),
        };
        seen += 1;
        if rendered == expected {
            continue;
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let input = input.trim_end();
            fs::write(&path, format!("{input}\n{LINE}{rendered}")).expect("a fixture is written");
        } else {
            wrong.push(format!("{}\n--- expected\n{expected}--- rendered\n{rendered}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 20, "only {seen} histories were found");
}

fn kinds(actions: &[Action]) -> Vec<std::mem::Discriminant<Action>> {
    actions.iter().map(std::mem::discriminant).collect()
}

/// A crash after each event of a whole goal round, from the first to the last: the round resumes at the action that was
/// due or under way. A maker that had started is the one exception, because it may have changed files halfway.
#[test]
fn crash_at_any_point_of_a_goal_round_resumes_at_the_same_next_action() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rounds/70-goal-ships.txt"));
    let text = text.expect("the history of a whole goal round");
    let all = events(text.split_once(LINE).expect("events and their history").0);
    let (Some(Event::Started(started)), rest) = (all.first(), &all[1..]) else { panic!("it starts") };
    let Step { mut round, actions: mut due } = Round::begin(RoundStarted::clone(started));
    let isolated = rest.iter().find(|event| event.kind() == "isolated").expect("it is isolated").clone();
    let (mut resumed, mut interrupted) = (0, 0);
    for (number, event) in rest.iter().enumerate() {
        let mut after_crash = step(&round, Event::Recovered).expect("every open round recovers");
        if kinds(&after_crash.actions) == kinds(&[Action::Isolate]) && round.facts().plan.is_some() {
            // Nothing was made yet, so the workspace is new; the plan stays.
            after_crash = step(&after_crash.round, isolated.clone()).expect("it is isolated again");
        }
        let makes = round.facts().running.iter().any(|running| running.role == Role::Maker);
        if makes {
            assert_eq!(after_crash.round.outcome(), Some(RoundOutcome::Interrupted), "before event {}", number + 2);
            interrupted += 1;
        } else {
            assert_eq!(kinds(&after_crash.actions), kinds(&due), "before event {}: {}", number + 2, event.kind());
            resumed += 1;
        }
        let next = step(&round, event.clone()).expect("the history fits");
        // The start of an agent, and the end of one of several, leave the same work open.
        if !next.actions.is_empty() {
            due = next.actions;
        }
        round = next.round;
    }
    assert!(
        round.outcome() == Some(RoundOutcome::Shipped) && interrupted == 5 && resumed >= 40,
        "{resumed}, {interrupted}"
    );
}

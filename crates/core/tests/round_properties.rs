//! The round as a state machine, by properties: the promises hold for any events in any order. Walks consist mostly of
//! events that fit the round's phase, with some unexpected ones; the memory of a walk is kept here, apart from the code
//! under test.

mod round_walk;
mod rounds_notation;

use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Action, AgentRun, DeliveryEnded, DeliveryResult, Event, Phase, Round, Step, step};
use loopwright_core::spec::{ActionKind, LoopMode, Role};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use round_walk::{Choice, Seen, choices, event, outward, start, strangers};
use std::collections::BTreeSet;
use std::path::Path;

/// A walk: the accepted events, and the round after them.
struct Walk {
    events: Vec<Event>,
    now: Step,
}

/// Walks along the choices and checks every accepted step against the promises.
fn walk(choices: &[Choice]) -> Result<Walk, TestCaseError> {
    let (first, rest) = choices.split_first().expect("a walk has a first choice");
    walk_on(vec![Event::Started(Box::new(start(first)))], rest)
}

/// The same, from a round that has a history.
fn walk_on(events: Vec<Event>, choices: &[Choice]) -> Result<Walk, TestCaseError> {
    let now = Round::replay(events.clone()).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut seen = Seen::default();
    events.iter().for_each(|event| seen.note(event));
    let mut walk = Walk { events, now };
    for choice in choices {
        let event = event(&walk.now.round, choice);
        let Ok(next) = step(&walk.now.round, event.clone()) else { continue };
        seen.note(&event);
        promises(&walk.now.round, &event, &next, &seen)?;
        walk.events.push(event);
        walk.now = next;
    }
    Ok(walk)
}

/// The history of a round that begins to send three items.
fn begins_to_send() -> Vec<Event> {
    rounds_notation::events(
        "loop level=L3 gates=tests output=pull-request,issue-comment,issue-create
        recalled
        isolated
        maker-started
        made
        sealed tree=t1 changed=sum.py items=pull-request,issue-comment,issue-create
        gated tests=passed
        checker-started
        checked pass
        decided auto",
    )
}

/// The promises after every accepted event.
fn promises(before: &Round, event: &Event, after: &Step, seen: &Seen) -> Result<(), TestCaseError> {
    prop_assert!(!matches!(before.phase(), Phase::Ended(_)), "an ended round took `{}`", event.kind());
    sent_only_what_was_verified_and_let_out(after, seen)?;
    calibration_leads_to_no_delivery(after)?;
    shipped_only_what_arrived(&after.round, seen)?;
    let (old, new) = (&before.facts().spend, &after.round.facts().spend);
    prop_assert!(new.tokens.total() >= old.tokens.total() && new.usd >= old.usd && new.wall_ms >= old.wall_ms);
    prop_assert!(seen.at_once <= 1, "two agents of one round at once");
    goal_rounds_plan_first(after, seen)?;
    prop_assert!(seen.makers.is_sorted(), "an earlier attempt was started again: {:?}", seen.makers);
    let attempts = after.round.facts().attempt_number();
    prop_assert!(attempts <= after.round.facts().started.spec.attempts, "more attempts than allowed");
    waits_are_bounded(&after.round)?;
    something_follows(after)?;
    recovery_is_safe(&after.round)
}

/// Only the last sealed candidate is sent: with passed gates, judged after its seal, and approved by a person or, at
/// L3, by the gate of a loop whose checker had no doubt.
fn sent_only_what_was_verified_and_let_out(after: &Step, seen: &Seen) -> Result<(), TestCaseError> {
    let sends = after.actions.iter().any(|action| matches!(action, Action::Send(_)));
    prop_assert!(!sends || !is_change_in_doubt(&after.round), "items follow a change that may not be there");
    let Phase::Sending(approved) = after.round.phase() else {
        prop_assert!(!sends, "a send without the phase for it");
        return Ok(());
    };
    let started = &after.round.facts().started;
    prop_assert!(started.spec.level != LoopLevel::L1Report, "L1 sends");
    prop_assert!(!started.dry_run, "a dry run sends");
    prop_assert_eq!(seen.sealed.as_deref(), Some(approved.candidate()));
    prop_assert!(seen.green, "sent without green gates");
    prop_assert!(seen.passed || seen.escalated, "sent without a verdict on this candidate");
    prop_assert!(started.spec.prover.is_none() || seen.proven, "sent without the declared proof");
    prop_assert!(
        started.spec.attack.is_none() || seen.attacked,
        "sent without the declared attack, or with an open finding"
    );
    let spec = &started.spec;
    let may = |name: &String| spec.approvers.is_empty() || spec.approvers.contains(name);
    let apart = |name: &String| !spec.approvals.separate || *name != started.actor;
    let is_quorum = seen.voices.len() >= usize::try_from(spec.approvals.quorum).expect("it is small");
    prop_assert!(seen.voices.iter().all(may) && seen.voices.iter().all(apart), "a stranger's voice: {:?}", seen);
    let by_person = seen.approved.as_deref() == Some(approved.candidate()) && is_quorum;
    let by_gate = seen.auto && started.spec.level == LoopLevel::L3Unattended && seen.passed && !seen.sensitive;
    prop_assert!(by_person || by_gate, "it was sent without an approval: {:?}", seen);
    Ok(())
}

/// Nothing is made before the plan exists, and the plan never changes.
fn goal_rounds_plan_first(after: &Step, seen: &Seen) -> Result<(), TestCaseError> {
    let facts = after.round.facts();
    let is_made = !facts.started.calibration && facts.started.rebase.is_none();
    if facts.started.spec.mode == LoopMode::GoalLoop && is_made {
        prop_assert!(facts.attempts.is_empty() || facts.plan.is_some(), "made without a plan");
    }
    let brief = facts.plan.as_ref().map(|plan| plan.brief.clone());
    prop_assert_eq!(brief, seen.brief.clone(), "the plan changed");
    Ok(())
}

/// A round with a planted change never reaches a phase from which something could be sent, whatever happens to it.
fn calibration_leads_to_no_delivery(after: &Step) -> Result<(), TestCaseError> {
    if !after.round.facts().started.calibration {
        return Ok(());
    }
    let phase = after.round.phase();
    let is_apart = !matches!(
        phase,
        Phase::Making(_) | Phase::Gating | Phase::Checking(..) | Phase::Approving(_) | Phase::Waiting(_)
    );
    prop_assert!(is_apart && !matches!(phase, Phase::Sending(_) | Phase::Doubting(_)), "it is in {:?}", phase);
    prop_assert!(!after.actions.iter().any(|action| matches!(action, Action::Send(_) | Action::Make(_))));
    prop_assert!(after.round.outcome() != Some(RoundOutcome::Shipped));
    Ok(())
}

fn shipped_only_what_arrived(round: &Round, seen: &Seen) -> Result<(), TestCaseError> {
    let (Phase::Recording(outcome) | Phase::Ended(outcome)) = round.phase() else { return Ok(()) };
    if *outcome != RoundOutcome::Shipped {
        return Ok(());
    }
    let expected: BTreeSet<u32> = outward(round).collect();
    prop_assert!(!expected.is_empty(), "shipped nothing");
    prop_assert_eq!(&seen.sent, &expected);
    Ok(())
}

/// A round waits for providers only as long and as often as it may, and adds at most one reason for each wait.
fn waits_are_bounded(round: &Round) -> Result<(), TestCaseError> {
    let patience = &round.facts().provider_waits;
    prop_assert!(patience.waited_ms <= patience.wait_max_ms && patience.waits <= 20, "{:?}", patience);
    if let Phase::Held(_, until_ms) = round.phase() {
        prop_assert!(*until_ms > patience.last_report_ms, "a wait for the past");
    }
    Ok(())
}

/// No round is ever stuck: it has an action to perform, or an agent runs, or deliveries are open, or it is at rest.
fn something_follows(after: &Step) -> Result<(), TestCaseError> {
    let busy = match after.round.phase() {
        Phase::Making(AgentRun::Started) | Phase::Checking(_, AgentRun::Started) => true,
        Phase::Calibrating(AgentRun::Started) | Phase::Planning(AgentRun::Started) => true,
        Phase::Attacking(_) => !after.round.facts().running.is_empty(),
        Phase::Sending(_) => outward(&after.round).count() > after.round.facts().deliveries.len(),
        _ => after.round.is_at_rest(),
    };
    prop_assert!(busy || !after.actions.is_empty(), "stuck in {:?}", after.round.phase());
    Ok(())
}

/// Recovery works after a crash at any point. No maker of a started attempt is started again, and nothing that has
/// arrived is sent again, and nothing is sent behind a change in doubt.
fn recovery_is_safe(round: &Round) -> Result<(), TestCaseError> {
    if matches!(round.phase(), Phase::Ended(_)) {
        return Ok(());
    }
    let recovered = step(round, Event::Recovered).map_err(|misfit| TestCaseError::fail(misfit.to_string()))?;
    prop_assert!(!recovered.actions.is_empty(), "a recovered round has nothing to do");
    let makes = recovered.actions.iter().any(|action| matches!(action, Action::Make(_)));
    let is_goal = round.facts().started.spec.mode == LoopMode::GoalLoop;
    let was_due = matches!(round.phase(), Phase::Making(AgentRun::Due | AgentRun::NextPhase));
    prop_assert!(!makes || (is_goal && was_due), "recovery starts a maker that was started before");
    if is_goal && was_due && !round.facts().attempts.is_empty() {
        prop_assert_eq!(recovered.round.phase(), round.phase(), "a goal round does not resume at its next action");
        return Ok(());
    }
    let between = matches!(round.phase(), Phase::Making(AgentRun::Again) | Phase::Held(..));
    if between {
        prop_assert!(matches!(recovered.round.phase(), Phase::Suspended(..)), "kept work was not kept");
    } else if !round.facts().attempts.is_empty() && matches!(round.phase(), Phase::Making(_)) {
        prop_assert_eq!(recovered.round.outcome(), Some(RoundOutcome::Interrupted));
    }
    for action in &recovered.actions {
        if let Action::Send(positions) = action {
            let arrived = |position: &u32| round.facts().deliveries.iter().any(|(done, _)| done == position);
            prop_assert!(!positions.iter().any(arrived), "sent twice");
            prop_assert!(!is_change_in_doubt(round), "items follow a change that may not be there");
        }
    }
    Ok(())
}

/// Whether the round's pull request or commit may have been sent, and no record says whether it was.
fn is_change_in_doubt(round: &Round) -> bool {
    let doubts: Vec<u32> = round.facts().doubts().collect();
    let items = round.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    let is_change = |kind: ActionKind| matches!(kind, ActionKind::PullRequest | ActionKind::Commit);
    items.iter().any(|item| is_change(item.kind) && doubts.contains(&item.position))
}

fn through_json(event: &Event) -> Result<(), TestCaseError> {
    let json = serde_json::to_string(event).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let back: Event = serde_json::from_str(&json).map_err(|error| TestCaseError::fail(format!("{json}\n{error}")))?;
    prop_assert_eq!(&back, event);
    prop_assert_eq!(serde_json::to_string(&back).ok(), Some(json));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_events_keeps_the_promises(choices in choices()) {
        walk(&choices)?;
    }

    #[test]
    fn any_sequence_of_results_and_answers_keeps_the_promises(choices in choices()) {
        walk_on(begins_to_send(), &choices)?;
    }

    #[test]
    fn replaying_a_walk_gives_the_same_round_and_the_same_actions(choices in choices()) {
        let walk = walk(&choices)?;
        prop_assert_eq!(Round::replay(walk.events), Ok(walk.now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_ended_round_accepts_nothing(choices in choices(), more in choices()) {
        let walk = walk(&choices)?;
        if matches!(walk.now.round.phase(), Phase::Ended(_)) {
            for choice in more.iter().take(4) {
                for event in strangers(&walk.now.round, choice) {
                    prop_assert!(step(&walk.now.round, event).is_err());
                }
            }
        }
    }

    #[test]
    fn every_event_goes_through_json_without_loss(choices in choices()) {
        let walk = walk(&choices)?;
        for event in walk.events.iter().cloned().chain(strangers(&walk.now.round, &choices[0])) {
            through_json(&event)?;
        }
    }
}

/// The properties above hold trivially for ends that no walk reaches; so the walks must reach all of them.
#[test]
fn walks_reach_every_end_and_every_stage() {
    let mut runner = TestRunner::deterministic();
    let mut ends = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for _ in 0..4000 {
        let choices = choices().new_tree(&mut runner).expect("choices").current();
        let walk = walk(&choices).expect("the promises hold");
        ends.extend(walk.now.round.outcome().map(RoundOutcome::word));
        kinds.extend(walk.events.iter().map(Event::kind));
    }
    let missing: Vec<_> =
        RoundOutcome::ALL.into_iter().map(RoundOutcome::word).filter(|end| !ends.contains(end)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert_eq!(kinds.len(), 28, "{kinds:?}");
}

/// The walks of a round that sends are also records of earlier builds, which continued behind a change in doubt, and
/// histories of this build, which sends the other items after the answer.
#[test]
fn walks_go_on_behind_a_doubt_and_after_the_answer_about_it() {
    let mut runner = TestRunner::deterministic();
    let (mut behind, mut after) = (0, 0);
    for _ in 0..500 {
        let choices = choices().new_tree(&mut runner).expect("choices").current();
        let walk = walk_on(begins_to_send(), &choices).expect("the promises hold");
        for pair in walk.events.windows(2) {
            behind += usize::from(is_behind_a_doubt(&pair[0], &pair[1]));
            after += usize::from(matches!(pair, [Event::Approved(_), Event::Delivered(_)]));
        }
    }
    assert!(behind > 5 && after > 5, "{behind} behind a doubt, {after} after an answer");
}

/// An item of a record of an earlier build: the change, which comes first in walks, is in doubt.
fn is_behind_a_doubt(doubt: &Event, next: &Event) -> bool {
    let is_doubt =
        |ended: &DeliveryEnded| ended.position == 1 && matches!(ended.result, DeliveryResult::InDoubt { .. });
    matches!((doubt, next), (Event::Delivered(change), Event::Delivered(_)) if is_doubt(change))
}

#[test]
fn every_event_of_the_written_histories_goes_through_json() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rounds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let text = std::fs::read_to_string(entry.expect("an entry reads").path()).expect("a history reads");
        let input = text.split("-----\n").next().unwrap_or_default();
        for event in rounds_notation::events(input) {
            through_json(&event).expect("no loss");
            count += 1;
        }
    }
    assert!(count > 200, "only {count} events");
}

/// An agent start for an attempt other than the next one does not belong to this round.
#[test]
fn starts_of_other_attempts_do_not_fit() {
    let notation =
        "loop level=L2\nrecalled\nisolated\nmaker-started\nmade\nsealed tree=t1 changed=a items=pull-request\ngated";
    let events = rounds_notation::events(notation);
    let at = |count: usize| Round::replay(events[..count].to_vec()).expect("it fits").round;
    for attempt in [0, 2, u32::MAX] {
        let started = |role| Event::RoleStarted(round_walk::agent(role, attempt));
        assert!(step(&at(3), started(Role::Maker)).is_err(), "maker {attempt}");
        assert!(step(&at(7), started(Role::Checker)).is_err(), "checker {attempt}");
    }
    for role in Role::ALL {
        let started = Event::RoleStarted(round_walk::agent(role, 1));
        assert_eq!(step(&at(3), started.clone()).is_ok(), role == Role::Maker, "{role:?}");
        assert_eq!(step(&at(7), started).is_ok(), role == Role::Checker, "{role:?}");
    }
}

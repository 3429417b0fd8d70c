//! The journal of one round: decides the step for an event, records both in one transaction, and only then continues.
//! [`rows`](super::rows) has the rows that change with a step.

use super::context::RoundContext;
use super::rows::{self, StepTiming};
use super::{StageError, bounds};
use crate::error::EngineError;
use crate::events::EventKind;
use crate::lease::occupied;
use crate::store::{NewEvent, RowChange, StoreBatch, StoreError};
use loopwright_core::round::{Action, Event, Phase, Round, RoundFacts, Stage, Step, StepError, step};
use loopwright_core::secrets::SecretScanner;
use serde_json::Value;

/// The recorded state of one round, and the only writer of its events.
pub(super) struct RoundJournal {
    round: Round,
    /// The number of recorded events.
    index: i64,
}

impl RoundJournal {
    pub(super) fn new(round: Round, index: i64) -> Self {
        Self { round, index }
    }

    pub(super) fn round(&self) -> &Round {
        &self.round
    }

    pub(super) fn into_round(self) -> Round {
        self.round
    }

    pub(super) fn facts(&self) -> &RoundFacts {
        self.round.facts()
    }

    /// Records the first event, which says all that must not change under the round.
    pub(super) async fn record_first_event(
        &mut self,
        cx: &RoundContext<'_>,
        extra: Vec<RowChange>,
    ) -> Result<(), EngineError> {
        let event = Event::Started(Box::new(self.facts().started.clone()));
        let when = StepTiming { now_ms: cx.started_ms, ..StepTiming::now(cx) };
        let mut changes = rows::changes(None, &self.round, &event, &when);
        changes.extend(extra);
        let appended = self.write(cx, Some(&event), changes, when.now_ms).await;
        appended.map_err(|error| occupied(error, &cx.key.name))
    }

    pub(super) async fn apply(
        &mut self,
        cx: &RoundContext<'_>,
        event: Event,
        extra: Vec<RowChange>,
    ) -> Result<Vec<Action>, StageError> {
        let stage = self.round.phase().stage();
        let event = redact_event(&cx.scanner, stage, event)?;
        let Step { round, actions } = step(&self.round, event.clone()).map_err(|error| not_accepted(&cx.id, error))?;
        bounds::fits(&event, stage)?;
        let mut when = StepTiming::now(cx);
        if round.is_at_rest() {
            when.failures = rows::failures(cx.engine, round.facts()).await?;
        }
        let mut changes = extra;
        changes.extend(rows::changes(Some(&self.round), &round, &event, &when));
        changes.extend(follower_signals(cx, &round, when.now_ms).await?);
        changes.extend(crate::daemon::signals_again(&round, when.now_ms, |item| !rows::is_given_up(&when, item)));
        if round.is_at_rest() && actions.is_empty() {
            changes.push(RowChange::LeaseEnd);
        }
        self.write(cx, Some(&event), changes, when.now_ms).await?;
        self.round = round;
        let (phase, level) = (self.round.phase().word(), self.facts().started.spec.level);
        cx.publish(EventKind::Recorded { index: self.index, event: event.kind(), phase, level });
        Ok(actions)
    }

    /// Writes rows of the round without an event.
    pub(super) async fn write_rows(
        &mut self,
        cx: &RoundContext<'_>,
        changes: Vec<RowChange>,
    ) -> Result<(), StoreError> {
        self.write(cx, None, changes, cx.engine.now_ms()).await
    }

    async fn write(
        &mut self,
        cx: &RoundContext<'_>,
        event: Option<&Event>,
        changes: Vec<RowChange>,
        at_ms: i64,
    ) -> Result<(), StoreError> {
        let events = event.map(recorded_event).into_iter().collect();
        let batch = StoreBatch { round: cx.id.clone(), expect_index: self.index, at_ms, events, changes };
        self.index = cx.engine.append(batch).await?;
        Ok(())
    }
}

fn not_accepted(round: &str, error: StepError) -> StageError {
    StageError::Fatal(match error {
        StepError::Misfit(source) => EngineError::History { round: round.to_owned(), source },
        StepError::Refused(refusal) => EngineError::Refused(refusal),
    })
}

/// The signals for loops that follow this one, written with the end itself.
async fn follower_signals(cx: &RoundContext<'_>, round: &Round, now_ms: i64) -> Result<Vec<RowChange>, StoreError> {
    let is_over = matches!(round.phase(), Phase::Ended(_)) && !round.facts().started.calibration;
    let admission = cx.engine.live_rounds.admission().filter(|_| is_over);
    let followers = admission.map(|admission| admission.followers(&cx.key.repo, &cx.key.name)).unwrap_or_default();
    crate::daemon::follower_signals(cx.engine.store.as_ref(), &followers, round, now_ms).await
}

/// An event in the journal's format.
pub(super) fn recorded_event(event: &Event) -> NewEvent {
    let body = serde_json::to_string(event).expect("events hold only strings, numbers, lists and maps with text keys");
    NewEvent { kind: event.kind().to_owned(), body }
}

/// The event as it may be recorded. Only text from agents, gates and external systems is scanned; the loop's own file
/// and people's texts are not.
pub(super) fn redact_event(scanner: &SecretScanner, stage: Stage, event: Event) -> Result<Event, StageError> {
    if matches!(event, Event::Started(_) | Event::RoleStarted(_)) {
        return Ok(event);
    }
    let unclean = |error: serde_json::Error| StageError::broke(stage, "unclean", &error);
    let body = serde_json::to_value(&event).map_err(unclean)?;
    let mut texts = Vec::new();
    gather(&body, &mut texts);
    // One scan of all texts together: nearly every event is clean.
    if scanner.scan_text("", &texts.join("\n")).is_empty() {
        return Ok(event);
    }
    serde_json::from_value(scanner.clean_json(body)).map_err(unclean)
}

fn gather<'a>(document: &'a Value, texts: &mut Vec<&'a str>) {
    match document {
        Value::String(text) => texts.push(text),
        Value::Array(all) => all.iter().for_each(|one| gather(one, texts)),
        Value::Object(all) => all.values().for_each(|one| gather(one, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

//! Send: claim, search for our marker, execute, receipt. A claim is durable before anything is sent. An item that may
//! have been sent is searched for before it is sent again; if that stays unknown, a person decides.

use super::context::RoundContext;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::rows::{StepTiming, outbox_row};
use super::send_limits::exceeded_limit;
use super::send_permit::stop_reason;
use super::send_receiver::{ItemReceiver, NoReceiver, receiver};
use super::send_restored::{LostWork, lost_work};
use super::signing::sign;
use super::{StageError, bounds};
use crate::backup::RestoredState;
use crate::clock::pause;
use crate::outbox::{DeliveryOutcome, PriorDelivery, deliver_one};
use crate::store::{OutboxRow, OutboxState, RowChange};
use loopwright_core::budget::{Spend, SpendKnown};
use loopwright_core::deliver::{COST_FACT, Deliver as _, Delivery, DeliveryReceipt, EngineFact, QuestionPart};
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, NextAttempt, StagedItem, next_attempt};
use loopwright_core::round::{
    Action, DeliveryEnded, DeliveryResult, Event, Phase, Round, RoundFacts, RoundStarted, Stage,
};
use loopwright_core::spec::ActionKind;
use tokio::time::Instant;

pub(super) async fn send(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &RoundBudget,
    positions: Vec<u32>,
) -> Result<Vec<Action>, StageError> {
    let mut following = Vec::new();
    for position in positions {
        let items = journal.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
        let Some(item) = items.iter().find(|item| item.position == position).cloned() else { continue };
        let result = match journal.facts().missing_change() {
            Some(text) => DeliveryResult::Refused { text },
            None => deliver(cx, journal, budget, &item).await?,
        };
        let delivered = Event::Delivered(DeliveryEnded { position, result });
        following = journal.apply(cx, delivered, Vec::new()).await?;
        if !matches!(journal.round().phase(), Phase::Sending(_)) {
            break;
        }
    }
    Ok(following)
}

async fn deliver(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &RoundBudget,
    item: &StagedItem,
) -> Result<DeliveryResult, StageError> {
    cx.stage(Stage::Send, format!("{} {}", item.kind, item.target.as_deref().unwrap_or_default()));
    let prior = prior_delivery(cx, journal.facts(), item).await?;
    let receiver = match receiver(cx, journal.facts(), budget, item).await? {
        Ok(receiver) => receiver,
        Err(NoReceiver::Refused(text)) if prior == PriorDelivery::Fresh => {
            return Ok(DeliveryResult::Refused { text: bounds::text(&text) });
        }
        Err(NoReceiver::Refused(text)) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
        Err(NoReceiver::Blocked(text)) => return Ok(kept(text, prior)),
    };
    let candidate = match journal.round().phase() {
        Phase::Sending(approved) => approved.candidate(),
        _ => "",
    };
    let delivery = delivery(journal.round(), item, candidate);
    if let (PriorDelivery::Fresh, Some(restored)) = (prior, RestoredState::read(&cx.engine.state_dir)) {
        match lost_work(cx.engine, journal.facts(), &receiver.deliver, &delivery, restored).await? {
            LostWork::None => {}
            LostWork::Maybe(text) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
            LostWork::Unread(text) => return Ok(kept(text, prior)),
        }
    }
    attempts(cx, journal, item, &delivery, &receiver, prior).await
}

/// Attempts to deliver an item until it has a result, or is kept for later.
async fn attempts(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    item: &StagedItem,
    delivery: &Delivery,
    receiver: &ItemReceiver,
    mut prior: PriorDelivery,
) -> Result<DeliveryResult, StageError> {
    if prior == PriorDelivery::MaybeSent {
        receiver.deliver.expect_earlier(delivery);
    }
    for tries in 1.. {
        if let Some(text) = stop_reason(cx.engine, cx.cancel).await.map_err(StageError::Fatal)? {
            return Ok(kept(text, prior));
        }
        claim(cx, journal, item).await?;
        // After the claim: of two processes that send at the same time, at least one sees the claim of the other.
        if let Some(text) = exceeded_limit(cx, journal.facts(), item).await? {
            return Ok(kept(text, prior));
        }
        let outcome = match one_attempt(cx, delivery, receiver, prior).await {
            Ok(outcome) => outcome,
            Err(text) if receiver.has_begun() => return Ok(kept(text, PriorDelivery::MaybeSent)),
            Err(text) => return Ok(kept(text, prior)),
        };
        let now_ms = cx.engine.now_ms();
        let error = match outcome {
            DeliveryOutcome::Sent(DeliveryReceipt { place, note, .. }) => {
                return Ok(DeliveryResult::Sent { place, note: note.map(|text| bounds::text(&text)) });
            }
            DeliveryOutcome::InDoubt(text) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
            DeliveryOutcome::Refused(text) => return Ok(DeliveryResult::Refused { text: bounds::text(&text) }),
            DeliveryOutcome::Blocked(error) => return Ok(kept(error.text.clone(), prior.after(&error))),
            DeliveryOutcome::Lost(error) => {
                prior = PriorDelivery::MaybeSent;
                // Only a lookup that can succeed later is repeated.
                if receiver.deadline_ms.is_none() {
                    return Ok(DeliveryResult::InDoubt { text: bounds::text(&error.text) });
                }
                error
            }
            DeliveryOutcome::Retry(error) => {
                prior = prior.after(&error);
                error
            }
        };
        let is_lost = prior == PriorDelivery::MaybeSent;
        let text = bounds::text(&error.text);
        match next_attempt(&error, tries, now_ms, receiver.deadline_ms) {
            NextAttempt::At(at_ms) if wait_to_retry(cx, &text, now_ms, at_ms).await => {}
            NextAttempt::At(_) => return Ok(kept(format!("stopped before another attempt: {text}"), prior)),
            NextAttempt::Block => return Ok(kept(gave_up(&text, tries), prior)),
            NextAttempt::Quarantine if is_lost => return Ok(DeliveryResult::InDoubt { text }),
            NextAttempt::Quarantine => return Ok(DeliveryResult::Quarantined { text }),
        }
    }
    unreachable!("the last try returns")
}

/// The outcome of one attempt, or the reason why it was ended: a stop, or the end of the round's wall time.
async fn one_attempt(
    cx: &RoundContext<'_>,
    delivery: &Delivery,
    receiver: &ItemReceiver,
    prior: PriorDelivery,
) -> Result<DeliveryOutcome, String> {
    let attempt = async {
        match Box::pin(sign(cx, delivery)).await {
            Ok(signed) => deliver_one(&receiver.deliver, &cx.engine.settings.seam, &signed, prior).await,
            Err(error) => DeliveryOutcome::from_error(error),
        }
    };
    tokio::select! {
        biased;
        outcome = attempt => Ok(outcome),
        () = cx.cancel.cancelled() => Err("the round was stopped during the attempt".to_owned()),
        () = pause(receiver.ends.saturating_duration_since(Instant::now())) => {
            Err("the receiver did not answer within the round's wall time".to_owned())
        }
    }
}

/// The result of an item that is kept for a later attempt.
fn kept(text: String, prior: PriorDelivery) -> DeliveryResult {
    let maybe_sent = prior == PriorDelivery::MaybeSent;
    let text = if maybe_sent { format!("{text}; the item may have been sent") } else { text };
    DeliveryResult::Blocked { text: bounds::text(&text), maybe_sent }
}

/// Waits for the next attempt. Returns false if the round was stopped meanwhile.
async fn wait_to_retry(cx: &RoundContext<'_>, why: &str, now_ms: i64, at_ms: i64) -> bool {
    if at_ms <= now_ms {
        return true;
    }
    let seconds = (at_ms - now_ms + 999) / 1000;
    cx.stage(Stage::Send, format!("trying again in {seconds} s: {why}"));
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => false,
        () = cx.engine.settings.clock.until(at_ms) => true,
    }
}

/// The known facts of earlier attempts. A claim without a result means that an engine died while sending the item.
async fn prior_delivery(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    item: &StagedItem,
) -> Result<PriorDelivery, StageError> {
    let rows = cx.engine.store.outbox(&cx.id).await?;
    let is_claimed =
        rows.iter().any(|row| row.position == i64::from(item.position) && row.state == OutboxState::Claimed);
    Ok(match is_claimed || facts.maybe_sent.contains(&item.position) {
        true => PriorDelivery::MaybeSent,
        false => PriorDelivery::Fresh,
    })
}

/// Claims the item durably, before anything is sent.
async fn claim(cx: &RoundContext<'_>, journal: &mut RoundJournal, item: &StagedItem) -> Result<(), StageError> {
    let rows = cx.engine.store.outbox(&cx.id).await?;
    let tries = rows.iter().find(|row| row.position == i64::from(item.position)).map_or(0, |row| row.tries) + 1;
    let row = outbox_row(journal.round(), item, OutboxState::Claimed, &StepTiming::now(cx));
    let claim = Some(format!("pid {}", std::process::id()));
    journal.write_rows(cx, vec![RowChange::Outbox(OutboxRow { claim, tries, ..row })]).await?;
    Ok(())
}

/// The reason why an item is kept after its receiver stayed unavailable.
fn gave_up(text: &str, tries: u32) -> String {
    if tries > 1 { format!("{text} ({tries} attempts)") } else { text.to_owned() }
}

/// The delivery of one item of a round, for the outlet and for the display of a dry run.
#[must_use]
pub fn delivery(round: &Round, item: &StagedItem, candidate: &str) -> Delivery {
    let facts = round.facts();
    let started = &facts.started;
    let spec = &started.spec;
    let attempt = facts.attempt();
    let output = spec.output.iter().find(|output| output.kind == item.kind);
    let changed = attempt.is_some_and(loopwright_core::round::Attempt::has_change);
    Delivery {
        loop_name: spec.name.clone(),
        round: started.round.clone(),
        repo: started.repo.clone(),
        item: item.clone(),
        marker: outbox::marker(&spec.name, &started.round, item.position, candidate),
        key: outbox::item_id(&spec.name, &started.round, item.position, candidate),
        work: work(facts, item),
        branch: proposal_branch(started),
        commit: attempt.and_then(|attempt| attempt.commit.clone()).filter(|_| changed),
        tree: attempt.and_then(|attempt| attempt.tree.clone()).filter(|_| changed),
        base_branch: facts.branch.clone().unwrap_or_else(|| "main".to_owned()),
        base_commit: facts.base.clone().unwrap_or_default(),
        reviewed_head: reviewed_head(facts, item),
        question: slack_thread(facts, item),
        draft: output.is_none_or(|output| output.draft),
        labels: output.map(|output| output.labels.clone()).unwrap_or_default(),
        facts: delivery_facts(facts),
    }
}

/// A round's first message to Slack opens a thread, and its further messages answer in it: the channel has one line for
/// each round.
fn slack_thread(facts: &RoundFacts, item: &StagedItem) -> Option<QuestionPart> {
    let is_slack = |one: &&StagedItem| one.kind == ActionKind::Slack && one.position < item.position;
    let items = facts.attempt().filter(|_| item.kind == ActionKind::Slack)?.items.iter();
    let earlier: Vec<u32> = items.filter(is_slack).map(|one| one.position).collect();
    facts.deliveries.iter().find_map(|(position, result)| match result {
        DeliveryResult::Sent { place, .. } if earlier.contains(position) => {
            Some(QuestionPart::Reply { place: place.clone() })
        }
        _ => None,
    })
}

fn work(facts: &RoundFacts, item: &StagedItem) -> String {
    let keys: Vec<&str> = facts.items.iter().map(|item| item.key.as_str()).collect();
    outbox::work_id(&facts.started.spec.name, &keys, &facts.started.occurrence, item)
}

/// The branch of a round's proposal: its own, or that of the proposal that it moves onto a newer base.
pub(crate) fn proposal_branch(started: &RoundStarted) -> String {
    let own = || format!("loop/{}/{}", started.spec.name, started.round);
    started.rebase.as_ref().map_or_else(own, |origin| origin.branch.clone())
}

/// The head of the pull request that an item refers to, if the round was started for that pull request.
fn reviewed_head(facts: &RoundFacts, item: &StagedItem) -> Option<String> {
    let prefix = format!("pr-{}@", item.target.as_deref()?);
    facts.items.iter().find_map(|one| one.key.strip_prefix(&prefix)).map(str::to_owned)
}

/// The engine's measurements, for the top of the texts that people read.
fn delivery_facts(facts: &RoundFacts) -> Vec<EngineFact> {
    let Some(attempt) = facts.attempt() else { return Vec::new() };
    let gates: Vec<_> = attempt.gates.iter().map(|gate| format!("{} {}", gate.name, gate.status)).collect();
    let gates = if gates.is_empty() { "none".to_owned() } else { gates.join(", ") };
    let unnamed = match facts.started.spec.level {
        LoopLevel::L3Unattended => "the loop's allow list",
        LoopLevel::L1Report | LoopLevel::L2Assisted => "not approved yet",
    };
    let by = facts.approved_by().unwrap_or_else(|| unnamed.to_owned());
    vec![
        EngineFact::new("loop", facts.started.spec.name.clone()),
        EngineFact::new("round", facts.started.round.clone()),
        EngineFact::new("intent", facts.started.spec.intent.clone()),
        EngineFact::new("files changed", attempt.changes.len().to_string()),
        EngineFact::new("gates", gates),
        EngineFact::new("approved by", by),
        EngineFact::new("boundary", facts.boundary().level.word()),
        EngineFact::new(COST_FACT, cost(&facts.spend)),
    ]
}

/// The cost of a round until now; a cost that was not reported counts as its reservation.
fn cost(spend: &Spend) -> String {
    match spend.known {
        SpendKnown::Yes => spend.usd.to_string(),
        SpendKnown::Estimated => format!("about {}", spend.usd),
        SpendKnown::No => format!("at most {}", spend.usd),
    }
}

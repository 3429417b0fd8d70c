//! Send: claim, search for our marker, execute, receipt. A claim is durable before anything is sent. An item that may
//! have been sent is searched for before it is sent again; if that stays unknown, a person decides.

use super::bindings::{DeliveryOutlet, LoopBindings};
use super::context::RoundContext;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::rows::{StepTiming, outbox_row};
use super::send_limits::exceeded_limit;
use super::{StageError, bounds};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::outbox::{
    ConnectedForge, DeliveryOutcome, LocalForge, PriorDelivery, PushingDeliver, connect_forge, deliver_one,
};
use crate::probe::read_forge;
use crate::store::{OutboxRow, OutboxState, RowChange};
use loopwright_core::budget::{Spend, SpendKnown};
use loopwright_core::deliver::{COST_FACT, Deliver, DeliverError, Delivery, EngineFact};
use loopwright_core::forge::count_open_pulls;
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, NextAttempt, StagedItem, next_attempt};
use loopwright_core::round::{Action, DeliveryEnded, DeliveryResult, Event, Phase, Round, RoundFacts, Stage};
use loopwright_core::spec::{ActionKind, LoopSpec};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The most open pull requests that are counted; `open_max` is at most 1,000.
const COUNTED_MAX: usize = 1_001;

/// How long an unavailable receiver is retried in a round without a wall time.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The receiver of an item.
struct ItemReceiver {
    deliver: Arc<dyn Deliver>,
    /// Until when an unavailable receiver is retried; `None` on this machine, where waiting does not help.
    deadline_ms: Option<i64>,
}

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
    if let Some(text) = exceeded_limit(cx, journal.facts(), item).await? {
        return Ok(DeliveryResult::Blocked { text });
    }
    let receiver = match receiver(cx, &journal.facts().started.spec, budget, item).await? {
        Ok(Some(receiver)) => receiver,
        Ok(None) => return Ok(DeliveryResult::Refused { text: "no action executor is configured".to_owned() }),
        Err(error) => return Ok(DeliveryResult::Blocked { text: bounds::text(&error.text) }),
    };
    let candidate = match journal.round().phase() {
        Phase::Sending(approved) => approved.candidate(),
        _ => "",
    };
    let delivery = delivery(journal.round(), item, candidate);
    let mut earlier = None;
    for tries in 1.. {
        if let Some(text) = stop_reason(cx).await? {
            return Ok(DeliveryResult::Blocked { text });
        }
        let prior = claim(cx, journal, item, earlier).await?;
        let outcome = deliver_one(receiver.deliver.as_ref(), &cx.engine.settings.seam, &delivery, prior).await;
        let now_ms = cx.engine.now_ms();
        let (error, is_lost) = match outcome {
            DeliveryOutcome::Sent(receipt) => return Ok(DeliveryResult::Sent { place: receipt.place }),
            DeliveryOutcome::InDoubt(text) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
            DeliveryOutcome::Refused(text) => return Ok(DeliveryResult::Refused { text: bounds::text(&text) }),
            DeliveryOutcome::Blocked(text) => return Ok(DeliveryResult::Blocked { text: bounds::text(&text) }),
            DeliveryOutcome::Lost(error) => (error, true),
            DeliveryOutcome::Retry(error) => (error, false),
        };
        earlier = Some(if is_lost { PriorDelivery::MaybeSent } else { prior });
        let text = bounds::text(&error.text);
        match next_attempt(&error, tries, now_ms, receiver.deadline_ms) {
            // Only a lookup that can succeed later is repeated.
            _ if is_lost && receiver.deadline_ms.is_none() => return Ok(DeliveryResult::InDoubt { text }),
            NextAttempt::At(at_ms) if wait_to_retry(cx, &text, now_ms, at_ms).await => {}
            NextAttempt::At(_) | NextAttempt::Block | NextAttempt::Quarantine if is_lost => {
                return Ok(DeliveryResult::InDoubt { text });
            }
            NextAttempt::At(_) => {
                return Ok(DeliveryResult::Blocked { text: format!("stopped before another attempt: {text}") });
            }
            NextAttempt::Block => return Ok(DeliveryResult::Blocked { text: gave_up(&text, tries) }),
            NextAttempt::Quarantine => return Ok(DeliveryResult::Quarantined { text }),
        }
    }
    unreachable!("the last try returns")
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

/// The reason why nothing may be sent: a person stopped everything.
async fn stop_reason(cx: &RoundContext<'_>) -> Result<Option<String>, StageError> {
    let stop = cx.engine.global_stop().await.map_err(StageError::Fatal)?;
    Ok(stop.map(|stop| format!("everything is stopped by {}: {}", stop.by, stop.why)))
}

/// Claims the item durably. `earlier` is what this process knows from its last attempt; without one, an existing claim
/// means that an engine died while sending the item: it may have been sent.
async fn claim(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    item: &StagedItem,
    earlier: Option<PriorDelivery>,
) -> Result<PriorDelivery, StageError> {
    let rows = cx.engine.store.outbox(&cx.id).await?;
    let found = rows.iter().find(|row| row.position == i64::from(item.position));
    let prior = match (earlier, found.map(|row| row.state)) {
        (Some(earlier), _) => earlier,
        (None, Some(OutboxState::Claimed)) => PriorDelivery::MaybeSent,
        (None, _) => PriorDelivery::Fresh,
    };
    let row = outbox_row(journal.round(), item, OutboxState::Claimed, &StepTiming::now(cx));
    let claim = Some(format!("pid {}", std::process::id()));
    let tries = found.map_or(0, |row| row.tries) + 1;
    journal.write_rows(cx, vec![RowChange::Outbox(OutboxRow { claim, tries, ..row })]).await?;
    Ok(prior)
}

/// The receiver of an item: `None` if the loop has no outlet, an error if it cannot be connected now.
async fn receiver(
    cx: &RoundContext<'_>,
    spec: &LoopSpec,
    budget: &RoundBudget,
    item: &StagedItem,
) -> Result<Result<Option<ItemReceiver>, DeliverError>, StageError> {
    let local = |deliver| Ok(Ok(Some(ItemReceiver { deliver, deadline_ms: None })));
    let objects = cx.objects();
    if let DeliveryOutlet::Deliver(deliver) = &cx.bind.outlet {
        return local(Arc::new(PushingDeliver::new(Arc::clone(deliver), objects.clone())));
    }
    if matches!(cx.bind.outlet, DeliveryOutlet::ApprovalOnly) {
        return Ok(Ok(None));
    }
    let remote = |deliver| {
        let patience = budget.wall_left(spec).unwrap_or(PATIENCE);
        let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let deadline_ms = Some(cx.engine.now_ms().saturating_add(patience_ms));
        Ok(Ok(Some(ItemReceiver { deliver, deadline_ms })))
    };
    let forges = &cx.engine.settings.forges;
    match forges.as_ref().map_or(Ok(None), |forges| forges.messenger(item)) {
        Ok(Some(messenger)) => return remote(messenger),
        Ok(None) => {}
        Err(error) => return Ok(Err(error)),
    }
    if matches!(cx.bind.outlet, DeliveryOutlet::LocalForge) {
        let folder = cx.engine.state_dir.forge(&cx.repo.id);
        let forge = LocalForge::open(&folder, objects.clone(), Arc::clone(&cx.engine.settings.clock)).await;
        return local(Arc::new(forge.map_err(|error| StageError::broke(Stage::Send, "forge", &error))?));
    }
    match connect_forge(cx.engine, spec, &cx.repo.work_tree).await {
        Ok(ConnectedForge { deliver, route, .. }) => {
            remote(Arc::new(PushingDeliver::new(deliver, objects.clone()).with_route(route)))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// The reason why an item is kept after its receiver stayed unavailable.
fn gave_up(text: &str, tries: u32) -> String {
    if tries > 1 { format!("{text} ({tries} attempts)") } else { text.to_owned() }
}

/// The number of open pull requests of a loop on its forge, if it has reached `open_max`. `None` if there are fewer, or
/// the loop opens none, or the embedder delivers its outputs.
pub(crate) async fn too_many_open(
    engine: &Engine,
    spec: &LoopSpec,
    bind: &LoopBindings,
    repo_id: &str,
    work_tree: &Path,
) -> Result<Option<u32>, EngineError> {
    let opens = spec.output.iter().any(|output| output.kind == ActionKind::PullRequest);
    let is_forge = matches!(bind.outlet, DeliveryOutlet::LocalForge | DeliveryOutlet::NamedForge);
    if !opens || !is_forge {
        return Ok(None);
    }
    let forge = read_forge(engine, spec, repo_id, work_tree).await.map_err(EngineError::Forge)?;
    let open = count_open_pulls(forge.as_ref(), &spec.name, COUNTED_MAX).await.map_err(EngineError::Forge)?;
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    Ok((open >= spec.open_max).then_some(open))
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
        branch: format!("loop/{}/{}", spec.name, started.round),
        commit: attempt.and_then(|attempt| attempt.commit.clone()).filter(|_| changed),
        tree: attempt.and_then(|attempt| attempt.tree.clone()).filter(|_| changed),
        base_branch: facts.branch.clone().unwrap_or_else(|| "main".to_owned()),
        base_commit: facts.base.clone().unwrap_or_default(),
        reviewed_head: reviewed_head(facts, item),
        question: None,
        draft: output.is_none_or(|output| output.draft),
        labels: output.map(|output| output.labels.clone()).unwrap_or_default(),
        facts: delivery_facts(facts),
    }
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
        SpendKnown::No => format!("at most {}", spend.usd),
    }
}

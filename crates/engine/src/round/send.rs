//! Send: claim, search for our marker, execute, receipt. A claim is durable before anything is sent. An item that may
//! have been sent is searched for before it is sent again; if that stays unknown, a person decides.

use super::bindings::{DeliveryOutlet, LoopBindings};
use super::context::RoundContext;
use super::journal::RoundJournal;
use super::rows::{StepTiming, outbox_row};
use super::{StageError, bounds};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::outbox::{DeliveryOutcome, LocalForge, PriorDelivery, PushingDeliver, deliver_one};
use crate::probe::read_forge;
use crate::store::{OutboxRow, OutboxState, RowChange};
use loopwright_core::deliver::{Deliver, Delivery, EngineFact};
use loopwright_core::forge::count_open_pulls;
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::{self, StagedItem};
use loopwright_core::round::{Action, DeliveryEnded, DeliveryResult, Event, Phase, Round, RoundFacts, Stage};
use loopwright_core::spec::{ActionKind, LoopSpec};
use std::sync::Arc;

/// The most open pull requests that are counted; `open_max` is at most 1,000.
const COUNTED_MAX: usize = 1_001;

/// The most attempts for one item.
const TRIES_MAX: i64 = 3;

pub(super) async fn send(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    positions: Vec<u32>,
) -> Result<Vec<Action>, StageError> {
    let mut following = Vec::new();
    for position in positions {
        let items = journal.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
        let Some(item) = items.iter().find(|item| item.position == position).cloned() else { continue };
        cx.stage(Stage::Send, format!("{} {}", item.kind, item.target.as_deref().unwrap_or_default()));
        let result = deliver(cx, journal, &item).await?;
        let delivered = Event::Delivered(DeliveryEnded { position, result });
        following = journal.apply(cx, delivered, Vec::new()).await?;
    }
    Ok(following)
}

async fn deliver(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    item: &StagedItem,
) -> Result<DeliveryResult, StageError> {
    let Some(outlet) = outlet(cx).await? else {
        return Ok(DeliveryResult::Refused { text: "no action executor is configured".to_owned() });
    };
    let candidate = match journal.round().phase() {
        Phase::Sending(approved) => approved.candidate(),
        _ => "",
    };
    let delivery = delivery(journal.round(), item, candidate);
    for tried in 0.. {
        let prior = claim(cx, journal, item, tried).await?;
        let text = match deliver_one(outlet.as_ref(), &cx.engine.settings.seam, &delivery, prior).await {
            DeliveryOutcome::Sent(receipt) => return Ok(DeliveryResult::Sent { place: receipt.place }),
            DeliveryOutcome::InDoubt(text) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
            DeliveryOutcome::Refused(text) => return Ok(DeliveryResult::Refused { text: bounds::text(&text) }),
            DeliveryOutcome::Retry(text) => bounds::text(&text),
        };
        if tried + 1 >= TRIES_MAX {
            return Ok(DeliveryResult::Quarantined { text });
        }
    }
    unreachable!("the last try returns")
}

/// Claims the item durably. An existing claim means that an engine died while sending it: it may have been sent.
async fn claim(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    item: &StagedItem,
    tries: i64,
) -> Result<PriorDelivery, StageError> {
    let rows = cx.engine.store.outbox(&cx.id).await?;
    let found = rows.iter().find(|row| row.position == i64::from(item.position));
    let prior = if tries > 0 || found.is_some_and(|row| row.state == OutboxState::Claimed) {
        PriorDelivery::MaybeSent
    } else {
        PriorDelivery::Fresh
    };
    let row = outbox_row(journal.round(), item, OutboxState::Claimed, &StepTiming::now(cx));
    let claim = Some(format!("pid {}", std::process::id()));
    let tries = found.map_or(0, |row| row.tries) + 1;
    journal.write_rows(cx, vec![RowChange::Outbox(OutboxRow { claim, tries, ..row })]).await?;
    Ok(prior)
}

async fn outlet(cx: &RoundContext<'_>) -> Result<Option<Arc<dyn Deliver>>, StageError> {
    match &cx.bind.outlet {
        DeliveryOutlet::ApprovalOnly => Ok(None),
        DeliveryOutlet::Deliver(deliver) => {
            Ok(Some(Arc::new(PushingDeliver::new(Arc::clone(deliver), cx.objects().clone()))))
        }
        DeliveryOutlet::LocalForge => {
            let folder = cx.engine.state_dir.forge(&cx.repo.id);
            let forge = LocalForge::open(&folder, cx.objects().clone(), Arc::clone(&cx.engine.settings.clock)).await;
            Ok(Some(Arc::new(forge.map_err(|error| StageError::broke(Stage::Send, "forge", &error))?)))
        }
    }
}

/// The number of open pull requests of a loop on its forge, if it has reached `open_max`. `None` if there are fewer, or
/// the loop opens none, or its forge cannot be read here.
pub(crate) async fn too_many_open(
    engine: &Engine,
    spec: &LoopSpec,
    bind: &LoopBindings,
    repo: &str,
) -> Result<Option<u32>, EngineError> {
    let opens = spec.output.iter().any(|output| output.kind == ActionKind::PullRequest);
    let forge = read_forge(engine, spec, repo).filter(|_| opens && matches!(bind.outlet, DeliveryOutlet::LocalForge));
    let Some(forge) = forge else { return Ok(None) };
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
        draft: output.is_none_or(|output| output.draft),
        labels: output.map(|output| output.labels.clone()).unwrap_or_default(),
        facts: delivery_facts(facts),
    }
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
    ]
}

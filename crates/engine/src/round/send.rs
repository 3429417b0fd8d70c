//! Send: claim, search for our marker, execute, receipt. A claim is durable before anything is sent. An item that may
//! have been sent is searched for before it is sent again; if that stays unknown, a person decides.

use super::bindings::{DeliveryOutlet, LoopBindings};
use super::journal::outbox_row;
use super::{RoundDriver, StageError, bounds};
use crate::daemon::STOP_FLAG;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::outbox::{ConnectedForge, DeliveryOutcome, LocalForge, PriorDelivery, PushingDeliver, deliver_one};
use crate::store::{OutboxRow, OutboxState, RowChange, StoreBatch};
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

impl RoundDriver<'_> {
    pub(super) async fn send(&mut self, positions: Vec<u32>) -> Result<Vec<Action>, StageError> {
        let mut following = Vec::new();
        for position in positions {
            let Some(item) = self.item(position) else { continue };
            let result = match self.round.facts().missing_change() {
                Some(text) => DeliveryResult::Refused { text },
                None => self.deliver(&item).await?,
            };
            following = self.apply(Event::Delivered(DeliveryEnded { position, result }), Vec::new()).await?;
            if !matches!(self.round.phase(), Phase::Sending(_)) {
                break;
            }
        }
        Ok(following)
    }

    fn item(&self, position: u32) -> Option<StagedItem> {
        let items = &self.round.facts().attempt()?.items;
        items.iter().find(|item| item.position == position).cloned()
    }

    async fn deliver(&mut self, item: &StagedItem) -> Result<DeliveryResult, StageError> {
        self.stage(Stage::Send, format!("{} {}", item.kind, item.target.as_deref().unwrap_or_default()));
        if let Some(text) = self.exceeded_limit(item).await? {
            return Ok(DeliveryResult::Blocked { text });
        }
        let receiver = match self.receiver(item).await? {
            Ok(Some(receiver)) => receiver,
            Ok(None) => return Ok(DeliveryResult::Refused { text: "no action executor is configured".to_owned() }),
            Err(error) => return Ok(DeliveryResult::Blocked { text: bounds::text(&error.text) }),
        };
        let delivery = self.delivery(item);
        for tries in 1.. {
            if let Some(text) = self.stop_reason().await? {
                return Ok(DeliveryResult::Blocked { text });
            }
            let prior = self.claim(item, tries).await?;
            let outcome = deliver_one(receiver.deliver.as_ref(), &self.engine.settings.seam, &delivery, prior).await;
            let now_ms = self.engine.now_ms();
            let (error, is_lost) = match outcome {
                DeliveryOutcome::Sent(receipt) => return Ok(DeliveryResult::Sent { place: receipt.place }),
                DeliveryOutcome::InDoubt(text) => return Ok(DeliveryResult::InDoubt { text: bounds::text(&text) }),
                DeliveryOutcome::Refused(text) => return Ok(DeliveryResult::Refused { text: bounds::text(&text) }),
                DeliveryOutcome::Blocked(text) => return Ok(DeliveryResult::Blocked { text: bounds::text(&text) }),
                DeliveryOutcome::Lost(error) => (error, true),
                DeliveryOutcome::Retry(error) => (error, false),
            };
            let text = bounds::text(&error.text);
            match next_attempt(&error, tries, now_ms, receiver.deadline_ms) {
                // Only a lookup that can succeed later is repeated.
                _ if is_lost && receiver.deadline_ms.is_none() => return Ok(DeliveryResult::InDoubt { text }),
                NextAttempt::At(at_ms) if self.wait_to_retry(&text, now_ms, at_ms).await => {}
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
    async fn wait_to_retry(&self, why: &str, now_ms: i64, at_ms: i64) -> bool {
        if at_ms <= now_ms {
            return true;
        }
        let seconds = (at_ms - now_ms + 999) / 1000;
        self.stage(Stage::Send, format!("trying again in {seconds} s: {why}"));
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = self.engine.settings.clock.until(at_ms) => true,
        }
    }

    /// The reason why nothing may be sent: a person stopped everything.
    async fn stop_reason(&self) -> Result<Option<String>, StageError> {
        let flag = self.engine.store().flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
        Ok(flag.map(|flag| format!("everything is stopped by {}: {}", flag.actor, flag.why)))
    }

    /// Claims the item durably. An existing claim means that an engine died while sending it: it may have been sent.
    async fn claim(&mut self, item: &StagedItem, tries: u32) -> Result<PriorDelivery, StageError> {
        let rows = self.engine.store().outbox(self.id()).await?;
        let found = rows.iter().find(|row| row.position == i64::from(item.position));
        let prior = if tries > 1 || found.is_some_and(|row| row.state == OutboxState::Claimed) {
            PriorDelivery::MaybeSent
        } else {
            PriorDelivery::Fresh
        };
        let row = outbox_row(&self.round, item, OutboxState::Claimed, &self.when());
        let claim = Some(format!("pid {}", std::process::id()));
        let tries = found.map_or(0, |row| row.tries) + 1;
        let change = RowChange::Outbox(OutboxRow { claim, tries, ..row });
        let batch = StoreBatch {
            round: self.id().to_owned(),
            expect_index: self.index,
            at_ms: self.engine.now_ms(),
            events: Vec::new(),
            changes: vec![change],
        };
        self.engine.append(batch).await?;
        Ok(prior)
    }

    /// The receiver of an item: `None` if the loop has no outlet, an error if it cannot be connected now.
    async fn receiver(&self, item: &StagedItem) -> Result<Result<Option<ItemReceiver>, DeliverError>, StageError> {
        let local = |deliver| Ok(Ok(Some(ItemReceiver { deliver, deadline_ms: None })));
        let engine = self.workspaces.engine();
        if let DeliveryOutlet::Deliver(deliver) = &self.bind.outlet {
            return local(Arc::new(PushingDeliver::new(Arc::clone(deliver), engine.clone())));
        }
        if matches!(self.bind.outlet, DeliveryOutlet::ApprovalOnly) {
            return Ok(Ok(None));
        }
        let remote = |deliver| {
            let patience = self.wall_left().unwrap_or(PATIENCE);
            let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
            let deadline_ms = Some(self.engine.now_ms().saturating_add(patience_ms));
            Ok(Ok(Some(ItemReceiver { deliver, deadline_ms })))
        };
        let forges = &self.engine.settings.forges;
        match forges.as_ref().map_or(Ok(None), |forges| forges.messenger(item)) {
            Ok(Some(messenger)) => return remote(messenger),
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
        if matches!(self.bind.outlet, DeliveryOutlet::LocalForge) {
            let folder = self.engine.state_dir.forge(&self.repo.id);
            let forge = LocalForge::open(&folder, engine.clone(), Arc::clone(&self.engine.settings.clock));
            return local(Arc::new(forge.await.map_err(|error| StageError::broke(Stage::Send, "forge", &error))?));
        }
        match self.engine.connect_forge(self.spec(), &self.repo.work_tree).await {
            Ok(ConnectedForge { deliver, route, .. }) => {
                remote(Arc::new(PushingDeliver::new(deliver, engine.clone()).with_route(route)))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn delivery(&self, item: &StagedItem) -> Delivery {
        let candidate = match self.round.phase() {
            Phase::Sending(approved) => approved.candidate(),
            _ => "",
        };
        delivery(&self.round, item, candidate)
    }
}

/// The reason why an item is kept after its receiver stayed unavailable.
fn gave_up(text: &str, tries: u32) -> String {
    if tries > 1 { format!("{text} ({tries} attempts)") } else { text.to_owned() }
}

impl Engine {
    /// The number of open pull requests of a loop on its forge, if it has reached `open_max`. `None` if there are
    /// fewer, or the loop opens none, or the embedder delivers its outputs.
    pub(crate) async fn too_many_open(
        &self,
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
        let forge = self.read_forge(spec, repo_id, work_tree).await.map_err(EngineError::Forge)?;
        let open = count_open_pulls(forge.as_ref(), &spec.name, COUNTED_MAX).await.map_err(EngineError::Forge)?;
        let open = u32::try_from(open).unwrap_or(u32::MAX);
        Ok((open >= spec.open_max).then_some(open))
    }

    /// Connects to the forge that a loop names, for the repository at a path.
    pub(crate) async fn connect_forge(
        &self,
        spec: &LoopSpec,
        work_tree: &Path,
    ) -> Result<ConnectedForge, DeliverError> {
        let name = &spec.forge;
        let forges = self.settings.forges.as_ref();
        let forges = forges.ok_or_else(|| DeliverError::blocked(format!("no forge `{name}` is connected here")))?;
        // A repository that was moved has no remote any more; the configuration may name it.
        let origin = match self.git.discover(work_tree).await {
            Ok(repo) => self.git.origin_url(&repo).await.ok().flatten(),
            Err(_) => None,
        };
        forges.forge(name, origin.as_deref())
    }
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

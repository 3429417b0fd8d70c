//! Start: from a request to a recorded round. Nothing happens before `started` is durable.
//!
//! A scheduled round, the receipt of its occurrence, the loop's new mark and the signals it takes are one transaction,
//! so that no crash runs an occurrence twice or loses it. The dispatcher decides which loops are due, and when.

use super::bindings::LoopBindings;
use super::context::{RoundCaller, RoundContext};
use super::gate::CandidateGates;
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::{RoundDriver, too_many_open};
use crate::boundary::{self, BoundaryRefusal};
use crate::daemon::LoopSlot;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gates::{self, GateEnv, HeldoutChecks};
use crate::git::{Oid, UserRepo};
use crate::lease;
use crate::live_rounds::{AdmissionRequest, AdmittedRound, ItemSelection, RoundStarter};
use crate::probe::{self, ProbeResult};
use crate::random;
use crate::store::{OfferPlace, OfferRow, ReceiptRow, RowChange, ScheduleRow};
use crate::workspace::Workspaces;
use loopwright_core::dispatch::{LoopKey, PlacementNeeds, RoundClaims};
use loopwright_core::name::RoundId;
use loopwright_core::round::{
    Action, Boundary, BoundaryLevel, GoalOrigin, ProbeItem, RebaseOrigin, Round, RoundStarted, Step,
};
use loopwright_core::spec::{CheckedSpec, Gate, LoopSpec, Role};
use loopwright_core::workflow::WorkflowPlace;
use std::path::PathBuf;
use std::time::Duration;

/// The trigger of a calibration round.
pub(super) const CALIBRATION: &str = "calibration";

/// A request for a round.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The loop.
    pub spec: CheckedSpec,
    /// The repository, or a folder inside it.
    pub repo: PathBuf,
    /// The trigger that made the loop due.
    pub trigger: String,
    /// The occurrence's key; a manual start gets a unique one.
    pub occurrence: Option<String>,
    /// The actor of the request.
    pub actor: String,
    /// The round's id, if the caller has chosen it; a new one otherwise.
    pub round: Option<RoundId>,
    /// Items that a person named, or that signals are about.
    pub items: Vec<String>,
    /// The result of a probe that ran just before, without a round. The round does not run the probe again, so that it
    /// locks and works on the same items.
    pub probe_result: Option<ProbeResult>,
    /// Whether outputs are only shown.
    pub dry_run: bool,
    /// Files outside the spec that the round depends on, with their hashes.
    pub inputs: Vec<(String, String)>,
    /// The ended round that this one retries, for the same item.
    pub retry_of: Option<String>,
    /// Whether the round only shows a planted change to the checker.
    pub calibration: bool,
    /// The open proposal that the round moves onto a newer base.
    pub rebase: Option<RebaseOrigin>,
    /// The workflow that the round is a part of.
    pub workflow: Option<WorkflowPlace>,
    /// The contract that the round works toward.
    pub goal: Option<GoalOrigin>,
    /// The rows that are recorded with the start of a round that was due; its occurrence and trigger are then the
    /// receipt's.
    pub due: Option<DueRecord>,
}

impl RunRequest {
    /// A round that only shows a planted change to the loop's checker.
    #[must_use]
    pub fn calibration(spec: CheckedSpec, repo: impl Into<PathBuf>, actor: impl Into<String>) -> Self {
        Self { trigger: CALIBRATION.to_owned(), calibration: true, ..Self::manual(spec, repo, actor) }
    }

    /// A manual start.
    #[must_use]
    pub fn manual(spec: CheckedSpec, repo: impl Into<PathBuf>, actor: impl Into<String>) -> Self {
        Self {
            spec,
            repo: repo.into(),
            trigger: "manual".to_owned(),
            occurrence: None,
            actor: actor.into(),
            round: None,
            items: Vec::new(),
            probe_result: None,
            dry_run: false,
            inputs: Vec::new(),
            retry_of: None,
            calibration: false,
            rebase: None,
            workflow: None,
            goal: None,
            due: None,
        }
    }
}

/// The rows of the due time or the signals that started a round. Their repository and loop are the round's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRecord {
    /// The occurrence's receipt; the round's id is filled in when the round starts.
    pub receipt: ReceiptRow,
    /// The loop's new schedule. Only its mark is written, unless the loop had no schedule: a pause that was recorded
    /// between the decision to start and the start is newer than the decision.
    pub schedule: ScheduleRow,
    /// The keys of the signals that the round takes.
    pub signals: Vec<String>,
}

impl DueRecord {
    /// The rows that are written with the first event of a round.
    fn changes(self, round: &str) -> Vec<RowChange> {
        let Self { receipt, schedule, signals } = self;
        let (repo, loop_name) = (receipt.repo.clone(), receipt.loop_name.clone());
        let taken = signals.into_iter().map(|key| RowChange::SignalTaken {
            repo: repo.clone(),
            loop_name: loop_name.clone(),
            key,
        });
        let receipt = ReceiptRow { round: Some(round.to_owned()), ..receipt };
        [RowChange::Receipt(receipt), RowChange::Mark(schedule)].into_iter().chain(taken).collect()
    }
}

/// Whether a signal is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalNovelty {
    /// It is new, and durable.
    First,
    /// The same signal exists already, waiting or taken.
    Repeated,
}

impl<'a> RoundDriver<'a> {
    /// Records a new round, which runs here or is offered to the workers.
    pub(crate) async fn start(
        engine: &'a Engine,
        mut request: RunRequest,
        caller: RoundCaller<'a>,
        place: RoundPlace,
    ) -> Result<(Self, Vec<Action>), EngineError> {
        let repo = engine.git.discover(&request.repo).await?;
        // Without commits, or without the requested base, there is no round.
        let head = engine.git.head(&repo, request.spec.base.as_deref()).await?;
        let workspaces = engine.workspaces(repo.clone()).await?;
        gate_scripts_in_base(engine, &workspaces, &request.spec, &head.commit).await?;
        if caller.by == RoundStarter::Manual && !request.dry_run && !request.calibration && request.rebase.is_none() {
            ensure_open_max(engine, &request.spec, caller.bind, &repo).await?;
        }
        let heldout = read_heldout(engine, &repo, &request.spec)?;
        request.inputs.extend(heldout.inputs());
        let pick = probe_before_round(engine, &mut request, &repo, caller).await?;
        let started_ms = engine.now_ms();
        let (due, mut items, probe_result) = requested_work(engine, &mut request, &repo).await?;
        let chain = start_chain(engine, &repo, due.as_ref()).await?;
        items.extend(chained_start(&request, due.as_ref(), &items, chain));
        let held = held(engine, caller.bind, &request.spec).await;
        let provider_wait_ms = millis(engine.settings.provider_wait);
        let mut started = RoundStarted { provider_wait_ms, chain, ..birth(request, items, &repo, held)? };
        let live_guard = engine.live_rounds.register(&started.round).ok_or_else(|| super::busy(&started.round))?;
        let slot_hold = admit_round(engine, &mut started, pick, caller).await?;
        let cx = RoundContext::new(engine, caller, &started, started_ms, workspaces, Some(head));
        let sandbox = RoundSandbox::open(&cx, &started, None).await?;
        let mut extra = due.map(|due| due.changes(&cx.id)).unwrap_or_default();
        // The loop's slot and the round's locks are taken in the same transaction.
        let needs = lease::needs(engine, caller.by, &started, started.item.iter().chain(&started.more));
        extra.push(RowChange::Lease(lease::lease_request(&started, needs)));
        if let RoundPlace::Worker(needs) = place {
            extra.push(RowChange::Offer(offer(&started, needs, engine.now_ms())));
        }
        let Step { round, actions } = Round::begin(started);
        let mut journal = RoundJournal::new(round, 0);
        journal.record_first_event(&cx, extra).await?;
        let gates = CandidateGates::new(heldout);
        let budget = RoundBudget::new();
        let _slot = slot_hold;
        Ok((Self { cx, journal, budget, sandbox, gates, probe_result, _slot, live_guard }, actions))
    }
}

/// Where a new round runs.
pub(crate) enum RoundPlace {
    /// In this process.
    Here,
    /// On a worker that has what it needs.
    Worker(PlacementNeeds),
}

/// The offer of a round, recorded with its first event.
fn offer(started: &RoundStarted, needs: PlacementNeeds, now_ms: i64) -> OfferRow {
    let is_isolated = started.boundary.level == BoundaryLevel::Kernel;
    let place = OfferPlace { repo: started.repo.clone(), is_isolated, needs };
    let (round, priority) = (started.round.clone(), i64::from(started.spec.priority));
    OfferRow { round, place: place.to_text(), priority, offered_ms: now_ms, worker: None, tries: 0 }
}

/// Before a manual start, runs the probe of a loop that locks its items. Items that other rounds work on are left out;
/// if none is left, no round starts.
async fn probe_before_round(
    engine: &Engine,
    request: &mut RunRequest,
    repo: &UserRepo,
    caller: RoundCaller<'_>,
) -> Result<ItemSelection, EngineError> {
    let is_asked = !request.items.is_empty() || request.probe_result.is_some() || request.rebase.is_some();
    let is_due = caller.by == RoundStarter::Dispatcher;
    if request.calibration || is_due || is_asked || !request.spec.locks_items() || request.spec.on.probe.is_none() {
        return Ok(ItemSelection::All);
    }
    request.probe_result = Some(probe::probe_only(engine, &request.spec, repo, caller.cancel).await?);
    Ok(ItemSelection::Free)
}

/// Admits the round with its claims, and leaves out items that it may not work on.
async fn admit_round(
    engine: &Engine,
    started: &mut RoundStarted,
    pick: ItemSelection,
    caller: RoundCaller<'_>,
) -> Result<Option<LoopSlot>, EngineError> {
    let items: Vec<ProbeItem> = started.item.iter().chain(&started.more).cloned().collect();
    let arrival = admission_request(started, &items, pick);
    let AdmittedRound { slot: stay, items: granted } = lease::admit(engine, caller, arrival).await?;
    let mut items = items.into_iter().filter(|item| granted.iter().any(|key| **key == *item.key));
    (started.item, started.more) = (items.next(), items.collect());
    Ok(stay)
}

/// The round's request for admission.
pub(crate) fn admission_request(started: &RoundStarted, items: &[ProbeItem], pick: ItemSelection) -> AdmissionRequest {
    AdmissionRequest {
        key: LoopKey::new(&started.repo, &started.spec.name),
        round: started.round.clone(),
        claims: Some(RoundClaims::from_spec(&started.spec, &started.repo)),
        items: items.iter().map(|item| item.key.as_str().into()).collect(),
        pick,
    }
}

/// The due record, the requested items, and the rest of the probe's result. The occurrence and its trigger are the
/// receipt's.
async fn requested_work(
    engine: &Engine,
    request: &mut RunRequest,
    repo: &UserRepo,
) -> Result<(Option<DueRecord>, Vec<ProbeItem>, Option<ProbeResult>), EngineError> {
    let due = request.due.take();
    let mut items = Vec::new();
    for key in std::mem::take(&mut request.items) {
        items.push(requested_item(engine, key, due.as_ref()).await?);
    }
    if due.is_some() {
        probe::count_commits(engine, repo, &mut items).await?;
    }
    if let (true, Some(ProbeResult::Items(found))) = (items.is_empty(), &mut request.probe_result) {
        items = std::mem::take(found);
    }
    let count = items.len();
    items.iter_mut().for_each(|item| probe::cut_to_share(item, count));
    if let Some(due) = &due {
        request.occurrence = Some(due.receipt.occurrence.clone());
        request.trigger.clone_from(&due.receipt.trigger);
    }
    Ok((due, items, request.probe_result.take()))
}

/// An item by its key, with the title and data of its signal.
async fn requested_item(engine: &Engine, key: String, due: Option<&DueRecord>) -> Result<ProbeItem, EngineError> {
    for signal in due.iter().flat_map(|due| &due.signals) {
        let of = due.map(|due| (due.receipt.repo.as_str(), due.receipt.loop_name.as_str())).unwrap_or_default();
        let row = engine.store.signal(of.0, of.1, signal).await?;
        if let Some(row) = row.filter(|row| row.item.as_ref() == Some(&key)) {
            // The text of a comment or an issue is in the data.
            let chain = probe::after_round(engine, row.data.as_deref().unwrap_or_default()).await?;
            return Ok(ProbeItem { key, title: row.title, data: row.data, chain });
        }
    }
    Ok(ProbeItem { key, title: None, data: None, chain: 0 })
}

/// The number of effects of loops that led to a start by signals. One signal without such a chain is reason enough.
async fn start_chain(engine: &Engine, repo: &UserRepo, due: Option<&DueRecord>) -> Result<u32, EngineError> {
    let mut least = None;
    for signal in due.iter().flat_map(|due| &due.signals) {
        let chain = probe::after_signal(engine, repo, signal).await?;
        least = Some(least.map_or(chain, |least: u32| least.min(chain)));
    }
    Ok(least.unwrap_or_default())
}

/// Loops that start each other without an item: the start itself is the item of the question, so that a person can retry
/// or forget it.
fn chained_start(request: &RunRequest, due: Option<&DueRecord>, items: &[ProbeItem], chain: u32) -> Option<ProbeItem> {
    let due = due.filter(|_| items.is_empty() && request.spec.on.probe.is_none() && chain > request.spec.chain_max)?;
    Some(ProbeItem { key: due.receipt.occurrence.clone(), title: None, data: None, chain })
}

/// A gate script that base does not have is an error of the loop, not of a round, so it is reported before anything
/// starts.
async fn gate_scripts_in_base(
    engine: &Engine,
    spaces: &Workspaces,
    spec: &CheckedSpec,
    base: &Oid,
) -> Result<(), EngineError> {
    let all = spec.gates_and_exercise();
    if !all.iter().any(|gate| matches!(gate, Gate::Run(_))) {
        return Ok(());
    }
    spaces.import(base).await?;
    let paths = gates::base_paths(spaces.engine(), base).await?;
    let env = GateEnv { extra_path: engine.settings.extra_path.clone(), ..GateEnv::default() };
    let unresolved = gates::resolve(&all, &paths, &env).err().unwrap_or_default();
    if unresolved.is_empty() {
        return Ok(());
    }
    Err(EngineError::not_runnable(&spec.name, &unresolved))
}

/// Refuses a round of a loop that has as many open pull requests as it may. For a round that is due, the daemon checked this
/// before.
async fn ensure_open_max(
    engine: &Engine,
    spec: &CheckedSpec,
    bind: &LoopBindings,
    repo: &UserRepo,
) -> Result<(), EngineError> {
    match too_many_open(engine, spec, bind, &repo.id, &repo.work_tree).await? {
        Some(open) => Err(EngineError::TooManyOpen { loop_name: spec.name.clone(), open, open_max: spec.open_max }),
        None => Ok(()),
    }
}

/// Held-out checks are read before anything of the round exists, so that nothing it does can change them.
pub(super) fn read_heldout(engine: &Engine, repo: &UserRepo, spec: &LoopSpec) -> Result<HeldoutChecks, EngineError> {
    let ground = engine.path_roots(repo);
    let env = GateEnv { extra_path: engine.settings.extra_path.clone(), ..GateEnv::default() };
    HeldoutChecks::read(spec, &ground, &env, &engine.visible_toolchains(repo, spec))
        .map_err(|errors| EngineError::not_runnable(&spec.name, &errors))
}

/// The boundary of the round, or why it may not run here.
async fn held(engine: &Engine, bind: &LoopBindings, spec: &CheckedSpec) -> Result<Boundary, BoundaryRefusal> {
    let mut boundary = boundary::decide(spec.level, spec.sandbox, engine.host().await)?;
    for (role, agent) in bind.agents.iter() {
        boundary::note_unconfined(&mut boundary, role, agent.as_ref());
    }
    for (role, agent) in Role::ALL.into_iter().flat_map(|role| spec.chain(role).into_iter().map(move |one| (role, one)))
    {
        if engine.login(&agent).is_some() {
            let (role, agent) = (role.word(), agent.agent.word());
            boundary
                .gaps
                .push(format!("the {role}'s own sign-in (`{agent}`) is in its HOME, where its tools can read it"));
        }
    }
    Ok(boundary)
}

fn birth(
    request: RunRequest,
    items: Vec<ProbeItem>,
    repo: &UserRepo,
    held: Result<Boundary, BoundaryRefusal>,
) -> Result<RoundStarted, EngineError> {
    let (boundary, refusal) = match held {
        Ok(boundary) => (boundary, None),
        Err(refused) => (*refused.boundary, Some(refused.text)),
    };
    let mut items = items.into_iter();
    let round = match &request.round {
        Some(chosen) => chosen.to_string(),
        None => new_round_id()?.to_string(),
    };
    Ok(RoundStarted {
        occurrence: request.occurrence.unwrap_or_else(|| format!("manual:{round}")),
        round,
        repo: repo.id.clone(),
        repo_path: repo.work_tree.to_string_lossy().into_owned(),
        trigger: request.trigger,
        spec_hash: request.spec.hash().to_owned(),
        boundary,
        refusal,
        spec: request.spec.into_spec(),
        actor: request.actor,
        item: items.next(),
        more: items.collect(),
        chain: 0,
        dry_run: request.dry_run,
        inputs: request.inputs,
        provider_wait_ms: 0,
        waits_first: true,
        retry_of: request.retry_of,
        calibration: request.calibration,
        rebase: request.rebase,
        workflow: request.workflow,
        goal: request.goal,
    })
}

/// A new id for a round.
///
/// # Errors
/// When the system's random source cannot be read.
pub fn new_round_id() -> Result<RoundId, EngineError> {
    Ok(RoundId::new(random::bytes()?))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

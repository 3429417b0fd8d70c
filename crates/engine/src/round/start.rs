//! Start: from a request to a recorded round. Nothing happens before `started` is durable.

use super::bindings::LoopBindings;
use super::due::{self, DueRecord};
use super::journal::{self, StepTiming};
use super::{RoundDriver, isolate, recorded_event};
use crate::boundary::{self, BoundaryRefusal};
use crate::egress::EgressRoutes;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gates::{self, GateEnv, HeldoutChecks};
use crate::git::{Oid, UserRepo};
use crate::lease::{lease_request, occupied};
use crate::live_rounds::{AdmissionRequest, AdmittedRound, ItemSelection, LoopSlotHold, RoundStarter};
use crate::probe::{self, ProbeResult};
use crate::proc::CancelToken;
use crate::random;
use crate::sandbox_view::SandboxViews;
use crate::store::{LeaseRequest, RowChange, StoreBatch};
use crate::workspace::Workspaces;
use loopwright_core::dispatch::{LoopKey, RoundClaims};
use loopwright_core::name::RoundId;
use loopwright_core::round::{Action, Boundary, Event, ProbeItem, Round, RoundStarted, Step};
use loopwright_core::spec::{CheckedSpec, Gate, LoopSpec, Role};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

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
    /// The rows that are recorded with the start of a round that was due; its occurrence and trigger are then the
    /// receipt's.
    pub due: Option<DueRecord>,
}

impl RunRequest {
    /// A manual start.
    #[must_use]
    pub fn manual(spec: CheckedSpec, repo: impl Into<PathBuf>, actor: impl Into<String>) -> Self {
        Self {
            spec,
            repo: repo.into(),
            trigger: "manual".to_owned(),
            occurrence: None,
            actor: actor.into(),
            items: Vec::new(),
            probe_result: None,
            dry_run: false,
            inputs: Vec::new(),
            retry_of: None,
            due: None,
        }
    }
}

impl<'a> RoundDriver<'a> {
    /// Records a new round.
    pub(crate) async fn start(
        engine: &'a Engine,
        bind: &'a LoopBindings,
        mut request: RunRequest,
        cancel: &'a CancelToken,
        by: RoundStarter,
    ) -> Result<(Self, Vec<Action>), EngineError> {
        let repo = engine.git.discover(&request.repo).await?;
        // Without commits, or without the requested base, there is no round.
        let head = engine.git.head(&repo, request.spec.base.as_deref()).await?;
        let spaces = engine.workspaces(repo.clone()).await?;
        gate_scripts_in_base(engine, &spaces, &request.spec, &head.commit).await?;
        if by == RoundStarter::Manual && !request.dry_run {
            ensure_open_max(engine, &request.spec, bind, &repo).await?;
        }
        let heldout = read_heldout(engine, &repo, &request.spec)?;
        request.inputs.extend(heldout.inputs());
        let pick = probe_before_round(engine, &mut request, &repo, by, cancel).await?;
        let started_ms = engine.now_ms();
        let (due, items, found) = requested_work(engine, &mut request).await?;
        let held = held(engine, bind, &request.spec).await;
        let provider_wait_ms = millis(engine.settings.provider_wait);
        let mut started = RoundStarted { provider_wait_ms, ..birth(request, items, &repo, started_ms, held)? };
        let here = engine.live_rounds.register(&started.round).ok_or_else(|| super::busy(&started.round))?;
        let stay = admit_round(engine, &mut started, pick, cancel, by).await?;
        let (views, routes) = around(engine, bind, &repo, &started).await?;
        let scanner = engine.settings.known_secrets.scanner(&started.spec.secrets);
        let Step { round, actions } = Round::begin(started);
        let failures = journal::failures(engine, round.facts()).await?;
        let mut run = Self {
            engine,
            bind,
            cancel,
            repo,
            workspaces: spaces,
            views,
            routes,
            scanner,
            is_warm: false,
            workspace: None,
            resolved: None,
            heldout: Some(heldout),
            baseline: None,
            sealed: None,
            head: Some(head),
            probe_result: found,
            round,
            index: 0,
            started_ms,
            failures,
            begun: Instant::now(),
            seats: BTreeMap::new(),
            _slot_hold: stay,
            _live_guard: here,
        };
        let mut extra = due.map(|due| due.changes(run.id())).unwrap_or_default();
        extra.push(RowChange::Lease(run.lease(by)));
        run.record_first_event(extra).await?;
        Ok((run, actions))
    }

    /// The lease of the starting round: its loop's slot and its locks are taken in the same transaction.
    fn lease(&self, by: RoundStarter) -> LeaseRequest {
        let started = &self.round.facts().started;
        let items = started.item.iter().chain(&started.more);
        let keys: Vec<_> = items.map(|item| item.key.as_str().into()).collect();
        lease_request(started, self.engine.needs(by, started, &keys))
    }

    /// Records the first event, which says all that must not change under the round.
    async fn record_first_event(&mut self, extra: Vec<RowChange>) -> Result<(), EngineError> {
        let event = Event::Started(Box::new(self.round.facts().started.clone()));
        let when = StepTiming { now_ms: self.started_ms, ..self.when() };
        let mut changes = journal::changes(None, &self.round, &event, &when);
        changes.extend(extra);
        let batch = StoreBatch {
            round: self.id().to_owned(),
            expect_index: 0,
            at_ms: self.started_ms,
            events: vec![recorded_event(&event)],
            changes,
        };
        let appended = self.engine.append(batch).await;
        self.index = appended.map_err(|error| occupied(error, &self.spec().name))?;
        Ok(())
    }
}

/// Before a manual start, runs the probe of a loop that locks its items. Items that other rounds work on are left out;
/// if none is left, no round starts.
async fn probe_before_round(
    engine: &Engine,
    request: &mut RunRequest,
    repo: &UserRepo,
    by: RoundStarter,
    cancel: &CancelToken,
) -> Result<ItemSelection, EngineError> {
    let is_asked = !request.items.is_empty() || request.probe_result.is_some();
    if by == RoundStarter::Dispatcher || is_asked || !request.spec.locks_items() || request.spec.on.probe.is_none() {
        return Ok(ItemSelection::All);
    }
    request.probe_result = Some(engine.probe_only(&request.spec, repo, cancel).await?);
    Ok(ItemSelection::Free)
}

/// Admits the round with its claims, and leaves out items that it may not work on.
async fn admit_round(
    engine: &Engine,
    started: &mut RoundStarted,
    pick: ItemSelection,
    cancel: &CancelToken,
    by: RoundStarter,
) -> Result<Option<Box<dyn LoopSlotHold>>, EngineError> {
    let items: Vec<ProbeItem> = started.item.iter().chain(&started.more).cloned().collect();
    let arrival = admission_request(started, &items, pick);
    let AdmittedRound { slot_hold: stay, items: granted } = engine.admit(by, arrival, cancel).await?;
    let mut items = items.into_iter().filter(|item| granted.iter().any(|key| **key == *item.key));
    (started.item, started.more) = (items.next(), items.collect());
    Ok(stay)
}

/// The round's request for admission.
pub(super) fn admission_request(started: &RoundStarted, items: &[ProbeItem], pick: ItemSelection) -> AdmissionRequest {
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
) -> Result<(Option<DueRecord>, Vec<ProbeItem>, Option<ProbeResult>), EngineError> {
    let due = request.due.take();
    let mut items = Vec::new();
    for key in std::mem::take(&mut request.items) {
        items.push(due::item(engine, key, due.as_ref()).await?);
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

/// The sandbox views of the round's programs, and their network routes.
async fn around(
    engine: &Engine,
    bind: &LoopBindings,
    repo: &UserRepo,
    started: &RoundStarted,
) -> Result<(SandboxViews, EgressRoutes), EngineError> {
    let method = isolate::method(engine, bind, &started.boundary).await;
    let rooms = engine.sandbox_views(&started.boundary, repo, &started.spec)?.with_method(method);
    let ways = engine.open_routes(&started.round, &rooms, &started.spec)?;
    let rooms = rooms.with_routes(&ways);
    Ok((rooms, ways))
}

/// A gate script that base does not have is an error of the loop, not of a round, so it is reported before anything
/// starts.
async fn gate_scripts_in_base(
    engine: &Engine,
    spaces: &Workspaces,
    spec: &CheckedSpec,
    base: &Oid,
) -> Result<(), EngineError> {
    if !spec.gates.iter().any(|gate| matches!(gate, Gate::Run(_))) {
        return Ok(());
    }
    {
        let _one = engine.lock_bases().await?;
        spaces.import(base).await?;
    }
    let paths = gates::base_paths(spaces.engine(), base).await?;
    let env = GateEnv { extra_path: engine.settings.extra_path.clone(), ..GateEnv::default() };
    let unresolved = gates::resolve(&spec.gates, &paths, &env).err().unwrap_or_default();
    if unresolved.is_empty() {
        return Ok(());
    }
    let why = unresolved.iter().map(ToString::to_string).collect();
    Err(EngineError::NotRunnable { name: spec.name.clone(), why })
}

/// Refuses a round of a loop that has as many open pull requests as it may. For a round that is due, the daemon checked this
/// before.
async fn ensure_open_max(
    engine: &Engine,
    spec: &CheckedSpec,
    bind: &LoopBindings,
    repo: &UserRepo,
) -> Result<(), EngineError> {
    match engine.too_many_open(spec, bind, &repo.id, &repo.work_tree).await? {
        Some(open) => Err(EngineError::TooManyOpen { loop_name: spec.name.clone(), open, open_max: spec.open_max }),
        None => Ok(()),
    }
}

/// Held-out checks are read before anything of the round exists, so that nothing it does can change them.
pub(super) fn read_heldout(engine: &Engine, repo: &UserRepo, spec: &LoopSpec) -> Result<HeldoutChecks, EngineError> {
    let ground = engine.path_roots(repo);
    let env = GateEnv { extra_path: engine.settings.extra_path.clone(), ..GateEnv::default() };
    HeldoutChecks::read(spec, &ground, &env, &engine.visible_toolchains(repo, spec)).map_err(|errors| {
        EngineError::NotRunnable { name: spec.name.clone(), why: errors.iter().map(ToString::to_string).collect() }
    })
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
    now_ms: i64,
    held: Result<Boundary, BoundaryRefusal>,
) -> Result<RoundStarted, EngineError> {
    let (boundary, refusal) = match held {
        Ok(boundary) => (boundary, None),
        Err(refused) => (*refused.boundary, Some(refused.text)),
    };
    let mut items = items.into_iter();
    let round = RoundId::new(u64::try_from(now_ms).unwrap_or(0), random::bytes()?).to_string();
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
        dry_run: request.dry_run,
        inputs: request.inputs,
        provider_wait_ms: 0,
        retry_of: request.retry_of,
    })
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

//! Start: from a request to a recorded round. Nothing happens before `started` is durable.

use super::bindings::Bindings;
use super::due::{self, DueRecord};
use super::journal::{self, When};
use super::{Run, isolate, recorded};
use crate::boundary::{self, Refused};
use crate::egress::Ways;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gates::{self, GateEnv, Heldouts};
use crate::git::{Oid, UserRepo};
use crate::lease::{lease_request, occupied};
use crate::live::{Admission, Arrival, By, Pick, Stay};
use crate::probe::{self, Work};
use crate::proc::Cancel;
use crate::random;
use crate::room::Rooms;
use crate::store::{Batch, Change, LeaseRequest};
use crate::workspace::Workspaces;
use loopwright_core::dispatch::{Claims, LoopKey};
use loopwright_core::name::RoundId;
use loopwright_core::round::{Action, Boundary, Event, Item, Round, Started, Step};
use loopwright_core::spec::{CheckedSpec, Gate, LoopSpec, Role};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// What is asked of the engine.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The loop.
    pub spec: CheckedSpec,
    /// The repository, or a folder inside it.
    pub repo: PathBuf,
    /// What made the loop due.
    pub trigger: String,
    /// The occurrence's key; a start by hand gets one of its own.
    pub occurrence: Option<String>,
    /// Who asks.
    pub actor: String,
    /// Items named by a person, or brought by signals.
    pub items: Vec<String>,
    /// What the loop's probe said just before, where it was asked without a round; the round does not ask again, so that what
    /// was asked is what it locks and works on.
    pub found: Option<Work>,
    /// Whether outputs are only shown.
    pub dry_run: bool,
    /// Files outside the spec that the round depends on, with their hashes.
    pub inputs: Vec<(String, String)>,
    /// The ended round that this one is started after, for the same item.
    pub retry_of: Option<String>,
    /// What is recorded with the birth of a round that was due; its occurrence and trigger are then the receipt's.
    pub due: Option<DueRecord>,
}

impl RunRequest {
    /// A start by hand.
    #[must_use]
    pub fn manual(spec: CheckedSpec, repo: impl Into<PathBuf>, actor: impl Into<String>) -> Self {
        Self {
            spec,
            repo: repo.into(),
            trigger: "manual".to_owned(),
            occurrence: None,
            actor: actor.into(),
            items: Vec::new(),
            found: None,
            dry_run: false,
            inputs: Vec::new(),
            retry_of: None,
            due: None,
        }
    }
}

impl<'a> Run<'a> {
    /// Records a new round.
    pub(crate) async fn start(
        engine: &'a Engine,
        bind: &'a Bindings,
        mut request: RunRequest,
        cancel: &'a Cancel,
        by: By,
    ) -> Result<(Self, Vec<Action>), EngineError> {
        let repo = engine.git.discover(&request.repo).await?;
        // A repository without commits or without the asked base has no round: the person is told at once.
        let head = engine.git.head(&repo, request.spec.base.as_deref()).await?;
        let spaces = engine.workspaces(repo.clone()).await?;
        gate_scripts_in_base(engine, &spaces, &request.spec, &head.commit).await?;
        // A round that is due was asked about before.
        if by == By::Hand
            && !request.dry_run
            && let Some(open) = engine.too_many_open(&request.spec, bind, &repo.id).await?
        {
            let (loop_name, open_max) = (request.spec.name.clone(), request.spec.open_max);
            return Err(EngineError::TooManyOpen { loop_name, open, open_max });
        }
        let heldout = heldout(engine, &repo, &request.spec)?;
        request.inputs.extend(heldout.inputs());
        let pick = looked(engine, &mut request, &repo, by, cancel).await?;
        let started_ms = engine.now_ms();
        let (due, items, found) = asked(engine, &mut request).await?;
        let held = held(engine, bind, &request.spec).await;
        let wait_ms = millis(engine.settings.provider_wait);
        let mut started = Started { provider_wait_ms: wait_ms, ..birth(request, items, &repo, started_ms, held)? };
        let here = engine.live.enter(&started.round).ok_or_else(|| super::busy(&started.round))?;
        let stay = admitted(engine, &mut started, pick, cancel, by).await?;
        let event = Event::Started(Box::new(started.clone()));
        let (rooms, ways) = around(engine, bind, &repo, &started).await?;
        let scanner = engine.settings.known_secrets.scanner(&started.spec.secrets);
        let Step { round, actions } = Round::begin(started);
        let failures = journal::failures(engine, round.facts()).await?;
        let mut run = Self {
            engine,
            bind,
            cancel,
            repo,
            spaces,
            rooms,
            ways,
            scanner,
            is_warm: false,
            workspace: None,
            resolved: None,
            heldout: Some(heldout),
            baseline: None,
            sealed: None,
            head: Some(head),
            found,
            round,
            index: 0,
            started_ms,
            failures,
            begun: Instant::now(),
            seats: BTreeMap::new(),
            _stay: stay,
            _here: here,
        };
        let mut extra = due.map(|due| due.changes(run.id())).unwrap_or_default();
        extra.push(Change::Lease(run.lease(by)));
        run.record_birth(&event, extra).await?;
        Ok((run, actions))
    }

    /// The lease that the round is born with: its loop's place and its locks are taken in the same transaction.
    fn lease(&self, by: By) -> LeaseRequest {
        let started = &self.round.facts().started;
        let items = started.item.iter().chain(&started.more);
        let keys: Vec<_> = items.map(|item| item.key.as_str().into()).collect();
        lease_request(started, self.engine.needs(by, started, &keys))
    }

    async fn record_birth(&mut self, event: &Event, extra: Vec<Change>) -> Result<(), EngineError> {
        let when = When { now_ms: self.started_ms, ..self.when() };
        let mut changes = journal::changes(None, &self.round, event, &when);
        changes.extend(extra);
        let batch = Batch {
            round: self.id().to_owned(),
            expect_index: 0,
            at_ms: self.started_ms,
            events: vec![recorded(event)],
            changes,
        };
        let born = self.engine.append(batch).await;
        self.index = born.map_err(|error| occupied(error, &self.spec().name))?;
        Ok(())
    }
}

/// By hand, the probe of a loop that locks what it is about is asked before there is a round: what others work on is left to
/// them, and where that is everything nothing is begun.
async fn looked(
    engine: &Engine,
    request: &mut RunRequest,
    repo: &UserRepo,
    by: By,
    cancel: &Cancel,
) -> Result<Pick, EngineError> {
    let is_asked = !request.items.is_empty() || request.found.is_some();
    if by == By::Dispatcher || is_asked || !request.spec.locks_items() || request.spec.on.probe.is_none() {
        return Ok(Pick::Every);
    }
    request.found = Some(engine.probe_only(&request.spec, repo, cancel).await?);
    Ok(Pick::Free)
}

/// Lets the round in with what it takes, and leaves out what it may not be about.
async fn admitted(
    engine: &Engine,
    started: &mut Started,
    pick: Pick,
    cancel: &Cancel,
    by: By,
) -> Result<Option<Box<dyn Stay>>, EngineError> {
    let items: Vec<Item> = started.item.iter().chain(&started.more).cloned().collect();
    let arrival = arrival(started, &items, pick);
    let Admission { stay, items: granted } = engine.admit(by, arrival, cancel).await?;
    let mut items = items.into_iter().filter(|item| granted.iter().any(|key| **key == *item.key));
    (started.item, started.more) = (items.next(), items.collect());
    Ok(stay)
}

/// A round as whoever lets rounds in sees it.
pub(super) fn arrival(started: &Started, items: &[Item], pick: Pick) -> Arrival {
    Arrival {
        key: LoopKey::new(&started.repo, &started.spec.name),
        round: started.round.clone(),
        claims: Some(Claims::of(&started.spec, &started.repo)),
        items: items.iter().map(|item| item.key.as_str().into()).collect(),
        pick,
    }
}

/// What made the loop due, the items that are asked for, and what else the probe said. The occurrence and its trigger are the
/// receipt's.
async fn asked(
    engine: &Engine,
    request: &mut RunRequest,
) -> Result<(Option<DueRecord>, Vec<Item>, Option<Work>), EngineError> {
    let due = request.due.take();
    let mut items = Vec::new();
    for key in std::mem::take(&mut request.items) {
        items.push(due::item(engine, key, due.as_ref()).await?);
    }
    if let (true, Some(Work::Items(found))) = (items.is_empty(), &mut request.found) {
        items = std::mem::take(found);
    }
    let count = items.len();
    items.iter_mut().for_each(|item| probe::share(item, count));
    if let Some(due) = &due {
        request.occurrence = Some(due.receipt.occurrence.clone());
        request.trigger.clone_from(&due.receipt.trigger);
    }
    Ok((due, items, request.found.take()))
}

/// The rooms of the round's programs, and their ways to the network.
async fn around(
    engine: &Engine,
    bind: &Bindings,
    repo: &UserRepo,
    started: &Started,
) -> Result<(Rooms, Ways), EngineError> {
    let method = isolate::method(engine, bind, &started.boundary).await;
    let rooms = engine.rooms(&started.boundary, repo, &started.spec)?.made_by(method);
    let ways = engine.ways(&started.round, &rooms, &started.spec)?;
    let rooms = rooms.reaching(&ways);
    Ok((rooms, ways))
}

/// A gate script that base does not have is the loop's mistake, not a round's: the person is told before anything starts.
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

/// Held-out checks are read before anything of the round exists, so that nothing it does can change them.
pub(super) fn heldout(engine: &Engine, repo: &UserRepo, spec: &LoopSpec) -> Result<Heldouts, EngineError> {
    let ground = engine.ground(repo);
    let env = GateEnv { extra_path: engine.settings.extra_path.clone(), ..GateEnv::default() };
    Heldouts::read(spec, &ground, &env, &engine.shown_tools(repo, spec)).map_err(|errors| EngineError::NotRunnable {
        name: spec.name.clone(),
        why: errors.iter().map(ToString::to_string).collect(),
    })
}

/// What holds the round, or why it may not run here.
async fn held(engine: &Engine, bind: &Bindings, spec: &CheckedSpec) -> Result<Boundary, Refused> {
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
    items: Vec<Item>,
    repo: &UserRepo,
    now_ms: i64,
    held: Result<Boundary, Refused>,
) -> Result<Started, EngineError> {
    let (boundary, refusal) = match held {
        Ok(boundary) => (boundary, None),
        Err(refused) => (*refused.boundary, Some(refused.text)),
    };
    let mut items = items.into_iter();
    let round = RoundId::new(u64::try_from(now_ms).unwrap_or(0), random::bytes()?).to_string();
    Ok(Started {
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

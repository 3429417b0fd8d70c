//! The start of a daemon: it reads the state of all loops, resumes the rounds that earlier engines left, and only then
//! checks which loops are due. No manual step is needed, however the last daemon ended.

use super::admission::{self, DaemonAdmission};
use super::agenda::{AgendaEntry, DaemonAgenda};
use super::dispatch_loop::{DispatchLoop, DispatchMode};
use super::fleet::{FleetLoops, LoopFleet};
use super::member_watch;
use super::message::DaemonSender;
use super::persist;
use super::requests::{self, STOP_FLAG};
use super::running_rounds::RunningRounds;
use super::stop::StopFile;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::lease;
use crate::store::{DISPATCHER, FlagRow, InboxKind, RoundLease, RoundRow, StoreError};
use loopwright_core::dispatch::{ConcurrencyLimits, DispatchInput, Dispatcher, FleetFreeze, FleetMember, LoopKey};
use loopwright_core::round::{Phase, Round, RoundPhase};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The most signals that are read at the start; the others wait in the store for the next start.
const SIGNALS_MAX: u32 = 10_000;
/// The most open questions that are read.
const QUESTIONS_MAX: u32 = 10_000;

/// Takes the scheduler's lease and starts work; a start that fails releases it.
pub(super) async fn open_dispatch_loop(
    engine: Engine,
    fleet: Arc<dyn LoopFleet>,
    limits: ConcurrencyLimits,
    mode: DispatchMode,
) -> Result<(DispatchLoop, DaemonSender), EngineError> {
    if engine.live_rounds.admission().is_some() {
        return Err(EngineError::Daemon("a daemon runs on this engine already".to_owned()));
    }
    engine.lease_dispatcher().await?;
    let opened = leased(engine.clone(), fleet, limits, mode).await;
    if opened.is_err() {
        lease::give_back(&engine, DISPATCHER).await;
    }
    opened
}

async fn leased(
    engine: Engine,
    fleet: Arc<dyn LoopFleet>,
    limits: ConcurrencyLimits,
    mode: DispatchMode,
) -> Result<(DispatchLoop, DaemonSender), EngineError> {
    let (post, mail) = DaemonSender::channel();
    let doorman = Arc::new(DaemonAdmission::new(post.clone(), &engine));
    let stop = StopFile::in_state_dir(engine.state_dir());
    let (is_flagged, frozen) = read_stop(&engine, &stop).await?;
    // The store reads in a thread of its own while the files are read.
    let standing = async { Ok::<_, EngineError>(load_dispatcher(&engine, limits, frozen.clone()).await?) };
    let (loops, dispatcher) = tokio::try_join!(fleet.load(), standing)?;
    let left = LeftoverState::collect(&engine, fleet.as_ref()).await?;
    let members = member_watch::read(&engine).await?;
    if !engine.live_rounds.set_admission(Arc::clone(&doorman)) {
        return Err(EngineError::Daemon("a daemon runs on this engine already".to_owned()));
    }
    let now_ms = engine.now_ms();
    let mut desk = DispatchLoop {
        dispatcher,
        messages: mail,
        sender: post.clone(),
        jobs: VecDeque::new(),
        rows_in_flight: None,
        rewrite_ms: None,
        tries: 0,
        rounds: RunningRounds::default(),
        items: left.items.clone(),
        agenda: DaemonAgenda::default(),
        loading: None,
        reloaders: Vec::new(),
        late_reloaders: Vec::new(),
        stop,
        frozen,
        is_flagged,
        is_flag_seen: is_flagged,
        thaws: 0,
        mode,
        pass_ms: matches!(mode, DispatchMode::Once).then_some(now_ms),
        since_ms: now_ms,
        loops: 0,
        budgets: loops.budgets.clone(),
        alarm: None,
        write_by: None,
        ended: None,
        engine,
        fleet,
        admission: doorman,
    };
    let taken_over = desk.resume_leftovers(left);
    first_pass(&mut desk, members, loops);
    desk.publish(None, EventKind::Up { loops: desk.loops, taken_over });
    Ok((desk, post))
}

/// Applies the loops and starts those that are due. A suspended round that may resume now comes before a new round of any
/// loop.
fn first_pass(desk: &mut DispatchLoop, members: Vec<FleetMember>, loops: FleetLoops) {
    desk.dispatcher.hold_starts();
    desk.step(DispatchInput::Members(members));
    desk.apply_loops(loops);
    desk.run_due_entries(desk.since_ms);
    desk.dispatcher.release_starts();
    desk.plan_collection();
    desk.step(DispatchInput::Wake);
}

/// Whether the store has the flag of the global stop, and that stop, by the flag or by the file.
async fn read_stop(engine: &Engine, stop: &StopFile) -> Result<(bool, Option<FleetFreeze>), StoreError> {
    let flag = engine.store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
    let frozen = flag.clone().map(freeze_from_flag).or_else(|| freeze_from_file(stop, engine.now_ms()));
    Ok((flag.is_some(), frozen))
}

pub(super) async fn load_dispatcher(
    engine: &Engine,
    limits: ConcurrencyLimits,
    frozen: Option<FleetFreeze>,
) -> Result<Dispatcher, StoreError> {
    let standings = engine.store.schedules().await?.into_iter().map(persist::standing_from_row).collect();
    let pending = engine.store.pending_signals(SIGNALS_MAX).await?.into_iter().map(persist::signal_from_row).collect();
    let last_ms = engine.store.last_ms().await?.unwrap_or(0);
    Ok(Dispatcher::new(limits, standings, pending, frozen, last_ms))
}

pub(super) fn freeze_from_flag(flag: FlagRow) -> FleetFreeze {
    FleetFreeze { since_ms: flag.at_ms, by: flag.actor, why: flag.why }
}

pub(super) fn freeze_from_file(stop: &StopFile, now_ms: i64) -> Option<FleetFreeze> {
    let frozen = || FleetFreeze { since_ms: now_ms, by: requests::FILE_ACTOR.to_owned(), why: stop.reason() };
    stop.exists().then(frozen)
}

/// The state that earlier engines left.
struct LeftoverState {
    abandoned: Vec<RoundRow>,
    /// Rounds that other processes run.
    elsewhere: Vec<RoundLease>,
    /// Suspended and blocked rounds, and the earliest time at which each can resume.
    suspended: Vec<(RoundRow, i64)>,
    /// Open proposals of each loop.
    proposals: BTreeMap<LoopKey, u32>,
    /// The items of the rounds that are to resume.
    items: HashMap<String, Vec<Arc<str>>>,
    expires_ms: Option<i64>,
    /// Whether there may be questions that loops ask elsewhere.
    asks: bool,
}

impl LeftoverState {
    /// Ends the process trees of rounds that were running, and reads the rest of the state.
    async fn collect(engine: &Engine, fleet: &dyn LoopFleet) -> Result<Self, EngineError> {
        let abandoned = engine.collect_abandoned().await?;
        let mut elsewhere = lease::held_elsewhere(engine).await?;
        elsewhere.retain(|lease| lease.claims.is_some());
        let mut suspended = Vec::new();
        let may_resume = |row: &RoundRow| matches!(row.phase, RoundPhase::Suspended | RoundPhase::Waiting);
        for row in engine.store.open_rounds().await?.into_iter().filter(may_resume) {
            let at_ms = worth_from(engine, fleet, &row).await;
            suspended.extend(at_ms.map(|at_ms| (row, at_ms)));
        }
        let items = items(engine, abandoned.iter().chain(suspended.iter().map(|(row, _)| row))).await;
        let proposals = BTreeMap::new();
        let asks = !engine.store.open_questions(1).await?.is_empty();
        let mut left = Self { abandoned, elsewhere, suspended, proposals, items, expires_ms: None, asks };
        for row in engine.store.inbox(QUESTIONS_MAX).await? {
            if row.kind == InboxKind::Approval {
                *left.proposals.entry(LoopKey::new(&row.repo, &row.loop_name)).or_default() += 1;
                left.expires_ms = left.expires_ms.into_iter().chain(row.expires_ms).min();
                left.asks = true;
            }
        }
        Ok(left)
    }
}

/// The items of rounds. A round whose record cannot be read reports that when it is resumed.
async fn items(engine: &Engine, rounds: impl Iterator<Item = &RoundRow>) -> HashMap<String, Vec<Arc<str>>> {
    let mut items = HashMap::new();
    for row in rounds.filter(|row| row.item.is_some()) {
        if let Ok(recorded) = engine.load_round(&row.id).await {
            items.insert(row.id.clone(), admission::item_keys(&recorded.round));
        }
    }
    items
}

/// The earliest time at which a suspended or blocked round can resume; `None` if it waits for a person, or its record
/// cannot be read.
async fn worth_from(engine: &Engine, fleet: &dyn LoopFleet, row: &RoundRow) -> Option<i64> {
    let recorded = engine.load_round(&row.id).await.ok()?;
    let suspended_ms = engine.store.events(&row.id).await.ok()?.last()?.at_ms;
    if matches!(recorded.round.phase(), Phase::Waiting(_)) {
        return admission::resend_ms(&recorded.round, suspended_ms);
    }
    let zone = &engine.settings.zone;
    let worth_ms = admission::resume_ms(&recorded.round, suspended_ms, zone);
    let started = &recorded.round.facts().started;
    let today = zone.of_loop(&started.spec).day(engine.now_ms());
    let raises = engine.store.raises(&today).await.unwrap_or_default();
    let own = |raise: &&crate::store::RaiseRow| raise.repo == started.repo && raise.loop_name == started.spec.name;
    let raised_ms = raises.iter().filter(own).map(|raise| raise.at_ms).max();
    let is_raised = raised_ms.is_some_and(|at_ms| at_ms >= suspended_ms);
    let is_now = is_raised || has_room_again(engine, fleet, &recorded.round).await;
    if is_now { Some(engine.now_ms()) } else { worth_ms }
}

/// Whether a round that waits for a day's or a month's ceiling fits under the ceilings as they are configured now.
pub(super) async fn has_room_again(engine: &Engine, fleet: &dyn LoopFleet, round: &Round) -> bool {
    if !round.waits_for_period() || round.is_full() {
        return false;
    }
    let (engine, _) = fleet.rebind(engine, &round.facts().started);
    // If the spend cannot be read, the round waits for the next day.
    crate::round::has_room(&engine, round.facts()).await.unwrap_or(false)
}

impl DispatchLoop {
    /// Resumes the leftover rounds before anything new is checked; returns their number.
    fn resume_leftovers(&mut self, left: LeftoverState) -> usize {
        let now_ms = self.now_ms();
        let count = left.abandoned.len();
        for lease in left.elsewhere {
            self.watch(lease);
        }
        for row in left.abandoned {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            self.agenda.schedule(now_ms, AgendaEntry::Retake { key, round: row.id });
        }
        if let Some(at_ms) = left.expires_ms {
            self.agenda.schedule_earliest(at_ms, AgendaEntry::Expire);
        }
        if left.asks {
            self.agenda.schedule(now_ms, AgendaEntry::AskPeople);
        }
        self.run_due_entries(now_ms);
        // These held no lock while they were suspended; which of them may resume is known once the loops are loaded.
        for (row, at_ms) in left.suspended {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            self.agenda.schedule(at_ms, AgendaEntry::Resume { key, round: row.id });
        }
        for (key, open) in left.proposals {
            self.step(DispatchInput::Proposals { key, open });
        }
        count
    }
}

//! Requests to the daemon: pause and resume, the global stop and its end, slots for manually started rounds, and
//! queries of its state.

use super::RoundOrigin;
use super::agenda::AgendaEntry;
use super::dispatch_loop::{DispatchLoop, DispatchMode};
use super::fleet::FleetLoops;
use super::jobs::{DispatchJob, RETRY_MS};
use super::message::{LoopSlot, OccupiedSlot, ReplySender};
use super::open::has_room_again;
use super::persist::{self, PendingRows};
use super::running_rounds::RunningSlot;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::live_rounds::AdmissionRequest;
use crate::proc::CancelToken;
use crate::round::error_chain;
use crate::store::{FlagRow, NewEvent, RowChange, SignalRow};
use loopwright_core::config::SharedBudget;
use loopwright_core::dispatch::{DispatchInput, FleetFreeze, LoopExplanation, LoopKey, RoundClaims};
use loopwright_core::round::RoundPhase;
use std::sync::Arc;

/// The global stop's name among the flags.
pub const STOP_FLAG: &str = "stop";
/// The actor's name for the stop file.
pub(super) const FILE_ACTOR: &str = "file";

impl DispatchLoop {
    /// In one pass, new signals are left for the next pass.
    pub(super) fn on_signal(&mut self, signal: SignalRow) {
        if self.pass_ms.is_none() {
            self.step(DispatchInput::Signal(persist::signal_from_row(signal)));
        }
    }

    pub(super) fn reload(&mut self, reply: ReplySender<Result<usize, EngineError>>) {
        self.late_reloaders.push(reply);
        self.load();
    }

    /// One load at a time, so that an older result never replaces a newer one.
    fn load(&mut self) {
        if self.loading.is_none() {
            self.reloaders.append(&mut self.late_reloaders);
            let fleet = Arc::clone(&self.fleet);
            self.loading = Some(Box::pin(async move { fleet.load().await }));
        }
    }

    pub(super) fn on_loops_loaded(&mut self, loaded: Result<FleetLoops, EngineError>) {
        self.loading = None;
        let answer = match loaded {
            Ok(loops) => {
                self.apply_loops(loops);
                self.publish(None, EventKind::Loaded { loops: self.loops });
                Ok(self.loops)
            }
            Err(error) => {
                let why = crate::round::error_chain(&error);
                self.publish(None, EventKind::LoadFailed { why: why.clone() });
                Err(why)
            }
        };
        for reply in std::mem::take(&mut self.reloaders) {
            // The caller may be gone.
            let _ = reply.send(answer.clone().map_err(EngineError::Daemon));
        }
        if !self.late_reloaders.is_empty() {
            self.load();
        }
    }

    pub(super) fn apply_loops(&mut self, loops: FleetLoops) {
        self.admission.set_followers(&loops.after);
        self.loops = loops.entries.len();
        let before = std::mem::replace(&mut self.budgets, loops.budgets);
        let is_changed = |(repo, budget): &(&Arc<str>, &SharedBudget)| self.budgets.get(*repo) != Some(*budget);
        if before.iter().any(|known| is_changed(&known)) {
            self.on_budgets_changed();
        }
        if let Some(limits) = loops.limits {
            self.step(DispatchInput::Limits(limits));
        }
        self.step(DispatchInput::Loops(loops.entries));
    }

    /// Asks the dispatcher for a decision, writes the event with the first rows of that decision, then sends the
    /// answer.
    fn decide(&mut self, input: DispatchInput, event: NewEvent, reply: ReplySender<Result<(), EngineError>>) {
        let before = self.jobs.len();
        self.step(input);
        let first = self.jobs.iter_mut().skip(before).find_map(|job| match job {
            DispatchJob::WriteRows(keeping) => Some(keeping),
            _ => None,
        });
        // No rows means that nothing has changed.
        if let Some(keeping) = first {
            keeping.event = Some(event);
        }
        self.jobs.push_back(DispatchJob::Answer(reply));
    }

    pub(super) fn pause(&mut self, key: LoopKey, by: String, why: String, reply: ReplySender<Result<(), EngineError>>) {
        let event = persist::loop_event("loop-paused", Some(&key), &by, &why);
        self.decide(DispatchInput::Pause { key, by, why }, event, reply);
    }

    pub(super) fn resume(&mut self, key: LoopKey, by: &str, reply: ReplySender<Result<(), EngineError>>) {
        let event = persist::loop_event("loop-resumed", Some(&key), by, "");
        // A loop that paused itself has a question in the inbox, which this answers.
        self.queue_rows(PendingRows { answered: Some(persist::pause_question_id(&key)), ..PendingRows::default() });
        self.decide(DispatchInput::Resume { key }, event, reply);
        self.agenda.unblock(self.now_ms());
    }

    /// In effect at once: a safety measure does not wait for the disk.
    pub(super) fn freeze(&mut self, by: String, why: String, reply: ReplySender<Result<(), EngineError>>) {
        let now_ms = self.engine.now_ms();
        let was_there = self.stop.exists();
        let written = self.stop.write(self.engine.state_dir(), &why);
        let flag = FlagRow { name: STOP_FLAG.to_owned(), at_ms: now_ms, actor: by.clone(), why: why.clone() };
        let event = Some(persist::loop_event("all-stopped", None, &by, &why));
        self.is_flagged = true;
        self.freeze_all(by, why);
        self.queue_rows(PendingRows { changes: vec![RowChange::Flag(flag)], event, ..PendingRows::default() });
        if self.engine.store.is_leased() && !was_there {
            self.jobs.push_back(DispatchJob::RemoveStopFile);
        }
        match written {
            Ok(()) => self.jobs.push_back(DispatchJob::Answer(reply)),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// The flag stops all machines now, and `thaw` on another one removes it. A file of ours would stop this machine
    /// again when it schedules the next time.
    pub(super) fn remove_stop_file(&mut self) {
        if let Err(error) = self.stop.remove() {
            self.publish(None, EventKind::Warning(error_chain(&error)));
        }
    }

    pub(super) fn freeze_all(&mut self, by: String, why: String) {
        self.frozen = Some(FleetFreeze { since_ms: self.engine.now_ms(), by: by.clone(), why: why.clone() });
        self.publish(None, EventKind::Frozen { by: by.clone(), why: why.clone() });
        let reason = format!("everything is stopped by {by}: {why}");
        self.step_before(DispatchInput::Freeze { by, why });
        // Immediately, and also for starts that still run their probe: the dispatcher's cancellations are queued behind
        // its writes, and a full disk must not delay a stop.
        self.rounds.cancel_all_because(&reason);
    }

    /// Recorded first: loops that start again must not be stopped again after the next restart.
    pub(super) fn thaw(&mut self, by: &str, reply: ReplySender<Result<(), EngineError>>) {
        if let Err(error) = self.stop.remove() {
            return drop(reply.send(Err(error)));
        }
        let changes = vec![RowChange::FlagGone { name: STOP_FLAG.to_owned() }];
        let clock = self.dispatcher.clock_behind(self.now_ms()).map(|ahead_ms| (ahead_ms, by.to_owned()));
        self.queue_rows(PendingRows {
            changes,
            event: Some(persist::loop_event("thawed", None, by, "")),
            clock,
            ..PendingRows::default()
        });
        self.jobs.extend([DispatchJob::Thaw, DispatchJob::Answer(reply)]);
    }

    pub(super) fn finish_thaw(&mut self) {
        (self.is_flagged, self.is_flag_seen) = (false, false);
        self.thaws += 1;
        self.frozen = None;
        self.step_before(DispatchInput::Thaw);
        self.publish(None, EventKind::Thawed);
        self.agenda.unblock(self.now_ms());
    }

    /// The stop file has the same effect as the flag.
    pub(super) fn check_stop_file(&mut self) {
        let is_there = self.stop.exists();
        if is_there && self.frozen.is_none() {
            self.freeze_all(FILE_ACTOR.to_owned(), self.stop.reason());
            self.share_stop_file();
        }
        if !is_there && !self.is_flagged && self.is_stopped_by_file() {
            if self.engine.store.is_leased() {
                let gone = RowChange::FlagGone { name: STOP_FLAG.to_owned() };
                self.queue_rows(PendingRows { changes: vec![gone], ..PendingRows::default() });
            }
            self.finish_thaw();
        }
    }

    fn is_stopped_by_file(&self) -> bool {
        self.frozen.as_ref().is_some_and(|frozen| frozen.by == FILE_ACTOR)
    }

    /// The processes of other machines see only the flag, so a stop by the file sets it too.
    pub(super) fn share_stop_file(&mut self) {
        let Some(frozen) = self.frozen.clone().filter(|frozen| frozen.by == FILE_ACTOR) else { return };
        if self.engine.store.is_leased() && !self.is_flagged {
            let (name, at_ms) = (STOP_FLAG.to_owned(), frozen.since_ms);
            let flag = FlagRow { name, at_ms, actor: frozen.by, why: frozen.why };
            self.queue_rows(PendingRows { changes: vec![RowChange::Flag(flag)], ..PendingRows::default() });
        }
    }

    /// The flag as the store has it, where other processes may change it. It was read after this many stops had ended.
    pub(super) fn apply_flag(&mut self, flag: Option<FlagRow>, thaws: u64) {
        match flag {
            // A stop that ended meanwhile does not begin again.
            _ if thaws != self.thaws => {}
            Some(flag) => {
                self.is_flag_seen = true;
                // A flag of a person stays when the stop file is removed.
                self.is_flagged |= flag.actor != FILE_ACTOR || self.frozen.is_none();
                if self.frozen.is_none() {
                    self.freeze_all(flag.actor, flag.why);
                }
            }
            None if self.is_flag_seen => self.finish_thaw(),
            None => {}
        }
    }

    /// Gives a manually started round its loop's slot. If the caller does not take the slot, it is dropped, which releases
    /// it.
    pub(super) fn occupy(
        &mut self,
        arrival: AdmissionRequest,
        cancel: CancelToken,
    ) -> Result<OccupiedSlot, EngineError> {
        let claims = arrival.claims.clone().unwrap_or_else(|| self.dispatcher.claims(&arrival.key));
        let arrival = AdmissionRequest { claims: Some(claims), ..arrival };
        let (claims, items) = self.claims_for(&arrival).map_err(|why| arrival.busy_error(why))?;
        let AdmissionRequest { key, round, .. } = arrival;
        let mut slot = RunningSlot::new(key.clone(), self.engine.now_ms(), RoundOrigin::Manual);
        (slot.round, slot.cancel) = (Some(round.clone()), cancel);
        let slot = self.rounds.insert(slot);
        self.step(DispatchInput::Admitted { key, round, claims });
        Ok((LoopSlot { sender: self.sender.clone(), slot }, items))
    }

    /// The locks and items of a manually started round, or why it is not started.
    fn claims_for(&self, arrival: &AdmissionRequest) -> Result<(RoundClaims, Vec<Arc<str>>), String> {
        if !matches!(self.mode, DispatchMode::Running) {
            return Err("the daemon is shutting down".to_owned());
        }
        if let Some(frozen) = &self.frozen {
            return Err(format!("everything is stopped by {}: {}", frozen.by, frozen.why));
        }
        let now_ms = self.now_ms();
        arrival.resolve_items(|claims| {
            self.dispatcher.manual_start_blocker(&arrival.key, claims, now_ms).map(|why| why.refusal_text())
        })
    }

    /// Cancels a round; returns whether it is running.
    pub(super) fn cancel(&mut self, round: &str, why: String) -> bool {
        let Some((_, slot)) = self.rounds.slot_of_round(round) else { return false };
        slot.cancel.cancel_because(&why);
        let key = slot.key.clone();
        self.publish_round(key, round, EventKind::Cancelling { why });
        true
    }

    pub(super) fn is_paused(&self, key: &LoopKey) -> bool {
        matches!(self.dispatcher.explain(key, self.now_ms()), LoopExplanation::Paused { .. })
    }

    /// Finds suspended rounds of the loop, and tries to resume them.
    pub(super) fn raised(&mut self, key: LoopKey) {
        let (engine, post) = (self.engine.clone(), self.sender.clone());
        self.rounds.spawn_aside(async move {
            let open = engine.store.open_rounds().await.unwrap_or_default();
            let own =
                open.into_iter().filter(|row| row.phase == RoundPhase::Suspended && row.repo.as_str() == &*key.repo);
            for row in own.filter(|row| row.loop_name.as_str() == &*key.name) {
                let entry = AgendaEntry::Resume { key: key.clone(), round: row.id };
                let _ = post.send(move |desk| desk.agenda.schedule(desk.now_ms(), entry));
            }
        });
    }

    /// The configured ceilings changed: rounds that wait for a new day or month resume if there is room now.
    fn on_budgets_changed(&mut self) {
        let (engine, fleet, post) = (self.engine.clone(), Arc::clone(&self.fleet), self.sender.clone());
        self.rounds.spawn_aside(async move {
            let open = engine.store.open_rounds().await.unwrap_or_default();
            for row in open.into_iter().filter(|row| row.phase == RoundPhase::Suspended) {
                let Ok(recorded) = engine.load_round(&row.id).await else { continue };
                if has_room_again(&engine, fleet.as_ref(), &recorded.round).await {
                    let key = LoopKey::new(&row.repo, &row.loop_name);
                    let entry = AgendaEntry::Resume { key, round: row.id };
                    let _ = post.send(move |desk| desk.agenda.schedule(desk.now_ms(), entry));
                }
            }
        });
    }

    /// An interrupted answer: its round is resumed as after a restart, once the store has had a moment.
    pub(super) fn left_open(&mut self, key: LoopKey, round: String) {
        self.agenda.schedule(self.now_ms().saturating_add(RETRY_MS), AgendaEntry::Retake { key, round });
    }

    /// Closes questions that were not answered in time, and finds when the next one expires.
    pub(super) fn expire_questions(&mut self) {
        let (engine, fleet, post) = (self.engine.clone(), Arc::clone(&self.fleet), self.sender.clone());
        self.rounds.spawn_aside(async move {
            let again_ms = engine.now_ms().saturating_add(RETRY_MS);
            let expired = engine.expired_rounds().await;
            let mut next_ms = expired.is_err().then_some(again_ms);
            for round in expired.unwrap_or_default() {
                let ended = engine.close_expired(&round, fleet.as_ref()).await.map(|round| round.outcome());
                // A question that could not be closed now is tried again.
                next_ms = next_ms.or(ended.is_err().then_some(again_ms));
                let ended = ended.map_err(|error| error_chain(&error));
                engine.publish(None, Some(&round), EventKind::Expired { ended });
            }
            let later = next_expiry(&engine).await.unwrap_or(Some(again_ms));
            if let Some(at_ms) = next_ms.into_iter().chain(later).min() {
                let _ = post.send(move |desk| desk.agenda.schedule_earliest(at_ms, AgendaEntry::Expire));
            }
        });
    }
}

impl DispatchLoop {
    /// Runs a pass over the questions that loops ask elsewhere, and schedules the next one.
    pub(super) fn ask_people(&mut self) {
        let (engine, fleet, post) = (self.engine.clone(), Arc::clone(&self.fleet), self.sender.clone());
        self.rounds.spawn_aside(async move {
            let again_ms = engine.now_ms().saturating_add(RETRY_MS);
            if let Some(at_ms) = crate::questions::ask_people(&engine, fleet.as_ref()).await.unwrap_or(Some(again_ms)) {
                let _ = post.send(move |desk| desk.agenda.schedule_earliest(at_ms, AgendaEntry::AskPeople));
            }
        });
    }
}

/// The time at which the next open question expires.
pub(super) async fn next_expiry(engine: &crate::Engine) -> Result<Option<i64>, EngineError> {
    let open = engine.store.inbox(1_000).await?;
    let now_ms = engine.now_ms();
    Ok(open
        .iter()
        .filter(|row| row.kind == crate::store::InboxKind::Approval)
        .filter_map(|row| row.expires_ms)
        .filter(|at| *at > now_ms)
        .min())
}

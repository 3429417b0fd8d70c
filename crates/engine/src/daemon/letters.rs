//! What the daemon is asked, and what it does about it: pause and resume, the global stop and its end, places for rounds by
//! hand, looks at what it is at.

use super::Begun;
use super::agenda::Errand;
use super::desk::{Desk, Mode};
use super::fleet::Loops;
use super::keep::{self, Keeping};
use super::mail::{Mail, Occupied, Reply};
use super::perform::{AGAIN_MS, Job};
use super::permit::Permit;
use super::rounds::Slot;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::live::Arrival;
use crate::proc::Cancel;
use crate::round::chain;
use crate::store::{Change, FlagRow, NewEvent};
use loopwright_core::dispatch::{Claims, Frozen, Input, LoopKey, Why};
use std::sync::Arc;

/// The global stop's name among the flags.
pub const STOP_FLAG: &str = "stop";
/// Who the file is, as an actor.
pub(super) const BY_FILE: &str = "file";

impl Desk {
    pub(super) fn read(&mut self, mail: Mail) {
        match mail {
            Mail::Reload(reply) => self.reload(reply),
            // In one pass, what comes is for the next one.
            Mail::Signal(signal) if self.moment.is_none() => self.step(Input::Signal(keep::signal(*signal))),
            Mail::Signal(_) => {}
            Mail::Pause { key, by, why, reply } => self.pause(key, by, why, reply),
            Mail::Resume { key, by, reply } => self.resume(key, &by, reply),
            Mail::Freeze { by, why, reply } => self.freeze(by, why, reply),
            Mail::Thaw { by, reply } => self.thaw(&by, reply),
            Mail::Occupy { arrival, cancel, reply } => self.occupy(*arrival, cancel, reply),
            Mail::Vacated { slot } => self.given_back(slot),
            Mail::Claim { slot, items, reply } => self.claim(slot, items, reply),
            Mail::Born { slot, round } => self.born(slot, round),
            Mail::Rested(rest) => self.rested(*rest),
            Mail::Explain { key, reply } => drop(reply.send(self.dispatcher.explain(&key, self.now_ms()))),
            Mail::Snapshot(reply) => drop(reply.send(self.snapshot())),
            Mail::Cancel { round, why, reply } => drop(reply.send(self.stop_round(&round, why))),
            Mail::Drain { deadline, reply } => {
                self.drain(deadline);
                // Whoever asked may have gone.
                let _ = reply.send(());
            }
            Mail::Raised(key) => self.raised(key),
            Mail::GoOn { key, round } => self.agenda.put(self.now_ms(), Errand::Resume { key, round }),
            Mail::LeftOpen { key, round } => self.left_open(key, round),
            Mail::Expires(at_ms) => self.agenda.put_first(at_ms, Errand::Expire),
        }
    }

    fn reload(&mut self, reply: Reply<Result<usize, EngineError>>) {
        self.late_reloaders.push(reply);
        self.load();
    }

    /// One reading at a time, so that none takes the place of a later one.
    fn load(&mut self) {
        if self.loading.is_none() {
            self.reloaders.append(&mut self.late_reloaders);
            let fleet = Arc::clone(&self.fleet);
            self.loading = Some(Box::pin(async move { fleet.load().await }));
        }
    }

    pub(super) fn loaded(&mut self, loaded: Result<Loops, EngineError>) {
        self.loading = None;
        let answer = match loaded {
            Ok(loops) => {
                self.take_loops(loops);
                self.publish(None, EventKind::Loaded { loops: self.loops });
                Ok(self.loops)
            }
            Err(error) => {
                let why = crate::round::chain(&error);
                self.publish(None, EventKind::LoadFailed { why: why.clone() });
                Err(why)
            }
        };
        for reply in std::mem::take(&mut self.reloaders) {
            // Whoever asked may have gone.
            let _ = reply.send(answer.clone().map_err(EngineError::Daemon));
        }
        if !self.late_reloaders.is_empty() {
            self.load();
        }
    }

    pub(super) fn take_loops(&mut self, loops: Loops) {
        self.doorman.learn(&loops.after);
        self.loops = loops.entries.len();
        if let Some(limits) = loops.limits {
            self.step(Input::Limits(limits));
        }
        self.step(Input::Loops(loops.entries));
    }

    /// Steps, and has the event written with the first rows that the step wants written, then the answer sent.
    fn decide(&mut self, input: Input, event: NewEvent, reply: Reply<Result<(), EngineError>>) {
        let before = self.line.len();
        self.step(input);
        let first = self.line.iter_mut().skip(before).find_map(|job| match job {
            Job::Keep(keeping) => Some(keeping),
            _ => None,
        });
        // Nothing to write means nothing has changed.
        if let Some(keeping) = first {
            keeping.event = Some(event);
        }
        self.line.push_back(Job::Answer(reply));
    }

    fn pause(&mut self, key: LoopKey, by: String, why: String, reply: Reply<Result<(), EngineError>>) {
        let event = keep::event("loop-paused", Some(&key), &by, &why);
        self.decide(Input::Pause { key, by, why }, event, reply);
    }

    fn resume(&mut self, key: LoopKey, by: &str, reply: Reply<Result<(), EngineError>>) {
        let event = keep::event("loop-resumed", Some(&key), by, "");
        if self.asked.remove(&key) {
            self.keep(Keeping { answered: Some(keep::question_id(&key)), ..Keeping::default() });
        }
        self.decide(Input::Resume { key }, event, reply);
        self.agenda.unblock(self.now_ms());
    }

    /// In effect at once: what is to be safe does not wait for the disk.
    fn freeze(&mut self, by: String, why: String, reply: Reply<Result<(), EngineError>>) {
        let now_ms = self.engine.now_ms();
        let written = self.stop.write(self.engine.places(), &why);
        let flag = FlagRow { name: STOP_FLAG.to_owned(), at_ms: now_ms, actor: by.clone(), why: why.clone() };
        let event = Some(keep::event("all-stopped", None, &by, &why));
        self.is_flagged = true;
        self.stand_still(by, why);
        self.keep(Keeping { changes: vec![Change::Flag(flag)], event, ..Keeping::default() });
        match written {
            Ok(()) => self.line.push_back(Job::Answer(reply)),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    pub(super) fn stand_still(&mut self, by: String, why: String) {
        self.frozen = Some(Frozen { since_ms: self.engine.now_ms(), by: by.clone(), why: why.clone() });
        self.publish(None, EventKind::Frozen { by: by.clone(), why: why.clone() });
        let told = format!("everything is stopped by {by}: {why}");
        self.step_before(Input::Freeze { by, why });
        // At once, also what is still being asked for a round: what the dispatcher wants cancelled waits behind what it wants
        // written, and a disk that is full holds up no stop.
        self.rounds.cancel_all_because(&told);
    }

    /// Recorded first: what is to go on again must not stand still after the next restart.
    fn thaw(&mut self, by: &str, reply: Reply<Result<(), EngineError>>) {
        if let Err(error) = self.stop.remove() {
            return drop(reply.send(Err(error)));
        }
        let changes = vec![Change::FlagGone { name: STOP_FLAG.to_owned() }];
        let clock = self.dispatcher.disbelieved_by(self.now_ms()).map(|ahead_ms| (ahead_ms, by.to_owned()));
        self.keep(Keeping { changes, event: Some(keep::event("thawed", None, by, "")), clock, ..Keeping::default() });
        self.line.extend([Job::Thaw, Job::Answer(reply)]);
    }

    pub(super) fn thawed(&mut self) {
        self.is_flagged = false;
        self.frozen = None;
        self.step_before(Input::Thaw);
        self.publish(None, EventKind::Thawed);
        self.agenda.unblock(self.now_ms());
    }

    /// The file counts as the flag does.
    pub(super) fn look_at_stop_file(&mut self) {
        let is_there = self.stop.is_there();
        if is_there && self.frozen.is_none() {
            self.stand_still(BY_FILE.to_owned(), self.stop.why());
        }
        if !is_there && self.frozen.as_ref().is_some_and(|frozen| frozen.by == BY_FILE) && !self.is_flagged {
            self.thawed();
        }
    }

    fn occupy(&mut self, arrival: Arrival, cancel: Cancel, reply: Reply<Result<Occupied, EngineError>>) {
        let claims = arrival.claims.clone().unwrap_or_else(|| self.dispatcher.claims(&arrival.key));
        let arrival = Arrival { claims: Some(claims), ..arrival };
        let answer = self.room_for(&arrival).map_err(|why| arrival.busy(why)).map(|(claims, items)| {
            let Arrival { key, round, .. } = arrival;
            let mut slot = Slot::new(key.clone(), self.engine.now_ms(), Begun::Hand);
            (slot.round, slot.cancel) = (Some(round.clone()), cancel);
            let number = self.rounds.place(slot);
            self.step(Input::Admitted { key, round, claims });
            (Permit::new(self.post.clone(), number), items)
        });
        // A permit that nobody takes is dropped, which gives the place back.
        let _ = reply.send(answer);
    }

    /// What a round by hand takes and is about, or why it is not begun.
    fn room_for(&self, arrival: &Arrival) -> Result<(Claims, Vec<Arc<str>>), String> {
        if !matches!(self.mode, Mode::Running) {
            return Err("the daemon is about to end".to_owned());
        }
        if let Some(frozen) = &self.frozen {
            return Err(format!("everything is stopped by {}: {}", frozen.by, frozen.why));
        }
        let now_ms = self.now_ms();
        arrival.settled(|claims| self.dispatcher.refusal(&arrival.key, claims, now_ms).map(|why| why.refusal()))
    }

    fn stop_round(&mut self, round: &str, why: String) -> bool {
        let Some((_, slot)) = self.rounds.of_round(round) else { return false };
        slot.cancel.cancel_because(&why);
        let key = slot.key.clone();
        self.publish_round(key, round, EventKind::Cancelling { why });
        true
    }

    pub(super) fn is_paused(&self, key: &LoopKey) -> bool {
        matches!(self.dispatcher.explain(key, self.now_ms()), Why::Paused { .. })
    }

    /// Suspended rounds of the loop are looked for, and tried.
    fn raised(&mut self, key: LoopKey) {
        let (engine, post) = (self.engine.clone(), self.post.clone());
        self.rounds.spawn_aside(async move {
            let open = engine.store.open_rounds().await.unwrap_or_default();
            let own = open.into_iter().filter(|row| {
                row.phase == loopwright_core::round::RoundPhase::Suspended && row.repo.as_str() == &*key.repo
            });
            for row in own.filter(|row| row.loop_name.as_str() == &*key.name) {
                let _ = post.send(Mail::GoOn { key: key.clone(), round: row.id });
            }
        });
    }

    /// An answer that broke off: what it began is gone on with as after a restart, when the store has had a moment.
    fn left_open(&mut self, key: LoopKey, round: String) {
        self.agenda.put(self.now_ms().saturating_add(AGAIN_MS), Errand::Retake { key, round });
    }

    /// Closes questions that nobody answered in time, and looks when the next one is due.
    pub(super) fn expire(&mut self) {
        let (engine, fleet, post) = (self.engine.clone(), Arc::clone(&self.fleet), self.post.clone());
        self.rounds.spawn_aside(async move {
            let again_ms = engine.now_ms().saturating_add(AGAIN_MS);
            let expired = engine.expired().await;
            let mut next_ms = expired.is_err().then_some(again_ms);
            for round in expired.unwrap_or_default() {
                let ended = engine.let_expire(&round, fleet.as_ref()).await.map(|round| round.outcome());
                // One that could not be closed now is tried again.
                next_ms = next_ms.or(ended.is_err().then_some(again_ms));
                let ended = ended.map_err(|error| chain(&error));
                engine.publish(None, Some(&round), EventKind::Expired { ended });
            }
            let later = next_expiry(&engine).await.unwrap_or(Some(again_ms));
            if let Some(at_ms) = next_ms.into_iter().chain(later).min() {
                let _ = post.send(Mail::Expires(at_ms));
            }
        });
    }
}

/// When the next open question expires.
pub(super) async fn next_expiry(engine: &crate::Engine) -> Result<Option<i64>, EngineError> {
    let open = engine.store.inbox(crate::store::InboxQuery::Open(1_000)).await?;
    let now_ms = engine.now_ms();
    Ok(open
        .iter()
        .filter(|row| row.kind == crate::store::InboxKind::Approval)
        .filter_map(|row| row.expires_ms)
        .filter(|at| *at > now_ms)
        .min())
}

//! What the dispatcher wants, done in its order. A write holds up everything behind it until it is durable, but the starts of
//! loops that it says nothing about; everything else is begun and goes on beside.

use super::agenda::Errand;
use super::desk::{Desk, Mode, WRITE_MAX, millis};
use super::keep::{self, Keeping};
use super::mail::Reply;
use super::rounds::{Again, Finished, Slot};
use super::start::{Work, is_over};
use super::{Begun, Ended};
use crate::error::EngineError;
use crate::events::EventKind;
use crate::store::{ReceiptRow, RoundLease, StoreError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Command, End, Input, LoopKey, Start, Why};
use loopwright_core::outcome::RoundOutcome;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A start that did not succeed is tried again after this.
pub(super) const AGAIN_MS: i64 = 5_000;
/// A write that failed is tried again after a second, then after twice as long each time, up to this.
const REWRITE_MAX_MS: i64 = 60_000;
/// So long rows wait at most for others to come along.
const PATIENCE: Duration = Duration::from_millis(5);
/// A round that was left open is taken up again after minutes, then after twice as long each time, up to an hour.
const RETAKE_MS: i64 = 60_000;
const DOUBLINGS_MAX: u32 = 6;
/// A write of so many rows leaves memory behind that nothing needs for long: thousands of loops have just been read.
const MANY_ROWS: usize = 1_000;

/// One thing to do.
pub(super) enum Job {
    Keep(Box<Keeping>),
    Start(Box<Start>),
    Cancel {
        key: LoopKey,
        round: String,
        why: String,
    },
    Publish(Option<LoopKey>, EventKind),
    /// The end of the global stop, when that is durable.
    Thaw,
    /// Whoever asked is answered when what is before it is durable.
    Answer(Reply<Result<(), EngineError>>),
}

/// The first start, when nothing but the standing of other loops is written before it. What is written about them and lost is
/// decided again, and the start of this one does not hang on it.
fn passes(line: &mut VecDeque<Job>, writing: Option<&Keeping>) -> Option<Job> {
    let at = line.iter().position(|job| !matches!(job, Job::Keep(_)))?;
    let Some(Job::Start(start)) = line.get(at) else { return None };
    let before = line.iter().take(at).filter_map(Job::keeping);
    let may_pass = before.chain(writing).all(|keeping| keeping.lets_pass(&start.key));
    if !may_pass {
        return None;
    }
    let start = line.remove(at);
    join_at(line, at);
    start
}

/// Rows that stand behind others go along with them, where they may.
pub(super) fn join_at(line: &mut VecDeque<Job>, at: usize) {
    let is_keep = |job: Option<&Job>| matches!(job, Some(Job::Keep(_)));
    let Some(before) = at.checked_sub(1).filter(|before| is_keep(line.get(*before)) && is_keep(line.get(at))) else {
        return;
    };
    if let (Some(Job::Keep(next)), Some(Job::Keep(last))) = (line.remove(at), line.get_mut(before))
        && let Err(next) = last.join(*next)
    {
        line.insert(at, Job::Keep(next));
    }
}

impl Job {
    fn keeping(&self) -> Option<&Keeping> {
        match self {
            Self::Keep(keeping) => Some(keeping),
            _ => None,
        }
    }
}

/// A write under way.
pub(super) struct Writing {
    pub(super) work: BoxFuture<'static, Result<Vec<ReceiptRow>, StoreError>>,
    keeping: Keeping,
    since: Instant,
    is_told: bool,
}

impl Writing {
    /// In how long it is slow.
    pub(super) fn slow_in(&self) -> Option<Duration> {
        (!self.is_told).then(|| WRITE_MAX.saturating_sub(self.since.elapsed()))
    }
}

impl Desk {
    /// Puts a command into the line.
    pub(super) fn queue(&mut self, command: Command) {
        match command {
            Command::Keep { receipts, standings, taken } => {
                keep::keepings(receipts, standings, &taken).into_iter().for_each(|keeping| self.keep(keeping));
            }
            Command::Start(start) => self.line.push_back(Job::Start(Box::new(start))),
            Command::Granted { ticket, items } => self.answer_claim(ticket, Some(items)),
            Command::Withheld { ticket } => self.answer_claim(ticket, None),
            Command::Cancel { key, round, why } => self.line.push_back(Job::Cancel { key, round, why }),
            Command::Ask { key, why } => {
                self.ask_person(&key, &why);
                self.line.push_back(Job::Publish(Some(key), EventKind::Asked { why }));
            }
            Command::Note(note) => self.line.push_back(Job::Publish(None, EventKind::Scheduler(note))),
        }
    }

    /// A start that asked what of its items it may be about. What is withheld has no ticket any more: the start is over.
    fn answer_claim(&mut self, ticket: u64, granted: Option<Vec<Arc<str>>>) {
        let Some(slot) = self.rounds.of_ticket(ticket) else { return };
        if granted.is_none() {
            slot.ticket = None;
        }
        if let Some(reply) = slot.claim.take() {
            // A task that has ended needs no answer.
            let _ = reply.send(granted);
        }
    }

    pub(super) fn claim(&mut self, slot: u64, items: Vec<Arc<str>>, reply: Reply<Option<Vec<Arc<str>>>>) {
        let Some(place) = self.rounds.get(slot) else { return };
        place.claim = Some(reply);
        if let Some(ticket) = place.ticket {
            self.step(Input::Claim { ticket, items: items.clone() });
        }
        // A start that the dispatcher does not know any more goes on, and hears at its birth what became of it.
        if let Some(reply) = self.rounds.get(slot).and_then(|place| place.claim.take()) {
            let _ = reply.send(Some(items));
        }
    }

    fn ask_person(&mut self, key: &LoopKey, why: &str) {
        self.asked.insert(key.clone());
        let question = keep::question(key, why, self.engine.now_ms());
        self.keep(Keeping { question: Some(question), ..Keeping::default() });
    }

    /// Does what can be done, up to the next write; behind that, only what does not depend on it.
    pub(super) fn perform(&mut self) {
        while self.rewrite.is_none() && self.over.is_none() {
            let job = self.next_job();
            match job {
                Some(Job::Keep(keeping)) => self.write(*keeping),
                Some(Job::Start(start)) => self.start(*start),
                Some(Job::Cancel { key, round, why }) => self.cancel(key, &round, why),
                Some(Job::Publish(key, kind)) => self.publish(key, kind),
                Some(Job::Thaw) => self.thawed(),
                // Whoever asked may have gone.
                Some(Job::Answer(reply)) => drop(reply.send(Ok(()))),
                None => return,
            }
        }
    }

    /// A start that may pass goes first: what comes of it may be written along.
    fn next_job(&mut self) -> Option<Job> {
        let start = passes(&mut self.line, self.writing.as_ref().map(|writing| &writing.keeping));
        match start {
            None if self.writing.is_some() || self.waits_for_more() => None,
            None => self.line.pop_front(),
            start => start,
        }
    }

    /// Whether what is to be written next waits a moment for what comes of starts that are being looked at: loops that are due
    /// together and have nothing to do are one transaction.
    fn waits_for_more(&mut self) -> bool {
        let Some(Job::Keep(keeping)) = self.line.front() else { return false };
        let waits = keeping.loops.is_some() && self.rounds.are_asked();
        if waits {
            self.patience.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
        waits
    }

    /// Rows have waited long enough.
    pub(super) fn write_now(&mut self) {
        self.patience = None;
        if self.writing.is_none() && self.rewrite.is_none() && self.over.is_none() {
            let next = self.line.pop_front_if(|job| matches!(job, Job::Keep(_)));
            if let Some(Job::Keep(keeping)) = next {
                self.write(*keeping);
            }
        }
    }

    fn write(&mut self, keeping: Keeping) {
        self.patience = None;
        let work = Box::pin(keep::write(self.engine.clone(), keeping.clone()));
        self.writing = Some(Writing { work, keeping, since: Instant::now(), is_told: false });
    }

    pub(super) fn tell_slow_write(&mut self) {
        let state = self.state();
        let Some(writing) = &mut self.writing else { return };
        writing.is_told = true;
        let for_ms = millis(writing.since.elapsed());
        self.publish(None, EventKind::Slow { what: "a write to the store", for_ms, state });
    }

    pub(super) fn written(&mut self, written: Result<Vec<ReceiptRow>, StoreError>) {
        let Some(Writing { keeping, .. }) = self.writing.take() else { return };
        match written {
            Ok(known) => self.kept(keeping, &known),
            Err(error) if is_over(&error.kind) => self.fenced(error.to_string()),
            Err(error) => self.unkept(keeping, &error),
        }
    }

    fn kept(&mut self, keeping: Keeping, known: &[ReceiptRow]) {
        self.tries = 0;
        let Keeping { mut receipts, changes, .. } = keeping;
        if changes.len() >= MANY_ROWS && self.line.is_empty() {
            drop(changes);
            drop(tokio::task::spawn_blocking(crate::proc::give_memory_back));
        }
        for row in known {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            receipts.retain(|receipt| receipt.key != key || receipt.occurrence != row.occurrence);
            self.publish(Some(key), EventKind::AlreadyDone { occurrence: row.occurrence.clone() });
        }
        if !receipts.is_empty() {
            self.publish(None, EventKind::Receipts(receipts));
        }
    }

    /// Nothing behind it is done before it is written; who waits for it is told why that takes.
    fn unkept(&mut self, keeping: Keeping, error: &StoreError) {
        let tries = self.tries;
        self.tries = tries.saturating_add(1);
        let again_ms = self.engine.now_ms().saturating_add((1_000_i64 << tries.min(6)).min(REWRITE_MAX_MS));
        self.line.push_front(Job::Keep(Box::new(keeping)));
        self.rewrite = Some(again_ms);
        self.publish(None, EventKind::WriteFailed { why: error.to_string(), again_ms });
        for job in std::mem::take(&mut self.line) {
            match job {
                Job::Answer(reply) => {
                    let text = format!("it is in effect as far as it can be, and not recorded yet: {error}");
                    drop(reply.send(Err(EngineError::Daemon(text))));
                }
                job => self.line.push_back(job),
            }
        }
        if matches!(self.mode, Mode::Once) {
            self.over = Some(Ended::Failed(error.to_string()));
        }
    }

    /// The moment of another try is never far; a clock that was set back would make it so.
    pub(super) fn look_at_rewrite(&mut self) {
        let latest_ms = self.engine.now_ms().saturating_add(REWRITE_MAX_MS);
        self.rewrite = self.rewrite.filter(|at_ms| *at_ms <= latest_ms);
    }

    fn cancel(&mut self, key: LoopKey, round: &str, why: String) {
        let Some((_, slot)) = self.rounds.of_round(round) else { return };
        slot.cancel.cancel_because(&why);
        self.publish_round(key, round, EventKind::Cancelling { why });
    }

    /// Begins a start, unless something has come between.
    fn start(&mut self, start: Start) {
        let ticket = start.ticket;
        self.look_at_stop_file();
        if self.frozen.is_some() || !matches!(self.mode, Mode::Running | Mode::Once) {
            let why = "everything was stopped meanwhile".to_owned();
            return self.step(Input::Unborn { ticket, why, retry_ms: Some(self.now_ms()) });
        }
        let mut slot = Slot::new(start.key.clone(), self.engine.now_ms(), Begun::Due);
        slot.ticket = Some(ticket);
        slot.occurrence = Some(start.receipt.occurrence.clone());
        let occurrence = start.receipt.occurrence.clone();
        self.publish(Some(start.key.clone()), EventKind::Starting { occurrence });
        let slot = self.rounds.place(slot);
        let work = self.work(slot);
        self.rounds.spawn(slot, work.start(start));
    }

    /// What a task for a place needs.
    fn work(&mut self, slot: u64) -> Work {
        let cancel = self.rounds.get(slot).map(|slot| slot.cancel.clone()).unwrap_or_default();
        Work { engine: self.engine.clone(), fleet: self.fleet.clone(), post: self.post.clone(), slot, cancel }
    }

    /// A start became a round.
    pub(super) fn born(&mut self, slot: u64, round: String) {
        let Some(slot) = self.rounds.get(slot) else { return };
        slot.round = Some(round.clone());
        let (key, occurrence) = (slot.key.clone(), slot.occurrence.clone().unwrap_or_default());
        let ticket = slot.ticket.take();
        self.publish_round(key, &round, EventKind::Started { occurrence });
        if let Some(ticket) = ticket {
            self.step(Input::Born { ticket, round });
        }
    }

    /// A task of a round came to its end.
    pub(super) fn finished(&mut self, number: u64, finished: Result<Finished, String>) {
        let finished = match finished {
            Ok(finished) => finished,
            Err(text) => return self.panicked(number, text),
        };
        match finished {
            Finished::Rested => self.vacated(number),
            Finished::Withheld => drop(self.rounds.leave(number)),
            Finished::NoWork => self.unborn(number, |ticket| Input::NoWork { ticket }),
            Finished::TooManyOpen { open } => self.unborn(number, |ticket| Input::TooManyOpen { ticket, open }),
            Finished::Known { round } => self.known(number, round),
            Finished::Unborn { why, again } => self.not_started(number, why, again),
            Finished::Left { why, again } => self.left(number, why, again),
            Finished::Fenced(why) => self.fenced(why),
        }
    }

    fn unborn(&mut self, number: u64, input: impl FnOnce(u64) -> Input) {
        let ticket = self.rounds.leave(number).and_then(|slot| slot.ticket);
        if let Some(ticket) = ticket {
            self.step(input(ticket));
        }
    }

    fn not_started(&mut self, number: u64, why: String, again: Again) {
        let again_ms = (again == Again::Soon).then(|| self.now_ms().saturating_add(AGAIN_MS));
        if let Some(key) = self.rounds.get(number).map(|slot| slot.key.clone()) {
            self.publish(Some(key), EventKind::NotStarted { why: why.clone(), again_ms });
        }
        self.unborn(number, |ticket| Input::Unborn { ticket, why, retry_ms: again_ms });
    }

    fn known(&mut self, number: u64, round: Option<String>) {
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, occurrence) = (slot.key.clone(), slot.occurrence.clone().unwrap_or_default());
        self.publish(Some(key), EventKind::AlreadyDone { occurrence });
        match round {
            // A birth whose answer was lost has left a round that nobody is at. It has the loop's place: no other round of
            // the loop begins before it has ended.
            Some(round) => {
                self.born(number, round.clone());
                let work = self.work(number);
                self.rounds.spawn(number, work.retake(round));
            }
            None => self.unborn(number, |ticket| Input::Settled { ticket }),
        }
    }

    fn panicked(&mut self, number: u64, text: String) {
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, round) = (slot.key.clone(), slot.round.clone());
        self.engine.publish(Some(key), round.as_deref(), EventKind::Panicked { text: text.clone() });
        match round {
            Some(round) => {
                let work = self.work(number);
                self.rounds.spawn(number, work.mend(round, text));
            }
            None => self.not_started(number, format!("this is a bug: {text}"), Again::Never),
        }
    }

    /// The round stays open on record, and its loop's place stays taken: no other round of the loop begins before it has ended.
    /// Only one that nobody can go on with, ever, makes room.
    fn left(&mut self, number: u64, why: String, again: Again) {
        let now_ms = self.now_ms();
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, round) = (slot.key.clone(), slot.round.clone().unwrap_or_default());
        slot.tries += 1;
        slot.is_parked = true;
        let again_ms = now_ms.saturating_add(RETAKE_MS << slot.tries.min(DOUBLINGS_MAX));
        self.publish_round(key.clone(), &round, EventKind::Parked { why, again_ms });
        if again == Again::Never {
            return self.vacated(number);
        }
        self.agenda.put(again_ms, Errand::Retake { key, round });
    }

    /// Whoever had a place has gone. A round that did not come to its rest is on record and keeps the place until it has: its
    /// loop has no other one before that.
    pub(super) fn given_back(&mut self, number: u64) {
        let left = self.rounds.get(number).filter(|slot| slot.end.is_none()).and_then(|slot| slot.round.clone());
        let Some(round) = left else { return self.vacated(number) };
        let work = self.work(number);
        self.rounds.spawn(number, work.look_after(round));
    }

    /// A place is free again.
    pub(super) fn vacated(&mut self, number: u64) {
        let Some(slot) = self.rounds.leave(number) else { return };
        let Some(round) = slot.round else { return };
        let outcome = slot.end.as_ref().map(|end| end.outcome);
        let unknown = End { outcome: RoundOutcome::Interrupted, signature: None, retry_at_ms: None, open_proposals: 0 };
        let (key, begun) = (slot.key.clone(), slot.begun);
        self.publish_round(key, &round, EventKind::Ended { outcome, begun });
        self.agenda.unblock(self.now_ms());
        self.step(Input::Ended { key: slot.key, round, end: slot.end.unwrap_or(unknown) });
    }

    /// Sees to what its moment has come for.
    pub(super) fn run_errands(&mut self, now_ms: i64) {
        for errand in self.agenda.take(now_ms) {
            match errand {
                Errand::Retake { key, round } => self.go_on(key, round, Errand::retake),
                Errand::Resume { key, round } => self.go_on(key, round, Errand::resume),
                Errand::Expire => self.expire(),
            }
        }
    }

    /// Leaves a round alone that another process is at; its loop's place is taken until that has come to rest.
    pub(super) fn watch(&mut self, lease: RoundLease) {
        let key = LoopKey::new(&lease.repo, &lease.loop_name);
        let mut slot = Slot::new(key.clone(), lease.since_ms, Begun::Elsewhere);
        slot.round = Some(lease.name.clone());
        let number = self.rounds.place(slot);
        self.step(Input::Occupied { key, round: lease.name.clone(), items: Vec::new() });
        let work = self.work(number);
        self.rounds.spawn(number, work.watch(lease.name));
    }

    /// Goes on with a round of the record, in its loop's one place.
    fn go_on(&mut self, key: LoopKey, round: String, errand: fn(LoopKey, String) -> Errand) {
        let again = errand(key.clone(), round.clone());
        let is_retake = matches!(again, Errand::Retake { .. });
        if let Some((number, slot)) = self.rounds.of_round(&round) {
            if slot.is_parked {
                slot.is_parked = false;
                let work = self.work(number);
                self.rounds.spawn(number, work.retake(round));
            }
            return;
        }
        let is_held = !is_retake && (self.frozen.is_some() || self.is_paused(&key));
        let items = self.items.get(&round).cloned().unwrap_or_default();
        let hindrance = self.dispatcher.hindrance(&key, &items, self.now_ms());
        // The place may have come to it already.
        let is_own = matches!(&hindrance, Some(Why::Running { round: Some(running), .. }) if *running == round);
        if is_held || (hindrance.is_some() && !is_own) {
            if is_retake {
                // It is open on record: nothing else of its loop begins before it.
                self.step(Input::Follows { key, round, items });
            }
            return self.agenda.block(again);
        }
        self.items.remove(&round);
        let mut slot = Slot::new(key.clone(), self.engine.now_ms(), Begun::Earlier);
        slot.round = Some(round.clone());
        if self.frozen.is_some() {
            // It is taken to its end, and no further: nothing of it is started while everything is stopped.
            slot.cancel.cancel();
        }
        let number = self.rounds.place(slot);
        self.step(Input::Occupied { key, round: round.clone(), items });
        let work = self.work(number);
        match is_retake {
            true => self.rounds.spawn(number, work.retake(round)),
            false => self.rounds.spawn(number, work.resume(round)),
        }
    }
}

//! What a daemon says: one line for each start, end and skip, with its moment. To the terminal it was started in, or to its
//! log. Nothing is decided from it.

use super::log::Streams;
use crate::error::counted;
use crate::output::{Look, Output, safe};
use crate::progress::{Telling, gate_look, gate_mark, gate_text};
use crate::view::time::{clock, moment, now_ms, until};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright_core::dispatch::{Fate, Receipt, SchedulerNote};
use loopwright_core::gate::GateResult;
use loopwright_core::outcome::RoundOutcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// As many receipts of one moment are told one by one.
const RECEIPTS_TOLD: usize = 20;

/// What comes sooner than this is not announced.
const SOON_MS: i64 = 5_000;

/// How lines say when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The time of day: somebody looks.
    Clock,
    /// Day and time: it is read later.
    Moment,
}

/// Says it.
pub(crate) struct Teller {
    out: Output,
    stamp: Stamp,
    telling: Telling,
    log: OnceLock<Streams>,
    /// The moment that was announced last.
    next: Mutex<Option<i64>>,
    is_ending: AtomicBool,
}

impl Teller {
    /// Where the command prints.
    pub(crate) fn new(out: &Output, stamp: Stamp, telling: Telling) -> Self {
        let (log, next, is_ending) = (OnceLock::new(), Mutex::new(None), AtomicBool::new(false));
        Self { out: out.twin(), stamp, telling, log, next, is_ending }
    }

    /// From now on it is the log that is written to.
    pub(crate) fn turn_to(&self, log: Streams) {
        // It is set once, by the process that has no terminal.
        let _ = self.log.set(log);
    }

    /// A line of its own.
    pub(crate) fn say(&self, word: &str, text: &str) {
        self.line(None, word, text);
    }

    /// Something that a person may want to do something about.
    pub(crate) fn warn(&self, text: &str) {
        self.line(Some(Look::Yellow), "warning", text);
    }

    fn line(&self, look: Option<Look>, word: &str, text: &str) {
        let now = now_ms();
        let at = match self.stamp {
            Stamp::Moment => moment(now),
            Stamp::Clock => format!("{}Z", clock(now)),
        };
        let word = format!("{word:<9}");
        let word = look.map_or(word.clone(), |look| self.out.look(look, &word));
        let line = format!("{} {word} {}", self.out.look(Look::Dim, &at), safe(text));
        if let Some(log) = self.log.get() {
            log.turn();
        }
        // The answer of `--json` is one document, so everything else stands beside it.
        if self.out.is_json() { self.out.note(&line) } else { self.out.say(&line) }
    }

    fn ended(&self, event: &LiveEvent, outcome: RoundOutcome) {
        let round = event.round.as_deref().unwrap_or_default();
        let look = match outcome {
            RoundOutcome::Escalated => Look::Yellow,
            outcome if outcome.is_success() => Look::Green,
            _ => Look::Red,
        };
        let next = match outcome {
            RoundOutcome::Escalated => "; waits for you: loopwright inbox".to_owned(),
            outcome if outcome.is_success() => String::new(),
            _ => format!("; loopwright why {round}"),
        };
        self.line(Some(look), "end", &format!("{}: {}{next}", subject(event), outcome.word()));
    }

    fn receipts(&self, receipts: &[Receipt]) {
        let skipped: Vec<&Receipt> = receipts.iter().filter(|receipt| receipt.fate != Fate::Started).collect();
        for receipt in skipped.iter().take(RECEIPTS_TOLD) {
            let many = if receipt.count > 1 { format!(", {} times", receipt.count) } else { String::new() };
            let due = format!("due {}Z{many}", clock(receipt.due_ms));
            let text = format!("{} {}: {} ({due})", receipt.key.name, receipt.fate.word(), receipt.reason);
            self.say("skip", &text);
        }
        if skipped.len() > RECEIPTS_TOLD {
            self.say("skip", &format!("and {} more; loopwright show LOOP has them all", skipped.len() - RECEIPTS_TOLD));
        }
    }

    fn sleeps(&self, due_ms: Option<i64>) {
        let now = now_ms();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if *next == due_ms || self.is_ending.load(Ordering::Relaxed) {
            return;
        }
        *next = due_ms;
        if let Some(at) = due_ms.filter(|at| *at > now + SOON_MS) {
            self.say("next", &format!("{}, {}", moment(at), until(at, now)));
        }
    }

    fn scheduler(&self, note: &SchedulerNote) {
        match note {
            SchedulerNote::Gap { expected_ms, now_ms } => {
                let gap = until(*now_ms, *expected_ms);
                self.warn(&format!(
                    "nobody looked since {}: the machine slept, or its clock was set ({gap})",
                    moment(*expected_ms)
                ));
            }
            SchedulerNote::ClockBehind { now_ms, seen_ms } => {
                let (now, seen) = (moment(*now_ms), moment(*seen_ms));
                self.warn(&format!(
                    "the clock says {now}, and {seen} is on record: nothing is started by a clock that is behind"
                ));
            }
            SchedulerNote::ClockRight { .. } => self.say("clock", "it is right again"),
            SchedulerNote::RateLimited { key, until_ms } => {
                self.say("waits", &format!("{}: its provider says later, until {}", key.name, moment(*until_ms)));
            }
            SchedulerNote::Stalled { key, round, since_ms } => {
                let round = round.as_deref().unwrap_or("that is being born");
                self.warn(&format!(
                    "{} round {round} runs since {} and has outlived its limit",
                    key.name,
                    moment(*since_ms)
                ));
            }
        }
    }

    fn gate(&self, event: &LiveEvent, gate: &GateResult) {
        let text = format!("{}: {} {}", subject(event), gate_mark(gate), gate_text(gate));
        self.line(Some(gate_look(gate.status)), "gate", &text);
    }

    /// The progress of rounds, as far as `LOOPWRIGHT_LOG` wants it.
    fn progress(&self, event: &LiveEvent) {
        match &event.kind {
            EventKind::Stage { stage, text } if self.telling >= Telling::Info => {
                self.say(stage.word(), &format!("{}: {}", subject(event), text.trim_end()));
            }
            EventKind::Gate(gate) if self.telling >= Telling::Info => self.gate(event, gate),
            EventKind::ProviderWait { until_ms, why } if self.telling >= Telling::Info => {
                self.say("waits", &format!("{} until {}: {why}", subject(event), moment(*until_ms)));
            }
            EventKind::AgentLine { role, line } if self.telling >= Telling::Debug => {
                self.line(Some(Look::Dim), role.word(), &format!("{} | {line}", subject(event)));
            }
            EventKind::Recorded { event: name, phase, .. } if self.telling >= Telling::Debug => {
                self.line(Some(Look::Dim), "event", &format!("{}: {name} → {phase}", subject(event)));
            }
            _ => {}
        }
    }

    fn ending(&self, running: usize, until_ms: i64) {
        self.is_ending.store(true, Ordering::Relaxed);
        let under_way = format!("{} under way", counted(running, "round"));
        match running {
            0 => self.say("ending", "nothing is under way"),
            _ => {
                let then = format!("cancelled at {}Z; once more ends them now", clock(until_ms));
                self.say("ending", &format!("{under_way}, {then}"));
            }
        }
    }

    /// The text of a warning; `None` for every other event.
    fn trouble(event: &LiveEvent) -> Option<String> {
        let name = event.loop_name();
        Some(match &event.kind {
            EventKind::LoadFailed { why } => format!("loops were not read again: {why}; those from before stay in use"),
            EventKind::NotStarted { why, again_ms } => {
                let again = again_ms.map_or(String::new(), |at| format!("; again at {}", moment(at)));
                format!("{name} was not started: {why}{again}")
            }
            EventKind::Panicked { text } => {
                let round = event.round.as_deref().unwrap_or("that was being born");
                format!("{name} round {round} fails by a bug: {text}")
            }
            EventKind::WriteFailed { why, again_ms } => {
                let again = moment(*again_ms);
                format!("the record cannot be written: {why}; again at {again}, nothing starts before")
            }
            EventKind::ChainTooLong { follower, depth } => {
                format!("{} does not follow {name}: {depth} rounds follow one another already", follower.name)
            }
            EventKind::Slow { what, for_ms, state } => format!("{what} takes {for_ms} ms by now; {state}"),
            EventKind::SinkFailed { error } => format!("{}: {error}", subject(event)),
            EventKind::Warning(text) => text.clone(),
            _ => return None,
        })
    }
}

/// The loop and the round that an event is about, as far as it names them.
fn subject(event: &LiveEvent) -> String {
    let round = event.round.as_ref().map(|round| format!("round {round}"));
    let parts: Vec<&str> = [Some(event.loop_name()), round.as_deref()].into_iter().flatten().collect();
    parts.join(" ").trim().to_owned()
}

impl EventSink for Teller {
    fn event(&self, event: &LiveEvent) {
        if let Some(text) = Self::trouble(event) {
            return self.warn(&text);
        }
        match &event.kind {
            EventKind::Loaded { loops } => self.say("loaded", &counted(*loops, "loop")),
            EventKind::Started { occurrence } => self.say("start", &format!("{} ({occurrence})", subject(event))),
            EventKind::Ended { outcome: Some(outcome), .. } => self.ended(event, *outcome),
            EventKind::Parked { why, again_ms } => {
                self.say("parked", &format!("{} until {}: {why}", subject(event), moment(*again_ms)));
            }
            EventKind::Cancelling { why } => self.say("cancel", &format!("{}: {why}", subject(event))),
            EventKind::Expired { ended } => {
                let how = match ended {
                    Ok(outcome) => outcome.map_or("running", RoundOutcome::word).to_owned(),
                    Err(error) => format!("cannot be closed: {error}"),
                };
                self.say("expired", &format!("{}: {how}", subject(event)));
            }
            EventKind::Receipts(receipts) => self.receipts(receipts),
            EventKind::Asked { why } => {
                self.line(Some(Look::Yellow), "asks", &format!("{}: {why}; loopwright inbox", subject(event)));
            }
            EventKind::Scheduler(note) => self.scheduler(note),
            EventKind::Frozen { by, why } => {
                self.line(Some(Look::Red), "stopped", &format!("everything, by {by}: {why}; loopwright thaw"));
            }
            EventKind::Thawed => self.say("thawed", "loops start again"),
            EventKind::Draining { running, until_ms } => self.ending(*running, *until_ms),
            EventKind::Fenced { why } => {
                self.line(Some(Look::Red), "fenced", &format!("another engine has the store: {why}"));
            }
            EventKind::Sleeping { due_ms, .. } => self.sleeps(*due_ms),
            _ => self.progress(event),
        }
    }
}

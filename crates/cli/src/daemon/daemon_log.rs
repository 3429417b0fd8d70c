//! The log lines of a daemon: one for each start, end and skip, with its time. They go to the terminal it was started
//! in, or to its log file. No decision depends on them.

use super::detach::DaemonLogFile;
use crate::error::with_count;
use crate::output::{CommandOutput, TextStyle, safe};
use crate::progress::{ProgressDetail, gate_mark, gate_text};
use crate::verbs::gc::format_bytes;
use crate::view::time::{date_and_time, now_ms, time_of_day, time_until};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright_core::dispatch::{OccurrenceOutcome, OccurrenceReceipt, SchedulerNote};
use loopwright_core::gate::GateResult;
use loopwright_core::outcome::RoundOutcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The most receipts of one moment that get their own line.
const RECEIPTS_LOGGED_MAX: usize = 20;

/// A next start sooner than this is not announced.
const SOON_MS: i64 = 5_000;

/// How lines show the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimestampStyle {
    /// The time of day: for a terminal.
    TimeOfDay,
    /// Date and time: for a log file.
    DateAndTime,
}

/// Prints the events of a daemon.
pub(crate) struct DaemonLog {
    out: CommandOutput,
    stamp: TimestampStyle,
    telling: ProgressDetail,
    log: OnceLock<DaemonLogFile>,
    /// The next start that was announced last.
    next: Mutex<Option<i64>>,
    is_ending: AtomicBool,
}

impl DaemonLog {
    /// A log that prints where the command prints.
    pub(crate) fn new(out: &CommandOutput, stamp: TimestampStyle, telling: ProgressDetail) -> Self {
        let (log, next, is_ending) = (OnceLock::new(), Mutex::new(None), AtomicBool::new(false));
        Self { out: out.duplicate(), stamp, telling, log, next, is_ending }
    }

    /// From now on, lines go to the log file.
    pub(crate) fn redirect_to_file(&self, log: DaemonLogFile) {
        // It is set once, by the process that has no terminal.
        let _ = self.log.set(log);
    }

    /// Prints one line.
    pub(crate) fn log(&self, word: &str, text: &str) {
        self.line(None, word, text);
    }

    /// Prints a warning that a person may want to act on.
    pub(crate) fn warn(&self, text: &str) {
        self.line(Some(TextStyle::Yellow), "warning", text);
    }

    fn line(&self, look: Option<TextStyle>, word: &str, text: &str) {
        let now = now_ms();
        let at = match self.stamp {
            TimestampStyle::DateAndTime => date_and_time(now),
            TimestampStyle::TimeOfDay => time_of_day(now),
        };
        let word = format!("{word:<9}");
        let word = look.map_or(word.clone(), |look| self.out.style(look, &word));
        let line = format!("{} {word} {}", self.out.style(TextStyle::Dim, &at), safe(text));
        if let Some(log) = self.log.get() {
            log.rotate();
        }
        // The answer of `--json` is one document, so log lines go to standard error.
        if self.out.is_json() { self.out.note(&line) } else { self.out.print(&line) }
    }

    fn log_round_end(&self, event: &LiveEvent, outcome: RoundOutcome) {
        let round = event.round.as_deref().unwrap_or_default();
        let (look, next) = match outcome {
            RoundOutcome::Escalated => (TextStyle::Yellow, "; waits for you: loopwright inbox".to_owned()),
            outcome if outcome.is_success() => (TextStyle::Green, String::new()),
            _ => (TextStyle::Red, format!("; loopwright why {round}")),
        };
        self.line(Some(look), "end", &format!("{}: {}{next}", subject(event), outcome.word()));
    }

    fn receipts(&self, receipts: &[OccurrenceReceipt]) {
        let skipped: Vec<&OccurrenceReceipt> =
            receipts.iter().filter(|receipt| receipt.fate != OccurrenceOutcome::Started).collect();
        for receipt in skipped.iter().take(RECEIPTS_LOGGED_MAX) {
            let many = if receipt.count > 1 { format!(", {} times", receipt.count) } else { String::new() };
            let due = format!("due {}{many}", time_of_day(receipt.due_ms));
            let text = format!("{} {}: {} ({due})", receipt.key.name, receipt.fate.word(), receipt.reason);
            self.log("skip", &text);
        }
        if skipped.len() > RECEIPTS_LOGGED_MAX {
            self.log(
                "skip",
                &format!("and {} more; loopwright show LOOP has them all", skipped.len() - RECEIPTS_LOGGED_MAX),
            );
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
            self.log("next", &format!("{}, {}", date_and_time(at), time_until(at, now)));
        }
    }

    fn scheduler(&self, note: &SchedulerNote) {
        match note {
            SchedulerNote::Gap { expected_ms, now_ms } => {
                let gap = time_until(*now_ms, *expected_ms);
                self.warn(&format!(
                    "the scheduler did not wake since {}: the machine was suspended, or its clock was set ({gap})",
                    date_and_time(*expected_ms)
                ));
            }
            SchedulerNote::ClockBehind { now_ms, seen_ms } => {
                let (now, seen) = (date_and_time(*now_ms), date_and_time(*seen_ms));
                self.warn(&format!(
                    "the clock shows {now}, but the record is already at {seen}: nothing starts until it is right"
                ));
            }
            SchedulerNote::ClockRight { .. } => self.log("clock", "the clock is right again"),
            SchedulerNote::RateLimited { key, until_ms } => {
                self.log("waits", &format!("{}: its provider is limited until {}", key.name, date_and_time(*until_ms)));
            }
            SchedulerNote::Stalled { key, round, since_ms } => {
                let round = round.as_deref().unwrap_or("that is starting");
                self.warn(&format!(
                    "{} round {round} has run since {} and exceeds its time limit",
                    key.name,
                    date_and_time(*since_ms)
                ));
            }
        }
    }

    fn gate(&self, event: &LiveEvent, gate: &GateResult) {
        let (look, mark) = gate_mark(gate);
        self.line(Some(look), "gate", &format!("{}: {mark} {}", subject(event), gate_text(gate)));
    }

    /// Prints the progress of rounds, as far as `LOOPWRIGHT_LOG` asks for it.
    fn progress(&self, event: &LiveEvent) {
        match &event.kind {
            EventKind::Stage { stage, text } if self.telling >= ProgressDetail::Info => {
                self.log(stage.word(), &format!("{}: {}", subject(event), text.trim_end()));
            }
            EventKind::Gate(gate) if self.telling >= ProgressDetail::Info => self.gate(event, gate),
            EventKind::ProviderWait { until_ms, why } if self.telling >= ProgressDetail::Info => {
                self.log("waits", &format!("{} until {}: {why}", subject(event), date_and_time(*until_ms)));
            }
            EventKind::AgentLine { role, line } if self.telling >= ProgressDetail::Debug => {
                self.line(Some(TextStyle::Dim), role.word(), &format!("{} | {line}", subject(event)));
            }
            EventKind::Recorded { event: name, phase, .. } if self.telling >= ProgressDetail::Debug => {
                self.line(Some(TextStyle::Dim), "event", &format!("{}: {name} → {phase}", subject(event)));
            }
            _ => {}
        }
    }

    fn ending(&self, running: usize, until_ms: i64) {
        self.is_ending.store(true, Ordering::Relaxed);
        let under_way = format!("{} running", with_count(running, "round"));
        match running {
            0 => self.log("ending", "no rounds are running"),
            _ => {
                let then = format!("cancelled at {}; another signal ends them now", time_of_day(until_ms));
                self.log("ending", &format!("{under_way}, {then}"));
            }
        }
    }

    /// The text of a warning; `None` for every other event.
    fn trouble(event: &LiveEvent) -> Option<String> {
        let name = event.loop_name();
        Some(match &event.kind {
            EventKind::LoadFailed { why } => format!("loops were not reloaded: {why}; the previous ones stay in use"),
            EventKind::NotStarted { why, again_ms } => {
                let again = again_ms.map_or(String::new(), |at| format!("; next try at {}", date_and_time(at)));
                format!("{name} was not started: {why}{again}")
            }
            EventKind::Panicked { text } => {
                let round = event.round.as_deref().unwrap_or("that was starting");
                format!("{name} round {round} failed because of a bug: {text}")
            }
            EventKind::WriteFailed { why, again_ms } => {
                let again = date_and_time(*again_ms);
                format!("the record cannot be written: {why}; next try at {again}; nothing starts before then")
            }
            EventKind::ChainTooLong { follower, depth } => {
                format!("{} does not start after {name}: the chain already has {depth} rounds", follower.name)
            }
            EventKind::Slow { what, for_ms, state } => format!("{what} has taken {for_ms} ms so far; {state}"),
            EventKind::SinkFailed { error } => format!("{}: {error}", subject(event)),
            EventKind::Collected { stuck: Some(why), .. } => format!("the daily `gc` could not remove {why}"),
            EventKind::Warning(text) => text.clone(),
            _ => return None,
        })
    }
}

/// The loop and the round of an event, as far as it names them.
fn subject(event: &LiveEvent) -> String {
    let round = event.round.as_ref().map(|round| format!("round {round}"));
    let parts: Vec<&str> = [Some(event.loop_name()), round.as_deref()].into_iter().flatten().collect();
    parts.join(" ").trim().to_owned()
}

impl EventSink for DaemonLog {
    fn event(&self, event: &LiveEvent) {
        if let Some(text) = Self::trouble(event) {
            return self.warn(&text);
        }
        match &event.kind {
            EventKind::Loaded { loops } => self.log("loaded", &with_count(*loops, "loop")),
            EventKind::Started { occurrence } => self.log("start", &format!("{} ({occurrence})", subject(event))),
            EventKind::Ended { outcome: Some(outcome), .. } => self.log_round_end(event, *outcome),
            EventKind::Parked { why, again_ms } => {
                self.log("parked", &format!("{} until {}: {why}", subject(event), date_and_time(*again_ms)));
            }
            EventKind::Cancelling { why } => self.log("cancel", &format!("{}: {why}", subject(event))),
            EventKind::Expired { ended } => {
                let how = match ended {
                    Ok(outcome) => outcome.map_or("running", RoundOutcome::word).to_owned(),
                    Err(error) => format!("cannot be closed: {error}"),
                };
                self.log("expired", &format!("{}: {how}", subject(event)));
            }
            EventKind::Collected { removed, freed_bytes, .. } if *removed > 0 => {
                let places = with_count(*removed, "place");
                self.log("gc", &format!("freed {} in {places}", format_bytes(*freed_bytes)));
            }
            EventKind::Receipts(receipts) => self.receipts(receipts),
            EventKind::Asked { why } => {
                self.line(Some(TextStyle::Yellow), "asks", &format!("{}: {why}; loopwright inbox", subject(event)));
            }
            EventKind::Scheduler(note) => self.scheduler(note),
            EventKind::Frozen { by, why } => {
                self.line(Some(TextStyle::Red), "stopped", &format!("everything, by {by}: {why}; loopwright thaw"));
            }
            EventKind::Thawed => self.log("thawed", "loops start again"),
            EventKind::Draining { running, until_ms } => self.ending(*running, *until_ms),
            EventKind::Fenced { why } => {
                self.line(Some(TextStyle::Red), "fenced", &format!("another engine owns the store: {why}"));
            }
            EventKind::Sleeping { due_ms, .. } => self.sleeps(*due_ms),
            _ => self.progress(event),
        }
    }
}

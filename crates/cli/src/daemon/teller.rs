//! What a daemon says: one line for each start, end and skip, with its moment. To the terminal it was started in, or to its
//! log. Nothing is decided from it.

use super::log::Streams;
use crate::error::counted;
use crate::output::{Look, Output, safe};
use crate::view::time::{clock, moment, now_ms, until};
use loopwright::daemon::{News, Told};
use loopwright::takeover::Taken;
use loopwright_core::dispatch::{Fate, LoopKey, Notice, Receipt};
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
    log: OnceLock<Streams>,
    /// The moment that was announced last.
    next: Mutex<Option<i64>>,
    is_ending: AtomicBool,
}

impl Teller {
    /// Where the command prints.
    pub(crate) fn new(out: &Output, stamp: Stamp) -> Self {
        Self { out: out.twin(), stamp, log: OnceLock::new(), next: Mutex::new(None), is_ending: AtomicBool::new(false) }
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

    fn ended(&self, key: &LoopKey, round: &str, outcome: RoundOutcome) {
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
        self.line(Some(look), "end", &format!("{} round {round}: {}{next}", key.name, outcome.word()));
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

    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Gap { expected_ms, now_ms } => {
                let gap = until(*now_ms, *expected_ms);
                self.warn(&format!(
                    "nobody looked since {}: the machine slept, or its clock was set ({gap})",
                    moment(*expected_ms)
                ));
            }
            Notice::ClockBehind { now_ms, seen_ms } => {
                let (now, seen) = (moment(*now_ms), moment(*seen_ms));
                self.warn(&format!(
                    "the clock says {now}, and {seen} is on record: nothing is started by a clock that is behind"
                ));
            }
            Notice::ClockRight { .. } => self.say("clock", "it is right again"),
            Notice::RateLimited { key, until_ms } => {
                self.say("waits", &format!("{}: its provider says later, until {}", key.name, moment(*until_ms)));
            }
            Notice::Stalled { key, round, since_ms } => {
                let round = round.as_deref().unwrap_or("that is being born");
                self.warn(&format!(
                    "{} round {round} runs since {} and has outlived its limit",
                    key.name,
                    moment(*since_ms)
                ));
            }
        }
    }

    fn taken(&self, taken: &Taken) {
        let of = taken.loop_name.as_deref().map_or(String::new(), |name| format!("{name} "));
        let how = match &taken.ended {
            Ok(outcome) => outcome.map_or("running", RoundOutcome::word).to_owned(),
            Err(error) => format!("cannot go on: {}", crate::error::chain(error)),
        };
        self.say(taken.what.word(), &format!("{of}round {}: {how}", taken.round));
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

    /// What a person may want to do something about, in words; nothing for what is none of it.
    fn trouble(&self, news: &News) -> Option<String> {
        Some(match news {
            News::Unloaded { why } => format!("loops were not read again: {why}; those from before stay in use"),
            News::NotStarted { key, why, again_ms } => {
                let again = again_ms.map_or(String::new(), |at| format!("; again at {}", moment(at)));
                format!("{} was not started: {why}{again}", key.name)
            }
            News::Panicked { key, round, text } => {
                let round = round.as_deref().unwrap_or("that was being born");
                format!("{} round {round} fails by a bug: {text}", key.name)
            }
            News::Unkept { why, again_ms } => {
                let again = moment(*again_ms);
                format!("the record cannot be written: {why}; again at {again}, nothing starts before")
            }
            News::TooDeep { key, follower, depth } => {
                let (follower, name) = (&follower.name, &key.name);
                format!("{follower} does not follow {name}: {depth} rounds follow one another already")
            }
            News::Stalled { what, for_ms, state } => format!("{what} takes {for_ms} ms by now; {state}"),
            _ => return None,
        })
    }
}

impl Told for Teller {
    fn tell(&self, news: &News) {
        if let Some(text) = self.trouble(news) {
            return self.warn(&text);
        }
        match news {
            News::Loaded { loops } => self.say("loaded", &counted(*loops, "loop")),
            News::Started { key, round, occurrence } => {
                self.say("start", &format!("{} round {round} ({occurrence})", key.name));
            }
            News::Ended { key, round, outcome: Some(outcome), .. } => self.ended(key, round, *outcome),
            News::Parked { key, round, why, again_ms } => {
                self.say("parked", &format!("{} round {round} until {}: {why}", key.name, moment(*again_ms)));
            }
            News::Cancelling { key, round, why } => self.say("cancel", &format!("{} round {round}: {why}", key.name)),
            News::Taken(taken) => self.taken(taken),
            News::Kept { receipts } => self.receipts(receipts),
            News::Asked { key, why } => {
                self.line(Some(Look::Yellow), "asks", &format!("{}: {why}; loopwright inbox", key.name));
            }
            News::Said(notice) => self.notice(notice),
            News::Frozen { by, why } => {
                self.line(Some(Look::Red), "stopped", &format!("everything, by {by}: {why}; loopwright thaw"));
            }
            News::Thawed => self.say("thawed", "loops start again"),
            News::Draining { running, until_ms } => self.ending(*running, *until_ms),
            News::Fenced { why } => {
                self.line(Some(Look::Red), "fenced", &format!("another engine has the store: {why}"));
            }
            News::Sleeps { due_ms, .. } => self.sleeps(*due_ms),
            _ => {}
        }
    }
}

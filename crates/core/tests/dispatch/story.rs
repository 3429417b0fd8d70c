//! A notation for histories: events, one on each line, and below each the dispatcher's decisions.
//!
//! `loop NAME key=value …` and `gone NAME` write loop files, `limits …` comes first; every other line begins with its
//! time: `09:00 load`, `09:00 wake`, `1d09:00 started NAME`, `09:20 end NAME shipped sig=… retry=10:00 open=2`,
//! `09:20 crash`, `09:20 why NAME`.

use super::kept::Kept;
use loopwright_core::cadence::LoopSchedule;
use loopwright_core::dispatch::{
    ConcurrencyLimits, DispatchCommand, DispatchInput, Dispatcher, FleetFreeze, ItemLocks, LoopEntry, LoopExplanation,
    LoopKey, LoopStanding, OWN_ITEMS, OccurrenceReceipt, RoundEnd, RoundLock, RoundStart, SchedulerNote, StartBlocker,
    TriggerSignal,
};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::spec::{CatchUp, Overlap, Triggers};
use loopwright_core::units::TimeSpan;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A Monday: 2026-11-16T00:00Z.
const BASE_MS: i64 = 1_794_787_200_000;
const DAY_MS: i64 = 86_400_000;

/// A history that is being played.
struct Story {
    limits: ConcurrencyLimits,
    files: BTreeMap<LoopKey, LoopEntry>,
    kept: Kept,
    dispatcher: Dispatcher,
    starts: BTreeMap<LoopKey, RoundStart>,
    rounds: BTreeMap<LoopKey, String>,
    born: usize,
    text: String,
}

/// Plays a script and returns its history.
pub(crate) fn tell(script: &str) -> String {
    let limits = ConcurrencyLimits::default();
    let kept = Kept::default();
    let dispatcher = kept.dispatcher(limits.clone());
    let (files, starts, rounds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut story = Story { limits, files, kept, dispatcher, starts, rounds, born: 0, text: String::new() };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        story.line(line);
    }
    story.text
}

impl Story {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["limits", rest @ ..] => {
                self.limits = limits(rest);
                self.dispatcher = self.kept.dispatcher(self.limits.clone());
            }
            ["loop", name, rest @ ..] => {
                let entry = entry(name, rest);
                self.files.insert(entry.key.clone(), entry);
            }
            ["gone", name] => {
                self.files.remove(&key(name));
            }
            [at, rest @ ..] => {
                let _ = writeln!(self.text, "{line}");
                self.happens(moment(at), rest);
            }
            [] => {}
        }
    }

    fn happens(&mut self, now: i64, words: &[&str]) {
        match words {
            ["crash"] => {
                self.dispatcher = self.kept.dispatcher(self.limits.clone());
                self.starts.clear();
                let resumed: Vec<_> = self.rounds.clone().into_iter().collect();
                for (key, round) in resumed {
                    self.step(now, DispatchInput::Occupied { key, round, items: Vec::new() });
                }
            }
            ["why", name] => {
                let why = self.dispatcher.explain(&key(name), now);
                let _ = writeln!(self.text, "      {} [{}]", times(&why.text()), status_word(&why));
                if let Some(change) = why.remedy(name) {
                    let _ = writeln!(self.text, "      → {change}");
                }
            }
            ["until"] => {
                while let Some(next) = self.dispatcher.next_wake().filter(|next| *next <= now) {
                    self.step(next, DispatchInput::Wake);
                }
            }
            words => {
                let input = self.input(now, words);
                self.step(now, input);
            }
        }
    }

    /// Long because it is one table: a line of a story to its input.
    fn input(&mut self, now: i64, words: &[&str]) -> DispatchInput {
        let text = |words: &[&str]| words.join(" ");
        match words {
            ["load"] => DispatchInput::Loops(self.files.values().cloned().collect()),
            ["wake"] => DispatchInput::Wake,
            ["limits", rest @ ..] => {
                self.limits = limits(rest);
                DispatchInput::Limits(self.limits.clone())
            }
            ["started", name] => self.birth(&key(name)),
            ["failed", name, rest @ ..] => {
                let ticket = self.starts.remove(&key(name)).expect("a start").ticket;
                let retry = value(rest, "retry").map(moment);
                DispatchInput::StartFailed { ticket, why: "no agent".to_owned(), retry_ms: retry }
            }
            ["nowork", name] => {
                DispatchInput::NoWork { ticket: self.starts.remove(&key(name)).expect("a start").ticket }
            }
            ["end", name, outcome, rest @ ..] => {
                let outcome = RoundOutcome::parse(outcome).expect("an outcome");
                let end = RoundEnd {
                    outcome,
                    signature: value(rest, "sig").map(str::to_owned),
                    retry_at_ms: value(rest, "retry").map(moment),
                    open_proposals: value(rest, "open").map_or(0, |open| open.parse().expect("a number")),
                };
                let round = self.rounds.remove(&key(name)).expect("a round");
                DispatchInput::Ended { key: key(name), round, end }
            }
            ["signal", name, occurrence, rest @ ..] => {
                let item = value(rest, "item").map(Into::into);
                let trigger = occurrence.split(':').next().expect("a word").into();
                let signal =
                    TriggerSignal { key: key(name), occurrence: (*occurrence).to_owned(), trigger, at_ms: now, item };
                assert!(self.kept.hear(&signal), "the store dedupes");
                DispatchInput::Signal(signal)
            }
            ["claim", name, items @ ..] => {
                let ticket = self.starts.get(&key(name)).expect("a start").ticket;
                DispatchInput::Claim { ticket, items: items.iter().map(|item| (*item).into()).collect() }
            }
            ["manual", name] => {
                self.born += 1;
                let round = format!("r{}", self.born);
                self.rounds.insert(key(name), round.clone());
                DispatchInput::Admitted { key: key(name), round, claims: self.dispatcher.claims(&key(name)) }
            }
            ["open", name, open] => DispatchInput::Proposals { key: key(name), open: open.parse().expect("a number") },
            ["pause", name, why @ ..] => DispatchInput::Pause { key: key(name), by: "ann".to_owned(), why: text(why) },
            ["resume", name] => DispatchInput::Resume { key: key(name) },
            ["freeze", why @ ..] => {
                self.kept.frozen = Some(FleetFreeze { since_ms: now, by: "ann".to_owned(), why: text(why) });
                DispatchInput::Freeze { by: "ann".to_owned(), why: text(why) }
            }
            ["thaw"] => {
                self.kept.frozen = None;
                DispatchInput::Thaw
            }
            ["drain"] => DispatchInput::Drain,
            other => panic!("what is {other:?}?"),
        }
    }

    fn birth(&mut self, key: &LoopKey) -> DispatchInput {
        let start = self.starts.remove(key).expect("a start");
        self.born += 1;
        let round = format!("r{}", self.born);
        if !self.kept.birth(&start, &round) {
            return DispatchInput::AlreadyReceipted { ticket: start.ticket };
        }
        self.rounds.insert(key.clone(), round.clone());
        DispatchInput::StartSucceeded { ticket: start.ticket, round }
    }

    fn step(&mut self, now: i64, input: DispatchInput) {
        self.kept.last_ms = self.kept.last_ms.max(now);
        let is_wake = matches!(input, DispatchInput::Wake);
        let commands = self.dispatcher.step(now, input);
        if is_wake && !commands.is_empty() {
            let _ = writeln!(self.text, "    at {}", time(now));
        }
        for command in commands {
            self.command(command);
        }
    }

    fn command(&mut self, command: DispatchCommand) {
        let line = match command {
            DispatchCommand::Persist { receipts, standings, taken } => {
                let lines: Vec<_> = receipts.iter().map(receipt).chain(standings.iter().map(standing)).collect();
                self.kept.keep(receipts, standings, &taken);
                lines.join("\n      ")
            }
            DispatchCommand::Start(start) => {
                let line = format!("START {}", receipt(&start.receipt));
                self.starts.insert(start.key.clone(), start);
                line
            }
            DispatchCommand::Granted { items, .. } => format!("GRANTED {}", items.join(" ")),
            DispatchCommand::Withheld { ticket } => {
                self.starts.retain(|_, start| start.ticket != ticket);
                "WITHHELD".to_owned()
            }
            DispatchCommand::Cancel { round, why, .. } => format!("CANCEL {round}: {why}"),
            DispatchCommand::AskPerson { key, why } => format!("ASK about {}: {why}", key.name),
            DispatchCommand::Note(notice) => format!("TELL {}", noticed(&notice)),
        };
        let _ = writeln!(self.text, "      {line}");
    }
}

fn receipt(receipt: &OccurrenceReceipt) -> String {
    let OccurrenceReceipt { key, occurrence, fate, reason, count, through_ms, .. } = receipt;
    let through = through_ms.map(|ms| format!(" to {} ({count})", time(ms))).unwrap_or_default();
    let what = if occurrence.starts_with("due:") { time(receipt.due_ms) } else { occurrence.clone() };
    format!("{} {what}{through} {fate}: {}", key.name, times(reason))
}

fn standing(standing: &LoopStanding) -> String {
    let LoopStanding { key, mark_ms, paused, streak, wait, .. } = standing;
    let paused = paused.as_ref().map(|paused| format!(", paused by {}", paused.by)).unwrap_or_default();
    let wait = wait.as_ref().map(|wait| format!(", waits until {}", time(wait.until_ms))).unwrap_or_default();
    let gone = if standing.fingerprint.is_empty() { ", given up" } else { "" };
    let streak = if *streak > 0 { format!(", {streak} failed") } else { String::new() };
    format!("{} mark {}{gone}{paused}{streak}{wait}", key.name, time(*mark_ms))
}

fn noticed(notice: &SchedulerNote) -> String {
    match notice {
        SchedulerNote::Gap { expected_ms, now_ms } => format!("gap from {} to {}", time(*expected_ms), time(*now_ms)),
        SchedulerNote::ClockBehind { now_ms, seen_ms } => {
            format!("clock at {} behind {}", time(*now_ms), time(*seen_ms))
        }
        SchedulerNote::ClockRight { now_ms } => format!("clock right at {}", time(*now_ms)),
        SchedulerNote::RateLimited { key, until_ms } => format!("{} limited until {}", key.name, time(*until_ms)),
        SchedulerNote::Stalled { key, round, .. } => format!("{} stalled in {round:?}", key.name),
    }
}

/// `HH:MM` of the first day, `3dHH:MM` of a later one; with seconds if they are not zero.
fn time(ms: i64) -> String {
    let ms = ms - BASE_MS;
    let (day, second) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS) / 1000);
    let clock = format!("{:02}:{:02}", second / 3600, second / 60 % 60);
    let seconds = if second % 60 == 0 { String::new() } else { format!(":{:02}", second % 60) };
    if day == 0 { clock + &seconds } else { format!("{day}d{clock}{seconds}") }
}

/// Replaces moments in a text by the notation of stories.
fn times(text: &str) -> String {
    let shown = |word: &str| {
        let end = word.find('Z').map_or(word.len(), |at| at + 1);
        let parsed = word[..end].parse::<jiff::Timestamp>().ok();
        parsed.map_or_else(|| word.to_owned(), |at| time(at.as_millisecond()) + &word[end..])
    };
    text.split(' ')
        .map(|word| word.strip_prefix('(').map_or_else(|| shown(word), |rest| format!("({}", shown(rest))))
        .collect::<Vec<_>>()
        .join(" ")
}

fn moment(text: &str) -> i64 {
    let (day, clock) = text.split_once('d').unwrap_or(("0", text));
    let (hour, minute) = clock.split_once(':').expect("HH:MM");
    let number = |text: &str| text.parse::<i64>().expect("a number");
    BASE_MS + number(day) * DAY_MS + (number(hour) * 60 + number(minute)) * 60_000
}

fn key(name: &str) -> LoopKey {
    let (repo, name) = name.split_once('/').unwrap_or(("r", name));
    LoopKey::new(repo, name)
}

fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn limits(words: &[&str]) -> ConcurrencyLimits {
    let number = |name| value(words, name).map_or(9, |text| text.parse().expect("a number"));
    let agent = value(words, "claude").map(|text| ("claude".into(), text.parse().expect("a number")));
    ConcurrencyLimits { total: number("total"), per_repo: number("repo"), per_agent: agent.into_iter().collect() }
}

fn entry(name: &str, words: &[&str]) -> LoopEntry {
    let key = key(name);
    let mut on = Triggers { timezone: Some("UTC".to_owned()), ..Triggers::default() };
    on.every.extend(value(words, "every").map(|span| TimeSpan::parse(span).expect("a span")));
    on.daily.extend(value(words, "daily").map(str::to_owned));
    on.quiet = value(words, "quiet").map(str::to_owned);
    on.until = value(words, "until").map(str::to_owned);
    on.jitter = value(words, "jitter").map(|span| TimeSpan::parse(span).expect("a span"));
    on.grace = value(words, "grace").map(|span| TimeSpan::parse(span).expect("a span"));
    let schedule = LoopSchedule::of(&on, &key.to_string(), "UTC").expect("a schedule");
    let mut entry = LoopEntry::new(key, schedule);
    entry.overlap = match value(words, "overlap") {
        Some("queue") => Overlap::Queue,
        Some("cancel") => Overlap::Cancel,
        _ => Overlap::Skip,
    };
    entry.catch_up = match value(words, "catch_up") {
        Some("skip") => CatchUp::Skip,
        Some(most) => CatchUp::All(most.parse().expect("a number")),
        None => CatchUp::Once,
    };
    entry.priority = value(words, "priority").map_or(0, |text| text.parse().expect("a number"));
    entry.agents.extend(value(words, "agent").map(Into::into));
    let locks = value(words, "locks").into_iter().flat_map(|names| names.split(','));
    let repo = entry.key.repo.clone();
    entry.locks.extend(locks.filter(|lock| *lock != OWN_ITEMS).map(|lock| RoundLock::from_text(&repo, lock)));
    if value(words, "locks").is_some_and(|locks| locks.split(',').any(|lock| lock == OWN_ITEMS)) {
        entry.item_locks = ItemLocks::Own;
    }
    entry.batch = value(words, "batch").map_or(1, |text| text.parse().expect("a number"));
    entry.events.extend(value(words, "hears").map(Into::into));
    entry.open_max = value(words, "open_max").map_or(3, |text| text.parse().expect("a number"));
    entry.wall_ms =
        value(words, "wall").map(|span| TimeSpan::parse(span).expect("a span").duration().as_millis() as i64);
    entry
}

/// The state of a loop as one word.
fn status_word(why: &LoopExplanation) -> &'static str {
    match why {
        LoopExplanation::Running { .. } => "running",
        LoopExplanation::Stopped { .. } | LoopExplanation::Draining => "stopped",
        LoopExplanation::Paused { .. } => "paused",
        LoopExplanation::Waiting { on: StartBlocker::Nothing, .. } => "due",
        LoopExplanation::Waiting { .. }
        | LoopExplanation::Quiet { .. }
        | LoopExplanation::OpenMax { .. }
        | LoopExplanation::ClockUntrusted { .. } => "waiting",
        LoopExplanation::BackingOff { .. } => "cooling-down",
        LoopExplanation::Unknown => "invalid",
        LoopExplanation::Next { .. }
        | LoopExplanation::Listening { .. }
        | LoopExplanation::Over
        | LoopExplanation::Manual => "idle",
    }
}

//! A simulated environment of the dispatcher: a clock that jumps, files that change, starts that hang, crashes between
//! any two commands, the rows of a store, and the rounds that really run.

use super::kept::Kept;
use super::oracle;
use loopwright_core::cadence::LoopSchedule;
use loopwright_core::dispatch::{
    ConcurrencyLimits, DispatchCommand, DispatchInput, Dispatcher, FleetFreeze, ItemLocks, LoopEntry, LoopExplanation,
    LoopKey, RoundEnd, RoundLock, RoundStart, TriggerSignal,
};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::spec::{CatchUp, Overlap, Triggers};
use loopwright_core::units::TimeSpan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) const MINUTE_MS: i64 = 60_000;
/// 2026-11-16T00:00Z.
pub(crate) const BASE_MS: i64 = 1_794_787_200_000;

/// A loop file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) every_m: i64,
    pub(crate) is_quiet: bool,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) priority: i64,
}

/// One event of a history.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Time passes, and the scheduler wakes.
    Wake(i64),
    /// The timer expires.
    Timer,
    /// The clock is set.
    Jump(i64),
    Commit(usize),
    Told(usize),
    Born(usize),
    Unborn(usize, Option<i64>),
    NoWork(usize),
    End(usize, RoundOutcome, u8),
    Signal(usize, Option<u8>),
    /// The probe of a start finds items.
    Claim(usize, Vec<u8>),
    Pause(usize),
    Resume(usize),
    Freeze,
    Thaw,
    Edit(usize, File),
    Remove(usize),
    Load,
    /// The configuration changes.
    Limits(ConcurrencyLimits),
    Hand(usize),
    Open(usize, u32),
    /// The process ends after this many commands of the next step, or at once.
    Crash(Option<usize>),
}

/// A pending start, and its round once the start is on record.
pub(crate) struct Flight {
    pub(crate) start: RoundStart,
    round: Option<String>,
    /// The items that its probe found and that it was granted.
    claimed: Vec<Arc<str>>,
}

impl Flight {
    fn items(&self) -> Vec<Arc<str>> {
        if self.claimed.is_empty() { self.start.items.clone() } else { self.claimed.clone() }
    }

    pub(crate) fn held(&self) -> Vec<String> {
        holds_with(&self.start.key, &self.items())
    }
}

/// An interval in which a loop had one cadence.
#[derive(Debug, Clone)]
pub(crate) struct Era {
    pub(crate) every_ms: i64,
    pub(crate) from_ms: i64,
}

/// The whole environment.
pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) seen: i64,
    pub(crate) limits: ConcurrencyLimits,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) kept: Kept,
    pub(crate) files: BTreeMap<LoopKey, File>,
    pub(crate) loaded: BTreeMap<LoopKey, File>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) rounds: BTreeMap<LoopKey, (String, Vec<String>)>,
    /// The items of the running rounds.
    about: BTreeMap<LoopKey, Vec<Arc<str>>>,
    pub(crate) eras: BTreeMap<LoopKey, Vec<Era>>,
    pub(crate) is_frozen: bool,
    pub(crate) paused: BTreeSet<LoopKey>,
    fingerprints: BTreeMap<String, i64>,
    number: u64,
    cut: Option<usize>,
}

/// All possible loops: two of each repository share a lock, one has two.
pub(crate) fn key(number: usize) -> LoopKey {
    let number = number % 6;
    LoopKey::new(["x", "y"][number % 2], ["a", "b", "c", "d", "e", "f"][number])
}

/// The resources that a round of the loop holds. They never change, so that a resumed round holds the same.
pub(crate) fn holds(key: &LoopKey) -> Vec<String> {
    let more: &[&str] = match &*key.name {
        "a" => &["lock:one", "lock:path:docs/"],
        "b" => &["lock:one", "lock:two"],
        "c" => &["lock:one", "lock:path:src/a.rs"],
        "d" => &["lock:two", "agent:claude", "lock:path:src/**/*.rs"],
        "e" => &["agent:claude", "lock:path:src"],
        _ => &["lock:path:docs/guide/*.md"],
    };
    let repo = format!("repo:{}", key.repo);
    std::iter::once(repo).chain(more.iter().map(|name| (*name).to_owned())).collect()
}

/// The same with the items of the round, if the loop locks them.
pub(crate) fn holds_with(key: &LoopKey, items: &[Arc<str>]) -> Vec<String> {
    let items = items.iter().filter(|_| locks_items(key)).map(|item| format!("lock:item:{}:{item}", key.repo));
    holds(key).into_iter().chain(items).collect()
}

/// Three loops do not work on the same item at once.
pub(crate) fn locks_items(key: &LoopKey) -> bool {
    matches!(&*key.name, "a" | "e" | "f")
}

/// Whether two held resources conflict. Paths conflict if they are equal or one is above the other.
pub(crate) fn meet(one: &str, other: &str) -> bool {
    let fixed = |text: &str| {
        let path = text.strip_prefix("lock:path:")?;
        let parts = path.split('/').filter(|part| !part.is_empty()).take_while(|part| !part.contains('*'));
        Some(parts.map(str::to_owned).collect::<Vec<_>>())
    };
    match (fixed(one), fixed(other)) {
        (Some(one), Some(other)) => one.iter().zip(&other).all(|(one, other)| one == other),
        _ => one == other,
    }
}

fn entry(key: &LoopKey, file: &File) -> LoopEntry {
    let span = TimeSpan::secs(u64::try_from(file.every_m).expect("a span") * 60);
    let quiet = file.is_quiet.then(|| "22:00-06:00".to_owned());
    let on = Triggers { every: vec![span], timezone: Some("UTC".to_owned()), quiet, ..Triggers::default() };
    let schedule = LoopSchedule::of(&on, &key.to_string(), "UTC").expect("a schedule");
    let mut entry = LoopEntry::new(key.clone(), schedule);
    (entry.overlap, entry.catch_up, entry.priority) = (file.overlap, file.catch_up, file.priority);
    entry.item_locks = if locks_items(key) { ItemLocks::Own } else { ItemLocks::None };
    entry.batch = if &*key.name == "e" { 2 } else { 1 };
    for held in holds(key) {
        match held.split_once(':').expect("a kind") {
            ("lock", name) => entry.locks.push(RoundLock::from_text("all", name)),
            ("agent", name) => entry.agents.push(name.into()),
            _ => {}
        }
    }
    entry
}

/// Whether the moment lies in the quiet hours of the loops that have some.
pub(crate) fn is_quiet_at(ms: i64) -> bool {
    let hour = ms.rem_euclid(86_400_000) / 3_600_000;
    !(6..22).contains(&hour)
}

impl World {
    pub(crate) fn new(limits: ConcurrencyLimits, files: Vec<(usize, File)>) -> Self {
        let kept = Kept::default();
        let dispatcher = kept.dispatcher(limits.clone());
        let mut world = Self {
            now: BASE_MS + 8 * 60 * MINUTE_MS,
            seen: 0,
            limits,
            dispatcher,
            kept,
            files: files.into_iter().map(|(number, file)| (key(number), file)).collect(),
            loaded: BTreeMap::new(),
            flights: Vec::new(),
            rounds: BTreeMap::new(),
            about: BTreeMap::new(),
            eras: BTreeMap::new(),
            is_frozen: false,
            paused: BTreeSet::new(),
            fingerprints: BTreeMap::new(),
            number: 0,
            cut: None,
        };
        world.load();
        world
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.now + 60 * MINUTE_MS < self.seen
    }

    pub(crate) fn perform(&mut self, op: Op) {
        // Long because it has an arm for every command.
        match op {
            Op::Wake(minutes) => {
                self.now += minutes * MINUTE_MS;
                self.step(DispatchInput::Wake);
            }
            Op::Timer => {
                if let Some(at) = self.dispatcher.next_wake() {
                    self.now = self.now.max(at);
                    self.step(DispatchInput::Wake);
                }
            }
            Op::Jump(minutes) => self.now += minutes * MINUTE_MS,
            Op::Commit(at) => self.commit(at),
            Op::Told(at) => self.report_start(at),
            Op::Born(at) => {
                self.commit(at);
                self.report_start(at);
            }
            Op::Unborn(at, retry) => {
                if let Some(ticket) = self.unanswered(at) {
                    let retry_ms = retry.map(|minutes| self.now + minutes * MINUTE_MS);
                    self.step(DispatchInput::StartFailed { ticket, why: "no agent".to_owned(), retry_ms });
                }
            }
            Op::NoWork(at) => {
                if let Some(ticket) = self.unanswered(at) {
                    self.step(DispatchInput::NoWork { ticket });
                }
            }
            Op::End(at, outcome, signature) => self.end(at, outcome, signature),
            Op::Signal(number, item) => self.signal(number, item),
            Op::Claim(at, items) => self.claim(at, &items),
            Op::Pause(number) => {
                if self.loaded.contains_key(&key(number)) {
                    self.paused.insert(key(number));
                    self.step(DispatchInput::Pause { key: key(number), by: "ann".to_owned(), why: "why".to_owned() });
                }
            }
            Op::Resume(number) => {
                self.paused.remove(&key(number));
                self.step(DispatchInput::Resume { key: key(number) });
            }
            Op::Freeze => self.freeze(),
            // Another test covers a clock that a person accepts.
            Op::Thaw if self.is_behind() => {}
            Op::Thaw => {
                self.kept.frozen = None;
                self.is_frozen = false;
                self.step(DispatchInput::Thaw);
            }
            Op::Edit(number, file) => {
                self.files.insert(key(number), file);
            }
            Op::Remove(number) => {
                self.files.remove(&key(number));
            }
            Op::Load => self.load(),
            Op::Limits(limits) => self.limit(limits),
            Op::Hand(number) => self.hand(&key(number)),
            Op::Open(number, open) => self.step(DispatchInput::Proposals { key: key(number), open }),
            Op::Crash(Some(cut)) => self.cut = Some(cut),
            Op::Crash(None) => self.crash(),
        }
    }

    fn freeze(&mut self) {
        self.kept.frozen = Some(FleetFreeze { since_ms: self.now, by: "ann".to_owned(), why: "why".to_owned() });
        self.is_frozen = true;
        self.step(DispatchInput::Freeze { by: "ann".to_owned(), why: "why".to_owned() });
    }

    fn limit(&mut self, limits: ConcurrencyLimits) {
        self.limits = limits.clone();
        self.step(DispatchInput::Limits(limits));
    }

    pub(crate) fn load(&mut self) {
        let entries: Vec<_> = self.files.iter().map(|(key, file)| entry(key, file)).collect();
        for entry in &entries {
            let every_ms = self.files[&entry.key].every_m * MINUTE_MS;
            self.fingerprints.insert(entry.schedule.fingerprint().to_owned(), every_ms);
        }
        self.loaded = self.files.clone();
        self.complete_locks();
        self.step(DispatchInput::Loops(entries));
    }

    /// A round whose loop is loaded again holds its locks again, except those taken meanwhile.
    fn complete_locks(&mut self) {
        for key in self.rounds.keys().filter(|key| self.files.contains_key(*key)).cloned().collect::<Vec<_>>() {
            let flying = self.flights.iter().map(|flight| (&flight.start.key, flight.held()));
            let running = self.rounds.iter().map(|(key, (_, held))| (key, held.clone()));
            let others: Vec<_> =
                running.chain(flying).filter(|(other, _)| **other != key).flat_map(|(_, held)| held).collect();
            let is_free = |need: &String| !need.starts_with("lock:") || !others.iter().any(|held| meet(held, need));
            let items = self.about.get(&key).cloned().unwrap_or_default();
            let held = holds_with(&key, &items).into_iter().filter(is_free).collect();
            self.rounds.get_mut(&key).expect("a round").1 = held;
        }
    }

    fn commit(&mut self, at: usize) {
        let Some(at) = self.pick(at, |flight| flight.round.is_none()) else { return };
        let round = self.name();
        if self.kept.birth(&self.flights[at].start, &round) {
            self.flights[at].round = Some(round);
        } else {
            let ticket = self.flights.remove(at).start.ticket;
            self.step(DispatchInput::AlreadyReceipted { ticket });
        }
    }

    fn report_start(&mut self, at: usize) {
        let Some(at) = self.pick(at, |flight| flight.round.is_some()) else { return };
        let Flight { start, round, claimed } = self.flights.remove(at);
        let round = round.expect("picked");
        let items = if claimed.is_empty() { start.items.clone() } else { claimed };
        self.rounds.insert(start.key.clone(), (round.clone(), holds_with(&start.key, &items)));
        self.about.insert(start.key.clone(), items);
        self.step(DispatchInput::StartSucceeded { ticket: start.ticket, round });
    }

    fn unanswered(&mut self, at: usize) -> Option<u64> {
        let at = self.pick(at, |flight| flight.round.is_none())?;
        Some(self.flights.remove(at).start.ticket)
    }

    fn pick(&self, at: usize, wanted: impl Fn(&Flight) -> bool) -> Option<usize> {
        let all: Vec<_> = (0..self.flights.len()).filter(|at| wanted(&self.flights[*at])).collect();
        (!all.is_empty()).then(|| all[at % all.len()])
    }

    fn end(&mut self, at: usize, outcome: RoundOutcome, signature: u8) {
        let keys: Vec<_> = self.rounds.keys().cloned().collect();
        let Some(key) = keys.get(at % keys.len().max(1)) else { return };
        let (round, _) = self.rounds.remove(key).expect("a round");
        let retry_at_ms = (outcome == RoundOutcome::RateLimited).then_some(self.now + 20 * MINUTE_MS);
        let signature = (signature > 0).then(|| format!("s{signature}"));
        let end = RoundEnd { outcome, signature, retry_at_ms, open_proposals: 0 };
        self.step(DispatchInput::Ended { key: key.clone(), round, end });
    }

    fn claim(&mut self, at: usize, items: &[u8]) {
        let claims =
            |flight: &Flight| flight.round.is_none() && flight.start.items.is_empty() && flight.claimed.is_empty();
        let Some(at) = self.pick(at, claims) else { return };
        let items = items.iter().map(|item| format!("i{item}").into()).collect();
        self.step(DispatchInput::Claim { ticket: self.flights[at].start.ticket, items });
    }

    fn signal(&mut self, number: usize, item: Option<u8>) {
        let occurrence = self.name();
        let item = item.map(|item| format!("i{item}").into());
        let signal = TriggerSignal { key: key(number), occurrence, trigger: "push".into(), at_ms: self.now, item };
        self.kept.hear(&signal);
        self.step(DispatchInput::Signal(signal));
    }

    fn hand(&mut self, key: &LoopKey) {
        let claims = self.dispatcher.claims(key);
        if self.loaded.contains_key(key) && self.dispatcher.manual_start_blocker(key, &claims, self.now).is_none() {
            assert!(!self.is_taken(key), "{key} may be started manually beside its own round");
            let round = self.name();
            self.rounds.insert(key.clone(), (round.clone(), holds(key)));
            self.about.remove(key);
            self.step(DispatchInput::Admitted { key: key.clone(), round, claims });
        }
    }

    /// Rows on record survive; decisions that were not written are lost.
    fn crash(&mut self) {
        self.cut = None;
        for flight in std::mem::take(&mut self.flights) {
            if let Some(round) = flight.round.clone() {
                self.rounds.insert(flight.start.key.clone(), (round, flight.held()));
                self.about.insert(flight.start.key.clone(), flight.items());
            }
        }
        // The locks of a loop that is no longer known are not held.
        for (key, (_, held)) in &mut self.rounds {
            if !self.files.contains_key(key) {
                *held = vec![format!("repo:{}", key.repo)];
            }
        }
        self.paused =
            self.kept.standings.values().filter(|row| row.paused.is_some()).map(|row| row.key.clone()).collect();
        self.dispatcher = self.kept.dispatcher(self.limits.clone());
        self.loaded.clear();
        for (key, (round, _)) in self.rounds.clone() {
            let items = self.about.get(&key).cloned().unwrap_or_default();
            self.step(DispatchInput::Occupied { key, round, items });
        }
        self.load();
    }

    pub(crate) fn is_taken(&self, key: &LoopKey) -> bool {
        self.rounds.contains_key(key) || self.flights.iter().any(|flight| flight.start.key == *key)
    }

    pub(crate) fn why(&self, key: &LoopKey) -> LoopExplanation {
        self.dispatcher.explain(key, self.now)
    }

    fn name(&mut self) -> String {
        self.number += 1;
        format!("n{}", self.number)
    }

    pub(crate) fn step(&mut self, input: DispatchInput) {
        let before = oracle::waiting(self);
        self.kept.last_ms = self.kept.last_ms.max(self.now);
        self.seen = self.seen.max(self.now);
        let commands = self.dispatcher.step(self.now, input);
        let cut = self.cut.take();
        let mut started = Vec::new();
        for command in commands.into_iter().take(cut.unwrap_or(usize::MAX)) {
            self.obey(command, &mut started);
        }
        if cut.is_some() {
            return self.crash();
        }
        oracle::check(self, &before, &started);
    }

    fn obey(&mut self, command: DispatchCommand, started: &mut Vec<RoundStart>) {
        match command {
            DispatchCommand::Persist { receipts, standings, taken } => {
                for standing in &standings {
                    self.note_era(&standing.key, &standing.fingerprint, standing.mark_ms);
                    if standing.paused.is_some() {
                        self.paused.insert(standing.key.clone());
                    }
                }
                self.kept.keep(receipts, standings, &taken);
            }
            DispatchCommand::Start(start) => {
                oracle::check_start(self, &start);
                started.push(start.clone());
                self.flights.push(Flight { start, round: None, claimed: Vec::new() });
            }
            DispatchCommand::Granted { ticket, items } => {
                oracle::check_grant(self, ticket, &items);
                let flight = self.flights.iter_mut().find(|flight| flight.start.ticket == ticket);
                flight.expect("a start that claims").claimed = items;
            }
            DispatchCommand::Withheld { ticket } => self.flights.retain(|flight| flight.start.ticket != ticket),
            DispatchCommand::Cancel { .. } | DispatchCommand::AskPerson { .. } | DispatchCommand::Note(_) => {}
        }
    }

    /// A cadence begins when it is first stored, at the latest moment recorded so far.
    fn note_era(&mut self, key: &LoopKey, fingerprint: &str, mark_ms: i64) {
        let known = self.kept.standings.get(key);
        if known.is_some_and(|row| row.fingerprint == fingerprint) {
            return;
        }
        let Some(every_ms) = self.fingerprints.get(fingerprint).copied() else {
            assert!(fingerprint.is_empty() && !self.loaded.contains_key(key), "{key} was given up, but is there");
            return;
        };
        assert_eq!(
            mark_ms,
            self.seen.max(known.map_or(0, |row| row.mark_ms)),
            "{key} begins at another moment than now"
        );
        self.eras.entry(key.clone()).or_default().push(Era { every_ms, from_ms: mark_ms });
    }
}

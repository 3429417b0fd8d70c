//! The state of all loops: loop files joined with the store's counters and open rounds. The cost does not grow with
//! history: two or three indexed reads.

use super::find::unknown_loop;
use super::repo_view::{RepoView, describe_cadence};
use super::time::{self, Moment, timestamp};
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use loopwright::autonomy::StandingRows;
use loopwright::clock;
use loopwright::daemon::STOP_FLAG;
use loopwright::store::{LeaseHolder, LoopRow, RoundRow, ScheduleRow, SpendChange};
use loopwright_core::autonomy::{LevelCeiling, LoopDebts};
use loopwright_core::cadence::LoopSchedule;
use loopwright_core::round::RoundPhase;
use loopwright_core::spec::SandboxMode;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The document of `status --json`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusView {
    schema: u32,
    /// The process that starts loops on their own, if one runs.
    pub(crate) daemon: Option<DaemonLine>,
    /// The reason if everything is stopped; documents have it in each line's reason.
    #[serde(skip)]
    pub(crate) stopped: Option<String>,
    /// The loops by name.
    pub(crate) loops: Vec<LoopLine>,
}

/// The daemon.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DaemonLine {
    pub(crate) pid: i32,
    pub(crate) since: Option<Moment>,
}

/// One loop.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoopLine {
    #[serde(rename = "loop")]
    pub(crate) name: String,
    pub(crate) repo: Option<String>,
    pub(crate) cadence: Option<String>,
    pub(crate) level: Option<String>,
    /// Whether the loop asks for the boundary; `None` if its file is not available.
    #[serde(skip)]
    pub(crate) sandbox: Option<SandboxMode>,
    pub(crate) status: LoopStatus,
    pub(crate) last_run: Option<Moment>,
    pub(crate) next: Option<Moment>,
    pub(crate) runs: i64,
    pub(crate) success_rate: Option<f64>,
    pub(crate) items: i64,
    pub(crate) avg_duration_s: Option<f64>,
    pub(crate) failures: i64,
    pub(crate) spend: DaySpend,
    pub(crate) waiting: usize,
    pub(crate) paused_reason: Option<String>,
    /// The highest level at which it may run, if that is below the level in its file.
    pub(crate) ceiling: Option<LevelCeiling>,
    /// Its debts; `None` if its file is not available.
    pub(crate) debts: Option<LoopDebts>,
    /// Whether the list has loops of several repositories.
    #[serde(skip)]
    pub(crate) is_one_of_many: bool,
}

/// The loop's spend today.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DaySpend {
    pub(crate) day: String,
    pub(crate) tokens: i64,
    pub(crate) usd: f64,
}

/// The state of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoopStatus {
    /// No round is running.
    Idle,
    /// A round is running.
    Running,
    /// A round waits for a person.
    Waiting,
    /// It is due, and was not started yet.
    Due,
    /// It does not start on its own, because a person paused it or the same failure occurred too often.
    Paused,
    /// It waits after a failure.
    CoolingDown,
    /// Everything is stopped; or a round was running when its process ended.
    Stopped,
    /// The loop file has problems.
    Invalid,
}

impl LoopStatus {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Due => "due",
            Self::Paused => "paused",
            Self::CoolingDown => "cooling-down",
            Self::Stopped => "stopped",
            Self::Invalid => "invalid",
        }
    }
}

type Key = (String, String);

/// The store's data of all loops.
#[derive(Default)]
struct StoreSnapshot {
    counters: HashMap<Key, LoopRow>,
    open: HashMap<Key, Vec<RoundRow>>,
    spends: HashMap<Key, SpendChange>,
    schedules: HashMap<Key, ScheduleRow>,
    stopped: Option<String>,
    day: String,
    now: i64,
    /// Rounds that a process is running.
    at_work: HashSet<String>,
    /// Levels and debts.
    standing: StandingRows,
}

impl StoreSnapshot {
    /// `stop_file` is the text of the file that stops everything; the store's own reason comes first.
    async fn read(store: Option<&Store>, now: i64, stop_file: Option<String>) -> Result<Self, CommandError> {
        let stopped = stop_file.map(|why| format!("by the file STOP: {why}"));
        let mut known = Self { day: clock::day(now), now, stopped, ..Self::default() };
        let Some(store) = store else { return Ok(known) };
        known.counters = store.loops().await?.into_iter().map(|row| (key(&row.repo, &row.loop_name), row)).collect();
        for row in store.open_rounds().await? {
            known.open.entry(key(&row.repo, &row.loop_name)).or_default().push(row);
        }
        known.schedules =
            store.schedules().await?.into_iter().map(|row| (key(&row.repo, &row.loop_name), row)).collect();
        known.stopped = stop_reason(store).await?.or(known.stopped);
        known.standing = StandingRows::read(store).await?;
        let spends = store.spends(&known.day).await?;
        known.spends = spends.into_iter().map(|row| (key(&row.repo, &row.loop_name), row)).collect();
        if known.open.values().flatten().any(|row| !row.phase.is_at_rest()) {
            let leases = store.leases().await?.into_iter().filter(|lease| lease.holder != LeaseHolder::Gone);
            known.at_work = leases.map(|lease| lease.name).collect();
        }
        Ok(known)
    }

    fn line(&self, repo: &str, name: &str) -> LoopLine {
        let at = key(repo, name);
        let open = self.open.get(&at).map(Vec::as_slice).unwrap_or_default();
        let waiting = open.iter().filter(|row| row.phase == RoundPhase::Waiting).count();
        let counters = self.counters.get(&at);
        let ended = counters.map_or(0, |row| row.runs);
        let last_open = open.iter().map(|row| row.started_ms).max();
        let suspended = open.iter().rfind(|row| row.phase == RoundPhase::Suspended);
        let (status, reason) = self.standing(&at, open, waiting);
        LoopLine {
            name: name.to_owned(),
            repo: Some(repo.to_owned()),
            cadence: None,
            level: open.last().map(|row| row.level.clone()),
            sandbox: None,
            status,
            last_run: counters.and_then(|row| row.last_run_ms).max(last_open).map(Moment),
            next: None,
            // A waiting round has run; whether it was a success is not known yet.
            runs: ended + i64::try_from(waiting).unwrap_or(i64::MAX),
            success_rate: counters.filter(|_| ended > 0).map(|row| row.successes as f64 / ended as f64),
            items: counters.map_or(0, |row| row.items),
            avg_duration_s: counters.filter(|_| ended > 0).map(|row| row.duration_ms as f64 / ended as f64 / 1000.0),
            failures: counters.map_or(0, |row| row.failures),
            spend: self.spend(&at),
            waiting,
            paused_reason: reason.or_else(|| suspended.map(kept_text)),
            ceiling: None,
            debts: None,
            is_one_of_many: false,
        }
    }

    /// The state of a loop and its reason, without its file: running rounds first, then reasons not to start.
    fn standing(&self, at: &Key, open: &[RoundRow], waiting: usize) -> (LoopStatus, Option<String>) {
        let status = self.status(open, waiting);
        if status == LoopStatus::Running {
            return (status, None);
        }
        if status == LoopStatus::Stopped {
            return (status, Some(STOPPED.to_owned()));
        }
        if let Some(why) = &self.stopped {
            return (LoopStatus::Stopped, Some(format!("everything is stopped {why}")));
        }
        let Some(row) = self.schedules.get(at) else { return (status, None) };
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        if let Some(since) = row.paused_ms {
            let why =
                format!("paused since {} by {}: {}", timestamp(since), said(&row.paused_by), said(&row.paused_why));
            return (LoopStatus::Paused, Some(why));
        }
        match row.wait_until_ms.filter(|until| *until > self.now) {
            Some(until) if status == LoopStatus::Idle => {
                (LoopStatus::CoolingDown, Some(format!("waits until {}: {}", timestamp(until), said(&row.wait_why))))
            }
            _ => (status, None),
        }
    }

    /// Adds the times from the loop's file.
    fn time(&self, line: &mut LoopLine, schedule: &LoopSchedule, at: &Key) {
        let row = self.schedules.get(at);
        // No start follows on its own, even while one of its rounds runs.
        if self.stopped.is_some()
            || row.is_some_and(|row| row.paused_ms.is_some())
            || line.status == LoopStatus::Stopped
        {
            return;
        }
        let is_same = |row: &&ScheduleRow| row.fingerprint == schedule.fingerprint();
        let is_due = |row: &ScheduleRow| schedule.next_after(row.mark_ms).is_some_and(|due| due.start_ms <= self.now);
        if line.status == LoopStatus::Idle && row.filter(is_same).is_some_and(is_due) {
            line.status = LoopStatus::Due;
        }
        // A wait outlives an edited cadence.
        let wait_ms = row.and_then(|row| row.wait_until_ms).unwrap_or(0);
        line.next = next_start(schedule, wait_ms.max(self.now.saturating_add(1))).map(Moment);
    }

    fn status(&self, open: &[RoundRow], waiting: usize) -> LoopStatus {
        let suspended = open.iter().filter(|row| row.phase == RoundPhase::Suspended).count();
        match (open.len() - waiting - suspended, waiting) {
            (0, 0) => LoopStatus::Idle,
            (0, _) => LoopStatus::Waiting,
            _ if open.iter().any(|row| self.at_work.contains(&row.id)) => LoopStatus::Running,
            _ => LoopStatus::Stopped,
        }
    }

    fn spend(&self, at: &Key) -> DaySpend {
        let spent = self.spends.get(at);
        DaySpend {
            day: self.day.clone(),
            tokens: spent.map_or(0, |row| row.settled_tokens),
            usd: spent.map_or(0.0, |row| row.settled_micros as f64 / 1.0e6),
        }
    }
}

/// Why everything is stopped, if the store says so.
pub(crate) async fn stop_reason(store: &Store) -> Result<Option<String>, CommandError> {
    let flag = store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
    Ok(flag.map(|flag| format!("since {} by {}: {}", timestamp(flag.at_ms), flag.actor, flag.why)))
}

/// The first start at or after a moment that is not skipped for quiet hours.
fn next_start(schedule: &LoopSchedule, from_ms: i64) -> Option<i64> {
    /// The search ends here if quiet hours cover every occurrence.
    const TRIES: usize = 400;
    // The delay between due time and start is the same each time.
    let jitter_ms = schedule.next_after(i64::MIN).map_or(0, |due| due.start_ms - due.at_ms);
    let before = |start_ms: i64| start_ms.saturating_sub(jitter_ms).saturating_sub(1);
    let mut after = before(from_ms);
    for _ in 0..TRIES {
        let due = schedule.next_after(after)?;
        match schedule.quiet_until(due.start_ms) {
            None => return Some(due.start_ms),
            Some(end) => after = before(end).max(due.at_ms),
        }
    }
    None
}

fn kept_text(row: &RoundRow) -> String {
    let outcome = row.standing();
    format!("round {} is suspended ({outcome}) with its work saved: loopwright retry {}", row.id, row.id)
}

const STOPPED: &str = "the process that ran it is gone; the next command that changes something recovers the round";

fn key(repo: &str, name: &str) -> Key {
    (repo.to_owned(), name.to_owned())
}

impl StatusView {
    /// Reads the state. In a repository with loops it has these loops, elsewhere all loops of the store.
    pub(crate) async fn read(store: Option<&Store>, here: Option<&RepoView>, now: i64) -> Result<Self, CommandError> {
        let known = StoreSnapshot::read(store, now, here.and_then(|here| here.stop.clone())).await?;
        let loops = match here.filter(|here| here.has_loops()) {
            Some(here) => of_repo(&known, here),
            None => everywhere(&known),
        };
        Ok(Self::sorted(known, loops))
    }

    /// As `read`, for all repositories that a daemon would manage, and every other one in the store.
    pub(crate) async fn read_fleet(
        store: Option<&Store>,
        fleet: &[RepoView],
        stop_file: Option<String>,
        now: i64,
    ) -> Result<Self, CommandError> {
        let known = StoreSnapshot::read(store, now, stop_file).await?;
        let mut loops: Vec<_> = fleet.iter().flat_map(|here| of_repo(&known, here)).collect();
        let named: HashSet<_> = loops.iter().map(|line| (line.repo.clone(), line.name.clone())).collect();
        let others = everywhere(&known).into_iter();
        loops.extend(others.filter(|line| !named.contains(&(line.repo.clone(), line.name.clone()))));
        let repos: BTreeSet<_> = loops.iter().map(|line| line.repo.clone()).collect();
        loops.iter_mut().for_each(|line| line.is_one_of_many = repos.len() > 1);
        Ok(Self::sorted(known, loops))
    }

    fn sorted(known: StoreSnapshot, mut loops: Vec<LoopLine>) -> Self {
        loops.sort_by(|a, b| (&a.name, &a.repo).cmp(&(&b.name, &b.repo)));
        Self { schema: SCHEMA, daemon: None, stopped: known.stopped, loops }
    }

    /// The table for people, in parts if it is wider than `width`.
    pub(crate) fn render(&self, now: i64, width: usize) -> String {
        TextTable::new(COLUMNS, self.loops.iter().map(|line| line.cells(now))).render_within(width)
    }
}

const COLUMNS: [&str; 12] = [
    "LOOP", "CADENCE", "STATUS", "LAST RUN", "RUNS", "SUCCESS%", "ITEMS", "AVG DUR", "FAILURES", "LEVEL", "NEXT",
    "SPEND",
];

impl LoopLine {
    /// The level, and whether the loop runs without the sandbox.
    pub(crate) fn level_text(&self) -> String {
        let level = self.level.clone().unwrap_or_else(|| NOTHING.to_owned());
        let level = self.ceiling.as_ref().map_or(level.clone(), |lower| format!("{} of {level}", lower.level.short()));
        if self.sandbox == Some(SandboxMode::Off) { format!("{level}, sandbox off") } else { level }
    }

    /// Its name, with the repository's if that distinguishes it from another.
    fn title(&self) -> String {
        let place = self.repo.as_deref().filter(|_| self.is_one_of_many);
        // The suffix that distinguishes repositories of one name is only for programs.
        let place = place.map(|repo| repo.rsplit_once('-').map_or(repo, |(place, _)| place));
        place.map_or_else(|| self.name.clone(), |place| format!("{place}/{}", self.name))
    }

    fn cells(&self, now: i64) -> [String; 12] {
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        [
            self.title(),
            or_nothing(self.cadence.clone()),
            self.status.word().to_owned(),
            or_nothing(self.last_run.map(|at| time::time_since(at.0, now))),
            self.runs.to_string(),
            or_nothing(self.success_rate.map(|rate| format!("{:.0}%", rate * 100.0))),
            self.items.to_string(),
            or_nothing(self.avg_duration_s.map(|seconds| time::duration_text((seconds * 1000.0) as i64))),
            self.failures.to_string(),
            self.level_text(),
            or_nothing(self.next.map(|at| time::time_until(at.0, now))),
            format!("${:.2}", self.spend.usd),
        ]
    }
}

fn of_repo(known: &StoreSnapshot, here: &RepoView) -> Vec<LoopLine> {
    let repo = &here.repo.id;
    let mut lines: Vec<_> = here
        .loops
        .loops
        .iter()
        .map(|file| {
            let mut line = known.line(repo, &file.spec.name);
            line.cadence = Some(describe_cadence(&file.spec.on));
            line.level = Some(file.spec.level.short().to_owned());
            line.sandbox = Some(file.spec.sandbox);
            let (spec, hash) = (file.spec.spec(), here.run_hash(&file.spec.name));
            line.ceiling = known.standing.ceiling(repo, spec, hash, here.rules);
            line.debts = Some(known.standing.debts(repo, spec));
            let at = key(repo, &file.spec.name);
            if let Ok(schedule) = LoopSchedule::of(&file.spec.on, &format!("{repo}/{}", file.spec.name), &here.zone) {
                known.time(&mut line, &schedule, &at);
            }
            line
        })
        .collect();
    for (name, problem) in here.invalid() {
        let mut line = known.line(repo, &name);
        line.status = LoopStatus::Invalid;
        line.paused_reason = Some(problem);
        lines.push(line);
    }
    // A loop whose file is gone is still shown while it waits for a person.
    let gone = known.open.keys().filter(|(of, name)| of == repo && !lines.iter().any(|line| line.name == *name));
    let gone: Vec<_> = gone.map(|(of, name)| known.line(of, name)).collect();
    lines.extend(gone);
    lines
}

fn everywhere(known: &StoreSnapshot) -> Vec<LoopLine> {
    let keys: BTreeSet<_> = known.counters.keys().chain(known.open.keys()).collect();
    keys.into_iter().map(|(repo, name)| known.line(repo, name)).collect()
}

/// One loop by its name. Also finds a loop of another repository, if no loop here has the name.
pub(crate) async fn find_loop_line(
    store: Option<&Store>,
    here: Option<&RepoView>,
    name: &str,
    now: i64,
) -> Result<LoopLine, CommandError> {
    let named = |status: StatusView| status.loops.into_iter().find(|line| line.name == name);
    let found = match named(StatusView::read(store, here, now).await?) {
        Some(line) => Some(line),
        None => named(StatusView::read(store, None, now).await?),
    };
    found.ok_or_else(|| unknown_loop(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::spec::Triggers;
    use loopwright_core::units::TimeSpan;

    #[test]
    fn a_narrow_terminal_gets_every_column_in_parts() {
        let line = StoreSnapshot::default().line("repo", "dependency-sweeper");
        let status = StatusView { schema: SCHEMA, daemon: None, stopped: None, loops: vec![line] };
        assert_eq!(status.render(0, usize::MAX).lines().count(), 2);
        for width in [80, 60, 40] {
            let narrow = status.render(0, width);
            assert!(narrow.lines().all(|line| line.chars().count() <= width), "{narrow}");
            for heading in COLUMNS {
                assert!(narrow.contains(heading), "{heading}");
            }
        }
        assert_eq!(status.render(0, 80).matches("dependency-sweeper").count(), 2);
    }

    fn every(key: &str, span: &str, edit: impl FnOnce(&mut Triggers)) -> LoopSchedule {
        let every = TimeSpan::parse(span).into_iter().collect();
        let mut on = Triggers { every, timezone: Some("UTC".to_owned()), ..Triggers::default() };
        edit(&mut on);
        LoopSchedule::of(&on, key, "UTC").expect("a schedule")
    }

    /// NEXT of a loop with this row, in minutes after 1970 began; it is ten past midnight.
    fn next(
        schedule: &LoopSchedule,
        status: LoopStatus,
        edit: impl FnOnce(&mut ScheduleRow, &mut StoreSnapshot),
    ) -> Option<i64> {
        let mut known = StoreSnapshot { now: 10 * MINUTE, ..StoreSnapshot::default() };
        let mut row = ScheduleRow {
            repo: "repo".to_owned(),
            loop_name: "fix".to_owned(),
            fingerprint: "of an older cadence".to_owned(),
            mark_ms: 0,
            paused_ms: None,
            paused_by: None,
            paused_why: None,
            streak: 0,
            signature: None,
            wait_until_ms: None,
            wait_why: None,
        };
        edit(&mut row, &mut known);
        known.schedules.insert(key("repo", "fix"), row);
        let mut line = LoopLine { status, ..known.line("repo", "fix") };
        known.time(&mut line, schedule, &key("repo", "fix"));
        line.next.map(|at| at.0 / MINUTE)
    }

    const MINUTE: i64 = 60_000;

    #[test]
    fn next_is_a_moment_at_which_the_loop_really_starts() {
        let hourly = every("repo/fix", "1h", |_| ());
        let wait = |minutes: i64| {
            move |row: &mut ScheduleRow, _: &mut StoreSnapshot| row.wait_until_ms = Some(minutes * MINUTE)
        };
        assert_eq!(next(&hourly, LoopStatus::Idle, |_, _| ()), Some(60));
        assert_eq!(next(&hourly, LoopStatus::Idle, wait(5)), Some(60), "that is over");
        assert_eq!(next(&hourly, LoopStatus::CoolingDown, wait(60)), Some(60), "just when the wait ends");
        assert_eq!(next(&hourly, LoopStatus::CoolingDown, wait(61)), Some(120), "what comes before is skipped");
        assert_eq!(next(&hourly, LoopStatus::Waiting, wait(61)), Some(120));
        for status in [LoopStatus::Paused, LoopStatus::Running] {
            assert_eq!(next(&hourly, status, |row, _| row.paused_ms = Some(1)), None, "{status:?}");
            assert_eq!(
                next(&hourly, status, |_, known| known.stopped = Some("a flood".to_owned())),
                None,
                "{status:?}"
            );
        }
        let later = |number: u32| every(&format!("repo/{number}"), "1h", |on| on.jitter = TimeSpan::parse("30m"));
        let jitter = |later: &LoopSchedule| later.next_after(0).map_or(0, |due| (due.start_ms - due.at_ms) / MINUTE);
        let later = (0..).map(later).find(|later| jitter(later) > 10).expect("most of them are");
        assert_eq!(next(&later, LoopStatus::Idle, |_, _| ()), Some(jitter(&later)), "due at midnight, not started yet");
    }

    #[test]
    fn a_round_whose_process_is_gone_is_stopped_not_running() {
        let row = |phase: RoundPhase| RoundRow {
            id: "r1".into(),
            loop_name: "fix".into(),
            repo: "repo".into(),
            repo_path: "/r".into(),
            occurrence: "manual:r1".into(),
            trigger: "manual".into(),
            item: None,
            level: "L2".into(),
            phase,
            outcome: None,
            started_ms: 1,
            ended_ms: None,
            attempts: 1,
            base: None,
            tree: None,
            candidate: None,
            spec_hash: String::new(),
            summary: String::new(),
            report: None,
            spend_tokens: 0,
            spend_micros: 0,
            cookie: None,
        };
        let known = |is_at_work: bool| {
            let at_work = is_at_work.then(|| "r1".to_owned()).into_iter().collect();
            StoreSnapshot { at_work, ..StoreSnapshot::default() }
        };
        assert_eq!(
            known(true).status(&[row(RoundPhase::At(loopwright_core::round::Stage::Make))], 0),
            LoopStatus::Running
        );
        assert_eq!(
            known(false).status(&[row(RoundPhase::At(loopwright_core::round::Stage::Make))], 0),
            LoopStatus::Stopped
        );
        assert_eq!(known(false).status(&[row(RoundPhase::Waiting)], 1), LoopStatus::Waiting);
        assert_eq!(known(false).status(&[], 0), LoopStatus::Idle);
    }
}

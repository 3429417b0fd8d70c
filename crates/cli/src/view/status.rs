//! The state of all loops: loop files joined with the store's counters and open rounds. The cost does not grow with
//! history: two or three indexed reads.

use super::find::unknown_loop;
use super::last_action::RunningLine;
use super::list_page::{ListPage, ListWindow};
use super::problems::{self, LastTrouble, ProblemGroup};
use super::repo_names::RepoNames;
use super::repo_view::{RepoView, describe_cadence};
use super::standing::{ABANDONED, LeasedRounds};
use super::time::{self, Moment, date_and_time};
use super::workflows::WorkflowLine;
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use crate::output::{CommandOutput, TextStyle};
use clap::ValueEnum as _;
use loopwright::autonomy::StandingRows;
use loopwright::daemon::STOP_FLAG;
use loopwright::store::{LoopRow, LoopSpend, RoundRow, ScheduleRow};
use loopwright_core::autonomy::{LevelCeiling, LoopDebts};
use loopwright_core::cadence::{DayZone, LoopSchedule};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use loopwright_core::spec::SandboxMode;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The length of a day.
const DAY_MS: i64 = 86_400_000;

/// The document of `status --json`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusView {
    schema: u32,
    /// The process that starts loops on their own, if one runs.
    pub(crate) daemon: Option<DaemonLine>,
    /// The reason if everything is stopped.
    pub(crate) stopped: Option<String>,
    /// The number of loops in each state, whatever the page shows.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// The spend of all loops today.
    pub(crate) spend: DaySpend,
    /// The problems of all loops.
    pub(crate) problems: Vec<ProblemGroup>,
    pub(crate) page: ListPage,
    /// The loops of the page.
    pub(crate) loops: Vec<LoopLine>,
    /// The workflows that have not ended.
    pub(crate) workflows: Vec<WorkflowLine>,
    /// The rounds that a process runs now; `rounds --json` has them for programs.
    #[serde(skip)]
    pub(crate) running: Vec<RunningLine>,
}

/// The loops that a list has, and their order.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LoopFilter {
    /// List only the loops whose name or repository has this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    // Not `--state`: that is the state directory, also before the verb.
    /// List only the loops in this state
    #[arg(long, value_enum, value_name = "STATE")]
    only: Option<LoopStatus>,
    /// The order of the list
    #[arg(long, value_enum, default_value_t = LoopOrder::Name)]
    sort: LoopOrder,
    #[command(flatten)]
    window: ListWindow,
}

/// The order of a list of loops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum LoopOrder {
    /// By name
    #[default]
    Name,
    /// The last run first
    Last,
    /// The next run first
    Next,
    /// The largest spend of today first
    Spend,
}

impl LoopFilter {
    /// Keeps the wanted part of the loops.
    fn apply(&self, loops: &mut Vec<LoopLine>) -> ListPage {
        let wanted = self.search.as_deref().unwrap_or_default().to_lowercase();
        let has_text = |line: &LoopLine| {
            let repo = line.repo.as_deref().unwrap_or_default();
            line.name.to_lowercase().contains(&wanted) || repo.to_lowercase().contains(&wanted)
        };
        loops.retain(|line| has_text(line) && self.only.is_none_or(|state| line.status == state));
        let ms = |at: Option<Moment>| at.map(|at| at.0);
        match self.sort {
            LoopOrder::Name => {}
            LoopOrder::Last => loops.sort_by_key(|line| Reverse(ms(line.last_run))),
            LoopOrder::Next => loops.sort_by_key(|line| (line.next.is_none(), ms(line.next))),
            LoopOrder::Spend => loops.sort_by(|a, b| b.spend.usd.total_cmp(&a.spend.usd)),
        }
        self.window.cut(loops)
    }
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
}

/// The loop's spend today.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DaySpend {
    pub(crate) day: String,
    pub(crate) tokens: i64,
    pub(crate) usd: f64,
}

/// The state of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
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
    /// A round was running when its process ended, and no process runs it now.
    Abandoned,
    /// Everything is stopped.
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
            Self::Abandoned => "abandoned",
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
    spends: HashMap<Key, Vec<LoopSpend>>,
    schedules: HashMap<Key, ScheduleRow>,
    stopped: Option<String>,
    now: i64,
    /// Rounds that a process runs.
    running: LeasedRounds,
    /// Levels and debts.
    standing: StandingRows,
    /// Workflows that have not ended.
    workflows: Vec<WorkflowLine>,
}

impl StoreSnapshot {
    /// `stop_file` is the text of the file that stops everything; the store's own reason comes first.
    async fn read(store: Option<&Store>, now: i64, stop_file: Option<String>) -> Result<Self, CommandError> {
        let stopped = stop_file.map(|why| format!("by the file STOP: {why}"));
        let mut known = Self { now, stopped, ..Self::default() };
        let Some(store) = store else { return Ok(known) };
        known.counters = store.loops().await?.into_iter().map(|row| (key(&row.repo, &row.loop_name), row)).collect();
        for row in store.open_rounds().await? {
            known.open.entry(key(&row.repo, &row.loop_name)).or_default().push(row);
        }
        known.schedules =
            store.schedules().await?.into_iter().map(|row| (key(&row.repo, &row.loop_name), row)).collect();
        known.stopped = stop_reason(store).await?.or(known.stopped);
        known.standing = StandingRows::read(store).await?;
        // The days of loops in other zones are at most one day away.
        for row in store.loop_spends(&time::day_zone().day(now - DAY_MS)).await? {
            known.spends.entry(key(&row.repo, &row.loop_name)).or_default().push(row);
        }
        known.running = LeasedRounds::read(store, known.open.values().flatten()).await?;
        known.workflows = WorkflowLine::read_all(store).await?;
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
            level: open.last().map(|row| row.level.short().to_owned()),
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
            spend: self.spend(&at, &time::day_zone()),
            waiting,
            paused_reason: reason.or_else(|| suspended.map(kept_text)),
            ceiling: None,
            debts: None,
        }
    }

    /// The state of a loop and its reason, without its file: running rounds first, then reasons not to start.
    fn standing(&self, at: &Key, open: &[RoundRow], waiting: usize) -> (LoopStatus, Option<String>) {
        let status = self.status(open, waiting);
        if status == LoopStatus::Running {
            return (status, None);
        }
        if status == LoopStatus::Abandoned {
            return (status, Some(ABANDONED.to_owned()));
        }
        if let Some(why) = &self.stopped {
            return (LoopStatus::Stopped, Some(format!("everything is stopped {why}")));
        }
        let Some(row) = self.schedules.get(at) else { return (status, None) };
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        if let Some(since) = row.paused_ms {
            let why =
                format!("paused since {} by {}: {}", date_and_time(since), said(&row.paused_by), said(&row.paused_why));
            return (LoopStatus::Paused, Some(why));
        }
        match row.wait_until_ms.filter(|until| *until > self.now) {
            Some(until) if status == LoopStatus::Idle => (
                LoopStatus::CoolingDown,
                Some(format!("waits until {}: {}", date_and_time(until), said(&row.wait_why))),
            ),
            _ => (status, None),
        }
    }

    /// Adds the times from the loop's file.
    fn time(&self, line: &mut LoopLine, schedule: &LoopSchedule, at: &Key) {
        let row = self.schedules.get(at);
        // No start follows on its own, even while one of its rounds runs.
        if self.stopped.is_some()
            || row.is_some_and(|row| row.paused_ms.is_some())
            || matches!(line.status, LoopStatus::Stopped | LoopStatus::Abandoned)
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
        let is = |word: &str| open.iter().any(|row| self.running.standing(row).word() == word);
        match waiting {
            _ if is("running") => LoopStatus::Running,
            _ if is("abandoned") => LoopStatus::Abandoned,
            0 => LoopStatus::Idle,
            _ => LoopStatus::Waiting,
        }
    }

    /// The last round of a loop, if it may be a problem.
    fn last_trouble(&self, line: &LoopLine) -> LastTrouble {
        let at = key(line.repo.as_deref().unwrap_or_default(), &line.name);
        let open = self.open.get(&at).map(Vec::as_slice).unwrap_or_default();
        let standing = |row: &RoundRow| self.running.standing(row).word();
        let stuck = open.iter().rfind(|row| matches!(standing(row), "abandoned" | "suspended"));
        let counters = self.counters.get(&at);
        LastTrouble {
            open: stuck.map(|row| (standing(row), row.id.clone())),
            has_open: !open.is_empty(),
            ended: counters.and_then(|row| Some((row.last_outcome?, row.last_round.clone()?))),
        }
    }

    /// The spend of these loops today.
    fn spend_of_all(&self, loops: &[LoopLine]) -> DaySpend {
        let sum = DaySpend { day: time::day_zone().day(self.now), ..DaySpend::default() };
        loops.iter().fold(sum, |sum, line| DaySpend {
            tokens: sum.tokens.saturating_add(line.spend.tokens),
            usd: sum.usd + line.spend.usd,
            ..sum
        })
    }

    /// The spend of a loop today, in its zone.
    fn spend(&self, at: &Key, zone: &DayZone) -> DaySpend {
        let day = zone.day(self.now);
        let spent = self.spends.get(at).and_then(|rows| rows.iter().find(|row| row.day == day));
        DaySpend {
            day,
            tokens: spent.map_or(0, |row| row.settled_tokens),
            usd: spent.map_or(0.0, |row| row.settled_micros as f64 / 1.0e6),
        }
    }
}

/// Why everything is stopped, if the store says so.
pub(crate) async fn stop_reason(store: &Store) -> Result<Option<String>, CommandError> {
    let flag = store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
    Ok(flag.map(|flag| format!("since {} by {}: {}", date_and_time(flag.at_ms), flag.actor, flag.why)))
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
    match row.outcome {
        Some(RoundOutcome::Escalated) => {
            format!("round {0} is paused with its work kept: loopwright resume {0}", row.id)
        }
        _ => format!("round {0} is suspended ({1}) with its work kept: loopwright retry {0}", row.id, row.standing()),
    }
}

fn key(repo: &str, name: &str) -> Key {
    (repo.to_owned(), name.to_owned())
}

impl StatusView {
    /// Reads the state. In a repository with loops it has these loops, elsewhere all loops of the store.
    pub(crate) async fn read(store: Option<&Store>, here: Option<&RepoView>, now: i64) -> Result<Self, CommandError> {
        let mut known = StoreSnapshot::read(store, now, here.and_then(|here| here.stop.clone())).await?;
        let loops = match here.filter(|here| here.has_loops()) {
            Some(here) => {
                known.workflows.retain(|line| line.repo == here.repo.id);
                of_repo(&known, here)
            }
            None => everywhere(&known),
        };
        Self::sorted(store, known, loops).await
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
        Self::sorted(store, known, loops).await
    }

    /// The same with only the wanted loops; counts and problems stay those of all.
    pub(crate) fn filtered(mut self, filter: &LoopFilter) -> Self {
        self.page = filter.apply(&mut self.loops);
        self
    }

    async fn sorted(
        store: Option<&Store>,
        known: StoreSnapshot,
        mut loops: Vec<LoopLine>,
    ) -> Result<Self, CommandError> {
        loops.sort_by(|a, b| (&a.name, &a.repo).cmp(&(&b.name, &b.repo)));
        let repos = RepoNames::new(loops.iter().filter_map(|line| line.repo.as_deref()));
        let listed = |row: &&RoundRow| {
            loops.iter().any(|line| line.name == row.loop_name && line.repo.as_deref() == Some(row.repo.as_str()))
        };
        let running = known.open.values().flatten().filter(|row| known.running.standing(row).word() == "running");
        let running = running.filter(listed).map(|row| RunningLine::new(row, repos.title(&row.repo, &row.loop_name)));
        let mut running: Vec<_> = running.collect();
        running.sort_by_key(|line| line.started_ms);
        let problems = problems::read_problems(store, &loops, known.now, |line| known.last_trouble(line)).await?;
        Ok(Self {
            schema: SCHEMA,
            daemon: None,
            counts: counted(&loops),
            spend: known.spend_of_all(&loops),
            problems,
            page: ListWindow::default().page(loops.len()),
            stopped: known.stopped,
            loops,
            workflows: known.workflows,
            running,
        })
    }

    /// The table for people. It names the repositories if there is more than one.
    pub(crate) fn render(&self, now: i64, out: &CommandOutput) -> String {
        self.table(now).render_for(out)
    }

    fn table(&self, now: i64) -> TextTable {
        let repos = RepoNames::new(self.loops.iter().filter_map(|line| line.repo.as_deref()));
        TextTable::new(COLUMNS, self.loops.iter().map(|line| line.cells(&repos, now)))
            .with_look(STATUS_COLUMN, status_look)
    }
}

/// The column of the status.
const STATUS_COLUMN: usize = 2;

fn status_look(status: &str) -> Option<TextStyle> {
    match status {
        "running" => Some(TextStyle::Green),
        "waiting" | "due" | "cooling-down" | "abandoned" => Some(TextStyle::Yellow),
        "paused" | "stopped" | "invalid" => Some(TextStyle::Red),
        _ => None,
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

    fn cells(&self, repos: &RepoNames, now: i64) -> [String; 12] {
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        [
            repos.title(self.repo.as_deref().unwrap_or_default(), &self.name),
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
            line.spend = known.spend(&at, &time::day_zone().of_loop(spec));
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

/// The number of loops in each state; a state without a loop has 0.
fn counted(loops: &[LoopLine]) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<_, _> = LoopStatus::value_variants().iter().map(|state| (state.word(), 0)).collect();
    for line in loops {
        *counts.entry(line.status.word()).or_default() += 1;
    }
    counts
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
    let known = StoreSnapshot::read(store, now, here.and_then(|here| here.stop.clone())).await?;
    let own = here.filter(|here| here.has_loops()).map(|here| of_repo(&known, here)).unwrap_or_default();
    let found = own.into_iter().find(|line| line.name == name).or_else(|| {
        let mut keys = known.counters.keys().chain(known.open.keys()).filter(|(_, known)| known == name);
        let first = keys.next()?;
        let (repo, name) = keys.fold(first, Ord::min);
        Some(known.line(repo, name))
    });
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
        let status = StatusView {
            schema: SCHEMA,
            daemon: None,
            stopped: None,
            workflows: Vec::new(),
            counts: BTreeMap::new(),
            spend: DaySpend::default(),
            problems: Vec::new(),
            page: ListPage::default(),
            loops: vec![line],
            running: Vec::new(),
        };
        assert_eq!(status.table(0).render().lines().count(), 2);
        for width in [80, 60, 40] {
            let narrow = status.table(0).render_within(width);
            assert!(narrow.lines().all(|line| line.chars().count() <= width), "{narrow}");
            for heading in COLUMNS {
                assert!(narrow.contains(heading), "{heading}");
            }
        }
        assert_eq!(status.table(0).render_within(80).matches("dependency-sweeper").count(), 2);
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
    fn a_round_whose_process_is_gone_is_abandoned_not_running() {
        let row = |phase: RoundPhase| RoundRow {
            id: "r1".into(),
            loop_name: "fix".into(),
            repo: "repo".into(),
            repo_path: "/r".into(),
            occurrence: "manual:r1".into(),
            trigger: "manual".into(),
            item: None,
            level: loopwright::LoopLevel::L2Assisted,
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
            let running = LeasedRounds::of(is_at_work.then(|| "r1".to_owned()));
            StoreSnapshot { running, ..StoreSnapshot::default() }
        };
        assert_eq!(
            known(true).status(&[row(RoundPhase::At(loopwright_core::round::Stage::Make))], 0),
            LoopStatus::Running
        );
        assert_eq!(
            known(false).status(&[row(RoundPhase::At(loopwright_core::round::Stage::Make))], 0),
            LoopStatus::Abandoned
        );
        assert_eq!(known(false).status(&[row(RoundPhase::Waiting)], 1), LoopStatus::Waiting);
        assert_eq!(known(false).status(&[], 0), LoopStatus::Idle);
    }
}

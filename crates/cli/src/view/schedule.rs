//! The occurrences of all loops in the coming days, in order. `heatmap` draws them.

use super::heatmap::ScheduleHeatmap;
use super::list_page::{ListPage, ListWindow};
use super::time::{Moment, time_until};
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable, safe};
use crate::output::TextStyle;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use loopwright::store::{ReceiptRow, ReceiptsQuery, ScheduleRow};
use loopwright_core::cadence::{DueTime, LoopSchedule, find_zone};
use loopwright_core::dispatch::OccurrenceOutcome;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most occurrences in a document: the earliest.
const LISTED_MAX: usize = 10_000;
/// The most lines on a page, and of one loop where there are others.
const LINES_MAX: usize = 30;
const OF_ONE_MAX: usize = 3;

/// The most loops whose pause or wait is explained.
const HELD_MAX: usize = 10;

/// The most loops whose past receipts are read, and the most of one loop.
const PAST_LOOPS_MAX: usize = 200;
const PAST_OF_ONE_MAX: u32 = 100;

/// The marks of a line of time.
const MARKS_MAX: i64 = 240;

const DAY_MS: i64 = 86_400_000;

/// A loop with its compiled cadences.
pub(crate) struct PlannedLoop {
    pub(crate) name: String,
    /// Its repository, as the store names it.
    pub(crate) repo: String,
    /// The folder of its repository, if there are several.
    pub(crate) place: Option<String>,
    pub(crate) schedule: LoopSchedule,
    pub(crate) status: ScheduleStatus,
}

/// Whether a loop's occurrences would start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScheduleStatus {
    Active,
    /// None of them start, and why.
    Paused(Option<String>),
    /// Those before a moment do not start, and why: after a failure, a provider's limit or the end of a budget.
    Waits {
        until_ms: i64,
        why: String,
    },
}

impl ScheduleStatus {
    /// The status in a loop's row.
    pub(crate) fn from_row(row: Option<&ScheduleRow>, now_ms: i64) -> Self {
        let paused = row.filter(|row| row.paused_ms.is_some());
        let wait = row.and_then(|row| Some((row.wait_until_ms.filter(|until_ms| *until_ms > now_ms)?, row)));
        match (paused, wait) {
            (Some(row), _) => Self::Paused(row.paused_why.clone()),
            (None, Some((until_ms, row))) => Self::Waits { until_ms, why: row.wait_why.clone().unwrap_or_default() },
            (None, None) => Self::Active,
        }
    }
}

impl PlannedLoop {
    /// Its name, with its repository's if there are several.
    fn label(&self) -> String {
        self.place.as_ref().map_or_else(|| self.name.clone(), |place| format!("{place}/{}", self.name))
    }

    /// The receipt that an occurrence will get instead of a round, as the dispatcher decides it.
    fn receipt(&self, start_ms: i64) -> Option<OccurrenceOutcome> {
        match &self.status {
            ScheduleStatus::Paused(_) => Some(OccurrenceOutcome::Paused),
            ScheduleStatus::Active | ScheduleStatus::Waits { .. } if self.schedule.quiet_until(start_ms).is_some() => {
                Some(OccurrenceOutcome::Quiet)
            }
            ScheduleStatus::Waits { until_ms, .. } if start_ms < *until_ms => Some(OccurrenceOutcome::Backoff),
            ScheduleStatus::Active | ScheduleStatus::Waits { .. } => None,
        }
    }

    fn held(&self) -> Option<HeldLoop> {
        let held = |fate: OccurrenceOutcome, until_ms: Option<i64>, why: &str| HeldLoop {
            name: self.name.clone(),
            repo: self.repo.clone(),
            receipt: fate.word(),
            until: until_ms.map(Moment),
            reason: why.to_owned(),
            label: self.label(),
        };
        match &self.status {
            ScheduleStatus::Active => None,
            ScheduleStatus::Paused(why) => {
                Some(held(OccurrenceOutcome::Paused, None, why.as_deref().unwrap_or_default()))
            }
            ScheduleStatus::Waits { until_ms, why } => Some(held(OccurrenceOutcome::Backoff, Some(*until_ms), why)),
        }
    }
}

/// The document of `schedule --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleView {
    schema: u32,
    /// The reason if everything is stopped, so that none of this will start.
    stopped: Option<String>,
    /// Loops that do not start on their own, indefinitely or until a moment.
    held: Vec<HeldLoop>,
    /// The occurrences in order as marks of a line, many in one mark: the picture of all pages.
    marks: Vec<DueMark>,
    page: ListPage,
    occurrences: Vec<Occurrence>,
    past_page: ListPage,
    /// The receipts of past due moments, the latest first, if they were requested.
    past: Vec<PastReceipt>,
    /// The occurrences that fit on a page: a loop that is due every second does not push the others out.
    #[serde(skip)]
    lines: Vec<Occurrence>,
    #[serde(skip)]
    total: u64,
    #[serde(skip)]
    days: u16,
    #[serde(skip)]
    now_ms: i64,
    #[serde(skip)]
    zone: TimeZone,
}

/// The occurrences of a short span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DueMark {
    /// The first of them.
    at: Moment,
    count: u64,
    /// Those that will get a receipt instead of a round.
    held: u64,
    /// Their loop, if they have the same.
    #[serde(rename = "loop")]
    name: Option<String>,
}

/// A loop that does not start on its own.
#[derive(Debug, Serialize)]
struct HeldLoop {
    #[serde(rename = "loop")]
    name: String,
    repo: String,
    /// The receipt that its occurrences get instead of a round.
    receipt: &'static str,
    /// The end of the wait; `None` until a person resumes the loop.
    until: Option<Moment>,
    reason: String,
    #[serde(skip)]
    label: String,
}

/// The receipt of a past due moment.
#[derive(Debug, Serialize)]
struct PastReceipt {
    #[serde(rename = "loop")]
    name: String,
    repo: String,
    due: Moment,
    trigger: String,
    receipt: String,
    reason: Option<String>,
    round: Option<String>,
    count: i64,
}

impl PastReceipt {
    fn new(planned: &PlannedLoop, row: ReceiptRow) -> Self {
        Self {
            name: planned.name.clone(),
            repo: planned.repo.clone(),
            due: Moment(row.due_ms),
            trigger: row.trigger,
            receipt: row.receipt.word().to_owned(),
            reason: Some(row.reason).filter(|reason| !reason.is_empty()),
            round: row.round,
            count: row.count,
        }
    }
}

/// One occurrence of a loop.
#[derive(Debug, Serialize)]
struct Occurrence {
    #[serde(rename = "loop")]
    name: String,
    repo: String,
    due: Moment,
    trigger: String,
    /// The receipt that it will get instead of a round, in the current state.
    receipt: Option<&'static str>,
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    start_ms: i64,
    #[serde(skip)]
    note: &'static str,
}

impl ScheduleView {
    /// Computes this many days ahead.
    pub(crate) fn compute(loops: &[PlannedLoop], now_ms: i64, days: u16, zone: &str) -> Self {
        let upto_ms = now_ms.saturating_add(i64::from(days) * DAY_MS);
        let zone = find_zone(zone).unwrap_or(TimeZone::UTC);
        let of_one = if loops.len() > 1 { OF_ONE_MAX } else { LINES_MAX };
        let occurrences = first(loops, now_ms, upto_ms, OccurrenceLimits { of_one: LISTED_MAX, in_all: LISTED_MAX });
        Self {
            schema: SCHEMA,
            stopped: None,
            held: loops.iter().filter_map(PlannedLoop::held).collect(),
            past: Vec::new(),
            past_page: ListPage::default(),
            marks: Vec::new(),
            page: ListWindow::default().page(occurrences.len()),
            occurrences,
            lines: first(loops, now_ms, upto_ms, OccurrenceLimits { of_one, in_all: LINES_MAX }),
            total: loops.iter().map(|planned| planned.schedule.count_between(now_ms, upto_ms)).sum(),
            days,
            now_ms,
            zone,
        }
    }

    /// Reads the receipts of the past days, for at most [`PAST_LOOPS_MAX`] loops.
    pub(crate) async fn read_past(
        &mut self,
        store: &Store,
        loops: &[PlannedLoop],
        days: u16,
    ) -> Result<(), CommandError> {
        let from_ms = self.now_ms.saturating_sub(i64::from(days) * DAY_MS);
        for planned in loops.iter().take(PAST_LOOPS_MAX) {
            let query = ReceiptsQuery {
                repo: planned.repo.clone(),
                loop_name: planned.name.clone(),
                before: None,
                limit: PAST_OF_ONE_MAX,
            };
            let rows = store.receipts(query).await?.into_iter().filter(|row| row.due_ms >= from_ms);
            self.past.extend(rows.map(|row| PastReceipt::new(planned, row)));
        }
        self.past.sort_by_key(|one| std::cmp::Reverse(one.due));
        self.past.truncate(LISTED_MAX);
        Ok(())
    }

    /// Adds the reason why everything is stopped.
    pub(crate) fn with_stop(mut self, stopped: Option<String>) -> Self {
        if stopped.is_some() {
            self.occurrences.iter_mut().for_each(|one| one.receipt = Some(OccurrenceOutcome::Stopped.word()));
        }
        Self { stopped, ..self }
    }

    /// Keeps the wanted part of each list; the marks stay those of all occurrences.
    pub(crate) fn cut(mut self, window: ListWindow) -> Self {
        self.marks = marks(&self.occurrences, self.now_ms, i64::from(self.days) * DAY_MS);
        self.page = window.cut(&mut self.occurrences);
        self.past_page = window.cut(&mut self.past);
        self
    }

    /// The page for people: reasons why loops do not start, the heat map, then the list.
    pub(crate) fn render(
        &self,
        loops: &[PlannedLoop],
        width: usize,
        paint: &dyn Fn(TextStyle, &str) -> String,
    ) -> String {
        let mut parts: Vec<String> = self.hold(width).into_iter().collect();
        if self.occurrences.is_empty() {
            parts.push(self.nothing(loops));
            return parts.join("\n\n");
        }
        let heat = ScheduleHeatmap::from_loops(loops, self.now_ms, self.days, &self.zone);
        parts.extend(heat.render(width, paint));
        parts.push(self.table().render_parts(width, paint));
        parts.extend(self.rest().map(|rest| paint(TextStyle::Dim, &rest)));
        parts.join("\n\n")
    }

    /// The global stop, pauses and waits, with the command that ends each.
    fn hold(&self, width: usize) -> Option<String> {
        let stop = self
            .stopped
            .as_ref()
            .map(|why| format!("everything is stopped {}: none of this starts before `loopwright thaw`", safe(why)));
        let held = self.held.iter().take(HELD_MAX).map(|held| {
            let why = if held.reason.is_empty() { String::new() } else { format!(" ({})", safe(&held.reason)) };
            let until = held.until.map(|until| format!("waits until {}", self.wall_clock(until.0)));
            let how = until.unwrap_or_else(|| "is paused".to_owned());
            format!("{} {how}{why}: loopwright resume {}", safe(&held.label), safe(&held.name))
        });
        let lines: Vec<String> = stop.into_iter().chain(held).map(|line| folded(&line, width)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn nothing(&self, loops: &[PlannedLoop]) -> String {
        let timed = loops.iter().filter(|planned| planned.schedule.is_timed()).count();
        match (loops.len(), timed) {
            (0, _) => "no loops here\nwrite one with `loopwright init`".to_owned(),
            (_, 0) => {
                "nothing is ever due: no loop here has a cadence\nwrite `on: { every: 15m }`, see docs/schedule.md"
                    .to_owned()
            }
            _ => format!("nothing is due within {}", days(self.days)),
        }
    }

    fn table(&self) -> TextTable {
        let row = |line: &Occurrence| {
            let (due, wait) = (self.wall_clock(line.due.0), time_until(line.start_ms, self.now_ms));
            [due, wait, line.label.clone(), line.trigger.clone(), line.note.to_owned()]
        };
        TextTable::new(["DUE", "IN", "LOOP", "TRIGGER", "NOTE"], self.lines.iter().map(row))
    }

    fn rest(&self) -> Option<String> {
        let more = self.total.saturating_sub(self.lines.len() as u64);
        (more > 0).then(|| format!("and {more} more within {}", days(self.days)))
    }

    /// A moment on the wall clock of this machine.
    fn wall_clock(&self, at_ms: i64) -> String {
        let at = Timestamp::from_millisecond(at_ms).map(|at| at.to_zoned(self.zone.clone()));
        let form = if at_ms % 60_000 == 0 { "%a %m-%d %H:%M" } else { "%a %m-%d %H:%M:%S" };
        at.map_or_else(|_| NOTHING.to_owned(), |at| at.strftime(form).to_string())
    }
}

/// Joins occurrences that a line of this length cannot show apart.
fn marks(occurrences: &[Occurrence], from_ms: i64, whole_ms: i64) -> Vec<DueMark> {
    let slot = |due: Moment| due.0.saturating_sub(from_ms).saturating_mul(MARKS_MAX) / whole_ms.max(1);
    let mut marks = Vec::<DueMark>::new();
    for one in occurrences {
        let held = u64::from(one.receipt.is_some());
        match marks.last_mut().filter(|last| slot(last.at) == slot(one.due)) {
            Some(last) => {
                last.count += 1;
                last.held += held;
                last.name = last.name.take().filter(|name| *name == one.name);
            }
            None => marks.push(DueMark { at: one.due, count: 1, held, name: Some(one.name.clone()) }),
        }
    }
    marks
}

/// A sentence in lines that fit.
fn folded(text: &str, width: usize) -> String {
    let width = width.max(34);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn days(count: u16) -> String {
    if count == 1 { "a day".to_owned() } else { format!("{count} days") }
}

/// The number of occurrences to compute.
#[derive(Debug, Clone, Copy)]
struct OccurrenceLimits {
    of_one: usize,
    in_all: usize,
}

/// The first occurrences of all loops, in order. Computes only the next one of each loop at a time.
fn first(loops: &[PlannedLoop], now_ms: i64, upto_ms: i64, most: OccurrenceLimits) -> Vec<Occurrence> {
    let walks = loops.iter().map(|planned| planned.schedule.coming(now_ms).take(most.of_one).peekable());
    let mut walks: Vec<_> = walks.collect();
    let rank = |at: usize, due: &DueTime| Reverse((due.at_ms, loops[at].name.clone(), at));
    let heads = walks.iter_mut().enumerate().filter_map(|(at, walk)| Some(rank(at, walk.peek()?)));
    let mut queue: BinaryHeap<_> = heads.collect();
    let mut found = Vec::new();
    while let Some(Reverse((at_ms, _, at))) = queue.pop() {
        if at_ms > upto_ms || found.len() == most.in_all {
            break;
        }
        found.extend(walks[at].next().map(|due| occurrence(&loops[at], &due)));
        queue.extend(walks[at].peek().map(|due| rank(at, due)));
    }
    found
}

fn occurrence(planned: &PlannedLoop, due: &DueTime) -> Occurrence {
    let receipt = planned.receipt(due.start_ms);
    let note = match receipt {
        Some(OccurrenceOutcome::Quiet) => "quiet hours",
        Some(fate) => fate.word(),
        None if due.shifted => "shifted",
        None => "",
    };
    Occurrence {
        name: planned.name.clone(),
        repo: planned.repo.clone(),
        label: planned.label(),
        due: Moment(due.at_ms),
        trigger: due.cadence.to_string(),
        receipt: receipt.map(OccurrenceOutcome::word),
        start_ms: due.start_ms,
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use loopwright_core::spec::Triggers;
    use loopwright_core::units::TimeSpan;

    fn planned(name: &str, edit: impl FnOnce(&mut Triggers)) -> PlannedLoop {
        let mut on = Triggers { timezone: Some("Europe/Berlin".to_owned()), ..Triggers::default() };
        edit(&mut on);
        let schedule = LoopSchedule::of(&on, name, "UTC").expect("a schedule");
        let (name, repo) = (name.to_owned(), "r1".to_owned());
        PlannedLoop { name, repo, place: None, schedule, status: ScheduleStatus::Active }
    }

    /// A nightly loop, a busy one with quiet hours, a weekly one, and one that a person paused.
    fn loops() -> Vec<PlannedLoop> {
        let text = str::to_owned;
        let busy = |on: &mut Triggers| {
            on.every = TimeSpan::parse("20m").into_iter().collect();
            on.quiet = Some(text("22:00-06:30"));
        };
        let mut paused = planned("paused", |on| on.cron = vec![text("0 12 * * *")]);
        paused.status = ScheduleStatus::Paused(None);
        vec![
            planned("nightly", |on| on.daily = vec![text("02:30")]),
            planned("busy", busy),
            planned("weekly", |on| on.weekly = vec![text("mon,wed 09:30,17:00")]),
            planned("manual", |_| {}),
            paused,
        ]
    }

    /// The Friday before the clocks go forward, in the evening.
    fn friday() -> i64 {
        "2026-03-27T19:40:30Z".parse::<Timestamp>().expect("a moment").as_millisecond()
    }

    fn check(days: u16, width: usize, expected: Expect) {
        let loops = loops();
        let page = ScheduleView::compute(&loops, friday(), days, "Europe/Berlin")
            .render(&loops, width, &|_, text| text.to_owned());
        expected.assert_eq(&page);
        assert!(page.lines().all(|line| line.chars().count() <= width.max(34)), "{page}");
    }

    #[test]
    fn a_week_is_a_heat_map_and_a_list() {
        check(
            7,
            usize::MAX,
            expect![[r#"
                paused is paused: loopwright resume paused

                        00          06          12          18
                fri 27                                          ··▓▓····
                sat 28  ····░░······░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····
                sun 29  ····  ░░····░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····
                mon 30  ····░░······░░▓▓▓▓██▓▓▓▓▓▓▓▓▓▓▓▓▓▓██▓▓▓▓▓▓▓▓····
                tue 31  ····░░······░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····
                wed 01  ····░░······░░▓▓▓▓██▓▓▓▓▓▓▓▓▓▓▓▓▓▓██▓▓▓▓▓▓▓▓····
                thu 02  ····░░······░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····
                fri 03  ····░░······░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
                · to █ is 0 to 4 starts an hour
                times are Europe/Berlin

                DUE              IN      LOOP     TRIGGER                     NOTE
                Fri 03-27 21:00  in 19m  busy     every 20m
                Fri 03-27 21:20  in 39m  busy     every 20m
                Fri 03-27 21:40  in 59m  busy     every 20m
                Sat 03-28 02:30  in 5h   nightly  daily 02:30
                Sat 03-28 12:00  in 15h  paused   0 12 * * *                  paused
                Sun 03-29 03:00  in 29h  nightly  daily 02:30                 shifted
                Sun 03-29 12:00  in 38h  paused   0 12 * * *                  paused
                Mon 03-30 02:30  in 2d   nightly  daily 02:30
                Mon 03-30 09:30  in 2d   weekly   weekly mon,wed 09:30,17:00
                Mon 03-30 12:00  in 2d   paused   0 12 * * *                  paused
                Mon 03-30 17:00  in 2d   weekly   weekly mon,wed 09:30,17:00
                Wed 04-01 09:30  in 4d   weekly   weekly mon,wed 09:30,17:00

                and 510 more within 7 days"#]],
        );
    }

    #[test]
    fn a_narrow_terminal_gets_a_heat_map_by_the_hour() {
        check(
            2,
            34,
            expect![[r#"
                paused is paused: loopwright
                resume paused

                        00    06    12    18
                fri 27                      ·█··
                sat 28  ··▒···▒███████████████··
                sun 29  ·· ▒··▒███████████████
                · to █ is 0 to 3 starts an hour
                times are Europe/Berlin

                DUE              IN      LOOP
                Fri 03-27 21:00  in 19m  busy
                Fri 03-27 21:20  in 39m  busy
                Fri 03-27 21:40  in 59m  busy
                Sat 03-28 02:30  in 5h   nightly
                Sat 03-28 12:00  in 15h  paused
                Sun 03-29 03:00  in 29h  nightly
                Sun 03-29 12:00  in 38h  paused

                DUE              TRIGGER
                Fri 03-27 21:00  every 20m
                Fri 03-27 21:20  every 20m
                Fri 03-27 21:40  every 20m
                Sat 03-28 02:30  daily 02:30
                Sat 03-28 12:00  0 12 * * *
                Sun 03-29 03:00  daily 02:30
                Sun 03-29 12:00  0 12 * * *

                DUE              NOTE
                Fri 03-27 21:00
                Fri 03-27 21:20
                Fri 03-27 21:40
                Sat 03-28 02:30
                Sat 03-28 12:00  paused
                Sun 03-29 03:00  shifted
                Sun 03-29 12:00  paused

                and 141 more within 2 days"#]],
        );
    }

    #[test]
    fn a_very_narrow_terminal_gets_a_coarser_heat_map() {
        check(
            2,
            16,
            expect![[r#"
                paused is paused: loopwright
                resume paused

                        00  12
                fri 27        ·▒
                sat 28  ░·█████▒
                sun 29  ·░█████▒

                DUE              IN
                Fri 03-27 21:00  in 19m
                Fri 03-27 21:20  in 39m
                Fri 03-27 21:40  in 59m
                Sat 03-28 02:30  in 5h
                Sat 03-28 12:00  in 15h
                Sun 03-29 03:00  in 29h
                Sun 03-29 12:00  in 38h

                DUE              LOOP
                Fri 03-27 21:00  busy
                Fri 03-27 21:20  busy
                Fri 03-27 21:40  busy
                Sat 03-28 02:30  nightly
                Sat 03-28 12:00  paused
                Sun 03-29 03:00  nightly
                Sun 03-29 12:00  paused

                DUE              TRIGGER
                Fri 03-27 21:00  every 20m
                Fri 03-27 21:20  every 20m
                Fri 03-27 21:40  every 20m
                Sat 03-28 02:30  daily 02:30
                Sat 03-28 12:00  0 12 * * *
                Sun 03-29 03:00  daily 02:30
                Sun 03-29 12:00  0 12 * * *

                DUE              NOTE
                Fri 03-27 21:00
                Fri 03-27 21:20
                Fri 03-27 21:40
                Sat 03-28 02:30
                Sat 03-28 12:00  paused
                Sun 03-29 03:00  shifted
                Sun 03-29 12:00  paused

                and 141 more within 2 days"#]],
        );
    }

    #[test]
    fn there_is_no_heat_map_when_the_terminal_is_too_narrow() {
        check(
            1,
            9,
            expect![[r#"
                paused is paused: loopwright
                resume paused

                DUE              IN
                Fri 03-27 21:00  in 19m
                Fri 03-27 21:20  in 39m
                Fri 03-27 21:40  in 59m
                Sat 03-28 02:30  in 5h
                Sat 03-28 12:00  in 15h

                DUE              LOOP
                Fri 03-27 21:00  busy
                Fri 03-27 21:20  busy
                Fri 03-27 21:40  busy
                Sat 03-28 02:30  nightly
                Sat 03-28 12:00  paused

                DUE              TRIGGER
                Fri 03-27 21:00  every 20m
                Fri 03-27 21:20  every 20m
                Fri 03-27 21:40  every 20m
                Sat 03-28 02:30  daily 02:30
                Sat 03-28 12:00  0 12 * * *

                DUE              NOTE
                Fri 03-27 21:00
                Fri 03-27 21:20
                Fri 03-27 21:40
                Sat 03-28 02:30
                Sat 03-28 12:00  paused

                and 69 more within a day"#]],
        );
    }

    #[test]
    fn documents_have_every_occurrence_in_order_up_to_the_most() {
        let loops = loops();
        let coming = ScheduleView::compute(&loops, friday(), 1, "Europe/Berlin");
        let json = serde_json::to_value(&coming).expect("a document");
        assert_eq!(json["occurrences"].as_array().map(Vec::len), Some(72 + 1 + 1));
        assert_eq!(
            json["occurrences"][0],
            serde_json::json!({
                "loop": "busy", "repo": "r1", "due": "2026-03-27T20:00:00Z", "trigger": "every 20m", "receipt": null
            })
        );
        assert!(coming.occurrences.is_sorted_by_key(|line| line.due));
        let every_second = [planned("often", |on| on.every = TimeSpan::parse("1s").into_iter().collect())];
        let coming = ScheduleView::compute(&every_second, friday(), 366, "Europe/Berlin");
        assert_eq!((coming.occurrences.len(), coming.total), (LISTED_MAX, 366 * 86_400));
    }

    /// `busy` failed and waits for half an hour.
    fn waiting() -> Vec<PlannedLoop> {
        let mut loops = loops();
        let until_ms = friday() + 30 * 60_000;
        loops[1].status = ScheduleStatus::Waits { until_ms, why: "ended failed, 6 in a row".to_owned() };
        loops.truncate(2);
        loops
    }

    #[test]
    fn occurrences_of_a_waiting_loop_show_the_receipts_that_they_will_get() {
        let loops = waiting();
        let coming = ScheduleView::compute(&loops, friday(), 1, "Europe/Berlin");
        let json = serde_json::to_value(&coming).expect("a document");
        let of_busy = json["occurrences"].as_array().into_iter().flatten().filter(|one| one["loop"] == "busy");
        let receipts: Vec<_> = of_busy.take(8).map(|one| one["receipt"].as_str().unwrap_or("-")).collect();
        // From 22:00 on it is quiet anyway; 21:10:30 is when the wait ends.
        assert_eq!(receipts, ["backoff", "-", "-", "quiet", "quiet", "quiet", "quiet", "quiet"]);
        assert_eq!(
            json["held"],
            serde_json::json!([{
                "loop": "busy", "repo": "r1", "receipt": "backoff",
                "until": "2026-03-27T20:10:30Z", "reason": "ended failed, 6 in a row"
            }])
        );
        let page = coming.render(&loops, usize::MAX, &|_, text| text.to_owned());
        expect![[r#"
            busy waits until Fri 03-27 21:10:30 (ended failed, 6 in a row): loopwright resume busy

                    00          06          12          18
            fri 27                                          ··▓▓····
            sat 28  ····▒▒······▒▒████████████████████████████
            · to █ is 0 to 3 starts an hour
            times are Europe/Berlin

            DUE              IN      LOOP     TRIGGER      NOTE
            Fri 03-27 21:00  in 19m  busy     every 20m    backoff
            Fri 03-27 21:20  in 39m  busy     every 20m
            Fri 03-27 21:40  in 59m  busy     every 20m
            Sat 03-28 02:30  in 5h   nightly  daily 02:30

            and 69 more within a day"#]]
        .assert_eq(&page);
        let stopped = serde_json::to_value(coming.with_stop(Some("a flood".to_owned()))).expect("a document");
        assert_eq!(stopped["occurrences"][0]["receipt"], "stopped");
    }

    #[test]
    fn a_loop_that_is_due_every_second_does_not_push_the_others_out_of_the_page() {
        let often = planned("often", |on| on.every = TimeSpan::parse("1s").into_iter().collect());
        let loops = [often, planned("nightly", |on| on.daily = vec!["19:30".to_owned()])];
        let coming = ScheduleView::compute(&loops, friday(), 1, "Europe/Berlin");
        let lines: Vec<&str> = coming.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(lines, ["often", "often", "often", "nightly"]);
    }

    #[test]
    fn colour_is_the_only_difference_of_a_terminal() {
        let loops = loops();
        let coming = ScheduleView::compute(&loops, friday(), 3, "Europe/Berlin");
        let plain = coming.render(&loops, 60, &|_, text| text.to_owned());
        let marked = coming.render(&loops, 60, &|_, text| format!("<{text}>"));
        assert_ne!(plain, marked);
        assert_eq!(plain, marked.replace(['<', '>'], "").lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn an_empty_schedule_gives_the_reason() {
        let show = |loops: &[PlannedLoop]| {
            ScheduleView::compute(loops, friday(), 2, "UTC").render(loops, 80, &|_, text| text.to_owned())
        };
        assert!(show(&[]).starts_with("no loops here"));
        assert!(show(&[planned("manual", |_| {})]).starts_with("nothing is ever due"));
        let weekly = planned("weekly", |on| on.weekly = vec!["wed 08:00".to_owned()]);
        assert_eq!(show(&[weekly]), "nothing is due within 2 days");
    }
}

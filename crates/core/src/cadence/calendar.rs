//! Calendar cadences: days and times of day on the wall clock of a zone, with the rule for hours that a zone skips or
//! repeats. Fixed hours run once, wildcard hours whenever the wall clock shows them.
//!
//! The search goes from one period of constant offset to the next and considers only wall times inside it. Within a
//! period, wall clock and instants advance together, so occurrences cannot repeat or change their order in any zone.

use super::day_times::{DAY_MINUTES, DayTimes};
use super::days::CadenceDays;
use super::zone::{OffsetPeriod, WallClock, clamp_to_supported};

const MINUTE_MS: i64 = 60_000;
/// Every accepted cadence waits at most ten years.
pub(super) const WAIT_DAYS_MAX: i64 = 3_653;
/// How far ahead a search goes.
const HORIZON_MS: i64 = (WAIT_DAYS_MAX + 400) * DAY_MINUTES * MINUTE_MS;

/// Days and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CadenceCalendar {
    pub(super) days: CadenceDays,
    pub(super) times: DayTimes,
    pub(super) hours: DstPolicy,
}

/// The rule for hours that a zone skips or repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DstPolicy {
    /// Skipped: once, right after the gap. Repeated: once, the first time.
    Fixed,
    /// Skipped: not at all. Repeated: each time.
    Wild,
}

/// An occurrence of one cadence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CadenceMoment {
    pub(super) at_ms: i64,
    /// Moved out of a gap.
    pub(super) shifted: bool,
}

impl CadenceCalendar {
    /// The first occurrence strictly after an instant.
    pub(super) fn next_after(&self, clock: &WallClock<'_>, after_ms: i64) -> Option<CadenceMoment> {
        let upto_ms = clamp_to_supported(after_ms.saturating_add(HORIZON_MS));
        let mut windows = Windows::new(clock, after_ms, upto_ms);
        windows.find_map(|window| self.shifted(&window).or_else(|| self.first_in(&window)))
    }

    /// How many occurrences lie after one instant and not after another. It takes at most one step for each day between
    /// them.
    pub(super) fn count(&self, clock: &WallClock<'_>, after_ms: i64, upto_ms: i64) -> u64 {
        let windows = Windows::new(clock, after_ms, upto_ms);
        windows.map(|window| u64::from(self.shifted(&window).is_some()) + self.count_in(&window)).sum()
    }

    /// The occurrence moved out of the gap before a period, unless the instant after the gap is an occurrence itself.
    fn shifted(&self, window: &Window) -> Option<CadenceMoment> {
        let OffsetPeriod { from_ms, offset_ms, before_ms, .. } = window.stretch;
        if self.hours == DstPolicy::Wild || !window.opens || offset_ms <= before_ms {
            return None;
        }
        let opening = from_ms + offset_ms;
        let (gap_from, gap_to) = (minute_from(from_ms + before_ms), minute_from(opening));
        let own = opening % MINUTE_MS == 0 && self.next_minute(gap_to, gap_to + 1).is_some();
        let fell = !own && self.next_minute(gap_from, gap_to).is_some();
        fell.then_some(CadenceMoment { at_ms: from_ms, shifted: true })
    }

    fn first_in(&self, window: &Window) -> Option<CadenceMoment> {
        let minute = self.next_minute(self.floor(window), window.to)?;
        Some(CadenceMoment { at_ms: minute * MINUTE_MS - window.stretch.offset_ms, shifted: false })
    }

    /// The first minute of a window that counts. Fixed hours that repeat were already due in the previous period.
    fn floor(&self, window: &Window) -> i64 {
        match self.hours {
            DstPolicy::Wild => window.from,
            DstPolicy::Fixed => window.from.max(minute_from(window.stretch.from_ms + window.stretch.before_ms)),
        }
    }

    /// The first due minute of the wall clock, from `from` on and before `to`.
    fn next_minute(&self, from: i64, to: i64) -> Option<i64> {
        let (mut day, mut minute) = (from.div_euclid(DAY_MINUTES), from.rem_euclid(DAY_MINUTES));
        let limit = to.div_euclid(DAY_MINUTES) + 1;
        loop {
            let found = self.days.next(day, limit)?;
            let least = if found == day { minute } else { 0 };
            if let Some(at) = self.times.next(least) {
                return Some(found * DAY_MINUTES + at).filter(|at| *at < to);
            }
            (day, minute) = (found + 1, 0);
        }
    }

    fn count_in(&self, window: &Window) -> u64 {
        let (from, to) = (self.floor(window), window.to);
        if from >= to {
            return 0;
        }
        let before = |minute: i64, day: i64| {
            if self.days.has(day) { self.times.before(minute.rem_euclid(DAY_MINUTES)) } else { 0 }
        };
        let (first, last) = (from.div_euclid(DAY_MINUTES), to.div_euclid(DAY_MINUTES));
        let whole =
            std::iter::successors(self.days.next(first, last), |day| self.days.next(day + 1, last)).count() as u64;
        whole * self.times.before(DAY_MINUTES) + before(to, last) - before(from, first)
    }
}

/// The part of an offset period that a search considers, in minutes of the wall clock.
#[derive(Debug, Clone, Copy)]
struct Window {
    stretch: OffsetPeriod,
    /// Whether it begins with the period.
    opens: bool,
    from: i64,
    /// The first minute after it.
    to: i64,
}

/// The windows after the first instant, up to the second.
struct Windows<'z> {
    clock: &'z WallClock<'z>,
    next: Option<(i64, bool)>,
    upto_ms: i64,
}

impl<'z> Windows<'z> {
    fn new(clock: &'z WallClock<'z>, after_ms: i64, upto_ms: i64) -> Self {
        Self { clock, next: Some((clamp_to_supported(after_ms), false)), upto_ms: clamp_to_supported(upto_ms) }
    }
}

impl Iterator for Windows<'_> {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        let (at_ms, opens) = self.next.take()?;
        let stretch = self.clock.offset_period(at_ms);
        if stretch.to_ms <= self.upto_ms && stretch.to_ms > at_ms {
            self.next = Some((stretch.to_ms, true));
        }
        let wall = at_ms + stretch.offset_ms;
        let from = if opens { minute_from(wall) } else { wall.div_euclid(MINUTE_MS) + 1 };
        let to = minute_from(stretch.to_ms.min(self.upto_ms + 1) + stretch.offset_ms);
        Some(Window { stretch, opens, from, to })
    }
}

/// The first whole minute at or after a wall time.
fn minute_from(wall_ms: i64) -> i64 {
    wall_ms.div_euclid(MINUTE_MS) + i64::from(wall_ms.rem_euclid(MINUTE_MS) != 0)
}

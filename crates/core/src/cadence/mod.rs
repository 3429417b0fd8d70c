//! When a loop is due: the cadences of a loop, compiled. Pure: the current moment is always an argument, and the zone
//! database is the bundled one, or a newer one that the program brought. The dispatcher acts on due times.

mod calendar;
mod check;
mod day_times;
mod day_zone;
mod days;
pub(crate) mod parse;
mod zone;

#[cfg(test)]
mod tests;

use crate::spec::Triggers;
use calendar::{CadenceCalendar, CadenceMoment};
pub(crate) use check::problems;
use day_times::QuietHours;
pub use day_zone::DayZone;
use std::sync::Arc;
use zone::{CEILING_MS, CadenceZone, FLOOR_MS, WallClock, clamp_to_supported};
pub use zone::{ZoneReader, bundled_zones_release, find_zone, prefer_zones};

/// All cadences of one loop, compiled. A clone shares everything.
#[derive(Debug, Clone)]
pub struct LoopSchedule(Arc<Plan>);

/// A moment at which a loop is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTime {
    /// The occurrence's name: the nominal moment, without jitter.
    pub at_ms: i64,
    /// When it may start: the nominal moment and the loop's stable jitter.
    pub start_ms: i64,
    /// The cadence as written: `daily 02:30`.
    pub cadence: Arc<str>,
    /// Whether it was moved out of an hour that the zone skips.
    pub shifted: bool,
}

/// The due times between two moments: the last few, and the number of earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DueRange {
    /// The last ones, in order.
    pub kept: Vec<DueTime>,
    /// How many came before. Exact for a loop with one cadence. For several cadences it is exact up to 4,096, and
    /// beyond that the count of the most frequent one. Due times more than 110 years back are not counted.
    pub earlier: u64,
    /// The first of those.
    pub earlier_from_ms: Option<i64>,
    /// The last of those.
    pub earlier_through_ms: Option<i64>,
}

/// Why the times of an `on:` block cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CadenceProblem {
    /// The problem.
    pub text: String,
    /// The suggested fix.
    pub hint: String,
    /// The key of the `on:` block.
    pub key: &'static str,
    /// The index of the value in its list.
    pub index: Option<usize>,
}

#[derive(Debug)]
struct Plan {
    cadences: Box<[Cadence]>,
    zone: CadenceZone,
    jitter_ms: i64,
    grace_ms: i64,
    quiet: Option<QuietHours>,
    /// Nothing is due at or before this instant.
    after_ms: i64,
    /// Nothing is due after this instant.
    until_ms: i64,
    fingerprint: Box<str>,
}

#[derive(Debug)]
struct Cadence {
    text: Arc<str>,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// A grid anchored at 1970-01-01T00:00Z, so that neither a restart nor an edit elsewhere shifts it.
    Every {
        ms: i64,
    },
    Calendar(Box<CadenceCalendar>),
}

impl Rule {
    fn next_after(&self, clock: &WallClock<'_>, after_ms: i64) -> Option<CadenceMoment> {
        match self {
            Self::Every { ms } => Some(CadenceMoment { at_ms: (after_ms.div_euclid(*ms) + 1) * ms, shifted: false }),
            Self::Calendar(calendar) => calendar.next_after(clock, after_ms),
        }
    }

    fn count(&self, clock: &WallClock<'_>, after_ms: i64, upto_ms: i64) -> u64 {
        match self {
            Self::Every { ms } => (upto_ms.div_euclid(*ms) - after_ms.div_euclid(*ms)).max(0) as u64,
            Self::Calendar(calendar) => calendar.count(clock, after_ms, upto_ms),
        }
    }
}

impl Plan {
    /// Several cadences at one instant are one due time, named after the first cadence that is due there without a
    /// shift.
    fn due(&self, moment: CadenceMoment, cadence: &Cadence) -> DueTime {
        let CadenceMoment { at_ms, shifted } = moment;
        DueTime { at_ms, start_ms: at_ms + self.jitter_ms, cadence: Arc::clone(&cadence.text), shifted }
    }
}

impl LoopSchedule {
    /// Compiles the times of an `on:` block. The key (`repo/loop`) seeds the jitter; the system's zone applies if the
    /// block names none.
    ///
    /// # Errors
    /// The first problem that `check` would report.
    pub fn of(on: &Triggers, key: &str, system_zone: &str) -> Result<Self, CadenceProblem> {
        check::compile(on, key, system_zone).map(|plan| Self(Arc::new(plan)))
    }

    /// Whether any cadence makes the loop due.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !self.0.cadences.is_empty()
    }

    /// The first due time strictly after a moment, by its nominal moment.
    #[must_use]
    pub fn next_after(&self, after_ms: i64) -> Option<DueTime> {
        self.walk(after_ms).next()
    }

    /// The due times after one moment that may start until another: the last `keep` of them, and how many came before.
    /// It takes about one step for each day between the two, however often the loop is due.
    #[must_use]
    pub fn between(&self, after_ms: i64, upto_ms: i64, keep: usize) -> DueRange {
        let upto_ms = clamp_to_supported(upto_ms.saturating_sub(self.0.jitter_ms)).min(self.0.until_ms);
        let after_ms = clamp_to_supported(after_ms).max(self.0.after_ms).max(upto_ms.saturating_sub(COUNTED_MS));
        let mut kept = self.last(after_ms, upto_ms, keep.saturating_add(1));
        if kept.len() <= keep {
            return DueRange { kept, ..DueRange::default() };
        }
        let through_ms = kept.remove(0).at_ms;
        DueRange {
            kept,
            earlier: self.count(after_ms, through_ms),
            earlier_from_ms: self.next_after(after_ms).map(|due| due.at_ms),
            earlier_through_ms: Some(through_ms),
        }
    }

    /// How many due times lie after one moment and not after another, as exactly as [`DueRange::earlier`].
    #[must_use]
    pub fn count_between(&self, after_ms: i64, upto_ms: i64) -> u64 {
        let upto_ms = clamp_to_supported(upto_ms).min(self.0.until_ms);
        let after_ms = clamp_to_supported(after_ms).max(self.0.after_ms).max(upto_ms.saturating_sub(COUNTED_MS));
        if after_ms < upto_ms { self.count(after_ms, upto_ms) } else { 0 }
    }

    /// How late an occurrence may start and still count as on time.
    #[must_use]
    pub fn grace_ms(&self) -> i64 {
        self.0.grace_ms
    }

    /// The end of the quiet hours, if the moment is inside them.
    #[must_use]
    pub fn quiet_until(&self, at_ms: i64) -> Option<i64> {
        self.0.quiet.and_then(|quiet| quiet.until(&self.0.zone, at_ms))
    }

    /// Changes when the cadence is edited: its texts, its zone, its bounds. Jitter and quiet hours are not included,
    /// because they change no occurrence.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The cadences as written, for a column of a table.
    #[must_use]
    pub fn describe(&self) -> String {
        if !self.is_timed() {
            return "manual".to_owned();
        }
        self.0.cadences.iter().map(|cadence| &*cadence.text).collect::<Vec<_>>().join(", ")
    }

    /// The name of the zone whose wall clock applies.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.0.zone.name()
    }

    /// The future due times, in order; endless unless the cadence ends.
    pub fn coming(&self, after_ms: i64) -> impl Iterator<Item = DueTime> + '_ {
        self.walk(after_ms)
    }

    fn walk(&self, after_ms: i64) -> Walk<'_> {
        let after_ms = clamp_to_supported(after_ms).max(self.0.after_ms);
        let (clock, heads) = (WallClock::new(&self.0.zone), vec![None; self.0.cadences.len()]);
        Walk { plan: &self.0, clock, heads, after_ms }
    }

    /// The last `most` due times in a range. The range is first narrowed by counting, which is cheap.
    fn last(&self, after_ms: i64, upto_ms: i64, most: usize) -> Vec<DueTime> {
        let mut wanted = most as u64;
        loop {
            let from_ms = self.narrow(after_ms, upto_ms, wanted);
            let mut found: Vec<DueTime> = self.walk(from_ms).take_while(|due| due.at_ms <= upto_ms).collect();
            if found.len() >= most || from_ms <= after_ms {
                found.drain(..found.len().saturating_sub(most));
                return found;
            }
            // Several cadences had the same due times: search further back.
            wanted = wanted.saturating_mul(2);
        }
    }

    /// A start so that the range holds at least `wanted` occurrences, counted for each cadence, and few more.
    fn narrow(&self, after_ms: i64, upto_ms: i64, wanted: u64) -> i64 {
        let (mut enough, mut short) = (after_ms, upto_ms);
        if self.sum(enough, upto_ms) <= wanted {
            return after_ms;
        }
        while short - enough > 1_000 && self.sum(enough, upto_ms) > wanted.saturating_mul(2) {
            let middle = enough + (short - enough) / 2;
            if self.sum(middle, upto_ms) >= wanted { enough = middle } else { short = middle }
        }
        enough
    }

    fn sum(&self, after_ms: i64, upto_ms: i64) -> u64 {
        self.counts(after_ms, upto_ms).sum()
    }

    fn counts(&self, after_ms: i64, upto_ms: i64) -> impl Iterator<Item = u64> + '_ {
        let clock = WallClock::new(&self.0.zone);
        self.0.cadences.iter().map(move |cadence| cadence.rule.count(&clock, after_ms, upto_ms))
    }

    /// How many due times lie in a range, as exactly as [`DueRange::earlier`].
    fn count(&self, after_ms: i64, upto_ms: i64) -> u64 {
        if self.0.cadences.len() > 1 && self.sum(after_ms, upto_ms) <= LISTED_MAX {
            return self.walk(after_ms).take_while(|due| due.at_ms <= upto_ms).count() as u64;
        }
        self.counts(after_ms, upto_ms).max().unwrap_or(0)
    }
}

/// Due times further back than this are not counted.
const COUNTED_MS: i64 = 110 * 366 * 86_400_000;
/// Up to this many occurrences of several cadences are listed, to find those at the same instant.
const LISTED_MAX: u64 = 4_096;

/// The due times of a plan in order, merged from the next moment of each cadence.
struct Walk<'p> {
    plan: &'p Plan,
    clock: WallClock<'p>,
    heads: Vec<Option<CadenceMoment>>,
    after_ms: i64,
}

impl Iterator for Walk<'_> {
    type Item = DueTime;

    fn next(&mut self) -> Option<DueTime> {
        let plan = self.plan;
        for (cadence, head) in plan.cadences.iter().zip(&mut self.heads) {
            if head.is_none_or(|head| head.at_ms <= self.after_ms) {
                *head = cadence.rule.next_after(&self.clock, self.after_ms);
            }
        }
        let moments = plan.cadences.iter().zip(&self.heads).filter_map(|(cadence, head)| Some(((*head)?, cadence)));
        let (moment, cadence) = moments.min_by_key(|(moment, _)| (moment.at_ms, moment.shifted))?;
        self.after_ms = moment.at_ms;
        (moment.at_ms <= plan.until_ms).then(|| plan.due(moment, cadence))
    }
}

/// The bounds of a plan that names none.
const NO_BOUNDS: (i64, i64) = (FLOOR_MS, CEILING_MS);

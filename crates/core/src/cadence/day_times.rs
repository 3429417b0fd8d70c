//! Times of day: which minutes of a day a cadence names, and the quiet hours, which may go over midnight.

use super::zone::{CadenceZone, clamp_to_supported};

/// Minutes of a day.
pub(super) const DAY_MINUTES: i64 = 1_440;

/// The minutes of a day at which a cadence is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DayTimes {
    /// Each of these minutes of each of these hours, as cron has it.
    Grid { hours: u32, minutes: u64 },
    /// Listed, ascending.
    Listed(Box<[u16]>),
}

impl DayTimes {
    /// Sorts a list in any order.
    pub(super) fn listed(mut minutes: Vec<u16>) -> Self {
        minutes.sort_unstable();
        minutes.dedup();
        Self::Listed(minutes.into())
    }

    /// The first one from a minute of the day on.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        match self {
            Self::Grid { hours, minutes } => next_in_grid(*hours, *minutes, from),
            Self::Listed(list) => {
                let at = list.partition_point(|minute| i64::from(*minute) < from);
                list.get(at).map(|minute| i64::from(*minute))
            }
        }
    }

    /// How many are before a minute of the day.
    pub(super) fn before(&self, minute: i64) -> u64 {
        match self {
            Self::Listed(list) => list.partition_point(|at| i64::from(*at) < minute) as u64,
            Self::Grid { hours, minutes } => {
                let (hour, rest) = (minute / 60, minute % 60);
                let whole = u64::from((hours & low_bits(hour) as u32).count_ones() * minutes.count_ones());
                let in_hour = if hour < 24 && hours & (1 << hour) != 0 { minutes & low_bits(rest) } else { 0 };
                whole + u64::from(in_hour.count_ones())
            }
        }
    }

    /// All of them, ascending.
    pub(super) fn all(&self) -> impl Iterator<Item = i64> + '_ {
        std::iter::successors(self.next(0), |minute| self.next(minute + 1))
    }
}

/// A number whose lowest `count` bits are set.
fn low_bits(count: i64) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

fn next_in_grid(hours: u32, minutes: u64, from: i64) -> Option<i64> {
    if minutes == 0 || from >= DAY_MINUTES {
        return None;
    }
    let (hour, minute) = (from / 60, from % 60);
    let rest = minutes & !low_bits(minute);
    if hours & (1 << hour) != 0 && rest != 0 {
        return Some(hour * 60 + i64::from(rest.trailing_zeros()));
    }
    let later = hours & !(low_bits(hour + 1) as u32);
    (later != 0).then(|| i64::from(later.trailing_zeros()) * 60 + i64::from(minutes.trailing_zeros()))
}

const MINUTE_MS: i64 = 60_000;

/// A range of minutes of the day; the end is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuietHours {
    pub(super) from: u16,
    pub(super) to: u16,
}

impl QuietHours {
    /// Whether a minute of the day is quiet.
    pub(super) fn has(self, minute: i64) -> bool {
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }

    /// When the quiet hours around an instant end; `None` outside of them.
    pub(super) fn until(self, zone: &CadenceZone, at_ms: i64) -> Option<i64> {
        let started = clamp_to_supported(at_ms);
        let mut at = started;
        // A change of the offset may leave the quiet hours or enter them again; at most a few changes follow each
        // other.
        for _ in 0..8 {
            let stretch = zone.offset_period(at);
            let minute = (at + stretch.offset_ms).div_euclid(MINUTE_MS);
            if !self.has(minute.rem_euclid(DAY_MINUTES)) {
                return (at > started).then_some(at);
            }
            let ahead = (i64::from(self.to) - minute).rem_euclid(DAY_MINUTES);
            let ahead = if ahead == 0 { DAY_MINUTES } else { ahead };
            let end = (minute + ahead) * MINUTE_MS - stretch.offset_ms;
            if end < stretch.to_ms || stretch.to_ms <= at {
                return Some(end);
            }
            at = stretch.to_ms;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_and_list_find_and_count_alike() {
        let grid = DayTimes::Grid { hours: 1 << 2 | 1 << 23, minutes: 1 | 1 << 30 | 1 << 59 };
        let list = DayTimes::listed(vec![1439, 120, 150, 179, 1380, 1410]);
        for minute in 0..=DAY_MINUTES {
            assert_eq!(grid.next(minute), list.next(minute), "{minute}");
            assert_eq!(grid.before(minute), list.before(minute), "{minute}");
        }
        assert_eq!(grid.all().collect::<Vec<_>>(), [120, 150, 179, 1380, 1410, 1439]);
    }
}

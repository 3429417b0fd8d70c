//! Finds an agent that repeats itself: the same lines or messages in the same order, again and again, for minutes. Such
//! an agent would otherwise run until its wall time or its budget is used up. Only hashes are stored.
//!
//! Tool calls do not count: an agent that edits and tests in turn makes the same calls with other content. A burst does
//! not count either: a program may print a table with equal rows, and it is over before anyone could be harmed.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The longest cycle that is found.
const PERIOD_MAX: usize = 8;
/// Lines of a program that may repeat one cycle.
pub(super) const LINES_MAX: usize = 600;
/// Messages of a coding agent that may repeat one cycle.
pub(super) const MESSAGES_MAX: usize = 100;
/// A cycle also has to last for a quarter of the agent's wall time, between these limits. A program may poll a server once
/// a second for that time.
const LASTS_MS: std::ops::RangeInclusive<i64> = 5_000..=900_000;

/// How long a cycle may last for an agent with this wall time.
pub(super) fn cycle_max_ms(wall: Option<Duration>) -> i64 {
    let quarter_ms = wall.map_or(i64::MAX, |wall| i64::try_from(wall.as_millis() / 4).unwrap_or(i64::MAX));
    quarter_ms.clamp(*LASTS_MS.start(), *LASTS_MS.end())
}

/// The last outputs of one stream, and for each length of a cycle how many outputs in a row fit it.
#[derive(Debug)]
pub(super) struct RepetitionDetector {
    most: usize,
    lasts_ms: i64,
    last: VecDeque<u64>,
    runs: [CycleRun; PERIOD_MAX],
}

/// The outputs in a row that fit a cycle of one length.
#[derive(Debug, Clone, Copy, Default)]
struct CycleRun {
    count: usize,
    since_ms: i64,
}

impl RepetitionDetector {
    /// A detector that reports when more than `most` outputs in a row repeat one cycle, for at least this time.
    pub(super) fn new(most: usize, lasts_ms: i64) -> Self {
        Self { most, lasts_ms, last: VecDeque::with_capacity(PERIOD_MAX), runs: [CycleRun::default(); PERIOD_MAX] }
    }

    /// Adds an output; returns whether the agent repeats itself.
    pub(super) fn add(&mut self, output: &[u8], now_ms: i64) -> bool {
        let mut hasher = DefaultHasher::new();
        output.hash(&mut hasher);
        let hash = hasher.finish();
        for (at, run) in self.runs.iter_mut().enumerate() {
            let fits = self.last.get(at).is_some_and(|earlier| *earlier == hash);
            *run =
                if fits { CycleRun { count: run.count + 1, ..*run } } else { CycleRun { count: 0, since_ms: now_ms } };
        }
        self.last.push_front(hash);
        self.last.truncate(PERIOD_MAX);
        self.runs.iter().any(|run| run.count >= self.most && now_ms.saturating_sub(run.since_ms) >= self.lasts_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS_MS: i64 = 900_000;

    #[test]
    fn cycle_may_last_a_quarter_of_the_wall_time() {
        let table =
            [(None, 900_000), (Some(7_200), 900_000), (Some(1_800), 450_000), (Some(60), 15_000), (Some(8), 5_000)];
        for (wall, lasts_ms) in table {
            assert_eq!(cycle_max_ms(wall.map(Duration::from_secs)), lasts_ms, "{wall:?}");
        }
    }

    /// After how many outputs a repetition is found.
    fn found_after<'t>(most: usize, outputs: impl Iterator<Item = &'t str>) -> Option<usize> {
        found_when(most, LASTS_MS, outputs)
    }

    /// The same with a time between two outputs.
    fn found_when<'t>(most: usize, step_ms: i64, outputs: impl Iterator<Item = &'t str>) -> Option<usize> {
        let (mut detector, mut now_ms) = (RepetitionDetector::new(most, LASTS_MS), 0);
        let mut is_found = |output: &str| {
            now_ms += step_ms;
            detector.add(output.as_bytes(), now_ms)
        };
        outputs.take(10_000).position(&mut is_found).map(|at| at + 1)
    }

    #[test]
    fn a_burst_is_no_repetition_and_a_slow_cycle_needs_both_the_count_and_the_time() {
        let same = || std::iter::repeat("same");
        assert_eq!(found_when(100, 0, same()), None, "however many lines at once");
        assert_eq!(found_when(100, LASTS_MS / 10_000, same()), None);
        assert_eq!(found_when(100, LASTS_MS / 200, same()), Some(201), "the time decides");
        assert_eq!(found_when(100, LASTS_MS, same()), Some(101), "the count decides");
        // A clock that is set back finds nothing.
        assert_eq!(found_when(100, -1_000, same()), None);
    }

    #[test]
    fn one_line_and_a_cycle_of_lines_are_found_and_a_long_report_is_not() {
        assert_eq!(found_after(100, std::iter::repeat("same")), Some(101));
        assert_eq!(found_after(100, ["a", "b", "b"].into_iter().cycle()), Some(103));
        let eight = ["1", "2", "3", "4", "5", "6", "7", "8"];
        assert_eq!(found_after(100, eight.into_iter().cycle()), Some(108));
        let counted: Vec<String> = (0..10_000).map(|number| format!("test {number} ok")).collect();
        assert_eq!(found_after(100, counted.iter().map(String::as_str)), None);
        // A progress line between different lines.
        let mixed = counted.iter().flat_map(|line| [line.as_str(), "waiting"]);
        assert_eq!(found_after(100, mixed), None);
    }

    #[test]
    fn repetition_that_ends_in_time_is_forgotten() {
        let bursts =
            (0..100).flat_map(|burst| std::iter::repeat_n("dot", 99).chain(std::iter::once(["a", "b"][burst % 2])));
        assert_eq!(found_after(100, bursts), None);
    }
}

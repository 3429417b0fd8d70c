//! How many events a loop takes: what is known is not taken again, and beyond a number in a minute the rest become one.

use std::collections::{BTreeMap, HashSet, VecDeque};

/// Signals of one loop in one minute.
pub(super) const PER_MINUTE: u32 = 120;
/// Deliveries that are remembered without asking the store.
const REMEMBERED_MAX: usize = 20_000;
/// Loops that are counted.
const LOOPS_MAX: usize = 20_000;
const MINUTE_MS: i64 = 60_000;

/// What was taken lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    known: HashSet<String>,
    order: VecDeque<String>,
    /// Which minute, and how many in it.
    loops: BTreeMap<String, (i64, u32)>,
}

/// How an event is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// By itself.
    Alone,
    /// With all others of this minute that are too many.
    Together(i64),
    /// It is known.
    Known,
}

impl Pace {
    /// Takes an event for a loop.
    pub(super) fn take(&mut self, place: &str, key: &str, now_ms: i64) -> Taken {
        if self.known.contains(&format!("{place} {key}")) {
            return Taken::Known;
        }
        let minute = now_ms.div_euclid(MINUTE_MS);
        if self.loops.len() >= LOOPS_MAX {
            self.loops.retain(|_, (of, _)| *of == minute);
        }
        let (of, count) = self.loops.entry(place.to_owned()).or_insert((minute, 0));
        if *of != minute {
            (*of, *count) = (minute, 0);
        }
        *count = count.saturating_add(1);
        if *count > PER_MINUTE { Taken::Together(minute) } else { Taken::Alone }
    }

    /// Remembers what is recorded.
    pub(super) fn remember(&mut self, place: &str, key: &str) {
        let name = format!("{place} {key}");
        if self.known.insert(name.clone()) {
            self.order.push_back(name);
        }
        while self.order.len() > REMEMBERED_MAX {
            let oldest = self.order.pop_front().unwrap_or_default();
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_events_in_a_minute_are_a_bounded_number_of_signals() {
        let mut pace = Pace::default();
        let taken: Vec<Taken> = (0..10_000).map(|at| pace.take("r/a", &format!("d{at}"), 5_000)).collect();
        let alone = taken.iter().filter(|taken| **taken == Taken::Alone).count();
        assert_eq!(alone, PER_MINUTE as usize);
        assert!(taken[alone..].iter().all(|taken| *taken == Taken::Together(0)));
        assert_eq!(pace.take("r/b", "d1", 5_000), Taken::Alone, "another loop has its own");
        assert_eq!(pace.take("r/a", "d1", 65_000), Taken::Alone, "and so has another minute");
    }

    #[test]
    fn what_was_recorded_is_known_for_a_while() {
        let mut pace = Pace::default();
        pace.remember("r/a", "d0");
        assert_eq!(pace.take("r/a", "d0", 0), Taken::Known);
        assert_eq!(pace.take("r/b", "d0", 0), Taken::Alone);
        (1..=REMEMBERED_MAX).for_each(|at| pace.remember("r/a", &format!("d{at}")));
        assert_eq!(pace.order.len(), REMEMBERED_MAX);
        assert_eq!(pace.take("r/a", "d0", 0), Taken::Alone);
    }
}

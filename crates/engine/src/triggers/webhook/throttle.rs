//! The limit of events of a loop: known events are ignored, and beyond a number in a minute the rest become one signal.

use std::collections::{BTreeMap, HashSet, VecDeque};

/// The most signals of one loop in one minute.
pub(super) const PER_MINUTE: u32 = 120;
/// The most deliveries that are remembered without a query of the store.
const REMEMBERED_MAX: usize = 20_000;
/// The most loops that are counted.
const LOOPS_MAX: usize = 20_000;
const MINUTE_MS: i64 = 60_000;

/// The recent events.
#[derive(Debug, Default)]
pub(super) struct EventThrottle {
    known: HashSet<String>,
    order: VecDeque<String>,
    /// The minute, and the number of events in it.
    loops: BTreeMap<String, (i64, u32)>,
}

/// The handling of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThrottleDecision {
    /// It becomes a signal of its own.
    Alone,
    /// It joins the other events beyond the limit of this minute.
    Together(i64),
    /// It is already known.
    Known,
}

impl EventThrottle {
    /// Decides how an event of a loop is handled.
    pub(super) fn admit(&mut self, place: &str, key: &str, now_ms: i64) -> ThrottleDecision {
        if self.known.contains(&format!("{place} {key}")) {
            return ThrottleDecision::Known;
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
        if *count > PER_MINUTE { ThrottleDecision::Together(minute) } else { ThrottleDecision::Alone }
    }

    /// Remembers a recorded event.
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
        let mut pace = EventThrottle::default();
        let taken: Vec<ThrottleDecision> = (0..10_000).map(|at| pace.admit("r/a", &format!("d{at}"), 5_000)).collect();
        let alone = taken.iter().filter(|taken| **taken == ThrottleDecision::Alone).count();
        assert_eq!(alone, PER_MINUTE as usize);
        assert!(taken[alone..].iter().all(|taken| *taken == ThrottleDecision::Together(0)));
        assert_eq!(pace.admit("r/b", "d1", 5_000), ThrottleDecision::Alone, "another loop has its own");
        assert_eq!(pace.admit("r/a", "d1", 65_000), ThrottleDecision::Alone, "and so has another minute");
    }

    #[test]
    fn recorded_events_are_known_for_a_while() {
        let mut pace = EventThrottle::default();
        pace.remember("r/a", "d0");
        assert_eq!(pace.admit("r/a", "d0", 0), ThrottleDecision::Known);
        assert_eq!(pace.admit("r/b", "d0", 0), ThrottleDecision::Alone);
        (1..=REMEMBERED_MAX).for_each(|at| pace.remember("r/a", &format!("d{at}")));
        assert_eq!(pace.order.len(), REMEMBERED_MAX);
        assert_eq!(pace.admit("r/a", "d0", 0), ThrottleDecision::Alone);
    }
}

//! Every zone of the bundled database, around every change of its offset from 1970 to 2100: the due times are exactly
//! the times that the wall clock shows, in order, each once.

use super::*;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

const AROUND: SignedDuration = SignedDuration::from_hours(3);
const QUARTER: SignedDuration = SignedDuration::from_mins(15);

/// Both kinds of calendar cadence, every quarter of an hour.
const FIXED: &str = "0,15,30,45 0-23 * * *";
const WILD: &str = "*/15 * * * *";

/// A change of the offset, and the due times around it according to the offsets of the zone alone. (The library's own
/// search for the instants of a wall time errs where the rule for the future begins, as in `America/Nuuk` in 2023.)
struct Around<'z> {
    zone: &'z TimeZone,
    change: Timestamp,
}

impl Around<'_> {
    fn ends(&self) -> (Timestamp, Timestamp) {
        (self.change - AROUND, self.change + AROUND)
    }

    /// The two ends of the range, and the instants before and after the change.
    fn moments(&self) -> [Timestamp; 4] {
        let (from, to) = self.ends();
        [from, self.change - SignedDuration::from_secs(1), self.change, to]
    }

    /// The quarter hours of the wall clock from well before the change to well after it.
    fn walls(&self) -> impl Iterator<Item = DateTime> {
        let shown = self.moments().map(|at| self.zone.to_datetime(at));
        let (low, high) =
            shown.iter().fold((shown[0], shown[0]), |(low, high), wall| (low.min(*wall), high.max(*wall)));
        let low =
            low.with().minute(low.minute() / 15 * 15).second(0).subsec_nanosecond(0).build().expect("a wall time");
        std::iter::successors(Some(low), |wall| wall.checked_add(QUARTER).ok()).take_while(move |wall| *wall <= high)
    }

    /// The instants at which the wall clock shows a time, found by checking every instant in question.
    fn shown(&self, wall: DateTime) -> Vec<i64> {
        let offsets: BTreeSet<_> = self.moments().map(|at| self.zone.to_offset(at)).into_iter().collect();
        let instants = offsets.into_iter().rev().filter_map(|offset| {
            let at = offset.to_timestamp(wall).ok()?;
            (self.zone.to_offset(at) == offset).then(|| at.as_millisecond())
        });
        instants.collect()
    }

    fn expected(&self, kind: &str) -> Vec<(i64, bool)> {
        let (from, to) = self.ends();
        let mut dues = BTreeSet::new();
        for wall in self.walls() {
            let shown = self.shown(wall);
            match shown.first() {
                Some(first) if kind == FIXED => dues.extend([(*first, false)]),
                Some(_) => dues.extend(shown.iter().map(|at| (*at, false))),
                None if kind == FIXED => dues.extend([(self.change.as_millisecond(), true)]),
                None => {}
            }
        }
        // The instant after the gap may be an occurrence itself.
        let own: Vec<i64> = dues.iter().filter(|(_, shifted)| !shifted).map(|(at, _)| *at).collect();
        let inside = |at: i64| from.as_millisecond() < at && at <= to.as_millisecond();
        dues.into_iter().filter(|(at, shifted)| inside(*at) && !(*shifted && own.contains(at))).collect()
    }

    fn found(&self, schedule: &LoopSchedule) -> Vec<(i64, bool)> {
        let (from, to) = self.ends();
        let dues = schedule.coming(from.as_millisecond()).take_while(|due| due.at_ms <= to.as_millisecond());
        dues.map(|due| (due.at_ms, due.shifted)).collect()
    }
}

/// The offset changes of a zone. A change that recurs at the same wall time each year is checked once in twenty years.
fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    let (from, to) = (ms("1970-01-01T00:00:00Z"), ms("2100-12-31T00:00:00Z"));
    let from = Timestamp::from_millisecond(from).expect("an instant");
    let mut seen = BTreeSet::new();
    let changes = zone.following(from).map(|change| change.timestamp()).take_while(|at| at.as_millisecond() < to);
    let kept = changes.filter(|at| {
        let before = *at - SignedDuration::from_secs(1);
        let era = at.as_second() / (20 * 366 * 86_400);
        let wall = zone.to_datetime(*at).time();
        seen.insert((era, zone.to_offset(before).seconds(), zone.to_offset(*at).seconds(), wall))
    });
    kept.collect()
}

#[test]
fn every_zone_is_due_when_its_wall_clock_shows_the_time() {
    let mut looked_at = BTreeSet::new();
    let (mut zones, mut count) = (0, 0);
    for name in CadenceZone::names() {
        let zone = TimeZoneDatabase::bundled().get(&name).expect("a zone of the list");
        let changes = changes(&zone);
        zones += 1;
        // Many names are links to one zone.
        let print: Vec<_> = changes.iter().map(|at| (*at, zone.to_offset(*at).seconds())).collect();
        if !looked_at.insert(print) {
            continue;
        }
        let schedules = [FIXED, WILD].map(|kind| (kind, schedule(&[kind], &name)));
        for change in changes {
            count += 1;
            let around = Around { zone: &zone, change };
            for (kind, schedule) in &schedules {
                let found = around.found(schedule);
                assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{name} {change} {kind}: strictly in order");
                assert_eq!(found, around.expected(kind), "{name} {change} {kind}");
            }
        }
    }
    assert!(
        zones > 500 && looked_at.len() > 250 && count > 2_500,
        "{zones} names, {} zones, {count} changes",
        looked_at.len()
    );
}

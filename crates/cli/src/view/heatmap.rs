//! The coming days as a heat map: a line for each day, a mark for each hour, darker where more is due. It gets coarser
//! on a narrow terminal, and is left out on a very narrow one.

use super::schedule::{PlannedLoop, ScheduleStatus};
use crate::output::TextStyle;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use std::collections::BTreeMap;

/// The most days in a heat map.
const DAYS_MAX: u16 = 14;
/// The width of the label before the marks: `sun 15  `.
const LABEL: usize = 8;
/// From no starts to the most.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
const HOUR_MS: i64 = 3_600_000;

/// The number of starts in each hour of the wall clock.
pub(crate) struct ScheduleHeatmap {
    /// Days with their future hours.
    days: BTreeMap<Date, [Option<u64>; 24]>,
    zone: String,
}

/// The size of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    /// Hours in a mark.
    hours: usize,
    /// Columns of a mark.
    columns: usize,
}

impl Scale {
    /// The finest scale that fits.
    fn fitting(width: usize) -> Option<Self> {
        let scales = [(1, 2), (1, 1), (2, 1), (3, 1), (4, 1), (6, 1)];
        let scales = scales.into_iter().map(|(hours, columns)| Self { hours, columns });
        scales.into_iter().find(|scale| LABEL + 24 / scale.hours * scale.columns <= width)
    }
}

impl ScheduleHeatmap {
    /// Counts the starts in each hour; occurrences that quiet hours, a pause or a wait block do not start.
    pub(crate) fn from_loops(loops: &[PlannedLoop], now_ms: i64, days: u16, zone: &TimeZone) -> Self {
        let upto_ms = now_ms.saturating_add(i64::from(days.min(DAYS_MAX)) * 24 * HOUR_MS);
        let mut heat = Self { days: BTreeMap::new(), zone: zone.iana_name().unwrap_or("UTC").to_owned() };
        let mut at_ms = now_ms;
        while at_ms < upto_ms {
            let Ok(at) = Timestamp::from_millisecond(at_ms).map(|at| at.to_zoned(zone.clone())) else { break };
            let end_ms = next_hour_ms(&at).min(upto_ms);
            let count: u64 = loops.iter().map(|planned| planned.starts(at_ms, end_ms)).sum();
            let hour = &mut heat.days.entry(at.date()).or_insert([None; 24])[usize::from(at.hour().unsigned_abs())];
            *hour = Some(hour.unwrap_or(0) + count);
            at_ms = end_ms;
        }
        heat
    }

    /// The heat map; `None` if the terminal is too narrow.
    pub(crate) fn render(&self, width: usize, paint: &dyn Fn(TextStyle, &str) -> String) -> Option<String> {
        let scale = Scale::fitting(width)?;
        let rows: Vec<(String, Vec<Option<u64>>)> =
            self.days.iter().map(|(date, hours)| (label(*date), coarser(hours, scale.hours))).collect();
        let most = rows.iter().flat_map(|(_, marks)| marks).flatten().copied().max().unwrap_or(0);
        let mut lines = vec![paint(TextStyle::Dim, &self.heading(scale))];
        for (label, marks) in rows {
            let marks: String = marks.into_iter().map(|count| mark(count, most, scale.columns, paint)).collect();
            lines.push(format!("{label:<LABEL$}{marks}").trim_end().to_owned());
        }
        lines.extend(
            self.legend(most, scale.hours)
                .filter(|line| line.chars().count() <= width)
                .map(|line| paint(TextStyle::Dim, &line)),
        );
        Some(lines.join("\n"))
    }

    /// Every sixth hour above its mark, as far as it fits.
    fn heading(&self, scale: Scale) -> String {
        let mut heading = " ".repeat(LABEL);
        for hour in [0, 6, 12, 18] {
            let column = LABEL + hour / scale.hours * scale.columns;
            if heading.trim_end().len() < column || hour == 0 {
                heading = format!("{heading:<column$}{hour:02}");
            }
        }
        heading
    }

    fn legend(&self, most: u64, hours: usize) -> impl Iterator<Item = String> {
        let span = if hours == 1 { "an hour".to_owned() } else { format!("in {hours} hours") };
        let shades = format!("{} to {} is 0 to {most} starts {span}", SHADES[0], SHADES[4]);
        [shades, format!("times are {}", self.zone)].into_iter()
    }
}

impl PlannedLoop {
    /// The number of rounds that would start from one moment on and before another.
    fn starts(&self, from_ms: i64, to_ms: i64) -> u64 {
        let from_ms = match &self.status {
            ScheduleStatus::Paused(_) => return 0,
            ScheduleStatus::Waits { until_ms, .. } => from_ms.max(*until_ms),
            ScheduleStatus::Active => from_ms,
        };
        if from_ms >= to_ms {
            return 0;
        }
        let (first, last) = (self.schedule.quiet_until(from_ms), self.schedule.quiet_until(to_ms - 1));
        match (first, last) {
            (None, None) => self.schedule.count_between(from_ms - 1, to_ms - 1),
            (Some(end), _) if end >= to_ms => 0,
            _ => self.starts_one_by_one(from_ms, to_ms),
        }
    }

    /// The same in an hour in which quiet hours begin or end: checks each occurrence.
    fn starts_one_by_one(&self, from_ms: i64, to_ms: i64) -> u64 {
        let dues = self.schedule.coming(from_ms - 1).take_while(|due| due.at_ms < to_ms);
        dues.filter(|due| self.schedule.quiet_until(due.at_ms).is_none()).count() as u64
    }
}

/// The first instant of the next hour on the wall clock.
fn next_hour_ms(at: &Zoned) -> i64 {
    let into = SignedDuration::new(i64::from(at.minute()) * 60 + i64::from(at.second()), at.subsec_nanosecond());
    let rest = SignedDuration::from_hours(1) - into;
    at.timestamp().as_millisecond() + i64::try_from(rest.as_millis()).unwrap_or(HOUR_MS).max(1)
}

fn label(date: Date) -> String {
    date.strftime("%a %d").to_string().to_lowercase()
}

/// Several hours as one.
fn coarser(hours: &[Option<u64>; 24], size: usize) -> Vec<Option<u64>> {
    let sum = |part: &[Option<u64>]| part.iter().flatten().copied().reduce(|a, b| a + b);
    hours.chunks(size).map(sum).collect()
}

fn mark(count: Option<u64>, most: u64, columns: usize, paint: &dyn Fn(TextStyle, &str) -> String) -> String {
    let text = |shade: char| shade.to_string().repeat(columns);
    match count {
        None => text(' '),
        Some(0) => paint(TextStyle::Dim, &text(SHADES[0])),
        Some(count) => paint(TextStyle::Green, &text(SHADES[shade(count, most)])),
    }
}

/// 1 to 4, by quarters of the most.
fn shade(count: u64, most: u64) -> usize {
    let quarters = u128::from(count) * 4;
    usize::try_from(quarters.div_ceil(u128::from(most.max(1)))).unwrap_or(4).clamp(1, 4)
}

//! P10 and P1 by independent arithmetic: the due times of each loop's grid, and the receipts that stand for them.

use super::fleet::{JITTER_MS, World};
use loopwright::spec::CheckedSpec;
use loopwright::store::{ReceiptRow, ScheduleRow};

/// A loop's cadence from one edit to the next. It starts between two known times: at the earlier one it was not in the
/// loop's file, and at the later one it was on record.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) every_ms: i64,
    fingerprint: String,
    /// The cadence as receipts store it.
    text: String,
    low_ms: i64,
    high_ms: Option<i64>,
}

impl Stretch {
    pub(crate) fn new(spec: &CheckedSpec, world: &World, now_ms: i64) -> Self {
        let schedule = world.entry(spec).schedule;
        Self {
            every_ms: i64::try_from(spec.on.every[0].duration().as_millis()).unwrap_or(1),
            fingerprint: schedule.fingerprint().to_owned(),
            text: schedule.next_after(0).map(|due| due.cadence.to_string()).unwrap_or_default(),
            low_ms: now_ms,
            high_ms: None,
        }
    }

    /// The clock was set before the cadence was on record.
    pub(crate) fn see_clock(&mut self, now_ms: i64) {
        if self.high_ms.is_none() {
            self.low_ms = self.low_ms.min(now_ms);
        }
    }

    /// Checks whether it is on record.
    pub(crate) fn see_record(&mut self, row: Option<&ScheduleRow>, seen_ms: i64) {
        if self.high_ms.is_none() && row.is_some_and(|row| row.fingerprint == self.fingerprint) {
            self.high_ms = Some(seen_ms);
        }
    }

    /// The first due time of the grid after another time.
    fn after(&self, ms: i64) -> i64 {
        (ms.div_euclid(self.every_ms) + 1) * self.every_ms
    }

    /// Whether a receipt may be the first of this stretch.
    fn may_begin(&self, receipt: &ReceiptRow) -> bool {
        let latest_ms = self.high_ms.map_or(i64::MAX, |high_ms| self.after(high_ms));
        receipt.due_ms % self.every_ms == 0 && (self.after(self.low_ms)..=latest_ms).contains(&receipt.due_ms)
    }

    /// The last due time that must have its receipt by now.
    fn last_ms(&self, now_ms: i64) -> Option<i64> {
        let last_ms = (now_ms - JITTER_MS).div_euclid(self.every_ms) * self.every_ms;
        Some(last_ms).filter(|last_ms| self.high_ms.is_some_and(|high_ms| *last_ms > high_ms))
    }
}

/// Whether every due time up to the mark has its receipt.
pub(crate) fn is_caught_up(stretches: &[Stretch], mark_ms: i64, now_ms: i64) -> bool {
    let last = stretches.last().expect("every loop has a cadence");
    last.high_ms.is_some() && last.last_ms(now_ms).is_none_or(|last_ms| last_ms <= mark_ms)
}

/// The last due time that a receipt stands for.
pub(crate) fn through_ms(receipt: &ReceiptRow) -> i64 {
    receipt.through_ms.unwrap_or(receipt.due_ms)
}

pub(crate) fn is_due(receipt: &&ReceiptRow) -> bool {
    receipt.occurrence.starts_with("due:")
}

/// Every due time from the first registration to now is in exactly one receipt, none is invented, and the mark is at
/// the end of the receipts; returns their number. An edited cadence starts when it was edited, and due times of the old
/// one may be missing then.
pub(crate) fn covers(
    name: &str,
    receipts: &[ReceiptRow],
    stretches: &[Stretch],
    mark_ms: i64,
    now_ms: i64,
) -> Result<u64, String> {
    let mut moments = 0;
    let mut at = 0;
    let mut next_ms: Option<i64> = None;
    for receipt in receipts.iter().filter(is_due) {
        let fits = |at: usize, next_ms: Option<i64>| {
            let stretch: &Stretch = &stretches[at];
            let is_next = next_ms.map_or_else(|| stretch.may_begin(receipt), |next_ms| next_ms == receipt.due_ms);
            is_next && receipt.trigger == stretch.text
        };
        let before = (at, next_ms);
        while !fits(at, next_ms) {
            (at, next_ms) = (at + 1, None);
            if at == stretches.len() {
                let (at, next_ms) = before;
                let stretch = &stretches[at];
                return Err(format!("P10: {name} was due at {next_ms:?} of {stretch:?} and has {receipt:?}"));
            }
        }
        let stretch = &stretches[at];
        let span_ms = through_ms(receipt) - receipt.due_ms;
        if span_ms % stretch.every_ms != 0 || span_ms / stretch.every_ms + 1 != receipt.count {
            return Err(format!("P10: {name} counts wrong: {receipt:?}"));
        }
        moments += receipt.count.unsigned_abs();
        next_ms = Some(stretch.after(through_ms(receipt)));
        if through_ms(receipt) > mark_ms {
            return Err(format!("P10: {name} has its mark at {mark_ms}, and {receipt:?}"));
        }
    }
    let last = stretches.last().expect("every loop has a cadence");
    let next_ms = next_ms.filter(|_| at + 1 == stretches.len()).or_else(|| last.high_ms.map(|ms| last.after(ms)));
    let Some(next_ms) = next_ms else { return Err(format!("P10: {name} never got on record: {last:?}")) };
    if next_ms + JITTER_MS <= now_ms || (at + 1 == stretches.len() && !receipts.is_empty() && next_ms <= mark_ms) {
        return Err(format!(
            "P10: {name} was due at {next_ms}; the mark is {mark_ms}, the clock {now_ms}, and no receipt"
        ));
    }
    Ok(moments)
}

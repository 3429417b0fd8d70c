//! Decides about occurrences that have become due: they wait to be started, or are skipped with a reason.

use super::output::DispatchOutput;
use super::receipt::{self, format_moment};
use super::scheduled_loop::ScheduledLoop;
use super::{OccurrenceOutcome, OccurrenceReceipt};
use crate::cadence::{DueRange, DueTime};
use crate::spec::{CatchUp, Overlap};

/// When several due times have arrived at once, the latest ones are decided one by one, at most this many.
const LOOK_BACK: usize = 24;

/// The state around a loop at the moment its due times arrive.
pub(super) struct ArrivalContext<'a> {
    pub(super) now_ms: i64,
    /// The round that is running.
    pub(super) round: Option<&'a str>,
    /// Why the loop starts nothing at all.
    pub(super) closed: Option<(OccurrenceOutcome, String)>,
}

/// Processes the due times that have arrived. Returns whether a new one waits now.
pub(super) fn take_due(member: &mut ScheduledLoop, around: &ArrivalContext<'_>, out: &mut DispatchOutput) -> bool {
    let keep = match member.entry.catch_up {
        CatchUp::All(most) => usize::try_from(most).unwrap_or(usize::MAX).max(LOOK_BACK),
        CatchUp::Once | CatchUp::Skip => LOOK_BACK,
    };
    let came = member.entry.schedule.between(member.cursor_ms, around.now_ms, keep);
    let Some(last) = came.kept.last() else {
        member.set_cursor(member.cursor_ms);
        return false;
    };
    member.set_cursor(last.at_ms);
    let waited_ms = member.since_ms;
    let fates: Vec<_> = came.kept.iter().map(|due| decide_due(member, around, due)).collect();
    let waits = fates.iter().any(Option::is_none);
    if let Some(receipt) = earlier_receipt(member, around, &came, if waits { Waits::Some } else { Waits::None }) {
        member.skip(receipt, out);
    }
    for (due, fate) in came.kept.into_iter().zip(fates) {
        match fate {
            None => member.enqueue(due, out, around.now_ms),
            Some((fate, reason)) => member.skip(member.receipt_for(&due, fate, reason, around.now_ms), out),
        }
    }
    if waited_ms.is_none() {
        member.since_ms = member.pending.front().map(|waiting| waiting.due.start_ms);
    }
    waits
}

/// Records the due times that passed while the clock was not trusted. The store leaves out those that have a receipt
/// already, from before the clock went back.
pub(super) fn skip_untrusted(member: &ScheduledLoop, from_ms: i64, now_ms: i64, out: &mut DispatchOutput) {
    if from_ms > now_ms {
        return;
    }
    let passed = member.entry.schedule.between(from_ms.saturating_sub(1), now_ms, LOOK_BACK);
    let reason = "was due while the clock was behind the last recorded moment";
    if let (Some(from_ms), Some(first)) = (passed.earlier_from_ms, passed.kept.first()) {
        let name = (member.key(), receipt::occurrence_key(from_ms));
        let fate = (OccurrenceOutcome::Missed, reason.to_owned());
        let run = OccurrenceReceipt::new(name, (from_ms, &first.cadence), fate, now_ms);
        out.add_receipt(OccurrenceReceipt { count: passed.earlier, through_ms: passed.earlier_through_ms, ..run });
    }
    for due in &passed.kept {
        out.add_receipt(member.receipt_for(due, OccurrenceOutcome::Missed, reason.to_owned(), now_ms));
    }
}

/// Whether a later due time of the same arrival waits.
enum Waits {
    Some,
    None,
}

/// The outcome of one due time; `None` if it waits to be started.
fn decide_due(
    member: &ScheduledLoop,
    around: &ArrivalContext<'_>,
    due: &DueTime,
) -> Option<(OccurrenceOutcome, String)> {
    let is_late = around.now_ms.saturating_sub(due.start_ms) > member.entry.schedule.grace_ms();
    if let Some(shut) = &around.closed {
        return Some(shut.clone());
    }
    if is_late && member.entry.catch_up == CatchUp::Skip {
        return Some((
            OccurrenceOutcome::Missed,
            "was due while no scheduler was running (`catch_up: skip`)".to_owned(),
        ));
    }
    // The moment without jitter decides. Otherwise a stable jitter could move every start into quiet hours; a start that
    // jitter delays into them waits for their end.
    if let Some(until_ms) = member.entry.schedule.quiet_until(due.at_ms) {
        return Some((OccurrenceOutcome::Quiet, format!("inside quiet hours until {}", format_moment(until_ms))));
    }
    held_back(member, around)
}

/// The reason that blocks every due time that arrives now, regardless of when it was due.
fn held_back(member: &ScheduledLoop, around: &ArrivalContext<'_>) -> Option<(OccurrenceOutcome, String)> {
    if let Some(round) = around.round.filter(|_| member.entry.overlap == Overlap::Skip) {
        return Some((OccurrenceOutcome::Overlap, format!("round {round} was still running")));
    }
    if let Some(wait) = member.standing.wait.as_ref().filter(|wait| wait.until_ms > around.now_ms) {
        return Some((
            OccurrenceOutcome::Backoff,
            format!("backing off until {}: {}", format_moment(wait.until_ms), wait.why),
        ));
    }
    let most = member.entry.open_max;
    (member.open >= most)
        .then(|| (OccurrenceOutcome::OpenMax, format!("{} proposals are open, at most {most} may be", member.open)))
}

/// One receipt for all due times before those that are decided one by one.
fn earlier_receipt(
    member: &ScheduledLoop,
    around: &ArrivalContext<'_>,
    came: &DueRange,
    waits: Waits,
) -> Option<OccurrenceReceipt> {
    let (from_ms, through_ms) = (came.earlier_from_ms?, came.earlier_through_ms?);
    let first = came.kept.first()?;
    let missed = |why: &str| (OccurrenceOutcome::Missed, why.to_owned());
    let (fate, reason) = match (around.closed.clone().or_else(|| held_back(member, around)), member.entry.catch_up) {
        (Some(held), _) => held,
        (None, CatchUp::Once) if matches!(waits, Waits::Some) => {
            (OccurrenceOutcome::Coalesced, "a later occurrence replaces it".to_owned())
        }
        (None, CatchUp::All(most)) => missed(&format!("more than {most} were waiting (`catch_up`)")),
        (None, CatchUp::Skip) => missed("was due while no scheduler was running (`catch_up: skip`)"),
        (None, CatchUp::Once) => missed("was due while no scheduler was running"),
    };
    let name = (member.key(), receipt::occurrence_key(from_ms));
    Some(OccurrenceReceipt {
        count: came.earlier,
        through_ms: (came.earlier > 1).then_some(through_ms),
        ..OccurrenceReceipt::new(name, (from_ms, &first.cadence), (fate, reason), around.now_ms)
    })
}

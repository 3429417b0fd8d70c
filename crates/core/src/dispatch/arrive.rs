//! What becomes of due moments when their time has come: they wait to be started, or are skipped with a reason.

use super::member::Member;
use super::out::Out;
use super::receipt::{self, moment};
use super::{Fate, LATE_MS, Receipt};
use crate::cadence::{Between, Due};
use crate::spec::{CatchUp, Overlap};
use std::sync::Arc;

/// How many dues are looked at one by one when several have come at once.
const LOOK_BACK: usize = 24;

/// What is so around a loop when dues arrive.
pub(super) struct Around<'a> {
    pub(super) now_ms: i64,
    /// The round that runs.
    pub(super) round: Option<&'a str>,
    /// Why nothing of the loop starts at all.
    pub(super) shut: Option<(Fate, String)>,
}

/// Takes in the dues that have come. Says whether a new one waits now.
pub(super) fn arrive(member: &mut Member, around: &Around<'_>, out: &mut Out) -> bool {
    let keep = match member.entry.catch_up {
        CatchUp::All(most) => usize::try_from(most).unwrap_or(usize::MAX).max(LOOK_BACK),
        CatchUp::Once | CatchUp::Skip => LOOK_BACK,
    };
    let came = member.entry.schedule.between(member.cursor_ms, around.now_ms, keep);
    let Some(last) = came.kept.last() else {
        member.look_from(member.cursor_ms);
        return false;
    };
    member.look_from(last.at_ms);
    let waited_ms = member.since_ms;
    let fates: Vec<_> = came.kept.iter().map(|due| judge(member, around, due)).collect();
    let waits = fates.iter().any(Option::is_none);
    if let Some(receipt) = of_earlier(member, around, &came, if waits { Waits::Some } else { Waits::None }) {
        member.skip(receipt, out);
    }
    for (due, fate) in came.kept.into_iter().zip(fates) {
        match fate {
            None => member.push(due, out, around.now_ms),
            Some((fate, reason)) => member.skip(member.receipt_of(&due, fate, reason, around.now_ms), out),
        }
    }
    if waited_ms.is_none() {
        member.since_ms = member.line.front().map(|waiting| waiting.due.start_ms);
    }
    waits
}

/// Whether a later due of the same arrival waits.
enum Waits {
    Some,
    None,
}

/// What becomes of one due; nothing when it waits to be started.
fn judge(member: &Member, around: &Around<'_>, due: &Due) -> Option<(Fate, String)> {
    let is_late = around.now_ms.saturating_sub(due.start_ms) > LATE_MS;
    if let Some(shut) = &around.shut {
        return Some(shut.clone());
    }
    if is_late && member.entry.catch_up == CatchUp::Skip {
        return Some((Fate::Missed, "came while nobody looked (`catch_up: skip`)".to_owned()));
    }
    if let Some(until_ms) = member.entry.schedule.quiet_until(due.start_ms) {
        return Some((Fate::Quiet, format!("inside quiet hours until {}", moment(until_ms))));
    }
    held_back(member, around)
}

/// What holds back every due that comes now, whenever it was due.
fn held_back(member: &Member, around: &Around<'_>) -> Option<(Fate, String)> {
    if let Some(round) = around.round.filter(|_| member.entry.overlap == Overlap::Skip) {
        return Some((Fate::Overlap, format!("round {round} was still running")));
    }
    if let Some(wait) = member.standing.wait.as_ref().filter(|wait| wait.until_ms > around.now_ms) {
        return Some((Fate::Backoff, format!("backing off until {}: {}", moment(wait.until_ms), wait.why)));
    }
    let most = member.entry.open_max;
    (member.open >= most).then(|| (Fate::OpenMax, format!("{} proposals are open, at most {most} may be", member.open)))
}

/// The dues before those that are looked at one by one, as one receipt.
fn of_earlier(member: &Member, around: &Around<'_>, came: &Between, waits: Waits) -> Option<Receipt> {
    let (from_ms, through_ms) = (came.earlier_from_ms?, came.earlier_through_ms?);
    let first = came.kept.first()?;
    let missed = |why: &str| (Fate::Missed, why.to_owned());
    let (fate, reason) = match (around.shut.clone().or_else(|| held_back(member, around)), member.entry.catch_up) {
        (Some(held), _) => held,
        (None, CatchUp::Once) if matches!(waits, Waits::Some) => {
            (Fate::Coalesced, "a later occurrence stands for it".to_owned())
        }
        (None, CatchUp::All(most)) => missed(&format!("more than {most} were waiting (`catch_up`)")),
        (None, CatchUp::Skip) => missed("came while nobody looked (`catch_up: skip`)"),
        (None, CatchUp::Once) => missed("came while nobody looked"),
    };
    Some(Receipt {
        key: member.key().clone(),
        occurrence: receipt::occurrence(from_ms),
        due_ms: from_ms,
        trigger: Arc::clone(&first.cadence),
        fate,
        reason,
        round: None,
        count: came.earlier,
        through_ms: (came.earlier > 1).then_some(through_ms),
        at_ms: around.now_ms,
    })
}

//! Remember: the memories that a round's end leaves for later rounds of its loop, and their recall. A maker's own notes
//! are kept only if its round was accepted; the engine itself records failures and people's decisions. Makers see all
//! of it as data; checkers do not see it.

use crate::store::{MemoryRow, RowChange};
use loopwright_core::memory::{self, MemoryEntry, MemoryKind};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::Round;
use loopwright_core::spec::Role;

const DAY_MS: i64 = 86_400_000;
/// The most bytes of memory that a round sees; the latest come first.
const SHOWN_MAX: usize = 20 << 10;

/// The memories that the round's end adds and removes.
pub(super) fn memory_rows(round: &Round, outcome: RoundOutcome, now_ms: i64, changes: &mut Vec<RowChange>) {
    let facts = round.facts();
    if facts.started.dry_run {
        return;
    }
    let (repo, loop_name) = (facts.started.repo.clone(), facts.started.spec.name.clone());
    let row = |key: String, kind: MemoryKind, text: String, role: &str, days: u32| {
        RowChange::Memory(MemoryRow {
            repo: repo.clone(),
            loop_name: loop_name.clone(),
            key,
            kind: kind.word().to_owned(),
            text,
            round: facts.started.round.clone(),
            role: role.to_owned(),
            at_ms: now_ms,
            expires_ms: Some(now_ms.saturating_add(i64::from(days).saturating_mul(DAY_MS))),
        })
    };
    // A failure of several items is recorded for the first one, which the next round takes alone.
    let failure = memory::failure_key(facts.items.first().map(|item| item.key.as_str()));
    let before = changes.len();
    match outcome {
        RoundOutcome::Shipped | RoundOutcome::Reported => {
            // The earlier failures are resolved.
            let others = facts.items.iter().skip(1).map(|item| memory::failure_key(Some(&item.key)));
            changes.extend(std::iter::once(failure).chain(others).map(|key| RowChange::MemoryGone {
                repo: repo.clone(),
                loop_name: loop_name.clone(),
                key: Some(key),
            }));
            let notes = facts.attempt().map(|attempt| attempt.notes.as_slice()).unwrap_or_default();
            let maker = Role::Maker.word();
            changes.extend(notes.iter().cloned().map(|note| row(note.key, note.kind, note.text, maker, note.days)));
        }
        RoundOutcome::Rejected if is_denied(round) => {
            let (kind, key) = (MemoryKind::Decision, memory::decision_key(&facts.started.round));
            changes.push(row(key, kind, outcome_text(round, outcome), memory::ENGINE, kind.days()));
        }
        RoundOutcome::Rejected
        | RoundOutcome::Empty
        | RoundOutcome::Plateaued
        | RoundOutcome::Cannot
        | RoundOutcome::OverBudget
        | RoundOutcome::Refused
        | RoundOutcome::Failed => {
            let kind = MemoryKind::Failure;
            changes.push(row(failure, kind, outcome_text(round, outcome), memory::ENGINE, kind.days()));
        }
        // These outcomes say nothing about the work.
        RoundOutcome::NothingToDo
        | RoundOutcome::Escalated
        | RoundOutcome::RateLimited
        | RoundOutcome::Interrupted
        | RoundOutcome::Cancelled => {}
    }
    if changes.len() > before {
        changes.push(RowChange::MemoryKept { repo, loop_name, most: memory::LOOP_MAX });
    }
}

fn is_denied(round: &Round) -> bool {
    round.facts().reasons.last().is_some_and(|reason| reason.code == "denied")
}

/// The outcome and its reasons, the latest first, because that one decided.
fn outcome_text(round: &Round, outcome: RoundOutcome) -> String {
    let reasons = round.facts().reasons.iter().rev().map(|reason| reason.text.as_str());
    let reasons: Vec<_> = reasons.take(5).collect();
    memory::clipped(&format!("{}: {}", outcome.word(), reasons.join("; ")))
}

/// The memories that a round sees: those that have not expired, the latest first, as many as fit.
pub(super) fn select_memories(rows: Vec<MemoryRow>, now_ms: i64) -> Vec<MemoryEntry> {
    let mut room = SHOWN_MAX;
    let valid = rows.into_iter().filter(|row| row.expires_ms.is_none_or(|at| at > now_ms));
    let fits = valid.take_while(|row| {
        let taken = row.text.len() + row.key.len();
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    });
    fits.map(|MemoryRow { key, kind, text, round, role, .. }| MemoryEntry { key, kind, text, round, role }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, bytes: usize, expires_ms: Option<i64>) -> MemoryRow {
        MemoryRow {
            repo: "r".into(),
            loop_name: "l".into(),
            key: key.into(),
            kind: "fact".into(),
            text: "x".repeat(bytes),
            round: "r1".into(),
            role: "maker".into(),
            at_ms: 1,
            expires_ms,
        }
    }

    #[test]
    fn expired_memories_and_those_that_do_not_fit_are_not_recalled() {
        let keys = |rows: Vec<MemoryRow>| {
            let recalled = select_memories(rows, 100).into_iter();
            recalled.map(|one| one.key).collect::<Vec<_>>().join(",")
        };
        assert_eq!(keys(vec![row("a", 5, None), row("b", 5, Some(100)), row("c", 5, Some(101))]), "a,c");
        let many = (0..30).map(|n| row(&format!("{n:02}"), 998, None)).collect();
        assert_eq!(keys(many).split(',').count(), 20);
    }
}

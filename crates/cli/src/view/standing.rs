//! The state of a round in one word, the same in every view: from its row, and from whether a process runs it.

use super::{CommandError, Store};
use crate::output::TextStyle;
use loopwright::store::{LeaseHolder, RoundRow};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use std::collections::HashSet;

/// The colour of the state of anything that a list shows, by its first word: good, bad, in need of a person, or over.
pub(crate) fn state_look(state: &str) -> Option<TextStyle> {
    match state.split([' ', ',']).next().unwrap_or_default() {
        "running" | "in-flight" => Some(TextStyle::Bold),
        "shipped" | "reported" | "done" | "started" | "passed" | "open" | "ready" => Some(TextStyle::Green),
        "waiting" | "suspended" | "abandoned" | "over-budget" | "rate-limited" | "blocked" | "held" | "low"
        | "missed" | "paused" | "stopped" | "backoff" | "open-max" => Some(TextStyle::Yellow),
        "nothing-to-do" | "cancelled" | "interrupted" | "queued" | "unlimited" | "coalesced" | "no-work" | "quiet"
        | "overlap" | "skipped" => Some(TextStyle::Dim),
        "failed" | "rejected" | "refused" | "full" | "empty" | "cannot" | "plateaued" | "escalated" => {
            Some(TextStyle::Red)
        }
        _ => None,
    }
}

/// Explains an abandoned round.
pub(crate) const ABANDONED: &str =
    "the process that ran it is gone; the next command that changes something recovers the round";

/// The state of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundStanding {
    /// It is over.
    Ended(RoundOutcome),
    /// A process runs it.
    Running(RoundPhase),
    /// It is not over, and no process runs it.
    Abandoned(RoundPhase),
    /// It waits for a person.
    Waiting,
    /// It is suspended with its work kept.
    Suspended(Option<RoundOutcome>),
}

impl RoundStanding {
    /// The one word for this state.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ended(outcome) => outcome.word(),
            Self::Running(_) => "running",
            Self::Abandoned(_) => "abandoned",
            Self::Waiting => "waiting",
            Self::Suspended(_) => "suspended",
        }
    }

    /// The word, with the stage of a round that is not over and the reason of a suspension.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Running(phase) | Self::Abandoned(phase) => format!("{} ({})", self.word(), phase.word()),
            Self::Suspended(Some(outcome)) => format!("suspended ({})", outcome.word()),
            Self::Ended(_) | Self::Waiting | Self::Suspended(None) => self.word().to_owned(),
        }
    }
}

/// The rounds that a process runs.
#[derive(Debug, Default)]
pub(crate) struct LeasedRounds(HashSet<String>);

impl LeasedRounds {
    /// Reads them; without a query if every one of these rounds is at rest.
    pub(crate) async fn read<'r>(
        store: &Store,
        rows: impl IntoIterator<Item = &'r RoundRow>,
    ) -> Result<Self, CommandError> {
        if rows.into_iter().all(|row| row.phase.is_at_rest()) {
            return Ok(Self::default());
        }
        let held = store.leases().await?.into_iter().filter(|lease| lease.holder != LeaseHolder::Gone);
        Ok(Self(held.map(|lease| lease.name).collect()))
    }

    /// These rounds.
    #[cfg(test)]
    pub(crate) fn of(rounds: impl IntoIterator<Item = String>) -> Self {
        Self(rounds.into_iter().collect())
    }

    /// The state of a round.
    pub(crate) fn standing(&self, row: &RoundRow) -> RoundStanding {
        match (row.phase, row.outcome) {
            (RoundPhase::Waiting, _) => RoundStanding::Waiting,
            (RoundPhase::Suspended, outcome) => RoundStanding::Suspended(outcome),
            (RoundPhase::Ended, Some(outcome)) => RoundStanding::Ended(outcome),
            (phase, _) if self.0.contains(&row.id) => RoundStanding::Running(phase),
            (phase, _) => RoundStanding::Abandoned(phase),
        }
    }
}

/// The state of one round.
pub(crate) async fn read_standing(store: &Store, row: &RoundRow) -> Result<RoundStanding, CommandError> {
    Ok(LeasedRounds::read(store, [row]).await?.standing(row))
}

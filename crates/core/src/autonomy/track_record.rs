//! The track record of a loop: the decisions of people about its work, and the fate of the work after it was sent.

use crate::words::worded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

worded! {
    /// The decision about one piece of work before it was sent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WorkDecision {
        /// A person approved it as it was.
        Approved = "approved",
        /// A person denied it.
        Denied = "denied",
        /// The loop's allow list let it proceed at L3.
        Automatic = "automatic",
    }
}

worded! {
    /// The fate of one piece of work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WorkFate {
        /// It was not sent.
        Unsent = "unsent",
        /// It was sent; nothing more is known.
        Sent = "sent",
        /// It was merged as it was.
        Merged = "merged",
        /// People changed it before or while they merged it.
        Edited = "edited",
        /// It was closed without a merge.
        Closed = "closed",
        /// It was merged, and undone later.
        Reverted = "reverted",
    }
}

impl WorkFate {
    /// Whether a person turned the work down after it was sent.
    #[must_use]
    pub fn is_turned_down(self) -> bool {
        matches!(self, Self::Closed | Self::Reverted)
    }

    /// Whether this fate can follow the other one: the fate of work only moves forward.
    #[must_use]
    pub fn may_follow(self, earlier: Self) -> bool {
        match self {
            Self::Unsent => false,
            Self::Sent => earlier == Self::Unsent,
            Self::Merged | Self::Edited => matches!(earlier, Self::Sent | Self::Closed),
            Self::Closed => earlier == Self::Sent,
            Self::Reverted => matches!(earlier, Self::Sent | Self::Merged | Self::Edited),
        }
    }
}

/// One piece of work of a loop, as the record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFact {
    /// The round that staged it.
    pub round: String,
    /// The kind of action.
    pub kind: String,
    /// The decision.
    pub decision: WorkDecision,
    /// Its fate so far.
    pub fate: WorkFate,
}

/// The opinion of people about the work of a round. A part that was turned down outweighs one that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RoundJudgement {
    /// No person has judged it yet.
    Open,
    Accepted,
    TurnedDown,
}

impl WorkFact {
    fn judgement(&self) -> RoundJudgement {
        match (self.decision, self.fate) {
            (WorkDecision::Denied, _) => RoundJudgement::TurnedDown,
            (_, fate) if fate.is_turned_down() => RoundJudgement::TurnedDown,
            (WorkDecision::Automatic, WorkFate::Unsent | WorkFate::Sent) => RoundJudgement::Open,
            _ => RoundJudgement::Accepted,
        }
    }
}

/// The counts for one kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct KindRecord {
    /// Approved by a person.
    pub approved: u32,
    /// Denied by a person.
    pub denied: u32,
    /// Sent without a person.
    pub automatic: u32,
    /// Merged as it was.
    pub merged: u32,
    /// Merged with changes by people.
    pub edited: u32,
    /// Closed without a merge.
    pub closed: u32,
    /// Undone after the merge.
    pub reverted: u32,
}

impl KindRecord {
    fn add(&mut self, work: &WorkFact) {
        let decided = match work.decision {
            WorkDecision::Approved => &mut self.approved,
            WorkDecision::Denied => &mut self.denied,
            WorkDecision::Automatic => &mut self.automatic,
        };
        *decided += 1;
        match work.fate {
            WorkFate::Merged => self.merged += 1,
            WorkFate::Edited => self.edited += 1,
            WorkFate::Closed => self.closed += 1,
            WorkFate::Reverted => self.reverted += 1,
            WorkFate::Unsent | WorkFate::Sent => {}
        }
    }

    /// Work that was accepted as it was: approved or sent, and neither changed nor turned down afterwards.
    #[must_use]
    pub fn accepted(&self) -> u32 {
        let sent = self.approved + self.automatic;
        sent.saturating_sub(self.edited + self.closed + self.reverted)
    }

    /// All decided work.
    #[must_use]
    pub fn decided(&self) -> u32 {
        self.approved + self.denied + self.automatic
    }

    fn plus(self, other: Self) -> Self {
        Self {
            approved: self.approved + other.approved,
            denied: self.denied + other.denied,
            automatic: self.automatic + other.automatic,
            merged: self.merged + other.merged,
            edited: self.edited + other.edited,
            closed: self.closed + other.closed,
            reverted: self.reverted + other.reverted,
        }
    }
}

/// How many planted changes a checker caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CatchRate {
    /// Planted changes with a verdict.
    pub planted: u32,
    /// Those that the checker did not pass.
    pub caught: u32,
}

impl CatchRate {
    /// The rate in percent, rounded down; `None` without a planted change.
    #[must_use]
    pub fn percent(self) -> Option<u32> {
        (self.planted > 0).then(|| self.caught.saturating_mul(100) / self.planted)
    }
}

/// The counted evidence about a loop.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TrackRecord {
    /// The counts for each kind of action.
    pub kinds: BTreeMap<String, KindRecord>,
    /// Rounds that ended with a report.
    pub reports: u32,
    /// Rounds that went over their own budget.
    pub breaches: u32,
    /// How often people turned the work of the last rounds down in a row. Several items of one round are one rejection.
    pub rejections_in_a_row: u32,
    /// The checker's results on planted changes.
    pub calibration: CatchRate,
}

impl TrackRecord {
    /// Counts work, oldest decision first.
    #[must_use]
    pub fn count(work: &[WorkFact]) -> Self {
        let mut record = Self::default();
        let mut rounds: Vec<(&str, RoundJudgement)> = Vec::new();
        for one in work {
            record.kinds.entry(one.kind.clone()).or_default().add(one);
            match rounds.iter_mut().find(|(round, _)| *round == one.round) {
                Some((_, judged)) => *judged = (*judged).max(one.judgement()),
                None => rounds.push((&one.round, one.judgement())),
            }
        }
        let judged = rounds.iter().map(|(_, judged)| *judged).filter(|judged| *judged != RoundJudgement::Open);
        let row = judged.rev().take_while(|judged| *judged == RoundJudgement::TurnedDown);
        record.rejections_in_a_row = u32::try_from(row.count()).unwrap_or(u32::MAX);
        record
    }

    /// The counts of all kinds together.
    #[must_use]
    pub fn total(&self) -> KindRecord {
        self.kinds.values().fold(KindRecord::default(), |sum, one| sum.plus(*one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(decision: WorkDecision, fate: WorkFate) -> WorkFact {
        of_round("", decision, fate)
    }

    fn of_round(round: &str, decision: WorkDecision, fate: WorkFate) -> WorkFact {
        WorkFact { round: round.to_owned(), kind: "pull-request".to_owned(), decision, fate }
    }

    #[test]
    fn each_piece_of_work_is_counted_once_for_its_decision_and_once_for_its_fate() {
        use WorkDecision::{Approved, Automatic, Denied};
        let record = TrackRecord::count(&[
            work(Approved, WorkFate::Merged),
            work(Approved, WorkFate::Edited),
            work(Denied, WorkFate::Unsent),
            work(Automatic, WorkFate::Sent),
            work(Automatic, WorkFate::Reverted),
        ]);
        let all = record.total();
        assert_eq!((all.approved, all.denied, all.automatic), (2, 1, 2));
        assert_eq!((all.merged, all.edited, all.closed, all.reverted), (1, 1, 0, 1));
        assert_eq!((all.accepted(), all.decided()), (2, 5));
    }

    #[test]
    fn rejections_are_counted_in_a_row_by_round_and_open_work_breaks_no_row() {
        use WorkDecision::{Approved, Automatic, Denied};
        let cases: [(&[WorkFact], u32); 7] = [
            (&[], 0),
            (&[of_round("1", Denied, WorkFate::Unsent), of_round("2", Denied, WorkFate::Unsent)], 2),
            (&[of_round("1", Denied, WorkFate::Unsent), of_round("2", Approved, WorkFate::Sent)], 0),
            (
                &[
                    of_round("1", Automatic, WorkFate::Closed),
                    of_round("2", Automatic, WorkFate::Sent),
                    of_round("3", Denied, WorkFate::Unsent),
                ],
                2,
            ),
            (&[of_round("1", Approved, WorkFate::Reverted), of_round("2", Approved, WorkFate::Merged)], 0),
            (
                &[
                    of_round("1", Denied, WorkFate::Unsent),
                    of_round("1", Denied, WorkFate::Unsent),
                    of_round("1", Denied, WorkFate::Unsent),
                ],
                1,
            ),
            (&[of_round("1", Approved, WorkFate::Closed), of_round("1", Approved, WorkFate::Sent)], 1),
        ];
        for (all, expected) in cases {
            assert_eq!(TrackRecord::count(all).rejections_in_a_row, expected, "{all:?}");
        }
    }

    #[test]
    fn fate_of_work_only_moves_forward() {
        for earlier in WorkFate::ALL {
            assert!(!earlier.may_follow(earlier), "{earlier} is never counted twice");
            assert!(!WorkFate::Unsent.may_follow(earlier) && !earlier.may_follow(WorkFate::Reverted), "{earlier}");
        }
        assert!(WorkFate::Reverted.may_follow(WorkFate::Merged) && WorkFate::Merged.may_follow(WorkFate::Closed));
    }
}

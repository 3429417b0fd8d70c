//! The rules of promotion and demotion, and the level at which a loop may run.

use super::debts::LoopDebts;
use super::track_record::TrackRecord;
use crate::level::LoopLevel;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// Reports that a loop needs before it may leave L1.
const REPORTS_MIN: u32 = 5;
/// Accepted pieces of work that a loop needs before it may enter L3.
const ACCEPTED_MIN: u32 = 10;
/// The share of accepted work that a loop needs, in percent.
const ACCEPTED_PERCENT: u32 = 90;
/// Planted changes that make a catch rate count.
const PLANTED_MIN: u32 = 5;
/// Unread lines that keep a loop from L3.
const UNREAD_MAX: u64 = 1_000;

/// The rules that a user may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutonomyRules {
    /// Whether a level above L1 needs a person's confirmation.
    pub require_promotion: bool,
    /// This many rejections in a row demote a loop.
    pub rejections_max: u32,
    /// A catch rate below this many percent demotes a loop.
    pub catch_rate_min: u32,
}

impl Default for AutonomyRules {
    fn default() -> Self {
        Self { require_promotion: false, rejections_max: 3, catch_rate_min: 80 }
    }
}

worded! {
    /// The cause of a demotion.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DemotionCause {
        /// Merged work was undone.
        Reverted = "reverted-work",
        /// People turned work down several times in a row.
        Rejections = "rejections",
        /// An unattended round went over its budget.
        Budget = "budget-breach",
        /// The checker misses planted changes.
        CatchRate = "catch-rate",
    }
}

/// A demotion that the evidence demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demotion {
    /// The level from now on.
    pub to: LoopLevel,
    /// The cause.
    pub cause: DemotionCause,
    /// The cause as text, with its numbers.
    pub why: String,
}

/// The demotion that the evidence since the last promotion demands. L1 is never demoted.
#[must_use]
pub fn demotion(level: LoopLevel, since: &TrackRecord, rules: AutonomyRules) -> Option<Demotion> {
    let to = match level {
        LoopLevel::L1Report => return None,
        LoopLevel::L2Assisted => LoopLevel::L1Report,
        LoopLevel::L3Unattended => LoopLevel::L2Assisted,
    };
    let (cause, why) = cause(level, since, rules)?;
    Some(Demotion { to, cause, why })
}

fn cause(level: LoopLevel, since: &TrackRecord, rules: AutonomyRules) -> Option<(DemotionCause, String)> {
    let (reverted, rejections) = (since.total().reverted, since.rejections_in_a_row);
    if reverted > 0 {
        return Some((DemotionCause::Reverted, format!("{reverted} merged changes of it were reverted")));
    }
    if rejections >= rules.rejections_max {
        let why =
            format!("people turned its work down {rejections} times in a row (at most {})", rules.rejections_max - 1);
        return Some((DemotionCause::Rejections, why));
    }
    // Below L3 a person decides about the work, so a breach costs money and no trust.
    if level == LoopLevel::L3Unattended && since.breaches > 0 {
        return Some((DemotionCause::Budget, format!("{} unattended rounds went over their budget", since.breaches)));
    }
    let percent = since.calibration.percent().filter(|_| since.calibration.planted >= PLANTED_MIN)?;
    (percent < rules.catch_rate_min).then(|| {
        let why = format!(
            "its checker caught {percent} % of {} planted changes (at least {} % are needed)",
            since.calibration.planted, rules.catch_rate_min
        );
        (DemotionCause::CatchRate, why)
    })
}

/// The level after this one.
#[must_use]
pub fn next_level(level: LoopLevel) -> Option<LoopLevel> {
    match level {
        LoopLevel::L1Report => Some(LoopLevel::L2Assisted),
        LoopLevel::L2Assisted => Some(LoopLevel::L3Unattended),
        LoopLevel::L3Unattended => None,
    }
}

/// One requirement of a promotion, with the number that decides it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// The requirement.
    pub text: String,
    /// Whether the evidence suffices for it.
    pub met: bool,
}

/// The answer to the question whether a loop may run at a level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromotionProposal {
    /// The level.
    pub to: LoopLevel,
    /// The actions that the level permits.
    pub permits: &'static str,
    /// The requirements.
    pub requirements: Vec<Requirement>,
}

impl PromotionProposal {
    /// Whether the evidence suffices.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.requirements.iter().all(|one| one.met)
    }

    /// The requirements that are not met, in one line.
    #[must_use]
    pub fn gaps(&self) -> String {
        let gaps: Vec<_> = self.requirements.iter().filter(|one| !one.met).map(|one| one.text.as_str()).collect();
        gaps.join("; ")
    }
}

/// Compares the evidence since the last demotion with the requirements of a level. L1 has none.
#[must_use]
pub fn propose(to: LoopLevel, record: &TrackRecord, debts: &LoopDebts, rules: AutonomyRules) -> PromotionProposal {
    let (permits, requirements) = match to {
        LoopLevel::L1Report => ("it reads and reports", Vec::new()),
        LoopLevel::L2Assisted => {
            ("it changes files in its workspace; every outward action waits for a person", for_l2(record, rules))
        }
        LoopLevel::L3Unattended => {
            let permits = "action kinds under `allow` are sent after verification without a person";
            (permits, for_l3(record, debts, rules))
        }
    };
    PromotionProposal { to, permits, requirements }
}

fn for_l2(record: &TrackRecord, rules: AutonomyRules) -> Vec<Requirement> {
    // A loop that was demoted from a higher level shows with its accepted work what an L1 loop shows with reports.
    let shown = record.reports + record.total().accepted();
    let mut all = vec![Requirement {
        text: format!("at least {REPORTS_MIN} reports or accepted changes: {shown}"),
        met: shown >= REPORTS_MIN,
    }];
    all.extend(no_misses(record, rules, 0));
    all
}

fn for_l3(record: &TrackRecord, debts: &LoopDebts, rules: AutonomyRules) -> Vec<Requirement> {
    let total = record.total();
    let (accepted, decided) = (total.accepted(), total.decided());
    let percent = accepted.saturating_mul(100).checked_div(decided).unwrap_or(0);
    let unread = debts.comprehension.lines;
    let mut all = vec![
        Requirement {
            text: format!("at least {ACCEPTED_MIN} changes accepted as they were: {accepted}"),
            met: accepted >= ACCEPTED_MIN,
        },
        Requirement {
            text: format!("at least {ACCEPTED_PERCENT} % of its work accepted: {percent} %"),
            met: percent >= ACCEPTED_PERCENT,
        },
        Requirement { text: format!("no reverted change: {}", total.reverted), met: total.reverted == 0 },
        Requirement {
            text: format!("at most {UNREAD_MAX} sent lines that no person has read: {unread}"),
            met: unread <= UNREAD_MAX,
        },
    ];
    all.extend(no_misses(record, rules, PLANTED_MIN));
    all
}

fn no_misses(record: &TrackRecord, rules: AutonomyRules, planted_min: u32) -> Vec<Requirement> {
    let (catches, percent) = (record.calibration, record.calibration.percent());
    let rate = percent.map_or("none planted".to_owned(), |percent| format!("{percent} % of {}", catches.planted));
    let is_enough = catches.planted >= planted_min && percent.is_none_or(|percent| percent >= rules.catch_rate_min);
    let of = if planted_min > 0 { format!(" of at least {planted_min} planted changes") } else { String::new() };
    vec![Requirement {
        text: format!("a catch rate of at least {} %{of}: {rate}", rules.catch_rate_min),
        met: is_enough,
    }]
}

/// The recorded changes of a loop's level that still count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LevelHistory {
    /// The demotion that no promotion has lifted: its level and its reason.
    pub demoted: Option<(LoopLevel, String)>,
    /// The highest level that a person confirmed for the loop as its file is now.
    pub confirmed: Option<LoopLevel>,
}

/// The highest level at which a round may run, if that is below the level in the loop file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelCeiling {
    /// The level.
    pub level: LoopLevel,
    /// `demoted` or `not-promoted`.
    pub code: String,
    /// The reason, with the command that changes it.
    pub text: String,
}

/// Decides the ceiling of a loop whose file declares this level.
#[must_use]
pub fn level_ceiling(
    loop_name: &str,
    declared: LoopLevel,
    history: &LevelHistory,
    rules: AutonomyRules,
) -> Option<LevelCeiling> {
    let demoted = history.demoted.as_ref().map(|(level, why)| {
        let text = format!(
            "demoted to {} instead of {}: {why}; only a person lifts this: loopwright promote {loop_name}",
            level.short(),
            declared.short()
        );
        LevelCeiling { level: *level, code: "demoted".to_owned(), text }
    });
    let confirmed = history.confirmed.unwrap_or(LoopLevel::L1Report);
    let unconfirmed = (rules.require_promotion && confirmed < declared).then(|| {
        let text = format!(
            "runs at {} instead of {}: `require_promotion` is on, and no person has confirmed the loop as it is now; \
             confirm it: loopwright promote {loop_name} --to {}",
            confirmed.short(),
            declared.short(),
            declared.short()
        );
        LevelCeiling { level: confirmed, code: "not-promoted".to_owned(), text }
    });
    let lowest = [demoted, unconfirmed].into_iter().flatten().min_by_key(|ceiling| ceiling.level)?;
    (lowest.level < declared).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autonomy::{CatchRate, ComprehensionDebt, KindRecord};
    use LoopLevel::{L1Report as L1, L2Assisted as L2, L3Unattended as L3};

    fn record(kind: KindRecord) -> TrackRecord {
        TrackRecord { kinds: [("pull-request".to_owned(), kind)].into(), ..TrackRecord::default() }
    }

    fn caught(caught: u32, planted: u32) -> TrackRecord {
        TrackRecord { calibration: CatchRate { planted, caught }, ..TrackRecord::default() }
    }

    #[test]
    fn demotion_table() {
        let clean = TrackRecord::default();
        let reverted = record(KindRecord { approved: 5, merged: 4, reverted: 1, ..KindRecord::default() });
        let rejected = |times| TrackRecord { rejections_in_a_row: times, ..TrackRecord::default() };
        let breached = TrackRecord { breaches: 1, ..TrackRecord::default() };
        let cases = [
            (L3, &clean, None),
            (L3, &reverted, Some((L2, DemotionCause::Reverted))),
            (L2, &reverted, Some((L1, DemotionCause::Reverted))),
            (L1, &reverted, None),
            (L2, &rejected(2), None),
            (L2, &rejected(3), Some((L1, DemotionCause::Rejections))),
            (L3, &breached, Some((L2, DemotionCause::Budget))),
            (L2, &breached, None),
            (L3, &caught(3, 5), Some((L2, DemotionCause::CatchRate))),
            (L3, &caught(4, 5), None),
            (L3, &caught(0, 4), None),
        ];
        for (level, since, expected) in cases {
            let found = demotion(level, since, AutonomyRules::default()).map(|one| (one.to, one.cause));
            assert_eq!(found, expected, "{level:?} {since:?}");
        }
    }

    #[test]
    fn promotion_table() {
        let debts =
            |lines| LoopDebts { comprehension: ComprehensionDebt { lines, changes: 1 }, ..LoopDebts::default() };
        let reports = |reports| TrackRecord { reports, ..TrackRecord::default() };
        let shipped = |approved, denied, reverted| TrackRecord {
            calibration: CatchRate { planted: 5, caught: 5 },
            ..record(KindRecord { approved, denied, reverted, ..KindRecord::default() })
        };
        let cases = [
            (L2, reports(4), 0, false),
            (L2, reports(5), 0, true),
            (L2, TrackRecord { reports: 9, ..caught(1, 5) }, 0, false),
            (L3, shipped(9, 0, 0), 0, false),
            (L3, shipped(10, 0, 0), 0, true),
            (L3, shipped(10, 2, 0), 0, false),
            (L3, shipped(30, 1, 1), 0, false),
            (L3, shipped(10, 0, 0), 1_001, false),
            (L3, TrackRecord { calibration: CatchRate::default(), ..shipped(10, 0, 0) }, 0, false),
        ];
        for (to, record, lines, expected) in cases {
            let proposal = propose(to, &record, &debts(lines), AutonomyRules::default());
            assert_eq!(proposal.is_supported(), expected, "{proposal:?}");
            assert_eq!(proposal.gaps().is_empty(), expected);
        }
    }

    #[test]
    fn ceiling_table() {
        let open = AutonomyRules::default();
        let strict = AutonomyRules { require_promotion: true, ..open };
        let demoted = |level| LevelHistory { demoted: Some((level, "why".to_owned())), confirmed: None };
        let confirmed = |level| LevelHistory { demoted: None, confirmed: Some(level) };
        let both = LevelHistory { confirmed: Some(L3), ..demoted(L2) };
        let cases = [
            (L3, LevelHistory::default(), open, None),
            (L3, LevelHistory::default(), strict, Some((L1, "not-promoted"))),
            (L1, LevelHistory::default(), strict, None),
            (L3, confirmed(L3), strict, None),
            (L3, confirmed(L2), strict, Some((L2, "not-promoted"))),
            (L3, demoted(L2), open, Some((L2, "demoted"))),
            (L2, demoted(L2), open, None),
            (L3, both, strict, Some((L2, "demoted"))),
        ];
        for (declared, history, rules, expected) in cases {
            let found = level_ceiling("fix", declared, &history, rules);
            let found = found.as_ref().map(|one| (one.level, one.code.as_str()));
            assert_eq!(found, expected, "{declared:?} {history:?}");
        }
    }
}

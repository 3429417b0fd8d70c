//! The evidence for a loop's level: counts for each kind of action, the checkers' catch rates, and the age of it all.

use super::repo_view::RepoView;
use super::time::Moment;
use super::{CommandError, Serialize, Store};
use loopwright::autonomy::{LevelStanding, read_standing};
use loopwright_core::autonomy::TrackRecord;
use loopwright_core::spec::LoopSpec;

/// The evidence, as `promote` and `show LOOP` print it.
#[derive(Debug, Serialize)]
pub(crate) struct EvidenceView {
    /// The oldest decision that is counted; counts start after the last demotion.
    since: Option<Moment>,
    #[serde(flatten)]
    record: TrackRecord,
    /// The catch rate of each checker.
    checkers: Vec<CheckerLine>,
    /// The latest promotion.
    promoted: Option<PromotionLine>,
}

/// The catch rate of one checker.
#[derive(Debug, Serialize)]
struct CheckerLine {
    agent: String,
    model: Option<String>,
    planted: u32,
    caught: u32,
    percent: Option<u32>,
}

/// A person's confirmation of a level.
#[derive(Debug, Serialize)]
struct PromotionLine {
    level: String,
    by: String,
    at: Moment,
    spec_hash: String,
    /// The reason for a promotion that the evidence did not support.
    despite: Option<String>,
}

impl EvidenceView {
    /// Reads the evidence of a loop.
    pub(crate) async fn read(store: &Store, here: &RepoView, spec: &LoopSpec) -> Result<Self, CommandError> {
        let hash = here.run_hash(&spec.name);
        Ok(Self::from(&read_standing(store, &here.repo.id, spec, hash, here.rules).await?))
    }

    /// For people, one fact each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let kinds = self.record.kinds.iter().map(|(kind, count)| {
            let decided = format!(
                "{} approved, {} denied, {} sent without a person",
                count.approved, count.denied, count.automatic
            );
            let fates = format!(
                "{} merged as they were, {} edited, {} closed, {} reverted",
                count.merged, count.edited, count.closed, count.reverted
            );
            format!("{kind}: {decided}; {fates}")
        });
        let mut lines: Vec<_> = kinds.collect();
        lines.push(format!("{} reports, {} rounds over budget", self.record.reports, self.record.breaches));
        lines.extend(self.checkers.iter().map(|one| {
            let model = one.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
            format!("checker {}{model}: caught {} of {} planted changes", one.agent, one.caught, one.planted)
        }));
        lines.extend(self.promoted.as_ref().map(|one| format!("{} confirmed {}", one.by, one.level)));
        lines
    }
}

impl From<&LevelStanding> for EvidenceView {
    fn from(standing: &LevelStanding) -> Self {
        let checkers = standing.checkers.iter().map(|(agent, model, rate)| CheckerLine {
            agent: agent.clone(),
            model: model.clone(),
            planted: rate.planted,
            caught: rate.caught,
            percent: rate.percent(),
        });
        let promoted = standing.promoted.as_ref().map(|row| PromotionLine {
            level: row.level.short().to_owned(),
            by: row.actor.clone(),
            at: Moment(row.at_ms),
            spec_hash: row.spec_hash.clone(),
            despite: Some(row.why.clone()).filter(|why| !why.is_empty()),
        });
        Self {
            since: standing.since_ms.map(Moment),
            record: standing.record.clone(),
            checkers: checkers.collect(),
            promoted,
        }
    }
}

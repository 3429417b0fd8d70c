//! The standing of a loop: its evidence, the ceiling of its level, and its debts, read from the store. A demotion that
//! the evidence demands is written here, and nowhere else.

use crate::clock;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{InboxKind, InboxRisk, InboxRow, LevelLogKind, LevelLogRow, RowChange, Store, StoreError, WorkRow};
use loopwright_core::autonomy::{
    AutonomyRules, CatchRate, ComprehensionDebt, Demotion, IntentConfirmation, IntentFingerprint, LevelCeiling,
    LevelHistory, LoopDebts, TrackRecord, WorkFact, demotion, level_ceiling,
};
use loopwright_core::dispatch::LoopKey;
use loopwright_core::hash::hash_fields;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::LoopSpec;
use std::collections::HashMap;

/// Everything that is recorded about a loop's autonomy.
#[derive(Debug, Clone)]
pub struct LevelStanding {
    /// The evidence since the last demotion.
    pub record: TrackRecord,
    /// The checker's results by agent and model.
    pub checkers: Vec<(String, Option<String>, CatchRate)>,
    /// The oldest decision that the evidence contains.
    pub since_ms: Option<i64>,
    /// The ceiling, if it is below the level in the loop file.
    pub ceiling: Option<LevelCeiling>,
    /// The latest promotion.
    pub promoted: Option<LevelLogRow>,
    /// The debts.
    pub debts: LoopDebts,
}

/// Reads the standing of a loop. `hash` is that of the loop as it would run.
///
/// # Errors
/// If the store cannot be read.
pub async fn read_standing(
    store: &Store,
    repo: &str,
    spec: &LoopSpec,
    hash: &str,
    rules: AutonomyRules,
) -> Result<LevelStanding, StoreError> {
    let log = store.level_log(repo, &spec.name).await?;
    let since = log.iter().rfind(|row| row.kind == LevelLogKind::Demoted).map_or(i64::MIN, |row| row.at_ms);
    let works = store.works(repo, &spec.name, since).await?;
    let fingerprint = IntentFingerprint::from_spec(spec);
    Ok(LevelStanding {
        since_ms: works.first().map(|row| row.decided_ms),
        record: count(store, repo, &spec.name, since, works).await?,
        checkers: checkers(store, repo, &spec.name, since).await?,
        ceiling: level_ceiling(&spec.name, spec.level, &history(&log, hash), rules),
        promoted: log.iter().rfind(|row| row.kind == LevelLogKind::Promoted).cloned(),
        debts: debts_from(store, repo, &spec.name, &fingerprint, &log).await?,
    })
}

/// The rows about the autonomy of all loops, read at once for lists.
#[derive(Debug, Default)]
pub struct StandingRows {
    logs: HashMap<(String, String), Vec<LevelLogRow>>,
    unread: HashMap<(String, String), (i64, i64)>,
}

impl StandingRows {
    /// Reads them, in two queries.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut rows = Self::default();
        for row in store.level_logs().await? {
            rows.logs.entry((row.repo.clone(), row.loop_name.clone())).or_default().push(row);
        }
        let unread = store.unread_by_loop().await?.into_iter();
        rows.unread = unread.map(|(repo, name, count)| ((repo, name), count)).collect();
        Ok(rows)
    }

    /// The ceiling of a loop's level, if it is below the level in its file.
    #[must_use]
    pub fn ceiling(&self, repo: &str, spec: &LoopSpec, hash: &str, rules: AutonomyRules) -> Option<LevelCeiling> {
        level_ceiling(&spec.name, spec.level, &history(self.log(repo, &spec.name), hash), rules)
    }

    /// The debts of a loop.
    #[must_use]
    pub fn debts(&self, repo: &str, spec: &LoopSpec) -> LoopDebts {
        let at = (repo.to_owned(), spec.name.clone());
        let unread = self.unread.get(&at).copied().unwrap_or_default();
        debts_of(&spec.name, &IntentFingerprint::from_spec(spec), self.log(repo, &spec.name), unread)
    }

    fn log(&self, repo: &str, name: &str) -> &[LevelLogRow] {
        self.logs.get(&(repo.to_owned(), name.to_owned())).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The debts of a loop.
pub(crate) async fn read_debts(
    store: &Store,
    repo: &str,
    loop_name: &str,
    now: &IntentFingerprint,
) -> Result<LoopDebts, StoreError> {
    debts_from(store, repo, loop_name, now, &store.level_log(repo, loop_name).await?).await
}

/// Demotes a loop if the evidence demands it, and returns the ceiling of its level.
pub(crate) async fn settle_level(
    engine: &Engine,
    key: &LoopKey,
    declared: LoopLevel,
    hash: &str,
) -> Result<Option<LevelCeiling>, EngineError> {
    let (store, rules) = (engine.store().as_ref(), engine.settings().autonomy);
    let log = store.level_log(&key.repo, &key.name).await?;
    let mut history = history(&log, hash);
    let ceiling = level_ceiling(&key.name, declared, &history, rules);
    let current = ceiling.as_ref().map_or(declared, |ceiling| ceiling.level);
    if current == LoopLevel::L1Report {
        return Ok(ceiling);
    }
    let last = log.iter().rfind(|row| is_level_change(row));
    let since = last.map_or(i64::MIN, |row| row.at_ms);
    let works = store.works(&key.repo, &key.name, since).await?;
    let record = count(store, &key.repo, &key.name, since, works).await?;
    let Some(found) = demotion(current, &record, rules) else { return Ok(ceiling) };
    let after = last.map_or("", |row| row.id.as_str());
    engine.write_rows(demotion_rows(engine, key, hash, &found, after, &record)).await?;
    history.demoted = Some((found.to, found.why));
    Ok(level_ceiling(&key.name, declared, &history, rules))
}

fn is_level_change(row: &LevelLogRow) -> bool {
    matches!(row.kind, LevelLogKind::Promoted | LevelLogKind::Demoted)
}

/// One demotion for each state of the log: its id comes from the entry before it, so that two processes write the same
/// row.
fn demotion_rows(
    engine: &Engine,
    key: &LoopKey,
    hash: &str,
    found: &Demotion,
    after: &str,
    record: &TrackRecord,
) -> Vec<RowChange> {
    let id = hash_fields(&[b"loopwright demotion 1", key.repo.as_bytes(), key.name.as_bytes(), after.as_bytes()]);
    let row = LevelLogRow {
        id: format!("demoted-{}", id.chars().take(20).collect::<String>()),
        repo: key.repo.to_string(),
        loop_name: key.name.to_string(),
        kind: LevelLogKind::Demoted,
        level: found.to,
        spec_hash: hash.to_owned(),
        actor: "loopwright".to_owned(),
        at_ms: engine.now_ms(),
        why: found.why.clone(),
        evidence: serde_json::to_string(record).unwrap_or_default(),
    };
    let note = InboxRow {
        summary: format!("demoted to {}: {}", found.to.short(), found.why),
        created_ms: row.at_ms,
        ..demotion_note(&key.repo, &key.name)
    };
    vec![RowChange::LevelLog(row), RowChange::Inbox(note)]
}

/// The note about a demotion in the inbox: one for each loop.
pub(super) fn demotion_note(repo: &str, loop_name: &str) -> InboxRow {
    let id = hash_fields(&[b"loopwright demotion note 1", repo.as_bytes(), loop_name.as_bytes()]);
    InboxRow {
        id: format!("l-{}", id.chars().take(20).collect::<String>()),
        round: String::new(),
        loop_name: loop_name.to_owned(),
        repo: repo.to_owned(),
        kind: InboxKind::LoopDemoted,
        risk: InboxRisk::Medium,
        candidate: None,
        summary: String::new(),
        created_ms: 0,
        expires_ms: None,
        closed_ms: None,
    }
}

/// The changes of the level that still count for the loop with this hash.
fn history(log: &[LevelLogRow], hash: &str) -> LevelHistory {
    let last = log.iter().rfind(|row| is_level_change(row)).filter(|row| row.kind == LevelLogKind::Demoted);
    let confirmed = log.iter().rfind(|row| row.kind == LevelLogKind::Promoted && row.spec_hash == hash);
    LevelHistory { demoted: last.map(|row| (row.level, row.why.clone())), confirmed: confirmed.map(|row| row.level) }
}

async fn count(
    store: &Store,
    repo: &str,
    loop_name: &str,
    since: i64,
    works: Vec<WorkRow>,
) -> Result<TrackRecord, StoreError> {
    let fact = |row: WorkRow| WorkFact { round: row.round, kind: row.kind, decision: row.decision, fate: row.fate };
    let facts: Vec<_> = works.into_iter().map(fact).collect();
    let (reports, breaches) = store.counted_rounds(repo, loop_name, since).await?;
    let rates = checkers(store, repo, loop_name, since).await?;
    let calibration = rates.iter().fold(CatchRate::default(), |sum, (.., rate)| CatchRate {
        planted: sum.planted + rate.planted,
        caught: sum.caught + rate.caught,
    });
    Ok(TrackRecord { reports: small(reports), breaches: small(breaches), calibration, ..TrackRecord::count(&facts) })
}

/// The catch rate of each checker.
async fn checkers(
    store: &Store,
    repo: &str,
    loop_name: &str,
    since: i64,
) -> Result<Vec<(String, Option<String>, CatchRate)>, StoreError> {
    let mut rates: Vec<(String, Option<String>, CatchRate)> = Vec::new();
    for row in store.calibrations(repo, loop_name, since).await? {
        let known = rates.iter_mut().find(|(agent, model, _)| *agent == row.agent && *model == row.model);
        let rate = match known {
            Some((.., rate)) => rate,
            None => {
                rates.push((row.agent, row.model, CatchRate::default()));
                &mut rates.last_mut().expect("it was just added").2
            }
        };
        rate.planted += 1;
        rate.caught += u32::from(row.caught != 0);
    }
    Ok(rates)
}

async fn debts_from(
    store: &Store,
    repo: &str,
    loop_name: &str,
    now: &IntentFingerprint,
    log: &[LevelLogRow],
) -> Result<LoopDebts, StoreError> {
    Ok(debts_of(loop_name, now, log, store.unread_lines(repo, loop_name).await?))
}

fn debts_of(loop_name: &str, now: &IntentFingerprint, log: &[LevelLogRow], unread: (i64, i64)) -> LoopDebts {
    let confirmed = log.iter().rfind(|row| matches!(row.kind, LevelLogKind::Promoted | LevelLogKind::Intent));
    let since = confirmed.map_or(i64::MIN, |row| row.at_ms);
    let outside = log.iter().filter(|row| row.kind == LevelLogKind::OutOfScope && row.at_ms > since).count();
    let confirmation = confirmed.map(|row| IntentConfirmation {
        actor: row.actor.clone(),
        at: clock::rfc3339(row.at_ms),
        fingerprint: intent_of(&row.evidence),
    });
    let (lines, changes) = unread;
    let comprehension = ComprehensionDebt { lines: u64::try_from(lines).unwrap_or(0), changes: small(changes) };
    let outside = u32::try_from(outside).unwrap_or(u32::MAX);
    LoopDebts::new(loop_name, now, confirmation.as_ref(), outside, comprehension)
}

/// The confirmed intent in the evidence of a log entry.
fn intent_of(evidence: &str) -> IntentFingerprint {
    let document: serde_json::Value = serde_json::from_str(evidence).unwrap_or_default();
    serde_json::from_value(document["intent"].clone()).unwrap_or_default()
}

fn small(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}

//! The decisions of people about a loop's autonomy: promotions, confirmed intents, and read changes. Each is a row and
//! an event of the journal.

use super::standing::{LevelStanding, demotion_note};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::random;
use crate::store::{LevelLogKind, LevelLogRow, NewEvent, ReadingRow, RowChange, StoreBatch};
use loopwright_core::autonomy::IntentFingerprint;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::CheckedSpec;
use serde_json::json;

/// A person's confirmation of a level, bound to the loop as it is.
#[derive(Debug, Clone)]
pub struct LevelPromotion<'a> {
    /// The repository's id.
    pub repo: &'a str,
    /// The loop as it runs.
    pub spec: &'a CheckedSpec,
    /// The confirmed level.
    pub level: LoopLevel,
    /// The person.
    pub actor: String,
    /// The reason for a promotion that the evidence does not support.
    pub despite: Option<String>,
    /// The evidence that the person saw.
    pub standing: &'a LevelStanding,
}

/// A person's decision to lower a loop's level.
#[derive(Debug, Clone)]
pub struct LevelDemotion<'a> {
    /// The repository's id.
    pub repo: &'a str,
    /// The loop as it runs.
    pub spec: &'a CheckedSpec,
    /// The highest level at which it may run from now on.
    pub level: LoopLevel,
    /// The person.
    pub actor: String,
    /// The reason.
    pub why: String,
}

/// A person's confirmation of a loop's intent.
#[derive(Debug, Clone)]
pub struct IntentConfirmed<'a> {
    /// The repository's id.
    pub repo: &'a str,
    /// The loop.
    pub spec: &'a CheckedSpec,
    /// The person.
    pub actor: String,
}

/// Records a promotion. It lifts an earlier demotion and confirms the intent.
///
/// # Errors
/// When the record cannot be written.
pub async fn record_promotion(engine: &Engine, promotion: LevelPromotion<'_>) -> Result<LevelLogRow, EngineError> {
    let LevelPromotion { repo, spec, level, actor, despite, standing } = promotion;
    let evidence = json!({
        "intent": IntentFingerprint::from_spec(spec.spec()), "record": standing.record, "debts": standing.debts,
        "despite": despite,
    });
    let row = LevelLogRow {
        id: format!("promoted-{}", random::nonce()?),
        repo: repo.to_owned(),
        loop_name: spec.name.clone(),
        kind: LevelLogKind::Promoted,
        level,
        spec_hash: spec.hash().to_owned(),
        actor,
        at_ms: engine.now_ms(),
        why: despite.unwrap_or_default(),
        evidence: evidence.to_string(),
    };
    let closed = RowChange::Inbox(crate::store::InboxRow {
        summary: format!("promoted to {} by {}", row.level.short(), row.actor),
        created_ms: row.at_ms,
        closed_ms: Some(row.at_ms),
        ..demotion_note(repo, &spec.name)
    });
    record_decision(engine, &row, vec![closed]).await?;
    Ok(row)
}

/// Records that a person lowers the level of a loop. Only a promotion lifts it.
///
/// # Errors
/// When the record cannot be written.
pub async fn record_demotion(engine: &Engine, lowered: LevelDemotion<'_>) -> Result<LevelLogRow, EngineError> {
    let LevelDemotion { repo, spec, level, actor, why } = lowered;
    let row = LevelLogRow {
        id: format!("demoted-{}", random::nonce()?),
        repo: repo.to_owned(),
        loop_name: spec.name.clone(),
        kind: LevelLogKind::Demoted,
        level,
        spec_hash: spec.hash().to_owned(),
        why: format!("{actor}: {why}"),
        actor,
        at_ms: engine.now_ms(),
        evidence: "{}".to_owned(),
    };
    record_decision(engine, &row, Vec::new()).await?;
    Ok(row)
}

/// Records that a person confirmed the intent of a loop.
///
/// # Errors
/// When the record cannot be written.
pub async fn confirm_intent(engine: &Engine, confirmed: IntentConfirmed<'_>) -> Result<LevelLogRow, EngineError> {
    let IntentConfirmed { repo, spec, actor } = confirmed;
    let row = LevelLogRow {
        id: format!("intent-{}", random::nonce()?),
        repo: repo.to_owned(),
        loop_name: spec.name.clone(),
        kind: LevelLogKind::Intent,
        level: spec.level,
        spec_hash: spec.hash().to_owned(),
        actor,
        at_ms: engine.now_ms(),
        why: String::new(),
        evidence: json!({"intent": IntentFingerprint::from_spec(spec.spec())}).to_string(),
    };
    record_decision(engine, &row, Vec::new()).await?;
    Ok(row)
}

/// Records that a person has read the changes of these candidates.
///
/// # Errors
/// When the record cannot be written.
pub async fn record_readings(engine: &Engine, candidates: &[String], actor: &str) -> Result<(), EngineError> {
    let at_ms = engine.now_ms();
    let row = |candidate: &String| ReadingRow { candidate: candidate.clone(), actor: actor.to_owned(), at_ms };
    engine.write_rows(candidates.iter().map(|one| RowChange::Reading(row(one))).collect()).await
}

async fn record_decision(engine: &Engine, row: &LevelLogRow, more: Vec<RowChange>) -> Result<(), EngineError> {
    let kind = match row.kind {
        LevelLogKind::Promoted => "loop-promoted",
        LevelLogKind::Demoted => "loop-demoted",
        _ => "intent-confirmed",
    };
    let body = json!({
        "event": kind, "actor": row.actor, "repo": row.repo, "loop": row.loop_name, "level": row.level.short(),
        "spec_hash": row.spec_hash, "why": row.why,
    });
    let events = vec![NewEvent { kind: kind.to_owned(), body: body.to_string() }];
    let changes = [RowChange::LevelLog(row.clone())].into_iter().chain(more).collect();
    let batch = StoreBatch { round: row.id.clone(), expect_index: 0, at_ms: row.at_ms, events, changes };
    engine.append(batch).await?;
    Ok(())
}

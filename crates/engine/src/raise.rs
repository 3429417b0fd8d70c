//! Raises: a person adds to a budget, for a loop's day or for one suspended round. Each raise is an event of the
//! journal and a row that reservations read; no limit is removed for good.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::random;
use crate::store::{NewEvent, RaiseRow, RowChange, StoreBatch};
use loopwright_core::budget::Reservation;
use loopwright_core::cadence::DayZone;
use loopwright_core::round::RoundStarted;
use loopwright_core::units::Usd;

/// A raise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRaise {
    /// The repository's id.
    pub repo: String,
    /// The loop's name.
    pub loop_name: String,
    /// The suspended round it is for; if absent, it is for today.
    pub round: Option<String>,
    /// The zone of the loop's days, if it is not the user's.
    pub zone: Option<DayZone>,
    /// The amount.
    pub by: Reservation,
    /// The person who raised it.
    pub actor: String,
}

/// Records a raise and returns its row.
///
/// # Errors
/// When the record cannot be written.
pub async fn record_raise(engine: &Engine, raise: BudgetRaise) -> Result<RaiseRow, EngineError> {
    let at_ms = engine.now_ms();
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let row = RaiseRow {
        id: format!("raise-{}", random::nonce()?),
        at_ms,
        actor: raise.actor,
        repo: raise.repo,
        loop_name: raise.loop_name,
        day: raise.zone.unwrap_or_else(|| engine.settings.zone.clone()).day(at_ms),
        round: raise.round,
        micros: number(raise.by.usd.micros()),
        tokens: number(raise.by.tokens),
    };
    let body = serde_json::json!({
        "event": "budget-raised", "actor": row.actor, "repo": row.repo, "loop": row.loop_name, "day": row.day,
        "round": row.round, "usd": raise.by.usd, "tokens": raise.by.tokens,
    });
    let event = NewEvent { kind: "budget-raised".to_owned(), body: body.to_string() };
    let changes = vec![RowChange::Raise(row.clone())];
    engine.append(StoreBatch { round: row.id.clone(), expect_index: 0, at_ms, events: vec![event], changes }).await?;
    if let Some(admission) = engine.live_rounds.admission() {
        admission.on_budget_raised(&row.repo, &row.loop_name);
    }
    Ok(row)
}

/// The sum of all raises for one round.
pub(crate) async fn total_raised(engine: &Engine, started: &RoundStarted) -> Result<Reservation, EngineError> {
    // No raise has an empty day, so only those that name the round count.
    let (micros, tokens) = engine.store.raised(&started.repo, &started.spec.name, "", &started.round).await?;
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Reservation { usd: Usd(unsigned(micros)), tokens: unsigned(tokens) })
}

//! Loops that follow other loops: when a round ends, loops that name its loop become due. The signal is written in the
//! same transaction as the end, so that no crash loses it, and it records its origin. A chain of rounds has a maximum
//! length, so that loops which follow each other in a ring stop.

use crate::store::{RowChange, SignalRow, Store, StoreError};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Phase, Round};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most rounds that may follow one another, each because the previous one ended.
pub(crate) const DEPTH_MAX: u32 = 8;

/// The origin of such a signal, stored in its `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalProvenance {
    /// The loop that ended.
    pub(crate) after: String,
    /// Its round.
    pub(crate) round: String,
    /// How it ended.
    pub(crate) outcome: String,
    /// The number of rounds that have followed one another, including the follower of this one.
    pub(crate) depth: u32,
    /// Those rounds, the first one first.
    pub(crate) chain: Vec<String>,
}

/// The key of the signal for the end of a round.
pub(crate) fn occurrence_key(leader: &str, round: &str) -> String {
    format!("after:{leader}:{round}")
}

/// Whether a round in this state makes followers due: it has ended, and it did something.
pub(crate) fn triggers_followers(round: &Round) -> bool {
    matches!(round.phase(), Phase::Ended(RoundOutcome::Shipped | RoundOutcome::Reported))
        && !round.facts().started.dry_run
}

/// The signals to write with the end of a round.
pub(crate) async fn follower_signals(
    store: &Store,
    followers: &[Arc<str>],
    round: &Round,
    now_ms: i64,
) -> Result<Vec<RowChange>, StoreError> {
    if followers.is_empty() || !triggers_followers(round) {
        return Ok(Vec::new());
    }
    let made = provenance(store, round).await?;
    if made.depth > DEPTH_MAX {
        return Ok(Vec::new());
    }
    let started = &round.facts().started;
    let data = serde_json::to_string(&made).expect("a provenance holds only strings and numbers");
    let signal = |follower: &Arc<str>| {
        RowChange::Signal(SignalRow {
            repo: started.repo.clone(),
            loop_name: follower.to_string(),
            key: occurrence_key(&started.spec.name, &started.round),
            trigger: format!("after {}", started.spec.name),
            at_ms: now_ms,
            item: None,
            title: None,
            data: Some(data.clone()),
            taken_ms: None,
        })
    };
    Ok(followers.iter().map(signal).collect())
}

/// The provenance for followers of this round.
pub(crate) async fn provenance(store: &Store, round: &Round) -> Result<SignalProvenance, StoreError> {
    let started = &round.facts().started;
    let before = if started.occurrence.starts_with("after:") {
        store.signal(&started.repo, &started.spec.name, &started.occurrence).await?
    } else {
        None
    };
    let before = before.and_then(|row| serde_json::from_str::<SignalProvenance>(&row.data?).ok());
    let (depth, mut chain) = before.map_or((0, Vec::new()), |before| (before.depth, before.chain));
    chain.push(started.round.clone());
    Ok(SignalProvenance {
        after: started.spec.name.clone(),
        round: started.round.clone(),
        outcome: round.outcome().map_or("", RoundOutcome::word).to_owned(),
        depth: depth + 1,
        chain,
    })
}

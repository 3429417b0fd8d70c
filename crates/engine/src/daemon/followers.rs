//! Loops that follow other loops: the end of a round makes those due that name its loop. The signal is written with the end
//! itself, so that no crash loses it, and says where it comes from. A chain of rounds has a longest length, so that loops
//! which follow each other in a ring come to rest.

use crate::store::{RowChange, SignalRow, Store, StoreError};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Phase, Round};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many rounds may follow one another, each because the one before it ended.
pub(crate) const DEPTH_MAX: u32 = 8;

/// Where a signal of this kind comes from: what is kept in its `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalProvenance {
    /// The loop that ended.
    pub(crate) after: String,
    /// Its round.
    pub(crate) round: String,
    /// How it ended.
    pub(crate) outcome: String,
    /// How many rounds have followed one another, this one's follower included.
    pub(crate) depth: u32,
    /// Those rounds, the first one first.
    pub(crate) chain: Vec<String>,
}

/// The key of the signal that the end of a round is.
pub(crate) fn occurrence_key(leader: &str, round: &str) -> String {
    format!("after:{leader}:{round}")
}

/// Whether a round that stands so makes followers due: it did something, and it is over.
pub(crate) fn triggers_followers(round: &Round) -> bool {
    matches!(round.phase(), Phase::Ended(RoundOutcome::Shipped | RoundOutcome::Reported))
        && !round.facts().started.dry_run
}

/// The signals to write with the end of a round.
pub(crate) async fn follower_signals(
    store: &dyn Store,
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

/// What a follower of this round would be told of where it comes from.
pub(crate) async fn provenance(store: &dyn Store, round: &Round) -> Result<SignalProvenance, StoreError> {
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

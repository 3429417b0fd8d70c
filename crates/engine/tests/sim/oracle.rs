//! The promises, as far as the store shows them.

use super::fleet::World;
use loopwright::store::{ReceiptRow, ReceiptsQuery, RoundRow, RoundsQuery, SpendScope, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What happened in a run, or in many.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) crashes: u64,
    rounds: u64,
    receipts: u64,
    moments: u64,
    outcomes: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.rounds += other.rounds;
        self.receipts += other.receipts;
        self.moments += other.moments;
        for (word, count) in &other.outcomes {
            *self.outcomes.entry(word.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crashes, rounds, receipts, moments, outcomes } = self;
        let told: Vec<_> = outcomes.iter().map(|(word, count)| format!("{count} {word}")).collect();
        write!(
            f,
            "{crashes} lives, {moments} due moments in {receipts} receipts, {rounds} rounds ({})",
            told.join(", ")
        )
    }
}

/// Looks at everything on record.
pub(crate) async fn examine(
    store: &Arc<dyn Store>,
    world: &World,
    registered: (i64, i64),
    tally: &mut Tally,
) -> Result<(), String> {
    let told = |why: loopwright::store::StoreError| format!("the store cannot be read: {why}");
    let report = store.verify().await.map_err(told)?;
    if !report.is_ok() {
        return Err(format!("P2: the chain is broken: {report:?}"));
    }
    let rounds = store.rounds(RoundsQuery { limit: 10_000, ..RoundsQuery::default() }).await.map_err(told)?;
    rounds_end(&rounds)?;
    never_overlap(store, &rounds).await?;
    let mut started = BTreeSet::new();
    for spec in world.specs.iter() {
        let query = ReceiptsQuery {
            repo: world.repo_id.clone(),
            loop_name: spec.name.clone(),
            limit: 10_000,
            ..ReceiptsQuery::default()
        };
        let mut receipts = store.receipts(query).await.map_err(told)?;
        receipts.reverse();
        let row = store.schedule(&world.repo_id, &spec.name).await.map_err(told)?.ok_or("a loop has no schedule")?;
        let every_ms = i64::try_from(spec.on.every[0].duration().as_millis()).unwrap_or(1);
        tally.moments += covers(&spec.name, &receipts, every_ms, registered, row.mark_ms)?;
        tally.receipts += receipts.len() as u64;
        started.extend(started_rounds(&receipts, &rounds)?);
    }
    if let Some(odd) = rounds.iter().find(|round| !started.contains(&round.id)) {
        return Err(format!("P1: a round without a receipt: {odd:?}"));
    }
    nothing_held(store, &rounds).await?;
    tally.rounds += rounds.len() as u64;
    for round in &rounds {
        *tally.outcomes.entry(round.outcome.clone().unwrap_or_default()).or_default() += 1;
    }
    Ok(())
}

fn rounds_end(rounds: &[RoundRow]) -> Result<(), String> {
    let mut occurrences = BTreeSet::new();
    for round in rounds {
        if round.ended_ms.is_none() || round.outcome.is_none() {
            return Err(format!("P9: a round has not ended: {round:?}"));
        }
        if !occurrences.insert((&round.loop_name, &round.occurrence)) {
            return Err(format!("P1: two rounds for one occurrence: {round:?}"));
        }
    }
    Ok(())
}

/// By the journal's own order, because clocks lie: a round's first event comes after the last one of the round before.
async fn never_overlap(store: &Arc<dyn Store>, rounds: &[RoundRow]) -> Result<(), String> {
    let mut spans: BTreeMap<&str, Vec<(i64, i64, &str)>> = BTreeMap::new();
    for round in rounds {
        let events = store.events(&round.id).await.map_err(|why| why.to_string())?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(format!("P2: a round without events: {round:?}"));
        };
        spans.entry(&round.loop_name).or_default().push((first.seq, last.seq, &round.id));
    }
    for (name, mut spans) in spans {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if pair[1].0 < pair[0].1 {
                return Err(format!("P1: rounds of {name} overlap: {pair:?}"));
            }
        }
    }
    Ok(())
}

/// Every due moment from the first registration, which lies between two moments, to the mark is in exactly one receipt;
/// answers with how many there are.
fn covers(
    name: &str,
    receipts: &[ReceiptRow],
    every_ms: i64,
    registered: (i64, i64),
    mark_ms: i64,
) -> Result<u64, String> {
    let after = |ms: i64| (ms.div_euclid(every_ms) + 1) * every_ms;
    let first = receipts.iter().find(|receipt| receipt.occurrence.starts_with("due:"));
    let mut next_ms = first.map_or(i64::MAX, |first| first.due_ms);
    if first.is_some() && !(after(registered.0)..=after(registered.1)).contains(&next_ms) {
        return Err(format!("P10: {name} is due first at {next_ms}, registered within {registered:?}"));
    }
    let mut moments = 0;
    for receipt in receipts.iter().filter(|receipt| receipt.occurrence.starts_with("due:")) {
        if receipt.due_ms != next_ms {
            return Err(format!("P10: {name} was due at {next_ms} and has {receipt:?}"));
        }
        let through_ms = receipt.through_ms.unwrap_or(receipt.due_ms);
        let count = (through_ms - receipt.due_ms) / every_ms + 1;
        if (through_ms - receipt.due_ms) % every_ms != 0 || count != receipt.count {
            return Err(format!("P10: {name} counts wrong: {receipt:?}"));
        }
        moments += count.unsigned_abs();
        next_ms = after(through_ms);
    }
    if next_ms <= mark_ms || receipts.iter().any(|receipt| receipt.through_ms.unwrap_or(0) > mark_ms) {
        return Err(format!("P10: {name} has its mark at {mark_ms} and its next due at {next_ms}"));
    }
    Ok(moments)
}

/// The rounds that receipts name; each is named once, by its own occurrence.
fn started_rounds(receipts: &[ReceiptRow], rounds: &[RoundRow]) -> Result<Vec<String>, String> {
    let mut named = Vec::new();
    for receipt in receipts.iter().filter(|receipt| receipt.receipt == "started") {
        let round = receipt.round.as_ref().ok_or_else(|| format!("P1: started what? {receipt:?}"))?;
        let row = rounds.iter().find(|row| row.id == *round).ok_or_else(|| format!("P2: no round for {receipt:?}"))?;
        if row.occurrence != receipt.occurrence || named.contains(round) {
            return Err(format!("P1: {receipt:?} names {row:?}"));
        }
        named.push(round.clone());
    }
    Ok(named)
}

/// Money is not held back for rounds that are over.
async fn nothing_held(store: &Arc<dyn Store>, rounds: &[RoundRow]) -> Result<(), String> {
    let days: BTreeSet<_> = rounds.iter().map(|round| loopwright::clock::day(round.started_ms)).collect();
    for day in days {
        let spend = store.spend(SpendScope::Fleet, "", "", &day).await.map_err(|why| why.to_string())?;
        if spend.reserved_micros != 0 || spend.reserved_tokens != 0 {
            return Err(format!("P6: {spend:?} is still held back on {day}"));
        }
    }
    Ok(())
}

//! The promises, as far as the store and the forge show them.

use super::cover::{self, Stretch, covers, is_due};
use super::fleet::World;
use super::money;
use loopwright::Engine;
use loopwright::store::{
    ReceiptRow, ReceiptsQuery, RoundRow, RoundsQuery, ScheduleRow, Store, StoreError, StoredEvent,
};
use loopwright_core::dispatch::OccurrenceOutcome;
use loopwright_testkit::repo::git;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The most events of a round with one attempt.
const EVENTS_MAX: usize = 60;

/// The counts of one run, or of many.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) lives: u64,
    rounds: u64,
    receipts: u64,
    moments: u64,
    delivered: u64,
    outcomes: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.rounds += other.rounds;
        self.receipts += other.receipts;
        self.moments += other.moments;
        self.delivered += other.delivered;
        for (word, count) in &other.outcomes {
            *self.outcomes.entry(word.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lives, rounds, receipts, moments, delivered, outcomes } = self;
        let outcome_counts: Vec<_> = outcomes.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let outcome_counts = outcome_counts.join(", ");
        write!(
            f,
            "{lives} lives, {moments} due moments in {receipts} receipts, {rounds} rounds ({outcome_counts}), {delivered} delivered"
        )
    }
}

fn unread(why: StoreError) -> String {
    format!("the store cannot be read: {why}")
}

async fn receipts(store: &Store, world: &World, loop_name: &str, limit: u32) -> Result<Vec<ReceiptRow>, String> {
    let (repo, loop_name) = (world.ground.repo_id.clone(), loop_name.to_owned());
    store.receipts(ReceiptsQuery { repo, loop_name, before: None, limit }).await.map_err(unread)
}

/// The latest receipts of every loop.
pub(crate) async fn latest(store: &Store, world: &World) -> Result<Vec<ReceiptRow>, String> {
    let mut all = Vec::new();
    for spec in world.specs() {
        all.extend(receipts(store, world, &spec.name, 20).await?);
    }
    Ok(all)
}

/// P10, at every moment: a receipt and the mark that it moves are one write.
pub(crate) fn marks_fit(latest: &[ReceiptRow], rows: &[ScheduleRow]) -> Result<(), String> {
    for receipt in latest.iter().filter(is_due) {
        let mark_ms = rows.iter().find(|row| row.loop_name == receipt.loop_name).map(|row| row.mark_ms);
        if mark_ms.is_none_or(|mark_ms| mark_ms < cover::through_ms(receipt)) {
            return Err(format!("P10: {} has its mark at {mark_ms:?}, and {receipt:?}", receipt.loop_name));
        }
    }
    Ok(())
}

/// P7, at every moment: no agent of an ended round is at work.
pub(crate) async fn ended_is_dead(store: &Store, world: &World) -> Result<(), String> {
    for round in world.own.at_work.rounds() {
        let row = store.round(&round).await.map_err(unread)?;
        if let Some(row) = row.filter(|row| row.ended_ms.is_some()) {
            return Err(format!("P7: a round is over and its agent is at work: {row:?}"));
        }
    }
    Ok(())
}

/// Checks the whole record at the end of a run.
pub(crate) async fn examine(
    engine: &Engine,
    world: &World,
    stretches: &[Vec<Stretch>],
    forge: &Path,
    tally: &mut Tally,
) -> Result<(), String> {
    let store = engine.store().as_ref();
    let report = store.verify().await.map_err(unread)?;
    if !report.is_ok() {
        return Err(format!("P2: the chain is broken: {report:?}"));
    }
    let rounds = store.rounds(RoundsQuery { limit: 10_000, ..RoundsQuery::default() }).await.map_err(unread)?;
    rounds_end(&rounds, world)?;
    let mut started = BTreeSet::new();
    for (spec, stretches) in world.specs().iter().zip(stretches) {
        let mut receipts = receipts(store, world, &spec.name, 10_000).await?;
        receipts.reverse();
        let row =
            store.schedule(&world.ground.repo_id, &spec.name).await.map_err(unread)?.ok_or("a loop has no schedule")?;
        let now_ms = loopwright::clock::Clock::now_ms(&world.clock);
        tally.moments += covers(&spec.name, &receipts, stretches, row.mark_ms, now_ms)?;
        tally.receipts += receipts.len() as u64;
        started.extend(started_rounds(&receipts, &rounds)?);
    }
    let is_by_hand = |round: &RoundRow| round.occurrence.starts_with("manual:");
    if let Some(odd) = rounds.iter().find(|round| !is_by_hand(round) && !started.contains(&round.id)) {
        return Err(format!("P1: a round without a receipt: {odd:?}"));
    }
    histories(engine, &rounds).await?;
    money::adds_up(store, world, &rounds).await?;
    tally.delivered += delivered(store, world, &rounds, forge).await?;
    tally.rounds += rounds.len() as u64;
    for round in &rounds {
        *tally.outcomes.entry(round.standing().to_owned()).or_default() += 1;
    }
    Ok(())
}

/// P9, P1, P5 and P11, by the rows of rounds.
fn rounds_end(rounds: &[RoundRow], world: &World) -> Result<(), String> {
    let mut occurrences = BTreeSet::new();
    let spoilt = world.spoilt.lock().expect("no one panics with it").clone();
    for round in rounds {
        if round.ended_ms.is_none() || round.outcome.is_none() {
            return Err(format!("P9: a round has not ended: {round:?}"));
        }
        if !occurrences.insert((&round.loop_name, &round.occurrence)) {
            return Err(format!("P1: two rounds for one occurrence: {round:?}"));
        }
        let is_success =
            matches!(round.outcome.map(|outcome| outcome.word()), Some("shipped" | "reported" | "nothing-to-do"));
        if is_success && spoilt.contains(&round.id) {
            return Err(format!("P5: its agent failed or its checker said no, and it passed: {round:?}"));
        }
        if round.attempts > 1 {
            return Err(format!("P11: more attempts than the loop allows: {round:?}"));
        }
    }
    Ok(())
}

/// P1 by the journal's order, because clocks are unreliable: a round's first event comes after the last one of the
/// round before. P12: every history replays to the state in its row.
async fn histories(engine: &Engine, rounds: &[RoundRow]) -> Result<(), String> {
    let mut spans: BTreeMap<&str, Vec<(i64, i64, &str)>> = BTreeMap::new();
    let mut histories: BTreeMap<String, String> = BTreeMap::new();
    for round in rounds {
        let events = engine.store().events(&round.id).await.map_err(unread)?;
        // A round that waits for a person has released its loop's slot; no agent works after the answer.
        let is_answer = |event: &StoredEvent| matches!(event.kind.as_str(), "approved" | "denied" | "expired");
        let (Some(first), Some(last)) = (events.first(), events.iter().take_while(|event| !is_answer(event)).last())
        else {
            return Err(format!("P2: a round without events: {round:?}"));
        };
        spans.entry(&round.loop_name).or_default().push((first.seq, last.seq, &round.id));
        one_at_a_time(round, &events)?;
        let kinds: Vec<_> = events.iter().map(|event| format!("{} {}", event.seq, event.kind)).collect();
        histories.insert(round.id.clone(), format!("{} ({})", round.occurrence, kinds.join(", ")));
        let read =
            engine.load_round(&round.id).await.map_err(|why| format!("P12: a history does not replay: {why}"))?;
        let outcome = read.round.outcome().map(|outcome| outcome.word());
        if outcome != round.outcome.map(|outcome| outcome.word()) {
            return Err(format!("P12: the history says {outcome:?}, and the row {round:?}"));
        }
    }
    for (name, mut spans) in spans {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if pair[1].0 < pair[0].1 {
                let kinds = |id: &str| histories.get(id).cloned().unwrap_or_default();
                let (one, other) = (kinds(pair[0].2), kinds(pair[1].2));
                return Err(format!("P1: rounds of {name} overlap: {pair:?}; {one} and {other}"));
            }
        }
    }
    Ok(())
}

/// P1 and P11 within a round: no agent starts while another one of it may run.
fn one_at_a_time(round: &RoundRow, events: &[StoredEvent]) -> Result<(), String> {
    if events.len() > EVENTS_MAX {
        return Err(format!("P11: {} events: {round:?}", events.len()));
    }
    let mut at_work = None;
    for event in events {
        match event.kind.as_str() {
            "role-started" => {
                if let Some(before) = at_work.replace(event.kind.clone()) {
                    return Err(format!("P1: {} while {before} had not ended: {round:?}", event.kind));
                }
            }
            "role-ended" | "recovered" | "broke" | "stopped" => at_work = None,
            _ => {}
        }
    }
    Ok(())
}

/// The rounds that receipts name; each is named once, by its own occurrence.
fn started_rounds(receipts: &[ReceiptRow], rounds: &[RoundRow]) -> Result<Vec<String>, String> {
    let mut named = Vec::new();
    for receipt in receipts.iter().filter(|receipt| receipt.receipt == OccurrenceOutcome::Started) {
        let round = receipt.round.as_ref().ok_or_else(|| format!("P1: started what? {receipt:?}"))?;
        let row = rounds.iter().find(|row| row.id == *round).ok_or_else(|| format!("P2: no round for {receipt:?}"))?;
        if row.occurrence != receipt.occurrence || named.contains(round) {
            return Err(format!("P1: {receipt:?} names {row:?}"));
        }
        named.push(round.clone());
    }
    Ok(named)
}

/// P3, P4 and P5: the forge shows exactly the items that are recorded as sent, each once, after a person's approval,
/// with the tree that passed; returns their number.
async fn delivered(store: &Store, world: &World, rounds: &[RoundRow], forge: &Path) -> Result<u64, String> {
    let forge = forge.join(&world.ground.repo_id);
    let (mut sent, mut unsure) = (0, 0);
    for round in rounds {
        for item in store.outbox(&round.id).await.map_err(unread)? {
            match item.state.word() {
                "sent" => sent += 1,
                "in-doubt" => unsure += 1,
                "staged" | "claimed" | "waiting" => return Err(format!("P3: the round is over and has {item:?}")),
                _ => continue,
            }
            let events = store.events(&round.id).await.map_err(unread)?;
            if !events.iter().any(|event| event.kind == "approved") {
                return Err(format!("P3: sent without a person's yes: {item:?}"));
            }
        }
        if round.outcome.map(|outcome| outcome.word()) == Some("shipped") {
            same_tree(&forge.join("repo.git"), round)?;
        }
    }
    let pulls = std::fs::read_dir(forge.join("pulls")).map_or(0, |entries| {
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".md")).count()
    });
    if pulls < sent || pulls > sent + unsure {
        return Err(format!("P3: {pulls} pull requests are visible, {sent} are recorded as sent, {unsure} in doubt"));
    }
    Ok(pulls as u64)
}

fn same_tree(repo: &Path, round: &RoundRow) -> Result<(), String> {
    let branch = format!("refs/heads/loop/{}/{}", round.loop_name, round.id);
    let tree = if repo.exists() { git(repo, ["for-each-ref", "--format=%(tree)", &branch]) } else { String::new() };
    if Some(tree.trim()) == round.tree.as_deref() {
        return Ok(());
    }
    Err(format!("P4: the forge has tree `{}`, and what passed is {round:?}", tree.trim()))
}

//! The promises, as far as they can be checked from outside after a fault and a restart.

use crate::world::{MARK_MS, OCCURRENCE, World};
use loopwright::store::{OutboxRow, RoundRow, RoundsQuery, SpendScope, Store, StoreMode};
use loopwright_testkit::repo::{TreeDigest, git};
use std::path::Path;

/// Every violated promise.
pub(crate) fn check(world: &World) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut wrong = runtime.block_on(recorded(world));
    let touched = world.before().changes(&TreeDigest::of_folder(&world.repo()));
    if !touched.is_empty() {
        wrong.push(format!("the user's checkout was touched: {touched:?}"));
    }
    wrong
}

async fn recorded(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let store = match Store::open_sqlite(&world.state().join("store.db"), StoreMode::Read).await {
        Ok(store) => store,
        Err(error) => return vec![format!("the store does not open: {error}")],
    };
    let rounds = store.rounds(RoundsQuery { limit: 100, ..RoundsQuery::default() }).await.expect("rounds read");
    once(&rounds, &mut wrong);
    due(&store, &rounds, &mut wrong).await;
    for round in &rounds {
        let outbox = store.outbox(&round.id).await.expect("outbox reads");
        ended(round, &outbox, &mut wrong);
        delivered(world, round, &outbox, &mut wrong);
        processes(round, &mut wrong);
        spend(&store, round, &mut wrong).await;
        starts(&store, round, &mut wrong).await;
    }
    let report = store.verify().await.expect("the chain reads");
    if report.broken.is_some() {
        wrong.push(format!("the chain is broken: {:?}", report.broken));
    }
    wrong
}

/// P1: the occurrence has exactly one round.
fn once(rounds: &[RoundRow], wrong: &mut Vec<String>) {
    let mine = rounds.iter().filter(|round| round.occurrence == OCCURRENCE).count();
    if mine != 1 {
        wrong.push(format!("the occurrence has {mine} rounds"));
    }
}

/// P1: the round, its receipt, the loop's mark and the signal it took exist together.
async fn due(store: &Store, rounds: &[RoundRow], wrong: &mut Vec<String>) {
    let Some(round) = rounds.iter().find(|round| round.occurrence == OCCURRENCE) else { return };
    let (repo, name) = (round.repo.as_str(), round.loop_name.as_str());
    let receipt = store.receipt(repo, name, OCCURRENCE).await.expect("receipts read");
    if receipt.and_then(|receipt| receipt.round) != Some(round.id.clone()) {
        wrong.push("the occurrence's receipt is not its round's".to_owned());
    }
    let mark = store.schedule(repo, name).await.expect("schedules read").map(|row| row.mark_ms);
    let waits = store.pending_signals(9).await.expect("signals read").len();
    if (mark, waits) != (Some(MARK_MS), 0) {
        wrong.push(format!("the loop's mark is {mark:?}, and {waits} signals wait for a round that is there"));
    }
}

/// P9: every round ended with a report, or asks whether an item arrived.
fn ended(round: &RoundRow, outbox: &[OutboxRow], wrong: &mut Vec<String>) {
    let doubt = round.phase.word() == "waiting" && outbox.iter().any(|row| row.state.word() == "in-doubt");
    if !doubt && (round.phase.word() != "ended" || round.outcome.is_none()) {
        wrong.push(format!("round {} is still at {}", round.id, round.phase));
    }
    if round.report.as_ref().is_some_and(|path| !Path::new(path).exists()) {
        wrong.push("the recorded report is not there".to_owned());
    }
}

/// P3, P4, P5: the forge shows exactly the items that are recorded as sent, once, with the passed tree.
fn delivered(world: &World, round: &RoundRow, outbox: &[OutboxRow], wrong: &mut Vec<String>) {
    let forge = world.state().join("forge").join(&round.repo);
    let pulls = count(&forge.join("pulls"), ".md");
    let comments = count(&forge.join("issues/7"), ".md");
    let sent = |kind: &str| outbox.iter().filter(|row| row.kind.word() == kind && row.state.word() == "sent").count();
    let unsure =
        |kind: &str| outbox.iter().filter(|row| row.kind.word() == kind && row.state.word() == "in-doubt").count();
    for (kind, visible) in [("pull-request", pulls), ("issue-comment", comments)] {
        let (sent, unsure) = (sent(kind), unsure(kind));
        if visible < sent || visible > sent + unsure || visible > 1 {
            wrong.push(format!("{visible} of {kind} are visible, {sent} are recorded as sent, {unsure} in doubt"));
        }
    }
    let shipped = round.outcome.map(|outcome| outcome.word()) == Some("shipped");
    if shipped && (pulls, comments) != (1, 1) {
        wrong.push(format!("shipped, but {pulls} pull requests and {comments} comments are visible"));
    }
    if shipped {
        let branch = format!("refs/heads/loop/mend/{}", round.id);
        let repo = forge.join("repo.git");
        // A missing repository or branch is a finding, not a reason to stop.
        let tree =
            if repo.exists() { git(&repo, ["for-each-ref", "--format=%(tree)", &branch]) } else { String::new() };
        if Some(tree.trim()) != round.tree.as_deref() {
            wrong.push(format!("the forge has tree {}, the passed one is {:?}", tree.trim(), round.tree));
        }
    }
    if outbox.iter().any(|row| matches!(row.state.word(), "staged" | "claimed" | "waiting")) {
        wrong.push("an ended round has open deliveries".to_owned());
    }
}

fn count(folder: &Path, ending: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().ends_with(ending)).count()
}

/// No agent starts while another one of the round may run, and none for an abandoned attempt.
async fn starts(store: &Store, round: &RoundRow, wrong: &mut Vec<String>) {
    let mut at_work = None;
    for event in store.events(&round.id).await.expect("events read") {
        match event.kind.as_str() {
            "role-started" => {
                if let Some(before) = at_work.replace(event.kind.clone()) {
                    wrong.push(format!("{} while {before} had not ended", event.kind));
                }
            }
            "role-ended" | "recovered" | "broke" | "stopped" => at_work = None,
            _ => {}
        }
    }
}

/// P7: no process that the round started is alive.
fn processes(round: &RoundRow, wrong: &mut Vec<String>) {
    let left = loopwright_sandbox::leftovers(&format!("lw-{}", round.id));
    if !left.is_empty() {
        wrong.push(format!("processes are left: {left:?}"));
    }
}

/// P6: nothing stays reserved, and the possible use of a started agent is charged.
async fn spend(store: &Store, round: &RoundRow, wrong: &mut Vec<String>) {
    let day = loopwright::clock::day(round.started_ms);
    let row = store.spend(SpendScope::Loop, &round.repo, &round.loop_name, &day).await.expect("spend reads");
    if row.reserved_micros != 0 || row.reserved_tokens != 0 {
        wrong.push(format!("{} tokens stay reserved", row.reserved_tokens));
    }
    if row.settled_tokens != round.spend_tokens || row.settled_micros != round.spend_micros {
        wrong.push(format!("the day has {} tokens, the round {}", row.settled_tokens, round.spend_tokens));
    }
    let ran = matches!(round.outcome.map(|outcome| outcome.word()), Some("shipped" | "interrupted"));
    if ran && round.attempts > 0 && row.settled_tokens == 0 {
        wrong.push("an agent was started and nothing was charged".to_owned());
    }
}

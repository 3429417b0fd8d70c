//! From a step to rows: the changes of one event in the store's tables. All rows can be derived from the journal; they
//! only save readers that work.

use super::context::RoundContext;
use super::memory;
use super::works;
use crate::clock;
use crate::engine::Engine;
use crate::store::{
    InboxKind, InboxRisk, InboxRow, ItemRow, ItemSpend, LedgerRow, LoopSpend, OutboxRow, OutboxState, RoundRow,
    RowChange, SpendChange, StatsChange, StoreError, WorkItemState,
};
use loopwright_core::budget::{Reservation, SpendKnown, StartBill};
use loopwright_core::outbox::{self, StagedItem};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{
    ALREADY_PROPOSED, BoundaryLevel, CHAIN_TOO_LONG, DeliveryEnded, DeliveryResult, Event, Phase, ProbeItem, Round,
    RoundFacts,
};
use loopwright_core::spec::ActionKind;
use std::collections::BTreeMap;

/// The time of a step, and how long an answer may take.
pub(super) struct StepTiming {
    pub(super) now_ms: i64,
    pub(super) started_ms: i64,
    pub(super) expires_ms: i64,
    /// The number of earlier failures of each of the round's items, by key; read when the round comes to rest.
    pub(super) failures: BTreeMap<String, i64>,
}

impl StepTiming {
    pub(super) fn now(cx: &RoundContext<'_>) -> Self {
        let now_ms = cx.engine.now_ms();
        let wait = i64::try_from(cx.engine.settings.approval.as_millis()).unwrap_or(i64::MAX);
        let (started_ms, failures) = (cx.started_ms, BTreeMap::new());
        Self { now_ms, started_ms, expires_ms: now_ms.saturating_add(wait), failures }
    }
}

/// Three failures send an item to the inbox.
const ITEM_FAILURES_MAX: i64 = 3;

/// Whether one more failure of an item is reported to a person.
pub(super) fn is_given_up(when: &StepTiming, item: &ProbeItem) -> bool {
    when.failures.get(&item.key).copied().unwrap_or(0) + 1 >= ITEM_FAILURES_MAX
}

/// The number of failures so far of each of a round's items.
pub(super) async fn failures(engine: &Engine, facts: &RoundFacts) -> Result<BTreeMap<String, i64>, StoreError> {
    let started = &facts.started;
    let mut failures = BTreeMap::new();
    for item in &facts.items {
        let row = engine.store.item(&started.repo, &started.spec.name, &item.key).await?;
        failures.insert(item.key.clone(), row.map_or(0, |row| row.failures));
    }
    Ok(failures)
}

/// The rows that change with a step.
pub(super) fn changes(before: Option<&Round>, after: &Round, event: &Event, when: &StepTiming) -> Vec<RowChange> {
    let mut changes = vec![RowChange::Round(round_row(after, when))];
    spend_changes(before, after, when, &mut changes);
    ledger_rows(before, after, when, &mut changes);
    if entered(before, after, |phase| matches!(phase, Phase::Waiting(_))) {
        outbox_rows(after, OutboxState::Waiting, when, &mut changes);
        changes.push(RowChange::Inbox(question(after, when)));
        item_row(after, RoundOutcome::Escalated, when, &mut changes);
    }
    if before.is_some_and(is_waiting) && !is_waiting(after) {
        changes.push(RowChange::InboxClosed { id: question_id(&after.facts().started.round) });
    }
    if matches!(event, Event::Approved(_) | Event::QuestionHeld(_)) && is_waiting(after) {
        // The question stays open and shows the first of several approvals, or its new end.
        changes.push(RowChange::Inbox(question(after, when)));
    }
    if entered(before, after, |phase| matches!(phase, Phase::Sending(_))) {
        outbox_rows(after, OutboxState::Staged, when, &mut changes);
    }
    if let (Event::Approved(_) | Event::Denied(_), Some(before)) = (event, before) {
        settled_doubts(before, after, when, &mut changes);
    }
    if let Some(before) = before.filter(|before| gives_up(before, after)) {
        let given_up = after.facts().deliveries.iter().skip(before.facts().deliveries.len());
        for (position, result) in given_up {
            let ended = DeliveryEnded { position: *position, result: result.clone() };
            delivered_rows(after, &ended, when, &mut changes);
        }
    }
    if let Event::Delivered(delivered) = event {
        delivered_rows(after, delivered, when, &mut changes);
    }
    if before.is_some_and(is_waiting) && matches!(after.phase(), Phase::Recording(_)) {
        // A round that ends without sending marks its waiting items as refused, so that none stays open.
        outbox_rows(after, OutboxState::Refused, when, &mut changes);
    }
    if let Phase::Suspended(outcome, _) = after.phase()
        && entered(before, after, |phase| matches!(phase, Phase::Suspended(..)))
    {
        suspended_rows(after, *outcome, when, &mut changes);
    }
    if let Phase::Ended(outcome) = after.phase() {
        // A calibration is about the checker; the loop does not learn from it.
        if !after.facts().started.calibration {
            changes.push(RowChange::Stats(stats(after, *outcome, when)));
            if *outcome != RoundOutcome::RateLimited {
                item_row(after, *outcome, when, &mut changes);
            }
            memory::memory_rows(after, *outcome, when.now_ms, &mut changes);
        }
    }
    works::work_rows(before, after, event, when.now_ms, &mut changes);
    changes
}

/// Whether a step may have given items a result without an attempt: the round ends with a doubt, or an answer ended the
/// doubt about the change that they refer to.
fn gives_up(before: &Round, after: &Round) -> bool {
    let is_doubting = |round: &Round| matches!(round.phase(), Phase::Doubting(_));
    is_doubting(before) || (is_waiting(before) && is_doubting(after))
}

fn is_waiting(round: &Round) -> bool {
    matches!(round.phase(), Phase::Waiting(_))
}

pub(super) fn entered(before: Option<&Round>, after: &Round, is: impl Fn(&Phase) -> bool) -> bool {
    is(after.phase()) && !before.is_some_and(|round| is(round.phase()))
}

fn round_row(round: &Round, when: &StepTiming) -> RoundRow {
    let facts = round.facts();
    let ended = matches!(round.phase(), Phase::Ended(_));
    let attempt = facts.attempt();
    RoundRow {
        id: facts.started.round.clone(),
        loop_name: facts.started.spec.name.clone(),
        repo: facts.started.repo.clone(),
        repo_path: facts.started.repo_path.clone(),
        occurrence: facts.started.occurrence.clone(),
        trigger: facts.started.trigger.clone(),
        item: facts.item(),
        level: facts.started.spec.level,
        phase: round.phase().name(),
        outcome: round.outcome(),
        started_ms: when.started_ms,
        ended_ms: ended.then_some(when.now_ms),
        attempts: i64::from(facts.attempt_number()),
        base: facts.base.clone(),
        tree: attempt.and_then(|attempt| attempt.tree.clone()),
        candidate: attempt.and_then(|attempt| attempt.candidate.clone()),
        spec_hash: facts.started.spec_hash.clone(),
        summary: summary(round),
        report: facts.report.clone(),
        spend_tokens: clamp(facts.spend.tokens.total()),
        spend_micros: clamp(facts.spend.usd.micros()),
        cookie: facts.running.first().map(|running| running.cookie.clone()),
    }
}

/// One line for lists: the last reason, shortened.
fn summary(round: &Round) -> String {
    let text = round.facts().reasons.last().map_or(String::new(), |reason| reason.text.clone());
    text.chars().take(200).collect()
}

pub(super) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reservations are released and the usage is settled in the same transaction as the agent's end.
fn spend_changes(before: Option<&Round>, after: &Round, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let known = before.map_or(0, |round| round.facts().bills.len());
    let facts = after.facts();
    for bill in facts.bills.iter().skip(known) {
        let freed = bill.reserved;
        let (tokens, micros) = (clamp(bill.spend.tokens.total()), clamp(bill.spend.usd.micros()));
        if freed == Reservation::default() && tokens == 0 && micros == 0 {
            continue;
        }
        item_spend(facts, freed, tokens, micros, changes);
        // The spend is charged to the day on which the agent started, because its reservation is there.
        let spend = SpendChange {
            day: bearing(bill, when),
            repo: facts.started.repo.clone(),
            loop_name: facts.started.spec.name.clone(),
            reserved_micros: -clamp(freed.usd.micros()),
            settled_micros: micros,
            reserved_tokens: -clamp(freed.tokens),
            settled_tokens: tokens,
        };
        changes.push(RowChange::LoopSpend(LoopSpend {
            day: bill.loop_day.clone().unwrap_or_else(|| spend.day.clone()),
            repo: spend.repo.clone(),
            loop_name: spend.loop_name.clone(),
            reserved_micros: spend.reserved_micros,
            settled_micros: spend.settled_micros,
            reserved_tokens: spend.reserved_tokens,
            settled_tokens: spend.settled_tokens,
        }));
        changes.push(RowChange::Spend(spend));
    }
}

/// Several items share the cost; nothing is reserved for them, because a share has no ceiling.
fn item_spend(facts: &RoundFacts, freed: Reservation, tokens: i64, micros: i64, changes: &mut Vec<RowChange>) {
    let (is_one, count) = (facts.items.len() == 1, i64::try_from(facts.items.len()).unwrap_or(i64::MAX));
    let share = |sum: i64, at: usize| sum / count + i64::from(i64::try_from(at).is_ok_and(|at| at < sum % count));
    changes.extend(facts.items.iter().enumerate().map(|(at, item)| {
        RowChange::ItemSpend(ItemSpend {
            repo: facts.started.repo.clone(),
            loop_name: facts.started.spec.name.clone(),
            item: item.key.clone(),
            reserved_micros: if is_one { -clamp(freed.usd.micros()) } else { 0 },
            settled_micros: share(micros, at),
            reserved_tokens: if is_one { -clamp(freed.tokens) } else { 0 },
            settled_tokens: share(tokens, at),
        })
    }));
}

/// The ledger rows of every bill of a step. A start that cost nothing has one too, so that it can be counted.
fn ledger_rows(before: Option<&Round>, after: &Round, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let facts = after.facts();
    let known = before.map_or(0, |round| round.facts().bills.len());
    for (start, bill) in facts.bills.iter().enumerate().skip(known) {
        changes.extend(bill.lines().into_iter().map(|line| {
            RowChange::Ledger(LedgerRow {
                round: facts.started.round.clone(),
                start: i64::try_from(start).unwrap_or(i64::MAX),
                model: line.model,
                day: bearing(bill, when),
                repo: facts.started.repo.clone(),
                loop_name: facts.started.spec.name.clone(),
                item: facts.item(),
                attempt: i64::from(bill.attempt),
                role: bill.role.word().to_owned(),
                agent: bill.agent.clone(),
                at_ms: when.now_ms,
                input: clamp(line.tokens.input),
                output: clamp(line.tokens.output),
                cache_read: clamp(line.tokens.cache_read),
                cache_write: clamp(line.tokens.cache_write),
                micros: clamp(line.usd.micros()),
                known: i64::from(line.known == SpendKnown::Yes),
            })
        }));
    }
}

/// The day to which an agent's cost is charged. Old records do not name it: there it is the round's.
fn bearing(bill: &StartBill, when: &StepTiming) -> String {
    bill.day.clone().unwrap_or_else(|| clock::day(when.started_ms))
}

/// The rows of the outgoing items that have not been delivered, in one state.
fn outbox_rows(round: &Round, state: OutboxState, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let is_done = |item: &StagedItem| round.facts().deliveries.iter().any(|(done, _)| *done == item.position);
    let outward = items(round).filter(|item| item.kind != ActionKind::Report && !is_done(item));
    changes.extend(outward.map(|item| RowChange::Outbox(outbox_row(round, item, state, when))));
}

/// The claim of an item that is kept and may have been sent: the attempt of no living process.
const UNSETTLED: &str = "an attempt without a known result";

/// Whether an item is at its receiver, may be there, or is being sent.
pub(super) fn may_have_arrived(row: &OutboxRow) -> bool {
    match row.state {
        OutboxState::Sent | OutboxState::InDoubt | OutboxState::Claimed => true,
        OutboxState::Waiting => row.claim.as_deref() == Some(UNSETTLED),
        OutboxState::Staged | OutboxState::Refused | OutboxState::Quarantined => false,
    }
}

pub(super) fn items(round: &Round) -> impl Iterator<Item = &StagedItem> {
    round.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default().iter()
}

pub(super) fn outbox_row(round: &Round, item: &StagedItem, state: OutboxState, when: &StepTiming) -> OutboxRow {
    let started = &round.facts().started;
    let candidate = round.facts().attempt().and_then(|attempt| attempt.candidate.clone()).unwrap_or_default();
    let name = &started.spec.name;
    OutboxRow {
        id: outbox::item_id(name, &started.round, item.position, &candidate),
        round: started.round.clone(),
        loop_name: name.clone(),
        repo: started.repo.clone(),
        position: i64::from(item.position),
        kind: item.kind,
        target: item.target.clone(),
        state,
        marker: outbox::marker(name, &started.round, item.position, &candidate),
        candidate,
        body: serde_json::to_string(item).unwrap_or_default(),
        claim: round.facts().maybe_sent.contains(&item.position).then(|| UNSETTLED.to_owned()),
        fence: 0,
        tries: 0,
        receipt: None,
        updated_ms: when.now_ms,
    }
}

fn delivered_rows(round: &Round, delivered: &DeliveryEnded, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let Some(item) = items(round).find(|item| item.position == delivered.position) else { return };
    let (state, receipt) = match &delivered.result {
        DeliveryResult::Sent { place, .. } => (OutboxState::Sent, place.clone()),
        DeliveryResult::InDoubt { text } => (OutboxState::InDoubt, text.clone()),
        DeliveryResult::Refused { text } => (OutboxState::Refused, text.clone()),
        DeliveryResult::Quarantined { text } => (OutboxState::Quarantined, text.clone()),
        DeliveryResult::Blocked { text, .. } => (OutboxState::Waiting, text.clone()),
    };
    let row = outbox_row(round, item, state, when);
    if state == OutboxState::InDoubt {
        changes.push(RowChange::Inbox(doubt(round, &row, when)));
    }
    changes.push(RowChange::Outbox(OutboxRow { receipt: Some(receipt), tries: 1, ..row }));
}

/// A person's answer resolves the doubts that it is about: each item gets its state, and its question is closed.
fn settled_doubts(before: &Round, after: &Round, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let was_in_doubt = |position: u32| {
        let doubt =
            |(at, result): &(u32, DeliveryResult)| *at == position && matches!(result, DeliveryResult::InDoubt { .. });
        before.facts().deliveries.iter().any(doubt)
    };
    let is_settled = |(position, result): &&(u32, DeliveryResult)| {
        was_in_doubt(*position) && !matches!(result, DeliveryResult::InDoubt { .. })
    };
    for (position, result) in after.facts().deliveries.iter().filter(is_settled) {
        let delivered = DeliveryEnded { position: *position, result: result.clone() };
        delivered_rows(after, &delivered, when, changes);
        if let Some(item) = items(after).find(|item| item.position == *position) {
            let id = outbox_row(after, item, OutboxState::Sent, when).id;
            changes.push(RowChange::InboxClosed { id: format!("d-{id}") });
        }
    }
}

/// The inbox id of a round's approval.
pub(crate) fn question_id(round: &str) -> String {
    format!("a-{round}")
}

fn question(round: &Round, when: &StepTiming) -> InboxRow {
    let facts = round.facts();
    let attempt = facts.attempt();
    let sensitive = attempt.is_some_and(|attempt| !attempt.findings.sensitive.is_empty());
    InboxRow {
        id: question_id(&round.facts().started.round),
        round: facts.started.round.clone(),
        loop_name: facts.started.spec.name.clone(),
        repo: facts.started.repo.clone(),
        kind: InboxKind::Approval,
        risk: if sensitive { InboxRisk::High } else { InboxRisk::Medium },
        candidate: attempt.and_then(|attempt| attempt.candidate.clone()),
        summary: question_line(round),
        created_ms: facts.window.map_or(when.now_ms, |window| window.from_ms),
        expires_ms: Some(facts.window.map_or(when.expires_ms, |window| window.until_ms)),
        closed_ms: None,
    }
}

fn question_line(round: &Round) -> String {
    let kinds: Vec<_> = items(round).map(|item| item.kind.word()).filter(|kind| *kind != "report").collect();
    let files = round.facts().attempt().map_or(0, |attempt| attempt.changes.len());
    let what = if kinds.is_empty() { "report".to_owned() } else { kinds.join(", ") };
    let open = match round.facts().boundary().level {
        BoundaryLevel::Off => "sandbox off; ",
        BoundaryLevel::Kernel | BoundaryLevel::Process => "",
    };
    let sent = if round.facts().maybe_sent.is_empty() { "" } else { "may have been sent; " };
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    format!("{what}; {files} changed; {open}{sent}{}", summary(round))
}

fn doubt(round: &Round, row: &OutboxRow, when: &StepTiming) -> InboxRow {
    InboxRow {
        id: format!("d-{}", row.id),
        kind: InboxKind::InDoubt,
        risk: InboxRisk::High,
        summary: format!("{} may or may not have been delivered", row.kind),
        created_ms: when.now_ms,
        expires_ms: None,
        ..question(round, when)
    }
}

/// A suspended round counts as run, and as a failure until it resumes and ends better. A ceiling counts against the
/// item too, because another round for it may reach the same one; a provider limit does not.
fn suspended_rows(round: &Round, outcome: RoundOutcome, when: &StepTiming, changes: &mut Vec<RowChange>) {
    if round.facts().suspensions.len() > 1 {
        return;
    }
    changes.push(RowChange::Stats(StatsChange { items: 0, ..counted(round, outcome, when) }));
    if outcome == RoundOutcome::OverBudget {
        item_row(round, outcome, when, changes);
    }
}

/// The additions of a round's end to its loop's counters, less the additions of its suspension.
fn stats(round: &Round, outcome: RoundOutcome, when: &StepTiming) -> StatsChange {
    let all = counted(round, outcome, when);
    if round.facts().suspensions.is_empty() || round.facts().started.dry_run {
        return all;
    }
    StatsChange { runs: 0, failures: all.failures - 1, duration_ms: 0, ..all }
}

fn counted(round: &Round, outcome: RoundOutcome, when: &StepTiming) -> StatsChange {
    // A dry run is no run of the loop: its spend counts, its success does not.
    if round.facts().started.dry_run {
        let started = &round.facts().started;
        return StatsChange {
            repo: started.repo.clone(),
            loop_name: started.spec.name.clone(),
            runs: 0,
            successes: 0,
            failures: 0,
            items: 0,
            duration_ms: 0,
            last_run_ms: None,
            last_outcome: None,
            last_round: None,
        };
    }
    let done = if outcome.is_success() { i64::try_from(round.facts().items.len()).unwrap_or(i64::MAX) } else { 0 };
    StatsChange {
        repo: round.facts().started.repo.clone(),
        loop_name: round.facts().started.spec.name.clone(),
        runs: 1,
        successes: i64::from(outcome.is_success()),
        failures: i64::from(!outcome.is_success()),
        items: done,
        duration_ms: (when.now_ms - when.started_ms).max(0),
        last_run_ms: Some(when.started_ms),
        last_outcome: Some(outcome),
        last_round: Some(round.facts().started.round.clone()),
    }
}

/// Whether the change of a round is out, although another item of the round may not be: to do the work again would
/// propose it twice.
fn has_sent_change(facts: &RoundFacts) -> bool {
    let changes = |kind| matches!(kind, ActionKind::PullRequest | ActionKind::Commit);
    let items = facts.attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    let is_change = |position: u32| items.iter().any(|item| item.position == position && changes(item.kind));
    let is_sent = |result: &DeliveryResult| matches!(result, DeliveryResult::Sent { .. });
    facts.deliveries.iter().any(|(position, result)| is_sent(result) && is_change(*position))
}

/// An item is processed on shipped, reported and escalated, and if its change was proposed before; any other end counts
/// as a failure, and after three a person is asked. Items that shared a round share its end, and each has its own count.
fn item_row(round: &Round, outcome: RoundOutcome, when: &StepTiming, changes: &mut Vec<RowChange>) {
    let facts = round.facts();
    // A dry run leaves its items to a real round. So does a round that ran at a lower level to save budget.
    if facts.started.dry_run || facts.saves_budget {
        return;
    }
    let is_chained = facts.reasons.last().is_some_and(|reason| reason.code == CHAIN_TOO_LONG);
    let is_proposed = facts.reasons.last().is_some_and(|reason| reason.code == ALREADY_PROPOSED);
    let good = matches!(outcome, RoundOutcome::Shipped | RoundOutcome::Reported | RoundOutcome::Escalated)
        || is_proposed
        || has_sent_change(facts);
    for item in &facts.items {
        let before = when.failures.get(&item.key).copied().unwrap_or(0);
        let failures = match (is_chained, good) {
            // A person decides, as about an item that failed too often.
            (true, _) => ITEM_FAILURES_MAX,
            (false, true) => 0,
            (false, false) => before + 1,
        };
        changes.push(RowChange::Item(ItemRow {
            repo: facts.started.repo.clone(),
            loop_name: facts.started.spec.name.clone(),
            key: item.key.clone(),
            state: match failures {
                0 => WorkItemState::Processed,
                ..ITEM_FAILURES_MAX => WorkItemState::Failed,
                _ => WorkItemState::Waiting,
            },
            failures,
            round: facts.started.round.clone(),
            updated_ms: when.now_ms,
        }));
        // A later successful round that a person started for the item answers the question about its failures.
        let answered = good && !is_chained && before >= ITEM_FAILURES_MAX;
        if failures >= ITEM_FAILURES_MAX || answered {
            let closed_ms = answered.then_some(when.now_ms);
            changes.push(RowChange::Inbox(InboxRow {
                closed_ms,
                ..item_question(round, &item.key, failures.max(before), when)
            }));
        }
    }
}

fn item_question(round: &Round, key: &str, failures: i64, when: &StepTiming) -> InboxRow {
    let started = &round.facts().started;
    InboxRow {
        id: item_question_id(&started.repo, &started.spec.name, key),
        kind: InboxKind::ItemFailed,
        risk: InboxRisk::Medium,
        summary: match round.facts().reasons.last() {
            Some(reason) if reason.code == CHAIN_TOO_LONG => reason.text.clone(),
            _ => format!("item `{key}` failed {failures} times"),
        },
        expires_ms: None,
        ..question(round, when)
    }
}

/// One question for each item, however often it fails.
pub(crate) fn item_question_id(repo: &str, loop_name: &str, key: &str) -> String {
    let fields = [b"loopwright item question 1", repo.as_bytes(), loop_name.as_bytes(), key.as_bytes()];
    format!("i-{}", loopwright_core::hash::hash_fields(&fields).chars().take(20).collect::<String>())
}

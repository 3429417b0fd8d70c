//! Admission of rounds that the dispatcher did not start, and the effect of a round at rest on its loop's schedule and
//! on other loops.

use super::message::{DaemonSender, RoundAtRest};
use super::{followers, retries};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::live_rounds::{AdmissionRequest, AdmittedRound};
use crate::proc::CancelToken;
use crate::round::rows::question_id;
use crate::store::{InboxKind, SignalRow, Store, StoreError};
use loopwright_core::budget::BudgetScope;
use loopwright_core::cadence::DayZone;
use loopwright_core::dispatch::{ABOUT, LoopKey, RoundEnd};
use loopwright_core::hash;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Phase, Round, RoundStarted, Stage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most open questions that are read.
const QUESTIONS: u32 = 10_000;
/// The first and the longest wait before a blocked round is sent again.
const RESEND_MS: i64 = 60_000;
const RESEND_MAX_MS: i64 = 3_600_000;

/// The followers of each loop.
type Followers = HashMap<LoopKey, Vec<Arc<str>>>;

/// Admits rounds on behalf of the daemon's task, and reports to it when they come to rest.
pub(crate) struct DaemonAdmission {
    sender: DaemonSender,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    zone: DayZone,
    followers: Mutex<Followers>,
}

impl DaemonAdmission {
    /// For the task behind this sender. It holds no engine, because the engine holds it.
    pub(super) fn new(sender: DaemonSender, engine: &Engine) -> Self {
        let (store, clock) = (Arc::clone(&engine.store), Arc::clone(&engine.settings.clock));
        Self { sender, store, clock, zone: engine.settings.zone.clone(), followers: Mutex::default() }
    }

    /// Replaces the map of followers.
    pub(super) fn set_followers(&self, after: &[(LoopKey, Arc<str>)]) {
        let mut followers = Followers::new();
        for (follower, leader) in after {
            let leader = LoopKey { repo: Arc::clone(&follower.repo), name: Arc::clone(leader) };
            followers.entry(leader).or_default().push(Arc::clone(&follower.name));
        }
        *self.followers.lock().unwrap_or_else(PoisonError::into_inner) = followers;
    }

    fn of(&self, key: &LoopKey) -> Vec<Arc<str>> {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.get(key).cloned().unwrap_or_default()
    }

    async fn rest(&self, round: &Round) -> Result<RoundAtRest, StoreError> {
        let started = &round.facts().started;
        let key = LoopKey::new(&started.repo, &started.spec.name);
        let open = open_proposals(self.store.as_ref(), &key).await?;
        let (mut signals, too_deep) = self.followed(&key, round).await?;
        signals.extend(retries::pending_retry_signals(self.store.as_ref(), round).await?);
        let question = match round.phase() {
            Phase::Waiting(_) => self.store.inbox_item(&question_id(&started.round)).await?,
            _ => None,
        };
        Ok(RoundAtRest {
            end: round_end(round, open, self.clock.now_ms(), &self.zone),
            round: started.round.clone(),
            key,
            signals,
            too_deep,
            expires_ms: question.and_then(|question| question.expires_ms),
            asks: !started.spec.approvals.ask.is_empty(),
            resume_ms: resume_ms(round, self.clock.now_ms(), &self.zone).or(resend_ms(round, self.clock.now_ms())),
            items: item_keys(round),
        })
    }

    /// The signals that the round's end made, and the followers for which it made none.
    async fn followed(
        &self,
        key: &LoopKey,
        round: &Round,
    ) -> Result<(Vec<SignalRow>, Vec<(LoopKey, u32)>), StoreError> {
        let (mut signals, mut too_deep) = (Vec::new(), Vec::new());
        let followers = self.of(key);
        if followers.is_empty() || !followers::triggers_followers(round) {
            return Ok((signals, too_deep));
        }
        let occurrence = followers::occurrence_key(&key.name, &round.facts().started.round);
        for follower in followers {
            match self.store.signal(&key.repo, &follower, &occurrence).await? {
                Some(signal) => signals.extend(Some(signal).filter(|signal| signal.taken_ms.is_none())),
                None => {
                    let depth = followers::provenance(self.store.as_ref(), round).await?.depth;
                    too_deep.push((LoopKey { repo: Arc::clone(&key.repo), name: follower }, depth));
                }
            }
        }
        Ok((signals, too_deep))
    }
}

/// For every part of the engine that starts rounds.
impl DaemonAdmission {
    /// Admits the round unless a round of its loop is running or a lock that it needs is held. The token cancels the
    /// wait.
    pub(crate) async fn admit(
        &self,
        arrival: AdmissionRequest,
        cancel: &CancelToken,
    ) -> Result<AdmittedRound, EngineError> {
        let (slot, items) = self.sender.occupy(arrival, cancel).await?;
        Ok(AdmittedRound { slot: Some(slot), items })
    }

    /// A round came to rest; its loop's schedule and the loops that follow it learn of it.
    pub(crate) async fn on_round_at_rest(&self, round: &Round) {
        // If the record cannot be read now, the next start reads it.
        if let Ok(rest) = self.rest(round).await {
            let _ = self.sender.send(move |desk| desk.on_round_at_rest(rest));
        }
    }

    /// A round was answered, but the steps after the answer failed: the daemon has to resume it.
    pub(crate) fn on_round_left_open(&self, started: &RoundStarted) {
        let (key, round) = (LoopKey::new(&started.repo, &started.spec.name), started.round.clone());
        // A daemon that has ended finds it when it starts again.
        let _ = self.sender.send(move |desk| desk.left_open(key, round));
    }

    /// The loops of the repository that are due when a round of this one ends.
    pub(crate) fn followers(&self, repo: &str, loop_name: &str) -> Vec<Arc<str>> {
        self.of(&LoopKey::new(repo, loop_name))
    }

    /// The loop's budget was raised.
    pub(crate) fn on_budget_raised(&self, repo: &str, loop_name: &str) {
        let key = LoopKey::new(repo, loop_name);
        // A daemon that has ended checks it when it starts again.
        let _ = self.sender.send(move |desk| desk.raised(key));
    }
}

/// The keys of the round's items.
pub(super) fn item_keys(round: &Round) -> Vec<Arc<str>> {
    round.facts().items.iter().map(|item| item.key.as_str().into()).collect()
}

/// The number of the loop's proposals that wait for a person.
pub(crate) async fn open_proposals(store: &Store, key: &LoopKey) -> Result<u32, StoreError> {
    let open = store.inbox(QUESTIONS).await?;
    let own = open.iter().filter(|row| {
        row.kind == InboxKind::Approval && row.repo.as_str() == &*key.repo && row.loop_name.as_str() == &*key.name
    });
    Ok(u32::try_from(own.count()).unwrap_or(u32::MAX))
}

/// The end of a round, as far as the next one depends on it. If the day's budget has no room for this round, it has
/// none for another: all of them would be suspended, and would resume together on the next day.
pub(super) fn round_end(round: &Round, open_proposals: u32, now_ms: i64, zone: &DayZone) -> RoundEnd {
    let outcome = round.outcome().unwrap_or(RoundOutcome::Interrupted);
    let retry_at_ms = round.retry_at_ms().or_else(|| resume_ms(round, now_ms, zone)).or_else(|| {
        // A round that found its budget used up at the start cost nothing, and the next due time looks again.
        let is_unspent = round.facts().reasons.last().is_some_and(|reason| reason.stage == Stage::Recall);
        (outcome == RoundOutcome::OverBudget && is_unspent).then_some(now_ms)
    });
    RoundEnd { outcome, signature: signature(round, outcome), retry_at_ms, open_proposals }
}

/// The signature that equal failures share: outcome, stage, code, the text without digits, and the items. A stop, a
/// provider limit and a budget limit do not count as failures of the loop.
fn signature(round: &Round, outcome: RoundOutcome) -> Option<String> {
    let counts = match outcome {
        RoundOutcome::Failed
        | RoundOutcome::Refused
        | RoundOutcome::Rejected
        | RoundOutcome::Plateaued
        | RoundOutcome::Cannot
        | RoundOutcome::Empty => true,
        RoundOutcome::Shipped
        | RoundOutcome::Reported
        | RoundOutcome::NothingToDo
        | RoundOutcome::Escalated
        | RoundOutcome::OverBudget
        | RoundOutcome::RateLimited
        | RoundOutcome::Interrupted
        | RoundOutcome::Cancelled => false,
    };
    let reason = round.facts().reasons.last().filter(|_| counts)?;
    let words: String = reason.text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    let words = hash::hash_fields(&[b"loopwright failure 1", words.as_bytes()]);
    let words = words.get(..12).unwrap_or_default();
    let failure = format!("{} {:?} {} {words}", outcome.word(), reason.stage, reason.code).to_lowercase();
    let keys: Vec<&[u8]> = round.facts().items.iter().map(|item| item.key.as_bytes()).collect();
    let item = hash::hash_fields(&keys);
    Some(match keys.is_empty() {
        true => failure,
        false => format!("{failure}{ABOUT}{}", item.get(..12).unwrap_or_default()),
    })
}

/// The time at which a round that its receiver blocked at that moment is sent again: after a minute, then after twice as
/// long each time, up to an hour. A person may fix the cause at any time and is not asked to report it.
pub(super) fn resend_ms(round: &Round, blocked_ms: i64) -> Option<i64> {
    let facts = round.facts();
    let is_blocked = facts.is_blocked && matches!(round.phase(), Phase::Waiting(_));
    let doublings = facts.blocked_times.saturating_sub(1).min(6);
    is_blocked.then(|| blocked_ms.saturating_add((RESEND_MS << doublings).min(RESEND_MAX_MS)))
}

/// The earliest time at which a round that was suspended at that moment can resume by itself: its provider is available
/// again, or a new day has a new budget.
pub(super) fn resume_ms(round: &Round, suspended_ms: i64, zone: &DayZone) -> Option<i64> {
    match round.phase() {
        Phase::Suspended(RoundOutcome::RateLimited, _) => round.retry_at_ms(),
        Phase::Suspended(RoundOutcome::OverBudget, _) if round.waits_for_period() && !round.is_full() => {
            let facts = round.facts();
            let is_own = facts.reasons.last().is_some_and(|reason| reason.text.contains(BudgetScope::Day.label()));
            let zone = if is_own { zone.of_loop(&facts.started.spec) } else { zone.clone() };
            Some(zone.next_day_ms(suspended_ms))
        }
        _ => None,
    }
}

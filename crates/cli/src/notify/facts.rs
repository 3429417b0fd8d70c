//! The facts of notifications: rounds that ended and questions that were asked, from the record, so that none is lost when
//! a process dies; and what only the running daemon knows, from its event stream.

use super::NotificationFile;
use crate::error::CommandError;
use crate::output::safe;
use crate::view::time::now_ms;
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::store::{InboxRow, RoundRow, Store};
use loopwright_core::config::NotifyRoute;
use loopwright_core::notify::{NotificationFact, NotifySeverity};
use loopwright_core::secrets::redact;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Older facts are not sent: after a long stop they are no news.
const AGE_MAX_MS: i64 = 24 * 3_600_000;

/// Events read at a time.
const PAGE: u32 = 200;

/// The journal is read again from the stored number if this many events had no facts.
const CURSOR_STEP: i64 = 1_000;

/// Open questions that are compared.
const QUESTIONS_MAX: u32 = 1_000;

/// Facts of the event stream that wait to be stored.
const HEARD_MAX: usize = 100;

/// The kind of the journal event that ends a round.
const ENDED: &str = "recorded";

/// The daemon's event stream, as far as notifications need it. It only remembers and wakes; it never delays a round.
#[derive(Default)]
pub(crate) struct HeardFacts {
    is_on: AtomicBool,
    facts: Mutex<Vec<NotificationFact>>,
    /// The last failure of a write: its repetitions are no news.
    last_failure: Mutex<Option<String>>,
    wake: Notify,
}

impl HeardFacts {
    /// Remembers facts only while a route exists.
    pub(crate) fn set_on(&self, is_on: Switch) {
        self.is_on.store(is_on == Switch::On, Ordering::Relaxed);
    }

    /// Returns when something happened.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    fn take(&self) -> Vec<NotificationFact> {
        std::mem::take(&mut *self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this is the failure that the last event about writes reported. A write that succeeds ends it.
    fn is_repeated_failure(&self, kind: &EventKind) -> bool {
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            EventKind::WriteFailed { why, .. } => last.replace(why.clone()).as_ref() == Some(why),
            EventKind::Recorded { .. } => {
                *last = None;
                false
            }
            _ => false,
        }
    }

    fn put_back(&self, mut facts: Vec<NotificationFact>) {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.append(&mut known);
        facts.truncate(HEARD_MAX);
        *known = facts;
    }
}

/// Whether any route exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

impl EventSink for HeardFacts {
    fn event(&self, event: &LiveEvent) {
        // The loops were loaded again: the configuration may have its first route now.
        if matches!(event.kind, EventKind::Loaded { .. }) {
            self.wake.notify_one();
        }
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        if self.is_repeated_failure(&event.kind) {
            return;
        }
        if let Some((severity, text)) = own_fact(&event.kind) {
            let fact = NotificationFact {
                at_ms: event.at_ms,
                severity,
                loop_name: safe(event.loop_name()),
                round: event.round.clone(),
                text: plain(&text),
            };
            self.put_back(vec![fact]);
            self.wake.notify_one();
        } else if is_recorded_fact(&event.kind) {
            self.wake.notify_one();
        }
    }
}

/// A fact that the record does not have.
fn own_fact(kind: &EventKind) -> Option<(NotifySeverity, String)> {
    match kind {
        EventKind::Frozen { by, why } => {
            Some((NotifySeverity::Urgent, format!("everything is stopped by {by}: {why}")))
        }
        EventKind::WriteFailed { why, .. } => {
            Some((NotifySeverity::Urgent, format!("the record cannot be written: {why}")))
        }
        EventKind::Fenced { why } => Some((NotifySeverity::Urgent, format!("this daemon lost its store: {why}"))),
        EventKind::LoadFailed { why } => Some((NotifySeverity::Warning, format!("loops could not be loaded: {why}"))),
        EventKind::NotStarted { why, again_ms: None } => {
            Some((NotifySeverity::Warning, format!("it was due and could not start: {why}")))
        }
        _ => None,
    }
}

/// Whether the record may have a new fact.
fn is_recorded_fact(kind: &EventKind) -> bool {
    match kind {
        EventKind::Recorded { event, .. } => *event == ENDED,
        kind => matches!(kind, EventKind::Asked { .. } | EventKind::Ended { .. } | EventKind::Expired { .. }),
    }
}

/// Moves new facts into the queue.
pub(crate) struct FactCollector {
    file: NotificationFile,
    /// The last event that was read, although the stored number is older.
    read_to: Mutex<i64>,
}

impl FactCollector {
    /// A collector for a queue.
    pub(crate) fn new(file: NotificationFile) -> Self {
        Self { file, read_to: Mutex::new(0) }
    }

    /// Reads the record from where the queue stands and adds what is new. The facts and the place in the journal are
    /// stored together, so that no crash loses a fact or adds it twice. The first pass only marks the place.
    pub(crate) async fn collect(
        &self,
        store: &Store,
        heard: &HeardFacts,
        routes: &BTreeMap<String, NotifyRoute>,
    ) -> Result<(), CommandError> {
        let taken = heard.take();
        let done = self.collect_with(store, &taken, routes).await;
        if done.is_err() {
            // Facts that only the daemon knows need no store, and are often about the store that fails.
            let now = now_ms();
            if self.file.change(|queue| taken.iter().for_each(|fact| queue.add(routes, fact, now))).is_err() {
                heard.put_back(taken);
            }
        }
        done
    }

    async fn collect_with(
        &self,
        store: &Store,
        heard: &[NotificationFact],
        routes: &BTreeMap<String, NotifyRoute>,
    ) -> Result<(), CommandError> {
        let queue = self.file.read()?;
        let open = store.inbox(QUESTIONS_MAX).await?;
        let asked: BTreeMap<String, i64> = open.iter().map(|item| (item.id.clone(), item.created_ms)).collect();
        let last = store.last_seq().await?;
        // A larger number is from another store: the state directory had one before.
        let Some(cursor) = queue.cursor.filter(|cursor| *cursor <= last) else {
            *self.read_to.lock().unwrap_or_else(PoisonError::into_inner) = 0;
            return self.file.change(|queue| (queue.cursor, queue.asked) = (Some(last), asked));
        };
        let now = now_ms();
        let (mut facts, seq) = self.ended_rounds(store, cursor).await?;
        facts.extend(open.iter().filter(|item| queue.asked.get(&item.id) != Some(&item.created_ms)).map(question_fact));
        facts.extend(heard.iter().cloned());
        facts.retain(|fact| now.saturating_sub(fact.at_ms) <= AGE_MAX_MS);
        facts.sort_by_key(|fact| fact.at_ms);
        if !facts.is_empty() || asked != queue.asked || seq - cursor >= CURSOR_STEP {
            self.file.change(|queue| {
                facts.iter().for_each(|fact| queue.add(routes, fact, now));
                (queue.cursor, queue.asked) = (Some(seq), asked);
            })?;
        }
        *self.read_to.lock().unwrap_or_else(PoisonError::into_inner) = seq;
        Ok(())
    }

    /// The facts of all rounds that ended after a number, and the last number.
    async fn ended_rounds(&self, store: &Store, cursor: i64) -> Result<(Vec<NotificationFact>, i64), CommandError> {
        let read_to = *self.read_to.lock().unwrap_or_else(PoisonError::into_inner);
        // A round that waited for a person has several such events; its row is that of the last one.
        let (mut ended, mut seq) = (BTreeMap::new(), cursor.max(read_to));
        loop {
            let events = store.tail(seq, PAGE).await?;
            seq = events.last().map_or(seq, |event| event.seq);
            let is_last_page = events.len() < PAGE as usize;
            ended
                .extend(events.into_iter().filter(|event| event.kind == ENDED).map(|event| (event.round, event.at_ms)));
            if is_last_page {
                break;
            }
        }
        let mut facts = Vec::new();
        for (round, at_ms) in ended {
            facts.extend(store.round(&round).await?.and_then(|row| round_fact(&row, at_ms)));
        }
        Ok((facts, seq))
    }
}

fn round_fact(row: &RoundRow, at_ms: i64) -> Option<NotificationFact> {
    let outcome = row.outcome?;
    let severity = NotifySeverity::of_outcome(outcome)?;
    let text = if row.summary.is_empty() { outcome.word().to_owned() } else { format!("{outcome}: {}", row.summary) };
    Some(NotificationFact {
        at_ms,
        severity,
        loop_name: safe(&row.loop_name),
        round: Some(row.id.clone()),
        text: plain(&text),
    })
}

fn question_fact(item: &InboxRow) -> NotificationFact {
    let round = Some(item.round.clone()).filter(|round| !round.is_empty());
    let text = plain(&format!("a person must decide: {}; answer {} in the inbox", item.summary, item.id));
    let loop_name = safe(&item.loop_name);
    NotificationFact { at_ms: item.created_ms, severity: NotifySeverity::Urgent, loop_name, round, text }
}

/// One line without control characters and without what looks like a secret. Agents may have written parts of it.
fn plain(text: &str) -> String {
    safe(&redact(text).replace(['\n', '\r', '\t'], " "))
}

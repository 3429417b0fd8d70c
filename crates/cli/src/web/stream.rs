//! The stream of events for browsers and programs: the journal from a number on, and the lines of running agents between
//! its events. A reader that was away names the last number that it saw and misses nothing of the journal.

use super::reply::{self, WebReply};
use crate::view::last_action::last_action;
use crate::view::time::{now_ms, timestamp};
use hyper::body::Bytes;
use loopwright::Engine;
use loopwright::events::{EventKind, LiveEvent, Received};
use loopwright::store::{Store, StoredEvent};
use loopwright_core::secrets::redact;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

/// Pieces that wait for a slow reader. A reader that falls further behind is ended; it resumes by its last number.
const QUEUED_MAX: usize = 256;

/// How long the journal waits for a slow reader.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// Events read at a time.
const PAGE: u32 = 200;

/// The journal is also read this often, because another process may write to it.
const POLL_EVERY: Duration = Duration::from_secs(3);

/// The running rounds whose last actions are sent.
const ACTIONS_MAX: usize = 20;

/// The most streams at a time, and those of one token or browser, so that none can take the places of all others.
const STREAMS_MAX: usize = 64;
const STREAMS_OF_ONE_MAX: usize = 16;

/// The places for streams.
pub(super) struct StreamPlaces {
    all: Arc<Semaphore>,
    by_sender: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The place of one stream, until it is dropped.
pub(super) struct StreamPlace {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl StreamPlaces {
    /// All places are free.
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(STREAMS_MAX)), by_sender: Mutex::default() }
    }

    /// A place for a sender; `None` if there is none left.
    pub(super) fn take(&self, sender: &str) -> Option<StreamPlace> {
        let own = {
            let mut known = self.by_sender.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, places| places.available_permits() < STREAMS_OF_ONE_MAX);
            let places = known.entry(sender.to_owned());
            let places = places.or_insert_with(|| Arc::new(Semaphore::new(STREAMS_OF_ONE_MAX)));
            Arc::clone(places).try_acquire_owned().ok()?
        };
        Some(StreamPlace { _own: own, _shared: Arc::clone(&self.all).try_acquire_owned().ok()? })
    }
}

/// Starts the stream of one reader. It ends soon after `is_admitted` refuses: a token that was revoked or has expired
/// receives no further event.
pub(super) fn start(
    (engine, state): (&Engine, &Path),
    after: Option<i64>,
    place: StreamPlace,
    is_admitted: impl Fn() -> bool + Send + 'static,
) -> WebReply {
    let (sender, pieces) = mpsc::channel(QUEUED_MAX);
    let (engine, mut actions) = (engine.clone(), LastActions::new(state));
    tokio::spawn(async move {
        // The reader notices the end of the stream and connects again.
        let _ = send_events((&engine, &mut actions), after, &sender, is_admitted).await;
        drop(place);
    });
    reply::stream(pieces)
}

async fn send_events(
    (engine, actions): (&Engine, &mut LastActions),
    after: Option<i64>,
    to: &mpsc::Sender<Bytes>,
    is_admitted: impl Fn() -> bool,
) -> Option<()> {
    // Subscribed before the first read, so that no event is missed in between.
    let mut live = engine.events().subscribe();
    let store = engine.store();
    let mut seq = match after {
        Some(seq) => seq.max(0),
        None => store.last_seq().await.ok()?,
    };
    let mut polls = tokio::time::interval(POLL_EVERY);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    send(to, format!("retry: 1000\nid: {seq}\nevent: hello\ndata: {{}}\n\n"))?;
    loop {
        loop {
            let events = store.tail(seq, PAGE).await.ok()?;
            for event in &events {
                seq = event.seq;
                send_patiently(to, journal_text(event)).await?;
            }
            if events.len() < PAGE as usize {
                break;
            }
        }
        tokio::select! {
            () = to.closed() => return None,
            received = live.recv() => match received? {
                Received::Event(event) => {
                    actions.heard.extend(event.round.clone());
                    send_live(to, &event)?;
                }
                Received::Missed(_) => {}
            },
            _ = polls.tick() => {
                if !is_admitted() {
                    return None;
                }
                // A comment line keeps proxies from ending the connection.
                send(to, ":\n\n".to_owned())?;
                actions.send_new(store.as_ref(), to).await?;
            }
        }
    }
}

/// The last actions of rounds that another process runs: its lines reach no subscriber here, but its transcripts are in
/// the same folder.
struct LastActions {
    state: PathBuf,
    sent: HashMap<String, String>,
    /// Rounds of this process: their lines were sent as they appeared.
    heard: HashSet<String>,
}

impl LastActions {
    fn new(state: &Path) -> Self {
        Self { state: state.to_owned(), sent: HashMap::new(), heard: HashSet::new() }
    }

    /// Sends the actions that are new since the last time.
    async fn send_new(&mut self, store: &Store, to: &mpsc::Sender<Bytes>) -> Option<()> {
        let open = store.open_rounds().await.ok()?;
        self.sent.retain(|round, _| open.iter().any(|row| row.id == *round));
        self.heard.retain(|round| open.iter().any(|row| row.id == *round));
        let others = open.iter().filter(|row| !row.phase.is_at_rest() && !self.heard.contains(&row.id));
        for row in others.take(ACTIONS_MAX) {
            let Some(action) = last_action(&self.state, &row.id) else { continue };
            if self.sent.get(&row.id) != Some(&action) {
                send_line(to, (&row.loop_name, Some(&row.id)), now_ms(), &action)?;
                self.sent.insert(row.id.clone(), action);
            }
        }
        Some(())
    }
}

/// Queues a piece and waits for room, because a reader that was away long reads many events at once; `None` if the reader
/// is gone, or took none for a while.
async fn send_patiently(to: &mpsc::Sender<Bytes>, text: String) -> Option<()> {
    tokio::time::timeout(ROOM_TIMEOUT, to.send(Bytes::from(text))).await.ok()?.ok()
}

/// Queues a piece; `None` if the reader is gone or too slow.
fn send(to: &mpsc::Sender<Bytes>, text: String) -> Option<()> {
    to.try_send(Bytes::from(text)).ok()
}

fn journal_text(event: &StoredEvent) -> String {
    let data = json!({
        "seq": event.seq, "round": event.round, "index": event.index, "at": timestamp(event.at_ms), "kind": event.kind,
    });
    format!("id: {}\nevent: journal\ndata: {data}\n\n", event.seq)
}

fn send_live(to: &mpsc::Sender<Bytes>, event: &LiveEvent) -> Option<()> {
    let line = match &event.kind {
        EventKind::AgentLine { role, line } => format!("{} | {line}", role.word()),
        EventKind::ProgramLine { program, line } if !line.is_empty() => format!("{program} | {line}"),
        EventKind::Stage { stage, text } => format!("{} {text}", stage.word()),
        EventKind::Frozen { .. } | EventKind::Thawed | EventKind::Loaded { .. } | EventKind::Receipts(_) => {
            return send(to, "event: change\ndata: {}\n\n".to_owned());
        }
        _ => return Some(()),
    };
    send_line(to, (event.loop_name(), event.round.as_deref()), event.at_ms, &line)
}

fn send_line(to: &mpsc::Sender<Bytes>, (name, round): (&str, Option<&str>), at_ms: i64, line: &str) -> Option<()> {
    let data = json!({"loop": name, "round": round, "at": timestamp(at_ms), "line": redact(line)});
    // A line that does not fit is left out; the log of the round has it.
    if to.capacity() > QUEUED_MAX / 2 { send(to, format!("event: live\ndata: {data}\n\n")) } else { Some(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_cannot_take_the_places_of_the_others() {
        let places = StreamPlaces::new();
        let taken: Vec<StreamPlace> = (0..100).map_while(|_| places.take("greedy")).collect();
        assert_eq!(taken.len(), STREAMS_OF_ONE_MAX);
        assert!(places.take("other").is_some());
        drop(taken);
        assert!(places.take("greedy").is_some());
        let others = (0..10).map(|n| (0..100).map_while(|_| places.take(&n.to_string())).collect::<Vec<_>>());
        assert_eq!(others.collect::<Vec<_>>().iter().map(Vec::len).sum::<usize>(), STREAMS_MAX);
    }
}

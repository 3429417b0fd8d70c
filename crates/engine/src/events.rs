//! The event stream: everything that happens in an engine, for screens, logs and tests. No decision depends on it, and
//! losing it loses no record: the journal is separate.
//!
//! A screen that needs every line in order attaches an [`EventSink`], which is called in place. All other readers
//! subscribe and read at their own pace; a slow subscriber misses events, learns how many, and never delays a round.

use crate::daemon::RoundOrigin;
use loopwright_core::dispatch::{LoopKey, OccurrenceReceipt, SchedulerNote};
use loopwright_core::gate::GateResult;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::Stage;
use loopwright_core::spec::Role;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Events that wait for a slow subscriber before it misses the oldest.
const BACKLOG_MAX: usize = 1024;

/// One event, with the moment and the loop or round it is about.
#[derive(Debug)]
pub struct LiveEvent {
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// The loop, if it is about one.
    pub loop_key: Option<LoopKey>,
    /// The round, if it is about one.
    pub round: Option<String>,
    /// The kind of event.
    pub kind: EventKind,
}

impl LiveEvent {
    /// The name of the loop; empty for an event about no loop.
    #[must_use]
    pub fn loop_name(&self) -> &str {
        self.loop_key.as_ref().map_or("", |key| &key.name)
    }
}

/// The kinds of event.
#[derive(Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A stage of a round begins.
    Stage {
        /// The stage.
        stage: Stage,
        /// The subject of the stage.
        text: String,
    },
    /// An agent wrote a line.
    AgentLine {
        /// Its role.
        role: Role,
        /// The line, without control characters.
        line: String,
    },
    /// A gate or a set-up command runs; published at its start and a few times a second while it writes lines.
    ProgramLine {
        /// The gate's name, or `setup`.
        program: String,
        /// Its last line, without control characters; empty at its start.
        line: String,
    },
    /// A gate ended.
    Gate(GateResult),
    /// An event of a round is in the journal; its body can be read from the store.
    Recorded {
        /// How many events the round has now.
        index: i64,
        /// The kind of the journal event.
        event: &'static str,
        /// The phase that the round is in now.
        phase: &'static str,
        /// The level of the round.
        level: LoopLevel,
    },
    /// A round waits for a provider; published once for each wait.
    ProviderWait {
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
        /// The provider's reason.
        why: String,
    },
    /// A sink did not accept a report. The round and its report are on record anyway.
    SinkFailed {
        /// The sink's error.
        error: String,
    },
    /// The scheduler started.
    Up {
        /// How many loops it has.
        loops: usize,
        /// How many rounds of a dead engine it resumes.
        taken_over: usize,
    },
    /// The loops were loaded again.
    Loaded {
        /// How many there are.
        loops: usize,
    },
    /// The loops could not be loaded; the previous ones stay in use.
    LoadFailed {
        /// The reason.
        why: String,
    },
    /// A due loop is about to start.
    Starting {
        /// The occurrence.
        occurrence: String,
    },
    /// A round started and is on record with its receipt.
    Started {
        /// The occurrence.
        occurrence: String,
    },
    /// A due loop could not start.
    NotStarted {
        /// The reason.
        why: String,
        /// When the scheduler tries again; `None` when the occurrence has failed.
        again_ms: Option<i64>,
    },
    /// An occurrence already had its receipt and is not run twice.
    AlreadyDone {
        /// The occurrence.
        occurrence: String,
    },
    /// A round ended or came to rest.
    Ended {
        /// The outcome; `None` when the round only released its slot.
        outcome: Option<RoundOutcome>,
        /// How the round started.
        begun: RoundOrigin,
    },
    /// The code of a round or of an agent in this process panicked. The round fails; everything else continues.
    Panicked {
        /// The panic message.
        text: String,
    },
    /// A round cannot continue for now; the scheduler resumes it later.
    Parked {
        /// The reason.
        why: String,
        /// When the scheduler resumes it.
        again_ms: i64,
    },
    /// A round is asked to end.
    Cancelling {
        /// The reason.
        why: String,
    },
    /// An approval request expired, and its round was closed.
    Expired {
        /// The outcome of the round, or the reason why it could not be closed.
        ended: Result<Option<RoundOutcome>, String>,
    },
    /// The daily pass over old data has ended.
    Collected {
        /// How many things it removed.
        removed: usize,
        /// Their size.
        freed_bytes: u64,
        /// The first thing that it could not remove, and why.
        stuck: Option<String>,
    },
    /// Receipts of occurrences that started nothing are durable.
    Receipts(Vec<OccurrenceReceipt>),
    /// A write to the store failed; it is retried, and nothing that depends on it happens before.
    WriteFailed {
        /// The reason.
        why: String,
        /// When it is retried.
        again_ms: i64,
    },
    /// A person is asked, in the inbox.
    Asked {
        /// The question.
        why: String,
    },
    /// A loop would have started another one, but the chain of rounds that led here is too long.
    ChainTooLong {
        /// The loop that is not started.
        follower: LoopKey,
        /// The length of the chain.
        depth: u32,
    },
    /// The scheduler noticed something about time or a round.
    Scheduler(SchedulerNote),
    /// An internal step takes longer than expected.
    Slow {
        /// The step.
        what: &'static str,
        /// For how long by now, in milliseconds.
        for_ms: u64,
        /// The work that waits for it.
        state: String,
    },
    /// Everything is stopped.
    Frozen {
        /// The person who stopped it.
        by: String,
        /// The reason.
        why: String,
    },
    /// The global stop is over.
    Thawed,
    /// The scheduler starts nothing more and waits for its rounds.
    Draining {
        /// How many rounds are running.
        running: usize,
        /// When they are cancelled.
        until_ms: i64,
    },
    /// Another process schedules the store: everything here ends at once.
    Fenced {
        /// The store's message.
        why: String,
    },
    /// The scheduler has nothing to do before a moment, or before something happens.
    Sleeping {
        /// The moment.
        until_ms: Option<i64>,
        /// When a loop is due or may start next.
        due_ms: Option<i64>,
    },
    /// A warning for the user: a folder that cannot be watched, an event that was lost.
    Warning(String),
}

/// Receives every event in order, in the task that publishes it. It must not block.
pub trait EventSink: Send + Sync {
    /// Called for each event.
    fn event(&self, event: &LiveEvent);
}

impl<F: Fn(&LiveEvent) + Send + Sync> EventSink for F {
    fn event(&self, event: &LiveEvent) {
        self(event);
    }
}

/// The event stream of an engine. Clones are the same stream.
#[derive(Clone, Default)]
pub struct EventBus(Arc<Stream>);

#[derive(Default)]
struct Stream {
    parent: Option<EventBus>,
    /// A list is replaced, never changed, so that no lock is held while sinks are called.
    sinks: Mutex<Arc<Vec<Arc<dyn EventSink>>>>,
    /// Created by the first subscriber.
    sender: OnceLock<broadcast::Sender<Arc<LiveEvent>>>,
}

impl EventBus {
    /// A separate stream whose events also reach this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(Stream { parent: Some(self.clone()), ..Stream::default() }))
    }

    /// Adds a sink that receives all events, in order, until the returned value is dropped.
    pub fn attach(&self, sink: Arc<dyn EventSink>) -> AttachedSink {
        self.change(|sinks| sinks.push(Arc::clone(&sink)));
        AttachedSink { bus: self.clone(), sink: Some(sink) }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<dyn EventSink>>)) {
        // The list is replaced whole, so it is sound even after a panic.
        let mut sinks = self.0.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut sinks));
    }

    /// A receiver of everything from now on.
    #[must_use]
    pub fn subscribe(&self) -> EventReceiver {
        let sender = self.0.sender.get_or_init(|| broadcast::channel(BACKLOG_MAX).0);
        EventReceiver(sender.subscribe())
    }

    /// Publishes a warning that is about no loop.
    pub fn warn(&self, at_ms: i64, text: &str) {
        self.publish(LiveEvent { at_ms, loop_key: None, round: None, kind: EventKind::Warning(text.to_owned()) });
    }

    /// Publishes an event to sinks and subscribers, here and in the streams above.
    pub fn publish(&self, event: LiveEvent) {
        let event = Arc::new(event);
        let mut bus = Some(self);
        while let Some(EventBus(stream)) = bus {
            let sinks = Arc::clone(&stream.sinks.lock().unwrap_or_else(PoisonError::into_inner));
            sinks.iter().for_each(|sink| sink.event(&event));
            if let Some(sender) = stream.sender.get() {
                // An error means that there are no subscribers.
                let _ = sender.send(Arc::clone(&event));
            }
            bus = stream.parent.as_ref();
        }
    }
}

/// A sink on an [`EventBus`]; dropping this removes it.
#[must_use = "the sink is removed when this is dropped"]
pub struct AttachedSink {
    bus: EventBus,
    sink: Option<Arc<dyn EventSink>>,
}

impl AttachedSink {
    /// Leaves the sink attached for as long as the stream lasts.
    pub fn keep(mut self) {
        self.sink = None;
    }
}

impl Drop for AttachedSink {
    fn drop(&mut self) {
        if let Some(own) = self.sink.take() {
            self.bus.change(|sinks| sinks.retain(|sink| !Arc::ptr_eq(sink, &own)));
        }
    }
}

/// A subscription to an [`EventBus`].
pub struct EventReceiver(broadcast::Receiver<Arc<LiveEvent>>);

/// An item that a subscriber receives.
#[derive(Debug)]
pub enum Received {
    /// The next event.
    Event(Arc<LiveEvent>),
    /// The subscriber was too slow and missed this many events. Those of the journal can be read from the store.
    Missed(u64),
}

impl EventReceiver {
    /// Waits for the next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<Received> {
        match self.0.recv().await {
            Ok(event) => Some(Received::Event(event)),
            Err(RecvError::Lagged(count)) => Some(Received::Missed(count)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_subscriber_learns_how_many_events_it_missed_and_continues() {
        let bus = EventBus::default();
        let mut slow = bus.subscribe();
        for number in 0..BACKLOG_MAX + 3 {
            bus.warn(0, &number.to_string());
        }
        assert!(matches!(slow.recv().await, Some(Received::Missed(3))));
        let Some(Received::Event(event)) = slow.recv().await else { panic!("an event is there") };
        assert!(matches!(&event.kind, EventKind::Warning(text) if text == "3"));
        drop(bus);
        let mut left = 0;
        while slow.recv().await.is_some() {
            left += 1;
        }
        assert_eq!(left, BACKLOG_MAX - 1);
    }

    #[test]
    fn events_of_a_child_reach_its_own_sinks_and_the_parent_and_no_sibling() {
        let root = EventBus::default();
        let (one, other) = (root.child(), root.child());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        for (name, bus) in [("root", &root), ("one", &one), ("other", &other)] {
            let heard = Arc::clone(&heard);
            bus.attach(Arc::new(move |event: &LiveEvent| {
                if let EventKind::Warning(text) = &event.kind {
                    heard.lock().expect("no panic").push(format!("{name} {text}"));
                }
            }))
            .keep();
        }
        drop(root.attach(Arc::new(|_: &LiveEvent| panic!("a removed sink receives nothing"))));
        one.warn(0, "a");
        root.warn(0, "b");
        assert_eq!(*heard.lock().expect("no panic"), ["one a", "root a", "root b"]);
    }
}

//! The documents of `--json` that the screens draw, and the task that reads them again when the journal has grown. The
//! screens have no fact that these documents do not have, except the last action of a running agent.

use crate::context::CommandContext;
use crate::control::CommandRunner;
use crate::error::CommandError;
use crate::view::last_action::last_action;
use crate::view::time::now_ms;
use loopwright::store::Store;
use loopwright_core::secrets::redact;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the journal is asked whether it has grown.
const POLL_EVERY: Duration = Duration::from_millis(400);

/// Documents depend on time too, and on files, so they are read this often without a change.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// The pause after a reading is at least this many times as long as the reading, so that large installations are not
/// read all the time.
const REST_FACTOR: u32 = 4;

/// The commands whose documents the screens draw.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("status", &["--json", "status", "--all"]),
    ("rounds", &["--json", "rounds", "--all", "--limit=200"]),
    ("inbox", &["--json", "inbox"]),
    ("budget", &["--json", "budget"]),
    ("costs", &["--json", "costs", "--by=loop", "--since=7d"]),
];

/// Everything that the screens draw.
#[derive(Debug, Clone, Default)]
pub(super) struct TuiDocuments {
    documents: HashMap<&'static str, Value>,
    /// The last action of each running agent, by round.
    pub(super) actions: HashMap<String, String>,
    /// The problems of the last reading.
    pub(super) problems: Vec<String>,
    /// When they were read; 0 before the first reading.
    pub(super) read_ms: i64,
}

impl TuiDocuments {
    #[cfg(test)]
    pub(super) fn of(documents: impl IntoIterator<Item = (&'static str, Value)>, read_ms: i64) -> Self {
        Self { documents: documents.into_iter().collect(), read_ms, ..Self::default() }
    }

    /// The list of a document; empty if the document could not be read.
    pub(super) fn list(&self, document: &str, key: &str) -> &[Value] {
        self.documents.get(document).and_then(|found| found.get(key)?.as_array()).map_or(&[], Vec::as_slice)
    }

    /// A value of a document.
    pub(super) fn value(&self, document: &str, pointer: &str) -> Option<&Value> {
        self.documents.get(document)?.pointer(pointer)
    }

    /// Today's spend of all loops, in dollars.
    pub(super) fn spent_today(&self) -> f64 {
        self.list("status", "loops").iter().filter_map(|line| line.pointer("/spend/usd")?.as_f64()).sum()
    }
}

/// A text of an object; empty if it has none.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A moment of an object in milliseconds.
pub(super) fn moment(value: &Value, key: &str) -> Option<i64> {
    let at: jiff::Timestamp = value.get(key)?.as_str()?.parse().ok()?;
    Some(at.as_millisecond())
}

/// Reads the documents whenever something may have changed.
pub(super) struct DocumentReader {
    cx: CommandContext,
    runner: CommandRunner,
    state: PathBuf,
    store: Option<Arc<Store>>,
    last: TuiDocuments,
}

impl DocumentReader {
    pub(super) fn new(cx: &CommandContext) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        Ok(Self {
            cx: cx.duplicate(),
            runner: CommandRunner::new(cx)?,
            state,
            store: None,
            last: TuiDocuments::default(),
        })
    }

    /// Sends documents until their reader is gone.
    pub(super) async fn watch(mut self, wanted: Arc<Notify>, to: mpsc::Sender<TuiDocuments>) {
        let mut polls = interval(POLL_EVERY);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seq, mut read_at, mut took) = (None, None::<Instant>, Duration::ZERO);
        loop {
            let is_wanted = tokio::select! {
                () = wanted.notified() => true,
                _ = polls.tick() => false,
                () = to.closed() => return,
            };
            let now_seq = self.last_seq().await;
            let age = read_at.map_or(Duration::MAX, |at| at.elapsed());
            let is_due = is_wanted || age >= STALE_AFTER || (now_seq != seq && age >= POLL_EVERY);
            if is_due && (is_wanted || age >= took * REST_FACTOR) {
                let started = Instant::now();
                self.read().await;
                (seq, took, read_at) = (now_seq, started.elapsed(), Some(Instant::now()));
            } else if self.last.actions.is_empty() {
                continue;
            }
            self.read_actions();
            if to.send(self.last.clone()).await.is_err() {
                return;
            }
        }
    }

    /// The number of the newest event; `None` while there is no store.
    async fn last_seq(&mut self) -> Option<i64> {
        if self.store.is_none() {
            self.store = self.cx.open_store_read_only().await.ok();
        }
        let seq = self.store.as_ref()?.last_seq().await;
        if seq.is_err() {
            self.store = None;
        }
        seq.ok()
    }

    /// A document that cannot be read keeps its last form, and its problem is shown.
    async fn read(&mut self) {
        let mut problems = Vec::new();
        for (name, words) in COMMANDS {
            match self.document(words).await {
                Ok(document) => drop(self.last.documents.insert(name, document)),
                Err(why) => problems.push(why),
            }
        }
        problems.dedup();
        self.last.problems = problems;
        self.last.read_ms = now_ms();
    }

    async fn document(&self, words: &[&str]) -> Result<Value, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = self.runner.run(words).await.map_err(|error| error.text)?;
        let document = answer.output.document().ok_or_else(|| "a command printed no document".to_owned())?;
        match document.pointer("/error/text").and_then(Value::as_str) {
            Some(why) => Err(why.to_owned()),
            None => Ok(document),
        }
    }

    fn read_actions(&mut self) {
        let rounds = self.last.list("rounds", "rounds").iter().filter(|round| text(round, "status") == "running");
        let action = |round: &Value| {
            let id = text(round, "round").to_owned();
            let action = last_action(&self.state, &id).unwrap_or_default();
            let action = redact(&action).into_owned();
            (id, action)
        };
        self.last.actions = rounds.map(action).collect();
    }
}

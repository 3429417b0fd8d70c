//! Sends the trace and the metrics of each round that ended to the configured collector. Without one, it does not exist.
//! A collector that does not answer loses data and nothing else: no round waits for it.

use super::daemon_log::DaemonLog;
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::telemetry::RoundTelemetry;
use loopwright::Engine;
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::store::{RoundRow, StoredEvent};
use loopwright_core::secrets::redact_json;
use loopwright_forge::TelemetryCollector;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The journal is also read this often, because another process may run rounds.
const POLL_EVERY: Duration = Duration::from_secs(60);

/// Events read at a time.
const PAGE: u32 = 200;

/// The pauses before a document is sent again.
const RETRY_PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];

/// The kind of the journal event that ends a round.
const ENDED: &str = "recorded";

/// The running exporter; it ends when this is dropped.
pub(super) struct TelemetryExporter(JoinHandle<()>);

impl Drop for TelemetryExporter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Wakes the exporter when a round has ended.
struct RoundEnds(Notify);

impl EventSink for RoundEnds {
    fn event(&self, event: &LiveEvent) {
        if matches!(event.kind, EventKind::Recorded { event: ENDED, .. }) {
            self.0.notify_one();
        }
    }
}

impl TelemetryExporter {
    /// Starts it, if the configuration names a collector.
    pub(super) fn start(
        cx: &CommandContext,
        engine: &Engine,
        log: &Arc<DaemonLog>,
    ) -> Result<Option<Self>, CommandError> {
        let Some(collector) = cx.telemetry_collector()? else { return Ok(None) };
        let ends = Arc::new(RoundEnds(Notify::new()));
        engine.events().attach(Arc::clone(&ends) as Arc<dyn EventSink>).keep();
        let worker = ExportWorker { collector, engine: engine.clone(), log: Arc::clone(log), is_down: false };
        Ok(Some(Self(tokio::spawn(worker.run(ends)))))
    }
}

struct ExportWorker {
    collector: TelemetryCollector,
    engine: Engine,
    log: Arc<DaemonLog>,
    /// The collector did not take the last round; this was reported.
    is_down: bool,
}

impl ExportWorker {
    async fn run(mut self, ends: Arc<RoundEnds>) {
        // Rounds that ended before the daemon started are not sent.
        let mut seq = loop {
            match self.engine.store().last_seq().await {
                Ok(seq) => break seq,
                Err(_) => self.engine.settings().clock.after(POLL_EVERY).await,
            }
        };
        loop {
            // Either one is a reason to look.
            let _ = tokio::time::timeout(POLL_EVERY, ends.0.notified()).await;
            while let Ok(events) = self.engine.store().tail(seq, PAGE).await {
                for event in &events {
                    seq = event.seq;
                    if event.kind == ENDED {
                        self.export(&event.round, event.seq).await;
                    }
                }
                if events.len() < PAGE as usize {
                    break;
                }
            }
        }
    }

    /// Sends a round that has ended with this event. A round that only waits for a person is sent when it ends.
    async fn export(&mut self, round: &str, seq: i64) {
        let store = self.engine.store();
        let (Ok(Some(row)), Ok(events)) = (store.round(round).await, store.events(round).await) else { return };
        if row.ended_ms.is_none() || events.last().map(|event| event.seq) != Some(seq) {
            return;
        }
        let telemetry = of_record(&row, &events);
        let documents = [("/v1/traces", telemetry.traces), ("/v1/metrics", telemetry.metrics)];
        let mut problem = None;
        for (path, document) in documents {
            if let Err(why) = self.send(path, &redact_json(document)).await {
                problem = Some(why);
            }
        }
        match problem {
            None => self.is_down = false,
            Some(_) if self.is_down => {}
            Some(why) => {
                self.log.warn(&format!("telemetry of round {round} was not sent: {why}"));
                self.is_down = true;
            }
        }
    }

    /// Sends a document, and again after a pause. While the collector is down, each document has one attempt.
    async fn send(&self, path: &str, document: &Value) -> Result<(), String> {
        let clock = Arc::clone(&self.engine.settings().clock);
        let pauses = if self.is_down { &[][..] } else { &RETRY_PAUSES[..] };
        let mut sent = self.collector.send(path, document).await;
        for pause in pauses {
            if sent.is_ok() {
                break;
            }
            clock.after(*pause).await;
            sent = self.collector.send(path, document).await;
        }
        sent
    }
}

fn of_record(row: &RoundRow, events: &[StoredEvent]) -> RoundTelemetry {
    let event = |event: &StoredEvent| {
        let body = serde_json::from_str::<Value>(&event.body).unwrap_or_default();
        json!({"at_ms": event.at_ms, "kind": event.kind, "body": body})
    };
    RoundTelemetry::of_round(row, &events.iter().map(event).collect::<Vec<_>>())
}

//! The daily removal of data past its retention, as `gc` does it: first an hour after the start of the daemon, then once a
//! day. A fleet without a retention has no such pass, and no wake-up for it.

use super::agenda::AgendaEntry;
use super::dispatch_loop::{DispatchLoop, DispatchMode};
use super::fleet::LoopFleet;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::gc::{self, GcFailure, GcMode, GcReport, GcRetention};
use crate::round::error_chain;
use std::sync::Arc;

/// The first pass: a start has more urgent work.
const FIRST_MS: i64 = 3_600_000;
/// The time between two passes.
const DAY_MS: i64 = 86_400_000;

impl DispatchLoop {
    /// Adds the first pass to the agenda.
    pub(super) fn plan_collection(&mut self) {
        let is_kept_short = self.fleet.retention(self.now_ms()).is_some();
        if is_kept_short && matches!(self.mode, DispatchMode::Running) {
            self.agenda.schedule(self.now_ms().saturating_add(FIRST_MS), AgendaEntry::Collect);
        }
    }

    /// Runs a pass beside the rounds, and adds the next one. The retention is read again, because it may have changed.
    pub(super) fn collect_garbage(&mut self, now_ms: i64) {
        self.agenda.schedule(now_ms.saturating_add(DAY_MS), AgendaEntry::Collect);
        let Some(retention) = self.fleet.retention(now_ms) else { return };
        let (engine, fleet) = (self.engine.clone(), Arc::clone(&self.fleet));
        self.rounds.spawn_aside(async move {
            let kind = match collect(&engine, fleet.as_ref(), retention).await {
                Ok(swept) => collected(&swept),
                Err(error) => EventKind::Warning(format!("the daily `gc` failed: {}", error_chain(&error))),
            };
            engine.publish(None, None, kind);
        });
    }
}

/// Ends the rounds that were suspended before the limit and never resumed, then removes old data.
async fn collect(engine: &Engine, fleet: &dyn LoopFleet, retention: GcRetention) -> Result<GcReport, EngineError> {
    for row in engine.forgotten_rounds(retention.rounds_before_ms).await? {
        let ended = engine.close_expired(&row.id, fleet).await.map(|round| round.outcome());
        let ended = ended.map_err(|error| error_chain(&error));
        engine.publish(None, Some(&row.id), EventKind::Expired { ended });
    }
    gc::collect(engine, retention, GcMode::Remove).await
}

fn collected(swept: &GcReport) -> EventKind {
    let describe = |stuck: &GcFailure| format!("{}: {}", stuck.path.display(), error_chain(&stuck.why));
    EventKind::Collected {
        removed: swept.removed.len(),
        freed_bytes: swept.removed.iter().map(|one| one.bytes).sum(),
        stuck: swept.stuck.first().map(describe),
    }
}

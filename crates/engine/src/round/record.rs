//! Record: writes the report from the record. A lost report can be generated again, byte for byte.

use super::journal::question_id;
use super::{RoundDriver, unreported};
use crate::report;
use loopwright_core::round::{AnswerWindow, Event, Phase, RoundRecorded, Stage};

impl RoundDriver<'_> {
    pub(super) async fn record(&mut self) -> Event {
        self.stage(Stage::Record, self.round.outcome().map_or(String::new(), |outcome| outcome.word().to_owned()));
        let path = self.engine.state_dir.report(self.id());
        let outbox = self.engine.store().outbox(self.id()).await.unwrap_or_default();
        // No process of the round runs any more, so this is all of its network traffic.
        let network = self.routes.close().await;
        let text = report::with_traffic(&self.round, &outbox, &network).render();
        let window = self.answer_window().await;
        match self.engine.state_dir.write(&path, text.as_bytes()) {
            Ok(()) => {
                Event::Recorded(RoundRecorded { report: Some(path.to_string_lossy().into_owned()), network, window })
            }
            Err(_) => unreported(network, window),
        }
    }

    /// Until when a waiting round may be answered, from its question in the inbox. Without it the round continues to
    /// wait, and the question itself still expires.
    async fn answer_window(&self) -> Option<AnswerWindow> {
        if !matches!(self.round.phase(), Phase::Waiting(_)) || self.round.facts().window.is_some() {
            return None;
        }
        let question = self.engine.store().inbox_item(&question_id(self.id())).await.ok()??;
        Some(AnswerWindow { from_ms: question.created_ms, until_ms: question.expires_ms? })
    }
}

//! Record: writes the report from the record. Losing it loses nothing: it can be made again, to the same bytes.

use super::{Run, unreported};
use crate::report;
use loopwright_core::round::{Event, Recorded, Stage};

impl Run<'_> {
    pub(super) async fn record(&mut self) -> Event {
        self.stage(Stage::Record, self.round.outcome().map_or(String::new(), |outcome| outcome.word().to_owned()));
        let path = self.engine.places.report(self.id());
        let outbox = self.engine.store().outbox(self.id()).await.unwrap_or_default();
        // Nothing of the round runs any more, so this is all it asked.
        let network = self.ways.close().await;
        let text = report::with_traffic(&self.round, &outbox, &network).render();
        match self.engine.places.write(&path, text.as_bytes()) {
            Ok(()) => Event::Recorded(Recorded { report: Some(path.to_string_lossy().into_owned()), network }),
            Err(_) => unreported(network),
        }
    }
}

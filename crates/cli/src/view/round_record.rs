//! One round, folded from its recorded events: the input of `show`, `report`, `why`, `take` and the inbox.

use super::{CommandError, Store};
use loopwright::EngineError;
use loopwright::round::fold;
use loopwright::store::{OutboxRow, StoredEvent};
use loopwright_core::report::RoundReport;
use loopwright_core::round::{Event, Round, history};

/// One round with its record.
pub(crate) struct RoundRecord {
    /// The round.
    pub(crate) round: Round,
    id: String,
    events: Vec<StoredEvent>,
    outbox: Vec<OutboxRow>,
}

impl RoundRecord {
    /// Reads a round by its whole id.
    pub(crate) async fn read(store: &Store, id: &str) -> Result<Self, CommandError> {
        let events = store.events(id).await?;
        if events.is_empty() {
            return Err(EngineError::Unknown(id.to_owned()).into());
        }
        let outbox = store.outbox(id).await?;
        let round = fold(id, &events)?.round;
        Ok(Self { round, id: id.to_owned(), events, outbox })
    }

    /// The report of `run --json`, as of now.
    pub(crate) fn report(&self) -> RoundReport {
        loopwright::report::build_report(&self.round, &self.outbox)
    }

    /// The report as the engine wrote it, byte for byte. It was written from the events before the one that records it.
    pub(crate) fn markdown(&self) -> Result<String, CommandError> {
        let before = match self.events.split_last() {
            Some((last, before)) if last.kind == "recorded" => before,
            _ => &self.events,
        };
        let round = fold(&self.id, before)?.round;
        Ok(loopwright::report::build_report(&round, &self.outbox).render())
    }

    /// The steps of the round, a line each; escaped, so that no text can move the cursor or forge a line.
    pub(crate) fn history(&self) -> Result<Vec<String>, CommandError> {
        let parsed = self.events.iter().map(|event| serde_json::from_str::<Event>(&event.body));
        let unreadable =
            |why: serde_json::Error| EngineError::Unreadable { round: self.id.clone(), why: why.to_string() };
        let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let told = history::render(&parsed);
        let told = told.map_err(|error| EngineError::of_record(&self.id, error))?;
        Ok(told.lines().map(str::to_owned).collect())
    }
}

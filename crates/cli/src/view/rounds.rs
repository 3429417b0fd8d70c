//! Rounds in a list, newest first, a page at a time; and one round, folded from its recorded events: the input of
//! `show`, `report`, `why`, `take` and the inbox.

use super::time::{self, Moment};
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use loopwright::EngineError;
use loopwright::round::fold;
use loopwright::store::{OutboxRow, RoundRow, RoundsQuery, StoredEvent};
use loopwright_core::report::RoundReport;
use loopwright_core::round::{BoundaryLevel, Event, Round, history};
use std::collections::HashMap;

/// The document of `rounds --json`.
#[derive(Debug, Serialize)]
pub(crate) struct RoundListView {
    schema: u32,
    pub(crate) rounds: Vec<RoundLine>,
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RoundLine {
    pub(crate) round: String,
    #[serde(rename = "loop")]
    pub(crate) name: String,
    pub(crate) repo: String,
    pub(crate) item: Option<String>,
    pub(crate) trigger: String,
    pub(crate) level: String,
    /// The boundary around its agents, as recorded.
    pub(crate) boundary: BoundaryLevel,
    pub(crate) phase: String,
    pub(crate) outcome: Option<String>,
    pub(crate) started: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) duration_s: Option<f64>,
    pub(crate) attempts: i64,
    pub(crate) spend: RoundSpend,
    pub(crate) summary: String,
    pub(crate) report: Option<String>,
}

/// The cost of a round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RoundSpend {
    pub(crate) tokens: i64,
    pub(crate) usd: f64,
}

impl RoundLine {
    fn from_row(row: RoundRow, boundary: BoundaryLevel) -> Self {
        Self {
            boundary,
            started: Moment(row.started_ms),
            ended: row.ended_ms.map(Moment),
            duration_s: row.ended_ms.map(|ended| ended.saturating_sub(row.started_ms) as f64 / 1000.0),
            spend: RoundSpend { tokens: row.spend_tokens, usd: row.spend_micros as f64 / 1.0e6 },
            round: row.id,
            name: row.loop_name,
            repo: row.repo,
            item: row.item,
            trigger: row.trigger,
            level: row.level,
            phase: row.phase.word().to_owned(),
            outcome: row.outcome.map(|outcome| outcome.word().to_owned()),
            attempts: row.attempts,
            summary: row.summary,
            report: row.report,
        }
    }
}

impl RoundListView {
    /// Reads a page; an empty one without a store.
    pub(crate) async fn read(store: Option<&Store>, query: RoundsQuery) -> Result<Self, CommandError> {
        let Some(store) = store else { return Ok(Self { schema: SCHEMA, rounds: Vec::new() }) };
        let rows = store.rounds(query).await?;
        let boundaries = boundaries(store, &rows).await?;
        let line = |row: RoundRow| match boundaries.get(&row.id) {
            Some(boundary) => Ok(RoundLine::from_row(row, *boundary)),
            None => Err(EngineError::Unknown(row.id).into()),
        };
        Ok(Self { schema: SCHEMA, rounds: rows.into_iter().map(line).collect::<Result<_, CommandError>>()? })
    }
}

/// The boundary of each round, which its first event has; one query reads them all. Reading the whole record of every
/// line would make a list as expensive as everything it lists.
async fn boundaries(store: &Store, rows: &[RoundRow]) -> Result<HashMap<String, BoundaryLevel>, CommandError> {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut levels = HashMap::with_capacity(ids.len());
    for event in store.first_events(&ids).await? {
        let unreadable = |why: String| EngineError::Unreadable { round: event.round.clone(), why };
        match serde_json::from_str(&event.body) {
            Ok(Event::Started(started)) => drop(levels.insert(event.round, started.boundary.level)),
            Ok(_) => return Err(unreadable(format!("its first event is `{}`", event.kind)).into()),
            Err(error) => return Err(unreadable(error.to_string()).into()),
        }
    }
    Ok(levels)
}

/// The table for people.
pub(crate) fn render_table(rounds: &[RoundLine], now: i64, width: usize) -> String {
    let headings = ["ROUND", "LOOP", "OUTCOME", "STARTED", "TOOK", "TRIES", "SPEND", "ITEM"];
    TextTable::new(headings, rounds.iter().map(|line| line.cells(now))).render_within(width)
}

impl RoundLine {
    /// Its outcome, or its phase while it has none. A loop without the boundary is marked.
    pub(crate) fn status_text(&self) -> String {
        let standing = match (&self.ended, &self.outcome) {
            (Some(_), Some(outcome)) => outcome.clone(),
            _ if self.phase == "waiting" => self.phase.clone(),
            (None, Some(outcome)) if self.phase == "suspended" => format!("{outcome}, suspended"),
            _ => format!("at {}", self.phase),
        };
        if self.boundary == BoundaryLevel::Off { format!("{standing}, sandbox off") } else { standing }
    }

    fn cells(&self, now: i64) -> [String; 8] {
        let took = self.duration_s.map_or(NOTHING.to_owned(), |seconds| time::duration_text((seconds * 1000.0) as i64));
        [
            self.round.clone(),
            self.name.clone(),
            self.status_text(),
            time::time_since(self.started.0, now),
            took,
            self.attempts.to_string(),
            format!("${:.2}", self.spend.usd),
            self.item.clone().unwrap_or_else(|| NOTHING.to_owned()),
        ]
    }
}

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
        let mut report = loopwright::report::build_report(&round, &self.outbox);
        // That event carries the debts that the report shows.
        report.debts.clone_from(&self.round.facts().debts);
        Ok(report.render())
    }

    /// The steps of the round, a line each; escaped, so that no text can move the cursor or forge a line.
    pub(crate) fn history(&self) -> Result<Vec<String>, CommandError> {
        let parsed = self.events.iter().map(|event| serde_json::from_str::<Event>(&event.body));
        let unreadable =
            |why: serde_json::Error| EngineError::Unreadable { round: self.id.clone(), why: why.to_string() };
        let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let rendered = history::render(&parsed);
        let rendered = rendered.map_err(|error| EngineError::of_record(&self.id, error))?;
        Ok(rendered.lines().map(str::to_owned).collect())
    }
}

//! Rounds in a list, newest first, a page at a time; and one round, folded from its recorded events: the input of
//! `show`, `report`, `why`, `take` and the inbox.

use super::last_action::last_action;
use super::list_page::{ListPage, ListWindow};
use super::repo_names::RepoNames;
use super::standing::{LeasedRounds, RoundStanding, state_look};
use super::time::{self, Moment};
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable};
use crate::output::{CommandOutput, safe};
use loopwright::EngineError;
use loopwright::round::fold;
use loopwright::store::{OutboxRow, RoundRow, RoundsQuery, StoredEvent};
use loopwright_core::report::RoundReport;
use loopwright_core::round::{BoundaryLevel, Event, Round, history};
use loopwright_core::spec::LoopSpec;
use loopwright_core::units::Usd;
use std::collections::HashMap;
use std::path::Path;

/// The document of `rounds --json`.
#[derive(Debug, Serialize)]
pub(crate) struct RoundListView {
    schema: u32,
    pub(crate) page: ListPage,
    pub(crate) rounds: Vec<RoundLine>,
}

/// The rounds of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundsListed {
    /// All of them.
    All,
    /// Those that a process runs now.
    Running,
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
    /// It only shows what it would send, and is not counted as a run.
    pub(crate) dry_run: bool,
    /// Its state in one word: its outcome if it is over, else `running`, `abandoned`, `waiting` or `suspended`.
    pub(crate) status: &'static str,
    pub(crate) phase: String,
    pub(crate) outcome: Option<String>,
    pub(crate) started: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) duration_s: Option<f64>,
    pub(crate) attempts: i64,
    pub(crate) spend: RoundSpend,
    /// The ceilings of the round itself, as its loop declared them at the start.
    pub(crate) ceiling: RoundCeiling,
    pub(crate) summary: String,
    /// The last action of the agent of a running round.
    pub(crate) action: Option<String>,
    pub(crate) report: Option<String>,
    #[serde(skip)]
    standing: RoundStanding,
}

/// The cost of a round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RoundSpend {
    pub(crate) tokens: i64,
    pub(crate) usd: f64,
}

/// The most that a round may cost; `None` without a ceiling.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct RoundCeiling {
    pub(crate) tokens: Option<u64>,
    pub(crate) usd: Option<f64>,
}

impl RoundCeiling {
    /// The ceiling that a loop declares for a round.
    pub(crate) fn of_spec(spec: &LoopSpec) -> Self {
        let most = spec.budget.round.allowance();
        Self { tokens: most.tokens, usd: most.usd.map(Usd::dollars) }
    }
}

impl RoundLine {
    fn from_row(row: RoundRow, start: StartFacts, standing: RoundStanding) -> Self {
        Self {
            boundary: start.boundary,
            dry_run: start.dry_run,
            ceiling: start.ceiling,
            standing,
            status: standing.word(),
            started: Moment(row.started_ms),
            ended: row.ended_ms.map(Moment),
            duration_s: duration_s(&row),
            spend: RoundSpend { tokens: row.spend_tokens, usd: row.spend_micros as f64 / 1.0e6 },
            round: row.id,
            name: row.loop_name,
            repo: row.repo,
            item: row.item,
            trigger: row.trigger,
            level: row.level.short().to_owned(),
            phase: row.phase.word().to_owned(),
            outcome: row.outcome.map(|outcome| outcome.word().to_owned()),
            attempts: row.attempts,
            summary: row.summary,
            action: None,
            report: row.report,
        }
    }
}

impl RoundListView {
    /// Adds the last actions of running rounds, from their transcripts: also of rounds that another process runs.
    pub(crate) fn with_actions(mut self, state: &Path) -> Self {
        for line in self.rounds.iter_mut().filter(|line| matches!(line.standing, RoundStanding::Running(_))) {
            line.action = last_action(state, &line.round);
        }
        self
    }

    /// Reads a page; an empty one without a store.
    pub(crate) async fn read(
        store: Option<&Store>,
        query: RoundsQuery,
        listed: RoundsListed,
    ) -> Result<Self, CommandError> {
        let Some(store) = store else {
            return Ok(Self { schema: SCHEMA, page: ListPage::default(), rounds: Vec::new() });
        };
        let offset = query.offset;
        let (rows, total) = match listed {
            RoundsListed::All => {
                let total = store.count_rounds(&query).await?;
                (store.rounds(query).await?, u64::try_from(total).unwrap_or_default())
            }
            RoundsListed::Running => running_rows(store, &query).await?,
        };
        let starts = start_facts(store, &rows).await?;
        let running = LeasedRounds::read(store, &rows).await?;
        let line = |row: RoundRow| match starts.get(&row.id) {
            Some(start) => {
                let standing = running.standing(&row);
                Ok(RoundLine::from_row(row, *start, standing))
            }
            None => Err(EngineError::Unknown(row.id).into()),
        };
        let rounds = rows.into_iter().map(line).collect::<Result<_, CommandError>>()?;
        Ok(Self { schema: SCHEMA, page: ListPage { offset, total }, rounds })
    }
}

/// The rounds that a process runs, newest first: a page of them, and their number. Open rounds are few, whatever the
/// length of the history, so that an old round that still runs is found.
async fn running_rows(store: &Store, query: &RoundsQuery) -> Result<(Vec<RoundRow>, u64), CommandError> {
    let mut rows = store.open_rounds().await?;
    let leased = LeasedRounds::read(store, &rows).await?;
    let is_wanted = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
    rows.retain(|row| {
        is_wanted(&query.repo, &row.repo)
            && is_wanted(&query.loop_name, &row.loop_name)
            && matches!(leased.standing(row), RoundStanding::Running(_))
    });
    rows.reverse();
    let total = rows.len() as u64;
    let window = ListWindow { limit: Some(query.limit), offset: query.offset };
    window.cut(&mut rows);
    Ok((rows, total))
}

/// The time from the start of a round to its end; documents have moments only in seconds.
pub(crate) fn duration_s(row: &RoundRow) -> Option<f64> {
    row.ended_ms.map(|ended| ended.saturating_sub(row.started_ms) as f64 / 1000.0)
}

/// One round as a list shows it; `None` if there is none with this id.
pub(crate) async fn read_line(store: &Store, id: &str) -> Result<Option<RoundLine>, CommandError> {
    let Some(row) = store.round(id).await? else { return Ok(None) };
    let rows = [row];
    let starts = start_facts(store, &rows).await?;
    let running = LeasedRounds::read(store, &rows).await?;
    let [row] = rows;
    let standing = running.standing(&row);
    Ok(starts.get(id).copied().map(|start| RoundLine::from_row(row, start, standing)))
}

/// A spend against its ceilings: `$0.42 of $5.00, 12k of 400k tokens`.
pub(crate) fn spend_text(usd: f64, tokens: f64, most_usd: Option<f64>, most_tokens: Option<f64>) -> String {
    let most_usd = most_usd.map_or(String::new(), |most| format!(" of ${most:.2}"));
    let most_tokens = most_tokens.map_or(String::new(), |most| format!(" of {}", short_count(most)));
    format!("${usd:.2}{most_usd}, {}{most_tokens} tokens", short_count(tokens))
}

/// A count in three or four characters.
fn short_count(count: f64) -> String {
    match count {
        count if count < 1000.0 => format!("{count:.0}"),
        count if count < 999_500.0 => format!("{:.0}k", count / 1000.0),
        count => format!("{:.1}M", count / 1_000_000.0),
    }
}

/// Facts that the first event of a round has and its row does not.
#[derive(Debug, Clone, Copy)]
struct StartFacts {
    boundary: BoundaryLevel,
    dry_run: bool,
    ceiling: RoundCeiling,
}

/// The facts of each round's first event; one query reads them all. Reading the whole record of every line would make a
/// list as expensive as everything it lists.
async fn start_facts(store: &Store, rows: &[RoundRow]) -> Result<HashMap<String, StartFacts>, CommandError> {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut facts = HashMap::with_capacity(ids.len());
    for event in store.first_events(&ids).await? {
        let unreadable = |why: String| EngineError::Unreadable { round: event.round.clone(), why };
        match serde_json::from_str(&event.body) {
            Ok(Event::Started(started)) => {
                let ceiling = RoundCeiling::of_spec(&started.spec);
                let start = StartFacts { boundary: started.boundary.level, dry_run: started.dry_run, ceiling };
                facts.insert(event.round, start);
            }
            Ok(_) => return Err(unreadable(format!("its first event is `{}`", event.kind)).into()),
            Err(error) => return Err(unreadable(error.to_string()).into()),
        }
    }
    Ok(facts)
}

/// The table for people. It names the repositories if there is more than one.
pub(crate) fn render_table(rounds: &[RoundLine], now: i64, out: &CommandOutput) -> String {
    let headings = ["ROUND", "LOOP", "STATUS", "STARTED", "TOOK", "TRIES", "SPEND", "ITEM"];
    let repos = RepoNames::new(rounds.iter().map(|line| line.repo.as_str()));
    TextTable::new(headings, rounds.iter().map(|line| line.cells(&repos, now)))
        .with_look(STATUS_COLUMN, state_look)
        .render_for(out)
}

/// The column of the status.
const STATUS_COLUMN: usize = 2;

impl RoundLine {
    /// A running round in one line of at most this width: stage, attempt, elapsed time, spend and ceiling, last action.
    pub(crate) fn live_text(&self, action: Option<&str>, now: i64, width: usize) -> String {
        let elapsed = time::elapsed_text(now.saturating_sub(self.started.0));
        let tokens = self.ceiling.tokens.map(|most| most as f64);
        let spend = spend_text(self.spend.usd, self.spend.tokens as f64, self.ceiling.usd, tokens);
        let action = action.map_or(String::new(), |action| format!("  {}", safe(action)));
        let text = format!("{}, attempt {}, {elapsed}, {spend}{action}", self.phase, self.attempts.max(1));
        text.chars().take(width).collect()
    }

    /// Its state, with the stage of a running round. A loop without the boundary is marked.
    pub(crate) fn status_text(&self) -> String {
        let dry = if self.dry_run { ", dry run" } else { "" };
        let standing = format!("{}{dry}", self.standing.text());
        if self.boundary == BoundaryLevel::Off { format!("{standing}, sandbox off") } else { standing }
    }

    fn cells(&self, repos: &RepoNames, now: i64) -> [String; 8] {
        let took = self.duration_s.map_or(NOTHING.to_owned(), |seconds| time::duration_text((seconds * 1000.0) as i64));
        [
            self.round.clone(),
            repos.title(&self.repo, &self.name),
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

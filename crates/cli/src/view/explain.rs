//! Why a round ended as it did, and why a loop is or is not running: said from the record alone.

use super::SCHEMA;
use super::loops::{Here, cadence};
use super::page;
use super::status::{self, LoopLine, LoopStatus};
use super::story::Story;
use crate::error::CommandError;
use crate::output::{safe, safe_lines};
use loopwright::store::{RoundRow, RoundsQuery, Store};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::Reason;
use serde::Serialize;

/// The document of `why --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    round: Option<String>,
    outcome: Option<RoundOutcome>,
    status: Option<LoopStatus>,
    /// The answer, in sentences.
    because: Vec<String>,
    reasons: Vec<Reason>,
    history: Vec<String>,
    next: Vec<String>,
}

impl Explanation {
    /// Explains a round.
    pub(crate) async fn of_round(store: &dyn Store, row: &RoundRow) -> Result<Self, CommandError> {
        let story = Story::read(store, &row.id).await?;
        let report = story.report();
        let outcome = report.outcome.map_or("still running", RoundOutcome::word);
        let mut because = vec![format!("round {} of {} is {outcome}", row.id, row.loop_name)];
        because.extend(report.reasons.last().map(|last| format!("decided at {}: {}", last.stage.word(), last.text)));
        Ok(Self {
            schema: SCHEMA,
            name: row.loop_name.clone(),
            round: Some(row.id.clone()),
            outcome: report.outcome,
            status: None,
            because,
            history: story.history()?,
            next: page::next(&report),
            reasons: report.reasons,
        })
    }

    /// Explains where a loop stands.
    pub(crate) async fn of_loop(
        store: Option<&dyn Store>,
        here: Option<&Here>,
        name: &str,
        now: i64,
    ) -> Result<Self, CommandError> {
        let line = status::one(store, here, name, now).await?;
        let last = last_round(store, &line).await?;
        let mut because = vec![standing(&line, last.as_ref())];
        because.push(starts(here, name));
        because.extend(last.as_ref().map(last_words));
        let next = match &last {
            Some(row) => Story::read_next(store, row).await?,
            None => vec![format!("start it: loopwright run {name}")],
        };
        Ok(Self {
            schema: SCHEMA,
            name: name.to_owned(),
            round: last.as_ref().map(|row| row.id.clone()),
            outcome: last.and_then(|row| RoundOutcome::parse(row.outcome.as_deref()?)),
            status: Some(line.status),
            because,
            reasons: Vec::new(),
            history: Vec::new(),
            next,
        })
    }

    /// For people.
    pub(crate) fn render(&self) -> String {
        let mut page: Vec<String> = self.because.iter().map(|line| safe(line)).collect();
        if !self.history.is_empty() {
            page.push(String::new());
            page.extend(self.history.iter().map(|line| safe_lines(line)));
        }
        if !self.next.is_empty() {
            page.extend([String::new(), "next".to_owned()]);
            page.extend(self.next.iter().map(|line| format!("  {}", safe(line))));
        }
        page.join("\n")
    }
}

impl Story {
    async fn read_next(store: Option<&dyn Store>, row: &RoundRow) -> Result<Vec<String>, CommandError> {
        match store {
            Some(store) => Ok(page::next(&Self::read(store, &row.id).await?.report())),
            None => Ok(Vec::new()),
        }
    }
}

async fn last_round(store: Option<&dyn Store>, line: &LoopLine) -> Result<Option<RoundRow>, CommandError> {
    let Some(store) = store else { return Ok(None) };
    let query =
        RoundsQuery { repo: line.repo.clone(), loop_name: Some(line.name.clone()), limit: 1, ..RoundsQuery::default() };
    Ok(store.rounds(query).await?.pop())
}

fn standing(line: &LoopLine, last: Option<&RoundRow>) -> String {
    let round = last.map_or("none", |row| row.id.as_str());
    let name = &line.name;
    match line.status {
        LoopStatus::Idle => match &line.paused_reason {
            Some(why) => format!("{name} is idle: {why}"),
            None => format!("{name} is idle: no round of it is under way"),
        },
        LoopStatus::Running => format!("{name} is running: round {round} is under way"),
        LoopStatus::Waiting => format!("{name} waits for a person to answer round {round}"),
        LoopStatus::Stopped | LoopStatus::Invalid => {
            let why = line.paused_reason.as_deref().unwrap_or_default();
            format!("{name} is {}: {why}", line.status.word())
        }
    }
}

fn starts(here: Option<&Here>, name: &str) -> String {
    match here.and_then(|here| here.file(name)).map(|file| cadence(&file.spec.on)) {
        None => "its loop file is not here, so nothing says when it starts".to_owned(),
        Some(words) if words.starts_with("manual") => "it starts by hand only: its file has no trigger".to_owned(),
        Some(words) => format!("it asks for {words}; no daemon runs here, so it starts by hand only"),
    }
}

fn last_words(row: &RoundRow) -> String {
    let outcome = row.outcome.as_deref().unwrap_or(&row.phase);
    let tail = if row.summary.is_empty() { String::new() } else { format!(": {}", row.summary) };
    format!("its last round {} is {outcome}{tail}", row.id)
}

//! The reason why a round ended as it did, and why a loop is or is not running, from the record alone.

use super::offered::offered_text;
use super::page;
use super::repo_view::{RepoView, describe_cadence};
use super::rounds::RoundRecord;
use super::standing::{ABANDONED, RoundStanding, read_standing};
use super::status::{self, LoopLine, LoopStatus};
use super::time::date_and_time;
use super::{CommandError, SCHEMA, Serialize, Store, safe};
use crate::output::safe_lines;
use loopwright::store::{RoundRow, RoundsQuery};
use loopwright_core::dispatch::LoopExplanation;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundReason;

/// The document of `why --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ExplanationView {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    round: Option<String>,
    outcome: Option<RoundOutcome>,
    status: Option<LoopStatus>,
    /// The daemon's explanation of the loop, if a daemon runs.
    why: Option<LoopExplanation>,
    /// The answer, in sentences.
    because: Vec<String>,
    reasons: Vec<RoundReason>,
    /// The last lines of the gates that did not pass.
    output: Vec<String>,
    history: Vec<String>,
    next: Vec<String>,
}

impl ExplanationView {
    /// Explains a round.
    pub(crate) async fn for_round(store: &Store, row: &RoundRow) -> Result<Self, CommandError> {
        let story = RoundRecord::read(store, &row.id).await?;
        let report = story.report();
        let standing = read_standing(store, row).await?;
        let mut because = vec![format!("round {} of {} is {}", row.id, row.loop_name, standing.text())];
        because.extend(matches!(standing, RoundStanding::Abandoned(_)).then(|| ABANDONED.to_owned()));
        because.extend(offered_text(store, &row.id).await?);
        because.extend(report.reasons.last().map(|last| format!("decided at {}: {}", last.stage.word(), last.text)));
        Ok(Self {
            schema: SCHEMA,
            name: row.loop_name.clone(),
            round: Some(row.id.clone()),
            outcome: report.outcome,
            status: None,
            why: None,
            because,
            history: story.history()?,
            output: page::failed_outputs(&report),
            next: page::steps_of(&report, standing),
            reasons: report.reasons,
        })
    }

    /// Explains the state of a loop.
    pub(crate) async fn for_loop(
        store: Option<&Store>,
        here: Option<&RepoView>,
        name: &str,
        now: i64,
        daemon: DaemonAnswer,
    ) -> Result<Self, CommandError> {
        let (why, silent) = match daemon {
            DaemonAnswer::Explained(why) => (Some(why), None),
            DaemonAnswer::Silent(pid) => (None, Some(pid)),
            DaemonAnswer::None => (None, None),
        };
        let line = status::find_loop_line(store, here, name, now).await?;
        let last = last_round(store, &line).await?;
        let mut because = vec![match &why {
            Some(why) => format!("{name}: {}", why.text()),
            None => describe_status(&line, last.as_ref()),
        }];
        because.extend(why.is_none().then(|| starts(here, &line, silent)));
        let is_broken = line.status == LoopStatus::Invalid && why.is_some();
        because.extend(
            line.paused_reason
                .as_ref()
                .filter(|_| is_broken)
                .map(|what| format!("its file is unusable, so its last good form is in use: {what}")),
        );
        because.extend(line.ceiling.as_ref().map(|ceiling| format!("{name} {}", ceiling.text)));
        let standing = match (&last, store) {
            (Some(row), Some(store)) => Some(read_standing(store, row).await?),
            _ => None,
        };
        because.extend(last.as_ref().zip(standing).map(|(row, standing)| describe_end(row, standing)));
        if let (Some(row), Some(store)) = (&last, store) {
            because.extend(offered_text(store, &row.id).await?);
        }
        let mut next: Vec<String> = change(&line, why.as_ref(), silent).into_iter().collect();
        next.extend(is_broken.then(|| format!("see the problems: loopwright check {name}")));
        match (&last, store, standing) {
            (Some(row), Some(store), Some(standing)) => {
                next.extend(page::steps_of(&RoundRecord::read(store, &row.id).await?.report(), standing))
            }
            _ => next.push(format!("start it: loopwright run {name}")),
        }
        Ok(Self {
            schema: SCHEMA,
            name: name.to_owned(),
            round: last.as_ref().map(|row| row.id.clone()),
            outcome: last.and_then(|row| row.outcome),
            status: Some(line.status),
            why,
            because,
            reasons: Vec::new(),
            output: Vec::new(),
            history: Vec::new(),
            next,
        })
    }

    /// For people.
    pub(crate) fn render(&self) -> String {
        let mut page: Vec<String> = self.because.iter().map(|line| safe(line)).collect();
        page.extend(self.output.iter().map(|line| format!("  {}", safe(line))));
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

async fn last_round(store: Option<&Store>, line: &LoopLine) -> Result<Option<RoundRow>, CommandError> {
    let Some(store) = store else { return Ok(None) };
    let query =
        RoundsQuery { repo: line.repo.clone(), loop_name: Some(line.name.clone()), limit: 1, ..RoundsQuery::default() };
    Ok(store.rounds(query).await?.pop())
}

fn describe_status(line: &LoopLine, last: Option<&RoundRow>) -> String {
    let round = last.map_or("none", |row| row.id.as_str());
    let name = &line.name;
    match line.status {
        LoopStatus::Idle => match &line.paused_reason {
            Some(why) => format!("{name} is idle: {why}"),
            None => format!("{name} is idle: no round of it is running"),
        },
        LoopStatus::Running => format!("{name} is running round {round}"),
        LoopStatus::Waiting => format!("{name} waits for a person to answer round {round}"),
        LoopStatus::Due => format!("{name} is due, but nothing has started it yet"),
        LoopStatus::Abandoned => format!("{name} is abandoned: {ABANDONED}"),
        LoopStatus::Stopped | LoopStatus::Invalid | LoopStatus::Paused | LoopStatus::CoolingDown => {
            let why = line.paused_reason.as_deref().unwrap_or_default();
            format!("{name} is {}: {why}", line.status.word())
        }
    }
}

/// The answer of the daemon about a loop.
#[derive(Debug)]
pub(crate) enum DaemonAnswer {
    /// Its explanation.
    Explained(LoopExplanation),
    /// A daemon listens and does not answer.
    Silent(i32),
    /// No daemon runs, or it does not know the loop.
    None,
}

/// The command that would change the state of the loop.
fn change(line: &LoopLine, why: Option<&LoopExplanation>, silent: Option<i32>) -> Option<String> {
    let name = &line.name;
    if let Some(pid) = silent {
        return Some(format!("see what the daemon does: ps -o pid,stat,cmd -p {pid}; wake it: kill -CONT {pid}"));
    }
    match (why, line.status) {
        (Some(why), _) => why.remedy(name),
        (None, LoopStatus::Paused) => Some(format!("to let it start again: loopwright resume {name}")),
        (None, LoopStatus::Stopped) => Some("to let loops start again: loopwright thaw".to_owned()),
        (None, LoopStatus::Invalid) => Some(format!("see the problems: loopwright check {name}")),
        (None, _) if line.next.is_some() => Some("to have it start on its own: loopwright up".to_owned()),
        (None, _) => None,
    }
}

fn starts(here: Option<&RepoView>, line: &LoopLine, silent: Option<i32>) -> String {
    let daemon = silent.map_or("no daemon runs here, so it only starts manually".to_owned(), |pid| {
        format!("the daemon, process {pid}, does not answer, so it starts nothing")
    });
    let at = line.next.map_or(String::new(), |at| format!(" (next at {})", date_and_time(at.0)));
    match here.and_then(|here| here.file(&line.name)).map(|file| describe_cadence(&file.spec.on)) {
        None => "its loop file is not here, so its triggers are unknown".to_owned(),
        Some(words) if words.starts_with("manual") => "it only starts manually: its file has no trigger".to_owned(),
        Some(words) => format!("its trigger is {words}{at}; {daemon}"),
    }
}

fn describe_end(row: &RoundRow, standing: RoundStanding) -> String {
    let outcome = standing.text();
    let tail = if row.summary.is_empty() { String::new() } else { format!(": {}", row.summary) };
    format!("its last round {} is {outcome}{tail}", row.id)
}

//! The log of one round: its journal as lines, the activity of its agents, and the output of its gates. Lines of agents
//! and gates are prefixed, so that none can pass for a line of ours. Read in steps, so that a log can be followed with
//! bounded memory.

use super::log_event::detail;
use super::transcript::{TranscriptForm, TranscriptReader};
use super::{CommandError, Store, safe, time};
use crate::output::{CommandOutput, TextStyle};
use loopwright::store::StoredEvent;
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::round::Event;
use loopwright_core::secrets::redact;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Events read at a time.
const PAGE: u32 = 256;

/// The position of a reader in a round's log.
pub(crate) struct RoundLogReader<'o> {
    round: String,
    folder: PathBuf,
    form: TranscriptForm,
    out: &'o CommandOutput,
    seq: i64,
    read: BTreeMap<PathBuf, TranscriptReader>,
    /// How often each role ended in an attempt: its starts are numbered.
    ended: BTreeMap<(&'static str, u32), u32>,
    at_rest: bool,
}

impl<'o> RoundLogReader<'o> {
    /// At the beginning of a round's log.
    pub(crate) fn new(state: &Path, round: &str, form: TranscriptForm, out: &'o CommandOutput) -> Self {
        let folder = state.join("transcripts").join(round);
        let (read, ended) = (BTreeMap::new(), BTreeMap::new());
        Self { round: round.to_owned(), folder, form, out, seq: 0, read, ended, at_rest: false }
    }

    /// Whether the round had ended, or waited, at the last event that was read.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.at_rest
    }

    /// All recorded events of the round, from the first.
    pub(crate) async fn read_from_start(&mut self, store: &Store) -> Result<(), CommandError> {
        for event in &store.events(&self.round).await? {
            self.event(event);
        }
        self.rest();
        Ok(())
    }

    /// Reads the events since the last call.
    pub(crate) async fn read_new(&mut self, store: &Store) -> Result<(), CommandError> {
        loop {
            let events = store.tail(self.seq, PAGE).await?;
            for event in &events {
                if event.round == self.round {
                    self.event(event);
                }
                self.seq = event.seq;
            }
            if events.len() < PAGE as usize {
                break;
            }
        }
        self.rest();
        Ok(())
    }

    fn event(&mut self, event: &StoredEvent) {
        let parsed: Option<Event> = serde_json::from_str(&event.body).ok();
        match &parsed {
            // The output of an agent comes before the event of its end.
            Some(Event::RoleEnded(ended)) => self.role_output(ended.role().word(), ended.attempt),
            Some(Event::Isolated(_) | Event::Baselined(_) | Event::Broke(_)) => {
                self.transcripts(|name| name == "setup")
            }
            // Each start of an agent is a part of its own.
            Some(Event::RoleStarted(_)) => self.out.print(""),
            _ => {}
        }
        let detail = parsed.as_ref().map_or_else(|| "(not readable by this build)".to_owned(), detail);
        let kind = self.out.style(TextStyle::Bold, &format!("{:<13}", event.kind));
        let line = format!("{} {kind} {}", time::time_of_day(event.at_ms), safe(&redact(&detail)));
        self.out.print(line.trim_end());
        if let Some(Event::Gated(gated)) = &parsed {
            gated.results.iter().for_each(|gate| self.gate_output(gate));
        }
        self.seq = event.seq;
        self.at_rest = event.kind == "recorded";
    }

    /// The transcript of one start. Its name has the attempt, and a number if the role started again in this attempt.
    fn role_output(&mut self, role: &'static str, attempt: u32) {
        let starts = self.ended.entry((role, attempt)).or_default();
        *starts += 1;
        let (first, numbered) = (format!("{role}-{attempt}"), format!("{role}-{attempt}-{starts}"));
        let is_first = *starts == 1;
        self.transcripts(|name| name == numbered || (is_first && name == first));
    }

    /// Every line that was not shown yet.
    fn rest(&mut self) {
        self.transcripts(|_| true);
        if self.at_rest {
            self.read.values_mut().for_each(|transcript| transcript.finish(self.out));
        }
    }

    /// Shows the new lines of the transcripts with these names.
    fn transcripts(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let listed = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = listed.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
        files.sort();
        for path in files {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if is_wanted(&name) {
                let reader = self.read.entry(path.clone());
                reader.or_insert_with(|| TranscriptReader::new(path, name, self.form)).show_new(self.out);
            }
        }
    }

    /// The recorded part of a gate's output.
    fn gate_output(&self, gate: &GateResult) {
        let look = if gate.status == GateStatus::Passed { TextStyle::Dim } else { TextStyle::Red };
        for line in gate.excerpt.trim_end().lines() {
            let line = format!("  {} | {}", safe(&gate.name), safe(&redact(line)));
            self.out.print(&self.out.style(look, line.trim_end()));
        }
    }
}

//! The log of one round: its journal as lines, and the output of its agents, prefixed line by line so that none of it
//! can pass for a line of ours. Read in steps, so that a log can be followed with bounded memory.

use super::{CommandError, Store, safe, time};
use loopwright::store::StoredEvent;
use loopwright_core::round::{AgentEnd, DeliveryResult, Event, ProbeAnswer, RoleEnded, RoleResult};
use loopwright_core::secrets::redact;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Events read at a time.
const PAGE: u32 = 256;
/// Bytes of a transcript read at a time; a longer line is shown in pieces.
const CHUNK: usize = 64 << 10;

/// The position of a reader in a round's log.
pub(crate) struct RoundLogReader {
    round: String,
    folder: PathBuf,
    seq: i64,
    /// The offset up to which each transcript was read.
    read: BTreeMap<PathBuf, u64>,
    at_rest: bool,
}

impl RoundLogReader {
    /// At the beginning of a round's log.
    pub(crate) fn new(state: &Path, round: &str) -> Self {
        let folder = state.join("transcripts").join(round);
        Self { round: round.to_owned(), folder, seq: 0, read: BTreeMap::new(), at_rest: false }
    }

    /// Whether the round had ended, or waited, at the last event that was read.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.at_rest
    }

    /// All recorded events of the round, from the first.
    pub(crate) async fn read_from_start(
        &mut self,
        store: &Store,
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), CommandError> {
        let events = store.events(&self.round).await?;
        events.iter().for_each(|event| self.event(event, tell));
        self.transcripts("", tell);
        Ok(())
    }

    /// Reads the events since the last call.
    pub(crate) async fn read_new(
        &mut self,
        store: &Store,
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), CommandError> {
        loop {
            let events = store.tail(self.seq, PAGE).await?;
            let more = events.len() == PAGE as usize;
            for event in &events {
                if event.round == self.round {
                    self.event(event, tell);
                }
                self.seq = event.seq;
            }
            if !more {
                break;
            }
        }
        self.transcripts("", tell);
        Ok(())
    }

    fn event(&mut self, event: &StoredEvent, tell: &mut (dyn FnMut(&str) + Send)) {
        let parsed: Option<Event> = serde_json::from_str(&event.body).ok();
        // The output of an agent comes before the event of its end.
        if let Some(Event::RoleEnded(ended)) = &parsed {
            self.transcripts(ended.role().word(), tell);
        }
        let detail = parsed.as_ref().map_or_else(|| "(not readable by this build)".to_owned(), detail);
        let line = format!("{} {:<15} {}", time::time_of_day(event.at_ms), event.kind, safe(&redact(&detail)));
        tell(line.trim_end());
        self.seq = event.seq;
        self.at_rest = event.kind == "recorded";
    }

    /// Shows the new lines of the transcripts whose names begin with this text.
    fn transcripts(&mut self, begin: &str, tell: &mut (dyn FnMut(&str) + Send)) {
        let listed = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = listed.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
        files.sort();
        for path in files {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(begin) {
                let from = self.read.entry(path.clone()).or_default();
                *from = show(&path, &name, *from, tell).unwrap_or(*from);
            }
        }
    }
}

/// Shows a file's lines from an offset on and returns the offset after the last whole line.
fn show(path: &Path, name: &str, from: u64, tell: &mut (dyn FnMut(&str) + Send)) -> std::io::Result<u64> {
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut at = from;
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut filled = 0;
        while filled < CHUNK {
            match file.read(&mut chunk[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        let whole = match chunk[..filled].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if filled == CHUNK => filled,
            None => return Ok(at),
        };
        for line in String::from_utf8_lossy(&chunk[..whole]).lines() {
            tell(format!("  {} | {}", safe(name), safe(line)).trim_end());
        }
        at += whole as u64;
        file.seek(SeekFrom::Start(at))?;
    }
}

fn role_ended(ended: &RoleEnded) -> String {
    let (role, end) = (ended.role().word(), end(&ended.end));
    match &ended.result {
        RoleResult::Maker(_) => {
            format!("{role}, attempt {}, {end}, {} tokens", ended.attempt, ended.spend.tokens.total())
        }
        RoleResult::Checker(checked) => format!("{role}, {end}, {}", judgement(&checked.judgement)),
    }
}

/// An event in a few words.
fn detail(event: &Event) -> String {
    match event {
        Event::Started(started) => {
            format!("{} by {} ({}), {}", started.spec.name, started.actor, started.trigger, started.spec.level.label())
        }
        Event::Recalled(recalled) => format!("{} rounds remembered", recalled.history.len()),
        Event::Probed(ProbeAnswer::Work { items }) => format!("{} items", items.len()),
        Event::Probed(ProbeAnswer::Nothing) => "nothing to do".to_owned(),
        Event::Probed(ProbeAnswer::Failed { text }) => text.clone(),
        Event::Isolated(isolated) => format!("base {}", isolated.base),
        Event::Baselined(baselined) => gates(&baselined.results),
        Event::RoleStarted(start) => {
            format!("{}, attempt {} with {}", start.role.word(), start.attempt, start.agent)
        }
        Event::RoleEnded(ended) => role_ended(ended),
        Event::Planted(planted) => format!("{} in {}:{}", planted.kind, planted.path, planted.line),
        Event::Sealed(sealed) => format!("{} files, candidate {}", sealed.changes.len(), sealed.candidate),
        Event::Gated(gated) => gates(&gated.results),
        Event::Decided { decision } => if decision.is_auto() { "proceeds" } else { "a person must approve" }.to_owned(),
        Event::Approved(said) => format!("by {}", said.actor),
        Event::Denied(said) => format!("by {}: {}", said.actor, said.why.as_deref().unwrap_or_default()),
        Event::Expired(_) => "no answer arrived in time".to_owned(),
        Event::Delivered(delivered) => delivery(&delivered.result),
        Event::Recorded(recorded) => recorded.report.clone().unwrap_or_default(),
        Event::Ceiling(ceiling) => ceiling.text.clone(),
        Event::Broke(broke) => format!("{}: {}", broke.stage.word(), broke.text),
        Event::Stopped(stopped) => stopped.text.clone(),
        Event::Waited => "the wait is over".to_owned(),
        Event::Resumed(resumed) => format!("by {}", resumed.actor),
        Event::Resent => "sent again by the engine".to_owned(),
        Event::Recovered => "recovered from a process that is gone".to_owned(),
    }
}

fn gates(results: &[loopwright_core::gate::GateResult]) -> String {
    let words: Vec<_> = results.iter().map(|gate| format!("{} {}", gate.name, gate.status)).collect();
    if words.is_empty() { "no gates".to_owned() } else { words.join(", ") }
}

fn end(end: &AgentEnd) -> String {
    match end {
        AgentEnd::Exited { code } => format!("exit {code}"),
        AgentEnd::Signaled { signal } => format!("signal {signal}"),
        AgentEnd::Limit { text, .. } => format!("stopped: {text}"),
        AgentEnd::Unusable { text } => format!("could not run: {text}"),
        AgentEnd::Provider { trouble, .. } => format!("{}: {}", trouble.kind.word(), trouble.text),
    }
}

fn judgement(judgement: &loopwright_core::verdict::Judgement) -> String {
    use loopwright_core::verdict::Judgement;
    match judgement {
        Judgement::Pass { .. } => "pass".to_owned(),
        Judgement::Fail { reasons, .. } => format!("fail: {}", reasons.join("; ")),
        Judgement::Escalate { reasons, .. } => format!("escalate: {}", reasons.join("; ")),
        Judgement::Malformed { why } => format!("malformed: {why}"),
        Judgement::Missing => "no verdict".to_owned(),
        Judgement::Forged { why } => format!("forged: {why}"),
    }
}

fn delivery(result: &DeliveryResult) -> String {
    match result {
        DeliveryResult::Sent { place } => format!("sent: {place}"),
        DeliveryResult::InDoubt { text } => format!("in doubt: {text}"),
        DeliveryResult::Refused { text } => format!("refused: {text}"),
        DeliveryResult::Quarantined { text } => format!("given up: {text}"),
        DeliveryResult::Blocked { text, maybe_sent: false } => format!("blocked: {text}"),
        DeliveryResult::Blocked { text, maybe_sent: true } => format!("blocked, and may have been sent: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_of_transcripts_are_shown_once_and_escaped() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("maker-1.log");
        fs::write(&path, b"one\n\x1b[2Jtwo\nha").expect("writes");
        let mut seen = Vec::new();
        let at = show(&path, "maker-1", 0, &mut |line| seen.push(line.to_owned())).expect("reads");
        fs::write(&path, b"one\n\x1b[2Jtwo\nhalf\n").expect("writes");
        show(&path, "maker-1", at, &mut |line| seen.push(line.to_owned())).expect("reads");
        assert_eq!(seen, ["  maker-1 | one", r"  maker-1 | \u{1b}[2Jtwo", "  maker-1 | half"]);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_shown_in_pieces() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("maker-1.log");
        fs::write(&path, [vec![b'x'; CHUNK + 5], b"\n".to_vec()].concat()).expect("writes");
        let mut lengths = Vec::new();
        show(&path, "m", 0, &mut |line| lengths.push(line.len())).expect("reads");
        assert_eq!(lengths, [CHUNK + 6, 11]);
    }
}

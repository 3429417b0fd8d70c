//! Transcripts: the output of an agent, byte for byte up to a cap and except for secrets, in the state directory. They
//! are never read as evidence.

use crate::agents::{AgentEvent, AgentLog, LINE_MAX};
use crate::events::EventKind;
use crate::proc::OutputStream as Channel;
use loopwright_core::secrets::{PieceEnd, RedactingStream, SecretScanner};
use loopwright_core::spec::Role;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The most lines of one message that are shown while a round runs.
const SHOWN_LINES: usize = 20;
/// The most bytes kept of one agent start.
const KEPT_MAX: u64 = 16 << 20;
/// The bytes of that cap that each line uses beside its own: empty lines are searched, written and shown as well.
const LINE_COST: u64 = 64;

/// One agent start's transcript.
pub(super) struct AgentTranscript<'a> {
    publish: &'a (dyn Fn(EventKind) + Sync),
    role: Role,
    file: Option<BufWriter<fs::File>>,
    path: PathBuf,
    left: u64,
    scanner: &'a SecretScanner,
    /// Each channel is redacted as a text of its own: output of one channel does not split a line of the other.
    channels: [(Channel, RedactingStream<'a>); 2],
}

impl<'a> AgentTranscript<'a> {
    /// Opens the file; a transcript that cannot be written does not stop the round.
    pub(super) fn open(
        folder: &Path,
        role: Role,
        name: &str,
        publish: &'a (dyn Fn(EventKind) + Sync),
        scanner: &'a SecretScanner,
    ) -> Self {
        let path = folder.join(format!("{name}.log"));
        let opened = crate::state_dir::make_dir(folder)
            .ok()
            .and_then(|()| fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).ok());
        let channels = [Channel::Stdout, Channel::Stderr].map(|channel| (channel, RedactingStream::new(scanner)));
        Self { publish, role, file: opened.map(BufWriter::new), path, left: KEPT_MAX, scanner, channels }
    }

    /// The hash of the written bytes, for the record.
    pub(super) fn finish(mut self) -> Option<String> {
        let rest: Vec<Vec<u8>> = self.channels.iter_mut().map(|(_, stream)| stream.finish()).collect();
        rest.iter().for_each(|bytes| self.keep(bytes));
        if let Some(file) = self.file.as_mut() {
            file.flush().ok()?;
        }
        drop(self.file.take());
        fs::read(&self.path).ok().map(|bytes| loopwright_core::hash::hash_bytes(&bytes))
    }

    /// Writes a line; returns whether it was written unchanged, and so needs no second scan.
    fn write(&mut self, stream: Channel, bytes: &[u8]) -> bool {
        // A piece of the maximum length is the middle of a line.
        let (border, end): (_, &[u8]) =
            if bytes.len() >= LINE_MAX { (PieceEnd::Cut, b"") } else { (PieceEnd::Line, b"\n") };
        let channel = self.channels.iter_mut().find(|(channel, _)| *channel == stream);
        let piece = [bytes, end].concat();
        let clean = channel.map(|(_, text)| text.push(&piece, border)).unwrap_or_default();
        self.keep(&clean);
        // A withheld line costs its search although little of it is kept, so the cap counts the bytes that were read.
        self.left = self.left.saturating_sub(LINE_COST + piece.len().saturating_sub(clean.len()) as u64);
        clean == piece
    }

    fn show_cleaned(&self, line: &str) {
        self.show(&self.scanner.clean_bytes(&line.as_bytes()[..line.len().min(LINE_MAX)]));
    }

    fn show(&self, line: &[u8]) {
        let shown: String = String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(500).collect();
        (self.publish)(EventKind::AgentLine { role: self.role, line: shown });
    }

    fn keep(&mut self, bytes: &[u8]) {
        let take = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left = self.left.saturating_sub(take as u64);
        let Some(file) = self.file.as_mut() else { return };
        // Line by line, so that a user can follow a running round.
        let written = file.write_all(&bytes[..take]).and_then(|()| file.flush());
        if written.is_err() || self.left == 0 {
            self.file = None;
        }
    }
}

impl AgentLog for AgentTranscript<'_> {
    fn line(&mut self, event: AgentEvent<'_>) {
        // Beyond the cap nothing is kept or shown: a flood must not fill the disk or the terminal.
        if self.left == 0 {
            return;
        }
        match event {
            AgentEvent::Text { stream, bytes } => {
                let shown = if self.write(stream, bytes) { bytes.into() } else { self.scanner.clean_bytes(bytes) };
                self.show(&shown);
            }
            AgentEvent::Raw { stream, bytes } => drop(self.write(stream, bytes)),
            AgentEvent::Message(text) => {
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                lines.take(SHOWN_LINES).for_each(|line| self.show_cleaned(line));
            }
            AgentEvent::Tool { name, what } => self.show_cleaned(format!("{name} {what}").trim_end()),
            AgentEvent::Started { .. }
            | AgentEvent::Retries { .. }
            | AgentEvent::Usage(_)
            | AgentEvent::UsageUnknown
            | AgentEvent::Limit(_)
            | AgentEvent::Finished { .. } => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_flood_of_short_lines_shows_no_more_lines_than_the_cap_allows() {
        let (dir, scanner, shown) =
            (tempfile::tempdir().expect("a folder"), SecretScanner::default(), AtomicU64::new(0));
        let publish = |_| {
            let _ = shown.fetch_add(1, Ordering::Relaxed);
        };
        let mut log = AgentTranscript::open(dir.path(), Role::Maker, "maker-1", &publish, &scanner);
        for _ in 0..KEPT_MAX / LINE_COST {
            log.line(AgentEvent::Text { stream: Channel::Stdout, bytes: b"y" });
        }
        let shown = shown.load(Ordering::Relaxed);
        assert!((KEPT_MAX / LINE_COST / 2..KEPT_MAX / LINE_COST).contains(&shown), "{shown} lines were shown");
    }
}

//! Listens to a running agent: splits its output into lines for the log, stores its last text, enforces its ceilings.
//!
//! The scripted agent also sends notes about itself between its text; they begin with a marker that no printed text can
//! guess. Memory is bounded whatever is printed.

use super::driver::Lines;
use super::scripted::read_note;
use super::stream_observer::{StreamObserver, UsageFigure, max_tokens};
use super::{AgentEvent, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{FinishedRun, OutputStream, OutputWatch, WatchFlow};
use loopwright_core::budget::Tokens;
use loopwright_core::provider::ProviderTrouble;
use memchr::memmem;
use std::collections::VecDeque;

/// A longer line is passed to the log in pieces.
pub(crate) const LINE_MAX: usize = 8 << 10;
/// Bytes of the last text that are stored.
const TEXT_MAX: usize = 64 << 10;
/// The longest note that is accepted.
const NOTE_MAX: usize = 4 << 10;

/// An agent's note about itself, between its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentNote {
    /// Another turn started.
    Turn,
    /// Total tokens used so far.
    Usage(Tokens),
    /// A usage report that cannot be trusted.
    Unusable,
    /// A provider prevented its work.
    Trouble(ProviderTrouble),
}

/// The watcher of one run.
pub(super) struct RunListener<'a> {
    observer: StreamObserver<'a>,
    split: Split,
    text: VecDeque<u8>,
    /// The lines of a program whose repetitions count.
    lines: Option<Lines>,
    /// The last usage report, unless one cannot be trusted.
    used: Option<Tokens>,
}

impl<'a> RunListener<'a> {
    /// Notes are lines that begin with the marker, which is unguessable; without a usage note the usage is a known zero.
    /// The usage of an agent without notes stays unknown.
    pub(super) fn new(log: &'a mut dyn AgentLog, invocation: &'a AgentInvocation, marker: Option<Vec<u8>>) -> Self {
        let mut observer = StreamObserver::of_text(log, invocation);
        observer.has_usage = marker.is_some();
        // A script that repeats itself does so on purpose.
        let lines = marker.is_none().then(Lines::default);
        let split = Split::new(marker.unwrap_or_default());
        Self { observer, split, text: VecDeque::new(), lines, used: Some(Tokens::default()) }
    }

    /// The outcome of a run that this listener observed. The notes name no models.
    pub(super) fn finish(mut self, ended: FinishedRun) -> AgentOutcome {
        let rest = self.split.rest();
        self.handle_pieces(&rest);
        let mut outcome = self.observer.finish(ended);
        outcome.self_report.models.clear();
        AgentOutcome { text: last_text(self.text), ..outcome }
    }

    fn handle_pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text(bytes) => {
                    self.observer.raw(OutputStream::Stdout, bytes);
                    keep_last(&mut self.text, bytes);
                    if let Some(lines) = &mut self.lines {
                        lines.push(bytes, |line| self.observer.text_line(line));
                    }
                }
                Piece::Note(bytes) => self.note(read_note(bytes)),
            }
        }
    }

    /// Usage only grows. A report that shrinks is not trusted, nor is any later one.
    fn note(&mut self, note: AgentNote) {
        match (note, self.used) {
            (AgentNote::Turn, _) => self.observer.turn(),
            (AgentNote::Trouble(trouble), _) => self.observer.trouble(trouble),
            (AgentNote::Usage(tokens), Some(before)) if max_tokens(before, tokens) == tokens => {
                self.used = Some(tokens);
                self.observer.usage("", tokens, UsageFigure::Total);
            }
            (AgentNote::Usage(_), None) => (),
            (AgentNote::Usage(_) | AgentNote::Unusable, _) => {
                self.used = None;
                self.observer.usage_unknown();
            }
        }
    }
}

impl OutputWatch for RunListener<'_> {
    fn chunk(&mut self, stream: OutputStream, bytes: &[u8]) -> WatchFlow {
        match stream {
            OutputStream::Stdout => {
                let pieces = self.split.push(bytes);
                self.handle_pieces(&pieces);
            }
            OutputStream::Stderr => self.observer.raw(stream, bytes),
        }
        self.observer.flow()
    }
}

fn keep_last(text: &mut VecDeque<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(TEXT_MAX)..];
    let excess = (text.len() + bytes.len()).saturating_sub(TEXT_MAX);
    text.drain(..excess);
    text.extend(bytes);
}

/// The stored text; if its start was cut off, from its first complete line.
fn last_text(text: VecDeque<u8>) -> String {
    let full = text.len() == TEXT_MAX;
    let bytes = Vec::from(text);
    let start = if full { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) } else { 0 };
    String::from_utf8_lossy(&bytes[start..]).trim().to_owned()
}

/// Passes a stream to the log line by line. A line that is complete in one read is not copied.
pub(super) struct LogLines {
    stream: OutputStream,
    event: LineEvent,
    open: Vec<u8>,
}

/// The event for a line in the log.
type LineEvent = for<'l> fn(OutputStream, &'l [u8]) -> AgentEvent<'l>;

impl LogLines {
    pub(super) fn new(stream: OutputStream) -> Self {
        Self { stream, event: |stream, bytes| AgentEvent::Text { stream, bytes }, open: Vec::new() }
    }

    /// The same for a stream that is not for people.
    pub(super) fn raw(stream: OutputStream) -> Self {
        Self { event: |stream, bytes| AgentEvent::Raw { stream, bytes }, ..Self::new(stream) }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], log: &mut dyn AgentLog) {
        while !bytes.is_empty() {
            let room = (LINE_MAX - self.open.len()).min(bytes.len());
            let end = memchr::memchr(b'\n', &bytes[..room]);
            let piece = &bytes[..end.unwrap_or(room)];
            bytes = &bytes[end.map_or(room, |at| at + 1)..];
            let is_whole = end.is_some() || self.open.len() + piece.len() == LINE_MAX;
            if is_whole && self.open.is_empty() {
                log.line((self.event)(self.stream, piece));
                continue;
            }
            self.open.extend_from_slice(piece);
            if is_whole {
                self.flush(log);
            }
        }
    }

    pub(super) fn flush(&mut self, log: &mut dyn AgentLog) {
        // An empty line that ends here was already passed on.
        if !self.open.is_empty() {
            log.line((self.event)(self.stream, &self.open));
            self.open.clear();
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Note(Vec<u8>),
}

/// Separates notes from text. A note extends from its marker to the end of its line, wherever in a line it starts.
struct Split {
    marker: Vec<u8>,
    pending: Vec<u8>,
    in_note: bool,
}

impl Split {
    fn new(marker: Vec<u8>) -> Self {
        Self { marker, pending: Vec::new(), in_note: false }
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.pending.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while let Some(piece) = if self.in_note { self.note() } else { self.text() } {
            pieces.push(piece);
        }
        pieces
    }

    /// The next note. One that exceeds the limit is returned as it is, and will not parse.
    fn note(&mut self) -> Option<Piece> {
        let end = self.pending.iter().take(NOTE_MAX).position(|byte| *byte == b'\n');
        let (length, skip) = match end {
            Some(end) => (end, 1),
            None if self.pending.len() >= NOTE_MAX => (NOTE_MAX, 0),
            None => return None,
        };
        self.in_note = false;
        let note: Vec<u8> = self.pending.drain(..length).collect();
        self.pending.drain(..skip);
        Some(Piece::Note(note))
    }

    /// The text before the next marker, or all of it that cannot be the start of one.
    fn text(&mut self) -> Option<Piece> {
        // An empty marker is found everywhere.
        let found = memmem::find(&self.pending, &self.marker).filter(|_| !self.marker.is_empty());
        let length = found.unwrap_or_else(|| self.pending.len() - self.begun());
        let text: Vec<u8> = self.pending.drain(..length).collect();
        if found.is_some() {
            self.pending.drain(..self.marker.len());
            self.in_note = true;
        } else if text.is_empty() {
            return None;
        }
        Some(Piece::Text(text))
    }

    /// Number of last bytes that may be the start of a marker.
    fn begun(&self) -> usize {
        let most = self.marker.len().saturating_sub(1).min(self.pending.len());
        (1..=most).rev().find(|length| self.pending.ends_with(&self.marker[..*length])).unwrap_or(0)
    }

    /// The rest at the end: an incomplete marker is text, an incomplete note is dropped.
    fn rest(&mut self) -> Vec<Piece> {
        let left = std::mem::take(&mut self.pending);
        let piece = if self.in_note { Piece::Note(left) } else { Piece::Text(left) };
        vec![piece]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a text in pieces of every size; the joined result may not depend on the cuts.
    fn split(text: &[u8], size: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut split = Split::new(b"<<7>>".to_vec());
        let mut pieces: Vec<Piece> = text.chunks(size).flat_map(|chunk| split.push(chunk)).collect();
        pieces.extend(split.rest());
        let (mut heard, mut notes) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Text(bytes) => heard.extend(bytes),
                Piece::Note(bytes) => notes.push(bytes),
            }
        }
        (heard, notes)
    }

    #[test]
    fn notes_are_found_wherever_the_reads_are_cut() {
        let text = b"one\n<<7>>a\ntwo <<7>>b\n<<7>><<<7>>>\n <<7> <<8>>x\n<<7>";
        for size in 1..text.len() {
            let (heard, notes) = split(text, size);
            assert_eq!(String::from_utf8_lossy(&heard), "one\ntwo  <<7> <<8>>x\n<<7>", "size {size}");
            assert_eq!(notes, [b"a".to_vec(), b"b".to_vec(), b"<<<7>>>".to_vec()], "size {size}");
        }
    }

    #[test]
    fn note_without_an_end_is_truncated() {
        let text = [b"<<7>>".as_slice(), &[b'x'; NOTE_MAX + 9]].concat();
        let (heard, notes) = split(&text, 100);
        assert_eq!((heard.len(), notes.len(), notes[0].len()), (9, 1, NOTE_MAX));
    }

    #[derive(Default)]
    struct Seen(Vec<Vec<u8>>);

    impl AgentLog for Seen {
        fn line(&mut self, event: AgentEvent<'_>) {
            if let AgentEvent::Text { bytes, .. } = event {
                self.0.push(bytes.to_vec());
            }
        }
    }

    #[test]
    fn endless_line_reaches_the_log_in_pieces_with_unchanged_bytes() {
        let mut seen = Seen::default();
        let mut lines = LogLines::new(OutputStream::Stdout);
        lines.push(&vec![b'x'; 2 * LINE_MAX + 1], &mut seen);
        lines.push(b"\n\xff\0\n\nend", &mut seen);
        lines.flush(&mut seen);
        let sizes: Vec<_> = seen.0.iter().map(Vec::len).collect();
        assert_eq!(sizes, [LINE_MAX, LINE_MAX, 1, 2, 0, 3]);
        assert_eq!(seen.0[3], b"\xff\0");
    }

    #[test]
    fn last_text_starts_at_a_line_when_its_start_is_cut_off() {
        let mut text = VecDeque::new();
        for number in 0..20_000 {
            keep_last(&mut text, format!("line {number}\n").as_bytes());
        }
        assert_eq!(text.len(), TEXT_MAX);
        let kept = last_text(text);
        assert!(kept.starts_with("line ") && kept.ends_with("line 19999"), "{}", &kept[..40]);
    }
}

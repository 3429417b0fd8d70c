//! Redacts text that arrives in pieces. A value that a border cuts is found anyway, because the stream keeps the end of
//! a piece while a value may continue in the next.

use super::SecretScanner;
use std::borrow::Cow;

/// The number of bytes kept from a piece that was cut in the middle of a line: longer than every public format that is
/// not a file.
const CUT_BYTES: usize = 512;

/// The largest number of bytes that the stream keeps.
const HELD_BYTES_MAX: usize = 256 << 10;

/// The last line of a private key.
const END: &[u8] = b"-----END";

/// Whether a piece ends where a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceEnd {
    /// At the end of a line.
    Line,
    /// In the middle of a line that was too long for one piece.
    Cut,
}

/// One stream of text that is written to a file.
#[derive(Debug)]
pub struct RedactingStream<'a> {
    scanner: &'a SecretScanner,
    held: Vec<u8>,
    /// The end of the kept bytes that are known to belong to one private key.
    in_key: Option<usize>,
}

impl<'a> RedactingStream<'a> {
    /// A stream at its start.
    #[must_use]
    pub fn new(scanner: &'a SecretScanner) -> Self {
        Self { scanner, held: Vec::new(), in_key: None }
    }

    /// Adds a piece, including its line end, and returns the bytes that may be written now.
    pub fn push(&mut self, piece: &[u8], border: PieceEnd) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        if self.held.len() > HELD_BYTES_MAX {
            return self.finish();
        }
        if self.is_key_going_on() {
            return Vec::new();
        }
        if self.is_in_key() {
            self.in_key = Some(self.held.len());
            return Vec::new();
        }
        let known = self.scanner.known.as_ref().filter(|known| known.may_continue(&self.held));
        let cut = if border == PieceEnd::Cut { CUT_BYTES } else { 0 };
        let keep = known.map_or(0, |known| known.overlap_max()).max(cut);
        if keep == 0 { self.finish() } else { self.release(keep) }
    }

    /// Whether the private key of the last piece continues. Only the new bytes are searched, because otherwise a key
    /// without an end would be read again with every line.
    fn is_key_going_on(&mut self) -> bool {
        let Some(known) = self.in_key.take() else { return false };
        let new = &self.held[known.saturating_sub(END.len())..];
        let goes_on = !new.windows(END.len()).any(|part| part == END);
        self.in_key = goes_on.then_some(self.held.len());
        goes_on
    }

    /// Whether a private key has started and not ended: its single lines do not look like a secret.
    fn is_in_key(&self) -> bool {
        let last = |mark: &[u8]| self.held.windows(mark.len()).rposition(|part| part == mark);
        let begun = last(b"-----BEGIN").filter(|at| {
            let line = self.held[*at..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            line.windows(11).any(|part| part == b"PRIVATE KEY")
        });
        begun.is_some_and(|begun| last(END).is_none_or(|ended| ended < begun))
    }

    /// The rest at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.in_key = None;
        let held = std::mem::take(&mut self.held);
        match self.scanner.clean_bytes(&held) {
            Cow::Borrowed(_) => held,
            Cow::Owned(clean) => clean,
        }
    }

    /// Returns all but the last bytes; empty if a value crosses that border.
    fn release(&mut self, keep: usize) -> Vec<u8> {
        let at = self.held.len().saturating_sub(keep);
        let (early, late) = self.held.split_at(at);
        let Cow::Owned(whole) = self.scanner.clean_bytes(&self.held) else {
            let late = late.to_vec();
            self.held.truncate(at);
            return std::mem::replace(&mut self.held, late);
        };
        let parts = [self.scanner.clean_bytes(early), self.scanner.clean_bytes(late)].concat();
        // If the parts are redacted in the same way as the whole, no value crosses the border.
        if at == 0 || whole != parts {
            return Vec::new();
        }
        let late = late.to_vec();
        let early = std::mem::replace(&mut self.held, late);
        self.scanner.clean_bytes(&early[..at]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "k4Jx9-qT7vW2mZ8pL3nR6sB1";

    fn written(pieces: &[&str], border: PieceEnd) -> String {
        let scanner = SecretScanner::new([VALUE]);
        let mut stream = RedactingStream::new(&scanner);
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| out.extend(stream.push(piece.as_bytes(), border)));
        out.extend(stream.finish());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn value_cut_at_any_position_is_not_written() {
        let text = format!("before {VALUE} after\n");
        for at in 0..text.len() {
            let (one, other) = text.split_at(at);
            assert_eq!(written(&[one, other], PieceEnd::Cut), "before [known-value] after\n", "cut at {at}");
        }
        let (one, other) = VALUE.split_at(11);
        let lines = written(&[&format!("{one}\n"), &format!("{other}\n"), "end\n"], PieceEnd::Line);
        assert!(!lines.contains(one) && !lines.contains(other) && lines.ends_with("end\n"), "{lines}");
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(written(&bytes, PieceEnd::Cut), "before [known-value] after\n");
    }

    #[test]
    fn no_line_of_a_private_key_is_written() {
        let head = format!("-----BEGIN {} KEY-----\n", "PRIVATE");
        let shown = written(&["a\n", &head, "MIIEvQIBADANBgkqhkiG9w0\n", "-----END\n", "b\n"], PieceEnd::Line);
        assert_eq!(shown, "a\n[private-key]-----END\nb\n");
    }

    #[test]
    fn ordinary_lines_are_written_at_once() {
        let scanner = SecretScanner::new([VALUE]);
        let mut stream = RedactingStream::new(&scanner);
        assert_eq!(stream.push(b"a line\n", PieceEnd::Line), b"a line\n");
        assert_eq!(stream.push(b"\xff\n", PieceEnd::Line), b"\xff\n");
        assert_eq!(stream.finish(), b"");
    }
}

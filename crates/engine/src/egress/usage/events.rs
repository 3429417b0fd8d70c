//! Server-sent events, as far as counting needs them: the data of each go to the scan, everything else is passed over.

use super::scan::{Doc, Scan};

const DATA: &[u8] = b"data:";

/// Where in a line the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// So many bytes of it are those of `data:`.
    Start(usize),
    /// In the data.
    Data,
    /// In something else.
    Else,
}

/// The reading of one stream of events.
#[derive(Debug)]
pub(super) struct Events(At);

impl Default for Events {
    fn default() -> Self {
        Self(At::Start(0))
    }
}

impl Events {
    pub(super) fn push(&mut self, mut bytes: &[u8], scan: &mut Scan, docs: &mut Vec<Doc>) {
        while !bytes.is_empty() {
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            self.piece(&bytes[..end.unwrap_or(bytes.len())], scan, docs);
            let Some(end) = end else { return };
            self.line_ended(bytes[end], scan);
            bytes = &bytes[end + 1..];
        }
    }

    fn piece(&mut self, mut piece: &[u8], scan: &mut Scan, docs: &mut Vec<Doc>) {
        while let (At::Start(seen), Some(&byte)) = (self.0, piece.first()) {
            self.0 = match DATA[seen] == byte {
                true if seen + 1 == DATA.len() => At::Data,
                true => At::Start(seen + 1),
                false => At::Else,
            };
            piece = &piece[1..];
        }
        if self.0 == At::Data {
            scan.push(piece, |doc| docs.push(doc));
        }
    }

    /// An empty line ends an event, whole or not. One that ends in CR and LF looks like a line and an empty one; no provider
    /// breaks a document over lines, so nothing is lost by it.
    fn line_ended(&mut self, end: u8, scan: &mut Scan) {
        if self.0 == At::Start(0) && end == b'\n' {
            *scan = Scan::default();
        }
        self.0 = At::Start(0);
    }
}

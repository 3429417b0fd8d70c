//! The speed of redaction: of a stream, as transcripts are written, and of pieces without the work between them.

use loopwright_core::secrets::{PieceEnd, RedactingStream, SecretScanner};
use serde_json::json;
use std::time::Instant;

/// Bytes of text of each kind; the best time of several runs counts.
const BYTES: usize = 16 << 20;
/// The full search is slow, so it gets less text.
const BYTES_CAREFUL: usize = 1 << 20;
const TIMES: usize = 3;

const KINDS: [(&str, &str); 4] = [
    (
        "build output",
        "   Compiling serde_json v1.0.154 (/home/a/project/crates/core)\n\
         test secrets::tests::files_of_keys_are_known_by_their_lines ... ok (0.03 s)\n\
         warning: unused variable: `found` at src/lib.rs:12:9, run with --verbose\n",
    ),
    (
        "an agent's JSON",
        "{\"type\":\"assistant\",\"id\":\"msg_01\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"I read `src/lib.rs` \
         and the tests.\\n\\nIt \\\"works\\\", but `parse` takes an empty line for the end; I will change that first.\"}]}}\n",
    ),
    ("short lines", "ok 17 - adds\n"),
    ("one endless line", "lorem ipsum dolor sit amet, consectetur adipiscing elit "),
];

/// Prints MB/s of each kind, for the stream and for the full search.
pub(crate) fn measure() {
    let values = (0..20).map(|at| format!("k4Jx{at}-qT7vW2mZ{at}8pL3nR6sB1xYw{at}"));
    let scanner = SecretScanner::new(values);
    for (kind, text) in KINDS {
        let text = text.repeat(BYTES / text.len());
        let careful = &text.as_bytes()[..BYTES_CAREFUL];
        let stream_rate = rate(text.len(), || through(&scanner, text.as_bytes()));
        let care_rate = rate(careful.len(), || with_care(&scanner, careful));
        println!("{}", json!({"kind": kind, "stream": stream_rate, "careful": care_rate}));
    }
}

fn rate(bytes: usize, mut work: impl FnMut() -> usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..TIMES {
        let begun = Instant::now();
        let written = work();
        best = best.min(begun.elapsed().as_secs_f64());
        assert_eq!(written, bytes, "clean text is written as it is");
    }
    bytes as f64 / 1e6 / best
}

/// Splits text as a transcript is written: line by line, and in pieces where a line has no end.
fn pieces(text: &[u8]) -> impl Iterator<Item = (&[u8], PieceEnd)> {
    text.chunks(8 << 10).flat_map(|chunk| chunk.split_inclusive(|byte| *byte == b'\n')).map(|piece| {
        let border = if piece.ends_with(b"\n") { PieceEnd::Line } else { PieceEnd::Cut };
        (piece, border)
    })
}

fn through(scanner: &SecretScanner, text: &[u8]) -> usize {
    let mut stream = RedactingStream::new(scanner);
    let written: usize = pieces(text).map(|(piece, border)| stream.push(piece, border).len()).sum();
    written + stream.finish().len()
}

fn with_care(scanner: &SecretScanner, text: &[u8]) -> usize {
    pieces(text).map(|(piece, _)| scanner.clean_bytes(piece).len()).sum()
}

//! Ten thousand damaged loop files: reading ends in a spec or in problems, never in a panic.
//!
//! There is no clock here: the limits on bytes, depth, values and problems guarantee that reading is quick.

use loopwright_core::spec::read_loop_file;
use std::path::Path;

/// A small generator with a fixed seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specs");
    let mut corpus = Vec::new();
    for part in ["good", "bad"] {
        for entry in std::fs::read_dir(folder.join(part)).expect("the folder of fixtures is there") {
            let file = entry.expect("a readable entry").path();
            if file.extension().is_some_and(|extension| extension != "expected") {
                corpus.push((file.to_string_lossy().into_owned(), std::fs::read(&file).expect("a readable fixture")));
            }
        }
    }
    corpus.sort();
    corpus
}

/// Pieces that are significant to a YAML reader, a Markdown reader or a terminal.
const PIECES: [&str; 36] = [
    "---\n",
    "\n",
    "\r\n",
    "\t",
    "  ",
    ": ",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "#",
    "# Maker\n",
    "&a ",
    "*a",
    "!!str ",
    "|\n",
    ">-\n",
    "<<: ",
    "? ",
    "%YAML 1.2\n",
    "...\n",
    "\u{feff}",
    "\u{202e}",
    "é",
    "💥",
    "\u{0}",
    "\u{85}",
    "\\x",
    "~",
    ".nan",
    "99999999999999999999",
    "```\n",
];

fn damage(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(text.len() + 1);
    match random.below(6) {
        0 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
        1 => {
            let end = (at + random.below(20)).min(text.len());
            text.drain(at..end);
        }
        2 if at < text.len() => text[at] = random.next() as u8,
        3 => {
            let from = random.below(other.len());
            let to = (from + random.below(200)).min(other.len());
            drop(text.splice(at..at, other[from..to].iter().copied()));
        }
        4 => {
            let end = (at + random.below(100)).min(text.len());
            let copy = text[at..end].to_vec();
            drop(text.splice(at..at, copy));
        }
        _ => text.truncate(at),
    }
}

#[test]
fn ten_thousand_damaged_files_are_read_without_a_panic() {
    let corpus = corpus();
    let mut random = Random(0x5eed_1234_5678_9abc);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..10_000 {
        let (file, original) = &corpus[random.below(corpus.len())];
        let other = &corpus[random.below(corpus.len())].1;
        let mut text = original.clone();
        for _ in 0..=random.below(4) {
            damage(&mut text, other, &mut random);
        }
        let outcome = std::panic::catch_unwind(|| read_loop_file(file, &text));
        match outcome {
            Ok(Ok(_)) => accepted += 1,
            Ok(Err(problems)) => {
                refused += 1;
                assert!(!problems.is_empty() && problems.len() <= 200);
                assert!(!problems.to_string().contains('\u{1b}'));
            }
            Err(_) => panic!("round {round} of {file} panicked: {:?}", String::from_utf8_lossy(&text)),
        }
    }
    // Both results must occur, otherwise the damage is too great or too small to be a useful test.
    assert!(accepted > 50 && refused > 5_000, "{accepted} accepted, {refused} refused");
}

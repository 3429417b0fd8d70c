//! The fuzz targets' entry points, run on every build with bounded random changes of recorded input: no reader of
//! foreign bytes panics. The random numbers are the same in every run; a failure prints the input.

#[path = "../../../fuzz/entry.rs"]
mod entry;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Variants of each recorded input.
const TIMES: usize = 150;
/// The most bytes of one input that are changed.
const BYTES_MAX: usize = 64 << 10;
/// Byte sequences that are likely to break a parser.
const WORDS: [&[u8]; 16] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"\n",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    b"null",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"\xe2\x80\xae",
];

/// Pseudo-random numbers that are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }

    /// A range of a text, short more often than long, and often at the start of a value: changes in the middle of words
    /// seldom break a parser.
    fn part(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let (anywhere, length) = (self.next(bytes.len()), bytes.len());
        let value = bytes[anywhere..].iter().position(|byte| matches!(byte, b':' | b',' | b'['));
        let start = match value {
            Some(at) if self.next(4) != 0 => (anywhere + at + 1).min(length - 1),
            Some(_) | None => anywhere,
        };
        let most = [1, 8, 40, length][self.next(4)];
        start..(start + 1 + self.next(most)).min(length)
    }
}

/// Applies one to four changes.
fn changed(input: &[u8], others: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=numbers.next(4) {
        if bytes.is_empty() {
            return bytes;
        }
        let part = numbers.part(&bytes);
        match numbers.next(8) {
            0 => bytes[part.start] ^= 1 << numbers.next(8),
            1 => drop(bytes.drain(part)),
            2 => bytes.truncate(part.start),
            3 => {
                let again = bytes[part.clone()].to_vec();
                bytes.splice(part.end..part.end, again.repeat(1 + numbers.next(3)));
            }
            4 => {
                let other = &others[numbers.next(others.len())];
                let piece = numbers.part(other);
                bytes.splice(part, other.get(piece).unwrap_or_default().to_vec());
            }
            5 => bytes.rotate_left(part.start),
            _ => {
                let word = WORDS[numbers.next(WORDS.len())];
                bytes.splice(part.start..part.start, word.iter().copied());
            }
        }
    }
    bytes
}

/// The first input that makes a reader panic.
fn drive(inputs: &[Vec<u8>], read: impl Fn(&[u8])) -> Option<Vec<u8>> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let panics = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| read(bytes))).is_err();
    for input in inputs {
        for time in 0..TIMES {
            let bytes = if time == 0 { input.clone() } else { changed(input, inputs, &mut numbers) };
            if panics(&bytes) {
                return Some(bytes);
            }
        }
    }
    None
}

#[track_caller]
fn never_panics(inputs: &[Vec<u8>], read: impl Fn(&[u8])) {
    assert!(!inputs.is_empty(), "there is something to change");
    let found = drive(inputs, read).map(|bytes| bytes.escape_ascii().to_string());
    assert_eq!(found, None);
}

fn files(folder: &Path, ends: &[&str]) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_unstable();
    let wanted = |path: &PathBuf| ends.iter().any(|end| path.extension().is_some_and(|found| found == *end));
    let read = |path: PathBuf| {
        let mut bytes = std::fs::read(path).expect("a fixture");
        bytes.truncate(BYTES_MAX);
        bytes
    };
    paths.into_iter().filter(wanted).map(read).collect()
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn no_stream_of_an_agent_breaks_its_reader() {
    for (at, name) in ["claude-", "codex-", "opencode-", "gemini-"].iter().enumerate() {
        let folders =
            std::fs::read_dir(here("tests/streams")).expect("streams").map(|entry| entry.expect("one").path());
        let folder = folders
            .into_iter()
            .find(|path| path.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name)));
        let inputs = files(&folder.expect("recorded streams"), &["jsonl"]);
        let first = u8::try_from(at).expect("few agents");
        // The byte that selects the agent stays.
        never_panics(&inputs, |bytes| entry::stream(&[&[first], bytes].concat()));
    }
}

#[test]
fn no_verdict_breaks_its_reader() {
    let verdict = br#"{"schema":1,"nonce":"n","tree":"t","candidate":"c","verdict":"pass","summary":"well","scores":[
        {"dimension":"correctness","score":5,"why":"seen","evidence":[{"path":"a.py","line":2,"quote":"x"},{"gate":"tests"},{"item":"report.md","line":1,"quote":"y"}]}]}"#;
    let fenced = [b"My verdict:\n```json\n".as_slice(), verdict, b"\n```\nand {\"other\": [1, 2]}\n"].concat();
    let inputs: Vec<Vec<u8>> = (0..10).flat_map(|_| [verdict.to_vec(), fenced.clone()]).collect();
    never_panics(&inputs, entry::verdict);
}

#[test]
fn no_staged_file_breaks_its_reader() {
    let one = b"pull-request.md\0---\ntitle: Mend\nlabels: [a, b]\n---\nIt was wrong.\0CANNOT.md\0no way\0comment-12.md\0Well done @you";
    let two = b"pr-review-7.json\0{\"body\":\"x\",\"comments\":[{\"path\":\"a\",\"line\":1,\"body\":\"y\"}]}\0report.md\0# All is well\n";
    let inputs: Vec<Vec<u8>> = (0..10).flat_map(|_| [one.to_vec(), two.to_vec()]).collect();
    never_panics(&inputs, entry::outbox);
}

#[test]
fn no_loop_file_breaks_its_reader() {
    let folders = ["../core/tests/specs/good", "../core/tests/specs/bad"];
    let mut inputs: Vec<_> =
        folders.iter().flat_map(|folder| files(&here(folder), &["md", "yaml", "yml", "json"])).collect();
    inputs.push(b"---\nname: x\nintent: y\nlevel: L2\non: { cron: \"0 2 * * *\" }\nbudget: { round: { usd: 1 } }\n---\n# Maker\nDo it.\n".to_vec());
    never_panics(&inputs, entry::loop_file);
}

#[test]
fn planted_panic_is_found() {
    let inputs = files(&here("tests/streams/codex-0.166.0"), &["jsonl"]);
    let planted = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        // Like a reader that assumes a number in every usage line.
        let figures = text.split("\"input_tokens\":").skip(1);
        figures.for_each(|rest| assert!(rest.starts_with(|c: char| c.is_ascii_digit()), "planted"));
    };
    let found = drive(&inputs, planted).expect("the changes find it");
    assert!(!inputs.contains(&found), "the recorded input alone does not cause it");
}

//! The cheap prefilter for stored text: one pass over the formats and one over the letters prove that a text contains
//! no secret. Only texts without that proof get the full search.
//!
//! The prefilter never misses a known value that the full search would find (as it is, reversed, in base64,
//! hexadecimal, escapes, one inside the other, cut by characters that are not letters), nor a public format in plain
//! text. Formats that only appear after literals are joined or runs are decoded are found by the gate, not on the way
//! to a log.

use super::codec;
use super::rules;
use super::text_reading::{HexPrefix, TextReading};
use aho_corasick::AhoCorasick;
use std::collections::HashMap;

/// Letters of a needle: the smallest number that is looked up, and the largest number that is compared.
const NEEDLE_MIN: usize = 6;
const NEEDLE_MAX: usize = 8;
const KEY: u64 = (1 << (8 * NEEDLE_MIN)) - 1;

/// A shorter text contains no value, whole or cut.
const TEXT_MIN: usize = NEEDLE_MIN;

/// Bits of the table that rules out most texts.
const MARK_BITS: u32 = 17;

/// The kind of each byte: a letter or digit in lower case, the start of an escape, or neither.
const KINDS: [u8; 256] = kinds();
const ESCAPE: u8 = 1;
const LETTER_FROM: u8 = b'0';

const fn kinds() -> [u8; 256] {
    let mut kinds = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            kinds[byte as usize] = byte | 0x20;
        } else if matches!(byte, b'%' | b'\\' | b'&') {
            kinds[byte as usize] = ESCAPE;
        }
        byte += 1;
    }
    kinds
}

/// Finds needles, short parts of the values: every spelling of a value contains at least one.
pub(super) struct SecretPrefilter {
    marks: Vec<u64>,
    /// Needles by their last letters: the letters, and the mask of the last read bytes that they are compared with.
    needles: HashMap<u64, Vec<(u64, u64)>>,
    /// Spellings with too few letters for a needle.
    odd: Vec<Vec<u8>>,
    odd_search: Option<AhoCorasick>,
}

/// The result of one pass over the letters.
#[derive(Default)]
struct Seen {
    is_found: bool,
    has_hex: bool,
}

impl SecretPrefilter {
    pub(super) fn new() -> Self {
        let marks = vec![0; 1 << (MARK_BITS - 6)];
        Self { marks, needles: HashMap::new(), odd: Vec::new(), odd_search: None }
    }

    /// Adds a value with all its spellings; for a value that looks random, any range of length `half` is found.
    pub(super) fn add(&mut self, value: &[u8], half: Option<usize>) {
        let reversed: Vec<u8> = value.iter().rev().copied().collect();
        for plain in [value.to_vec(), reversed, codec::rot13(value)] {
            self.middle(&plain);
        }
        let base64 = |value: &[u8]| (0..3).map(|shift| codec::base64_inner(value, shift)).collect::<Vec<_>>();
        let hex = codec::hex(value);
        let once: Vec<String> =
            base64(value).into_iter().chain([hex.clone(), hex.to_uppercase(), codec::decimal(value)]).collect();
        let in_addresses = once.iter().map(|code| code.replace('+', "-").replace('/', "_"));
        let twice = once.iter().cloned().chain(in_addresses).flat_map(|code| {
            let code = code.as_bytes();
            base64(code).into_iter().chain([codec::hex(code)]).collect::<Vec<_>>()
        });
        let base32 = (0..5).map(|shift| codec::base32_inner(value, shift));
        once.iter().cloned().chain(twice).chain(base32).for_each(|code| self.middle(code.as_bytes()));
        // A range as long as `half` contains one of these whole, at any start.
        let Some(half) = half.filter(|half| *half <= value.len()) else { return };
        let width = (half / 2).max(NEEDLE_MIN);
        value.windows(width).step_by(half - width + 1).for_each(|part| self.middle(part));
    }

    /// Must be called after all values are added.
    pub(super) fn finish(mut self) -> Self {
        let odd = (!self.odd.is_empty()).then(|| AhoCorasick::new(&self.odd));
        self.odd_search =
            odd.map(|built| built.expect("values of a few kilobytes are far from the automaton's limits"));
        self
    }

    /// The letters in the middle of a spelling: its start is often the same for all values of its kind.
    fn middle(&mut self, spelling: &[u8]) {
        let letters: Vec<u8> = spelling.iter().filter_map(|byte| letter(*byte)).collect();
        if letters.len() < NEEDLE_MIN {
            return self.odd.push(spelling.to_vec());
        }
        let width = letters.len().min(NEEDLE_MAX);
        let from = (letters.len() - width) / 2;
        let needle = letters[from..from + width].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let mask = u64::MAX >> (64 - 8 * width);
        let mark = mark(needle);
        self.marks[mark >> 6] |= 1 << (mark & 63);
        let same = self.needles.entry(needle & KEY).or_default();
        if !same.contains(&(needle, mask)) {
            same.push((needle, mask));
        }
    }

    fn is_needle(&self, last: u64) -> bool {
        self.needles.get(&(last & KEY)).is_some_and(|all| all.iter().any(|(needle, mask)| last & mask == *needle))
    }

    fn read(&self, text: &[u8]) -> Seen {
        let (mut last, mut seen) = (0_u64, Seen::default());
        for byte in text {
            let kind = KINDS[usize::from(*byte)];
            // Without a branch: letters and other bytes alternate too often for branch prediction.
            last = if kind >= LETTER_FROM { last << 8 | u64::from(kind) } else { last };
            seen.has_hex |= last & 0xffff == u64::from(u16::from_be_bytes(*b"0x"));
            let mark = mark(last);
            if self.marks[mark >> 6] >> (mark & 63) & 1 != 0 && self.is_needle(last) {
                seen.is_found = true;
                return seen;
            }
        }
        seen
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let seen = self.read(text);
        let is_odd = || self.odd_search.as_ref().is_some_and(|odd| odd.is_match(text));
        let is_bare_hex = || {
            seen.has_hex
                && self.read(&TextReading::alphanumeric(&TextReading::plain(text), HexPrefix::Bare).bytes).is_found
        };
        seen.is_found || is_bare_hex() || is_odd()
    }
}

/// Whether a text certainly contains none of the values and no public format, as it is and with its escapes decoded.
pub(super) fn is_certainly_clean(text: &[u8], values: Option<&SecretPrefilter>) -> bool {
    let is_in = |text: &[u8]| rules::may_contain_format(text) || values.is_some_and(|sieve| sieve.is_in(text));
    if text.len() < TEXT_MIN {
        return true;
    }
    if is_in(text) {
        return false;
    }
    !has_telling_escape(text) || TextReading::unescaped(text).is_none_or(|view| !is_in(&view.bytes))
}

/// Whether decoding the escapes may reveal more. Escaped quotes and backslashes, which are frequent in nested
/// documents, hide nothing that the text itself does not show.
fn has_telling_escape(text: &[u8]) -> bool {
    let tells = |pair: &[u8]| match pair {
        [b'%', next] => next.is_ascii_hexdigit(),
        [b'&', next] => *next == b'#',
        [b'\\', b'"' | b'\'' | b'\\'] => false,
        [b'\\', next] => next.is_ascii_punctuation() || matches!(next, b'x' | b'u' | b'U' | b'0'..=b'3'),
        _ => false,
    };
    text.iter().any(|byte| KINDS[usize::from(*byte)] == ESCAPE) && text.windows(2).any(tells)
}

fn letter(byte: u8) -> Option<u8> {
    Some(KINDS[usize::from(byte)]).filter(|kind| *kind >= LETTER_FROM)
}

fn mark(last: u64) -> usize {
    ((last & KEY).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MARK_BITS)) as usize
}

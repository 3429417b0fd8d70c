//! Values that the caller knows, searched for in every spelling that is cheap to search for: one pass over each reading
//! of a text, independent of the number of values. A value that is cut into pieces is found if the candidate contains
//! most of it.

use super::codec;
use super::rules::is_random;
use super::text_reading::{HexPrefix, TextReading};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use std::collections::HashSet;
use std::ops::Range;

/// A shorter value would match by chance.
const VALUE_BYTES_MIN: usize = 8;
/// The longest value that is searched for as a whole; its lines are searched for anyway.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// The largest number of values of one caller.
const VALUES_MAX: usize = 1000;

/// The smallest number of letters and digits that represent a value; with fewer, ordinary names would match.
const LETTERS_MIN_RANDOM: usize = 8;
const LETTERS_MIN_WORDS: usize = 20;
/// Shorter encodings match by chance.
const CODE_MIN: usize = 10;

/// The size of one piece, and the smallest size of a value that is searched for in pieces.
const PIECE_RANDOM: usize = 6;
const PIECE_WORDS: usize = 10;
const PIECES_FROM: usize = 16;
const PIECES_FROM_WORDS: usize = 20;
/// The percentage of a value that counts as the whole value: the ends of pieces that are too short for a match are
/// missing.
const ENOUGH_PERCENT: usize = 80;
/// The length of a range of a random value that reveals it by itself.
const STRETCH_MIN: usize = 10;

/// The number of letters at the end of a text that show whether a spelling may have started there.
const BEGIN: usize = 4;

/// The values and the automata that find them.
pub(super) struct KnownValues {
    /// Spellings that appear in a text as they are, or after its escapes are decoded.
    plain: AhoCorasick,
    /// Spellings of letters and digits only; case matters.
    letters: AhoCorasick,
    /// Hexadecimal and similar codes, where case does not matter.
    codes: AhoCorasick,
    pieces: AhoCorasick,
    /// The value of each piece, and its offset in the value.
    piece_of: Vec<(usize, usize)>,
    values: Vec<Value>,
    begins: HashSet<[u8; BEGIN]>,
    reach: usize,
}

struct Value {
    length: usize,
    piece: usize,
    is_random: bool,
}

impl Value {
    /// The length of a range that reveals the value by itself; `None` for a value of words.
    fn half(&self) -> Option<usize> {
        self.is_random.then_some(STRETCH_MIN.max(self.length.div_ceil(2)))
    }
}

#[derive(Default)]
struct Spellings {
    plain: Vec<Vec<u8>>,
    letters: Vec<Vec<u8>>,
    codes: Vec<Vec<u8>>,
}

impl Spellings {
    fn add(&mut self, value: &[u8], is_random: bool) {
        let reversed: Vec<u8> = value.iter().rev().copied().collect();
        let (letters_min, is_long) = if is_random { (LETTERS_MIN_RANDOM, true) } else { (LETTERS_MIN_WORDS, false) };
        self.plain.push(value.to_vec());
        for other in [value.to_vec(), reversed.clone(), codec::rot13(value)] {
            let letters = letters_of(&other);
            self.letters.extend((letters.len() >= letters_min).then_some(letters));
        }
        if is_long || value.len() >= LETTERS_MIN_WORDS {
            self.plain.extend([reversed, codec::rot13(value)]);
        }
        let base64 = (0..3).map(|shift| letters_of(codec::base64_inner(value, shift).as_bytes()));
        self.letters.extend(base64.filter(|code| code.len() >= CODE_MIN));
        let base32 = (0..5).map(|shift| codec::base32_inner(value, shift));
        let codes = base32.chain([crate::hash::hex(value), codec::decimal(value)]).map(String::into_bytes);
        self.codes.extend(codes.filter(|code| code.len() >= CODE_MIN));
    }

    fn begins(&self) -> HashSet<[u8; BEGIN]> {
        let all = self.letters.iter().chain(&self.codes).cloned().chain(self.plain.iter().map(|text| letters_of(text)));
        let grams = |text: Vec<u8>| text.windows(BEGIN).filter_map(|gram| gram.try_into().ok()).collect::<Vec<_>>();
        // Codes are compared ignoring case, so their grams are stored in both cases.
        let both = |gram: [u8; BEGIN]| [gram, gram.map(|byte| byte.to_ascii_uppercase())];
        all.flat_map(grams).flat_map(both).collect()
    }

    fn reach(&self) -> usize {
        // Escapes use up to ten bytes per letter, lists of numbers about five.
        self.plain.iter().map(|text| text.len() * 10).max().unwrap_or_default().min(VALUE_BYTES_MAX)
    }
}

impl KnownValues {
    /// `None` if no value is long enough for a reliable match.
    pub(super) fn new<S: AsRef<str>>(given: impl IntoIterator<Item = S>) -> Option<Self> {
        let values = worth_knowing(given);
        let mut spellings = Spellings::default();
        let (mut known, mut pieces, mut piece_of) = (Vec::new(), Vec::new(), Vec::new());
        for (index, value) in values.iter().map(String::as_bytes).enumerate() {
            let is_random = is_random(&values[index]);
            spellings.add(value, is_random);
            let (piece, from) = if is_random { (PIECE_RANDOM, PIECES_FROM) } else { (PIECE_WORDS, PIECES_FROM_WORDS) };
            if value.len() >= from {
                pieces.extend(value.windows(piece).map(<[u8]>::to_vec));
                piece_of.extend((0..=value.len() - piece).map(|at| (index, at)));
            }
            known.push(Value { length: value.len(), piece, is_random });
        }
        (!known.is_empty()).then(|| Self {
            begins: spellings.begins(),
            reach: spellings.reach(),
            plain: automaton(&spellings.plain, Search::Longest),
            letters: automaton(&spellings.letters, Search::Longest),
            codes: automaton(&spellings.codes, Search::AnyCase),
            pieces: automaton(&pieces, Search::Every),
            piece_of,
            values: known,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The largest length by which a spelling can continue after the end of a text.
    pub(super) fn overlap_max(&self) -> usize {
        self.reach
    }

    /// Whether a spelling may start at the end of a text and continue in the next.
    pub(super) fn may_continue(&self, tail: &[u8]) -> bool {
        let last = tail.iter().rev().filter(|byte| byte.is_ascii_alphanumeric()).take(BEGIN);
        let mut gram: Vec<u8> = last.copied().collect();
        gram.reverse();
        <[u8; BEGIN]>::try_from(gram).is_ok_and(|gram| self.begins.contains(&gram))
    }

    /// The ranges of values in a text, in any spelling; pieces are added to the coverage of the candidate.
    pub(super) fn find(&self, text: &[u8], held: &mut ValueCoverage) -> Vec<Range<usize>> {
        let raw = TextReading::plain(text);
        let mut spans = Vec::new();
        self.plainly(&raw, held, &mut spans);
        let unescaped = TextReading::unescaped(text);
        if let Some(view) = &unescaped {
            self.plainly(view, held, &mut spans);
            self.by_letters(view, &mut spans);
        }
        // Decoding escapes may break a value that is plain in the text, so the text itself is read too.
        self.by_letters(&raw, &mut spans);
        spans
    }

    fn plainly(&self, view: &TextReading, held: &mut ValueCoverage, spans: &mut Vec<Range<usize>>) {
        spans.extend(self.plain.find_iter(&view.bytes).map(|found| view.source(&found.range())));
        for found in self.pieces.find_overlapping_iter(&view.bytes) {
            let (value, at) = self.piece_of[found.pattern().as_usize()];
            if let Some(stretch) = held.add(value, at, found.range(), &self.values[value]) {
                spans.push(view.source(&stretch));
            }
        }
    }

    fn by_letters(&self, view: &TextReading, spans: &mut Vec<Range<usize>>) {
        let letters = TextReading::alphanumeric(view, HexPrefix::Prefixed);
        spans.extend(self.letters.find_iter(&letters.bytes).map(|found| letters.source(&found.range())));
        spans.extend(self.codes.find_iter(&letters.bytes).map(|found| letters.source(&found.range())));
        if view.bytes.windows(2).any(|pair| matches!(pair, b"0x" | b"0X")) {
            let bare = TextReading::alphanumeric(view, HexPrefix::Bare);
            spans.extend(self.codes.find_iter(&bare.bytes).map(|found| bare.source(&found.range())));
        }
    }

    /// Whether the pieces together cover nearly all of some value.
    pub(super) fn is_complete(&self, held: &ValueCoverage) -> bool {
        let whole = |(index, covered): (&usize, &Vec<bool>)| {
            let count = covered.iter().filter(|is_covered| **is_covered).count();
            count * 100 >= self.values[*index].length * ENOUGH_PERCENT
        };
        held.covered.iter().any(whole)
    }
}

/// The parts of the values that a candidate contains, in pieces.
#[derive(Default)]
pub(super) struct ValueCoverage {
    covered: std::collections::HashMap<usize, Vec<bool>>,
    /// Ranges that can grow: the value, the offset of the next piece in it, and the range in the reading.
    growing: Vec<(usize, usize, Range<usize>)>,
}

impl ValueCoverage {
    /// Records a piece. Returns the range that it forms with the pieces right before it, once the range reveals the
    /// value.
    fn add(&mut self, value: usize, at: usize, range: Range<usize>, about: &Value) -> Option<Range<usize>> {
        let covered = self.covered.entry(value).or_insert_with(|| vec![false; about.length]);
        covered[at..at + about.piece].fill(true);
        if !about.is_random {
            return None;
        }
        let goes_on = |(of, next, stretch): &&mut (usize, usize, Range<usize>)| {
            *of == value && *next == at && stretch.end + 1 == range.end
        };
        let stretch = match self.growing.iter_mut().find(goes_on) {
            Some((_, next, stretch)) => {
                (*next, stretch.end) = (at + 1, range.end);
                stretch.clone()
            }
            None => {
                // Only a range that ends at the last byte can grow.
                self.growing.retain(|(_, _, stretch)| stretch.end + 1 >= range.end && stretch.end <= range.end);
                self.growing.push((value, at + 1, range.clone()));
                range
            }
        };
        about.half().filter(|half| stretch.len() >= *half).map(|_| stretch)
    }
}

#[derive(Clone, Copy)]
enum Search {
    Longest,
    AnyCase,
    Every,
}

fn automaton(patterns: &[Vec<u8>], search: Search) -> AhoCorasick {
    let kind = if matches!(search, Search::Every) { MatchKind::Standard } else { MatchKind::LeftmostLongest };
    let any_case = matches!(search, Search::AnyCase);
    let built = AhoCorasickBuilder::new().match_kind(kind).ascii_case_insensitive(any_case).build(patterns);
    built.expect("a thousand values of a few kilobytes are far from the automaton's limits")
}

fn letters_of(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(u8::is_ascii_alphanumeric).collect()
}

/// The values themselves, and the lines and members of values that are files.
fn worth_knowing<S: AsRef<str>>(given: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for text in given {
        let text = text.as_ref().trim();
        let lines = text.lines().map(str::trim).filter(|line| line.len() < text.len() && is_random(line));
        let mut members = Vec::new();
        if text.starts_with('{')
            && let Ok(document) = serde_json::from_str(text)
        {
            strings(&document, &mut members);
        }
        let parts = lines.map(str::to_owned).chain(members).filter(|part| part.len() >= PIECES_FROM);
        values.extend(parts.chain([text.to_owned()]));
    }
    values.retain(|value| (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len()));
    values.sort();
    values.dedup();
    values.truncate(VALUES_MAX);
    values
}

fn strings(document: &serde_json::Value, found: &mut Vec<String>) {
    match document {
        serde_json::Value::String(text) if is_random(text) => found.push(text.clone()),
        serde_json::Value::Array(all) => all.iter().for_each(|one| strings(one, found)),
        serde_json::Value::Object(all) => all.values().for_each(|one| strings(one, found)),
        _ => {}
    }
}

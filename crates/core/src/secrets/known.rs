//! Values the caller knows, in every spelling that is cheap to look for, and the decoding of base64 runs.

use std::collections::HashSet;

/// A shorter value would be found by chance.
const VALUE_BYTES_MIN: usize = 8;

/// Values with at least this many bytes are also looked for in halves, which is how they get split over files.
const SPLIT_BYTES_MIN: usize = 20;

/// Longest base64 run that is decoded.
const RUN_BYTES_MAX: usize = 1 << 20;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One value and its spellings.
pub(super) struct Known {
    spellings: Vec<String>,
    /// Every window of half the value's length.
    windows: HashSet<Vec<u8>>,
    window: usize,
}

impl Known {
    /// `None` for a value too short to be told from chance.
    pub(super) fn new(value: &str) -> Option<Self> {
        let value = value.trim();
        if value.len() < VALUE_BYTES_MIN {
            return None;
        }
        let mut spellings =
            vec![value.to_owned(), squeeze(value), hex(value), hex(value).to_uppercase(), percent(value)];
        // Base64 of a text depends on where the value starts in it, so all three offsets are looked for.
        spellings.extend((0..3).map(|shift| base64_inner(value.as_bytes(), shift)));
        let url_safe: Vec<String> =
            spellings[5..].iter().map(|text| text.replace('+', "-").replace('/', "_")).collect();
        spellings.extend(url_safe);
        spellings.retain(|text| text.len() >= VALUE_BYTES_MIN);
        let window = if value.len() >= SPLIT_BYTES_MIN { value.len().div_ceil(2) } else { value.len() };
        let windows = value.as_bytes().windows(window).map(<[u8]>::to_vec).collect();
        Some(Self { spellings, windows, window })
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.spellings.iter().any(|spelling| text.contains(spelling.as_str()))
            || text.as_bytes().windows(self.window).any(|window| self.windows.contains(window))
    }
}

/// The text without what separates the pieces of a split value.
pub(super) fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | '+' | '\\' | ',')).collect()
}

fn hex(value: &str) -> String {
    value.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The base64 characters that only the value decides when `shift` unknown bytes stand before it.
fn base64_inner(value: &[u8], shift: usize) -> String {
    let padded = [&[0; 2][..shift], value].concat();
    let first = [0, 2, 3][shift];
    let bits = padded.len() * 8;
    let whole = bits / 6;
    let sextet = |at: usize| {
        let bit = at * 6;
        let high = u16::from(padded[bit / 8]) << 8;
        let low = padded.get(bit / 8 + 1).map_or(0, |byte| u16::from(*byte));
        ((high | low) >> (10 - bit % 8)) & 63
    };
    (first..whole).map(|at| char::from(ALPHABET[usize::from(sextet(at))])).collect()
}

/// Decodes every long run of base64 characters; what decodes to no text is dropped.
pub(super) fn base64_runs(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_run = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    let runs = text.split(move |c: char| !is_run(c)).filter(|run| (24..=RUN_BYTES_MAX).contains(&run.len()));
    runs.filter_map(|run| String::from_utf8(decode(run)).ok())
}

fn decode(run: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(run.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in run.bytes() {
        let byte = match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        };
        let Some(value) = ALPHABET.iter().position(|known| *known == byte) else { continue };
        bits = (bits << 6 | value as u32) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    out
}

//! Other readings of a text: with its escapes decoded, and with only its letters and digits. A value that is cut by
//! quotes, line ends, commas or NULs is whole there. A reading keeps the source position of each of its bytes.

use std::ops::Range;

/// A reading of a text.
pub(super) struct TextReading {
    pub(super) bytes: Vec<u8>,
    /// The range of the text that each byte comes from.
    from: Vec<(u32, u32)>,
}

impl TextReading {
    fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), from: Vec::with_capacity(bytes) }
    }

    fn push(&mut self, byte: u8, from: (u32, u32)) {
        self.bytes.push(byte);
        self.from.push(from);
    }

    /// The text as it is.
    pub(super) fn plain(text: &[u8]) -> Self {
        Self { bytes: text.to_vec(), from: (0..text.len()).map(|at| stretch(at, 1)).collect() }
    }

    /// The range of the text that a range of the reading comes from.
    pub(super) fn source(&self, span: &Range<usize>) -> Range<usize> {
        let covered = &self.from[span.clone()];
        let (first, last) = (covered.first().map_or(0, |from| from.0), covered.last().map_or(0, |from| from.1));
        first as usize..last as usize
    }

    /// Percent escapes, backslashes and character references decoded; `None` if there are none.
    pub(super) fn unescaped(text: &[u8]) -> Option<Self> {
        let is_escape = |byte: &u8| matches!(byte, b'%' | b'\\' | b'&');
        text.iter().any(is_escape).then(|| {
            let (mut view, mut at) = (Self::with_room(text.len()), 0);
            while at < text.len() {
                let (byte, length) = escape(&text[at..]).unwrap_or((text[at], 1));
                view.push(byte, stretch(at, length));
                at += length;
            }
            view
        })
    }

    /// Only the letters and digits of another reading, without `0x` if `hex` requests it.
    pub(super) fn alphanumeric(of: &Self, hex: HexPrefix) -> Self {
        let mut view = Self::with_room(of.bytes.len());
        let mut at = 0;
        while at < of.bytes.len() {
            if matches!(hex, HexPrefix::Bare) && matches!(of.bytes[at..], [b'0', b'x' | b'X', ..]) {
                at += 2;
                continue;
            }
            if of.bytes[at].is_ascii_alphanumeric() {
                view.push(of.bytes[at], of.from[at]);
            }
            at += 1;
        }
        view
    }
}

/// Whether the `0x` before each byte of a list is kept.
#[derive(Clone, Copy)]
pub(super) enum HexPrefix {
    Prefixed,
    Bare,
}

/// Texts are read in windows far below the limit of `u32`.
fn stretch(at: usize, length: usize) -> (u32, u32) {
    let fit = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    (fit(at), fit(at + length))
}

/// The ASCII byte of an escape, and the escape's length.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    match text {
        [b'%', rest @ ..] => Some((digits(rest.get(..2)?, 16)?, 3)),
        [b'\\', b'x', rest @ ..] => Some((digits(rest.get(..2)?, 16)?, 4)),
        [b'\\', b'u', b'{', rest @ ..] => braced(rest, b'}', 16).map(|(byte, length)| (byte, 3 + length)),
        [b'\\', b'u', rest @ ..] => Some((digits(rest.get(..4)?, 16)?, 6)),
        [b'\\', b'U', rest @ ..] => Some((digits(rest.get(..8)?, 16)?, 10)),
        [b'\\', b'0'..=b'3', ..] => Some((digits(text.get(1..4)?, 8)?, 4)),
        // Before a punctuation character, such as JSON's slash, the backslash only quotes it.
        [b'\\', sign, ..] if sign.is_ascii_punctuation() => Some((*sign, 2)),
        [b'&', b'#', b'x' | b'X', rest @ ..] => braced(rest, b';', 16).map(|(byte, length)| (byte, 3 + length)),
        [b'&', b'#', rest @ ..] => braced(rest, b';', 10).map(|(byte, length)| (byte, 2 + length)),
        _ => None,
    }
}

/// The value of up to eight digits before a closing character, with the length of both.
fn braced(text: &[u8], close: u8, radix: u32) -> Option<(u8, usize)> {
    let end = text.iter().take(9).position(|byte| *byte == close)?;
    Some((digits(&text[..end], radix)?, end + 1))
}

/// The ASCII byte for digits.
fn digits(text: &[u8], radix: u32) -> Option<u8> {
    let value = u32::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()?;
    u8::try_from(value).ok().filter(|byte| byte.is_ascii() && !text.starts_with(b"+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let plain = TextReading::plain(text.as_bytes());
        let unescaped = TextReading::unescaped(text.as_bytes()).unwrap_or(plain);
        String::from_utf8_lossy(&TextReading::alphanumeric(&unescaped, HexPrefix::Prefixed).bytes).into_owned()
    }

    #[test]
    fn escapes_and_separators_are_removed() {
        for text in [
            "abc",
            "a%62c",
            "\\x61\\x62\\x63",
            "\\u0061\\u0062c",
            "\\u{61}\\u{062}c",
            "\\141\\142\\143",
            "&#97;&#x62;c",
            "\"a\" +\n  \"b\", 'c'",
            "a\\/b\\\"c",
            "a\0b\0c\0",
        ] {
            assert_eq!(read(text), "abc", "{text}");
        }
        for odd in ["%", "\\", "\\x6", "\\u{", "&#;", "%zz", "\\u{110000}", "&#99999999999;", "%+1"] {
            let _ = read(odd);
        }
    }

    #[test]
    fn range_of_a_reading_maps_back_to_the_text() {
        let text = b"see \"a\\x62\" + \"c\" here";
        let unescaped = TextReading::unescaped(text).expect("an escape");
        let view = TextReading::alphanumeric(&unescaped, HexPrefix::Prefixed);
        let at = view.bytes.windows(3).position(|part| part == b"abc").expect("joined");
        let source = view.source(&(at..at + 3));
        assert_eq!(&text[source], b"a\\x62\" + \"c");
    }
}

//! Spellings of a value: encodings of a known value, and the decoding of runs that could hide one.

/// The longest run that is decoded.
const RUN_BYTES_MAX: usize = 1 << 20;

/// The shortest run that could hide a credential.
const RUN_BYTES_MIN: usize = 24;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The codes of the bytes in sequence, as a list of numbers without its commas.
pub(super) fn decimal(value: &[u8]) -> String {
    value.iter().map(u8::to_string).collect()
}

pub(super) fn rot13(value: &[u8]) -> Vec<u8> {
    let turn = |byte: u8, first: u8| (byte - first + 13) % 26 + first;
    let turned = value.iter().map(|byte| match *byte {
        byte @ b'a'..=b'z' => turn(byte, b'a'),
        byte @ b'A'..=b'Z' => turn(byte, b'A'),
        byte => byte,
    });
    turned.collect()
}

/// The characters that depend only on the value if `shift` unknown bytes precede it and others follow it.
fn inner(value: &[u8], shift: usize, bits: usize, letter: impl Fn(usize) -> u8) -> String {
    let at_bit = |bit: usize| {
        let byte = (bit / 8).checked_sub(shift).and_then(|at| value.get(at)).copied().unwrap_or_default();
        usize::from(byte >> (7 - bit % 8) & 1)
    };
    let first = (shift * 8).div_ceil(bits);
    let whole = (shift + value.len()) * 8 / bits;
    let letters = (first..whole).map(|at| letter((0..bits).fold(0, |sum, bit| sum << 1 | at_bit(at * bits + bit))));
    letters.map(char::from).collect()
}

/// The base64 characters of a value depend on its offset in the text.
pub(super) fn base64_inner(value: &[u8], shift: usize) -> String {
    inner(value, shift, 6, |six| BASE64[six])
}

pub(super) fn base32_inner(value: &[u8], shift: usize) -> String {
    inner(value, shift, 5, |five| BASE32[five])
}

/// Runs of base64 letters that are long enough to hide a credential; a run may continue over line ends.
pub(super) fn base64_runs(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, Vec<u8>)> + '_ {
    runs(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'), decode_base64)
}

/// The same for hexadecimal digits.
pub(super) fn hex_runs(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, Vec<u8>)> + '_ {
    runs(text, |byte| byte.is_ascii_hexdigit(), decode_hex)
}

fn runs<'a>(
    text: &'a str,
    is_letter: impl Fn(u8) -> bool + 'a,
    decode: fn(&[u8]) -> Vec<u8>,
) -> impl Iterator<Item = (std::ops::Range<usize>, Vec<u8>)> + 'a {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at + bytes[at..].iter().position(|byte| is_letter(*byte))?;
            let length = bytes[start..].iter().take_while(|byte| is_letter(**byte)).count();
            at = start + length;
            if (RUN_BYTES_MIN..=RUN_BYTES_MAX).contains(&length) {
                return Some((start..at, decode(&bytes[start..at])));
            }
        }
        None
    })
}

fn decode_base64(run: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(run.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in run {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    out
}

fn decode_hex(run: &[u8]) -> Vec<u8> {
    let pairs = run.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]));
    pairs.collect()
}

fn nibble(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hex;

    #[test]
    fn a_value_is_in_the_base64_of_any_text_around_it() {
        let run = "eHlzZWNyZXQtdmFsdWUtMTIzNDU2Nzg";
        let decoded = base64_runs(run).next().expect("a run").1;
        assert_eq!(decoded, b"xysecret-value-12345678");
        assert!(run.contains(&base64_inner(b"secret-value-12345678", 2)));
        assert_eq!(base64_inner(b"Man", 0), "TWFu");
        assert_eq!(base32_inner(b"hello", 0), "nbswy3dp");
        assert_eq!(hex_runs(&hex(b"twelve bytes")).next().expect("a run").1, b"twelve bytes");
    }
}

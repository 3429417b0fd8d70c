//! Amazon's frames (`application/vnd.amazon.eventstream`): lengths, a checksum, headers, a payload, a checksum. Bedrock puts
//! the document of an answer's event into the payload, in base64. Checksums are not compared: the agent's client does that,
//! and a wrong length shows itself.

use super::splitter::TEXT_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

/// Both lengths and their checksum.
const PRELUDE: usize = 12;
/// The checksum at the end.
const TRAILER: usize = 4;
/// A text that is no document, for bytes that are no frame.
const BROKEN: &[u8] = b"no frame";

/// Splits frames; holds the one that is incomplete.
#[derive(Debug, Default)]
pub(super) struct FrameSplitter {
    bytes: Vec<u8>,
    is_broken: bool,
}

impl FrameSplitter {
    /// Adds bytes and calls the closure with the document of every frame that ends in them.
    pub(super) fn push(&mut self, bytes: &[u8], hear: &mut impl FnMut(&[u8])) {
        if self.is_broken {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(total) = length_at(&self.bytes, at) {
            let headers = length_at(&self.bytes, at + 4).unwrap_or(0);
            if !(PRELUDE + TRAILER..=TEXT_MAX).contains(&total) || headers > total - PRELUDE - TRAILER {
                (self.bytes, self.is_broken) = (Vec::new(), true);
                return hear(BROKEN);
            }
            let Some(frame) = self.bytes.get(at..at + total).filter(|_| self.bytes.len() >= at + PRELUDE) else {
                break;
            };
            let payload = &frame[PRELUDE + headers..total - TRAILER];
            hear(&document(header(&frame[PRELUDE..PRELUDE + headers], b":exception-type"), payload));
            at += total;
        }
        self.bytes.drain(..at);
    }

    /// Ends the answer: a part of a frame is none.
    pub(super) fn finish(&mut self, hear: &mut impl FnMut(&[u8])) {
        if !self.bytes.is_empty() {
            hear(BROKEN);
        }
        self.bytes.clear();
    }
}

fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

/// The value of a header that is a text.
fn header<'h>(mut headers: &'h [u8], wanted: &[u8]) -> Option<&'h [u8]> {
    while let Some((&length, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (&kind, rest) = rest.split_first()?;
        let (size, rest) = match kind {
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            9 => (16, rest),
            6 | 7 => {
                let (two, rest) = rest.split_at_checked(2)?;
                (usize::from(u16::from_be_bytes([two[0], two[1]])), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(size)?;
        if name == wanted && kind == 7 {
            return Some(value);
        }
        headers = rest;
    }
    None
}

/// The document in a payload: that of an exception as an error, that of a part of an answer as its own bytes.
fn document(exception: Option<&[u8]>, payload: &[u8]) -> Vec<u8> {
    #[derive(Deserialize)]
    struct Wrapped {
        bytes: Option<String>,
        message: Option<String>,
    }
    let wrapped = serde_json::from_slice::<Wrapped>(payload).ok();
    if let Some(name) = exception {
        let message = wrapped.and_then(|wrapped| wrapped.message).unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        return json!({ "type": "error", "error": { "type": name, "message": message } }).to_string().into_bytes();
    }
    let inner = wrapped.and_then(|wrapped| wrapped.bytes).and_then(|text| STANDARD.decode(text).ok());
    inner.unwrap_or_else(|| payload.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with one header, without checksums.
    fn frame(name: &str, value: &str, payload: &str) -> Vec<u8> {
        let size = |length: usize| u32::try_from(length).expect("short").to_be_bytes();
        let mut headers = vec![u8::try_from(name.len()).expect("short")];
        headers.extend(name.bytes().chain([7]).chain(u16::try_from(value.len()).expect("short").to_be_bytes()));
        headers.extend(value.bytes());
        let total = PRELUDE + headers.len() + payload.len() + TRAILER;
        [&size(total)[..], &size(headers.len()), &[0; 4], &headers, payload.as_bytes(), &[0; 4]].concat()
    }

    fn heard(bytes: &[u8], part: usize) -> Vec<String> {
        let (mut splitter, mut heard) = (FrameSplitter::default(), Vec::new());
        let mut hear = |text: &[u8]| heard.push(String::from_utf8_lossy(text).into_owned());
        bytes.chunks(part).for_each(|part| splitter.push(part, &mut hear));
        splitter.finish(&mut hear);
        heard
    }

    #[test]
    fn documents_are_found_however_the_bytes_arrive() {
        let inner = r#"{"type":"message_stop"}"#;
        let chunk = format!("{{\"bytes\":\"{}\",\"p\":\"abc\"}}", STANDARD.encode(inner));
        let bytes = [
            frame(":event-type", "chunk", &chunk),
            frame(":event-type", "metadata", r#"{"usage":{"inputTokens":1}}"#),
            frame(":exception-type", "throttlingException", r#"{"message":"slow"}"#),
        ]
        .concat();
        let error = r#"{"type":"error","error":{"type":"throttlingException","message":"slow"}}"#;
        for part in [1, 7, 1000] {
            assert_eq!(heard(&bytes, part), [inner, r#"{"usage":{"inputTokens":1}}"#, error], "{part}");
        }
    }

    #[test]
    fn bytes_that_are_no_frames_are_named_once() {
        for bytes in [
            &b"HTTP/1.1 200 OK, and more"[..],
            &[0, 0, 0, 1, 0, 0, 0, 0],
            &[0, 0, 0, 20, 0, 0, 0, 9, 1],
            &[0xFF; 64],
            &[0, 0],
        ] {
            assert_eq!(heard(bytes, 3), ["no frame"], "{bytes:?}");
        }
        assert_eq!(heard(&frame(":event-type", "chunk", "{}")[..30], 4), ["no frame"]);
    }
}

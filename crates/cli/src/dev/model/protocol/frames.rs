//! Amazon's frames, in which Bedrock sends the events of a stream.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// The lengths of a frame, their checksum, and the one at the end.
const AROUND: usize = 16;

/// An event of a stream as a frame.
pub(in crate::dev::model) fn framed(event: &str) -> Vec<u8> {
    let document = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
    let payload = json!({ "bytes": STANDARD.encode(document), "p": "abcd" }).to_string();
    let headers: Vec<u8> =
        [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")]
            .into_iter()
            .flat_map(|(name, value)| header(name, value))
            .collect();
    let total = length(AROUND + headers.len() + payload.len());
    let mut frame = [total, length(headers.len())].concat();
    frame.extend(checksum(&frame));
    frame.extend(headers.iter().chain(payload.as_bytes()));
    frame.extend(checksum(&frame));
    frame
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

/// A header that is a text.
fn header(name: &str, value: &str) -> Vec<u8> {
    let size = u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut bytes = vec![u8::try_from(name.len()).unwrap_or(u8::MAX)];
    bytes.extend(name.bytes().chain([7]).chain(size).chain(value.bytes()));
    bytes
}

/// CRC-32 as of gzip.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step));
    (!sum).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926_u32.to_be_bytes());
    }
}

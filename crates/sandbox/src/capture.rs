//! The kept part of a stream: its head and its tail, in memory that does not grow with the output. The live view is an
//! [`OutputWatch`](crate::OutputWatch).

use std::collections::VecDeque;

/// The kept bytes of one output stream, exactly as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The first bytes of the stream.
    pub head: Vec<u8>,
    /// The last bytes of the stream that are not already in `head`.
    pub tail: Vec<u8>,
    /// The number of bytes of the stream.
    pub total: u64,
}

impl CapturedOutput {
    /// The number of bytes between head and tail that were not kept.
    pub fn omitted_bytes(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// Whether bytes were omitted.
    pub fn truncated(&self) -> bool {
        self.omitted_bytes() > 0
    }

    /// The whole stream, or `None` if bytes were omitted: for callers that parse, and must not parse a part.
    pub fn complete_bytes(&self) -> Option<Vec<u8>> {
        (!self.truncated()).then(|| [self.head.as_slice(), &self.tail].concat())
    }

    /// The kept text for people, with a line that shows the number of omitted bytes; invalid UTF-8 becomes U+FFFD.
    pub fn to_lossy_string(&self) -> String {
        if let Some(whole) = self.complete_bytes() {
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&self.tail);
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.omitted_bytes())
    }
}

/// Collects a stream into a `CapturedOutput` of bounded size.
pub(crate) struct OutputCapture {
    head: Vec<u8>,
    head_max: usize,
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
}

impl OutputCapture {
    pub(crate) fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head: Vec::new(), head_max, tail: VecDeque::new(), tail_max, total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.head_max - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.push_tail(rest);
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + bytes.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    pub(crate) fn finish(self) -> CapturedOutput {
        CapturedOutput { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(head: usize, tail: usize, chunks: &[&str]) -> CapturedOutput {
        let mut keeper = OutputCapture::new(head, tail);
        chunks.iter().for_each(|chunk| keeper.push(chunk.as_bytes()));
        keeper.finish()
    }

    #[test]
    fn short_stream_is_kept_whole_across_the_head_boundary() {
        let kept = keep(3, 3, &["ab", "cd", "ef"]);
        assert_eq!(kept.complete_bytes().as_deref(), Some(b"abcdef".as_slice()));
        assert_eq!(kept.to_lossy_string(), "abcdef");
    }

    #[test]
    fn character_split_by_the_head_boundary_is_shown_whole() {
        assert_eq!(keep(1, 10, &["é!"]).to_lossy_string(), "é!");
    }

    #[test]
    fn long_stream_keeps_head_and_tail_and_shows_the_number_of_omitted_bytes() {
        let kept = keep(2, 3, &["abcd", "efgh", "ijklmnop"]);
        assert_eq!((kept.head.as_slice(), kept.tail.as_slice()), (&b"ab"[..], &b"nop"[..]));
        assert_eq!(kept.complete_bytes(), None);
        assert_eq!(kept.to_lossy_string(), "ab\n[… 11 bytes left out …]\nnop");
    }

    #[test]
    fn capture_without_capacity_still_counts() {
        let kept = keep(0, 0, &["abc"]);
        assert_eq!((kept.total, kept.truncated()), (3, true));
    }
}

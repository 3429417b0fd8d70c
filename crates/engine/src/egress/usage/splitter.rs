//! Splits an answer into the texts of its documents: the data of each server-sent event, each frame of Amazon's, or the
//! whole body.

use super::frames::FrameSplitter;

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Server-sent events, whose data are documents.
    Events,
    /// One document, or one array of them.
    Document,
    /// Amazon's frames, whose payloads are documents.
    Frames,
}

/// Most bytes of one event, or of a whole document, that are stored. A longer one is skipped, so its usage is unclear.
pub(super) const TEXT_MAX: usize = 32 << 20;
const DATA: &[u8] = b"data:";
/// Some servers start a text with this mark of its encoding.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Splits the bytes of an answer; holds the text that is still incomplete.
#[derive(Debug)]
pub(super) struct DocumentSplitter {
    pub(super) form: Form,
    /// The data of the event, followed by the line that is being read.
    text: Vec<u8>,
    line_at: usize,
    is_too_long: bool,
    /// The last byte was a carriage return, which ends a line with or without a newline after it.
    is_after_return: bool,
    /// The first line was read.
    is_begun: bool,
    frames: FrameSplitter,
}

impl DocumentSplitter {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            text: Vec::new(),
            line_at: 0,
            is_too_long: false,
            is_after_return: false,
            is_begun: false,
            frames: FrameSplitter::default(),
        }
    }

    /// Adds bytes of the answer and calls the closure with every text that ends in them.
    pub(super) fn push(&mut self, mut bytes: &[u8], hear: &mut impl FnMut(&[u8])) {
        if self.form == Form::Frames {
            return self.frames.push(bytes, hear);
        }
        while self.form == Form::Events
            && let Some(end) = memchr::memchr2(b'\n', b'\r', bytes)
        {
            let is_rest_of_end = end == 0 && bytes[0] == b'\n' && self.is_after_return;
            self.is_after_return = bytes[end] == b'\r';
            if !is_rest_of_end {
                self.keep(&bytes[..end]);
                self.end_line(hear);
            }
            bytes = &bytes[end + 1..];
        }
        self.is_after_return &= bytes.is_empty();
        self.keep(bytes);
    }

    /// Ends the answer, and with it the last text.
    pub(super) fn finish(&mut self, hear: &mut impl FnMut(&[u8])) {
        match self.form {
            Form::Frames => self.frames.finish(hear),
            Form::Events => {
                self.end_line(hear);
                self.end_text(hear);
            }
            Form::Document => {
                self.line_at = self.text.len();
                self.end_text(hear);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.text.len() + bytes.len() > TEXT_MAX {
            self.is_too_long = true;
            (self.text, self.line_at) = (vec![b'x'], 0);
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, hear: &mut impl FnMut(&[u8])) {
        if !std::mem::replace(&mut self.is_begun, true) && self.text.starts_with(MARK) {
            self.text.drain(..MARK.len());
        }
        let line = &self.text[self.line_at..];
        if line.is_empty() {
            self.end_text(hear);
        } else if line.starts_with(DATA) {
            self.text.drain(self.line_at..self.line_at + DATA.len());
            self.text.push(b'\n');
            self.line_at = self.text.len();
        } else {
            self.text.truncate(self.line_at);
        }
    }

    fn end_text(&mut self, hear: &mut impl FnMut(&[u8])) {
        if !self.is_too_long && self.line_at > 0 {
            hear(&self.text[..self.line_at]);
        }
        let is_after_return = self.is_after_return;
        *self = Self { is_after_return, is_begun: true, ..Self::new(self.form) };
    }
}

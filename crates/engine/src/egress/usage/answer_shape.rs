//! Whether an answer is complete and in a known format, why its model stopped, and the error that it contains.

use super::document::Document;
use loopwright_core::provider::ExchangeEnd;

/// The number of bytes that are kept from the beginning of an answer, for the message of an error that is not JSON.
const HEAD_MAX: usize = 2 << 10;

/// The facts about an answer so far.
#[derive(Debug, Default)]
pub(super) struct AnswerShape {
    /// The provider refused the request, so the body is its message.
    pub(super) is_refused: bool,
    /// An HTML page came instead of an answer.
    pub(super) is_page: bool,
    /// The provider declares JSON or events; an answer of another type may have any format.
    pub(super) is_typed: bool,
    /// The reason for which the model stopped.
    pub(super) finish: Option<String>,
    /// The message of an error in the answer.
    pub(super) error: Option<String>,
    /// A protocol that marks its end was recognised, and its end.
    is_known: bool,
    has_end: bool,
    /// Some document could not be read.
    is_malformed: bool,
    head: Vec<u8>,
    bytes: u64,
}

impl AnswerShape {
    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let room = HEAD_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Adds a text that is not JSON.
    pub(super) fn add_malformed(&mut self) {
        self.is_malformed = true;
    }

    /// Adds a document.
    pub(super) fn add(&mut self, doc: &Document) {
        self.is_known |= doc.is_known;
        let ends = matches!(
            doc.kind.as_deref(),
            Some("message_stop" | "response.completed" | "response.incomplete" | "response.failed")
        );
        self.has_end |= ends || doc.finish.is_some();
        if doc.finish.is_some() {
            self.finish.clone_from(&doc.finish);
        }
        if doc.error.is_some() {
            self.error.clone_from(&doc.error);
        }
    }

    /// The protocol's end was received.
    pub(super) fn has_end(&self) -> bool {
        self.has_end || self.error.is_some()
    }

    /// The end of an answer whose body was received completely.
    pub(super) fn end(&self) -> ExchangeEnd {
        if self.is_page {
            ExchangeEnd::Page
        } else if self.is_refused {
            ExchangeEnd::Complete
        } else if self.bytes == 0 {
            ExchangeEnd::Empty
        } else if self.is_malformed && self.is_typed {
            ExchangeEnd::Malformed
        } else if self.is_known && !self.has_end() {
            ExchangeEnd::Cut
        } else {
            ExchangeEnd::Complete
        }
    }

    /// The provider's error message: the one in its document, or the beginning of a refusal in another format.
    pub(super) fn error_text(&self) -> String {
        let is_text = self.is_refused && !self.is_page;
        let head = || if is_text { String::from_utf8_lossy(&self.head).into_owned() } else { String::new() };
        self.error.clone().unwrap_or_else(head)
    }
}

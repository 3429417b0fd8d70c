//! Finds what a provider's answer says of its use in a stream of JSON, whatever its size: only the few values that matter are
//! kept, everything else is passed over. What stands in strings, such as a model's own words, is never taken for anything else.

use super::fields::{Fields, Odd};

/// Bytes that are kept of an object of usage; more is no usage.
const CAPTURE_MAX: usize = 16 << 10;
/// Bytes that are kept of a key or a name.
const TEXT_MAX: usize = 256;
/// Levels whose kind is remembered; nothing that matters lies deeper.
const LEVELS: u32 = 64;

/// What one document of an answer said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Doc {
    /// Its `type`.
    pub(super) kind: Option<String>,
    /// The model.
    pub(super) model: Option<String>,
    /// The tier of service that it was given at (OpenAI).
    pub(super) tier: Option<String>,
    /// Its usage.
    pub(super) usage: Option<Result<Fields, Odd>>,
    /// It tells of an error.
    pub(super) is_error: bool,
}

/// The keys that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Key {
    #[default]
    Other,
    Kind,
    Model,
    Usage,
    Tier,
    /// What providers wrap their answer in.
    Wrap,
    Error,
}

impl Key {
    fn of(text: &[u8]) -> Self {
        match text {
            b"type" => Self::Kind,
            b"model" | b"modelVersion" => Self::Model,
            b"usage" | b"usageMetadata" => Self::Usage,
            b"service_tier" => Self::Tier,
            b"message" | b"response" => Self::Wrap,
            b"error" => Self::Error,
            _ => Self::Other,
        }
    }
}

/// Where in the text the scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Between,
    Text,
    Escaped,
}

/// The scan of one stream of documents: objects one after another, or the objects of one array.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: u32,
    /// Which of the open levels are objects.
    objects: u64,
    /// The documents lie in an array.
    in_array: bool,
    mode: Mode,
    wants_key: bool,
    text_is_key: bool,
    key: Key,
    /// Inside what wraps the answer.
    wrapped: bool,
    /// The key or name that is being read; none when nobody wants it.
    text: Option<Vec<u8>>,
    /// The usage that is being read, and the level that it lies on.
    capture: Option<(u32, Vec<u8>)>,
    doc: Doc,
}

impl Scan {
    /// Reads more, and gives every document that ended.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut ended: impl FnMut(Doc)) {
        while let Some(&byte) = bytes.first() {
            let plain = if self.mode == Mode::Text { plain(bytes) } else { 0 };
            if plain > 0 {
                self.take(&bytes[..plain]);
                bytes = &bytes[plain..];
                continue;
            }
            if let Some((_, kept)) = &mut self.capture {
                push_bounded(kept, &[byte], CAPTURE_MAX + 1);
            }
            match self.mode {
                Mode::Between => self.between(byte, &mut ended),
                Mode::Text => self.in_text(byte),
                Mode::Escaped => {
                    self.spell(&[byte]);
                    self.mode = Mode::Text;
                }
            }
            bytes = &bytes[1..];
        }
    }

    /// What was said in a document that did not end.
    pub(super) fn rest(&mut self) -> Doc {
        std::mem::take(self).doc
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some((_, kept)) = &mut self.capture {
            push_bounded(kept, bytes, CAPTURE_MAX + 1);
        }
        self.spell(bytes);
    }

    fn spell(&mut self, bytes: &[u8]) {
        if let Some(text) = &mut self.text {
            push_bounded(text, bytes, TEXT_MAX + 1);
        }
    }

    fn in_text(&mut self, byte: u8) {
        match byte {
            b'\\' => {
                self.spell(b"\\");
                self.mode = Mode::Escaped;
            }
            _ => self.text_ended(),
        }
    }

    fn between(&mut self, byte: u8, ended: &mut impl FnMut(Doc)) {
        match byte {
            b'"' => self.text_begins(),
            b'{' => self.open(Level::Object),
            b'[' => self.open(Level::Array),
            b'}' | b']' => self.close(ended),
            b',' => self.wants_key = self.is_in_object(),
            b':' => self.wants_key = false,
            _ => (),
        }
    }

    /// The level of a document's own keys.
    fn top(&self) -> u32 {
        1 + u32::from(self.in_array)
    }

    fn is_in_object(&self) -> bool {
        (1..=LEVELS).contains(&self.depth) && self.objects >> (self.depth - 1) & 1 == 1
    }

    /// Whether keys of this level matter.
    fn matters(&self) -> bool {
        self.depth == self.top() || self.wrapped && self.depth == self.top() + 1
    }

    fn text_begins(&mut self) {
        self.mode = Mode::Text;
        self.text_is_key = self.wants_key;
        let is_wanted =
            if self.text_is_key { self.matters() } else { matches!(self.key, Key::Kind | Key::Model | Key::Tier) };
        self.text = is_wanted.then(Vec::new);
        if !self.text_is_key && self.key == Key::Error {
            self.doc.is_error = true;
        }
    }

    fn text_ended(&mut self) {
        self.mode = Mode::Between;
        let text = self.text.take();
        if self.text_is_key {
            self.key = text.map_or(Key::Other, |text| self.known(&text));
            return;
        }
        let value = text.filter(|text| text.len() <= TEXT_MAX).and_then(|text| String::from_utf8(text).ok());
        match self.key {
            Key::Kind => self.doc.kind = value.or(self.doc.kind.take()),
            Key::Model => self.doc.model = value.or(self.doc.model.take()),
            Key::Tier => self.doc.tier = value.or(self.doc.tier.take()),
            Key::Usage | Key::Wrap | Key::Error | Key::Other => (),
        }
        self.key = Key::Other;
    }

    /// Of what wraps the answer, only model and usage count: its `type` is not the document's, and its `error` may be null.
    fn known(&self, text: &[u8]) -> Key {
        match Key::of(text) {
            Key::Kind | Key::Wrap | Key::Error if self.depth > self.top() => Key::Other,
            key => key,
        }
    }

    fn open(&mut self, level: Level) {
        if self.depth == 0 {
            self.in_array = level == Level::Array;
        }
        let key = std::mem::take(&mut self.key);
        match (key, level) {
            (Key::Usage, Level::Object) if self.capture.is_none() => self.capture = Some((self.depth, b"{".to_vec())),
            (Key::Wrap, Level::Object) => self.wrapped = true,
            (Key::Error, Level::Object) => self.doc.is_error = true,
            (Key::Usage | Key::Wrap | Key::Error | Key::Kind | Key::Model | Key::Tier | Key::Other, _) => (),
        }
        if self.depth < LEVELS {
            let bit = 1 << self.depth;
            self.objects = if level == Level::Object { self.objects | bit } else { self.objects & !bit };
        }
        self.depth = self.depth.saturating_add(1);
        self.wants_key = level == Level::Object;
    }

    fn close(&mut self, ended: &mut impl FnMut(Doc)) {
        self.depth = self.depth.saturating_sub(1);
        self.wants_key = false;
        self.key = Key::Other;
        if let Some((_, kept)) = self.capture.take_if(|(level, _)| *level == self.depth) {
            self.doc.usage = Some(Fields::read(&kept[..kept.len().min(CAPTURE_MAX)]));
        }
        if self.depth <= self.top() {
            self.wrapped = false;
        }
        if self.depth == self.top() - 1 && self.doc != Doc::default() {
            ended(std::mem::take(&mut self.doc));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Array,
}

/// How many bytes of a text can be passed over at once.
fn plain(bytes: &[u8]) -> usize {
    memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())
}

fn push_bounded(kept: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

//! One answer of a provider as it passes through the proxy: the usage it reports, whether the report is complete, and
//! the record of the exchange.

use super::answer_shape::AnswerShape;
use super::document::{self, Document};
use super::fields::{ReadUsage, UsageFields};
use super::request_copy::RequestFacts;
use super::splitter::{DocumentSplitter, Form};
use super::tally::{RequestSlot, UsageTally};
use crate::egress::exchange_log::ExchangeRecorder;
use hyper::header::HeaderMap;
use loopwright_core::budget::{ModelTokens, Tokens};
use loopwright_core::provider::ExchangeEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of text per token, in the estimate for an answer without a usage report.
const TEXT_BYTES: u64 = 4;
/// The suffix for the name of a model that answered at a more expensive tier. The price is unknown, unless the price
/// table has the name with the suffix.
const DEARER: &str = "-fast";

/// The longest name of a model.
const MODEL_MAX: usize = 200;

/// Tiers that cost the price in the table, or less. Any other tier costs more or has an unknown price.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "standard", "flex", "batch"];

/// Events that precede the content of an answer.
const PRELUDES: [&str; 4] = ["response.created", "response.in_progress", "response.queued", "ping"];

/// The count of one request and its answer. If it is dropped before the usage report is complete, it counts as unclear.
#[derive(Debug)]
pub(crate) struct AnswerUsage {
    tally: UsageTally,
    /// Held until the usage report is complete.
    place: Option<RequestSlot>,
    splitter: DocumentSplitter,
    fields: Option<UsageFields>,
    /// The model that the request named; empty if it named none.
    requested: String,
    /// The provider's name and a slash, if its answers cost nothing: the prefix of the model's name in the count.
    prefix: String,
    /// Whether the provider that is asked costs nothing.
    is_free: bool,
    /// The model that the answer named.
    model: String,
    /// The count that the tally has for it.
    counted: Option<ModelTokens>,
    /// Usage comes in parts, and the last part is still missing.
    in_parts: bool,
    is_odd: bool,
    is_reported: bool,
    /// Content of the answer was received, not only its prelude.
    has_begun: bool,
    /// The answer came from a faster, more expensive tier.
    is_dear: bool,
    /// Bytes sent of the request, and bytes received of the answer.
    up: Arc<AtomicU64>,
    down: u64,
    /// Bytes of text that the model wrote.
    text: u64,
    /// The answer is complete.
    is_over: bool,
    shape: AnswerShape,
    recorder: ExchangeRecorder,
}

impl AnswerUsage {
    /// For a request that is about to be sent; `model` is the one that its path names, if any.
    pub(crate) fn new(place: RequestSlot, model: Option<&str>, recorder: ExchangeRecorder) -> Self {
        Self {
            shape: AnswerShape::default(),
            recorder,
            tally: place.tally.clone(),
            up: Arc::new(AtomicU64::new(place.bytes)),
            place: Some(place),
            splitter: DocumentSplitter::new(Form::Document),
            fields: None,
            requested: model.unwrap_or_default().chars().take(MODEL_MAX).collect(),
            prefix: String::new(),
            is_free: false,
            model: String::new(),
            counted: None,
            in_parts: false,
            is_odd: false,
            is_reported: false,
            has_begun: false,
            is_dear: false,
            down: 0,
            text: 0,
            is_over: false,
        }
    }

    /// The same for a provider whose answers cost nothing. Its models are named `PROVIDER/MODEL` on record; that they cost
    /// nothing follows from the provider alone.
    pub(crate) fn of_unmetered(mut self, provider: &str) -> Self {
        self.prefix = format!("{provider}/");
        self.is_free = true;
        self
    }

    /// Adds the facts of the request's body. A model in the path of the request stays, if the body names none.
    pub(crate) fn set_request(&mut self, facts: RequestFacts) {
        if let Some(model) = facts.model {
            self.requested = model.chars().take(MODEL_MAX).collect();
        }
        self.recorder.update(|exchange| {
            exchange.has_tools = facts.has_tools;
            exchange.asked_model.clone_from(&self.requested);
        });
    }

    /// The head of the answer was received.
    pub(crate) fn head(&self, status: u16, headers: &HeaderMap) {
        self.recorder.head(status, headers);
    }

    /// The provider declares a format that can be read.
    pub(crate) fn mark_typed(&mut self) {
        self.shape.is_typed = true;
    }

    /// The answer is an HTML page.
    pub(crate) fn mark_page(&mut self) {
        self.shape.is_page = true;
    }

    /// The model whose price counts: the one that was requested, or the one that answered.
    fn charged_model(&self) -> String {
        let model = if self.requested.is_empty() { &self.model } else { &self.requested };
        format!("{}{}", self.prefix, model)
    }

    /// The counter of the request's sent bytes, which the sender updates: a request without a declared length may be
    /// long.
    pub(crate) fn sent_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.up)
    }

    /// The provider refused the request, which costs nothing. The body is its message.
    pub(crate) fn mark_refused(&mut self) {
        self.shape.is_refused = true;
        self.is_reported = true;
        self.place = None;
        self.tally.count_refused();
    }

    /// Starts the answer.
    pub(crate) fn begin(&mut self, form: Form) {
        self.splitter = DocumentSplitter::new(form);
    }

    /// Adds received bytes of the answer.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.down == 0 && !self.shape.is_typed && starts_events(bytes) {
            // A server that forgot to name the type.
            self.splitter = DocumentSplitter::new(Form::Events);
        }
        self.down = self.down.saturating_add(bytes.len() as u64);
        self.recorder.received(bytes.len() as u64);
        self.shape.push(bytes);
        let mut documents = Vec::new();
        self.splitter.push(bytes, &mut |text| documents.push(document::read(text)));
        documents.into_iter().for_each(|documents| self.add_documents(documents));
    }

    fn add_documents(&mut self, documents: Option<Vec<Document>>) {
        match documents {
            Some(documents) => documents.into_iter().for_each(|document| self.add_document(document)),
            None => self.shape.add_malformed(),
        }
    }

    /// Ends the answer: all of it was received.
    pub(crate) fn finish(&mut self) {
        self.is_over = true;
        let mut documents = Vec::new();
        self.splitter.finish(&mut |text| documents.push(document::read(text)));
        documents.into_iter().for_each(|documents| self.add_documents(documents));
        if self.fields.is_some() && !self.in_parts && !self.shape.is_refused {
            self.mark_reported();
        }
        self.close(self.shape.end());
    }

    /// The answer was interrupted, or never came. An answer whose protocol had ended is complete nevertheless.
    pub(crate) fn interrupt(&mut self, end: ExchangeEnd) {
        self.close(if self.shape.has_end() { ExchangeEnd::Complete } else { end });
    }

    /// Whether a byte of the answer was received.
    pub(crate) fn has_bytes(&self) -> bool {
        self.down > 0
    }

    /// Completes the record of the exchange.
    fn close(&mut self, end: ExchangeEnd) {
        self.recorder.update(|exchange| {
            exchange.answered_model.clone_from(&self.model);
            exchange.finish.clone_from(&self.shape.finish);
            exchange.usage = self.fields.map(UsageFields::tokens);
            exchange.sent_bytes = self.up.load(Ordering::Relaxed);
            exchange.set_error(&self.shape.error_text());
        });
        self.recorder.end(end);
    }

    fn add_document(&mut self, doc: Document) {
        self.shape.add(&doc);
        if self.shape.is_refused {
            return;
        }
        if let Some(model) = doc.model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        // Events of OpenAI's Responses repeat the whole text after its parts.
        let repeats =
            doc.kind.as_deref().is_some_and(|kind| kind.starts_with("response.") && !kind.ends_with(".delta"));
        self.text = self.text.saturating_add(if repeats { 0 } else { doc.text });
        self.is_dear |= doc.tier.is_some_and(|tier| !USUAL_TIERS.contains(&tier.as_str()));
        let has_usage = doc.usage.is_some();
        match doc.usage {
            Some(ReadUsage::Figures(fields)) => {
                self.is_dear |= fields.is_fast;
                self.fields = Some(self.fields.unwrap_or_default().max_by_figure(fields));
            }
            Some(ReadUsage::Odd) => self.is_odd = true,
            None => (),
        }
        self.count();
        // Every part of the answer reports the usage so far, so only the end of the answer completes the report.
        let is_running = self.fields.is_some_and(|fields| fields.is_running);
        match doc.kind.as_deref() {
            Some("message_start") => self.in_parts = true,
            Some("message_delta") if has_usage => self.mark_reported(),
            Some("response.completed" | "response.incomplete") if has_usage => self.mark_reported(),
            Some("error" | "response.failed") => self.failed(),
            // Chat completions have no type, and report their usage once, at their end.
            None if has_usage && self.splitter.form != Form::Document && !is_running => self.mark_reported(),
            Some(_) | None if doc.is_error => self.failed(),
            Some(kind) => self.has_begun |= !PRELUDES.contains(&kind),
            None => self.has_begun = true,
        }
    }

    /// An error instead of an answer costs the usage reported before it. An answer that was interrupted without a usage
    /// report may have cost anything.
    fn failed(&mut self) {
        if self.fields.is_some() || !self.has_begun {
            self.mark_reported();
        }
    }

    fn count(&mut self) {
        let Some(fields) = self.fields else { return };
        let model = self.charged_model();
        let model = if self.is_dear { format!("{model}{DEARER}") } else { model };
        let now = ModelTokens { model, tokens: fields.tokens(), is_free: self.is_free };
        if self.counted.as_ref() != Some(&now) {
            self.tally.count(self.counted.as_ref(), &now);
            self.counted = Some(now);
        }
    }

    /// The provider's usage report is complete. Only complete answers are checked against the ceilings: the cost of an
    /// interrupted one would be unknown.
    fn mark_reported(&mut self) {
        if self.is_odd {
            return;
        }
        if !self.is_reported {
            self.is_reported = true;
            self.tally.count_reported();
            self.place = None;
        }
        self.tally.judge();
    }
}

/// Whether the first bytes of an answer are those of a stream of events.
fn starts_events(bytes: &[u8]) -> bool {
    [&b"data:"[..], b"event:", b": "].iter().any(|start| bytes.starts_with(start))
}

impl Drop for AnswerUsage {
    fn drop(&mut self) {
        self.interrupt(ExchangeEnd::Left);
        if !self.is_reported && self.is_over && self.down == 0 {
            // Nothing was served.
            self.tally.count_refused();
        } else if !self.is_reported {
            // An unknown format counts with all its bytes.
            let is_known = self.has_begun || self.fields.is_some() || self.text > 0;
            let output = if is_known { self.text } else { self.down }.div_ceil(TEXT_BYTES);
            let input = self.up.load(Ordering::Relaxed) / TEXT_BYTES;
            let guess = Tokens { input, output, ..Tokens::default() };
            // The reported part is already counted.
            let reported = self.counted.as_ref().map(|used| used.tokens).unwrap_or_default();
            let guess = guess.less(Tokens { input: reported.input.saturating_add(reported.cache_read), ..reported });
            let guess = ModelTokens { model: self.charged_model(), tokens: guess, is_free: self.is_free };
            self.tally.count_unclear(&guess);
            self.tally.judge();
        }
    }
}

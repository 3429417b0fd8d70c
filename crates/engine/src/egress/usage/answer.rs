//! One answer of a provider as it passes through the proxy: the usage it reports, and whether the report is complete.

use super::document::{self, Document};
use super::fields::UsageFields;
use super::splitter::{DocumentSplitter, Form};
use super::tally::{RequestSlot, TOKEN_BYTES, UsageTally};
use loopwright_core::budget::Tokens;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The least that an answer without a usage report counts as, in tokens. Usage that is reported later, or elsewhere,
/// counts against the ceilings too.
const GUESS_MIN: u64 = 1_000;
/// The suffix for the name of a model that answered at a more expensive tier. The price is unknown, unless the price
/// table has the name with the suffix.
const DEARER: &str = "-fast";

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
    model: String,
    /// The count that the tally has for it, and its model.
    counted: Option<(String, Tokens)>,
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
}

impl AnswerUsage {
    /// For a request that is about to be sent; `model` is the one that its path names, if any.
    pub(crate) fn new(place: RequestSlot, model: Option<&str>) -> Self {
        Self {
            tally: place.tally.clone(),
            up: Arc::new(AtomicU64::new(place.bytes)),
            place: Some(place),
            splitter: DocumentSplitter::new(Form::Document),
            fields: None,
            model: model.unwrap_or_default().chars().take(200).collect(),
            counted: None,
            in_parts: false,
            is_odd: false,
            is_reported: false,
            has_begun: false,
            is_dear: false,
            down: 0,
        }
    }

    /// The counter of the request's sent bytes, which the sender updates: a request without a declared length may be
    /// long.
    pub(crate) fn sent_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.up)
    }

    /// The provider refused the request, which costs nothing.
    pub(crate) fn mark_refused(mut self) {
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
        self.down = self.down.saturating_add(bytes.len() as u64);
        let mut documents = Vec::new();
        self.splitter.push(bytes, &mut |text| documents.extend(document::read(text)));
        documents.into_iter().for_each(|document| self.add_document(document));
    }

    /// Ends the answer: all of it was received.
    pub(crate) fn finish(&mut self) {
        let mut documents = Vec::new();
        self.splitter.finish(&mut |text| documents.extend(document::read(text)));
        documents.into_iter().for_each(|document| self.add_document(document));
        if self.fields.is_some() && !self.in_parts {
            self.mark_reported();
        }
    }

    fn add_document(&mut self, doc: Document) {
        if let Some(model) = doc.model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        self.is_dear |= doc.tier.is_some_and(|tier| !USUAL_TIERS.contains(&tier.as_str()));
        let has_usage = doc.usage.is_some();
        match doc.usage {
            Some(Some(fields)) => {
                self.is_dear |= fields.is_fast;
                self.fields = Some(self.fields.unwrap_or_default().max_by_figure(fields));
            }
            Some(None) => self.is_odd = true,
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
            None if has_usage && self.splitter.form == Form::Events && !is_running => self.mark_reported(),
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
        let model = if self.is_dear { format!("{}{DEARER}", self.model) } else { self.model.clone() };
        let now = (model, fields.tokens());
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

impl Drop for AnswerUsage {
    fn drop(&mut self) {
        if !self.is_reported {
            let output = (self.down / TOKEN_BYTES).max(GUESS_MIN);
            let input = self.up.load(Ordering::Relaxed) / TOKEN_BYTES;
            let guess = Tokens { input, output, ..Tokens::default() };
            // The reported part is already counted.
            let reported = self.counted.as_ref().map(|(_, tokens)| *tokens).unwrap_or_default();
            let guess = guess.less(Tokens { input: reported.input.saturating_add(reported.cache_read), ..reported });
            self.tally.count_unclear(&self.model, guess);
            self.tally.judge();
        }
    }
}

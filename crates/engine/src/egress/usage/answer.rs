//! One answer of a provider on its way through the proxy: what it tells of its use, and whether it told all of it.

use super::document::{self, Document};
use super::fields::UsageFields;
use super::splitter::{DocumentSplitter, Form};
use super::tally::{RequestSlot, TOKEN_BYTES, UsageTally};
use loopwright_core::budget::Tokens;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The least that an answer counts as which does not say what it cost, in tokens: also what is told later, or elsewhere, is
/// held against the ceilings.
const GUESS_MIN: u64 = 1_000;
/// What is put behind the name of a model that answered at a dearer tier: nobody knows that price, unless somebody wrote it
/// down for the whole name.
const DEARER: &str = "-fast";

/// Tiers that cost what the table says, or less. What a provider calls otherwise costs more, or nobody knows.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "standard", "flex", "batch"];

/// Events that come before anything of the answer does.
const PRELUDES: [&str; 4] = ["response.created", "response.in_progress", "response.queued", "ping"];

/// The count of one request and its answer. One that goes before all was told counts as unclear.
#[derive(Debug)]
pub(crate) struct AnswerUsage {
    tally: UsageTally,
    /// Until all was told.
    place: Option<RequestSlot>,
    splitter: DocumentSplitter,
    fields: Option<UsageFields>,
    model: String,
    /// What the tally has of it, and for which model.
    counted: Option<(String, Tokens)>,
    /// Usage comes in parts, of which the last has not come.
    in_parts: bool,
    is_odd: bool,
    is_reported: bool,
    /// Something of the answer itself came, and not only that it begins.
    has_begun: bool,
    /// It was given faster than usual, for more money.
    is_dear: bool,
    /// Bytes of the request, as far as it was sent, and of the answer so far.
    up: Arc<AtomicU64>,
    down: u64,
}

impl AnswerUsage {
    /// For a request that is about to be sent; the model is the one of its path, where there is one.
    pub(crate) fn new(place: RequestSlot, model: Option<&str>) -> Self {
        Self {
            tally: place.tally(),
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

    /// What of the request was sent, to be kept by whoever sends it: one that does not say how long it is may be long.
    pub(crate) fn sent_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.up)
    }

    /// The provider did not take the request: that costs nothing.
    pub(crate) fn mark_refused(mut self) {
        self.is_reported = true;
        self.place = None;
        self.tally.count_refused();
    }

    /// The answer begins.
    pub(crate) fn begin(&mut self, form: Form) {
        self.splitter = DocumentSplitter::new(form);
    }

    /// More of it came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.down = self.down.saturating_add(bytes.len() as u64);
        let mut documents = Vec::new();
        self.splitter.push(bytes, &mut |text| documents.extend(document::read(text)));
        documents.into_iter().for_each(|document| self.add_document(document));
    }

    /// All of it came.
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
            Some(Ok(fields)) => {
                self.is_dear |= fields.is_fast();
                self.fields = Some(self.fields.unwrap_or_default().max_by_figure(fields));
            }
            Some(Err(_)) => self.is_odd = true,
            None => (),
        }
        self.count();
        match doc.kind.as_deref() {
            Some("message_start") => self.in_parts = true,
            Some("message_delta") if has_usage => self.mark_reported(),
            Some("response.completed" | "response.incomplete") if has_usage => self.mark_reported(),
            Some("error" | "response.failed") => self.failed(),
            // Chat completions have no type, and tell their use once, at their end.
            None if has_usage && self.splitter.form() == Form::Events && !self.is_running() => self.mark_reported(),
            Some(_) | None if doc.is_error => self.failed(),
            Some(kind) => self.has_begun |= !PRELUDES.contains(&kind),
            None => self.has_begun = true,
        }
    }

    /// An error in the place of an answer costs what was told before it; an answer that broke off without a word of its use
    /// may have cost anything.
    fn failed(&mut self) {
        if self.fields.is_some() || !self.has_begun {
            self.mark_reported();
        }
    }

    /// Whether the use is told in every part of the answer, so that only its end is the last.
    fn is_running(&self) -> bool {
        self.fields.is_some_and(UsageFields::is_running)
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

    /// The provider has said all that it says of this answer's use. Ceilings are held against whole answers: of one that is
    /// cut off nobody would know what it cost.
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
            // What it did tell is counted already.
            let told = self.counted.as_ref().map(|(_, tokens)| *tokens).unwrap_or_default();
            let guess = guess.less(Tokens { input: told.input.saturating_add(told.cache_read), ..told });
            self.tally.count_unclear(&self.model, guess);
            self.tally.judge();
        }
    }
}

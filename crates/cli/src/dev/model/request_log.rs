//! The server's record of its requests: one JSON line each in a file, and the tokens it reported, by model.

use super::model_request::ModelRequest;
use super::scenario::TurnFaultKind;
use super::scenario_player::ChosenAnswer;
use hyper::HeaderMap;
use loopwright::clock::{Clock as _, SystemClock};
use loopwright_core::budget::Tokens;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;

/// The most models that are counted separately; a client may name any.
const MODELS_MAX: usize = 1000;

/// The request log and the counter.
#[derive(Debug)]
pub(super) struct RequestLog {
    file: Option<Mutex<File>>,
    counter: Mutex<UsageCounter>,
}

/// The usage reported so far. `models` has everything, `side` the part that answered an agent's own helper calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct UsageCounter {
    schema: u32,
    requests: u64,
    errors: u64,
    models: BTreeMap<String, Total>,
    side: BTreeMap<String, Total>,
}

/// The totals of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Total {
    answers: u64,
    #[serde(flatten)]
    usage: Tokens,
}

/// A request as it is logged.
pub(super) struct LoggedRequest<'r> {
    pub(super) method: &'r str,
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: &'r [u8],
}

impl RequestLog {
    /// Opens the log for appending, if there is one.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path).map(Mutex::new);
        let counter = UsageCounter { schema: 1, ..UsageCounter::default() };
        Ok(Self { file: path.map(open).transpose()?, counter: Mutex::new(counter) })
    }

    /// Logs a request that the model answers.
    pub(super) fn log_answer(&self, seen: &LoggedRequest<'_>, asked: &ModelRequest, chosen: &ChosenAnswer) {
        let (model, usage) = (asked.model.as_str(), chosen.usage(asked));
        let status = if let Some(TurnFaultKind::Error(fault)) = &chosen.fault { fault.status } else { 200 };
        if let Ok(mut counter) = self.counter.lock() {
            counter.add(model, chosen, usage);
        }
        self.write(seen, json!({
            "number": chosen.number, "model": model, "block": chosen.block, "step": chosen.step, "line": chosen.line,
            "turn": chosen.word, "side": chosen.side, "status": status, "usage": usage,
        }));
    }

    /// Logs any other request.
    pub(super) fn log_other(&self, seen: &LoggedRequest<'_>, status: u16) {
        self.write(seen, json!({ "status": status }));
    }

    /// The counter as JSON.
    pub(super) fn counter_json(&self) -> Value {
        let counter = self.counter.lock().map(|counter| counter.clone()).unwrap_or_default();
        serde_json::to_value(counter).unwrap_or_default()
    }

    /// One write for each line, so that lines of parallel requests do not mix.
    fn write(&self, seen: &LoggedRequest<'_>, answer: Value) {
        let Some(mut file) = self.file.as_ref().and_then(|file| file.lock().ok()) else { return };
        let body = serde_json::from_slice(seen.body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(seen.body).into_owned()));
        let line = json!({
            "at_ms": SystemClock.now_ms(), "method": seen.method, "path": seen.path,
            "headers": headers(seen.headers), "body": body, "answer": answer,
        });
        // A log that cannot be written is noticed at once: tests read it, and people see it stay empty.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

impl UsageCounter {
    fn add(&mut self, model: &str, chosen: &ChosenAnswer, usage: Option<Tokens>) {
        self.requests += 1;
        if chosen.fault.is_some() {
            self.errors += 1;
        }
        let Some(usage) = usage else { return };
        put(&mut self.models, model, usage);
        if chosen.side {
            put(&mut self.side, model, usage);
        }
    }
}

fn put(models: &mut BTreeMap<String, Total>, model: &str, usage: Tokens) {
    let known = models.contains_key(model) || models.len() < MODELS_MAX;
    let total = models.entry(if known { model } else { "(more)" }.to_owned()).or_default();
    total.answers += 1;
    total.usage = total.usage.plus(usage);
}

fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let one = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.as_str().to_owned(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
    };
    headers.iter().map(one).collect()
}

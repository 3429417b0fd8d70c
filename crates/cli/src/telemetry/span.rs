//! Spans and attributes in the JSON form of the protocol: numbers of 64 bits are texts.

use serde_json::{Value, json};

/// The longest text of an attribute, in bytes.
const TEXT_MAX: usize = 400;

/// The facts of a span or of a point.
#[derive(Default)]
pub(super) struct Attributes(Vec<Value>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, text: &str) {
        let text = text.get(..text.floor_char_boundary(TEXT_MAX)).unwrap_or_default();
        self.0.push(json!({"key": key, "value": {"stringValue": text}}));
    }

    pub(super) fn whole(&mut self, key: &str, number: i64) {
        self.0.push(json!({"key": key, "value": {"intValue": number.to_string()}}));
    }

    pub(super) fn number(&mut self, key: &str, number: f64) {
        self.0.push(json!({"key": key, "value": {"doubleValue": number}}));
    }

    pub(super) fn into_list(self) -> Value {
        Value::Array(self.0)
    }
}

/// A moment in nanoseconds, as text.
pub(super) fn nanos(ms: i64) -> String {
    (i128::from(ms) * 1_000_000).to_string()
}

/// One span.
pub(super) struct TraceSpan(Value);

/// The protocol's numbers for a span within a program, and for the two results.
const INTERNAL: u8 = 1;
const STATUS_UNSET: u8 = 0;
const STATUS_ERROR: u8 = 2;

impl TraceSpan {
    pub(super) fn new(trace: &str, id: &str, parent: Option<&str>, name: &str, (from, to): (i64, i64)) -> Self {
        let mut span = json!({
            "traceId": trace,
            "spanId": id,
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": nanos(from),
            "endTimeUnixNano": nanos(to.max(from)),
            "status": {"code": STATUS_UNSET},
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = json!(parent);
        }
        Self(span)
    }

    pub(super) fn with(mut self, about: Attributes) -> Self {
        self.0["attributes"] = about.into_list();
        self
    }

    pub(super) fn failed(mut self, why: &str) -> Self {
        self.0["status"] = json!({"code": STATUS_ERROR, "message": why});
        self
    }

    pub(super) fn into_json(self) -> Value {
        self.0
    }
}

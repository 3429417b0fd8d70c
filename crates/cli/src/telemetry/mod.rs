//! OpenTelemetry: the trace and the metrics of a round that ended, as documents of the protocol in JSON, from the round's
//! record. This module sends nothing. Names are those of the semantic conventions for generative AI, where there is one.

mod metrics;
mod span;

use crate::view::stages::stage_parts;
use loopwright::store::RoundRow;
use loopwright_core::hash::hash_fields;
use loopwright_core::outcome::RoundOutcome;
use metrics::round_metrics;
use serde_json::{Value, json};
use span::{Attributes, TraceSpan};

/// The name and the version of the program, in each document.
const SERVICE: &str = "loopwright";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most spans of one trace; a round with more has the first ones.
const SPANS_MAX: usize = 1_000;

/// An agent that ran: what the record has about it.
struct AgentRun {
    role: String,
    agent: String,
    model: Option<String>,
    from_ms: i64,
    to_ms: i64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read: u64,
    usd: f64,
    error: Option<String>,
}

/// The two documents of a round.
pub(crate) struct RoundTelemetry {
    pub(crate) traces: Value,
    pub(crate) metrics: Value,
}

impl RoundTelemetry {
    /// Reads the events of a round; each has `at_ms`, `kind` and `body`.
    pub(crate) fn of_round(row: &RoundRow, events: &[Value]) -> Self {
        let runs = agent_runs(events);
        let traces = traces(row, events, &runs);
        Self { traces, metrics: resource("Metrics", "metrics", round_metrics(row, &runs)) }
    }
}

/// A document of one kind: the program, and its spans or metrics.
fn resource(kind: &str, name: &str, entries: Vec<Value>) -> Value {
    let mut about = Attributes::default();
    about.text("service.name", SERVICE);
    about.text("service.version", VERSION);
    let scope = json!({"scope": {"name": SERVICE, "version": VERSION}, name: entries});
    json!({
        format!("resource{kind}"): [{"resource": {"attributes": about.into_list()}, format!("scope{kind}"): [scope]}]
    })
}

/// One trace: the round, below it its stages, and below these the starts of agents.
fn traces(row: &RoundRow, events: &[Value], runs: &[AgentRun]) -> Value {
    let trace = hash_fields(&[b"trace", row.id.as_bytes()]);
    let trace = trace.get(..32).unwrap_or_default();
    let root = span_id(&row.id, "round", 0);
    let mut spans = vec![round_span(row, trace, &root)];
    let parts = stage_parts(events);
    for (place, part) in parts.iter().enumerate() {
        let mut about = Attributes::default();
        about.text("loopwright.stage", part.stage);
        let id = span_id(&row.id, "stage", place);
        let times = (part.from_ms, part.from_ms.saturating_add(part.ms));
        spans.push(TraceSpan::new(trace, &id, Some(&root), part.stage, times).with(about));
    }
    for (place, run) in runs.iter().enumerate() {
        let stage = parts.iter().position(|part| {
            part.from_ms <= run.from_ms
                && run.from_ms <= part.from_ms.saturating_add(part.ms)
                && part.has_role(&run.role)
        });
        let parent = stage.map_or_else(|| root.clone(), |stage| span_id(&row.id, "stage", stage));
        spans.push(agent_span(run, trace, &span_id(&row.id, "agent", place), &parent));
    }
    spans.truncate(SPANS_MAX);
    resource("Spans", "spans", spans.into_iter().map(TraceSpan::into_json).collect())
}

fn span_id(round: &str, kind: &str, place: usize) -> String {
    let hash = hash_fields(&[b"span", round.as_bytes(), kind.as_bytes(), &place.to_le_bytes()]);
    hash.get(..16).unwrap_or_default().to_owned()
}

fn round_span(row: &RoundRow, trace: &str, id: &str) -> TraceSpan {
    let mut about = Attributes::default();
    about.text("gen_ai.operation.name", "invoke_workflow");
    about.text("gen_ai.workflow.name", &row.loop_name);
    about.text("loopwright.round", &row.id);
    about.text("loopwright.repository", &row.repo);
    about.text("loopwright.level", row.level.short());
    about.text("loopwright.trigger", &row.trigger);
    if let Some(outcome) = row.outcome {
        about.text("loopwright.outcome", outcome.word());
    }
    about.whole("loopwright.tokens", row.spend_tokens);
    about.number("loopwright.cost_usd", dollars(row.spend_micros));
    let times = (row.started_ms, row.ended_ms.unwrap_or(row.started_ms));
    let span = TraceSpan::new(trace, id, None, &format!("invoke_workflow {}", row.loop_name), times).with(about);
    match row.outcome {
        Some(RoundOutcome::Failed | RoundOutcome::Interrupted) => span.failed(&row.summary),
        _ => span,
    }
}

fn agent_span(run: &AgentRun, trace: &str, id: &str, parent: &str) -> TraceSpan {
    let mut about = run.about();
    about.text("loopwright.role", &run.role);
    about.whole("gen_ai.usage.input_tokens", i64::try_from(run.input_tokens).unwrap_or(i64::MAX));
    about.whole("gen_ai.usage.output_tokens", i64::try_from(run.output_tokens).unwrap_or(i64::MAX));
    about.whole("gen_ai.usage.cache_read.input_tokens", i64::try_from(run.cache_read).unwrap_or(i64::MAX));
    about.number("loopwright.cost_usd", run.usd);
    let name = format!("invoke_agent {}", run.agent);
    let span = TraceSpan::new(trace, id, Some(parent), &name, (run.from_ms, run.to_ms));
    match &run.error {
        Some(error) => {
            about.text("error.type", error);
            span.with(about).failed(error)
        }
        None => span.with(about),
    }
}

impl AgentRun {
    /// The attributes that spans and metrics share.
    fn about(&self) -> Attributes {
        let mut about = Attributes::default();
        about.text("gen_ai.operation.name", "invoke_agent");
        about.text("gen_ai.agent.name", &self.agent);
        about.text("gen_ai.provider.name", provider(&self.agent));
        if let Some(model) = &self.model {
            about.text("gen_ai.request.model", model);
        }
        about
    }
}

/// The provider that an agent's own program belongs to; other agents are named themselves.
fn provider(agent: &str) -> &str {
    match agent {
        "claude" => "anthropic",
        "codex" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of money in millionths fits")]
fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// The starts of agents with their ends, joined by the cookie of their process tree.
fn agent_runs(events: &[Value]) -> Vec<AgentRun> {
    let text = |body: &Value, key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = |event: &Value, kind: &str| event.get("kind").and_then(Value::as_str) == Some(kind);
    let at = |event: &Value| event.get("at_ms").and_then(Value::as_i64).unwrap_or_default();
    let mut runs = Vec::new();
    for (place, start) in events.iter().enumerate().filter(|(_, event)| kind(event, "role-started")) {
        let body = &start["body"];
        let (role, cookie) = (text(body, "role").unwrap_or_default(), text(body, "cookie"));
        let is_its_end = |event: &&Value| {
            kind(event, "role-ended")
                && text(&event["body"], "role").as_deref() == Some(&role)
                && (event["body"]["cookie"].is_null() || text(&event["body"], "cookie") == cookie)
        };
        // An agent without an end died with its engine.
        let Some(end) = events.get(place..).unwrap_or_default().iter().find(is_its_end) else { continue };
        let spend = &end["body"]["spend"];
        let tokens = |kind: &str| spend["tokens"][kind].as_u64().unwrap_or_default();
        // The conventions count cached input as input.
        let input = tokens("input").saturating_add(tokens("cache_read")).saturating_add(tokens("cache_write"));
        runs.push(AgentRun {
            role,
            agent: text(body, "agent").unwrap_or_default(),
            model: text(body, "model"),
            from_ms: at(start),
            to_ms: at(end),
            input_tokens: input,
            output_tokens: tokens("output"),
            cache_read: tokens("cache_read"),
            usd: spend["usd"].as_f64().unwrap_or_default(),
            error: end_error(&end["body"]["end"]),
        });
    }
    runs
}

/// The kind of a bad end; `None` if the agent exited with success.
fn end_error(end: &Value) -> Option<String> {
    match (end["end"].as_str(), end["code"].as_i64()) {
        (Some("exited"), Some(0)) | (None, _) => None,
        (Some(word), _) => Some(word.to_owned()),
    }
}

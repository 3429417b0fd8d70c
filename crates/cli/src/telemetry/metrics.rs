//! The metrics of a round that ended. Each document has only what this round adds (delta temporality), so that nothing has
//! to be kept or sent between rounds.

use super::span::{Attributes, nanos};
use super::{AgentRun, dollars};
use loopwright::store::RoundRow;
use loopwright_core::outcome::RoundOutcome;
use serde_json::{Value, json};

/// The protocol's number for values since the last document.
const DELTA: u8 = 1;

/// The bounds that the conventions name for tokens and for seconds.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECOND_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// All metrics of a round.
pub(super) fn round_metrics(row: &RoundRow, runs: &[AgentRun]) -> Vec<Value> {
    let times = (nanos(row.started_ms), nanos(row.ended_ms.unwrap_or(row.started_ms)));
    let mut about = Attributes::default();
    about.text("loopwright.loop", &row.loop_name);
    about.text("loopwright.outcome", row.outcome.map_or("open", RoundOutcome::word));
    let about = about.into_list();
    let sum = |name: &str, unit: &str, text: &str, mut point: Value| {
        (point["attributes"], point["startTimeUnixNano"], point["timeUnixNano"]) =
            (about.clone(), json!(times.0), json!(times.1));
        let data = json!({"aggregationTemporality": DELTA, "isMonotonic": true, "dataPoints": [point]});
        json!({"name": name, "unit": unit, "description": text, "sum": data})
    };
    let mut metrics = vec![
        sum("loopwright.rounds", "{round}", "Rounds that ended.", json!({"asInt": "1"})),
        sum("loopwright.cost", "USD", "Money that rounds cost.", json!({"asDouble": dollars(row.spend_micros)})),
    ];
    if !runs.is_empty() {
        let text = "Tokens that an agent used.";
        metrics.push(histogram("gen_ai.client.token.usage", "{token}", text, token_points(runs, &times)));
        let points = runs.iter().map(|run| duration_point(run, &times)).collect();
        metrics.push(histogram("gen_ai.client.operation.duration", "s", "How long an agent ran.", points));
    }
    metrics
}

fn histogram(name: &str, unit: &str, text: &str, points: Vec<Value>) -> Value {
    let data = json!({"aggregationTemporality": DELTA, "dataPoints": points});
    json!({"name": name, "unit": unit, "description": text, "histogram": data})
}

#[expect(clippy::cast_precision_loss, reason = "a count of tokens fits")]
fn token_points(runs: &[AgentRun], times: &(String, String)) -> Vec<Value> {
    let kinds = |run: &AgentRun| [("input", run.input_tokens as f64), ("output", run.output_tokens as f64)];
    let points = runs.iter().flat_map(|run| {
        kinds(run).map(|(kind, count)| {
            let mut about = run.about();
            about.text("gen_ai.token.type", kind);
            point(about, times, count, &TOKEN_BOUNDS)
        })
    });
    points.collect()
}

#[expect(clippy::cast_precision_loss, reason = "a time in milliseconds fits")]
fn duration_point(run: &AgentRun, times: &(String, String)) -> Value {
    let mut about = run.about();
    if let Some(error) = &run.error {
        about.text("error.type", error);
    }
    point(about, times, run.to_ms.saturating_sub(run.from_ms).max(0) as f64 / 1e3, &SECOND_BOUNDS)
}

/// A histogram of one value.
fn point(about: Attributes, (from, to): &(String, String), value: f64, bounds: &[f64]) -> Value {
    let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
    let counts: Vec<&str> = (0..=bounds.len()).map(|place| if place == bucket { "1" } else { "0" }).collect();
    json!({
        "attributes": about.into_list(), "startTimeUnixNano": from, "timeUnixNano": to, "count": "1", "sum": value,
        "min": value, "max": value, "bucketCounts": counts, "explicitBounds": bounds,
    })
}

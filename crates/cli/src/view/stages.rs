//! Where the time of a round went: the time of each stage, from the moments of its events.

use super::Serialize;
use serde_json::Value;

/// One part of a round's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StageTime {
    stage: &'static str,
    ms: i64,
}

/// One part of a round's time, with its place on the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StagePart {
    pub(crate) stage: &'static str,
    pub(crate) from_ms: i64,
    pub(crate) ms: i64,
}

impl StagePart {
    /// Whether agents of a role run in this stage.
    pub(crate) fn has_role(&self, role: &str) -> bool {
        self.stage == stage_of("role-ended", role)
    }
}

/// The time of each stage, in order, from the events of a round. An event closes the stage that it ends.
pub(crate) fn stage_times(events: &[Value]) -> Vec<StageTime> {
    stage_parts(events).into_iter().map(|part| StageTime { stage: part.stage, ms: part.ms }).collect()
}

/// The same with the moment at which each part begins.
pub(crate) fn stage_parts(events: &[Value]) -> Vec<StagePart> {
    let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut times: Vec<StagePart> = Vec::new();
    let mut before: Option<i64> = None;
    for event in events {
        let Some(at) = event.get("at_ms").and_then(Value::as_i64) else { continue };
        let role = event.get("body").map_or(String::new(), |body| word(body, "role"));
        let stage = stage_of(&word(event, "kind"), &role);
        if let Some(start) = before {
            let ms = at.saturating_sub(start).max(0);
            match times.last_mut().filter(|last| last.stage == stage) {
                Some(last) => last.ms += ms,
                None => times.push(StagePart { stage, from_ms: start, ms }),
            }
        }
        before = Some(at);
    }
    times
}

fn stage_of(kind: &str, role: &str) -> &'static str {
    match (kind, role) {
        ("recalled", _) => "recall",
        ("probed", _) => "probe",
        ("isolated" | "baselined", _) => "isolate",
        ("role-started" | "role-ended", "planner") => "plan",
        ("role-started" | "role-ended", "checker") => "check",
        ("role-started" | "role-ended", "attacker") | ("attacked", _) => "attack",
        ("role-started" | "role-ended", _) => "make",
        ("sealed" | "planted", _) => "seal",
        ("gated", _) => "gate",
        ("proved", _) => "prove",
        ("decided" | "approved" | "denied" | "expired", _) => "approve",
        ("delivered" | "resent", _) => "send",
        ("waited" | "resumed" | "recovered" | "paused" | "steered", _) => "wait",
        _ => "record",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn time_of_a_round_belongs_to_the_stage_that_each_event_ends() {
        let at = |second: u32, kind: &str, role: &str| json!({"at_ms": i64::from(second) * 1000, "kind": kind, "body": {"role": role}});
        let events = [
            at(0, "started", ""),
            at(1, "isolated", ""),
            at(2, "role-started", "maker"),
            at(12, "role-ended", "maker"),
            at(13, "gated", ""),
            at(20, "role-ended", "checker"),
        ];
        let times = stage_times(&events);
        let shown: Vec<_> = times.iter().map(|one| (one.stage, one.ms)).collect();
        assert_eq!(shown, [("isolate", 1000), ("make", 11_000), ("gate", 1000), ("check", 7000)]);
    }
}

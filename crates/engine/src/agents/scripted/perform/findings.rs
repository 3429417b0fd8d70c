//! Writes a planner's files and an attacker's findings as an honest agent would: into the sinks that the environment
//! names, bound to its values.

use super::super::verb::ScriptFinding;
use super::{Done, files, variable};
use crate::agents::env;
use serde_json::{Value, json};

pub(super) fn write_plan(name: &str, text: &str) -> Done {
    files::write(&variable(env::PLAN)?.join(name).to_string_lossy(), text)
}

/// Writes the findings, once.
pub(super) fn write(findings: Vec<ScriptFinding>) -> Done {
    let mut file = empty()?;
    file["findings"] = findings.into_iter().map(entry).collect();
    write_raw(&file.to_string())
}

fn entry(finding: ScriptFinding) -> Value {
    let mut one = json!({
        "severity": finding.severity, "title": finding.title, "path": finding.path, "trigger": finding.trigger,
    });
    if let Some(line) = finding.line {
        one["line"] = line.into();
    }
    if let Some(script) = finding.reproduction {
        one["reproduction"] = script.into();
    }
    one
}

pub(super) fn write_none() -> Done {
    write_raw(&empty()?.to_string())
}

pub(super) fn write_raw(text: &str) -> Done {
    files::write(&variable(env::FINDINGS)?.to_string_lossy(), text)
}

fn empty() -> Result<Value, String> {
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    Ok(json!({ "nonce": text(env::NONCE)?, "candidate": text(env::CANDIDATE)?, "findings": [] }))
}

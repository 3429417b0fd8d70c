//! The speed of redaction, in megabytes a second. The library's worker measures; this file shows the result.

use super::BenchSetup;
use super::table::BenchSection;
use serde_json::Value;
use std::process::Command;

pub(super) fn measure(bed: &BenchSetup) -> Result<BenchSection, String> {
    let output =
        Command::new(&bed.worker).arg("redact").output().map_err(|error| format!("start the worker: {error}"))?;
    if !output.status.success() {
        return Err(format!("the worker failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let about =
        "MB/s of clean text with twenty known values: as transcripts are written, and as the secrets gate reads";
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.fold(BenchSection::new("redaction", about), |section, line| {
        let rate = |name: &str| line[name].as_f64().unwrap_or_default();
        let rates = format!("{:.0} MB/s written, {:.1} MB/s with care", rate("stream"), rate("careful"));
        section.note(line["kind"].as_str().unwrap_or_default(), rates)
    }))
}

//! The speed of reading agents' streams, in megabytes a second. The library's worker measures; this file shows the
//! result.

use super::BenchSetup;
use super::table::BenchSection;
use serde_json::Value;
use std::process::Command;

pub(super) fn measure(bed: &BenchSetup) -> Result<BenchSection, String> {
    let output =
        Command::new(&bed.worker).arg("streams").output().map_err(|error| format!("start the worker: {error}"))?;
    if !output.status.success() {
        return Err(format!("the worker failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let about =
        "MB/s on one core: a recorded round over and over, and the same with the long lines that files and logs make";
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.fold(BenchSection::new("streams of agents", about), |section, line| {
        let rate = |name: &str| line[name].as_f64().unwrap_or_default();
        let rates = format!("{:.0} MB/s as recorded, {:.0} MB/s with long lines", rate("recorded"), rate("long"));
        section.note(line["agent"].as_str().unwrap_or_default(), rates)
    }))
}

//! Results as a table for people and as JSON. Every ratio is of two medians of the same run.

use super::sample::TimeSamples;
use serde_json::{Value, json};

/// One comparison. The ratios refer to its first line, unless a line names another.
pub(super) struct BenchSection {
    pub(super) title: String,
    /// The exact content of the numbers.
    pub(super) about: String,
    pub(super) lines: Vec<BenchLine>,
    /// Facts other than times: counts, bytes, slopes.
    pub(super) notes: Vec<(String, String)>,
}

/// One timed operation.
pub(super) struct BenchLine {
    pub(super) name: String,
    pub(super) times: TimeSamples,
    /// The name of the line it is compared with.
    pub(super) against: Option<String>,
}

impl BenchSection {
    pub(super) fn new(title: impl Into<String>, about: impl Into<String>) -> Self {
        Self { title: title.into(), about: about.into(), lines: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn line(mut self, name: impl Into<String>, times: TimeSamples, against: Option<&str>) -> Self {
        self.lines.push(BenchLine { name: name.into(), times, against: against.map(str::to_owned) });
        self
    }

    pub(super) fn note(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.notes.push((name.into(), text.into()));
        self
    }

    fn ratio(&self, line: &BenchLine) -> Option<f64> {
        let other = line.against.as_ref()?;
        let other = self.lines.iter().find(|line| line.name == *other)?;
        Some(line.times.median() / other.times.median())
    }

    pub(super) fn to_json(&self) -> Value {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "name": line.name, "median_s": line.times.median(), "min_s": line.times.min(),
                    "against": line.against, "ratio": self.ratio(line),
                })
            })
            .collect();
        let notes: Vec<Value> = self.notes.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect();
        json!({ "title": self.title, "about": self.about, "lines": lines, "notes": notes })
    }
}

/// The section as text.
pub(super) fn render_section(section: &BenchSection) -> String {
    let mut text = format!("{}\n  {}\n", section.title, section.about);
    text.push_str(&format!("  {:<52} {:>10} {:>10}  {}\n", "", "median", "min", "ratio of medians"));
    for line in &section.lines {
        let ratio = match (section.ratio(line), &line.against) {
            (Some(ratio), Some(other)) => format!("{ratio:.2}× {other}"),
            _ => String::new(),
        };
        let row = format!(
            "  {:<52} {:>10} {:>10}  {ratio}",
            line.name,
            format_seconds(line.times.median()),
            format_seconds(line.times.min())
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    for (name, note) in &section.notes {
        text.push_str(&format!("  {name:<52} {note}\n"));
    }
    text
}

/// Seconds as people read them.
pub(super) fn format_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 0.1 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

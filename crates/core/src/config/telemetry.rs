//! The collector of traces and metrics in the user's own configuration. Without it nothing is measured for one.

use super::forges;
use super::providers::KeySource;
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::SpecValue;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The most headers.
const HEADERS_MAX: usize = 20;

/// The `telemetry:` block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TelemetryConfig {
    /// The base address of a collector that speaks OTLP over HTTP.
    pub endpoint: String,
    /// Headers of each request, by the location of each value, because it is usually a key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", serialize_with = "places")]
    pub headers: BTreeMap<String, KeySource>,
}

fn places<S: Serializer>(headers: &BTreeMap<String, KeySource>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, source)| (name, source.to_string())))
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<TelemetryConfig> {
    let fields = at.fields("endpoint headers")?;
    let endpoint = fields.required("endpoint", "http://127.0.0.1:4318", forges::address);
    let headers = fields.option("headers", headers).unwrap_or_default();
    Some(TelemetryConfig { endpoint: endpoint?, headers })
}

fn headers(at: &SpecValue<'_>) -> Option<BTreeMap<String, KeySource>> {
    let entries = at.entries("a mapping of header to the `env` or `file` of its value")?;
    let mut read = BTreeMap::new();
    for (entry, at) in entries.into_iter().take(HEADERS_MAX) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if entry.key.is_empty() || !entry.key.chars().all(is_plain) {
            let what = format!("{} is not the name of a header", quoted(&entry.key));
            at.add_problem(ProblemKind::Value, what, Some("such as `authorization`".to_owned()));
        }
        let Some(fields) = at.fields("env file value") else { continue };
        if let Some(source) = forges::secret_location(&fields, &at, ["env", "file", "value"]) {
            read.insert(entry.key.to_ascii_lowercase(), source);
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigOrigin, EffectiveConfig, read_config_file};

    #[test]
    fn collector_is_off_until_it_is_named_and_its_keys_are_never_in_the_file() {
        let read = |text: &str| read_config_file("config.yaml", text.as_bytes());
        assert!(read("forge: local").expect("a good file").telemetry.is_none());
        let text = "telemetry: { endpoint: \"http://127.0.0.1:4318/\", headers: { Authorization: { env: OTLP_KEY } } }";
        let config = read(text).expect("a good file");
        let settings = EffectiveConfig::default().merge(config, ConfigOrigin::User).settings();
        let shown = settings.iter().find(|setting| setting.key == "telemetry").expect("it is listed");
        let expected = r#"{"endpoint":"http://127.0.0.1:4318","headers":{"authorization":"OTLP_KEY"}}"#;
        assert_eq!(shown.value.to_string(), expected);
        for (text, expected) in [
            ("telemetry: { headers: {} }", "endpoint"),
            ("telemetry: { endpoint: \"http://collector.example:4318\" }", "https"),
            (
                "telemetry: { endpoint: \"https://c.example\", headers: { authorization: { value: hunter2 } } }",
                "credential",
            ),
        ] {
            let message = read(text).expect_err(text).to_string();
            assert!(message.contains(expected) && !message.contains("hunter2"), "{message}");
        }
    }
}

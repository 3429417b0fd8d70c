//! Inbound webhooks in the user's own configuration: the address to listen on, and the locations of the secrets. This
//! module never contains or reads a secret.

use super::providers::{self, KeySource};
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{SpecFields, SpecValue};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The `webhooks:` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebhooksConfig {
    /// The address for deliveries; if `None`, nothing listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// The location of each source's secret: `github`, `gitlab`, `slack`, `generic.NAME`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretLocation>,
    /// People whose events count even if the forge does not report them as members of a repository.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<String>,
    /// Loopwright's own account names on forges; their actions trigger nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<String>,
}

/// The location of a secret and, during a rotation, of the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretLocation {
    /// The one in use.
    #[serde(flatten, serialize_with = "place")]
    pub now: KeySource,
    /// The previous one, which is accepted too.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "previous")]
    pub previous: Option<KeySource>,
}

fn place<S: Serializer>(source: &KeySource, serializer: S) -> Result<S::Ok, S::Error> {
    let key = if matches!(source, KeySource::Env(_)) { "env" } else { "file" };
    serializer.collect_map([(key, source.to_string())])
}

fn previous<S: Serializer>(source: &Option<KeySource>, serializer: S) -> Result<S::Ok, S::Error> {
    match source {
        Some(source) => place(source, serializer),
        None => serializer.serialize_none(),
    }
}

impl WebhooksConfig {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Merges another block into this one: the values it sets take precedence, others stay.
    pub(super) fn merge(mut self, over: Self) -> Self {
        self.secrets.extend(over.secrets);
        for (mine, more) in [(&mut self.trusted, over.trusted), (&mut self.own, over.own)] {
            mine.extend(more);
        }
        Self { listen: over.listen.or(self.listen), ..self }
    }
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<WebhooksConfig> {
    let fields = at.fields("listen secrets trusted own")?;
    let mut config = WebhooksConfig { listen: fields.option("listen", address), ..WebhooksConfig::default() };
    fields.set("secrets", &mut config.secrets, secrets);
    fields.set("trusted", &mut config.trusted, SpecValue::texts);
    fields.set("own", &mut config.own, SpecValue::texts);
    Some(config)
}

pub(super) fn address(at: &SpecValue<'_>) -> Option<SocketAddr> {
    let text = at.text()?;
    let address = text.parse().ok();
    if address.is_none() {
        let what = format!("{} is not an address with a port", quoted(&text));
        at.add_problem(ProblemKind::Value, what, Some("such as `127.0.0.1:8787`".to_owned()));
    }
    address
}

fn secrets(at: &SpecValue<'_>) -> Option<BTreeMap<String, SecretLocation>> {
    let entries = at.entries("a mapping of source to the `env` or `file` of its secret")?;
    let read = entries.into_iter().filter_map(|(entry, at)| {
        if !is_source(&entry.key) {
            let what = format!("{} is not a source of events", quoted(&entry.key));
            at.add_problem(ProblemKind::Value, what, Some("`github`, `gitlab`, `slack` or `generic.NAME`".to_owned()));
        }
        let fields = at.fields("env file previous secret")?;
        let previous = fields.option("previous", |at| source(&at.fields("env file secret")?, at));
        Some((entry.key.clone(), SecretLocation { now: source(&fields, &at)?, previous }))
    });
    Some(read.collect())
}

fn source(fields: &SpecFields<'_>, at: &SpecValue<'_>) -> Option<KeySource> {
    if fields.get("secret").is_some() {
        let hint = "name its place: `env` or `file`";
        providers::secret(at.findings, "a secret is not allowed in a configuration file", hint);
        return None;
    }
    match (fields.option("env", SpecValue::text), fields.option("file", SpecValue::text)) {
        (Some(name), None) if providers::is_variable(&name) => return Some(KeySource::Env(vec![name])),
        (None, Some(path)) => return Some(KeySource::File(path)),
        (Some(_), None) => {
            let hint = "write its name, such as `GITHUB_WEBHOOK_SECRET`";
            providers::secret(at.findings, "`env` is not the name of a variable", hint);
        }
        (Some(_), Some(_)) | (None, None) => {
            let what = "a secret needs exactly one location".to_owned();
            at.add_problem(ProblemKind::Value, what, Some("`env` or `file`".to_owned()));
        }
    }
    None
}

fn is_source(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let own = |name: &str| (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    matches!(name, "github" | "gitlab" | "slack") || name.strip_prefix("generic.").is_some_and(own)
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigOrigin, EffectiveConfig, read_config_file};

    #[test]
    fn locations_of_secrets_are_read_and_shown_and_secrets_are_not() {
        let text = "webhooks:\n  listen: 127.0.0.1:8787\n  trusted: [ada]\n  secrets:\n    github: { env: NEW_SECRET, previous: { env: OLD_SECRET } }\n    \
            generic.deploy: { file: ~/.deploy-secret }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let settings = EffectiveConfig::default().merge(config, ConfigOrigin::User).settings();
        let shown = settings.iter().find(|setting| setting.key == "webhooks").expect("it is listed");
        let expected = r#"{"listen":"127.0.0.1:8787","secrets":{"generic.deploy":{"file":"~/.deploy-secret"},"github":{"env":"NEW_SECRET","previous":{"env":"OLD_SECRET"}}},"trusted":["ada"]}"#;
        assert_eq!(shown.value.to_string(), expected);
    }

    #[test]
    fn problems_are_reported_without_possible_secrets() {
        let table = [
            ("webhooks: { listen: everywhere }", "not an address with a port"),
            (
                "webhooks: { secrets: { github: { secret: hunter2-hunter2 } } }",
                "is not allowed in a configuration file",
            ),
            ("webhooks: { secrets: { github: { env: hunter2-hunter2 } } }", "not the name of a variable"),
            ("webhooks: { secrets: { chat: { env: A } } }", "not a source of events"),
            ("webhooks: { secrets: { github: {} } }", "needs exactly one location"),
        ];
        for (text, expected) in table {
            let message = read_config_file("config.yaml", text.as_bytes()).expect_err("a bad file").to_string();
            assert!(message.contains(expected) && !message.contains("hunter2"), "{message}");
        }
    }
}

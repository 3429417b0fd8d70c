//! Model providers and logins in the user's own configuration: a provider's address, and the location of its key. This
//! module never contains or reads a key.

use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{ProblemCollector, SpecFields, SpecValue};
use crate::spec::source::SourceSpan;
use crate::spec::{AgentUse, is_provider_name};
use crate::units::TimeSpan;
use crate::words::worded;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

worded! {
    /// The header in which a provider expects its key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum KeyStyle {
        /// `Authorization: Bearer KEY`.
        #[default]
        Bearer = "bearer",
        /// `x-api-key: KEY`.
        XApiKey = "x-api-key",
        /// `x-goog-api-key: KEY`.
        XGoogApiKey = "x-goog-api-key",
        /// `api-key: KEY`.
        ApiKey = "api-key",
        /// A signature over each request with an access key of Amazon Web Services.
        Aws = "aws",
        /// A token of Google Cloud that lasts an hour, for a service account or a user.
        GoogleCloud = "google-cloud",
    }
}

/// Where a key is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The first of these environment variables that is set.
    Env(Vec<String>),
    /// A file: absolute, or `~/…`.
    File(String),
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(names) if *names == AWS_VARIABLES => f.write_str(&names[..2].join(" and ")),
            Self::Env(names) => f.write_str(&names.join(" or ")),
            Self::File(path) => f.write_str(path),
        }
    }
}

/// A model provider: its address, the header for its key, and the location of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderConfig {
    /// The base URL; API paths are appended to it.
    pub url: String,
    /// The header for the key.
    pub style: KeyStyle,
    /// The region that signatures of Amazon name, if the address does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The profile of Amazon's credentials file; by default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The location of the key; `None` for a provider that needs none.
    #[serde(flatten, serialize_with = "source")]
    pub key: Option<KeySource>,
    /// Whether its answers cost money. The tokens of a provider that is not metered are counted, at no cost.
    #[serde(skip_serializing_if = "is_true")]
    pub metered: bool,
    /// Paths below the base that agents may request, instead of the usual paths of model APIs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Parameters that are added to every request, such as `api-version`. No secrets: they are shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Headers that are added to every request. No secrets: they are shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The longest time from a request to the first byte of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<TimeSpan>,
    /// The longest time between two parts of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_bytes: Option<TimeSpan>,
}

/// The limits of a provider's silence, if the configuration has none: before the first byte, and between bytes.
pub const DEFAULT_SILENCE_SECS: [u64; 2] = [300, 180];

fn source<S: Serializer>(key: &Option<KeySource>, serializer: S) -> Result<S::Ok, S::Error> {
    match key {
        Some(place @ KeySource::Env(_)) => serializer.collect_map([("key_env", place.to_string())]),
        Some(KeySource::File(path)) => serializer.collect_map([("key_file", path)]),
        None => serializer.collect_map(std::iter::empty::<(&str, &str)>()),
    }
}

fn is_true(flag: &bool) -> bool {
    *flag
}

/// The providers that need no configuration, in the order in which an agent that can use any of them chooses one.
const BUILT_IN: [(&str, &str, KeyStyle, &[&str]); 3] = [
    ("anthropic", "https://api.anthropic.com", KeyStyle::XApiKey, &["ANTHROPIC_API_KEY"]),
    ("openai", "https://api.openai.com/v1", KeyStyle::Bearer, &["OPENAI_API_KEY"]),
    (
        "google",
        "https://generativelanguage.googleapis.com",
        KeyStyle::XGoogApiKey,
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
];

/// A provider that needs no configuration.
#[must_use]
pub fn built_in(name: &str) -> Option<ProviderConfig> {
    let (_, url, style, names) = BUILT_IN.into_iter().find(|(known, ..)| *known == name)?;
    let key = KeySource::Env(names.iter().map(|name| (*name).to_owned()).collect());
    Some(ProviderConfig {
        url: url.to_owned(),
        style,
        region: None,
        profile: None,
        key: Some(key),
        metered: true,
        paths: Vec::new(),
        query: BTreeMap::new(),
        headers: BTreeMap::new(),
        first_byte: None,
        between_bytes: None,
    })
}

/// The built-in providers with their configured changes, then the user's own by name.
pub(super) fn effective(configured: &BTreeMap<String, ProviderConfig>) -> Vec<(String, ProviderConfig)> {
    let known = BUILT_IN.map(|(name, ..)| name);
    let own = |name: &str| configured.get(name).cloned().or_else(|| built_in(name));
    let first = known.into_iter().filter_map(|name| Some((name.to_owned(), own(name)?)));
    let rest = configured.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    first.chain(rest.map(|(name, provider)| (name.clone(), provider.clone()))).collect()
}

/// Agents whose own sign-in a loop may use.
pub(super) const LOGINS: [AgentUse; 4] = [AgentUse::Claude, AgentUse::Codex, AgentUse::Gemini, AgentUse::Opencode];

pub(super) fn read_logins(at: &SpecValue<'_>) -> Option<Vec<AgentUse>> {
    let words = LOGINS.map(|agent| (agent.word(), agent));
    at.list("a list of agents whose own sign-in may be used", || AgentUse::Claude, |at| at.word(&words))
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<BTreeMap<String, ProviderConfig>> {
    let entries = at.entries("a mapping of provider to its `url` and its `key_env` or `key_file`")?;
    Some(entries.into_iter().filter_map(|(entry, at)| Some((entry.key.clone(), provider(&entry.key, &at)?))).collect())
}

fn provider(name: &str, at: &SpecValue<'_>) -> Option<ProviderConfig> {
    let fields = at
        .fields("url key_env key_file style region profile paths key metered query headers first_byte between_bytes")?;
    let usual = built_in(name);
    let url = match &usual {
        Some(usual) => Some(fields.option("url", SpecValue::text).unwrap_or_else(|| usual.url.clone())),
        None => fields.required("url", "https://models.example.org/v1", SpecValue::text),
    };
    let styles = KeyStyle::ALL.map(|style| (style.word(), style));
    let style = fields.option("style", |at| at.word(&styles));
    let metered = fields.option("metered", SpecValue::flag).unwrap_or(true);
    // A provider that is free may need no key. One that costs money does.
    let is_keyless = !metered
        && !style.is_some_and(is_signed)
        && fields.get("key_env").is_none()
        && fields.get("key_file").is_none();
    let key = key(&fields, at.findings);
    let key = key.or_else(|| match style {
        Some(KeyStyle::Aws) => Some(KeySource::Env(AWS_VARIABLES.map(str::to_owned).to_vec())),
        Some(KeyStyle::GoogleCloud) => None,
        _ => usual.as_ref().filter(|_| !is_keyless)?.key.clone(),
    });
    if key.is_none() && !is_keyless {
        match style {
            Some(KeyStyle::GoogleCloud) => fields.required("key_file", GOOGLE_FILE, SpecValue::text),
            _ => fields.required("key_env", "MY_API_KEY", SpecValue::text),
        };
        return None;
    }
    if !is_provider_name(name) {
        let what = format!("{} is not the name of a provider", quoted(name));
        at.add_problem(ProblemKind::Value, what, Some("use letters, digits and dashes".to_owned()));
    }
    let mut paths = Vec::new();
    fields.set("paths", &mut paths, SpecValue::texts);
    let (mut query, mut headers) = (BTreeMap::new(), BTreeMap::new());
    let additions = |at: &SpecValue<'_>| at.map_of("a mapping of names to texts", SpecValue::text);
    fields.set("query", &mut query, additions);
    fields.set("headers", &mut headers, additions);
    let style = style.or(usual.map(|usual| usual.style)).unwrap_or_default();
    let [first_byte, between_bytes] = ["first_byte", "between_bytes"].map(|name| fields.option(name, SpecValue::span));
    let [region, profile] = ["region", "profile"].map(|name| fields.option(name, SpecValue::text));
    let of_aws = [("region", region.is_some()), ("profile", profile.is_some())];
    for (name, _) in of_aws.into_iter().filter(|(_, is_set)| *is_set && style != KeyStyle::Aws) {
        at.add_problem(ProblemKind::Value, format!("`{name}` has a meaning only with `style: aws`"), None);
    }
    Some(ProviderConfig {
        url: url?,
        style,
        region,
        profile,
        key,
        metered,
        paths,
        query,
        headers,
        first_byte,
        between_bytes,
    })
}

/// The variables of an access key of Amazon Web Services; the last one is only for temporary keys.
pub const AWS_VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
/// Where `gcloud auth application-default login` puts its file.
const GOOGLE_FILE: &str = "~/.config/gcloud/application_default_credentials.json";

fn is_signed(style: KeyStyle) -> bool {
    matches!(style, KeyStyle::Aws | KeyStyle::GoogleCloud)
}

fn key(fields: &SpecFields<'_>, findings: &ProblemCollector<'_>) -> Option<KeySource> {
    if fields.get("key").is_some() {
        secret(findings, "a key is not allowed in a configuration file", "name its place: `key_env` or `key_file`");
    }
    if fields.get("key_env").is_some()
        && let Some(file) = fields.get("key_file")
    {
        let what = "`key_env` and `key_file` name two places for one key".to_owned();
        file.add_problem(ProblemKind::Value, what, Some("keep one of them".to_owned()));
    }
    if let Some(path) = fields.option("key_file", SpecValue::text) {
        return Some(KeySource::File(path));
    }
    let names = fields.option("key_env", SpecValue::texts)?;
    if names.is_empty() || !names.iter().all(|name| is_variable(name)) {
        secret(findings, "`key_env` is not the name of a variable", "write its name, such as `ANTHROPIC_API_KEY`");
    }
    Some(KeySource::Env(names))
}

/// Reports a problem without its line, because the line may contain a pasted key.
pub(super) fn secret(findings: &ProblemCollector<'_>, what: &str, hint: &str) {
    findings.add(ProblemKind::Value, SourceSpan::default(), what.to_owned(), Some(hint.to_owned()));
}

pub(super) fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigOrigin, EffectiveConfig, read_config_file};
    use expect_test::expect;

    fn problems(text: &str) -> String {
        read_config_file("config.yaml", text.as_bytes()).expect_err("a bad file").to_string()
    }

    #[test]
    fn providers_are_the_built_in_ones_with_the_users_changes_and_the_users_own() {
        let text = "providers:\n  anthropic: { url: http://127.0.0.1:9 }\n  google: { key_file: ~/.keys/google }\n  \
            house: { url: https://models.example.org, key_env: HOUSE_KEY, style: api-key, paths: [/v1/*] }\nlogins: [codex]\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let effective = EffectiveConfig::default().merge(config, ConfigOrigin::User);
        let settings = effective.settings();
        let shown = settings.iter().filter(|setting| setting.key.starts_with("providers.") || setting.key == "logins");
        let lines: Vec<String> =
            shown.map(|setting| format!("{} = {} ({:?})", setting.key, setting.value, setting.origin)).collect();
        expect![[r#"
            logins = ["codex"] (User)
            providers.anthropic = {"url":"http://127.0.0.1:9","style":"x-api-key","key_env":"ANTHROPIC_API_KEY"} (User)
            providers.google = {"url":"https://generativelanguage.googleapis.com","style":"x-goog-api-key","key_file":"~/.keys/google"} (User)
            providers.house = {"url":"https://models.example.org","style":"api-key","key_env":"HOUSE_KEY","paths":["/v1/*"]} (User)
            providers.openai = {"url":"https://api.openai.com/v1","style":"bearer","key_env":"OPENAI_API_KEY"} (Default)"#]]
        .assert_eq(&lines.join("\n"));
        let names: Vec<String> = effective.providers().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["anthropic", "openai", "google", "house"]);
    }

    #[test]
    fn free_provider_needs_no_key_and_may_have_one() {
        let text = "providers:\n  house: { url: http://127.0.0.1:11434/v1, metered: false }\n  \
            shared: { url: http://10.0.0.7/v1, metered: false, key_env: SHARED_KEY }\n  openai: { url: http://127.0.0.1:1/v1, metered: false }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let facts = |name: &str| {
            let provider = &config.providers[name];
            (provider.key.as_ref().map(ToString::to_string), provider.metered)
        };
        assert_eq!(facts("house"), (None, false));
        assert_eq!(facts("shared"), (Some("SHARED_KEY".to_owned()), false));
        assert_eq!(facts("openai"), (None, false), "a built-in provider at another place needs no key there");
        let shown = serde_json::to_string(&config.providers["house"]).expect("JSON");
        assert_eq!(shown, r#"{"url":"http://127.0.0.1:11434/v1","style":"bearer","metered":false}"#);
    }

    #[test]
    fn clouds_have_their_own_places_for_credentials() {
        let text = "providers:\n  bedrock: { url: https://bedrock-runtime.us-east-1.amazonaws.com, style: aws }\n  \
            work: { url: http://127.0.0.1:1, style: aws, region: eu-west-1, profile: work, key_file: ~/.aws/credentials }\n  \
            vertex: { url: https://x.org/v1/projects/p/locations/l, style: google-cloud, key_file: ~/g.json }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let shown = |name: &str| serde_json::to_string(&config.providers[name]).expect("JSON");
        assert_eq!(
            shown("bedrock"),
            r#"{"url":"https://bedrock-runtime.us-east-1.amazonaws.com","style":"aws","key_env":"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"}"#
        );
        assert_eq!(
            shown("work"),
            r#"{"url":"http://127.0.0.1:1","style":"aws","region":"eu-west-1","profile":"work","key_file":"~/.aws/credentials"}"#
        );
        for (text, why) in [
            ("providers: { g: { url: https://x.org, style: google-cloud } }", "missing key `key_file`"),
            ("providers: { g: { url: https://x.org, key_env: A, region: r } }", "only with `style: aws`"),
        ] {
            let message = problems(text);
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn pasted_key_is_refused_and_not_shown() {
        for text in [
            "providers: { anthropic: { key: sk-ant-api03-secret } }",
            "providers: { anthropic: { key_env: sk-ant-api03-secret } }",
            "providers:\n  house: { url: https://x.org, key_env: [HOUSE_KEY, sk-ant-api03-secret] }",
        ] {
            let message = problems(text);
            assert!(message.contains("key") && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn users_own_provider_needs_an_address_and_one_place_for_its_key() {
        let message = problems("providers: { house: { style: basic } }\nlogins: [scripted]\n");
        for part in
            ["missing key `url`", "missing key `key_env`", "`providers.house.style` wants one of", "`logins[0]` wants"]
        {
            assert!(message.contains(part), "{part} in {message}");
        }
        let message = problems("providers: { house: { url: http://127.0.0.1:1, metered: true } }");
        assert!(message.contains("missing key `key_env`"), "a provider that costs money has a key: {message}");
        let message = problems("providers: { 'my house': { url: http://127.0.0.1:1, metered: false } }");
        assert!(message.contains("is not the name of a provider"), "{message}");
        let message = problems("providers: { openai: { key_env: A, key_file: /b } }");
        assert!(message.contains("two places for one key"), "{message}");
    }
}

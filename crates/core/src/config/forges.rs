//! Forges and messengers in the user's own configuration: their addresses, and the locations of their credentials. This
//! module never contains or reads a credential.

use super::providers::{self, KeySource};
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{SpecFields, SpecValue};
use crate::words::worded;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

worded! {
    /// The software of a forge.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ForgeKind {
        /// GitHub and GitHub Enterprise.
        Github = "github",
        /// GitLab.
        Gitlab = "gitlab",
        /// Gitea and Forgejo.
        Gitea = "gitea",
    }
}

impl ForgeKind {
    /// The address of the public instance; `None` if there is no usual one.
    #[must_use]
    pub fn public_url(self) -> Option<&'static str> {
        match self {
            Self::Github => Some("https://github.com"),
            Self::Gitlab => Some("https://gitlab.com"),
            Self::Gitea => None,
        }
    }

    /// The variable that has the token if the configuration names no place.
    fn usual_variable(self) -> &'static str {
        match self {
            Self::Github => "GITHUB_TOKEN",
            Self::Gitlab => "GITLAB_TOKEN",
            Self::Gitea => "GITEA_TOKEN",
        }
    }

    /// The base of the API of an instance at `url`.
    fn api_url(self, url: &str) -> String {
        match self {
            Self::Github if url == "https://github.com" => "https://api.github.com".to_owned(),
            Self::Github => format!("{url}/api/v3"),
            Self::Gitlab => format!("{url}/api/v4"),
            Self::Gitea => format!("{url}/api/v1"),
        }
    }
}

/// A forge: its address and the location of its credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForgeConfig {
    /// Its software.
    pub kind: ForgeKind,
    /// The address that people open in a browser, without a path at its end.
    pub url: String,
    /// The base of its API.
    pub api_url: String,
    /// The address of the repository for pushes; by default it is `url`, the repository and `.git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_url: Option<String>,
    /// `owner/name`; by default it comes from the remote `origin` of the user's repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The location of the credential.
    #[serde(flatten)]
    pub access: ForgeAccess,
    /// Accounts that are asked to review new pull requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// The first part of the name of a commit status on each pull request; without it no status is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// A file with the certificates of a private authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// The HTTP proxy on the way to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// The credential of a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ForgeAccess {
    /// The token of an account.
    Token(#[serde(serialize_with = "token")] KeySource),
    /// A GitHub App, which creates short-lived tokens.
    App {
        /// The app.
        app: ForgeApp,
    },
}

/// A GitHub App.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForgeApp {
    /// The app's id.
    pub id: u64,
    /// The id of its installation.
    pub installation: u64,
    /// The file with its private key.
    pub key_file: String,
}

/// The Slack workspace that receives messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlackConfig {
    /// The way into the workspace.
    #[serde(flatten)]
    pub access: SlackCredential,
    /// The channel for a bot token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The base of the API, if it is not Slack's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// A file with the certificates of a private authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// The HTTP proxy on the way to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// The way into a Slack workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SlackCredential {
    /// An incoming webhook, whose address is a secret.
    Webhook(#[serde(serialize_with = "webhook")] KeySource),
    /// A bot token.
    Token(#[serde(serialize_with = "token")] KeySource),
}

/// A receiver of `webhook` items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutboundWebhook {
    /// Its address.
    pub url: String,
    /// The location of the secret that signs the body.
    #[serde(flatten, serialize_with = "secret")]
    pub secret: KeySource,
    /// A file with the certificates of a private authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// The HTTP proxy on the way to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

fn token<S: Serializer>(key: &KeySource, serializer: S) -> Result<S::Ok, S::Error> {
    location(key, "token_env", "token_file", serializer)
}

fn webhook<S: Serializer>(key: &KeySource, serializer: S) -> Result<S::Ok, S::Error> {
    location(key, "webhook_env", "webhook_file", serializer)
}

fn secret<S: Serializer>(key: &KeySource, serializer: S) -> Result<S::Ok, S::Error> {
    location(key, "secret_env", "secret_file", serializer)
}

fn location<S: Serializer>(key: &KeySource, env: &str, file: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match key {
        KeySource::Env(names) => serializer.collect_map([(env, names.join(" or "))]),
        KeySource::File(path) => serializer.collect_map([(file, path)]),
    }
}

impl ForgeConfig {
    /// The repository on the forge: the configured one, or the path of the remote `origin` if its host is this forge.
    ///
    /// # Errors
    /// Why neither names a repository, for people.
    pub fn repository_at(&self, origin: Option<&str>) -> Result<String, String> {
        if let Some(repository) = &self.repository {
            return Ok(repository.clone());
        }
        let origin = origin.ok_or("the repository has no remote `origin`")?;
        let (host, path) = split_remote(origin).ok_or("the remote `origin` is not an address on a forge")?;
        let own = host_of(&self.url).unwrap_or_default();
        if !host.eq_ignore_ascii_case(own) {
            return Err(format!("the remote `origin` is on {host}, and the forge is {own}"));
        }
        is_repository(self.kind, path).then(|| path.to_owned()).ok_or_else(|| format!("{path} is not a repository"))
    }

    /// The address for pushes to a repository of this forge.
    #[must_use]
    pub fn push_url(&self, repository: &str) -> String {
        self.git_url.clone().unwrap_or_else(|| format!("{}/{repository}.git", self.url))
    }
}

/// The host, without a port, and the path of a git remote: `https://host/path.git`, `ssh://git@host/path`,
/// `git@host:path`.
fn split_remote(remote: &str) -> Option<(&str, &str)> {
    let (authority, path) = match remote.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => remote.split_once(':')?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let path = path.trim_matches('/');
    Some((host, path.strip_suffix(".git").unwrap_or(path))).filter(|(host, path)| !host.is_empty() && !path.is_empty())
}

/// The host of a URL, without a port.
fn host_of(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    Some(authority.split_once(':').map_or(authority, |(host, _)| host))
}

/// GitLab has groups within groups; the others have an owner and a name.
fn is_repository(kind: ForgeKind, path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain);
    let parts = path.split('/').count();
    let depth = if kind == ForgeKind::Gitlab { 2..=20 } else { 2..=2 };
    path.len() <= 400 && depth.contains(&parts) && path.split('/').all(is_part)
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<BTreeMap<String, ForgeConfig>> {
    let entries = at.entries("a mapping of forge to its `kind`, its `url` and its `token_env` or `token_file`")?;
    let read = entries.into_iter().filter_map(|(entry, at)| {
        if entry.key == "local" {
            let what = "`local` is the built-in forge and has no configuration".to_owned();
            at.add_problem(ProblemKind::Value, what, Some("choose another name".to_owned()));
            return None;
        }
        Some((entry.key.clone(), forge(&entry.key, &at)?))
    });
    Some(read.collect())
}

const FORGE_KEYS: &str = "kind url api_url git_url repository token_env token_file token app reviewers status ca_file \
    proxy";

fn forge(name: &str, at: &SpecValue<'_>) -> Option<ForgeConfig> {
    let fields = at.fields(FORGE_KEYS)?;
    let mut kinds = ForgeKind::ALL.map(|kind| (kind.word(), kind)).to_vec();
    kinds.push(("forgejo", ForgeKind::Gitea));
    let kind = match fields.get("kind") {
        Some(at) => at.word(&kinds)?,
        None => match kinds.iter().find(|(word, _)| *word == name) {
            Some((_, kind)) => *kind,
            None => fields.required("kind", "github", |at| at.word(&kinds))?,
        },
    };
    let url = match kind.public_url() {
        Some(public) => Some(fields.option("url", address).unwrap_or_else(|| public.to_owned())),
        None => fields.required("url", "https://codeberg.org", address),
    };
    let repository = fields.option("repository", |at| repository(kind, at));
    let access = access(kind, &fields, at)?;
    let url = url?;
    Some(ForgeConfig {
        kind,
        api_url: fields.option("api_url", address).unwrap_or_else(|| kind.api_url(&url)),
        git_url: fields.option("git_url", address),
        repository,
        access,
        reviewers: fields.option("reviewers", SpecValue::texts).unwrap_or_default(),
        status: fields.option("status", SpecValue::text),
        ca_file: fields.option("ca_file", SpecValue::text),
        proxy: fields.option("proxy", proxy),
        url,
    })
}

fn access(kind: ForgeKind, fields: &SpecFields<'_>, at: &SpecValue<'_>) -> Option<ForgeAccess> {
    let token = secret_location(fields, at, ["token_env", "token_file", "token"]);
    let app = fields.get("app");
    match (token, app) {
        (Some(_), Some(app)) => {
            let what = "`app` and a token are two credentials for one forge".to_owned();
            app.add_problem(ProblemKind::Value, what, Some("keep one of them".to_owned()));
            None
        }
        (Some(token), None) => Some(ForgeAccess::Token(token)),
        (None, Some(at)) => app_fields(kind, &at).map(|app| ForgeAccess::App { app }),
        (None, None) => Some(ForgeAccess::Token(KeySource::Env(vec![kind.usual_variable().to_owned()]))),
    }
}

fn app_fields(kind: ForgeKind, at: &SpecValue<'_>) -> Option<ForgeApp> {
    if kind != ForgeKind::Github {
        let what = format!("`app` is for GitHub, and this forge is {kind}");
        at.add_problem(ProblemKind::Value, what, Some("use `token_env` or `token_file`".to_owned()));
        return None;
    }
    let fields = at.fields("id installation key_file")?;
    let number = |at: &SpecValue<'_>| at.whole(1..=i128::from(u64::MAX));
    let id = fields.required("id", "12345", number);
    let installation = fields.required("installation", "67890", number);
    let key_file = fields.required("key_file", "~/.config/loopwright/app.pem", SpecValue::text);
    Some(ForgeApp { id: id?, installation: installation?, key_file: key_file? })
}

const SLACK_KEYS: &str = "webhook_env webhook_file webhook token_env token_file token channel api_url ca_file proxy";

pub(super) fn read_slack(at: &SpecValue<'_>) -> Option<SlackConfig> {
    let fields = at.fields(SLACK_KEYS)?;
    let webhook = secret_location(&fields, at, ["webhook_env", "webhook_file", "webhook"]);
    let token = secret_location(&fields, at, ["token_env", "token_file", "token"]);
    if fields.get("webhook").is_some() || fields.get("token").is_some() {
        // Reported already; a further problem would show the line with the secret.
        return None;
    }
    let channel = match &token {
        Some(_) => Some(fields.required("channel", "C0123456789", SpecValue::text)?),
        None => fields.option("channel", SpecValue::text),
    };
    let access = match (webhook, token) {
        (Some(webhook), None) => SlackCredential::Webhook(webhook),
        (None, Some(token)) => SlackCredential::Token(token),
        (Some(_), Some(_)) | (None, None) => {
            let what = "`slack` needs either an incoming webhook or a bot token".to_owned();
            let hint = "`webhook_env` or `webhook_file`; or `token_env` or `token_file`, and `channel`".to_owned();
            at.add_problem(ProblemKind::Value, what, Some(hint));
            return None;
        }
    };
    let (ca_file, proxy) = (fields.option("ca_file", SpecValue::text), fields.option("proxy", proxy));
    Some(SlackConfig { access, channel, api_url: fields.option("api_url", address), ca_file, proxy })
}

pub(super) fn read_webhooks(at: &SpecValue<'_>) -> Option<BTreeMap<String, OutboundWebhook>> {
    let entries = at.entries("a mapping of webhook to its `url` and its `secret_env` or `secret_file`")?;
    Some(entries.into_iter().filter_map(|(entry, at)| Some((entry.key.clone(), outbound(&at)?))).collect())
}

pub(super) fn outbound(at: &SpecValue<'_>) -> Option<OutboundWebhook> {
    let fields = at.fields("url secret_env secret_file secret ca_file proxy")?;
    let url = fields.required("url", "https://hooks.example.org/deploy", address);
    let secret = secret_location(&fields, at, ["secret_env", "secret_file", "secret"]);
    if secret.is_none() && fields.get("secret").is_none() {
        fields.required("secret_env", "DEPLOY_HOOK_SECRET", SpecValue::text);
    }
    let (ca_file, proxy) = (fields.option("ca_file", SpecValue::text), fields.option("proxy", proxy));
    Some(OutboundWebhook { url: url?, secret: secret?, ca_file, proxy })
}

/// The location of a secret, by its keys: a variable, a file, and the key that a person might use for the secret itself.
pub(super) fn secret_location(
    fields: &SpecFields<'_>,
    at: &SpecValue<'_>,
    [env, file, plain]: [&'static str; 3],
) -> Option<KeySource> {
    if fields.get(plain).is_some() {
        let hint = format!("name its place: `{env}` or `{file}`");
        providers::secret(at.findings, "a credential is not allowed in a configuration file", &hint);
        return None;
    }
    let (name, path) = (fields.option(env, SpecValue::text), fields.option(file, SpecValue::text));
    match (name, path) {
        (Some(_), Some(_)) => {
            let what = format!("`{env}` and `{file}` name two places for one credential");
            at.add_problem(ProblemKind::Value, what, Some("keep one of them".to_owned()));
            None
        }
        (Some(name), None) if providers::is_variable(&name) => Some(KeySource::Env(vec![name])),
        (Some(_), None) => {
            let what = format!("`{env}` is not the name of a variable");
            providers::secret(at.findings, &what, "write its name, such as `GITHUB_TOKEN`");
            None
        }
        (None, path) => path.map(KeySource::File),
    }
}

fn repository(kind: ForgeKind, at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    if is_repository(kind, &text) {
        return Some(text);
    }
    let what = format!("{} is not the name of a repository", quoted(&text));
    at.add_problem(ProblemKind::Value, what, Some("`owner/name`, without the address of the forge".to_owned()));
    None
}

/// An address without user, password and query. Plain http is for this machine only, because a token is sent there.
pub(super) fn address(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    match address_problem(&text) {
        None => Some(normal_address(&text)),
        Some(why) => add_address_problem(at, &text, &format!("`{}`: {why}", at.path), "`https://host`"),
    }
}

/// The one form of an address: a lower-case host, no usual port, no slash at the end.
fn normal_address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.to_ascii_lowercase();
    let authority = authority.strip_suffix(usual).unwrap_or(&authority);
    format!("{scheme}://{authority}/{path}").trim_end_matches('/').to_owned()
}

fn proxy(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    let is_http = text.starts_with("http://") || text.starts_with("https://");
    if is_http && !text.contains('@') {
        return Some(text);
    }
    let what = format!("`{}` is not the address of an HTTP proxy", at.path);
    add_address_problem(at, &text, &what, "`http://host:port`, without a password")
}

/// Reports a bad address, without its line if it may contain a password.
fn add_address_problem(at: &SpecValue<'_>, text: &str, what: &str, hint: &str) -> Option<String> {
    if text.contains('@') {
        at.findings.mark_faulty(at.path.clone());
        providers::secret(at.findings, what, hint);
    } else {
        at.add_problem(ProblemKind::Value, what.to_owned(), Some(hint.to_owned()));
    }
    None
}

fn address_problem(url: &str) -> Option<&'static str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Some("it is not an address") };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_plain = url.chars().all(|c| c.is_ascii_graphic() && !"?#\\\"'<>".contains(c));
    match scheme {
        _ if host.is_empty() || !is_plain => Some("it is not an address"),
        _ if authority.contains('@') => Some("an address has no user and no password"),
        "https" => None,
        "http" if matches!(host, "127.0.0.1" | "[::1]" | "localhost") => None,
        "http" => Some("another machine needs https"),
        _ => Some("it is not an https address"),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigOrigin, EffectiveConfig, read_config_file};
    use expect_test::expect;

    fn config(text: &str) -> crate::config::ConfigLayer {
        read_config_file("config.yaml", text.as_bytes()).expect("a good file")
    }

    #[test]
    fn addresses_and_places_are_shown_and_credentials_are_not() {
        let text = "forges:\n  github: {}\n  work:\n    kind: github\n    url: https://git.example.org/\n    app: { id: 1, \
            installation: 2, key_file: ~/app.pem }\n    ca_file: /etc/ca.pem\n    proxy: http://proxy:3128\n  gitlab: { token_env: \
            MY_TOKEN, repository: a/b/c }\n  berg: { kind: gitea, url: https://codeberg.org, token_file: ~/.berg }\n\
            slack: { token_env: SLACK_TOKEN, channel: C1 }\nwebhooks_out: { deploy: { url: https://h.example.org/x, \
            secret_file: ~/.hook } }\n";
        let settings = EffectiveConfig::default().merge(config(text), ConfigOrigin::User).settings();
        let keys = ["forges.", "slack", "webhooks_out."];
        let shown = settings.iter().filter(|setting| keys.iter().any(|key| setting.key.starts_with(key)));
        let lines: Vec<String> = shown.map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
        expect![[r#"
            forges.berg = {"kind":"gitea","url":"https://codeberg.org","api_url":"https://codeberg.org/api/v1","token_file":"~/.berg"}
            forges.github = {"kind":"github","url":"https://github.com","api_url":"https://api.github.com","token_env":"GITHUB_TOKEN"}
            forges.gitlab = {"kind":"gitlab","url":"https://gitlab.com","api_url":"https://gitlab.com/api/v4","repository":"a/b/c","token_env":"MY_TOKEN"}
            forges.work = {"kind":"github","url":"https://git.example.org","api_url":"https://git.example.org/api/v3","app":{"id":1,"installation":2,"key_file":"~/app.pem"},"ca_file":"/etc/ca.pem","proxy":"http://proxy:3128"}
            slack = {"token_env":"SLACK_TOKEN","channel":"C1"}
            webhooks_out.deploy = {"url":"https://h.example.org/x","secret_file":"~/.hook"}"#]].assert_eq(&lines.join("\n"));
    }

    #[test]
    fn repository_comes_from_the_configuration_or_from_the_remote_on_the_same_host() {
        let all = config("forges: { github: {}, fixed: { kind: github, repository: me/mine } }").forges;
        let at = |name: &str, origin: Option<&str>| all[name].repository_at(origin);
        for origin in [
            "https://github.com/ada/engine.git",
            "https://token@GitHub.com/ada/engine",
            "git@github.com:ada/engine.git",
            "ssh://git@github.com:22/ada/engine/",
        ] {
            assert_eq!(at("github", Some(origin)).as_deref(), Ok("ada/engine"), "{origin}");
        }
        assert_eq!(at("fixed", None).as_deref(), Ok("me/mine"));
        for origin in [None, Some("https://gitlab.com/ada/engine"), Some("/srv/x.git"), Some("git@github.com:one")] {
            assert!(at("github", origin).is_err(), "{origin:?}");
        }
        assert_eq!(all["github"].push_url("ada/engine"), "https://github.com/ada/engine.git");
    }

    #[test]
    fn problems_are_reported_at_their_place_without_possible_credentials() {
        let table = [
            ("forges: { github: { token: ghp_hunter2 } }", "is not allowed in a configuration file"),
            ("forges: { github: { token_env: ghp_hunter2 } }", "not the name of a variable"),
            ("forges: { github: { token_env: A, token_file: /b } }", "two places for one credential"),
            ("forges: { github: { token_env: A, app: { id: 1 } } }", "two credentials for one forge"),
            ("forges: { gitlab: { app: { id: 1 } } }", "`app` is for GitHub"),
            ("forges: { local: {} }", "is the built-in forge"),
            ("forges: { mine: {} }", "missing key `kind`"),
            ("forges: { gitea: {} }", "missing key `url`"),
            ("forges: { github: { url: \"https://me:hunter2@x.org\" } }", "no user and no password"),
            ("forges: { github: { url: http://x.org } }", "another machine needs https"),
            ("forges: { github: { repository: \"https://github.com/a/b\" } }", "not the name of a repository"),
            ("forges: { github: { proxy: \"http://me:hunter2@p:1\" } }", "not the address of an HTTP proxy"),
            ("forges: { github: { tokenenv: A } }", "unknown key `tokenenv`"),
            ("slack: {}", "either an incoming webhook or a bot token"),
            ("slack: { token_env: A }", "missing key `channel`"),
            ("webhooks_out: { a: { url: https://x.org } }", "missing key `secret_env`"),
        ];
        for (text, expected) in table {
            let shown = read_config_file("config.yaml", text.as_bytes()).expect_err("a bad file").to_string();
            assert!(shown.contains(expected) && !shown.contains("hunter2"), "{text}: {shown}");
        }
    }
}

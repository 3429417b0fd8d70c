//! Notifications in the user's own configuration: the routes to receivers, and the locations of their credentials. This
//! module never contains or reads a credential.

use super::forges::{self, OutboundWebhook, SlackConfig};
use super::providers::KeySource;
use crate::notify::{NotifySeverity, SilentHours};
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::{SpecFields, SpecValue};
use crate::units::TimeSpan;
use crate::words::worded;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The most routes.
const ROUTES_MAX: usize = 50;

/// The most receivers of one e-mail.
const MAIL_RECEIVERS_MAX: usize = 50;

/// A route: which facts go to which receiver, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotifyRoute {
    /// The receiver.
    #[serde(flatten)]
    pub receiver: NotifyReceiver,
    /// The lowest severity.
    pub severity: NotifySeverity,
    /// Globs of the names of loops; empty for all loops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<String>,
    /// How long facts are collected before they are sent as one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<TimeSpan>,
    /// The hours in which nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<SilentHours>,
}

/// The receiver of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyReceiver {
    /// Slack: an incoming webhook, or a bot in a channel.
    Slack(SlackConfig),
    /// An address that receives signed JSON.
    Webhook(OutboundWebhook),
    /// A program, which gets the message as JSON on its standard input.
    Command(Vec<String>),
    /// E-mail.
    Email(MailConfig),
    /// The desktop of the user, by `notify-send`.
    Desktop(bool),
}

impl NotifyReceiver {
    /// Its kind, as the configuration names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Slack(_) => "slack",
            Self::Webhook(_) => "webhook",
            Self::Command(_) => "command",
            Self::Email(_) => "email",
            Self::Desktop(_) => "desktop",
        }
    }
}

worded! {
    /// The encryption of a connection to a mail server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum MailSecurity {
        /// It begins in plain text and must be encrypted before anything is sent.
        Starttls = "starttls",
        /// It is encrypted from the start.
        Tls = "tls",
        /// It is not encrypted: only for a server on this machine.
        None = "none",
    }
}

impl MailSecurity {
    fn usual_port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// A mail server and the addresses of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailConfig {
    /// The host name of the server.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// The encryption.
    pub security: MailSecurity,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
    /// The account, with the location of its password; without it, the server must accept mail from this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The location of the password.
    #[serde(flatten, serialize_with = "password")]
    pub password: Option<KeySource>,
    /// A file with the certificates of a private authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
}

fn password<S: Serializer>(key: &Option<KeySource>, serializer: S) -> Result<S::Ok, S::Error> {
    match key {
        Some(KeySource::Env(names)) => serializer.collect_map([("password_env", names.join(" or "))]),
        Some(KeySource::File(path)) => serializer.collect_map([("password_file", path)]),
        None => serializer.collect_map(std::iter::empty::<(&str, &str)>()),
    }
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<BTreeMap<String, NotifyRoute>> {
    let entries = at.entries("a mapping of route to its receiver")?;
    if entries.len() > ROUTES_MAX {
        let what = format!("more than {ROUTES_MAX} routes");
        at.add_problem(
            ProblemKind::Value,
            what,
            Some("one route may cover many loops: `loops: [\"docs-*\"]`".to_owned()),
        );
        return None;
    }
    Some(entries.into_iter().filter_map(|(entry, at)| Some((entry.key.clone(), route(&at)?))).collect())
}

fn route(at: &SpecValue<'_>) -> Option<NotifyRoute> {
    let fields = at.fields("slack webhook command email desktop severity loops digest quiet")?;
    let receiver = receiver(&fields, at);
    let severities = NotifySeverity::ALL.map(|severity| (severity.word(), severity));
    let severity = fields.option("severity", |at| at.word(&severities)).unwrap_or(NotifySeverity::Warning);
    let loops = fields.option("loops", globs).unwrap_or_default();
    let digest = fields.option("digest", SpecValue::span);
    let quiet = fields.option("quiet", quiet_hours);
    Some(NotifyRoute { receiver: receiver?, severity, loops, digest, quiet })
}

/// The one receiver of a route.
fn receiver(fields: &SpecFields<'_>, at: &SpecValue<'_>) -> Option<NotifyReceiver> {
    let kinds = ["slack", "webhook", "command", "email", "desktop"];
    let mut named = kinds.into_iter().filter(|kind| fields.get(kind).is_some());
    let (Some(kind), None) = (named.next(), named.next()) else {
        let what = "a route needs exactly one receiver".to_owned();
        at.add_problem(
            ProblemKind::Value,
            what,
            Some("`slack`, `webhook`, `command`, `email` or `desktop`".to_owned()),
        );
        return None;
    };
    match kind {
        "slack" => fields.option("slack", forges::read_slack).map(NotifyReceiver::Slack),
        "webhook" => fields.option("webhook", forges::outbound).map(NotifyReceiver::Webhook),
        "command" => fields.option("command", command).map(NotifyReceiver::Command),
        "email" => fields.option("email", mail).map(NotifyReceiver::Email),
        _ => fields.option("desktop", desktop).map(NotifyReceiver::Desktop),
    }
}

fn desktop(at: &SpecValue<'_>) -> Option<bool> {
    let is_on = at.flag()?;
    if !is_on {
        at.add_problem(ProblemKind::Value, "this route sends nothing".to_owned(), Some("remove the route".to_owned()));
    }
    is_on.then_some(true)
}

fn command(at: &SpecValue<'_>) -> Option<Vec<String>> {
    let words = at.text_list()?;
    if words.first().is_some_and(|program| program.starts_with('/')) {
        return Some(words);
    }
    let what = "the program of a notification is named by its whole path".to_owned();
    at.add_problem(ProblemKind::Value, what, Some("such as `[/usr/local/bin/notify-me, --now]`".to_owned()));
    None
}

fn globs(at: &SpecValue<'_>) -> Option<Vec<String>> {
    let globs = at.texts()?;
    for glob in globs.iter().filter(|glob| globset::Glob::new(glob).is_err()) {
        let what = format!("{} is not a pattern for names of loops", quoted(glob));
        at.add_problem(ProblemKind::Value, what, Some("such as `docs-*`".to_owned()));
    }
    Some(globs)
}

fn quiet_hours(at: &SpecValue<'_>) -> Option<SilentHours> {
    let text = at.text()?;
    let hours = SilentHours::parse(&text);
    if hours.is_none() {
        let what = format!("{} is not a part of a day", quoted(&text));
        at.add_problem(ProblemKind::Value, what, Some("such as `22:00-07:00`, in the time of this machine".to_owned()));
    }
    hours
}

fn mail(at: &SpecValue<'_>) -> Option<MailConfig> {
    let fields = at.fields("server port security from to user password_env password_file password ca_file")?;
    let server = fields.required("server", "smtp.example.org", SpecValue::text);
    let securities = MailSecurity::ALL.map(|security| (security.word(), security));
    let security = fields.option("security", |at| at.word(&securities)).unwrap_or(MailSecurity::Starttls);
    let port = fields.option("port", |at| at.whole(1..=65_535)).unwrap_or_else(|| security.usual_port());
    let from = fields.required("from", "loopwright@example.org", SpecValue::text);
    let to = fields.required("to", "[ada@example.org]", SpecValue::texts);
    let user = fields.option("user", SpecValue::text);
    let password = forges::secret_location(&fields, at, ["password_env", "password_file", "password"]);
    let ca_file = fields.option("ca_file", SpecValue::text);
    if fields.get("password").is_some() {
        // Reported already; a further problem would show the line with the password.
        return None;
    }
    let (server, from, to) = (server?, from?, to?);
    let problem = |what: String, hint: &str| at.add_problem(ProblemKind::Value, what, Some(hint.to_owned()));
    for address in std::iter::once(&from).chain(&to).filter(|address| !is_mail_address(address)) {
        problem(format!("{} is not an e-mail address", quoted(address)), "such as `ada@example.org`");
    }
    if to.is_empty() || to.len() > MAIL_RECEIVERS_MAX {
        problem(format!("`to` has {} addresses", to.len()), "name 1 to 50 addresses");
    }
    if user.is_some() != password.is_some() {
        problem("an account needs a name and a password".to_owned(), "`user`, and `password_env` or `password_file`");
    }
    if security == MailSecurity::None && !is_this_machine(&server) {
        let hint = "use `security: starttls` or `security: tls`; `none` is for a server on this machine";
        problem("the message would cross a network in plain text".to_owned(), hint);
    }
    Some(MailConfig { server, port, security, from, to, user, password, ca_file })
}

fn is_mail_address(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"<>,;\"".contains(c);
    text.len() <= 254
        && text.chars().all(is_plain)
        && text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
}

fn is_this_machine(server: &str) -> bool {
    server == "localhost" || server.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigOrigin, EffectiveConfig, read_config_file};
    use crate::notify::NotifySeverity;

    #[test]
    fn routes_are_read_and_shown_without_secrets() {
        let text = "notify:\n  team: { slack: { webhook_env: SLACK_URL }, severity: urgent, loops: [\"docs-*\"], quiet: \"22:00-07:00\" }\n  \
            mail: { email: { server: smtp.example.org, from: l@example.org, to: ada@example.org, user: l, password_file: ~/.smtp }, digest: 1h }\n  \
            hook: { webhook: { url: \"https://hooks.example.org/x\", secret_env: HOOK_SECRET } }\n  \
            own: { command: [/usr/bin/logger, -t, loops], severity: info }\n  screen: { desktop: true }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        assert_eq!(config.notify["team"].severity, NotifySeverity::Urgent);
        assert_eq!(config.notify["mail"].severity, NotifySeverity::Warning, "the default");
        let settings = EffectiveConfig::default().merge(config, ConfigOrigin::User).settings();
        let shown = |key: &str| {
            let found = settings.iter().find(|setting| setting.key == key);
            found.unwrap_or_else(|| panic!("{key}")).value.to_string()
        };
        assert_eq!(
            shown("notify.team"),
            r#"{"slack":{"webhook_env":"SLACK_URL"},"severity":"urgent","loops":["docs-*"],"quiet":"22:00-07:00"}"#
        );
        assert_eq!(
            shown("notify.mail"),
            r#"{"email":{"server":"smtp.example.org","port":587,"security":"starttls","from":"l@example.org","to":["ada@example.org"],"user":"l","password_file":"~/.smtp"},"severity":"warning","digest":"1h"}"#
        );
        assert_eq!(shown("notify.screen"), r#"{"desktop":true,"severity":"warning"}"#);
    }

    #[test]
    fn routes_that_cannot_work_or_could_leak_are_errors() {
        let mail = |more: &str| format!("notify: {{ m: {{ email: {{ from: a@b, to: c@d, {more} }} }} }}");
        for (text, expected) in [
            ("notify: { a: { severity: info } }".to_owned(), "exactly one receiver"),
            ("notify: { a: { desktop: true, command: [/bin/true] } }".to_owned(), "exactly one receiver"),
            ("notify: { a: { command: [tell-me] } }".to_owned(), "whole path"),
            ("notify: { a: { desktop: true, quiet: night } }".to_owned(), "not a part of a day"),
            ("notify: { a: { desktop: true, severity: loud } }".to_owned(), "urgent"),
            (
                "notify: { a: { slack: { webhook: \"https://hooks.slack.com/services/hunter2\" } } }".to_owned(),
                "credential",
            ),
            (mail("server: smtp.example.org, security: none"), "plain text"),
            (mail("server: smtp.example.org, user: me"), "a name and a password"),
            (mail("server: smtp.example.org, user: me, password: hunter2"), "credential"),
            ("notify: { m: { email: { server: s, from: nobody, to: c@d } } }".to_owned(), "not an e-mail address"),
            (
                "notify: { m: { email: { server: s, from: \"a@b\\r\\nBcc: x@y\", to: c@d } } }".to_owned(),
                "not an e-mail",
            ),
        ] {
            let message = read_config_file("config.yaml", text.as_bytes()).expect_err(&text).to_string();
            assert!(message.contains(expected) && !message.contains("hunter2"), "{text}: {message}");
        }
    }
}

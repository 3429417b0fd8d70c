//! Forges and messengers as this user has them: connected with the credentials in the variables and files that the
//! configuration names. A credential goes only to the client of its forge and to the list of values that no record or
//! message may contain.

use super::forge_clients::{CredentialPlace, SharedClients};
use super::notifications::notification_secrets;
use super::{CheckedLoopFile, CommandContext, CommandError, FileProblem, LoopPreflight, PreflightCache};
use loopwright::EngineSettings;
use loopwright::clock::{Clock as _, SystemClock};
use loopwright::deliver::{Deliver, DeliverError};
use loopwright::git::UserRepo;
use loopwright::outbox::{ConnectedForge, ForgeConnector, PushRoute};
use loopwright_core::config::{
    ConfigLayer, EffectiveConfig, ForgeAccess, ForgeConfig, ForgeKind, KeySource, OutboundWebhook, SlackConfig,
    SlackCredential,
};
use loopwright_core::hash::hash_fields;
use loopwright_core::outbox::StagedItem;
use loopwright_core::spec::{ActionKind, LoopSpec};
use loopwright_forge::{
    ForgeConnection, ForgeFinding, ForgeToken, GitHubApp, NetworkSettings, NowMs, RemoteForge, RemoteKind, SecretText,
    SlackAccess, SlackReceiver, WebhookReceiver, WebhookRepeats, WebhookTarget,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The limit for one request of `doctor`.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The path of a webhook's address with at least this many bytes is a secret by itself.
const SECRET_PATH_MIN: usize = 16;

/// A configured forge with its credential. It has no `Debug`, so that no credential is ever printed.
struct KnownForge {
    config: ForgeConfig,
    credential: CredentialPlace,
    ca_file: Option<PathBuf>,
}

/// A configured receiver of webhooks with its secret.
struct KnownWebhook {
    config: OutboundWebhook,
    secret: CredentialPlace,
    ca_file: Option<PathBuf>,
}

/// The configured Slack workspace with its credential.
struct KnownSlack {
    config: SlackConfig,
    credential: CredentialPlace,
    ca_file: Option<PathBuf>,
}

/// The forges and messengers of one command.
struct ForgeConnections {
    forges: BTreeMap<String, KnownForge>,
    slack: Option<KnownSlack>,
    webhooks: BTreeMap<String, KnownWebhook>,
    clients: SharedClients,
}

impl KnownForge {
    /// The connection to the repository with this remote `origin`, and the place of pushes.
    fn connection(&self, origin: Option<&str>, credential: &str) -> Result<(ForgeConnection, PushRoute), String> {
        let config = &self.config;
        let repository = config.repository_at(origin)?;
        let credential = SecretText::new(credential);
        let token = match &config.access {
            ForgeAccess::Token(_) => ForgeToken::Account(credential),
            ForgeAccess::App { app } => ForgeToken::App(GitHubApp {
                app_id: app.id.to_string(),
                private_key: credential,
                installation: Some(app.installation),
            }),
        };
        let route =
            PushRoute { url: config.push_url(&repository), ca_file: self.ca_file.clone(), proxy: config.proxy.clone() };
        let kind = match config.kind {
            ForgeKind::Github => RemoteKind::GitHub,
            ForgeKind::Gitlab => RemoteKind::GitLab,
            ForgeKind::Gitea => RemoteKind::Gitea,
        };
        let connection = ForgeConnection {
            kind,
            api_url: Some(config.api_url.clone()),
            git_url: Some(route.url.clone()),
            repository,
            token,
            token_name: credential_location(config).to_string(),
            reviewers: config.reviewers.clone(),
            status_context: config.status.clone(),
            network: network(config.proxy.as_ref(), self.ca_file.as_ref()),
        };
        Ok((connection, route))
    }
}

fn connect(connection: &ForgeConnection) -> Result<RemoteForge, String> {
    loopwright_forge::connect(connection, now()).map_err(|error| error.to_string())
}

/// The clock of the clients.
pub(super) fn now() -> NowMs {
    Arc::new(|| SystemClock.now_ms())
}

/// The way to a server: through a proxy, with a private authority, or plain.
fn network(proxy: Option<&String>, ca_file: Option<&PathBuf>) -> NetworkSettings {
    NetworkSettings { proxy: proxy.map(SecretText::new), ca_file: ca_file.cloned(), ..NetworkSettings::default() }
}

fn connect_slack(slack: &KnownSlack, credential: &str) -> Result<Arc<dyn Deliver>, String> {
    Ok(Arc::new(open_slack(slack, credential)?))
}

fn open_slack(slack: &KnownSlack, credential: &str) -> Result<SlackReceiver, String> {
    let config = &slack.config;
    let secret = SecretText::new(credential);
    let access = match &config.access {
        SlackCredential::Webhook(_) => SlackAccess::Webhook(secret),
        SlackCredential::Token(_) => SlackAccess::Bot {
            token: secret,
            channel: config.channel.clone().unwrap_or_default(),
            api_url: config.api_url.clone(),
        },
    };
    let network = network(config.proxy.as_ref(), slack.ca_file.as_ref());
    SlackReceiver::new(&access, &network, now()).map_err(|error| error.to_string())
}

/// The configured Slack workspace, for a check with short limits.
pub(super) fn connect_slack_of(cx: &CommandContext, config: &SlackConfig) -> Result<SlackReceiver, String> {
    let slack = known_slack(cx, config);
    open_slack(&slack, &slack.credential.read()?)
}

fn known_slack(cx: &CommandContext, config: &SlackConfig) -> KnownSlack {
    let (SlackCredential::Webhook(source) | SlackCredential::Token(source)) = &config.access;
    let credential = CredentialPlace::new(cx, source);
    KnownSlack { config: config.clone(), credential, ca_file: resolve_ca_file(cx, config.ca_file.as_deref()) }
}

fn connect_webhook(name: &str, webhook: &KnownWebhook, secret: &str) -> Result<Arc<dyn Deliver>, String> {
    Ok(Arc::new(open_webhook(name, webhook, secret)?))
}

/// A configured receiver, for messages that are no items.
pub(super) fn connect_webhook_of(
    cx: &CommandContext,
    name: &str,
    config: &OutboundWebhook,
) -> Result<WebhookReceiver, String> {
    let known = known_webhook(cx, config);
    open_webhook(name, &known, &known.secret.read()?)
}

fn known_webhook(cx: &CommandContext, config: &OutboundWebhook) -> KnownWebhook {
    let secret = CredentialPlace::new(cx, &config.secret);
    KnownWebhook { config: config.clone(), secret, ca_file: resolve_ca_file(cx, config.ca_file.as_deref()) }
}

fn open_webhook(name: &str, webhook: &KnownWebhook, secret: &str) -> Result<WebhookReceiver, String> {
    let secret = SecretText::new(secret);
    let target =
        WebhookTarget { url: SecretText::new(&webhook.config.url), secret, repeats: WebhookRepeats::default() };
    let network = network(webhook.config.proxy.as_ref(), webhook.ca_file.as_ref());
    let targets = BTreeMap::from([(name.to_owned(), target)]);
    WebhookReceiver::new(&targets, &network, &now()).map_err(|error| error.to_string())
}

impl ForgeConnector for ForgeConnections {
    fn forge(&self, name: &str, origin: Option<&str>) -> Result<ConnectedForge, DeliverError> {
        let known =
            self.forges.get(name).ok_or_else(|| DeliverError::blocked(format!("forge `{name}` is not configured")))?;
        let connected = known.credential.read().and_then(|credential| {
            let (connection, route) = known.connection(origin, &credential)?;
            let make = |beside: Option<&RemoteForge>| match beside {
                Some(beside) => beside.connect_beside(&connection).map(Arc::new).map_err(|error| error.to_string()),
                None => connect(&connection).map(Arc::new),
            };
            let account = account(name, &(&known.config, &known.ca_file));
            Ok((self.clients.forges.get((&account, &connection.repository), &credential, make)?, route))
        });
        let (forge, route) =
            connected.map_err(|why| DeliverError::blocked(format!("forge `{name}` cannot be used: {why}")))?;
        Ok(ConnectedForge { deliver: Arc::clone(&forge) as Arc<dyn Deliver>, read: forge, route })
    }

    fn destination(&self, name: &str, origin: Option<&str>) -> Option<String> {
        let config = &self.forges.get(name)?.config;
        let repository = config.repository_at(origin).ok()?;
        let (kind, api, push) = (config.kind.word(), &config.api_url, config.push_url(&repository));
        Some(format!("{kind} `{repository}` at {api}, pushed to {push}"))
    }

    fn messenger(&self, item: &StagedItem) -> Result<Option<Arc<dyn Deliver>>, DeliverError> {
        let blocked = |what: String| move |why| DeliverError::blocked(format!("{what} cannot be used: {why}"));
        match (item.kind, &self.slack, &item.target) {
            (ActionKind::Slack, Some(slack), _) => {
                let receiver = slack.credential.read().and_then(|credential| {
                    let account = account("slack", &(&slack.config, &slack.ca_file));
                    self.clients.messengers.get((&account, ""), &credential, |_| connect_slack(slack, &credential))
                });
                receiver.map(Some).map_err(blocked("slack".to_owned()))
            }
            (ActionKind::Webhook, _, Some(name)) => {
                let Some(webhook) = self.webhooks.get(name) else { return Ok(None) };
                let receiver = webhook.secret.read().and_then(|secret| {
                    let account = account("webhook", &(&webhook.config, &webhook.ca_file));
                    self.clients.messengers.get((&account, name), &secret, |_| connect_webhook(name, webhook, &secret))
                });
                receiver.map(Some).map_err(blocked(format!("webhook `{name}`")))
            }
            _ => Ok(None),
        }
    }
}

/// Passes the configured forges to the engine, and their credentials to the list of values that may not leave.
pub(super) fn add_forges(cx: &CommandContext, effective: &EffectiveConfig, settings: &mut EngineSettings) {
    let config = effective.config();
    let forges = known_forges(cx, config);
    let slack = config.slack.as_ref().map(|slack| known_slack(cx, slack));
    let webhooks = config.webhooks_out.iter().map(|(name, config)| (name.clone(), known_webhook(cx, config)));
    let webhooks: BTreeMap<_, _> = webhooks.collect();
    let places = forges.values().map(|forge| &forge.credential).chain(slack.iter().map(|slack| &slack.credential));
    let places = places.chain(webhooks.values().map(|webhook| &webhook.secret));
    let mut secrets: Vec<String> = places.filter_map(|place| place.read().ok()).collect();
    secrets.extend(notification_secrets(cx, config));
    secrets.extend(webhooks.values().map(|webhook| webhook.config.url.clone()));
    let paths: Vec<String> = secrets.iter().filter_map(|secret| secret_path(secret)).collect();
    for secret in secrets.iter().chain(&paths) {
        settings.known_secrets = settings.known_secrets.clone().with("FORGE", secret);
    }
    let clients = cx.clients();
    settings.forges = Some(Arc::new(ForgeConnections { forges, slack, webhooks, clients }));
}

/// The name of an account with its configuration: a client of an old address must not be used for a new one.
fn account(name: &str, config: &dyn std::fmt::Debug) -> String {
    hash_fields(&[name.as_bytes(), format!("{config:?}").as_bytes()])
}

/// The part of a webhook's address that makes it a secret: everything after the host. A short path is a word such as
/// `/deploy`, which would be removed from every text.
fn secret_path(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    (path.len() >= SECRET_PATH_MIN).then(|| path.to_owned())
}

/// A path that cannot be resolved is passed on, so that the connection reports it.
pub(super) fn resolve_ca_file(cx: &CommandContext, path: Option<&str>) -> Option<PathBuf> {
    path.map(|path| cx.user_path(path).unwrap_or_else(|_| PathBuf::from(path)))
}

fn known_forges(cx: &CommandContext, config: &ConfigLayer) -> BTreeMap<String, KnownForge> {
    let known = config.forges.iter().map(|(name, config)| {
        let ca_file = resolve_ca_file(cx, config.ca_file.as_deref());
        let credential = CredentialPlace::new(cx, &credential_location(config));
        (name.clone(), KnownForge { config: config.clone(), credential, ca_file })
    });
    known.collect()
}

/// Checks every configured forge without changing anything there. `repo` is the repository around the current
/// folder, if there is one.
pub(crate) async fn inspect_forges(
    cx: &CommandContext,
    repo: Option<&UserRepo>,
) -> Result<Vec<(String, Result<Vec<ForgeFinding>, String>)>, CommandError> {
    let known = known_forges(cx, cx.config(None)?.config());
    let (mut origin, mut branch) = (None, None);
    if let (Some(repo), false) = (repo, known.is_empty()) {
        origin = cx.git().origin_url(repo).await?;
        // A repository without commits has no base yet.
        branch = cx.git().head(repo, None).await.ok().and_then(|head| head.branch);
    }
    let branch = branch.as_deref().unwrap_or("main");
    let mut findings = Vec::new();
    for (name, forge) in known {
        let connected = forge.credential.read().and_then(|credential| {
            let (mut connection, _) = forge.connection(origin.as_deref(), &credential)?;
            connection.network.total_timeout = INSPECTION_TIMEOUT;
            connect(&connection)
        });
        let found = match connected {
            Ok(forge) => Ok(forge.inspect(branch).await),
            Err(why) => Err(why),
        };
        findings.push((name, found));
    }
    Ok(findings)
}

impl LoopPreflight {
    /// The forge and the messengers that a loop needs: refused if they are not configured, a note if a credential is
    /// missing on this machine.
    pub(super) async fn check_forge(
        &mut self,
        file: &CheckedLoopFile,
        cache: &mut PreflightCache<'_>,
    ) -> Result<(), CommandError> {
        let spec = file.spec.spec();
        // A broken configuration is reported elsewhere.
        let Some(effective) = cache.config.clone() else { return Ok(()) };
        self.check_asking(file, cache, effective.config());
        if spec.forge == "local" {
            return Ok(());
        }
        let mut problems = check_messengers(spec, effective.config());
        match effective.config().forges.get(&spec.forge) {
            None => problems.push(unknown_forge(&spec.forge, effective.config())),
            Some(forge) => {
                let origin = cache.origin().await?;
                problems.extend(forge.repository_at(origin.as_deref()).err().map(|why| {
                    let hint = format!("`forges: {{ {}: {{ repository: owner/name }} }}`", spec.forge);
                    (format!("forge `{}`: {why}", spec.forge), hint)
                }));
                self.notes.extend(credential_note(cache, &spec.forge, forge));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let text = cache.text(file);
        let problem = |(what, hint): (String, String)| {
            FileProblem::for_file(&file.file, what).with_hint(hint).located_at(&text, &spec.forge)
        };
        self.problems.extend(problems.into_iter().map(problem));
        Ok(())
    }
}

/// The note about a credential that this machine lacks.
fn credential_note(cache: &mut PreflightCache<'_>, name: &str, forge: &ForgeConfig) -> Option<String> {
    if let Some(known) = cache.credential_notes.get(name) {
        return known.clone();
    }
    let credential = CredentialPlace::new(cache.cx, &credential_location(forge)).read();
    let note = credential.err().map(|why| format!("forge `{name}`: {why}"));
    cache.credential_notes.insert(name.to_owned(), note.clone());
    note
}

fn unknown_forge(name: &str, config: &ConfigLayer) -> (String, String) {
    let known: Vec<&str> = config.forges.keys().map(String::as_str).collect();
    let what = match known.as_slice() {
        [] => format!("forge `{name}` is not configured"),
        known => format!("forge `{name}` is not configured; configured are: {}", known.join(", ")),
    };
    let (kind, variable) = match ForgeKind::parse(name) {
        Some(kind) => ("", format!("{}_TOKEN", kind.word().to_uppercase())),
        None => ("kind: github, ", "GITHUB_TOKEN".to_owned()),
    };
    let hint = format!("write into your own configuration: `forges: {{ {name}: {{ {kind}token_env: {variable} }} }}`");
    (what, hint)
}

/// The messengers that a loop's outputs need and that are not configured.
fn check_messengers(spec: &LoopSpec, config: &ConfigLayer) -> Vec<(String, String)> {
    let sends = |kind: ActionKind| spec.output.iter().find(|output| output.kind == kind);
    let mut problems = Vec::new();
    if sends(ActionKind::Slack).is_some() && config.slack.is_none() {
        let hint = "write into your own configuration: `slack: { webhook_env: SLACK_WEBHOOK_URL }`".to_owned();
        problems.push(("`output` has slack, and no `slack` is configured".to_owned(), hint));
    }
    for target in sends(ActionKind::Webhook).into_iter().flat_map(|output| &output.targets) {
        if !config.webhooks_out.contains_key(target) {
            let hint = format!("`webhooks_out: {{ {target}: {{ url: https://…, secret_env: NAME }} }}`");
            problems.push((format!("webhook `{target}` is not configured"), hint));
        }
    }
    problems
}

fn credential_location(forge: &ForgeConfig) -> KeySource {
    match &forge.access {
        ForgeAccess::Token(source) => source.clone(),
        ForgeAccess::App { app } => KeySource::File(app.key_file.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::config::read_config_file;

    fn connections(clients: &SharedClients, host: &str) -> ForgeConnections {
        let text =
            format!("forges: {{ work: {{ kind: github, url: https://{host}, repository: a/b, token_env: T }} }}\n");
        let layer = read_config_file("config.yaml", text.as_bytes()).expect("a configuration");
        let config = layer.forges.get("work").expect("a forge").clone();
        let known = KnownForge { config, credential: CredentialPlace::Fixed(Ok("t".to_owned())), ca_file: None };
        let forges = BTreeMap::from([("work".to_owned(), known)]);
        ForgeConnections { forges, slack: None, webhooks: BTreeMap::new(), clients: clients.clone() }
    }

    #[test]
    fn rounds_of_a_daemon_share_a_client_until_its_configuration_changes() {
        let clients = SharedClients::default();
        let client = |host: &str| connections(&clients, host).forge("work", None).expect("a forge").read;
        let first = client("one.example");
        assert!(Arc::ptr_eq(&first, &client("one.example")), "a limit and a lost answer are known to every round");
        assert!(!Arc::ptr_eq(&first, &client("two.example")), "a client of an old address is not used again");
    }
}

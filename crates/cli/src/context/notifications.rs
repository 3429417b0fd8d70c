//! Sends one message to the receiver of a route. Credentials are read for each message, so that a new one takes effect in a
//! running daemon.

use super::CommandContext;
use super::forge_clients::CredentialPlace;
use super::forges::{connect_slack_of, connect_webhook_of, now, resolve_ca_file};
use crate::error::CommandError;
use crate::notify::message_document;
use loopwright::deliver::DeliverError;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, SpawnRequest, StdinSource, TreeCookie, base_env};
use loopwright::seam::Seam;
use loopwright_core::config::{
    ConfigLayer, KeySource, MailConfig, MailSecurity, NotifyReceiver, NotifyRoute, SlackCredential,
};
use loopwright_core::notify::{NotifySeverity, QueuedNotification};
use loopwright_forge::{
    MailMessage, MailSender, MailServer, MailTls, NetworkSettings, SecretText, SlackMessage, TelemetryCollector,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes that a program may print.
const COMMAND_OUTPUT_MAX: u64 = 1 << 20;

/// The program that shows a message on the desktop.
const DESKTOP_PROGRAM: &str = "notify-send";

impl CommandContext {
    /// Sends a message.
    pub(crate) async fn send_notification(
        &self,
        route: &NotifyRoute,
        item: &QueuedNotification,
    ) -> Result<(), DeliverError> {
        // An id counts the messages of one state directory; receivers see those of several.
        let key = format!("{}-{}", item.id, item.created_ms);
        match &route.receiver {
            NotifyReceiver::Slack(config) => {
                let slack = connect_slack_of(self, config).map_err(DeliverError::blocked)?;
                let message =
                    SlackMessage { text: format!("{}\n{}", item.subject(), item.text()), ..SlackMessage::default() };
                slack.post(&message).await.map(drop)
            }
            NotifyReceiver::Webhook(config) => {
                let receiver = connect_webhook_of(self, &item.route, config).map_err(DeliverError::blocked)?;
                receiver.post(&item.route, &key, &message_document(item)).await.map(drop)
            }
            NotifyReceiver::Command(words) => self.run_notification(words, item).await,
            NotifyReceiver::Email(config) => {
                let sender = mail_sender(self, config).map_err(DeliverError::blocked)?;
                let (from, to) = (config.from.clone(), config.to.clone());
                let message = MailMessage { id: key, from, to, subject: item.subject(), text: item.text() };
                sender.send(&message).await
            }
            NotifyReceiver::Desktop(_) => self.show_notification(item).await,
        }
    }

    async fn run_notification(&self, words: &[String], item: &QueuedNotification) -> Result<(), DeliverError> {
        let (program, args) = words.split_first().ok_or_else(|| DeliverError::blocked("`command` is empty"))?;
        let mut spawn = self.notification_program(Path::new(program));
        spawn.args = args.iter().map(Into::into).collect();
        spawn.stdin = StdinSource::Bytes(format!("{:#}\n", message_document(item)).into_bytes());
        finish(program, spawn).await
    }

    async fn show_notification(&self, item: &QueuedNotification) -> Result<(), DeliverError> {
        let folders = std::env::split_paths(&self.env.path);
        let found =
            folders.map(|folder| folder.join(DESKTOP_PROGRAM)).find(|file| file.is_absolute() && file.is_file());
        let program = found.ok_or_else(|| {
            DeliverError::blocked(format!(
                "there is no program `{DESKTOP_PROGRAM}`; on Debian: apt install libnotify-bin"
            ))
        })?;
        let urgency = match item.severity() {
            NotifySeverity::Urgent => "critical",
            NotifySeverity::Warning => "normal",
            NotifySeverity::Info => "low",
        };
        // The program reads escapes in the text, and servers read it as markup.
        let text = item.text().replace('\\', "\\\\").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut spawn = self.notification_program(&program);
        let urgency = format!("--urgency={urgency}");
        spawn.args = ["--app-name=Loopwright", &urgency, "--", &item.subject(), &text].map(Into::into).to_vec();
        spawn.env.extend(self.env.screen.iter().map(|(name, value)| ((*name).into(), value.clone())));
        finish(DESKTOP_PROGRAM, spawn).await
    }

    /// A program of the user's own configuration: it gets the user's home and search path, and nothing else.
    fn notification_program(&self, program: &Path) -> SpawnRequest {
        let home = self.env.home.clone().unwrap_or_else(|| PathBuf::from("/"));
        let mut spawn = SpawnRequest::new(program, &home, TreeCookie::new("lw-notify"));
        spawn.env = base_env(&home, &std::env::temp_dir(), &[]);
        spawn.env.insert("PATH".into(), self.env.path.clone());
        (spawn.limits.wall, spawn.limits.output_max) = (Some(COMMAND_TIMEOUT), COMMAND_OUTPUT_MAX);
        spawn
    }
}

impl CommandContext {
    /// The configured collector of telemetry; `None` without one.
    pub(crate) fn telemetry_collector(&self) -> Result<Option<TelemetryCollector>, CommandError> {
        let effective = self.config(None)?;
        let Some(config) = &effective.config().telemetry else { return Ok(None) };
        let wrong = |why: String| CommandError::invalid(why).hint("see `telemetry` in your own configuration");
        let header = |(name, source): (&String, &KeySource)| {
            let value = CredentialPlace::new(self, source).read();
            value.map(|value| (name.clone(), SecretText::new(value))).map_err(|why| wrong(format!("`{name}`: {why}")))
        };
        let headers = config.headers.iter().map(header).collect::<Result<Vec<_>, _>>()?;
        let opened = TelemetryCollector::new(&config.endpoint, &headers, &NetworkSettings::default(), now());
        opened.map(Some).map_err(|error| wrong(error.to_string()))
    }
}

async fn finish(program: &str, spawn: SpawnRequest) -> Result<(), DeliverError> {
    let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await;
    let ended = ended.map_err(|error| DeliverError::blocked(format!("start `{program}`: {error}")))?;
    let how = match ended.how {
        RunEnd::Exited(0) => return Ok(()),
        RunEnd::Exited(code) => format!("exited with {code}"),
        RunEnd::Wall => format!("did not end within {} s", COMMAND_TIMEOUT.as_secs()),
        _ => "did not end by itself".to_owned(),
    };
    let said = ended.stderr.to_lossy_string();
    let last: String =
        said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(200).collect();
    let said = if last.is_empty() { last } else { format!(": {}", crate::output::safe(&last)) };
    Err(DeliverError::transient(format!("`{program}` {how}{said}")))
}

fn mail_sender(cx: &CommandContext, config: &MailConfig) -> Result<MailSender, String> {
    let tls = match config.security {
        MailSecurity::Starttls => MailTls::Starttls,
        MailSecurity::Tls => MailTls::Whole,
        MailSecurity::None => MailTls::None,
    };
    let login = match (&config.user, &config.password) {
        (Some(user), Some(source)) => Some((user.clone(), SecretText::new(CredentialPlace::new(cx, source).read()?))),
        _ => None,
    };
    let ca_file = resolve_ca_file(cx, config.ca_file.as_deref());
    let server = MailServer { host: config.server.clone(), port: config.port, tls, login, ca_file };
    MailSender::new(&server).map_err(|error| error.to_string())
}

/// The credentials of all routes and of the collector of telemetry that can be read, so that none of them leaves with a
/// change.
pub(super) fn notification_secrets(cx: &CommandContext, config: &ConfigLayer) -> Vec<String> {
    let of_routes = config.notify.values().filter_map(|route| match &route.receiver {
        NotifyReceiver::Slack(config) => match &config.access {
            SlackCredential::Webhook(source) | SlackCredential::Token(source) => Some(source),
        },
        NotifyReceiver::Webhook(config) => Some(&config.secret),
        NotifyReceiver::Email(config) => config.password.as_ref(),
        NotifyReceiver::Command(_) | NotifyReceiver::Desktop(_) => None,
    });
    let of_telemetry = config.telemetry.iter().flat_map(|telemetry| telemetry.headers.values());
    let read = of_routes.chain(of_telemetry).filter_map(|source| CredentialPlace::new(cx, source).read().ok());
    let addresses = config.notify.values().filter_map(|route| match &route.receiver {
        NotifyReceiver::Webhook(config) => Some(config.url.clone()),
        _ => None,
    });
    read.chain(addresses).collect()
}

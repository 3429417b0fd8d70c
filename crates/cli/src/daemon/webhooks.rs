//! The listener for webhook deliveries as currently configured. Its address is fixed at the start; secrets and people
//! are updated whenever the configuration is read.

use super::daemon_log::DaemonLog;
use crate::context::{CommandContext, webhook_options};
use crate::error::CommandError;
use loopwright::clock::Clock;
use loopwright::git::Git;
use loopwright::triggers::{self, BoundWebhookServer, WatchedRepo, WebhookOptions, WebhookServer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The listener, if one is configured.
pub(super) struct DaemonWebhooks {
    /// The address on the command line, which overrides the configuration.
    listen: Option<SocketAddr>,
    /// It has its address and does not answer yet.
    bound: Option<BoundWebhookServer>,
    running: Option<WebhookServer>,
    /// The last warning about a configuration that is not, or only partly, in effect.
    last_warning: Option<String>,
    /// Events that loops wait for and that no source sends, as far as they were reported.
    warned_events: BTreeSet<String>,
}

impl DaemonWebhooks {
    /// Binds the configured address. An unavailable address is an error, and so is a listener without any secret.
    pub(super) async fn bind(cx: &CommandContext, listen: Option<SocketAddr>) -> Result<Self, CommandError> {
        let mut own = Self { listen, bound: None, running: None, last_warning: None, warned_events: BTreeSet::new() };
        let Some(options) = webhook_options(cx, listen)? else { return Ok(own) };
        if options.secrets.is_empty() {
            let hint =
                "add `webhooks: { secrets: { github: { env: GITHUB_WEBHOOK_SECRET } } }` to your own configuration";
            return Err(CommandError::invalid(NO_SECRET).hint(hint));
        }
        let (address, bound) = (options.listen, WebhookServer::bind(options).await);
        let failed = |error| CommandError::failed(format!("listen for webhooks at {address}: {error}"));
        own.bound = Some(bound.map_err(failed)?);
        Ok(own)
    }

    /// Starts to answer.
    pub(super) fn serve(&mut self, clock: &Arc<dyn Clock>, ears: &Arc<dyn triggers::Signals>) {
        self.running = self.bound.take().map(|bound| bound.serve(Arc::clone(clock), Arc::clone(ears)));
    }

    /// Logs the address of the listener.
    pub(super) fn log_address(&self, daemon_log: &DaemonLog) {
        let Some(running) = &self.running else { return };
        let address = running.address();
        daemon_log.log("webhooks", &format!("listening at http://{address}/hooks/"));
        if let Some(text) = exposure_warning(address) {
            daemon_log.warn(&text);
        }
    }

    /// Passes events to these loops and no others.
    pub(super) async fn set_loops(&self, git: &Git, watched: &[WatchedRepo]) {
        if let Some(running) = &self.running {
            running.set_loops(git, watched).await;
        }
    }

    /// Reports once each event that loops wait for and that never arrives, because its source has no secret here or no
    /// listener runs.
    pub(super) fn warn_about_unreceived_events(&mut self, watched: &[WatchedRepo], daemon_log: &DaemonLog) {
        let taken: Vec<String> = self
            .running
            .as_ref()
            .map(|running| running.options().secrets.keys().cloned().collect())
            .unwrap_or_default();
        for one in watched.iter().flat_map(|watched| &watched.loops) {
            for event in one.on.webhook.iter().filter(|event| !taken.iter().any(|source| is_sent_by(source, event))) {
                let text = format!("{} waits for {event}, but no webhook delivers that: {SET_UP}", one.name);
                if self.warned_events.insert(text.clone()) {
                    daemon_log.warn(&text);
                }
            }
        }
    }

    /// Applies the secrets and people as configured now. Unusable ones leave the previous ones in use; each problem is
    /// reported once.
    pub(super) fn reload_config(&mut self, cx: &CommandContext, daemon_log: &DaemonLog) {
        let trouble = match (webhook_options(cx, self.listen), &self.running) {
            (Ok(Some(options)), None) => Some(format!("nothing listens at {}: {RESTART}", options.listen)),
            (Ok(Some(options)), Some(running)) => {
                let before = running.options().listen;
                let moved = format!("the webhook listener is at {before}, not at {}: {RESTART}", options.listen);
                let trouble = match (options.secrets.is_empty(), options.listen == before) {
                    (true, _) => Some(NO_SECRET.to_owned()),
                    (false, false) => Some(moved),
                    (false, true) => None,
                };
                running.update_options(WebhookOptions { listen: before, ..options });
                trouble
            }
            (Ok(None), Some(running)) => {
                // If the configuration has no webhooks any more, every delivery is refused.
                running.update_options(WebhookOptions::new(running.options().listen));
                Some(format!("every delivery is refused now, but {} still listens: {RESTART}", running.address()))
            }
            (Err(error), Some(_)) => Some(format!("{}; the previous webhook secrets stay in use", error.text)),
            // The code that reads the loops reports an unreadable configuration.
            (Ok(None) | Err(_), None) => None,
        };
        if let Some(text) = trouble.as_ref().filter(|text| self.last_warning.as_ref() != Some(text)) {
            daemon_log.warn(text);
        }
        self.last_warning = trouble;
    }
}

const NO_SECRET: &str = "every delivery would be refused: there is no webhook secret";

/// The hint for an event that no source sends.
const SET_UP: &str = "set `webhooks.listen` and `webhooks.secrets` in your own configuration";

/// Whether a source that has a secret sends an event: `github` all of its own, `generic.deploy` only that one.
fn is_sent_by(source: &str, event: &str) -> bool {
    let (from, name) = event.split_once('.').unwrap_or((event, ""));
    match source.split_once('.') {
        None => from == "*" || from == source,
        Some((kind, own)) => {
            let is_own =
                name == "*" || name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            (from == "*" || from == kind) && is_own
        }
    }
}

/// The hint for an address that changed.
const RESTART: &str = "restart the daemon to use the configured address";

/// The warning about a listener that other machines can reach.
fn exposure_warning(address: SocketAddr) -> Option<String> {
    let text = || format!("{address} is open to other machines, and without TLS: use a proxy with TLS in front of it");
    (!address.ip().is_loopback()).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_sends_its_own_events_and_no_others() {
        for event in ["github.push", "github.*", "github.workflow_run.failure", "*.push"] {
            assert!(is_sent_by("github", event) && !is_sent_by("gitlab", &event.replace('*', "x")), "{event}");
        }
        assert!(["generic.deploy", "generic.*", "*.*"].iter().all(|event| is_sent_by("generic.deploy", event)));
        assert!(
            ["generic.deployed", "generic.other", "github.deploy"]
                .iter()
                .all(|event| !is_sent_by("generic.deploy", event))
        );
    }

    #[test]
    fn a_listener_beyond_loopback_is_reported() {
        let warns = |address: &str| exposure_warning(address.parse().expect("an address")).is_some();
        assert!(!warns("127.0.0.1:8787") && !warns("[::1]:8787"));
        assert!(warns("0.0.0.0:8787") && warns("[::]:8787") && warns("192.0.2.1:80"));
    }
}

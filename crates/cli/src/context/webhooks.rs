//! Inbound webhooks as this user has them. Secrets are read from the places that the configuration names. They go only
//! to the listener and to the list of values that no record or message may contain.

use super::CommandContext;
use crate::error::CommandError;
use loopwright::triggers::{WebhookOptions, WebhookSecret};
use loopwright_core::config::{SecretLocation, WebhooksConfig};
use std::net::SocketAddr;

impl CommandContext {
    /// The options of a listener for deliveries; `None` when neither the flag nor the configuration names an address.
    /// Without a secret, every delivery is refused.
    pub(crate) fn webhooks(&self, listen: Option<SocketAddr>) -> Result<Option<WebhookOptions>, CommandError> {
        let config = self.config(None)?.config().webhooks.clone();
        let Some(listen) = listen.or(config.listen) else { return Ok(None) };
        let mut options = WebhookOptions::new(listen);
        for (source, place) in &config.secrets {
            let secret = self.webhook_secret(place).map_err(|why| {
                CommandError::invalid(format!("the webhook secret of `{source}`: {why}"))
                    .hint("`webhooks.secrets` in your own configuration names the file or variable that has it")
            })?;
            options.secrets.insert(source.clone(), secret);
        }
        options.trusted = config.trusted;
        options.own = config.own;
        Ok(Some(options))
    }

    /// The texts of all secrets that can be read.
    pub(super) fn webhook_secrets(&self, config: &WebhooksConfig) -> Vec<String> {
        let places = config.secrets.values().flat_map(|place| [Some(&place.now), place.previous.as_ref()]);
        places.flatten().filter_map(|source| Some(self.read_secret(source).ok()?.0.trim().to_owned())).collect()
    }

    fn webhook_secret(&self, place: &SecretLocation) -> Result<WebhookSecret, String> {
        let read = |source| self.read_secret(source).map(|(text, _)| text);
        let secret = WebhookSecret::new(&read(&place.now)?).map_err(|error| error.to_string())?;
        match &place.previous {
            Some(before) => secret.or_previous(&read(before)?).map_err(|error| error.to_string()),
            None => Ok(secret),
        }
    }
}

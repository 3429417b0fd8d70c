//! What one start of an agent shows to the proxy: a token of its own, worth the providers that this agent asks and nothing
//! else, for as long as the start lasts. What their answers cost is counted on it.

use super::EgressError;
use super::key::GrantToken;
use super::proxy_state::ProxyState;
use super::usage::UsageTally;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Somebody who may ask.
#[derive(Debug)]
pub(super) struct ActiveGrant {
    pub(super) token: Arc<GrantToken>,
    pub(super) providers: Vec<String>,
    pub(super) tally: UsageTally,
}

/// The pass of one start. Its token is worth nothing once the start is over, or this is dropped.
#[derive(Debug)]
pub struct ProviderGrant {
    shared: Arc<ProxyState>,
    token: Arc<GrantToken>,
    urls: BTreeMap<String, String>,
    tally: UsageTally,
}

impl ProviderGrant {
    /// A pass to those of these providers that the proxy has; `address` is where programs meet it.
    pub(super) fn new(shared: &Arc<ProxyState>, address: &str, names: &[&str]) -> Result<Self, EgressError> {
        let token = Arc::new(GrantToken::new().map_err(EgressError::Token)?);
        let known = shared.providers.iter().map(super::ModelProvider::name).filter(|name| names.contains(name));
        let urls: BTreeMap<_, _> = known.map(|name| (name.to_owned(), format!("{address}/provider/{name}"))).collect();
        let tally = UsageTally::default();
        let providers = urls.keys().cloned().collect();
        shared.grants().push(ActiveGrant { token: Arc::clone(&token), providers, tally: tally.clone() });
        Ok(Self { shared: Arc::clone(shared), token, urls, tally })
    }

    /// What its holder shows instead of a key.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.text()
    }

    /// Where its providers are, as programs of the round see them.
    #[must_use]
    pub fn urls(&self) -> &BTreeMap<String, String> {
        &self.urls
    }

    /// The start is over: the token is worth nothing from now on, whoever still holds this.
    pub(crate) fn end(&self) {
        self.shared.grants().retain(|guest| !Arc::ptr_eq(&guest.token, &self.token));
        self.tally.close();
    }

    /// What their answers cost.
    pub(crate) fn tally(&self) -> &UsageTally {
        &self.tally
    }
}

impl Drop for ProviderGrant {
    fn drop(&mut self) {
        self.end();
    }
}

//! Access to model providers for one start of an agent: a token of its own, valid only for the providers of this agent
//! and only during the start. The usage of the answers is counted on it.

use super::exchange_log::ExchangeLog;
use super::key::GrantToken;
use super::proxy_state::ProxyState;
use super::usage::UsageTally;
use super::{CloudApi, EgressError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A start that may send requests to providers.
#[derive(Debug)]
pub(super) struct ActiveGrant {
    pub(super) token: Arc<GrantToken>,
    pub(super) providers: Vec<String>,
    pub(super) records: GrantRecords,
}

/// The records of one start: its usage, and its exchanges with providers.
#[derive(Debug, Clone, Default)]
pub(super) struct GrantRecords {
    pub(super) tally: UsageTally,
    pub(super) exchanges: ExchangeLog,
}

/// The access of one start. Its token is invalid once the start is over, or this is dropped.
#[derive(Debug)]
pub struct ProviderGrant {
    shared: Arc<ProxyState>,
    token: Arc<GrantToken>,
    urls: BTreeMap<String, String>,
    clouds: BTreeMap<String, CloudApi>,
    records: GrantRecords,
}

impl ProviderGrant {
    /// Access to those of these providers that the proxy has; `address` is the proxy's address for programs.
    pub(super) fn new(shared: &Arc<ProxyState>, address: &str, names: &[&str]) -> Result<Self, EgressError> {
        let token = Arc::new(GrantToken::new().map_err(EgressError::Token)?);
        let known = shared.providers.iter().map(super::ModelProvider::name).filter(|name| names.contains(name));
        let urls: BTreeMap<_, _> = known.map(|name| (name.to_owned(), format!("{address}/provider/{name}"))).collect();
        let granted = shared.providers.iter().filter(|provider| urls.contains_key(provider.name()));
        let clouds = granted.filter_map(|provider| Some((provider.name().to_owned(), provider.cloud_api()?))).collect();
        let records = GrantRecords::default();
        let providers = urls.keys().cloned().collect();
        shared.grants().push(ActiveGrant { token: Arc::clone(&token), providers, records: records.clone() });
        Ok(Self { shared: Arc::clone(shared), token, urls, clouds, records })
    }

    /// The token that its holder sends instead of a key.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.text()
    }

    /// The URLs of its providers, as programs of the round see them.
    #[must_use]
    pub fn urls(&self) -> &BTreeMap<String, String> {
        &self.urls
    }

    /// Those of its providers that are clouds with an interface of their own.
    #[must_use]
    pub fn clouds(&self) -> &BTreeMap<String, CloudApi> {
        &self.clouds
    }

    /// Ends the start: the token is invalid from now on, even if this value still exists.
    pub(crate) fn end(&self) {
        self.shared.grants().retain(|guest| !Arc::ptr_eq(&guest.token, &self.token));
        self.records.tally.close();
    }

    /// The usage of the answers.
    pub(crate) fn tally(&self) -> &UsageTally {
        &self.records.tally
    }

    /// Its exchanges with providers.
    pub(crate) fn exchanges(&self) -> &ExchangeLog {
        &self.records.exchanges
    }
}

impl Drop for ProviderGrant {
    fn drop(&mut self) {
        self.end();
    }
}

//! Providers that want more than a key: Amazon's signs each request, Google Cloud's takes a token that lasts an hour. The
//! credentials are used here, outside the sandbox, and are in no request, except a session token.

mod aws;
mod google;

use super::dial::{AddressBound, ConnectionStream, DialError};
use super::ledger::{ByteBudget, ConnectionAccount};
use super::proxy_state::ProxyState;
use aws::AwsSigner;
pub(super) use google::{GoogleTokens, TokenError};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use loopwright_core::network::NetworkTarget;
use std::sync::Arc;

/// Why a credential cannot be used. The message does not contain it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignerError(String);

/// How requests to a provider are authorized, if not by a key.
#[derive(Clone)]
pub enum RequestSigner {
    /// Signature Version 4 of Amazon Web Services.
    Aws(Arc<AwsSigner>),
    /// Tokens of Google Cloud.
    Google(Arc<GoogleTokens>),
}

impl std::fmt::Debug for RequestSigner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Aws(_) => "Aws(…)",
            Self::Google(_) => "Google(…)",
        })
    }
}

impl RequestSigner {
    /// Signs for this region with the profile of a credentials file in Amazon's format.
    ///
    /// # Errors
    /// When the profile has no access key, or a value is not valid in a header.
    pub fn aws(credentials: &str, profile: &str, region: &str) -> Result<Self, SignerError> {
        Ok(Self::Aws(Arc::new(AwsSigner::new(credentials, profile, region)?)))
    }

    /// Gets tokens with the key of a service account or the sign-in of a user, both in Google's JSON format.
    ///
    /// # Errors
    /// When the text is neither.
    pub fn google(credentials: &str) -> Result<Self, SignerError> {
        Ok(Self::Google(Arc::new(GoogleTokens::new(credentials)?)))
    }

    /// The parts that no text of a round may contain.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Self::Aws(signer) => signer.secrets(),
            Self::Google(tokens) => tokens.secrets(),
        }
    }

    /// The region for which requests are signed.
    pub(super) fn region(&self) -> Option<&str> {
        if let Self::Aws(signer) = self { Some(signer.region()) } else { None }
    }
}

/// The parts of a request that its signature covers. Its headers are changed: those of an earlier signature go.
pub(super) struct UnsignedRequest<'r> {
    pub(super) method: &'r str,
    /// The path and the query as they are sent.
    pub(super) target: &'r str,
    pub(super) headers: &'r mut HeaderMap,
    pub(super) body: &'r [u8],
}

/// A secret header, which nothing prints.
fn secret_header(text: &str) -> Result<HeaderValue, SignerError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| SignerError("a header cannot carry it".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Headers of a signature that the agent's own client made.
pub(super) const SIGNATURE_HEADERS: [&str; 4] =
    ["x-amz-date", "x-amz-security-token", "x-amz-content-sha256", "x-goog-user-project"];

pub(super) fn remove_signature(headers: &mut HeaderMap) {
    SIGNATURE_HEADERS.iter().for_each(|name| drop(headers.remove(HeaderName::from_static(name))));
}

/// A server of tokens.
struct TokenServer {
    is_tls: bool,
    target: NetworkTarget,
}

impl TokenServer {
    async fn wire(&self, shared: &ProxyState) -> Result<Box<dyn ConnectionStream>, DialError> {
        match self.is_tls {
            false => Ok(Box::new(shared.dialer.tcp(&self.target, AddressBound::Trusted).await?)),
            true => shared.dialer.tls(&self.target, AddressBound::Trusted).await,
        }
    }

    fn account(&self, shared: &ProxyState, provider: &str) -> ConnectionAccount {
        let whom = format!("provider/{provider}");
        ConnectionAccount::new(&shared.ledger, shared.limits, ByteBudget::Providers, (&whom, self.target.port), "POST")
    }
}

#[cfg(test)]
mod tests;

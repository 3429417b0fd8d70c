//! The proof in a request that its provider may serve it: a key, a signature over the whole request, or a
//! token that lasts an hour.

use super::body::{AnyBody, MeteredBody, text_body};
use super::key::ProviderKey;
use super::provider::ModelProvider;
use super::proxy_state::ProxyState;
use super::signing::{GoogleTokens, RequestSigner, SignerError, TokenError, UnsignedRequest};
use crate::clock::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};
use std::sync::Arc;

/// Bytes of a request that is signed as a whole. Amazon accepts up to 25 MB.
const SIGNED_MAX: usize = 32 << 20;

/// The proof of one request.
pub(super) enum RequestTicket<'p> {
    /// The provider's key is already in a header, or none is needed.
    Key,
    /// The request will be signed.
    Signature(&'p RequestSigner),
    /// This token.
    Token(String),
}

impl<'p> RequestTicket<'p> {
    pub(super) async fn issue(shared: &Arc<ProxyState>, provider: &'p ModelProvider) -> Result<Self, TokenError> {
        match &provider.signer {
            None => Ok(Self::Key),
            Some(signer @ RequestSigner::Aws(_)) => Ok(Self::Signature(signer)),
            Some(RequestSigner::Google(tokens)) => Ok(Self::Token(tokens.token(shared, provider.name()).await?)),
        }
    }

    /// Puts the proof into a request, which gets its body here: a signature covers it.
    pub(super) async fn authorize(
        &self,
        mut request: Request<()>,
        body: MeteredBody,
    ) -> Result<Request<AnyBody>, (StatusCode, String)> {
        let broken = |error: SignerError| (StatusCode::BAD_GATEWAY, error.to_string());
        match self {
            Self::Key => {}
            Self::Token(token) => GoogleTokens::put(token, request.headers_mut()).map_err(broken)?,
            Self::Signature(signer) => return sign(signer, request, body).await,
        }
        Ok(request.map(|()| body.boxed_unsync()))
    }

    /// The provider does not accept it.
    pub(super) async fn reject(&self, provider: &ModelProvider) {
        if let Some(RequestSigner::Google(tokens)) = &provider.signer {
            tokens.forget().await;
        }
    }

    /// The secret that the request contains, to remove it from the answer.
    pub(super) fn sent_secret(&self, provider: &ModelProvider) -> ProviderKey {
        let sent = match self {
            Self::Key => return provider.key.clone(),
            Self::Token(token) => Some(token.as_str()),
            Self::Signature(RequestSigner::Aws(signer)) => signer.sent_secret(),
            Self::Signature(RequestSigner::Google(_)) => None,
        };
        sent.and_then(|text| ProviderKey::new(text).ok()).unwrap_or_else(ProviderKey::keyless)
    }
}

async fn sign(
    signer: &RequestSigner,
    mut request: Request<()>,
    body: MeteredBody,
) -> Result<Request<AnyBody>, (StatusCode, String)> {
    let collected = Limited::new(body, SIGNED_MAX).collect().await;
    let body = collected.map_err(|error| unsigned(error.as_ref()))?.to_bytes();
    // The whole body is known now, also if the client sent it in parts.
    request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    let (method, target) = (request.method().clone(), request.uri().to_string());
    if let RequestSigner::Aws(signer) = signer {
        let headers = request.headers_mut();
        let unsigned = UnsignedRequest { method: method.as_str(), target: &target, headers, body: &body };
        let signed = signer.sign(unsigned, SystemClock.now_ms());
        signed.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?;
    }
    Ok(request.map(|()| text_body(body)))
}

/// Why a body could not be signed.
fn unsigned(error: &(dyn std::error::Error + 'static)) -> (StatusCode, String) {
    if error.is::<LengthLimitError>() {
        return (StatusCode::PAYLOAD_TOO_LARGE, format!("a request that is signed has at most {SIGNED_MAX} bytes"));
    }
    (StatusCode::BAD_GATEWAY, format!("the request ended early: {error}"))
}

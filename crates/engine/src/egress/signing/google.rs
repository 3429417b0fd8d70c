//! Tokens of Google Cloud, for Vertex AI: a statement that a service account's key signs, or a user's sign-in, is
//! exchanged for a token that lasts an hour. A test compares the statement with google-auth's.

use super::{SignerError, TokenServer, secret_header};
use crate::clock::{Clock as _, SystemClock};
use crate::egress::body::{AnyBody, text_body};
use crate::egress::dial::DialError;
use crate::egress::forward::{self, set_target_host};
use crate::egress::provider::is_near;
use crate::egress::proxy_state::ProxyState;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use loopwright_core::network::NetworkTarget;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// The receiver of the statement, wherever the token server is.
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// A statement is valid for an hour.
const VALID_SECS: i64 = 3600;
/// A token is replaced this long before its end.
const RENEW_BEFORE_MS: i64 = 4 * 60_000;
/// The longest answer of a token server.
const ANSWER_MAX: usize = 64 << 10;
/// The longest wait for a token.
const TOKEN_WAIT: Duration = Duration::from_secs(30);

/// Gets tokens, and keeps the current one.
pub struct GoogleTokens {
    identity: GoogleIdentity,
    server: TokenServer,
    path: String,
    cached: tokio::sync::Mutex<Option<(String, i64)>>,
}

/// The account that owns these tokens.
enum GoogleIdentity {
    Service { email: String, key_id: String, key: Box<RsaKeyPair>, text: String },
    User { client_id: String, client_secret: String, refresh_token: String },
}

/// The files of `gcloud` and of the console.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CredentialFile {
    ServiceAccount {
        client_email: String,
        private_key: String,
        private_key_id: String,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        token_uri: Option<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: i64,
}

/// Why there is no token.
#[derive(Debug)]
pub(in super::super) enum TokenError {
    /// The token server refuses the identity.
    Refused(StatusCode, String),
    /// No usable answer came.
    Unreachable(String),
}

impl GoogleTokens {
    pub(super) fn new(credentials: &str) -> Result<Self, SignerError> {
        let wrong = |what: &str| SignerError(format!("the Google Cloud credentials {what}"));
        // A message of the parser could contain a part of the text.
        let file: CredentialFile = serde_json::from_str(credentials).map_err(|_| {
            wrong("are not the JSON file of a service account or of `gcloud auth application-default login`")
        })?;
        let (identity, token_uri) = match file {
            CredentialFile::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
                let key = Box::new(read_key(&private_key).ok_or_else(|| wrong("have no RSA key in PEM"))?);
                (
                    GoogleIdentity::Service { email: client_email, key_id: private_key_id, key, text: private_key },
                    token_uri,
                )
            }
            CredentialFile::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
                (GoogleIdentity::User { client_id, client_secret, refresh_token }, token_uri)
            }
            CredentialFile::Other => return Err(wrong("are of a type that is not supported; use a service account")),
        };
        let (server, path) = read_server(token_uri.as_deref().unwrap_or(AUDIENCE))
            .ok_or_else(|| wrong("name no `https` token server"))?;
        Ok(Self { identity, server, path, cached: tokio::sync::Mutex::new(None) })
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        match &self.identity {
            GoogleIdentity::Service { text, .. } => vec![text.trim().to_owned()],
            GoogleIdentity::User { client_secret, refresh_token, .. } => {
                vec![client_secret.clone(), refresh_token.clone()]
            }
        }
    }

    /// The current token; a new one if the last one ends soon.
    pub(in super::super) async fn token(&self, shared: &Arc<ProxyState>, provider: &str) -> Result<String, TokenError> {
        let mut cached = self.cached.lock().await;
        let now_ms = SystemClock.now_ms();
        if let Some((token, ends_ms)) = &*cached
            && now_ms < ends_ms.saturating_sub(RENEW_BEFORE_MS)
        {
            return Ok(token.clone());
        }
        let answer = timeout(TOKEN_WAIT, self.exchange(shared, provider, now_ms)).await;
        let answer = answer.map_err(|_| TokenError::Unreachable("no answer of the token server".to_owned()))??;
        let ends_ms = now_ms.saturating_add(answer.expires_in.clamp(0, VALID_SECS).saturating_mul(1000));
        *cached = Some((answer.access_token.clone(), ends_ms));
        Ok(answer.access_token)
    }

    /// Forgets the token, because the provider does not accept it.
    pub(in super::super) async fn forget(&self) {
        *self.cached.lock().await = None;
    }

    /// Puts a token into a request.
    pub(in super::super) fn put(token: &str, headers: &mut HeaderMap) -> Result<(), SignerError> {
        headers.insert(header::AUTHORIZATION, secret_header(&format!("Bearer {token}"))?);
        Ok(())
    }

    async fn exchange(&self, shared: &Arc<ProxyState>, provider: &str, now_ms: i64) -> Result<TokenAnswer, TokenError> {
        let unreachable = |error: String| TokenError::Unreachable(error);
        let form = self.form(now_ms.div_euclid(1000)).map_err(|error| unreachable(error.to_string()))?;
        let wire = self.server.wire(shared).await.map_err(|error| match error {
            DialError::Denied(why) => unreachable(why.text().to_owned()),
            DialError::Failed(text) => unreachable(text),
        })?;
        let length = HeaderValue::from(form.len());
        let mut request: Request<AnyBody> = Request::new(text_body(form));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = self.path.parse().unwrap_or_else(|_| Uri::from_static("/token"));
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::CONTENT_LENGTH, length);
        set_target_host(headers, &self.server.target, if self.server.is_tls { 443 } else { 80 });
        let account = self.server.account(shared, provider);
        let answer = forward::send(shared, wire, request, &account).await;
        let (head, body) = answer.map_err(|error| unreachable(error.to_string()))?.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|error| unreachable(error.to_string()))?;
        let body = body.to_bytes();
        if head.status.is_success() {
            // The answer holds the token, so its text is not shown.
            return serde_json::from_slice(&body).map_err(|_| unreachable("the answer has no token".to_owned()));
        }
        let words = refusal_words(&body);
        match head.status.as_u16() {
            500.. | 429 => Err(unreachable(format!("the token server answered {}: {words}", head.status.as_u16()))),
            _ => Err(TokenError::Refused(head.status, words)),
        }
    }

    /// The body of the request for a token.
    fn form(&self, now_secs: i64) -> Result<String, SignerError> {
        let pairs = match &self.identity {
            GoogleIdentity::Service { .. } => vec![
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()),
                ("assertion", self.statement(now_secs)?),
            ],
            GoogleIdentity::User { client_id, client_secret, refresh_token } => vec![
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", client_id.clone()),
                ("client_secret", client_secret.clone()),
                ("refresh_token", refresh_token.clone()),
            ],
        };
        Ok(pairs.iter().map(|(name, value)| format!("{name}={}", form_escaped(value))).collect::<Vec<_>>().join("&"))
    }

    /// The signed statement of a service account.
    pub(super) fn statement(&self, now_secs: i64) -> Result<String, SignerError> {
        let GoogleIdentity::Service { email, key_id, key, .. } = &self.identity else { return Ok(String::new()) };
        let head = json!({ "typ": "JWT", "alg": "RS256", "kid": key_id });
        let ends = now_secs.saturating_add(VALID_SECS);
        let claims = json!({ "iat": now_secs, "exp": ends, "iss": email, "aud": AUDIENCE, "scope": SCOPE });
        let text = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| SignerError("the key of the service account cannot sign".to_owned()))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn read_key(pem: &str) -> Option<RsaKeyPair> {
    match PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()? {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
        _ => None,
    }
}

/// The server and its path. A statement or a sign-in is sent encrypted, or to this machine.
fn read_server(url: &str) -> Option<(TokenServer, String)> {
    let uri: Uri = url.parse().ok()?;
    let is_tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return None,
    };
    let target = NetworkTarget::parse(uri.authority()?.as_str(), if is_tls { 443 } else { 80 }).ok()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    (is_tls || is_near(&target)).then_some((TokenServer { is_tls, target }, path))
}

fn refusal_words(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default)]
        error_description: String,
    }
    let words = serde_json::from_slice::<Refusal>(body).map(|no| format!("{}: {}", no.error, no.error_description));
    words.unwrap_or_else(|_| "no message".to_owned()).chars().take(300).collect()
}

fn form_escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

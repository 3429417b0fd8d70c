//! GitHub Apps: a signed statement of the App's identity is exchanged for a token of its installation, which lasts an
//! hour. The private key signs here and is in no request.

use crate::api::{ApiClient, ApiError, ApiErrorKind, CallResult, unix_ms};
use crate::base_url::encode_path;
use crate::http::HttpCall;
use crate::secret::SecretText;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// A token is replaced this long before its end.
const RENEW_BEFORE_MS: i64 = 5 * 60_000;

/// A GitHub App as the identity of a connection.
#[derive(Debug, Clone)]
pub struct GitHubApp {
    /// The App's id or client id.
    pub app_id: String,
    /// The App's private key in PEM.
    pub private_key: SecretText,
    /// The installation; without it, the one that has the repository.
    pub installation: Option<u64>,
}

/// The tokens of an installation.
pub(crate) struct AppTokens {
    app_id: String,
    key: RsaKeyPair,
    installation: Option<u64>,
    cached: tokio::sync::Mutex<Option<(SecretText, i64)>>,
}

/// The permissions that deliveries and probes use, with the level.
const PERMISSIONS: [(&str, &str); 7] = [
    ("checks", "read"),
    ("contents", "write"),
    ("issues", "write"),
    ("metadata", "read"),
    ("pull_requests", "write"),
    ("statuses", "write"),
    ("workflows", "write"),
];

#[derive(Deserialize)]
struct Installation {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

impl Installation {
    /// The request for a token: for one repository, with the needed permissions that the installation has. GitHub rejects
    /// a request for more.
    fn token_request(&self, repository: &str) -> Value {
        let name = repository.split('/').nth(1).unwrap_or_default();
        let granted = |name: &str| self.permissions.get(name).map(String::as_str);
        let permissions = PERMISSIONS.into_iter().filter_map(|(name, level)| match (granted(name)?, level) {
            ("read", _) => Some((name, "read")),
            (_, level) => Some((name, level)),
        });
        json!({ "repositories": [name], "permissions": permissions.collect::<BTreeMap<_, _>>() })
    }
}

#[derive(Deserialize)]
struct InstallationToken {
    token: String,
    expires_at: String,
}

impl AppTokens {
    pub(crate) fn new(app: &GitHubApp) -> Result<Self, String> {
        let wrong = "the private key of the GitHub App is not an RSA key in PEM";
        let key = PrivateKeyDer::from_pem_slice(app.private_key.expose().as_bytes()).map_err(|_| wrong.to_owned())?;
        let key = match &key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return Err(wrong.to_owned()),
        };
        let key = key.map_err(|error| format!("{wrong}: {error}"))?;
        let cached = tokio::sync::Mutex::new(None);
        Ok(Self { app_id: app.app_id.clone(), key, installation: app.installation, cached })
    }

    /// The current token; a new one if the last one ends soon.
    pub(crate) async fn token(&self, client: &ApiClient) -> CallResult<SecretText> {
        let mut cached = self.cached.lock().await;
        let now_ms = client.http.now_ms();
        if let Some((token, ends_ms)) = &*cached
            && now_ms < ends_ms - RENEW_BEFORE_MS
        {
            return Ok(token.clone());
        }
        let jwt = self.statement(now_ms.div_euclid(1000))?;
        let path = match self.installation {
            Some(id) => format!("/app/installations/{id}"),
            None => format!("/repos/{}/installation", encode_path(&client.repository)),
        };
        let found: Installation = self.exchange(client, HttpCall::new(Method::GET, path), &jwt).await?;
        let call = HttpCall::new(Method::POST, format!("/app/installations/{}/access_tokens", found.id));
        let call = call.json(&found.token_request(&client.repository));
        let granted: InstallationToken = self.exchange(client, call, &jwt).await?;
        let token = SecretText::new(granted.token);
        *cached = Some((token.clone(), unix_ms(&granted.expires_at)));
        Ok(token)
    }

    async fn exchange<T: for<'de> Deserialize<'de>>(
        &self,
        client: &ApiClient,
        call: HttpCall,
        jwt: &SecretText,
    ) -> CallResult<T> {
        let path = call.path.clone();
        let answer = match client.send_as(call, jwt).await {
            Ok(answer) => answer,
            // A token has no effect that anyone sees, so a lost answer leaves no doubt.
            Err(error) => return Err(app_error(ApiError { writes: false, ..error }, client, &self.app_id)),
        };
        let garbled = |error| ApiError {
            kind: ApiErrorKind::Unavailable,
            text: format!("GitHub: the answer to {path} is not as documented: {error}"),
            retry_at_ms: None,
            writes: false,
            is_after_effect: false,
        };
        serde_json::from_slice(&answer.body).map_err(garbled)
    }

    /// The `Authorization` header of the App itself: a JSON web token, valid from a minute ago for ten minutes.
    fn statement(&self, now_secs: i64) -> CallResult<SecretText> {
        let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = encode(json!({ "alg": "RS256", "typ": "JWT" }));
        let claims = encode(json!({ "iat": now_secs - 60, "exp": now_secs + 540, "iss": self.app_id }));
        let text = format!("{head}.{claims}");
        let mut signature = vec![0; self.key.public().modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.map_err(|_| ApiError {
            kind: ApiErrorKind::Unavailable,
            text: "the private key of the GitHub App cannot sign".to_owned(),
            retry_at_ms: None,
            writes: false,
            is_after_effect: false,
        })?;
        Ok(SecretText::new(format!("Bearer {text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

/// The error of a call with the App's own identity.
fn app_error(error: ApiError, client: &ApiClient, app_id: &str) -> ApiError {
    let text = match error.kind {
        ApiErrorKind::Missing => format!(
            "the GitHub App {app_id} is not installed on `{}`; install it there, with write access to Contents, Pull \
             requests and Issues",
            client.repository
        ),
        ApiErrorKind::Access => format!(
            "GitHub does not accept the GitHub App {app_id}; check its id, its private key from {} and this machine's \
             clock: {}",
            client.token_name, error.text
        ),
        _ => return error,
    };
    ApiError { kind: ApiErrorKind::Access, text, ..error }
}

//! OpenTelemetry over HTTP: sends prepared documents of the protocol (OTLP, in JSON) to a collector. It knows nothing of
//! their content.

use crate::base_url::BaseUrl;
use crate::connection::ConnectionError;
use crate::http::{HttpCall, HttpClient, HttpFailure, NetworkSettings, NowMs};
use crate::secret::SecretText;
use hyper::Method;
use hyper::header::HeaderName;
use serde_json::Value;

/// A collector.
pub struct TelemetryCollector {
    http: HttpClient,
    headers: Vec<(HeaderName, SecretText)>,
}

impl TelemetryCollector {
    /// Prepares a client of the collector at a base address, to which `/v1/traces` and `/v1/metrics` are added. The headers
    /// may contain a key; nothing is sent.
    ///
    /// # Errors
    /// If the address or the name of a header is unusable.
    pub fn new(
        endpoint: &str,
        headers: &[(String, SecretText)],
        network: &NetworkSettings,
        now: NowMs,
    ) -> Result<Self, ConnectionError> {
        let wrong = |why: String| ConnectionError(format!("collector of telemetry: {why}"));
        let base = BaseUrl::parse(endpoint).map_err(wrong)?;
        let named = |(name, value): &(String, SecretText)| {
            let parsed = HeaderName::try_from(name.as_str());
            parsed.map(|parsed| (parsed, value.clone())).map_err(|_| wrong(format!("`{name}` is not a header")))
        };
        let headers = headers.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Self { http: HttpClient::new(base, network, now).map_err(wrong)?, headers })
    }

    /// Sends one document to a path below the base address.
    ///
    /// # Errors
    /// The collector's answer, or why there is none, as one line.
    pub async fn send(&self, path: &str, document: &Value) -> Result<(), String> {
        let mut call = HttpCall::new(Method::POST, path).json(document);
        for (name, value) in &self.headers {
            call = call.secret_header(name.clone(), value).map_err(|error| error.to_string())?;
        }
        match self.http.send(&call).await {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
            Ok(answer) => Err(format!("{} answers {}", self.http.base().host, answer.status)),
            Err(HttpFailure::Paused(_)) => Err(format!("{} limits requests", self.http.base().host)),
            Err(error) => Err(error.to_string()),
        }
    }
}

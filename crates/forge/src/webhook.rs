//! Outgoing webhooks: the item's JSON with its origin, signed as Standard Webhooks describe it. Another Loopwright
//! accepts it as a `generic` webhook.

use crate::base_url::BaseUrl;
use crate::connection::ConnectionError;
use crate::http::{HttpCall, HttpClient, NetworkSettings, NowMs};
use crate::messenger;
use crate::secret::SecretText;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::spec::ActionKind;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;

/// Whether a receiver performs a delivery with a known `Idempotency-Key` again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookRepeats {
    /// It may: after a lost answer a person decides.
    #[default]
    Unknown,
    /// It does not: after a lost answer the delivery is sent again.
    Ignored,
}

/// A receiver of webhooks.
#[derive(Debug, Clone)]
pub struct WebhookTarget {
    /// Its address, which may contain a secret.
    pub url: SecretText,
    /// The secret of the signature: a text, or `whsec_` and base64.
    pub secret: SecretText,
    /// Whether it ignores repeated deliveries.
    pub repeats: WebhookRepeats,
}

/// All receivers of webhooks, by the names that items use.
pub struct WebhookReceiver {
    targets: BTreeMap<String, ConnectedTarget>,
}

struct ConnectedTarget {
    http: HttpClient,
    query: String,
    key: Vec<u8>,
    repeats: WebhookRepeats,
}

impl WebhookReceiver {
    /// Prepares the receivers; nothing is sent.
    ///
    /// # Errors
    /// If an address or a secret is unusable.
    pub fn new(
        targets: &BTreeMap<String, WebhookTarget>,
        network: &NetworkSettings,
        now: &NowMs,
    ) -> Result<Self, ConnectionError> {
        let mut connected = BTreeMap::new();
        for (name, target) in targets {
            let wrong = |why: &str| ConnectionError(format!("webhook `{name}`: {why}"));
            let (url, query) = target.url.expose().split_once('?').unwrap_or((target.url.expose(), ""));
            // The message of the parser may repeat the address, which may be a secret.
            let base = BaseUrl::parse(url).map_err(|_| wrong("its address must be `https://…`"))?;
            let key = key(target.secret.expose()).ok_or_else(|| wrong("its secret has fewer than 16 bytes"))?;
            let http = HttpClient::new(base, network, now.clone()).map_err(|why| wrong(&why))?;
            let target = ConnectedTarget { http, query: query.to_owned(), key, repeats: target.repeats };
            connected.insert(name.clone(), target);
        }
        Ok(Self { targets: connected })
    }

    fn target<'a>(&'a self, item: &'a Delivery) -> Result<(&'a str, &'a ConnectedTarget), DeliverError> {
        if item.item.kind != ActionKind::Webhook {
            return Err(DeliverError::refused(format!("{} is not an item for a webhook", item.item.kind)));
        }
        let name = item.item.target.as_deref().unwrap_or_default();
        let target = self.targets.get(name);
        let target = target.ok_or_else(|| DeliverError::refused(format!("no webhook `{name}` is configured")))?;
        Ok((name, target))
    }

    async fn send(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        let (name, target) = self.target(item)?;
        target.post(name, &item.key, &target.body(item)).await
    }

    /// Sends a document that is no item, to the receiver of this name. `key` is the same in every attempt.
    ///
    /// # Errors
    /// As a delivery: a lost answer leaves it in doubt.
    pub async fn post(&self, name: &str, key: &str, document: &Value) -> Result<DeliveryReceipt, DeliverError> {
        let target = self.targets.get(name);
        let target = target.ok_or_else(|| DeliverError::refused(format!("no webhook `{name}` is configured")))?;
        target.post(name, key, document).await
    }
}

impl ConnectedTarget {
    async fn post(&self, name: &str, key: &str, document: &Value) -> Result<DeliveryReceipt, DeliverError> {
        let receiver = format!("webhook `{name}` at {}", self.http.base().host);
        let now_ms = self.http.now_ms();
        let call = self.call(key, document, now_ms)?;
        let answer = self.http.send(&call).await.map_err(|error| messenger::failure(&receiver, &error))?;
        match answer.status {
            200..=299 => {
                Ok(DeliveryReceipt { place: format!("webhook:{name}"), head: None, at_ms: now_ms, note: None })
            }
            _ => {
                let words = String::from_utf8_lossy(&answer.body).into_owned();
                Err(messenger::status(&receiver, &answer, now_ms, &words))
            }
        }
    }

    fn body(&self, item: &Delivery) -> Value {
        let data: Value = serde_json::from_str(&item.item.body).unwrap_or_else(|_| json!(item.item.body));
        json!({
            "key": item.key,
            "loop": item.loop_name,
            "round": item.round,
            "item": item.item.position,
            "data": data,
        })
    }

    fn call(&self, key: &str, body: &Value, now_ms: i64) -> Result<HttpCall, DeliverError> {
        let moment = now_ms.div_euclid(1000).to_string();
        let call = HttpCall::new(Method::POST, "").query(self.query.clone()).json(body);
        let signature = sign(&self.key, key, &moment, call.body.as_deref().unwrap_or_default());
        let headers = [
            ("webhook-id", key.to_owned()),
            ("webhook-timestamp", moment),
            ("webhook-signature", signature),
            ("idempotency-key", key.to_owned()),
        ];
        headers.into_iter().try_fold(call, |call, (name, value)| {
            let value =
                HeaderValue::from_str(&value).map_err(|_| DeliverError::refused("the item's key is no word"))?;
            Ok(call.header(HeaderName::from_static(name), value))
        })
    }
}

/// The key of a secret; `None` if it can be guessed.
fn key(secret: &str) -> Option<Vec<u8>> {
    let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    (key.len() >= 16).then_some(key)
}

/// `v1,<base64>` over id, time and body.
fn sign(key: &[u8], id: &str, moment: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is valid");
    for part in [id.as_bytes(), b".", moment.as_bytes(), b".", body] {
        mac.update(part);
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

impl Deliver for WebhookReceiver {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(self.send(item))
    }

    /// A webhook cannot be asked. A receiver that ignores repeated keys may get the item again.
    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        let found = self.target(item).map(|(_, target)| match target.repeats {
            WebhookRepeats::Unknown => DeliveryLookup::Unknown,
            WebhookRepeats::Ignored => DeliveryLookup::No,
        });
        Box::pin(std::future::ready(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn signature_is_that_of_the_specification() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn short_secrets_are_no_keys() {
        assert_eq!(key("short"), None);
        assert_eq!(key("0123456789abcdef").map(|key| key.len()), Some(16));
    }
}

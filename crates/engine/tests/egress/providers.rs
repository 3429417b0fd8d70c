//! The provider endpoint: it replaces the round's token by the real key, and passes answers on unchanged.

use crate::world::{Answer, Heard, Internet, Proxy, SOON, head, plain_site, says};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Bytes, Frame};
use loopwright::egress::{EgressLimits, KeyStyle, ModelProvider, ProviderKey};
use loopwright_core::network::DenialReason;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

const KEY: &str = "sk-real-key-0123456789";

fn provider(style: KeyStyle, base: &str) -> ModelProvider {
    ModelProvider::new("models", base, style, ProviderKey::new(KEY).expect("a key")).expect("a provider")
}

async fn ask(proxy: &Proxy, method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let line = format!("{method} /provider/{path} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nConnection: close\r\n");
    proxy.raw(format!("{line}Content-Length: {length}\r\n{headers}\r\n{body}")).await
}

/// An upstream with this answer, and a proxy to it.
async fn upstream(
    style: KeyStyle,
    path: &str,
    answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static,
) -> (crate::world::Site, Proxy, String) {
    let (site, really) = plain_site(answer).await;
    let provider = provider(style, &format!("http://{really}{path}"));
    let proxy = Internet::new().open(&[], vec![provider], EgressLimits::default());
    let token = proxy.pass.token().to_owned();
    (site, proxy, token)
}

#[tokio::test]
async fn rounds_token_is_replaced_by_the_real_key() {
    for (style, header, value) in [
        (KeyStyle::Bearer, "authorization", format!("Bearer {KEY}")),
        (KeyStyle::XApiKey, "x-api-key", KEY.to_owned()),
        (KeyStyle::XGoogApiKey, "x-goog-api-key", KEY.to_owned()),
        (KeyStyle::ApiKey, "api-key", KEY.to_owned()),
    ] {
        let (site, proxy, token) = upstream(style, "/base", |_| says("an answer")).await;
        for shown in [format!("Authorization: Bearer {token}\r\n"), format!("x-api-key: {token}\r\n")] {
            let answer = ask(&proxy, "POST", "models/v1/messages?beta=true", &shown, "a question").await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("an answer"), "{answer}");
        }
        for heard in site.heard() {
            assert_eq!((heard.path.as_str(), heard.body.as_str()), ("/base/v1/messages?beta=true", "a question"));
            assert_eq!(heard.header(header), Some(value.as_str()));
            assert!(!format!("{heard:?}").contains(&token), "{heard:?}");
            let keys = heard.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
            assert_eq!(keys, 1, "{heard:?}");
        }
        let traffic = proxy.egress.close().await;
        assert_eq!((traffic.reached[0].host.as_str(), traffic.reached[0].count), ("provider/models", 2));
        assert!(!serde_json::to_string(&traffic).expect("JSON").contains(KEY));
    }
}

#[tokio::test]
async fn request_without_the_rounds_token_is_not_passed_on() {
    let (site, proxy, token) = upstream(KeyStyle::Bearer, "", |_| says("an answer")).await;
    let other = Internet::new().open(&[], Vec::new(), EgressLimits::default()).pass.token().to_owned();
    let cut = &token[..token.len() - 1];
    for shown in [
        "".to_owned(),
        format!("x-api-key: {other}\r\n"),
        format!("x-api-key: {cut}\r\n"),
        format!("x-api-key: {KEY}\r\n"),
        "Authorization: Bearer \r\n".to_owned(),
    ] {
        assert!(ask(&proxy, "POST", "models/v1/messages", &shown, "").await.starts_with("HTTP/1.1 401"), "{shown}");
    }
    assert!(site.heard().is_empty());
    assert!(proxy.denied().iter().all(|(host, _, why, _)| host == "provider/models" && *why == DenialReason::Token));
}

#[tokio::test]
async fn client_cannot_set_account_method_or_proxy_headers() {
    let (site, proxy, token) = upstream(KeyStyle::XApiKey, "", |_| says("an answer")).await;
    let shown = format!(
        "Authorization: Bearer {token}\r\nConnection: x-api-key, accept-encoding\r\nAccept-Encoding: gzip\r\n\
         X-HTTP-Method-Override: DELETE\r\n"
    );
    let path = "models/v1/messages?beta=true&key=another-account&%24httpHeaders=x-api-key%3Aanother-account";
    let answer = ask(&proxy, "POST", path, &shown, "a question").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let heard = &site.heard()[0];
    assert_eq!((heard.path.as_str(), heard.header("x-api-key")), ("/v1/messages?beta=true", Some(KEY)), "{heard:?}");
    assert_eq!((heard.header("accept-encoding"), heard.header("x-http-method-override")), (Some("identity"), None));
    assert!(!format!("{heard:?}").contains("another-account"), "{heard:?}");
}

#[tokio::test]
async fn only_model_requests_are_passed_on() {
    let (site, proxy, token) = upstream(KeyStyle::Bearer, "", |_| says("an answer")).await;
    let shown = format!("Authorization: Bearer {token}\r\n");
    for (method, path, status) in [
        ("DELETE", "models/v1/messages", "403"),
        ("POST", "models/v1/files", "403"),
        ("POST", "models/v1/../v1/files", "403"),
        ("POST", "models/v1/%2e%2e/files", "403"),
        ("POST", "models", "404"),
        ("POST", "others/v1/messages", "404"),
        ("POST", "../provider/models/v1/messages", "404"),
    ] {
        let answer = ask(&proxy, method, path, &shown, "").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
    }
    assert!(site.heard().is_empty());
    let url = proxy.pass.urls().get("models").map(String::as_str);
    assert_eq!((url, proxy.pass.urls().len()), (Some("http://127.0.0.1:3128/provider/models"), 1));
}

#[tokio::test]
async fn clients_that_send_the_proxys_own_address_through_the_proxy_are_served_too() {
    let (site, proxy, token) = upstream(KeyStyle::Bearer, "", |_| says("an answer")).await;
    let url = "http://127.0.0.1:3128/provider/models/v1/messages";
    let answer = proxy.ask("POST", url, &format!("Authorization: Bearer {token}\r\nContent-Length: 0\r\n")).await;
    assert!(answer.ends_with("an answer"), "{answer}");
    assert_eq!(site.heard().len(), 1);
}

#[tokio::test]
async fn upstreams_error_is_passed_on_with_the_key_masked() {
    let echo = |heard: &Heard| {
        let mut answer = says(&format!("{{\"error\":\"bad key {KEY}\"}}"));
        *answer.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
        let sent_value = heard.header("authorization").unwrap_or_default().parse().expect("a value");
        answer.headers_mut().insert("x-echo", sent_value);
        answer.headers_mut().insert("retry-after", "7".parse().expect("a value"));
        answer
    };
    let (_, proxy, token) = upstream(KeyStyle::Bearer, "", echo).await;
    let answer = ask(&proxy, "POST", "models/v1/messages", &format!("x-api-key: {token}\r\n"), "").await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 7"), "{answer}");
    assert!(!answer.contains(KEY) && !answer.contains("x-echo"), "{answer}");
    assert!(answer.ends_with(&format!("{{\"error\":\"bad key {}\"}}", "*".repeat(KEY.len()))), "{answer}");
}

/// A body that the test feeds.
struct Fed(mpsc::UnboundedReceiver<Bytes>);

impl hyper::body::Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[tokio::test]
async fn event_stream_is_passed_on_event_by_event() {
    let (feed, fed) = mpsc::unbounded_channel();
    let fed = Arc::new(Mutex::new(Some(fed)));
    let answer =
        move |_: &Heard| Response::new(Fed(fed.lock().expect("no panic").take().expect("one request")).boxed_unsync());
    let (_, proxy, token) = upstream(KeyStyle::Bearer, "", answer).await;
    let mut wire = proxy.wire().await;
    let line = "POST /provider/models/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n";
    wire.write_all(format!("{line}x-api-key: {token}\r\n\r\n").as_bytes()).await.expect("a request");
    assert!(head(&mut wire).await.starts_with("HTTP/1.1 200"));
    for at in 0..3 {
        let event = format!("data: {at}\n\n");
        feed.send(Bytes::from(event.clone())).expect("a reader");
        let mut seen = String::new();
        // The next event is only sent when this one has arrived.
        while !seen.contains(&event) {
            let byte = tokio::time::timeout(SOON, wire.read_u8()).await.expect("the event in time").expect("a byte");
            seen.push(char::from(byte));
        }
    }
}

#[tokio::test]
async fn a_provider_behind_tls_is_verified_and_asked() {
    let mut net = Internet::new();
    let site = net.tls("api.example.org", "93.184.216.34", "api.example.org").await;
    let false_site = net.tls("false.example.org", "93.184.216.35", "other.example.org").await;
    let real = provider(KeyStyle::XApiKey, "https://api.example.org");
    let key = ProviderKey::new(KEY).expect("a key");
    let other = ModelProvider::new("false", "https://false.example.org", KeyStyle::XApiKey, key).expect("a provider");
    let proxy = net.open(&[], vec![real, other], EgressLimits::default());
    let shown = format!("x-api-key: {}\r\n", proxy.pass.token());
    let answer = ask(&proxy, "POST", "models/v1/messages", &shown, "").await;
    assert!(answer.ends_with("secret hello from /v1/messages"), "{answer}");
    assert_eq!(site.heard()[0].header("x-api-key"), Some(KEY));
    let answer = ask(&proxy, "POST", "false/v1/messages", &shown, "").await;
    assert!(answer.starts_with("HTTP/1.1 502") && !answer.contains(KEY), "{answer}");
    assert!(false_site.heard().is_empty());
    assert!(proxy.tunnel("api.example.org:443").await.is_err(), "a provider's host is not reached past the endpoint");
}

#[tokio::test]
async fn each_start_has_its_own_token_for_its_providers_until_it_ends() {
    let (site, really) = plain_site(|_| says("an answer")).await;
    let base = format!("http://{really}");
    let other = ModelProvider::new("others", &base, KeyStyle::Bearer, ProviderKey::new(KEY).expect("a key"))
        .expect("a provider");
    let proxy = Internet::new().open(&[], vec![provider(KeyStyle::Bearer, &base), other], EgressLimits::default());
    let maker = proxy.egress.grant_access(&["models", "nobody"]).expect("a pass");
    assert_eq!(maker.urls().keys().collect::<Vec<_>>(), ["models"]);
    assert_ne!(maker.token(), proxy.pass.token());
    let shown = format!("x-api-key: {}\r\n", maker.token());
    assert!(ask(&proxy, "POST", "models/v1/messages", &shown, "").await.starts_with("HTTP/1.1 200"));
    let no = ask(&proxy, "POST", "others/v1/messages", &shown, "").await;
    assert!(no.starts_with("HTTP/1.1 403") && no.contains("this role's agent does not use the provider"), "{no}");
    drop(maker);
    assert!(ask(&proxy, "POST", "models/v1/messages", &shown, "").await.starts_with("HTTP/1.1 401"));
    assert_eq!(site.heard().len(), 1);
    let denied: Vec<_> = proxy.denied().into_iter().map(|(host, _, why, _)| (host, why)).collect();
    assert_eq!(
        denied,
        [("provider/others".to_owned(), DenialReason::Role), ("provider/models".to_owned(), DenialReason::Token)]
    );
}

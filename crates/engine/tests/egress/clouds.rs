//! Amazon Bedrock and Google Vertex AI: requests are signed or carry a short-lived token; the credentials themselves are
//! in no request, and what a request must contain is in no answer.

use crate::world::{Answer, Heard, Internet, Proxy, Site, plain_site, says};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::StatusCode;
use loopwright::egress::{CloudApi, EgressLimits, KeyStyle, ModelProvider, ProviderKey, RequestSigner};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const AWS: &str = "[default]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key=wJalrXUtnFEMI\naws_session_token=FwoG-session-token\n";

fn provider(style: KeyStyle, base: &str, signer: RequestSigner) -> ModelProvider {
    let provider = ModelProvider::new("models", base, style, ProviderKey::keyless()).expect("a provider");
    provider.signed_by(signer)
}

fn open(provider: ModelProvider) -> Proxy {
    Internet::new().open(&[], vec![provider], EgressLimits::default())
}

async fn ask(proxy: &Proxy, path: &str, headers: &str, body: &str) -> String {
    let (token, length) = (proxy.pass.token(), body.len());
    let line = format!("POST /provider/models{path} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nConnection: close\r\n");
    proxy.raw(format!("{line}Authorization: Bearer {token}\r\nContent-Length: {length}\r\n{headers}\r\n{body}")).await
}

fn with_status(status: StatusCode, text: &str) -> Answer {
    let mut answer = says(text);
    *answer.status_mut() = status;
    answer
}

#[tokio::test]
async fn request_to_bedrock_is_signed_and_its_session_token_comes_back_to_nobody() {
    let echo = |heard: &Heard| says(heard.header("x-amz-security-token").unwrap_or_default());
    let (site, really) = plain_site(echo).await;
    let signer = RequestSigner::aws(AWS, "default", "eu-west-3").expect("a signer");
    let proxy = open(provider(KeyStyle::Aws, &format!("http://{really}"), signer));
    assert_eq!(proxy.pass.clouds()["models"], CloudApi::Bedrock { region: "eu-west-3".to_owned() });
    let path = "/model/us.anthropic.claude-opus-5-5-v1%3A0/invoke";
    let body = r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":1,"messages":[]}"#;
    let answer = ask(&proxy, path, "Content-Type: application/json\r\nX-Amz-Date: 20200101T000000Z\r\n", body).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("******************"), "{answer}");
    let heard = &site.heard()[0];
    assert_eq!((heard.path.as_str(), heard.body.as_str()), (path, body));
    let authorization = heard.header("authorization").expect("a signature");
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
    let names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    assert!(authorization.contains(names), "{authorization}");
    assert_ne!(heard.header("x-amz-date"), Some("20200101T000000Z"));
    let all = format!("{heard:?}");
    assert!(!all.contains("wJalrXUtnFEMI") && !all.contains(proxy.pass.token()), "{all}");
    for (path, status) in
        [("/model/a/async-invoke", "403"), ("/model/..%2Fadmin/invoke", "403"), ("/guardrails", "403")]
    {
        let refused = ask(&proxy, path, "", "{}").await;
        assert!(refused.starts_with(&format!("HTTP/1.1 {status}")), "{path} {refused}");
    }
    assert_eq!(site.heard().len(), 1);
}

/// A token server that gives a new token each time, and a model server that accepts those of which the number is even.
async fn google(accepts: fn(&str) -> bool) -> (Site, Site, Proxy) {
    let count = Arc::new(AtomicUsize::new(0));
    let give = move |_: &Heard| {
        let token = format!("ya29.token-{}", count.fetch_add(1, Ordering::Relaxed));
        says(&json!({ "access_token": token, "expires_in": 3599, "token_type": "Bearer" }).to_string())
    };
    let (tokens, tokens_at) = plain_site(give).await;
    let echo = move |heard: &Heard| {
        let shown = heard.header("authorization").unwrap_or_default().to_owned();
        with_status(if accepts(&shown) { StatusCode::OK } else { StatusCode::UNAUTHORIZED }, &shown)
    };
    let (models, models_at) = plain_site(echo).await;
    let file = json!({ "type": "authorized_user", "client_id": "id-7", "client_secret": "s3cret/+", "refresh_token": "r3fresh",
        "token_uri": format!("http://{tokens_at}/token") });
    let signer = RequestSigner::google(&file.to_string()).expect("a signer");
    let base = format!("http://{models_at}/v1/projects/mine/locations/us-east5");
    (tokens, models, open(provider(KeyStyle::GoogleCloud, &base, signer)))
}

#[tokio::test]
async fn request_to_vertex_carries_a_token_that_is_fetched_once_and_comes_back_to_nobody() {
    let (tokens, models, proxy) = google(|shown| shown == "Bearer ya29.token-0").await;
    let api = CloudApi::Vertex { project: "mine".to_owned(), location: "us-east5".to_owned() };
    assert_eq!(proxy.pass.clouds()["models"], api);
    let base = "/v1/projects/mine/locations/us-east5";
    for (asked, sent) in [
        (
            "/projects/x/locations/y/publishers/anthropic/models/claude-opus-5-5@20260101:streamRawPredict",
            "/publishers/anthropic/models/claude-opus-5-5@20260101:streamRawPredict",
        ),
        (
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            "/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        ),
    ] {
        let answer = ask(&proxy, asked, "", "{}").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("Bearer ************"), "{answer}");
        assert_eq!(models.heard().last().expect("a request").path, format!("{base}{sent}"));
    }
    let asked: Vec<Heard> = tokens.heard();
    assert_eq!(asked.len(), 1, "the token is kept");
    assert_eq!(
        asked[0].body,
        "grant_type=refresh_token&client_id=id-7&client_secret=s3cret%2F%2B&refresh_token=r3fresh"
    );
    let all = format!("{:?}", models.heard());
    assert!(!all.contains("r3fresh") && !all.contains("s3cret") && !all.contains(proxy.pass.token()), "{all}");
}

#[tokio::test]
async fn token_that_the_provider_rejects_is_replaced_for_the_next_request() {
    let (tokens, _, proxy) = google(|shown| shown == "Bearer ya29.token-1").await;
    let path = "/publishers/google/models/g:generateContent";
    assert!(ask(&proxy, path, "", "{}").await.starts_with("HTTP/1.1 401"));
    assert!(ask(&proxy, path, "", "{}").await.starts_with("HTTP/1.1 200"));
    assert_eq!(tokens.heard().len(), 2);
}

#[tokio::test]
async fn refusal_of_the_token_server_is_named_without_the_credentials() {
    let refuse = |_: &Heard| {
        with_status(
            StatusCode::BAD_REQUEST,
            r#"{"error":"invalid_grant","error_description":"Token has been revoked."}"#,
        )
    };
    let (_, at) = plain_site(refuse).await;
    let file = json!({ "type": "authorized_user", "client_id": "a", "client_secret": "s3cret", "refresh_token": "r3fresh",
        "token_uri": format!("http://{at}/token") });
    let signer = RequestSigner::google(&file.to_string()).expect("a signer");
    let proxy = open(provider(KeyStyle::GoogleCloud, "https://models.example.org/v1/projects/p/locations/l", signer));
    let answer = ask(&proxy, "/publishers/google/models/g:generateContent", "", "{}").await;
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.contains("invalid_grant: Token has been revoked."),
        "{answer}"
    );
    assert!(!answer.contains("s3cret") && !answer.contains("r3fresh"), "{answer}");
}

#[tokio::test]
async fn answer_that_is_compressed_is_not_passed_on() {
    let compress = |_: &Heard| {
        let mut answer: Answer = Response::new(http_body_util::Full::from("\u{1f}packed").boxed_unsync());
        answer.headers_mut().insert("content-encoding", hyper::header::HeaderValue::from_static("gzip"));
        answer
    };
    let (_, really) = plain_site(compress).await;
    let key = ProviderKey::new("sk-real").expect("a key");
    let provider =
        ModelProvider::new("models", &format!("http://{really}"), KeyStyle::Bearer, key).expect("a provider");
    let answer = ask(&open(provider), "/v1/messages", "", "{}").await;
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("compressed") && !answer.contains("packed"),
        "{answer}"
    );
}

//! Slack and webhooks, against a small server that records requests.

mod support;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use loopwright_core::deliver::{Deliver, DeliverErrorKind, Delivery, DeliveryLookup};
use loopwright_core::outbox::{StagedItem, item_id, marker};
use loopwright_core::spec::ActionKind;
use loopwright_forge::{
    NetworkSettings, SecretText, SlackAccess, SlackReceiver, WebhookReceiver, WebhookRepeats, WebhookTarget,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use support::TestClock;

/// A request as the server saw it.
#[derive(Debug, Clone)]
struct SeenRequest {
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// An answer: a status, headers and a body; a status of 0 closes the connection.
type Scripted = (u16, &'static [(&'static str, &'static str)], String);

#[derive(Clone, Default)]
struct Script {
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    answers: Arc<Mutex<VecDeque<Scripted>>>,
}

impl Script {
    fn then(&self, status: u16, body: impl ToString) -> &Self {
        self.then_with(status, &[], body)
    }

    fn then_with(&self, status: u16, headers: &'static [(&'static str, &'static str)], body: impl ToString) -> &Self {
        self.answers.lock().expect("no panic").push_back((status, headers, body.to_string()));
        self
    }

    fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("no panic").clone()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        let headers = headers.collect();
        let body = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes().to_vec();
        self.seen.lock().expect("no panic").push(SeenRequest { path, headers, body });
        let scripted = self.answers.lock().expect("no panic").pop_front();
        let (status, headers, body) = scripted.unwrap_or((200, &[], "ok".to_owned()));
        if status == 0 {
            return Err("the connection is cut".to_owned());
        }
        let response = headers
            .iter()
            .fold(Response::builder().status(status), |response, (name, value)| response.header(*name, *value));
        Ok(response.body(Full::from(body)).expect("a response"))
    }
}

/// Starts a server; returns its address.
async fn serve(script: &Script) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let script = script.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let script = script.clone();
            let service = service_fn(move |request| script.clone().answer(request));
            tokio::spawn(async move {
                // A cut connection is part of the script.
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    format!("http://{address}")
}

fn item(kind: ActionKind, target: Option<&str>, body: &str) -> Delivery {
    let item = StagedItem { target: target.map(str::to_owned), ..StagedItem::new(1, "x", kind, body) };
    Delivery {
        work: String::new(),
        loop_name: "fixer".to_owned(),
        round: "r1".to_owned(),
        repo: "repo".to_owned(),
        marker: marker("fixer", "r1", 1, "c1"),
        key: item_id("fixer", "r1", 1, "c1"),
        branch: "loop/fixer/r1".to_owned(),
        commit: None,
        tree: None,
        base_branch: "main".to_owned(),
        base_commit: String::new(),
        reviewed_head: None,
        question: None,
        draft: true,
        labels: Vec::new(),
        facts: Vec::new(),
        item,
    }
}

fn bot(url: &str) -> SlackReceiver {
    bot_at(url, &TestClock::default())
}

fn bot_at(url: &str, clock: &TestClock) -> SlackReceiver {
    let (token, channel) = (SecretText::new("xoxb-secret"), "C1".to_owned());
    let access = SlackAccess::Bot { token, channel, api_url: Some(format!("{url}/api")) };
    SlackReceiver::new(&access, &NetworkSettings::default(), clock.source()).expect("an address")
}

fn history(messages: Value) -> Value {
    json!({ "ok": true, "messages": messages, "response_metadata": { "next_cursor": "" } })
}

#[tokio::test]
async fn bot_posts_once_with_its_token_in_the_header_and_the_key_in_the_message() {
    let script = Script::default();
    let slack = bot(&serve(&script).await);
    let item = item(ActionKind::Slack, None, "Done <!channel>.");
    script.then(200, history(json!([]))).then(200, json!({ "ok": true, "channel": "C1", "ts": "1700000000.000100" }));
    let receipt = slack.deliver(&item).await.expect("it is posted");
    assert_eq!(receipt.place, "https://slack.com/archives/C1/p1700000000000100");
    assert_eq!(receipt.at_ms, 1_700_000_000_000);
    let seen = script.seen();
    let post = seen.last().expect("a request");
    assert_eq!(
        (post.path.as_str(), post.headers["authorization"].as_str()),
        ("/api/chat.postMessage", "Bearer xoxb-secret")
    );
    let body: Value = serde_json::from_slice(&post.body).expect("JSON");
    assert_eq!(body["metadata"]["event_payload"]["key"], item.key);
    assert!(!body.to_string().contains("<!channel>"), "{body}");
    let there = json!([{ "ts": "1700000000.000100", "metadata": body["metadata"] }]);
    script.then(200, history(there.clone()));
    assert_eq!(slack.deliver(&item).await.expect("it is found"), receipt);
    script.then(200, history(there));
    assert_eq!(slack.find(&item).await.expect("it answers"), DeliveryLookup::Yes(receipt));
}

#[tokio::test]
async fn errors_of_slack_have_their_meaning() {
    let cases = [
        (json!({ "ok": false, "error": "invalid_auth" }), DeliverErrorKind::Blocked),
        (json!({ "ok": false, "error": "not_in_channel" }), DeliverErrorKind::Blocked),
        (json!({ "ok": false, "error": "ratelimited" }), DeliverErrorKind::Transient),
        (json!({ "ok": false, "error": "internal_error" }), DeliverErrorKind::InDoubt),
        (json!({ "ok": false, "error": "msg_too_long" }), DeliverErrorKind::Refused),
        (json!("not as documented"), DeliverErrorKind::InDoubt),
    ];
    for (answer, expected) in cases {
        let script = Script::default();
        let slack = bot(&serve(&script).await);
        script.then(200, history(json!([]))).then(200, &answer);
        let error = slack.deliver(&item(ActionKind::Slack, None, "Done.")).await.expect_err("it fails");
        assert_eq!(error.kind, expected, "{answer}: {error}");
        assert!(!error.text.contains("xoxb"), "{error}");
    }
}

#[tokio::test]
async fn lost_answer_of_slack_is_in_doubt_and_its_limit_is_transient() {
    let script = Script::default();
    let slack = bot(&serve(&script).await);
    let item = item(ActionKind::Slack, None, "Done.");
    script.then(200, history(json!([]))).then(0, "");
    assert_eq!(slack.deliver(&item).await.expect_err("cut").kind, DeliverErrorKind::InDoubt);
    script.then(200, json!({ "ok": false, "error": "missing_scope" }));
    assert_eq!(slack.find(&item).await.expect("it answers"), DeliveryLookup::Unknown);
    script.then_with(429, &[("retry-after", "30")], "");
    assert_eq!(slack.find(&item).await.expect_err("limited").kind, DeliverErrorKind::Transient);
}

#[tokio::test]
async fn message_that_slack_shows_late_is_not_posted_again() {
    let (script, clock) = (Script::default(), TestClock::default());
    let url = serve(&script).await;
    let slack = bot_at(&url, &clock);
    let item = item(ActionKind::Slack, None, "Done.");
    script.then(200, history(json!([]))).then(0, "");
    assert_eq!(slack.deliver(&item).await.expect_err("cut").kind, DeliverErrorKind::InDoubt);
    for pause_ms in [1_000, 4_000] {
        script.then(200, history(json!([])));
        let late = slack.deliver(&item).await.expect_err("it may be late");
        assert_eq!((late.kind, late.retry_at_ms), (DeliverErrorKind::Transient, Some(clock.now_ms() + pause_ms)));
        clock.advance(pause_ms);
    }
    let posts = || script.seen().iter().filter(|request| request.path.ends_with("postMessage")).count();
    assert_eq!(posts(), 1);
    let there = json!([{ "ts": "1700000000.000100", "metadata": { "event_payload": { "key": item.key } } }]);
    script.then(200, history(there));
    let _ = slack.deliver(&item).await.expect("it is found");
    assert_eq!(posts(), 1);

    // A process that was killed may have sent it, too.
    let after_a_kill = bot_at(&url, &clock);
    after_a_kill.expect_earlier(&item);
    script.then(200, history(json!([])));
    let late = after_a_kill.find(&item).await.expect_err("it may be late");
    assert_eq!(late.kind, DeliverErrorKind::Transient);
}

#[tokio::test]
async fn answer_beyond_the_size_limit_is_an_error() {
    let script = Script::default();
    let slack = bot(&serve(&script).await);
    script.then(200, json!({ "ok": true, "messages": [], "padding": "x".repeat(17 << 20) }));
    let error = slack.find(&item(ActionKind::Slack, None, "Done.")).await.expect_err("too long");
    assert_eq!(error.kind, DeliverErrorKind::Transient, "{error}");
    assert!(error.text.contains("too long"), "{error}");
}

#[tokio::test]
async fn webhook_of_slack_is_a_secret_and_its_messages_cannot_be_found() {
    let script = Script::default();
    let url = SecretText::new(format!("{}/services/T0/B0/secret", serve(&script).await));
    let clock = TestClock::default();
    let slack = SlackReceiver::new(&SlackAccess::Webhook(url), &NetworkSettings::default(), clock.source());
    let slack = slack.expect("an address");
    let item = item(ActionKind::Slack, None, "Done.");
    assert_eq!(slack.find(&item).await.expect("it answers"), DeliveryLookup::Unknown);
    slack.deliver(&item).await.expect("it is posted");
    assert_eq!(script.seen()[0].path, "/services/T0/B0/secret");
    script.then(404, "no_service");
    let error = slack.deliver(&item).await.expect_err("gone");
    assert!(support::waits_for_a_person(&error), "{error}");
    assert!(error.text.contains("no_service") && !error.text.contains("/services/"), "{error}");
}

fn hook(url: &str, repeats: WebhookRepeats) -> WebhookReceiver {
    let secret = SecretText::new("0123456789abcdef0123");
    let target = WebhookTarget { url: SecretText::new(format!("{url}/hook?token=hidden")), secret, repeats };
    let targets = BTreeMap::from([("deploy".to_owned(), target)]);
    WebhookReceiver::new(&targets, &NetworkSettings::default(), &TestClock::default().source()).expect("a target")
}

#[tokio::test]
async fn webhook_is_signed_over_its_bytes_and_carries_the_key() {
    let script = Script::default();
    let hook = hook(&serve(&script).await, WebhookRepeats::Unknown);
    let item = item(ActionKind::Webhook, Some("deploy"), r#"{"version":3}"#);
    hook.deliver(&item).await.expect("it is sent");
    let seen = &script.seen()[0];
    assert_eq!(seen.path, "/hook?token=hidden");
    assert_eq!((&seen.headers["webhook-id"], &seen.headers["idempotency-key"]), (&item.key, &item.key));
    let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
    assert_eq!((&body["key"], &body["data"]["version"], &body["loop"]), (&json!(item.key), &json!(3), &json!("fixer")));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"0123456789abcdef0123");
    let mut signed = format!("{}.{}.", item.key, seen.headers["webhook-timestamp"]).into_bytes();
    signed.extend(&seen.body);
    let given = seen.headers["webhook-signature"].strip_prefix("v1,").expect("a version");
    let given = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, given).expect("base64");
    ring::hmac::verify(&key, &signed, &given).expect("the signature is valid");
}

#[tokio::test]
async fn webhook_after_a_lost_answer_is_repeated_only_if_its_receiver_ignores_repeats() {
    for (repeats, expected) in
        [(WebhookRepeats::Unknown, DeliveryLookup::Unknown), (WebhookRepeats::Ignored, DeliveryLookup::No)]
    {
        let script = Script::default();
        let hook = hook(&serve(&script).await, repeats);
        let item = item(ActionKind::Webhook, Some("deploy"), "{}");
        script.then(0, "");
        let error = hook.deliver(&item).await.expect_err("cut");
        assert_eq!(error.kind, DeliverErrorKind::InDoubt, "{error}");
        assert!(!error.text.contains("hidden"), "{error}");
        assert_eq!(hook.find(&item).await.expect("it answers"), expected);
    }
}

#[tokio::test]
async fn webhook_without_a_configured_name_is_refused() {
    let script = Script::default();
    let hook = hook(&serve(&script).await, WebhookRepeats::Unknown);
    for refused in [item(ActionKind::Webhook, Some("other"), "{}"), item(ActionKind::Slack, None, "x")] {
        assert_eq!(hook.deliver(&refused).await.expect_err("refused").kind, DeliverErrorKind::Refused);
    }
    assert!(script.seen().is_empty());
}

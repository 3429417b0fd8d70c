//! The trouble of a provider in whole rounds, decided from what the proxy saw. The agent is a command that says nothing
//! about its provider and exits with zero.

use crate::common::{World, reporting};
use loopwright::agents::CommandAgent;
use loopwright::egress::{KeyStyle, ModelProvider, ProviderKey, SilenceLimits};
use loopwright::spec::{CheckMode, SandboxMode};
use loopwright::{LoopEngine, RoundOutcome, RoundReport};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The behaviour of a server after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    Hang,
}

/// A server that answers every request with these bytes.
async fn server(answer: &str, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (at, answer) = (listener.local_addr().expect("an address"), answer.to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone(), then));
        }
    });
    at
}

async fn serve(mut stream: TcpStream, answer: String, then: Then) {
    let mut heard = Vec::new();
    while !heard.ends_with(b"}") {
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(count) => heard.extend_from_slice(&part[..count]),
        }
    }
    // A client that left needs no answer.
    let _ = stream.write_all(answer.as_bytes()).await;
    if then == Then::Hang {
        std::future::pending::<()>().await;
    }
}

/// One round of a maker that sends these requests, one after the other, and exits with zero.
async fn round(at: SocketAddr, requests: usize, wait: Duration) -> RoundReport {
    let world = World::new();
    let mut spec = reporting();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    let ask = "curl -sS -o /dev/null -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" \
        -d '{\"model\":\"m-1\",\"tools\":[{\"name\":\"t\"}]}' $LOOPWRIGHT_PROVIDERS/models/v1/messages;";
    let script = format!("for n in $(seq {requests}); do {ask} done; echo done > $LOOPWRIGHT_OUTBOX/report.md; exit 0");
    let key = ProviderKey::new("sk-real-key-0123456789").expect("a key");
    let provider = ModelProvider::new("models", &format!("http://{at}"), KeyStyle::Bearer, key).expect("a provider");
    let silence = SilenceLimits { first_byte: Duration::from_millis(300), between_bytes: Duration::from_millis(300) };
    let mut settings = world.settings();
    settings.providers = vec![provider.with_silence(silence)];
    settings.provider_wait = wait;
    let maker = CommandAgent::new(&["sh", "-c", &script].map(str::to_owned)).expect("a good argv");
    let engine = LoopEngine::builder(spec).maker(maker).build(settings, world.repo.path()).await.expect("it is built");
    engine.run_once().await.expect("a round")
}

fn document(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

const STARTED: &str = "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n";

fn stopped(reason: &str) -> String {
    let delta = format!(
        "{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}},\"usage\":{{\"output_tokens\":4}}}}"
    );
    events(&format!("{STARTED}data: {delta}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_of_a_silent_command_is_what_the_proxy_saw() {
    use RoundOutcome::{Cannot, Failed, RateLimited, Reported};
    let error = |text: &str| format!("{{\"error\":{{\"type\":\"e\",\"message\":\"{text}\"}}}}");
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>".to_owned();
    let failed_midway = format!(
        "{STARTED}data: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}}}\n\n"
    );
    let table = [
        (stopped("end_turn"), Then::Close, Reported, "report-only", "only the report"),
        (document("401 Unauthorized", "", &error("bad key")), Then::Close, Failed, "auth", "bad key"),
        (document("404 Not Found", "", &error("model: m-1")), Then::Close, Failed, "bad-request", "404 for `m-1`"),
        (
            document("400 Bad Request", "", &error("prompt is too long: 210000 tokens > 200000 maximum")),
            Then::Close,
            Failed,
            "context",
            "210000 tokens > 200000",
        ),
        (
            document("429 Too Many", "retry-after: 3600\r\n", &error("slow")),
            Then::Close,
            RateLimited,
            "rate-limited",
            "slow",
        ),
        (document("529 Busy", "retry-after-ms: 900\r\n", ""), Then::Close, RateLimited, "overloaded", "529"),
        (document("500 Oops", "", "boom"), Then::Close, RateLimited, "server", "boom"),
        (stopped("refusal"), Then::Close, Cannot, "declined", "refusal"),
        (events(STARTED), Then::Close, RateLimited, "network", "cut off"),
        (events(&failed_midway), Then::Close, RateLimited, "overloaded", "Overloaded"),
        (events("data: {\"type\": oops\n\n"), Then::Close, RateLimited, "network", "cannot be read"),
        (page, Then::Close, RateLimited, "network", "HTML page"),
        (String::new(), Then::Close, RateLimited, "network", "could not be reached"),
        (String::new(), Then::Hang, RateLimited, "network", "did not answer in time"),
        (events(STARTED), Then::Hang, RateLimited, "network", "stopped in the middle"),
    ];
    for (answer, then, outcome, code, words) in table {
        let report = round(server(&answer, then).await, 1, Duration::ZERO).await;
        assert_eq!(report.outcome, Some(outcome), "{answer} {then:?}\n{}", report.render());
        let reason = report.reasons.last().map(|reason| (reason.code.as_str(), reason.text.as_str()));
        let (found, text) = reason.unwrap_or_default();
        assert!(
            (found, text.contains(words)) == (code, true),
            "{answer} {then:?}: {code} {words}: {:?}",
            report.reasons
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_sits_out_a_long_rate_limit_is_ended_at_its_first_answer() {
    let answer = document("429 Too Many", "retry-after: 3600\r\n", "{}");
    let at = server(&answer, Then::Close).await;
    // Every request would be answered; the agent is ended before it can send them all.
    let report = round(at, 2_000, Duration::from_secs(900)).await;
    assert_eq!(report.outcome, Some(RoundOutcome::RateLimited), "{}", report.render());
    assert_eq!(report.spend.tokens.total(), 0, "{}", report.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_wait_that_the_provider_named_is_sat_out_by_the_round() {
    let answer = document("429 Too Many", "retry-after: 1\r\n", "{}");
    let report = round(server(&answer, Then::Close).await, 1, Duration::from_secs(2)).await;
    assert_eq!(report.outcome, Some(RoundOutcome::RateLimited), "{}", report.render());
    let waits = report.reasons.iter().filter(|reason| reason.text.contains("waited until")).count();
    assert!(waits >= 1, "{:?}", report.reasons);
}

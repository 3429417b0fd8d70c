//! The cost of models' answers, counted by the proxy in whole rounds: the usage of agents that report nothing is known,
//! their ceilings end them midway, and no role can use another role's provider.

use crate::common::{MENDED, World, judge, mending, reporting, said};
use crate::world::{Answer, Heard, Site, plain_site, says};
use loopwright::agents::{self, Agent, CommandAgent, InstalledAgent};
use loopwright::budget::{CountedBy, Tokens};
use loopwright::egress::{KeyStyle, ModelProvider, ProviderKey};
use loopwright::spec::{AgentSpec, AgentUse, CheckMode, Role, SandboxMode};
use loopwright::{LoopEngine, LoopLevel, LoopSpec, RoundOutcome, RoundReport};
use loopwright_core::network::DenialReason;
use std::os::unix::fs::PermissionsExt as _;

/// The usage of one answer: 100 tokens in total.
const ANSWER: &str = r#"{"model":"claude-opus-5-5","usage":{"input_tokens":60,"output_tokens":40}}"#;
/// Sends one request, and prints the proxy's status code.
const ASK: &str = "curl -sS -o /dev/null -w '%{http_code} ' -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" -d q";

fn shell(script: &str) -> CommandAgent {
    CommandAgent::new(&["sh", "-c", script].map(str::to_owned)).expect("a good argv")
}

fn provider(name: &str, really: std::net::SocketAddr) -> ModelProvider {
    let key = ProviderKey::new("sk-real-key-0123456789").expect("a key");
    ModelProvider::new(name, &format!("http://{really}"), KeyStyle::Bearer, key).expect("a provider")
}

/// One round of a maker that runs this script, with a provider `models` that answers like this.
async fn round(
    mut spec: LoopSpec,
    script: &str,
    answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static,
) -> (Site, RoundReport) {
    let (site, really) = plain_site(answer).await;
    let world = World::new();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    let mut settings = world.settings();
    settings.providers = vec![provider("models", really)];
    settings.provider_wait = std::time::Duration::ZERO;
    let builder = LoopEngine::builder(spec).maker(shell(script));
    let engine = builder.build(settings, world.repo.path()).await.expect("it is built");
    let report = engine.run_once().await.expect("a round");
    (site, report)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_reports_nothing_costs_what_the_proxy_counted() {
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let script = format!("{{ {ask}; {ask}; {ask}; }} > $LOOPWRIGHT_OUTBOX/report.md");
    let (site, report) = round(reporting(), &script, |_| says(ANSWER)).await;
    assert_eq!(site.heard().len(), 3, "{}", report.render());
    let tokens = Tokens { input: 180, output: 120, ..Tokens::default() };
    assert_eq!((report.spend.tokens, report.spend.known), (tokens, true), "{}", report.render());
    let part = &report.spend.by[0];
    assert_eq!((part.counted_by, part.model.as_deref()), (CountedBy::Proxy, Some("claude-opus-5-5")));
    assert!(report.render().contains("| measured by the proxy |"), "{}", report.render());
    assert_eq!(report.notes, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_without_usage_is_estimated_from_its_text() {
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let answer: &'static str =
        format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", "x".repeat(8_000)).leak();
    let (_, report) = round(reporting(), &format!("{ask}; exit 0"), move |_| says(answer)).await;
    assert_eq!((report.spend.basis.as_str(), report.spend.by[0].basis.as_str()), ("estimated", "estimated"));
    assert!(report.render().contains("| estimated |"), "{}", report.render());
    assert!((2_000..2_100).contains(&report.spend.tokens.total()), "{:?}", report.spend);
    assert!(report.notes[0].contains("one answer of its model did not report its cost"), "{:?}", report.notes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimate_for_a_long_request_is_at_most_the_reservation() {
    let ask = "curl -sS -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" -H 'Transfer-Encoding: chunked' --data-binary @-";
    let script = format!("head -c 3000000 /dev/zero | {ask} $LOOPWRIGHT_PROVIDERS/models/v1/messages; exit 0");
    let (_, report) = round(reporting(), &script, |_| says("{}")).await;
    let reserved = 400_000 / 3;
    assert_eq!(
        (report.spend.basis.as_str(), report.spend.tokens.total()),
        ("estimated", reserved),
        "{:?}",
        report.spend
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_the_concurrency_limit_wait_and_are_all_answered() {
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let script = format!("for n in $(seq 40); do {ask} & done; wait; exit 0");
    let (site, report) = round(reporting(), &script, |_| says(ANSWER)).await;
    assert_eq!((site.heard().len(), report.spend.tokens.total()), (40, 4_000), "{}", report.render());
    assert!(report.spend.known, "{:?}", report.spend);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_whose_requests_are_all_denied_has_known_zero_usage() {
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let no = |_: &Heard| {
        let mut answer = says("{\"error\":{\"type\":\"rate_limit_error\"}}");
        *answer.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
        answer
    };
    let (_, report) = round(reporting(), &format!("{ask}; exit 0"), no).await;
    assert_eq!((report.spend.tokens.total(), report.spend.known), (0, true), "{:?}", report.spend);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_reports_nothing_exceeds_its_ceiling_by_one_answer_at_most() {
    let mut spec = reporting();
    spec.budget.role.tokens = Some(450);
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let (site, report) = round(spec, &format!("while :; do {ask}; done"), |_| says(ANSWER)).await;
    assert_eq!(report.outcome, Some(RoundOutcome::OverBudget), "{}", report.render());
    assert_eq!(site.heard().len(), 5, "four fit, the fifth passes the ceiling, and no other leaves");
    assert_eq!((report.spend.tokens.total(), report.spend.known), (500, true), "{:?}", report.spend);
    let is_named = report.reasons.iter().any(|reason| reason.text.contains("450"));
    assert!(is_named, "the ceiling is named: {:?}", report.reasons);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_ceiling_ends_an_agent_midway_too() {
    let mut spec = reporting();
    spec.budget.round.tokens = Some(200);
    spec.budget.day.tokens = Some(250);
    spec.attempts = 2;
    let ask = format!("{ASK} $LOOPWRIGHT_PROVIDERS/models/v1/messages");
    let (site, report) = round(spec, &format!("while :; do {ask}; done"), |_| says(ANSWER)).await;
    assert_eq!(report.outcome, Some(RoundOutcome::OverBudget), "{}", report.render());
    assert_eq!(site.heard().len(), 3, "{}", report.render());
    assert_eq!((report.spend.tokens.total(), report.spend.known), (300, true), "{:?}", report.spend);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_underreports_is_charged_the_proxys_count_with_a_note() {
    let (site, really) = plain_site(|_| says(ANSWER)).await;
    let world = World::new();
    let mut spec = reporting();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    let mut settings = world.settings();
    settings.providers = vec![provider("models", really)];
    let puppet = crate::common::puppet(move |invocation| {
        let url = invocation.endpoints.urls.get("models").expect("a way");
        let token = format!("x-api-key: {}", invocation.endpoints.token);
        let asked = curl(&["-sS", "-H", &token, "-d", "q", &format!("{url}/v1/messages")]);
        assert!(asked.contains("claude"), "{asked}");
        said("done")
    });
    let engine = LoopEngine::builder(spec).maker(puppet).build(settings, world.repo.path()).await.expect("it is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!(site.heard().len(), 1);
    assert_eq!((report.spend.tokens.total(), report.spend.by[0].counted_by), (100, CountedBy::Proxy));
    assert!(report.notes[0].contains("but the proxy counted 100"), "{:?}", report.notes);
}

#[expect(clippy::disallowed_methods, reason = "an agent that is a function asks as a program would")]
fn curl(args: &[&str]) -> String {
    let ran = std::process::Command::new("curl").args(args).output().expect("curl");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A program that replaces Claude Code.
fn stand_in(folder: &std::path::Path, script: &str) -> impl Agent + 'static {
    let program = folder.join("claude");
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    agents::driven_agent_at(InstalledAgent::from_path(AgentUse::Claude, program)).expect("claude is driven")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maker_that_uses_the_checkers_provider_is_denied_and_reported() {
    let (site, really) = plain_site(|_| says(ANSWER)).await;
    let (world, folder) = (World::new(), tempfile::tempdir().expect("a folder"));
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.sandbox = SandboxMode::Off;
    spec.agents.insert(Role::Maker, AgentSpec::new(AgentUse::Claude));
    spec.agents.insert(Role::Checker, AgentSpec::new(AgentUse::Codex));
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\nprintf '%s' '{MENDED}' > sum.sh\n\
         {ASK} $LOOPWRIGHT_PROVIDERS/anthropic/v1/messages > asked\n\
         {ASK} $LOOPWRIGHT_PROVIDERS/openai/v1/responses >> asked\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"usage\":{{\"input_tokens\":60,\"output_tokens\":40}}}}'\n"
    );
    let maker = stand_in(folder.path(), &script);
    let mut settings = world.settings();
    settings.providers = vec![provider("anthropic", really), provider("openai", really)];
    let builder = LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge();
    let engine = builder.build(settings, world.repo.path()).await.expect("the loop is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    let paths: Vec<String> = site.heard().into_iter().map(|heard| heard.path).collect();
    assert_eq!(paths, ["/v1/messages"], "{}", report.render());
    let denied = &report.network.denied[0];
    assert_eq!((denied.host.as_str(), denied.why), ("provider/openai", DenialReason::Role));
    assert!(report.render().contains("this role's agent does not use the provider"), "{}", report.render());
}

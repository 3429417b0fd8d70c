//! The proxy in real rounds in the real sandbox: what agents and gates reach, what they do not reach, and what the
//! report shows.
#![allow(clippy::disallowed_methods, reason = "a test looks for a key as a person would")]

use crate::common::{MENDED, World, judge, mending, reporting};
use crate::world::{plain_site, says};
use loopwright::agents::{self, AgentLogin, CommandAgent, InstalledAgent};
use loopwright::egress::{KeyStyle, ModelProvider, ProviderKey};
use loopwright::spec::{AgentSpec, AgentUse, CheckMode, Gate, Role, RunGate, SandboxMode};
use loopwright::{LoopEngine, LoopLevel, RoundOutcome, boundary};
use loopwright_core::network::DenialReason;
use loopwright_testkit::skip;
use std::os::unix::fs::PermissionsExt as _;

fn shell(script: &str) -> CommandAgent {
    CommandAgent::new(&["sh", "-c", script].map(str::to_owned)).expect("a good argv")
}

/// Whether the kernel confines programs here; a host that cannot reports a skip.
async fn walls() -> bool {
    let able = boundary::probe(&std::env::temp_dir()).await.enforces();
    if !able {
        skip("the kernel cannot confine programs here");
    }
    able
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maker_reaches_hosts_of_its_loop_and_the_report_lists_denied_ones() {
    if !walls().await {
        return;
    }
    let (site, really) = plain_site(|heard| says(&format!("hello from {}\n", heard.path))).await;
    let port = really.port();
    let script = format!(
        "{{ curl -sS http://127.0.0.1:{port}/inside
            for at in 1 2 3; do curl -sS https://docs.example.org/; done
            curl -sS --noproxy '*' -m 5 http://127.0.0.1:{port}/direct; }} > $LOOPWRIGHT_OUTBOX/report.md 2>&1; exit 0"
    );
    let world = World::new();
    let mut spec = reporting();
    spec.network = vec![format!("127.0.0.1:{port}")];
    spec.check = CheckMode::None;
    let report = world.build(LoopEngine::builder(spec).maker(shell(&script))).await.run_once().await.expect("a round");
    let said = report.agent_report.clone().unwrap_or_default();
    assert!(said.contains("hello from /inside") && said.contains("403"), "{said}\n{}", report.render());
    let paths: Vec<String> = site.heard().into_iter().map(|heard| heard.path).collect();
    assert_eq!(paths, ["/inside"], "nothing bypasses the proxy");
    assert_eq!((report.network.denied[0].why, report.network.denied[0].count), (DenialReason::Host, 3));
    let denied_line = "asked for docs.example.org 3 times: denied, the host is not in `network`; to allow it add `network: [docs.example.org]`";
    assert!(report.render().contains(denied_line), "{}", report.render());
    assert!(!world.state().join("doors").join(&report.round).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_alone_reaches_the_hosts_it_names() {
    if !walls().await {
        return;
    }
    let (site, really) = plain_site(|_| says("5\n")).await;
    let port = really.port();
    let world = World::new();
    world.repo.write("ask.sh", format!("curl -fsS http://127.0.0.1:{port}/gate\n")).commit("a gate");
    let mut spec = mending(LoopLevel::L2Assisted);
    let mut gate = RunGate::new("asks", vec!["sh".to_owned(), "ask.sh".to_owned()]);
    gate.network = vec![format!("127.0.0.1:{port}")];
    spec.gates.push(Gate::Run(gate));
    spec.network = vec!["docs.example.org".to_owned()];
    let maker = shell(&format!("printf '%s' '{MENDED}' > sum.sh; curl -sS http://127.0.0.1:{port}/maker; exit 0"));
    let engine = world.build(LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge()).await;
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    let paths: Vec<String> = site.heard().into_iter().map(|heard| heard.path).collect();
    assert_eq!(paths, ["/gate"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maker_uses_a_model_without_seeing_the_key_and_a_gate_cannot() {
    if !walls().await {
        return;
    }
    const KEY: &str = "sk-real-key-0123456789";
    let (site, really) = plain_site(|_| says("an answer\n")).await;
    let world = World::new();
    let ask = "curl -sS -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" -d q $LOOPWRIGHT_PROVIDERS/models/v1/messages";
    world.repo.write("ask.sh", "test -z \"$LOOPWRIGHT_PROVIDER_TOKEN\"\n").commit("a gate");
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.gates.push(Gate::Run(RunGate::new("asks", vec!["sh".to_owned(), "ask.sh".to_owned()])));
    let maker = shell(&format!("printf '%s' '{MENDED}' > sum.sh; {ask} > answer; ! env | grep {KEY}"));
    let builder = LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge();
    let key = ProviderKey::new(KEY).expect("a key");
    let mut settings = world.settings();
    let provider =
        ModelProvider::new("models", &format!("http://{really}"), KeyStyle::Bearer, key).expect("a provider");
    settings.providers = vec![provider];
    let engine = builder.build(settings, world.repo.path()).await.expect("the loop is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    assert_eq!(site.heard()[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(report.network.reached[0].host, "provider/models");
    let changed: Vec<&str> = report.changes.iter().map(|change| change.path.as_str()).collect();
    assert!(changed.contains(&"answer"), "{changed:?}");
    let found = std::process::Command::new("grep").args(["-rl", KEY]).arg(world.state()).output().expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is nowhere in the state directory");
}

/// A program named like Claude Code.
fn stand_in(folder: &std::path::Path, script: &str) -> std::path::PathBuf {
    let program = folder.join("claude");
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    program
}

/// Every file below a folder that holds this text.
fn holders(folder: &std::path::Path, text: &str) -> String {
    let found = std::process::Command::new("grep").args(["-rl", text]).arg(folder).output().expect("grep runs");
    String::from_utf8_lossy(&found.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfined_agent_uses_its_model_at_a_port_without_seeing_the_key() {
    const KEY: &str = "sk-real-key-9876543210";
    let (site, really) = plain_site(|_| says("an answer\n")).await;
    let world = World::new();
    let mut spec = reporting();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    let ask = "curl -sS -H \"authorization: Bearer $LOOPWRIGHT_PROVIDER_TOKEN\" -d q $LOOPWRIGHT_PROVIDERS/models/v1/messages";
    let bare = "curl -sS -o /dev/null -w '%{http_code}' -d q $LOOPWRIGHT_PROVIDERS/models/v1/messages";
    let maker = shell(&format!("{{ {ask}; {bare}; env | grep -c {KEY}; }} > $LOOPWRIGHT_OUTBOX/report.md; exit 0"));
    let mut settings = world.settings();
    let key = ProviderKey::new(KEY).expect("a key");
    settings.providers =
        vec![ModelProvider::new("models", &format!("http://{really}"), KeyStyle::XApiKey, key).expect("a provider")];
    let engine = LoopEngine::builder(spec).maker(maker).build(settings, world.repo.path()).await.expect("it is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.agent_report.as_deref().map(str::trim), Some("an answer\n4010"), "{}", report.render());
    assert_eq!(site.heard().len(), 1, "a request without a token is not passed on");
    assert_eq!(site.heard()[0].header("x-api-key"), Some(KEY));
    assert_eq!(report.network.reached[0].host, "provider/models");
    assert_eq!(holders(&world.state(), KEY), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_whose_provider_has_no_key_is_not_started_and_the_variable_is_named() {
    let world = World::new();
    let mut spec = reporting();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    spec.agents.insert(Role::Maker, AgentSpec::new(AgentUse::Claude));
    let program = stand_in(world.repo.path(), "#!/bin/sh\necho it ran > $LOOPWRIGHT_OUTBOX/report.md\n");
    let maker =
        agents::driven_agent_at(InstalledAgent::from_path(AgentUse::Claude, program)).expect("claude is driven");
    let report = world.build(LoopEngine::builder(spec).maker(maker)).await.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Failed), "{}", report.render());
    assert!(report.reasons.iter().any(|reason| reason.text.contains("set ANTHROPIC_API_KEY")), "{:?}", report.reasons);
    assert_eq!(report.agent_report, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_whose_server_is_not_defined_is_not_started_and_the_server_is_named() {
    let world = World::new();
    let mut spec = reporting();
    (spec.check, spec.sandbox) = (CheckMode::None, SandboxMode::Off);
    let claude = AgentSpec { mcp_servers: vec!["docs".to_owned()], ..AgentSpec::new(AgentUse::Claude) };
    spec.agents.insert(Role::Maker, claude);
    let program = stand_in(world.repo.path(), "#!/bin/sh\necho it ran > $LOOPWRIGHT_OUTBOX/report.md\n");
    let maker =
        agents::driven_agent_at(InstalledAgent::from_path(AgentUse::Claude, program)).expect("claude is driven");
    let report = world.build(LoopEngine::builder(spec).maker(maker)).await.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Failed), "{}", report.render());
    assert!(report.reasons.iter().any(|reason| reason.text.contains("no server `docs`")), "{:?}", report.reasons);
    assert_eq!(report.agent_report, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_sign_in_is_visible_to_its_role_only_and_removed_afterwards() {
    const TOKEN: &str = "dummy-access-token-0123456789";
    let (world, home) = (World::new(), tempfile::tempdir().expect("a folder"));
    std::fs::create_dir(home.path().join(".claude")).expect("a folder");
    let file = home.path().join(".claude/.credentials.json");
    std::fs::write(&file, format!("{{\"accessToken\": \"{TOKEN}\"}}")).expect("a dummy");
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.sandbox = SandboxMode::Off;
    world.repo.write("nobody.sh", "test ! -e $HOME/.claude/.credentials.json\n").commit("a gate");
    spec.gates.push(Gate::Run(RunGate::new("nobody", vec!["sh".to_owned(), "nobody.sh".to_owned()])));
    spec.agents.insert(Role::Maker, AgentSpec::new(AgentUse::Claude));
    // Replaces the program: it works only when it is signed in and has no key, and it prints its token.
    let work = format!(
        "#!/bin/sh\ncat > /dev/null\ngrep -q {TOKEN} $CLAUDE_CONFIG_DIR/.credentials.json || exit 3\n\
         test -z \"$ANTHROPIC_API_KEY$ANTHROPIC_BASE_URL\" || exit 4\nprintf '%s' '{MENDED}' > sum.sh\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"I hold {TOKEN}\"}}'\n"
    );
    let program = stand_in(home.path(), &work);
    let maker =
        agents::driven_agent_at(InstalledAgent::from_path(AgentUse::Claude, program)).expect("claude is driven");
    let builder = LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge();
    let mut settings = world.settings();
    let login = AgentLogin::locate(AgentUse::Claude, home.path()).expect("claude signs in");
    for secret in login.secrets().expect("it is readable") {
        settings.known_secrets = settings.known_secrets.with("LOGIN", &secret);
    }
    settings.logins = vec![login];
    let report =
        builder.build(settings, world.repo.path()).await.expect("it is built").run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    assert!(report.boundary.gaps.iter().any(|gap| gap.contains("the maker's own sign-in (`claude`) is in its HOME")));
    assert!(report.render().contains("own sign-in"), "{}", report.render());
    assert_eq!(holders(&world.state(), TOKEN), "", "neither in the workspace nor in what was recorded");
}

//! The proxy in real rounds behind real walls: what agents and gates reach, what they do not, and what the report says.
#![allow(clippy::disallowed_methods, reason = "a test looks for a key as a person would")]

use crate::common::{MENDED, World, judge, mending, reporting};
use crate::world::{plain_site, says};
use loopwright::agents::Command;
use loopwright::egress::{Key, KeyStyle, Provider};
use loopwright::spec::{CheckMode, Gate, RunGate};
use loopwright::{LoopEngine, LoopLevel, RoundOutcome, boundary};
use loopwright_core::network::Why;
use loopwright_testkit::skip;

fn shell(script: &str) -> Command {
    Command::new(&["sh", "-c", script].map(str::to_owned)).expect("a good argv")
}

/// Whether the kernel holds programs here; a host that cannot says so.
async fn walls() -> bool {
    let able = boundary::probe(&std::env::temp_dir()).await.enforces();
    if !able {
        skip("the kernel holds no program here");
    }
    able
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maker_reaches_what_its_loop_names_and_the_report_tells_what_else_it_asked_for() {
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
    assert_eq!(paths, ["/inside"], "there is no way past the proxy");
    assert_eq!((report.network.denied[0].why, report.network.denied[0].count), (Why::Host, 3));
    let told = "asked for docs.example.org 3 times: denied, the host is not in `network`; to allow it add `network: [docs.example.org]`";
    assert!(report.render().contains(told), "{}", report.render());
    assert!(!world.state().join("doors").join(&report.round).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_reaches_what_it_names_and_nobody_else_does() {
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
async fn a_maker_asks_a_model_without_ever_holding_the_key_and_a_gate_cannot() {
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
    let key = Key::new(KEY).expect("a key");
    let mut settings = world.settings();
    let provider = Provider::new("models", &format!("http://{really}"), KeyStyle::Bearer, key).expect("a provider");
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

//! Concurrent rounds of real agents that race for the rest of their loop's daily budget: each round exceeds a ceiling
//! by one report at most, and the journal matches the usage that the model server reported.

use crate::world::{model_of, served_by};
use loopwright::agents::{self, Agent as _};
use loopwright::egress::{KeyStyle, ModelProvider, ProviderKey};
use loopwright::spec::{AgentSpec, AgentUse, CheckMode, Role};
use loopwright::store::SpendScope;
use loopwright::units::Usd;
use loopwright::{EngineSettings, LoopEngine, LoopLevel, LoopSpec};
use loopwright_core::config::ModelPrice;
use loopwright_core::prices::ModelPrices;
use loopwright_testkit::{ModelServer, TestRepo, agents as installed};
use std::sync::Arc;

const ROUNDS: usize = 6;
/// The cost of one answer, in millionths of a dollar; a token costs one.
const ANSWER: u64 = 10_000;
/// The daily budget of the loop.
const DAY: u64 = 200_000;

/// A loop that only reads: each start reserves a quarter of its round's ceiling.
fn looking(agent: AgentUse) -> LoopSpec {
    let mut spec = LoopSpec::new("look", "say what is there", LoopLevel::L1Report).with_maker_prompt("Look at it.");
    spec.check = CheckMode::None;
    spec.attempts = 4;
    spec.budget.round.usd = Some(Usd(120_000));
    spec.budget.round.tokens = None;
    spec.budget.day.usd = Some(Usd(DAY));
    let model = Some(model_of(agent.word()).to_owned());
    spec.agents.insert(Role::Maker, AgentSpec { model, ..AgentSpec::new(agent) });
    spec
}

fn settings(
    state: &std::path::Path,
    model: &ModelServer,
    bin: std::path::PathBuf,
    prices: ModelPrices,
) -> EngineSettings {
    let provider = |name: &str, end: &str| {
        let key = ProviderKey::new("sk-real-0123456789abcdef").expect("a key");
        ModelProvider::new(name, &format!("{}{end}", model.url()), KeyStyle::Bearer, key).expect("a provider")
    };
    let mut settings = EngineSettings::new(state);
    settings.providers = vec![provider("anthropic", ""), provider("google", ""), provider("openai", "/v1")];
    settings.extra_path = vec![bin];
    settings.prices = Arc::new(prices);
    settings
}

fn race(agent: AgentUse) {
    if installed::require_program(agent.word()).is_none() {
        return;
    }
    let turn = format!("usage input={} output=1000\nread data.txt\n", ANSWER - 1000);
    let model = ModelServer::start(&format!("@ maker\n{}say It is there.\n", turn.repeat(14)));
    let (repo, state) = (TestRepo::new(), tempfile::tempdir().expect("a folder"));
    repo.write("data.txt", "data\n").commit("first");
    let one = ModelPrice {
        input: Usd(1_000_000),
        output: Usd(1_000_000),
        cache_read: Usd(1_000_000),
        cache_write: Usd(1_000_000),
    };
    let prices = ModelPrices::new([("claude-opus-5-5".to_owned(), one), ("gpt-5.5".to_owned(), one)].into());
    let bin = installed::bin_dir().expect("it is installed");
    let found = agents::find(agent, &[bin.clone(), "/usr/bin".into(), "/bin".into()], None).expect("it is installed");
    let maker = agents::driven_agent_at(found).expect("it is driven");
    assert!(maker.capabilities().proxy);
    let settings = settings(&state.path().join("state"), &model, bin, prices.clone());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder = LoopEngine::builder(looking(agent)).maker(maker);
        let engine = builder.build(settings, repo.path()).await.expect("the loop is built");
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.run_once().await.expect("a round") })
            })
            .collect();
        let (mut sum, mut over, mut rendered) = (0, 0, String::new());
        for round in rounds {
            let report = round.await.expect("no panic");
            sum += report.spend.usd.0;
            over += u64::from(report.exit == Some(12));
            assert!(report.spend.known, "{}", report.render());
            rendered += &report.render();
        }
        let (_, served) = served_by(&model.counter(), &prices);
        assert!(over > 0 && served > DAY * 9 / 10, "they raced for it: {served}, {over} were ended\n{rendered}");
        assert!(served <= DAY + over * ANSWER, "{served} were used, {over} were ended\n{rendered}");
        let store = engine.engine().store();
        let today = loopwright::clock::day(loopwright::clock::Clock::now_ms(&loopwright::clock::SystemClock));
        let day = store.spend(SpendScope::Fleet, "", "", &today).await.expect("spend");
        assert_eq!((sum, u64::try_from(day.settled_micros).expect("positive")), (served, served), "{rendered}");
        assert_eq!((day.reserved_micros, day.reserved_tokens), (0, 0), "nothing is held any more");
        assert_eq!(store.verify().await.expect("verify").broken, None);
    });
}

#[test]
fn rounds_of_claude_racing_for_the_last_dollar_pass_it_by_a_report_each_at_most() {
    race(AgentUse::Claude);
}

#[test]
fn rounds_of_codex_which_reports_its_usage_at_its_end_pass_the_last_dollar_by_a_report_each_at_most() {
    race(AgentUse::Codex);
}

//! The models in `doctor` whose price is unknown, so that their tokens cost the highest price: those that the loops of this
//! repository and the configuration name, and those that rounds have used.

use super::{DoctorCheck, DoctorStatus};
use crate::context::CommandContext;
use loopwright::agents::providers::ProviderChoice;
use loopwright::store::{CostsBy, CostsQuery};
use loopwright_core::prices::{ModelPrices, PriceSource};
use loopwright_core::spec::{AgentSpec, Role};
use std::collections::BTreeMap;

/// The most models with their own line; a record of many more is an agent that names them by chance.
const MODELS_MAX: usize = 10;
/// The most models of the record that are checked.
const RECORDED_MAX: u32 = 100;

/// One line for each model without a known price.
pub(super) async fn check_models(cx: &CommandContext) -> Vec<DoctorCheck> {
    let Ok(effective) = cx.config(None) else { return Vec::new() };
    let prices = effective.model_prices();
    let mut unknown: BTreeMap<String, String> = BTreeMap::new();
    for (place, agent) in named_agents(cx).await {
        let Some(model) = agent.model.clone() else { continue };
        let served = ProviderChoice::for_spec(&agent);
        let is_free = matches!(&served, ProviderChoice::One(name) if prices.is_unmetered(name));
        if !is_free && is_unknown(&prices, &model) {
            unknown.entry(model).or_insert(place);
        }
    }
    for model in recorded_models(cx).await {
        // Rounds record a model of an unmetered provider as `PROVIDER/MODEL`.
        let is_free = model.split_once('/').is_some_and(|(provider, _)| prices.is_unmetered(provider));
        if !is_free && is_unknown(&prices, &model) {
            unknown.entry(model).or_insert_with(|| "rounds on record".to_owned());
        }
    }
    unknown.into_iter().take(MODELS_MAX).map(|(model, place)| line(&model, &place)).collect()
}

fn is_unknown(prices: &ModelPrices, model: &str) -> bool {
    prices.price(model).1 == PriceSource::Dearest
}

fn line(model: &str, place: &str) -> DoctorCheck {
    let text = format!("no price is known ({place}); its tokens cost the highest price of the table");
    let fix = format!("`prices: {{ \"{model}\": {{ input: …, output: … }} }}` in your own configuration");
    DoctorCheck { status: DoctorStatus::Gap, fix: Some(fix), ..DoctorCheck::ok(&format!("price of {model}"), text) }
}

/// Every agent that loops of this repository name, with its place.
async fn named_agents(cx: &CommandContext) -> Vec<(String, AgentSpec)> {
    let Ok(repo) = cx.repo().await else { return Vec::new() };
    let Ok(loops) = cx.loops(&repo) else { return Vec::new() };
    let mut agents = Vec::new();
    for file in &loops.loops {
        for role in Role::ALL.into_iter().filter(|role| file.spec.agents.contains_key(role)) {
            let place = format!("{} of {}", role.word(), file.spec.name);
            agents.extend(file.spec.chain(role).into_iter().map(|agent| (place.clone(), agent)));
        }
    }
    agents
}

/// The models that rounds have used; none without a store.
async fn recorded_models(cx: &CommandContext) -> Vec<String> {
    let Ok(Some(store)) = super::super::status::open_store_if_any(cx).await else { return Vec::new() };
    let (since, repo, loop_name, accepted) = (None, None, None, Vec::new());
    let query = CostsQuery { by: CostsBy::Model, since, repo, loop_name, accepted, limit: RECORDED_MAX };
    let rows = store.costs(query).await.unwrap_or_default();
    rows.into_iter().map(|row| row.key).filter(|model| !model.is_empty()).collect()
}

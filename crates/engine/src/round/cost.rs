//! The provider access and the cost of a start: its grant for the model providers, the ceilings for their answers, and
//! the two counts, the agent's own and the proxy's. The higher count is charged.

use super::StageError;
use super::context::RoundContext;
use super::money;
use super::role_runner::RoleTurn;
use crate::agents::providers::ProviderChoice;
use crate::agents::{AgentError, AgentInvocation, AgentOutcome, ProviderEndpoints};
use crate::egress::usage::{UsageBounds, UsageCount};
use crate::egress::{EgressRoutes, ProviderGrant};
use crate::proc::{CancelToken, RunEnd};
use loopwright_core::budget::{
    self, AgentUsage, ChargeBasis, CountedUsage, ModelSpend, ModelTokens, PricedTokens, Reservation, Spend,
    SpendAllowance, SpendKnown, Tokens,
};
use loopwright_core::prices::{ModelPrices, PriceSource};
use loopwright_core::provider::{ExchangeEnd, ProviderExchange};
use loopwright_core::round::Stage;
use loopwright_core::spec::{AgentSpec, AgentUse, LoopSpec};
use loopwright_core::units::Usd;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The part of the budget that belongs to one start.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartShare {
    /// The amount that is reserved, and charged if nothing is known about the usage. A free start reserves no money.
    pub(super) reserved: Reservation,
    /// The most that an estimate may charge, also for a start that reserved no money.
    pub(super) most: Reservation,
}

/// The cost of one start.
pub(super) struct StartCost {
    pub(super) spend: Spend,
    /// The cost by model, where that is known.
    pub(super) models: Vec<ModelSpend>,
    /// The source of the count.
    pub(super) counted: CountedUsage,
}

/// The endpoints of the model providers for the agent of this turn, with a grant that no other start has. An agent
/// whose provider has no key uses its own sign-in, if its user allows that.
pub(super) fn endpoints(
    cx: &RoundContext<'_>,
    routes: &EgressRoutes,
    stage: Stage,
    turn: &RoleTurn,
) -> Result<ProviderEndpoints, StageError> {
    let known = cx.engine.provider_names();
    let asks = turn.spec.as_ref().map_or(ProviderChoice::All, ProviderChoice::for_spec);
    let login = turn.spec.as_ref().and_then(|agent| cx.engine.login(agent));
    let login = login.and_then(|login| login.read().ok()).map(Arc::from);
    let provider = turn.spec.as_ref().and_then(|agent| agent.provider.clone());
    let Some(egress) = routes.proxy() else {
        return Ok(ProviderEndpoints { login, provider, ..ProviderEndpoints::default() });
    };
    let pass = egress.grant_access(&asks.select_from(&known));
    let pass = pass.map_err(|error| StageError::broke(stage, "token", &error))?;
    Ok(ProviderEndpoints { login, provider, ..ProviderEndpoints::from_grant(pass) })
}

/// A start's share of the budget.
pub(super) fn reservation(cx: &RoundContext<'_>, spec: &LoopSpec, turn: &RoleTurn) -> Reservation {
    let share = money::reservation(spec).capped_at(spec.role_ceilings(turn.role).allowance());
    let prices = &cx.engine.settings.prices;
    let Some(agent) = &turn.spec else { return share };
    reserved_share(share, prices, agent, &cx.engine.provider_names())
}

/// The share of this agent. It reserves no money if none of its providers is metered, or if the model that it names has a
/// price of 0. Its grant still covers all models of its provider: what it uses of another one is charged when it is seen.
fn reserved_share(share: Reservation, prices: &ModelPrices, agent: &AgentSpec, known: &[&str]) -> Reservation {
    let used = ProviderChoice::for_spec(agent).select_from(known);
    let is_unmetered = !used.is_empty() && used.iter().all(|name| prices.is_unmetered(name));
    let is_free = is_unmetered || agent.model.as_deref().is_some_and(|model| prices.is_free_of_charge(model));
    if is_free { Reservation { usd: Usd(0), ..share } } else { share }
}

/// The prices of a start. If none of its providers is metered, its agent's own reports cost nothing either.
pub(super) fn prices(cx: &RoundContext<'_>, endpoints: &ProviderEndpoints) -> Arc<ModelPrices> {
    let prices = &cx.engine.settings.prices;
    let is_free = !endpoints.urls.is_empty() && endpoints.urls.keys().all(|name| prices.is_unmetered(name));
    if is_free { Arc::new(ModelPrices::free()) } else { Arc::clone(prices) }
}

/// Applies the ceilings of a start's own reports to the cost of its models' answers too: they also stop an agent
/// that reports its usage late or never.
pub(super) fn bound_grant(invocation: &AgentInvocation) {
    let limits = &invocation.limits;
    let (meter, prices) = (limits.meter.clone(), Arc::clone(&invocation.prices));
    if let Some(pass) = &invocation.endpoints.grant {
        pass.tally().set_bounds(UsageBounds { tokens: limits.tokens, usd: limits.usd, meter, prices });
    }
}

/// Waits for a start, and ends it when the round is stopped, when the proxy's count passes a ceiling, or when the agent
/// only waits for a provider that will not answer soon.
pub(super) async fn unless_over(
    cancel: &CancelToken,
    work: impl Future<Output = Result<AgentOutcome, AgentError>>,
    endpoints: &ProviderEndpoints,
    stop: &CancelToken,
) -> Result<AgentOutcome, AgentError> {
    let pass = endpoints.grant.as_deref();
    let stopped = async {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = over(pass) => {}
            () = hopeless(pass) => {}
        }
        stop.cancel();
        std::future::pending().await
    };
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        outcome = stopped => outcome,
    };
    if let Some(pass) = pass {
        pass.end();
    }
    match pass.and_then(|pass| pass.tally().passed_ceiling()) {
        // Later errors of the agent, such as one after an unanswered request, are a result of the ceiling.
        Some(limit) if !cancel.is_cancelled() => {
            outcome.map(|outcome| AgentOutcome { how: RunEnd::Stopped, limit: Some(limit), ..outcome })
        }
        None if !cancel.is_cancelled() && pass.is_some_and(|pass| pass.exchanges().is_hopeless()) => {
            // It was ended for its provider, whose trouble the exchanges show.
            outcome.map(|outcome| AgentOutcome { how: RunEnd::Finished, ..outcome })
        }
        Some(_) | None => outcome,
    }
}

/// The cost of a start. An agent that could not be started cost nothing; one that failed may have cost something,
/// so the reservation is charged.
pub(super) fn cost_of(
    outcome: &Result<AgentOutcome, AgentError>,
    agent: Option<&AgentSpec>,
    invocation: &AgentInvocation,
    share: StartShare,
    wall_ms: u64,
) -> StartCost {
    let prices = &invocation.prices;
    let seen = invocation.endpoints.grant.as_ref().map(|pass| pass.tally().current_count()).unwrap_or_default();
    if let (Ok(_), Some(usd)) = (outcome, stated_cost(agent, &seen)) {
        let spend = Spend { wall_ms, usd, ..Spend::default() };
        return StartCost { spend, models: Vec::new(), counted: CountedUsage::default() };
    }
    match outcome {
        Ok(outcome) if outcome.usage == AgentUsage::Unknown && asked_nobody(agent, invocation, &seen) => {
            let spend = Spend { wall_ms, ..Spend::default() };
            StartCost { spend, models: Vec::new(), counted: CountedUsage::default() }
        }
        Ok(outcome) => counted(prices, outcome.usage, &outcome.self_report.models, &seen, share, wall_ms),
        Err(
            AgentError::NotFound { .. }
            | AgentError::Unavailable { .. }
            | AgentError::Script { .. }
            | AgentError::Exhausted { .. },
        ) if seen == UsageCount::default() => {
            let spend = Spend { wall_ms, ..Spend::default() };
            StartCost { spend, models: Vec::new(), counted: CountedUsage::default() }
        }
        Err(_) => counted(prices, AgentUsage::Unknown, &[], &seen, share, wall_ms),
    }
}

/// Whether the program of a coding agent sent no request through the proxy, which is its only way to a model: it has no
/// sign-in of its own.
fn asked_nobody(agent: Option<&AgentSpec>, invocation: &AgentInvocation, seen: &UsageCount) -> bool {
    let is_program = agent.is_some_and(|agent| !matches!(agent.agent, AgentUse::Scripted | AgentUse::Command));
    let endpoints = &invocation.endpoints;
    is_program && endpoints.grant.is_some() && endpoints.login.is_none() && *seen == UsageCount::default()
}

/// The cost of a start of a `command` agent that asked no provider: the amount in the loop file, or nothing.
fn stated_cost(agent: Option<&AgentSpec>, seen: &UsageCount) -> Option<Usd> {
    let agent = agent.filter(|agent| agent.agent == AgentUse::Command && *seen == UsageCount::default())?;
    Some(agent.cost.unwrap_or(Usd(0)))
}

fn counted(
    prices: &ModelPrices,
    usage: AgentUsage,
    models: &[ModelTokens],
    seen: &UsageCount,
    share: StartShare,
    wall_ms: u64,
) -> StartCost {
    let reported = match usage {
        AgentUsage::Reported(tokens) => {
            Some(PricedTokens { tokens, usd: price_of(prices, models, &seen.models, tokens) })
        }
        AgentUsage::Unknown => None,
    };
    // If every request was refused, the agent is known to have used nothing.
    let has_seen = seen.reported > 0 || seen.refused > 0 || seen.tokens() != Tokens::default();
    let sum = has_seen.then(|| PricedTokens { tokens: seen.tokens(), usd: seen.cost(prices) });
    let (counted, charge) = CountedUsage::decide(reported, sum, seen.unclear, seen.guess(prices));
    let (count, models, least) = match (charge, reported, sum) {
        (ChargeBasis::Reported, Some(reported), _) => (Some(reported), models, Reservation::default()),
        (ChargeBasis::Counted, _, Some(sum)) => (Some(sum), seen.models.as_slice(), Reservation::default()),
        (ChargeBasis::Estimated(amount), reported, sum) => {
            // The estimate is not more than the start's share; what was counted is charged in any case.
            let counts = [reported, sum].into_iter().flatten().map(PricedTokens::amount);
            let most = counts.fold(share.most, larger);
            let spend = estimate(amount.capped_at(SpendAllowance { usd: Some(most.usd), tokens: Some(most.tokens) }));
            return StartCost { spend: Spend { wall_ms, ..spend }, models: Vec::new(), counted };
        }
        (ChargeBasis::AtLeast(least), ..) => (None, models, least.plus(seen.guess(prices))),
        (ChargeBasis::Reported, None, _) | (ChargeBasis::Counted, _, None) => (None, models, Reservation::default()),
    };
    let usage = count.map_or(AgentUsage::Unknown, |count| AgentUsage::Reported(count.tokens));
    let reserved = larger(share.reserved, least);
    let spend = budget::spend_from_usage(usage, reserved, |_| count.map_or(Usd(0), |count| count.usd), wall_ms);
    let models = if spend.known == SpendKnown::Yes { lines(prices, models) } else { Vec::new() };
    StartCost { spend, models, counted }
}

fn larger(a: Reservation, b: Reservation) -> Reservation {
    Reservation { tokens: a.tokens.max(b.tokens), usd: a.usd.max(b.usd) }
}

fn estimate(amount: Reservation) -> Spend {
    let tokens = Tokens { input: amount.tokens, ..Tokens::default() };
    Spend { tokens, usd: amount.usd, wall_ms: 0, known: SpendKnown::Estimated }
}

/// Returns when the provider will not answer soon; pending forever for a start without a grant.
async fn hopeless(pass: Option<&ProviderGrant>) {
    match pass {
        Some(pass) => pass.exchanges().wait_until_hopeless().await,
        None => std::future::pending().await,
    }
}

/// The exchanges of a start with its providers, in the order of their ends. After a start that was ended for its
/// provider, those that it left do not count: it may have started one more.
pub(super) fn exchanges_of(invocation: &AgentInvocation) -> Vec<ProviderExchange> {
    let Some(log) = invocation.endpoints.grant.as_ref().map(|pass| pass.exchanges()) else { return Vec::new() };
    let mut exchanges = log.exchanges();
    if log.is_hopeless() {
        exchanges.retain(|exchange| exchange.end != ExchangeEnd::Left);
    }
    exchanges
}

/// Returns when a ceiling is passed; pending forever for a start without a grant.
async fn over(pass: Option<&ProviderGrant>) {
    match pass {
        Some(pass) => pass.tally().wait_for_ceiling().await,
        None => std::future::pending().await,
    }
}

fn lines(prices: &ModelPrices, models: &[ModelTokens]) -> Vec<ModelSpend> {
    let spend = |used: &ModelTokens| ModelSpend {
        model: used.model.clone(),
        tokens: used.tokens,
        usd: prices.cost_of_used(used),
        known: SpendKnown::Yes,
    };
    models.iter().map(spend).collect()
}

/// The price of a start's tokens: each model's by its own rate, and tokens without a model by the highest rate of the
/// models that the proxy saw. If it saw none, the model is unknown. A model without a price that no request named is only
/// the agent's word for a model that it does not know.
fn price_of(prices: &ModelPrices, models: &[ModelTokens], seen: &[ModelTokens], all: Tokens) -> Usd {
    let is_asked = |used: &&ModelTokens| {
        let has_price = prices.price(&used.model).1 != PriceSource::Dearest;
        has_price || seen.is_empty() || seen.iter().any(|asked| asked.model == used.model)
    };
    let models: Vec<&ModelTokens> = models.iter().filter(is_asked).collect();
    let named = models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens));
    let unnamed = all.less(named);
    let rates = seen.iter().map(|used| prices.cost_of_used(&ModelTokens { tokens: unnamed, ..used.clone() }));
    let rest = rates.max().unwrap_or_else(|| prices.cost_of("", unnamed)).0;
    Usd(models.iter().fold(rest, |sum, used| sum.saturating_add(prices.cost_of_used(used).0)))
}

//! The provider access and the cost of a start: its grant for the model providers, the ceilings for their answers, and
//! the two counts, the agent's own and the proxy's. The higher count is charged.

use super::StageError;
use super::context::RoundContext;
use super::role_runner::RoleTurn;
use crate::agents::providers::ProviderChoice;
use crate::agents::{AgentError, AgentInvocation, AgentOutcome, ProviderEndpoints};
use crate::egress::usage::{UsageBounds, UsageCount};
use crate::egress::{EgressRoutes, ProviderGrant};
use crate::proc::{CancelToken, RunEnd};
use loopwright_core::budget::{
    self, AgentUsage, ChargeBasis, CountedUsage, ModelSpend, ModelTokens, PricedTokens, Reservation, Spend, SpendKnown,
    Tokens,
};
use loopwright_core::prices::ModelPrices;
use loopwright_core::round::Stage;
use loopwright_core::units::Usd;
use std::sync::Arc;

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
    let Some(egress) = routes.proxy() else {
        return Ok(ProviderEndpoints { login, ..ProviderEndpoints::default() });
    };
    let pass = egress.grant_access(&asks.select_from(&known));
    let pass = pass.map_err(|error| StageError::broke(stage, "token", &error))?;
    Ok(ProviderEndpoints { login, ..ProviderEndpoints::from_grant(pass) })
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

/// Waits for a start, and ends it when the round is stopped or when the proxy's count passes a ceiling.
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
        Some(_) | None => outcome,
    }
}

/// The cost of a start. An agent that could not be started cost nothing; one that failed may have cost something,
/// so the reservation is charged.
pub(super) fn cost_of(
    outcome: &Result<AgentOutcome, AgentError>,
    invocation: &AgentInvocation,
    reserved: Reservation,
    wall_ms: u64,
) -> StartCost {
    let prices = &invocation.prices;
    let seen = invocation.endpoints.grant.as_ref().map(|pass| pass.tally().current_count()).unwrap_or_default();
    match outcome {
        Ok(outcome) => counted(prices, outcome.usage, &outcome.self_report.models, &seen, reserved, wall_ms),
        Err(
            AgentError::NotFound { .. }
            | AgentError::Unavailable { .. }
            | AgentError::Script { .. }
            | AgentError::Exhausted { .. },
        ) if seen == UsageCount::default() => {
            let spend = Spend { wall_ms, ..Spend::default() };
            StartCost { spend, models: Vec::new(), counted: CountedUsage::default() }
        }
        Err(_) => counted(prices, AgentUsage::Unknown, &[], &seen, reserved, wall_ms),
    }
}

fn counted(
    prices: &ModelPrices,
    usage: AgentUsage,
    models: &[ModelTokens],
    seen: &UsageCount,
    reserved: Reservation,
    wall_ms: u64,
) -> StartCost {
    let reported = match usage {
        AgentUsage::Reported(tokens) => Some(PricedTokens { tokens, usd: price_of(prices, models, tokens) }),
        AgentUsage::Unknown => None,
    };
    // If every request was refused, the agent is known to have used nothing.
    let has_seen = seen.reported > 0 || seen.refused > 0 || seen.tokens() != Tokens::default();
    let sum = has_seen.then(|| PricedTokens { tokens: seen.tokens(), usd: seen.cost(prices) });
    let (counted, charge) = CountedUsage::decide(reported, sum, seen.unclear, seen.guess(prices));
    let (count, models, least) = match (charge, reported, sum) {
        (ChargeBasis::Reported, Some(reported), _) => (Some(reported), models, Reservation::default()),
        (ChargeBasis::Counted, _, Some(sum)) => (Some(sum), seen.models.as_slice(), Reservation::default()),
        (ChargeBasis::AtLeast(least), ..) => (None, models, least.plus(seen.guess(prices))),
        (ChargeBasis::Reported, None, _) | (ChargeBasis::Counted, _, None) => (None, models, Reservation::default()),
    };
    let usage = count.map_or(AgentUsage::Unknown, |count| AgentUsage::Reported(count.tokens));
    let reserved = Reservation { tokens: reserved.tokens.max(least.tokens), usd: Usd(reserved.usd.0.max(least.usd.0)) };
    let spend = budget::spend_from_usage(usage, reserved, |_| count.map_or(Usd(0), |count| count.usd), wall_ms);
    let models = if spend.known == SpendKnown::Yes { lines(prices, models) } else { Vec::new() };
    StartCost { spend, models, counted }
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
        usd: prices.cost_of(&used.model, used.tokens),
        known: SpendKnown::Yes,
    };
    models.iter().map(spend).collect()
}

/// The price of a start's tokens: each model's by its own rate, and tokens without a model by the highest rate.
fn price_of(prices: &ModelPrices, models: &[ModelTokens], all: Tokens) -> Usd {
    let named = models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens));
    let rest = prices.cost_of("", all.less(named)).0;
    Usd(models.iter().fold(rest, |sum, used| sum.saturating_add(prices.cost_of(&used.model, used.tokens).0)))
}

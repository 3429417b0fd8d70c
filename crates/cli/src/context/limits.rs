//! How many rounds may run at once, as configured.

use super::CommandContext;
use crate::error::CommandError;
use loopwright_core::dispatch::ConcurrencyLimits;

impl CommandContext {
    /// The limits of the user's configuration, with defaults.
    pub(crate) fn limits(&self) -> Result<ConcurrencyLimits, CommandError> {
        let said = self.config(None)?.config().concurrency.clone();
        let number = |number: Option<u32>, otherwise: usize| number.map_or(otherwise, |number| number as usize);
        let total = number(said.total, ConcurrencyLimits::default().total);
        let per_agent = said.agents.iter().map(|(agent, number)| (agent.as_str().into(), *number as usize));
        Ok(ConcurrencyLimits { total, per_repo: number(said.repo, total), per_agent: per_agent.collect() })
    }
}

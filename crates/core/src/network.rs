//! What a loop or a gate may reach: `network:` entries, read once into a [`NetworkPolicy`] that answers whether a connection or a
//! request is allowed, and to which addresses it may lead. Resolves nothing and opens nothing; the engine's egress does.

mod host;
mod reach;
mod rule;
mod traffic;

pub use host::{NetworkHost, NetworkTarget, TargetError};
pub use reach::AddressReach;
pub use rule::{HostMatch, MethodMatch, NetworkRule, NetworkRuleError, PathMatch, PortMatch, RuleAccess};
pub use traffic::{DenialReason, DeniedAccess, NetworkTraffic, ReachedHost};

/// The most entries of one list; a longer one is a catalogue, and nobody reads it as a boundary.
pub const RULES_MAX: usize = 100;

/// Everything that may be reached; what no rule names may not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkPolicy {
    rules: Vec<NetworkRule>,
}

/// What becomes of a request for a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelDecision {
    /// It is carried as it is; only the name in its TLS greeting is seen.
    Through(AddressReach),
    /// Its TLS is opened, and each request in it is asked for.
    Opened(AddressReach),
}

/// What kind of request the proxy sees in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTransport {
    /// Plain HTTP.
    Plain,
    /// HTTP inside a TLS connection that the proxy opened.
    Opened,
}

impl NetworkPolicy {
    /// Reads entries.
    ///
    /// # Errors
    /// The first entry that is none, with its position.
    pub fn read(entries: &[String]) -> Result<Self, (usize, NetworkRuleError)> {
        if entries.len() > RULES_MAX {
            return Err((RULES_MAX, NetworkRuleError::too_many()));
        }
        let read = entries.iter().enumerate().map(|(at, entry)| NetworkRule::read(entry).map_err(|error| (at, error)));
        let policy = Self { rules: read.collect::<Result<_, _>>()? };
        match policy.contradictions().into_iter().next() {
            Some(found) => Err(found),
            None => Ok(policy),
        }
    }

    /// What either allows: a gate reaches what its loop reaches, and what it names itself.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self
    }

    /// Nothing may be reached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in the order they were written.
    #[must_use]
    pub fn rules(&self) -> &[NetworkRule] {
        &self.rules
    }

    /// Whether some connection is to be opened and looked into.
    #[must_use]
    pub fn inspects_traffic(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.access, RuleAccess::Opened(..)))
    }

    /// Entries that promise a limit which another entry of the list takes back, by position.
    #[must_use]
    pub fn contradictions(&self) -> Vec<(usize, NetworkRuleError)> {
        let limited = self.rules.iter().enumerate().filter(|(_, rule)| rule.access != RuleAccess::Any);
        let wider =
            |rule: &NetworkRule| self.rules.iter().find(|other| other.access == RuleAccess::Any && other.covers(rule));
        limited.filter_map(|(at, rule)| wider(rule).map(|other| (at, NetworkRuleError::widened(rule, other)))).collect()
    }

    /// May a tunnel be opened to there?
    ///
    /// # Errors
    /// Why not.
    pub fn tunnel(&self, target: &NetworkTarget) -> Result<TunnelDecision, DenialReason> {
        let here = self.at(target)?;
        if let Some(rule) = here.iter().find(|rule| rule.access == RuleAccess::Any) {
            return Ok(TunnelDecision::Through(rule.reach()));
        }
        let opened = here.iter().find(|rule| matches!(rule.access, RuleAccess::Opened(..)));
        opened.map(|rule| TunnelDecision::Opened(rule.reach())).ok_or(DenialReason::Plain)
    }

    /// May this request be sent? `path` is as the request has it, with or without its query.
    ///
    /// # Errors
    /// Why not.
    pub fn request(
        &self,
        seen: RequestTransport,
        method: &str,
        target: &NetworkTarget,
        path: &str,
    ) -> Result<AddressReach, DenialReason> {
        let here = self.at(target)?;
        let mut nearest = DenialReason::Plain;
        for rule in here {
            let (verb, paths) = match (&rule.access, seen) {
                (RuleAccess::Any, RequestTransport::Plain) => return Ok(rule.reach()),
                (RuleAccess::Plain(verb, paths), RequestTransport::Plain)
                | (RuleAccess::Opened(verb, paths), RequestTransport::Opened) => (verb, paths),
                (RuleAccess::Any | RuleAccess::Opened(..), _) | (RuleAccess::Plain(..), RequestTransport::Opened) => {
                    continue;
                }
            };
            match (verb.matches(method), paths.matches(path)) {
                (true, true) => return Ok(rule.reach()),
                (true, false) => nearest = DenialReason::Path,
                (false, true | false) if nearest == DenialReason::Plain => nearest = DenialReason::Method,
                (false, _) => {}
            }
        }
        Err(nearest)
    }

    /// The rules of a host and port.
    fn at(&self, target: &NetworkTarget) -> Result<Vec<&NetworkRule>, DenialReason> {
        let mut named = self.rules.iter().filter(|rule| rule.hosts.matches(&target.host)).peekable();
        if named.peek().is_none() {
            return Err(DenialReason::Host);
        }
        let here: Vec<&NetworkRule> = named.filter(|rule| rule.ports.matches(target.port)).collect();
        if here.is_empty() { Err(DenialReason::Port) } else { Ok(here) }
    }
}

#[cfg(test)]
mod tests;

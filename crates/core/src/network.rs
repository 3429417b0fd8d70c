//! The network access of a loop or a gate: `network:` entries, parsed once into a [`NetworkPolicy`]. The policy decides
//! whether a connection or a request is allowed, and which addresses it may use. It does not resolve names or open
//! connections; the engine's egress does.

mod host;
mod reach;
mod rule;
mod traffic;

pub use host::{NetworkHost, NetworkTarget, TargetError};
pub use reach::AddressReach;
pub use rule::{HostMatch, MethodMatch, NetworkRule, NetworkRuleError, PathMatch, PortMatch, RuleAccess};
pub use traffic::{DenialReason, DeniedAccess, NetworkTraffic, ReachedHost};

/// The largest number of entries of one list; people cannot review a longer list as a boundary.
pub const RULES_MAX: usize = 100;

/// The allowed targets; a target that no rule names is denied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkPolicy {
    rules: Vec<NetworkRule>,
}

/// The decision on a request for a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelDecision {
    /// The proxy forwards the tunnel unchanged and sees only the name in its TLS greeting.
    Through(AddressReach),
    /// The proxy opens the TLS connection and checks each request in it.
    Opened(AddressReach),
}

/// The transport of a request that the proxy sees in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTransport {
    /// Plain HTTP.
    Plain,
    /// HTTP inside a TLS connection that the proxy opened.
    Opened,
}

impl NetworkPolicy {
    /// Parses entries.
    ///
    /// # Errors
    /// The first invalid entry, with its position.
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

    /// The union of two policies: a gate reaches its loop's targets and its own.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self
    }

    /// Whether no target is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in the order of the list.
    #[must_use]
    pub fn rules(&self) -> &[NetworkRule] {
        &self.rules
    }

    /// Whether the proxy must open and inspect some connections.
    #[must_use]
    pub fn inspects_traffic(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.access, RuleAccess::Opened(..)))
    }

    /// Entries with a limit that another entry of the list cancels, by position.
    #[must_use]
    pub fn contradictions(&self) -> Vec<(usize, NetworkRuleError)> {
        let limited = self.rules.iter().enumerate().filter(|(_, rule)| rule.access != RuleAccess::Any);
        let wider =
            |rule: &NetworkRule| self.rules.iter().find(|other| other.access == RuleAccess::Any && other.covers(rule));
        limited.filter_map(|(at, rule)| wider(rule).map(|other| (at, NetworkRuleError::widened(rule, other)))).collect()
    }

    /// Decides whether a tunnel to the target may be opened.
    ///
    /// # Errors
    /// The reason for the denial.
    pub fn tunnel(&self, target: &NetworkTarget) -> Result<TunnelDecision, DenialReason> {
        let here = self.at(target)?;
        if let Some(rule) = here.iter().find(|rule| rule.access == RuleAccess::Any) {
            return Ok(TunnelDecision::Through(rule.reach()));
        }
        let opened = here.iter().find(|rule| matches!(rule.access, RuleAccess::Opened(..)));
        opened.map(|rule| TunnelDecision::Opened(rule.reach())).ok_or(DenialReason::Plain)
    }

    /// Decides whether this request may be sent. `path` is the request's path, with or without its query.
    ///
    /// # Errors
    /// The reason for the denial.
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

    /// The rules for a host and port.
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

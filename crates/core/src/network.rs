//! What a loop or a gate may reach: `network:` entries, read once into a [`Policy`] that answers whether a connection or a
//! request is allowed, and to which addresses it may lead. Resolves nothing and opens nothing; the engine's egress does.

mod host;
mod reach;
mod rule;
mod traffic;

pub use host::{Host, Target, TargetError};
pub use reach::Reach;
pub use rule::{Access, Hosts, Paths, Ports, Rule, RuleError, Verb};
pub use traffic::{Denied, Reached, Traffic, Why};

/// The most entries of one list; a longer one is a catalogue, and nobody reads it as a boundary.
pub const RULES_MAX: usize = 100;

/// Everything that may be reached; what no rule names may not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// What becomes of a request for a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel {
    /// It is carried as it is; only the name in its TLS greeting is seen.
    Through(Reach),
    /// Its TLS is opened, and each request in it is asked for.
    Opened(Reach),
}

/// What kind of request the proxy sees in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Plain HTTP.
    Plain,
    /// HTTP inside a TLS connection that the proxy opened.
    Opened,
}

impl Policy {
    /// Reads entries.
    ///
    /// # Errors
    /// The first entry that is none, with its position.
    pub fn read(entries: &[String]) -> Result<Self, (usize, RuleError)> {
        if entries.len() > RULES_MAX {
            return Err((RULES_MAX, RuleError::many()));
        }
        let read = entries.iter().enumerate().map(|(at, entry)| Rule::read(entry).map_err(|error| (at, error)));
        let policy = Self { rules: read.collect::<Result<_, _>>()? };
        match policy.contradictions().into_iter().next() {
            Some(found) => Err(found),
            None => Ok(policy),
        }
    }

    /// What either allows: a gate reaches what its loop reaches, and what it names itself.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
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
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether some connection is to be opened and looked into.
    #[must_use]
    pub fn inspects(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.access, Access::Opened(..)))
    }

    /// Entries that promise a limit which another entry of the list takes back, by position.
    #[must_use]
    pub fn contradictions(&self) -> Vec<(usize, RuleError)> {
        let limited = self.rules.iter().enumerate().filter(|(_, rule)| rule.access != Access::Any);
        let wider = |rule: &Rule| self.rules.iter().find(|other| other.access == Access::Any && other.covers(rule));
        limited.filter_map(|(at, rule)| wider(rule).map(|other| (at, RuleError::widened(rule, other)))).collect()
    }

    /// May a tunnel be opened to there?
    ///
    /// # Errors
    /// Why not.
    pub fn tunnel(&self, target: &Target) -> Result<Tunnel, Why> {
        let here = self.at(target)?;
        if let Some(rule) = here.iter().find(|rule| rule.access == Access::Any) {
            return Ok(Tunnel::Through(rule.reach()));
        }
        let opened = here.iter().find(|rule| matches!(rule.access, Access::Opened(..)));
        opened.map(|rule| Tunnel::Opened(rule.reach())).ok_or(Why::Plain)
    }

    /// May this request be sent? `path` is as the request has it, with or without its query.
    ///
    /// # Errors
    /// Why not.
    pub fn request(&self, seen: Seen, method: &str, target: &Target, path: &str) -> Result<Reach, Why> {
        let here = self.at(target)?;
        let mut nearest = Why::Plain;
        for rule in here {
            let (verb, paths) = match (&rule.access, seen) {
                (Access::Any, Seen::Plain) => return Ok(rule.reach()),
                (Access::Plain(verb, paths), Seen::Plain) | (Access::Opened(verb, paths), Seen::Opened) => {
                    (verb, paths)
                }
                (Access::Any | Access::Opened(..), _) | (Access::Plain(..), Seen::Opened) => continue,
            };
            match (verb.allows(method), paths.allow(path)) {
                (true, true) => return Ok(rule.reach()),
                (true, false) => nearest = Why::Path,
                (false, true | false) if nearest == Why::Plain => nearest = Why::Method,
                (false, _) => {}
            }
        }
        Err(nearest)
    }

    /// The rules of a host and port.
    fn at(&self, target: &Target) -> Result<Vec<&Rule>, Why> {
        let mut named = self.rules.iter().filter(|rule| rule.hosts.hold(&target.host)).peekable();
        if named.peek().is_none() {
            return Err(Why::Host);
        }
        let here: Vec<&Rule> = named.filter(|rule| rule.ports.hold(target.port)).collect();
        if here.is_empty() { Err(Why::Port) } else { Ok(here) }
    }
}

#[cfg(test)]
mod tests;

//! What was asked of the network during a round: counts, who was reached, and what was denied. Bounded where it is gathered,
//! so that a flood of questions makes no large record.

use crate::secrets;
use serde::{Deserialize, Serialize};

/// The most lines of one kind that are kept; the rest is counted.
pub(super) const LINES_MAX: usize = 64;
/// The longest host that is kept.
const HOST_MAX: usize = 253;
/// The longest method that is kept.
const METHOD_MAX: usize = 16;

/// Why something was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DenialReason {
    /// No rule names the host.
    Host,
    /// The host is named, the port is not.
    Port,
    /// The rules of this host are for plain HTTP or for opened TLS, and this was neither.
    Plain,
    /// No rule allows the method.
    Method,
    /// No rule allows the path.
    Path,
    /// The name leads to an address that its rule does not cover.
    Address,
    /// The TLS greeting names another host than the tunnel, or none.
    ServerName,
    /// What came through a tunnel was no TLS.
    NotTls,
    /// The round's bytes are used up.
    Budget,
    /// The provider endpoint was asked without this round's token.
    Token,
    /// The provider endpoint has no such provider, or does not pass this on.
    Provider,
    /// The provider is not one that this start's agent asks.
    Role,
    /// What this start may use is used up.
    Ceiling,
    /// No request that the proxy takes.
    Request,
}

impl DenialReason {
    /// In words, as the end of a sentence.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Host => "the host is not in `network`",
            Self::Port => "the port is not in `network`",
            Self::Plain => "its entries in `network` are for another kind of request",
            Self::Method => "the method is not in `network`",
            Self::Path => "the path is not in `network`",
            Self::Address => "the name leads to an address that is not public",
            Self::ServerName => "the TLS greeting names another host, or none",
            Self::NotTls => "the tunnel carried no TLS",
            Self::Budget => "the bytes that a round may send or fetch are used up",
            Self::Token => "the token is none of a start that runs",
            Self::Provider => "the provider is not set up for this",
            Self::Role => "the provider is not one that this role's agent asks",
            Self::Ceiling => "what this start may use is used up",
            Self::Request => "the proxy takes no such request",
        }
    }
}

/// One thing that was denied, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedAccess {
    /// The host as it was asked for, made harmless.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method.
    pub method: String,
    /// Why.
    pub why: DenialReason,
    /// How often.
    pub count: u64,
}

impl DeniedAccess {
    /// What was denied, in one line, with the entry that would allow it where there is one.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { host, count, .. } = self;
        let port = if matches!(self.port, 0 | 80 | 443) { String::new() } else { format!(":{}", self.port) };
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let allow = match self.why {
            DenialReason::Host | DenialReason::Port if host.starts_with('[') => {
                format!("; to allow it add `network: [\"{host}{port}\"]`")
            }
            DenialReason::Host | DenialReason::Port if !host.is_empty() => {
                format!("; to allow it add `network: [{host}{port}]`")
            }
            _ => String::new(),
        };
        format!("asked for {host}{port} {times}: denied, {}{allow}", self.why.text())
    }
}

/// Somebody who was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachedHost {
    /// The host, or `provider/NAME`.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How many connections or requests.
    pub count: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkTraffic {
    /// Bytes that left.
    pub up: u64,
    /// Bytes that came.
    pub down: u64,
    /// Who was reached.
    pub reached: Vec<ReachedHost>,
    /// What was denied.
    pub denied: Vec<DeniedAccess>,
    /// Further hosts and denials that the lists have no room for.
    pub more: u64,
}

impl NetworkTraffic {
    /// Nothing was asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All of it in lines for people: what was denied first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.denied.iter().map(DeniedAccess::text).collect();
        lines.extend(self.reached.iter().map(|reached| {
            let ReachedHost { host, port, count } = reached;
            format!("reached {host}:{port}, {count} {}", if *count == 1 { "time" } else { "times" })
        }));
        if self.more > 0 {
            lines.push(format!("{} more questions to further hosts", self.more));
        }
        if self.up > 0 || self.down > 0 {
            lines.push(format!("{} bytes sent, {} bytes fetched", self.up, self.down));
        }
        lines
    }

    /// Notes a denial.
    pub fn record_denied(&mut self, host: &str, port: u16, method: &str, why: DenialReason) {
        let denied =
            DeniedAccess { host: harmless(host, HOST_MAX), port, method: harmless(method, METHOD_MAX), why, count: 1 };
        self.add_denied(denied);
    }

    /// Notes that somebody was reached.
    pub fn record_reached(&mut self, host: &str, port: u16) {
        self.add_reached(ReachedHost { host: harmless(host, HOST_MAX), port, count: 1 });
    }

    /// Adds what another part of the round saw.
    pub fn add(&mut self, other: Self) {
        self.up = self.up.saturating_add(other.up);
        self.down = self.down.saturating_add(other.down);
        self.more = self.more.saturating_add(other.more);
        other.reached.into_iter().for_each(|reached| self.add_reached(reached));
        other.denied.into_iter().for_each(|denied| self.add_denied(denied));
    }

    fn add_denied(&mut self, new: DeniedAccess) {
        let room = self.denied.len() < LINES_MAX;
        let same = |old: &&mut DeniedAccess| {
            (&old.host, old.port, &old.method, old.why) == (&new.host, new.port, &new.method, new.why)
        };
        match self.denied.iter_mut().find(same) {
            Some(old) => old.count = old.count.saturating_add(new.count),
            None if room => self.denied.push(new),
            None => self.more = self.more.saturating_add(new.count),
        }
    }

    fn add_reached(&mut self, new: ReachedHost) {
        let room = self.reached.len() < LINES_MAX;
        match self.reached.iter_mut().find(|old| (&old.host, old.port) == (&new.host, new.port)) {
            Some(old) => old.count = old.count.saturating_add(new.count),
            None if room => self.reached.push(new),
            None => self.more = self.more.saturating_add(new.count),
        }
    }
}

/// Text of somebody we do not trust: printable ASCII without quotes and marks that mean something in our pages, and short.
fn harmless(text: &str, most: usize) -> String {
    let keep = |c: char| if c.is_ascii_graphic() && !"`\"'<>|\\*".contains(c) { c } else { '?' };
    let short: String = text.chars().take(most).map(keep).collect();
    // A host's name can carry a secret out, and must not carry it into the record.
    secrets::redact(&short).into_owned()
}

//! The network traffic of a round: counts, reached hosts, and denials. Its size is limited while it is recorded, so
//! that a flood of requests cannot create a large record.

use crate::secrets;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The largest number of lines of one kind that are kept; further ones are only counted.
pub(super) const LINES_MAX: usize = 64;
/// The longest host that is kept.
const HOST_MAX: usize = 253;
/// The longest method that is kept.
const METHOD_MAX: usize = 16;

worded! {
    /// The reason for a denial.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DenialReason {
        /// No rule names the host.
        Host = "the host is not in `network`",
        /// A rule names the host, but not the port.
        Port = "the port is not in `network`",
        /// The rules for this host are for plain HTTP or for opened TLS, and the request was neither.
        Plain = "its entries in `network` are for another kind of request",
        /// No rule allows the method.
        Method = "the method is not in `network`",
        /// No rule allows the path.
        Path = "the path is not in `network`",
        /// The name resolves to an address that its rule does not cover.
        Address = "the name resolves to an address that is not public",
        /// The TLS greeting names another host than the tunnel, or no host.
        ServerName = "the TLS greeting names another host, or none",
        /// The data in a tunnel was not TLS.
        NotTls = "the tunnel carried no TLS",
        /// The round has used its byte limit.
        Budget = "the round has used its byte limit",
        /// The request to the provider endpoint did not carry this round's token.
        Token = "the token does not belong to a running start",
        /// The provider endpoint has no such provider, or does not forward this request.
        Provider = "the provider is not set up for this",
        /// The agent of this start does not use this provider.
        Role = "this role's agent does not use the provider",
        /// The start has used its budget.
        Ceiling = "this start has used its budget",
        /// The proxy does not accept this kind of request.
        Request = "the proxy does not accept this request",
    }
}

impl DenialReason {
    /// The reason in words, as the end of a sentence.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.word()
    }
}

/// One kind of denied request, and its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedAccess {
    /// The requested host, with unsafe characters removed.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method.
    pub method: String,
    /// The reason.
    pub why: DenialReason,
    /// The number of requests.
    pub count: u64,
}

impl DeniedAccess {
    /// The denial in one line, with the entry that would allow it, if there is one.
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

/// A host that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachedHost {
    /// The host, or `provider/NAME`.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The number of connections or requests.
    pub count: u64,
}

/// All network traffic of a round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkTraffic {
    /// Bytes sent.
    pub up: u64,
    /// Bytes received.
    pub down: u64,
    /// The reached hosts.
    pub reached: Vec<ReachedHost>,
    /// The denied requests.
    pub denied: Vec<DeniedAccess>,
    /// The number of further hosts and denials beyond the limits of the lists.
    pub more: u64,
}

impl NetworkTraffic {
    /// The traffic in lines for people, denials first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.denied.iter().map(DeniedAccess::text).collect();
        lines.extend(self.reached.iter().map(|reached| {
            let ReachedHost { host, port, count } = reached;
            format!("reached {host}:{port}, {count} {}", if *count == 1 { "time" } else { "times" })
        }));
        if self.more > 0 {
            lines.push(format!("{} more requests to further hosts", self.more));
        }
        if self.up > 0 || self.down > 0 {
            lines.push(format!("{} bytes sent, {} bytes fetched", self.up, self.down));
        }
        lines
    }

    /// Records a denial.
    pub fn record_denied(&mut self, host: &str, port: u16, method: &str, why: DenialReason) {
        let denied =
            DeniedAccess { host: harmless(host, HOST_MAX), port, method: harmless(method, METHOD_MAX), why, count: 1 };
        self.add_denied(denied);
    }

    /// Records a reached host.
    pub fn record_reached(&mut self, host: &str, port: u16) {
        self.add_reached(ReachedHost { host: harmless(host, HOST_MAX), port, count: 1 });
    }

    /// Adds the traffic of another part of the round.
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

/// Text from an untrusted source: short printable ASCII, without quotes and characters with a meaning in Loopwright's
/// pages.
fn harmless(text: &str, most: usize) -> String {
    let keep = |c: char| if c.is_ascii_graphic() && !"`\"'<>|\\*".contains(c) { c } else { '?' };
    let short: String = text.chars().take(most).map(keep).collect();
    // A host name can carry a secret out of the machine, and must not carry it into the record.
    secrets::redact(&short).into_owned()
}

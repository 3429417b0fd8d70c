//! One `network:` entry: its grammar, and the messages for invalid entries.
//!
//! ```text
//! [private] HOST[:PORT]
//! [private] [METHOD] http://HOST[:PORT][/PATH]
//! [private] inspect [METHOD] https://HOST[:PORT][/PATH]
//! ```
//!
//! A limit that cannot be enforced is refused, never silently widened: inside TLS the proxy sees neither method nor
//! path, unless the loop asks to open the TLS.

use super::host::{NetworkHost, TargetError, below, split_port};
use super::reach::AddressReach;
use crate::spec::problem::quoted;
use std::fmt;

/// The longest entry.
const ENTRY_MAX: usize = 1000;
/// Methods a rule may name.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A parsed rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRule {
    /// The hosts it names.
    pub hosts: HostMatch,
    /// The ports it names.
    pub ports: PortMatch,
    /// The allowed access.
    pub access: RuleAccess,
    /// Whether the name may resolve to a private network.
    private: bool,
}

/// The hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostMatch {
    /// One host.
    Only(NetworkHost),
    /// Every name below this one, at any depth; not the name itself.
    Below(String),
}

/// The ports of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortMatch {
    /// 80 and 443.
    Web,
    /// One.
    Only(u16),
}

/// The access that a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAccess {
    /// Everything: tunnels, and plain HTTP with any method and path.
    Any,
    /// Plain HTTP with this method and path.
    Plain(MethodMatch, PathMatch),
    /// HTTP inside TLS that the proxy opens, with this method and path.
    Opened(MethodMatch, PathMatch),
}

/// The methods of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodMatch {
    /// All.
    Any,
    /// This one; `GET` includes `HEAD`, which returns less.
    Only(&'static str),
}

/// The paths of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMatch {
    /// All.
    All,
    /// This path.
    Only(String),
    /// Paths that begin with this.
    Under(String),
}

/// The reason why an entry is invalid, and a hint for a valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NetworkRuleError {
    /// The problem.
    pub what: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl NetworkRuleError {
    fn new(what: String, hint: impl Into<String>) -> Self {
        Self { what, hint: Some(hint.into()) }
    }

    /// The error for a list with too many entries.
    #[must_use]
    pub fn too_many() -> Self {
        let what = format!("`network` has more than {} entries", super::RULES_MAX);
        Self::new(what, "use `*.example.org` for the hosts of one domain")
    }

    pub(super) fn widened(rule: &NetworkRule, other: &NetworkRule) -> Self {
        let what = format!("the limit of `{rule}` does not hold, because `{other}` allows everything there");
        Self::new(what, "keep one of the two")
    }
}

impl NetworkRule {
    /// Parses an entry.
    ///
    /// # Errors
    /// The reason why the entry is invalid, and a hint for a valid one.
    pub fn read(entry: &str) -> Result<Self, NetworkRuleError> {
        if entry.len() > ENTRY_MAX || entry.chars().any(|c| c.is_control()) {
            return Err(no_host(entry, EXAMPLES));
        }
        let mut words: Vec<&str> = entry.split_whitespace().collect();
        let private = take(&mut words, "private");
        let inspect = take(&mut words, "inspect");
        let (method, place) = match words[..] {
            [place] => (None, place),
            [method, place] => (Some(method), place),
            _ => return Err(no_host(entry, EXAMPLES)),
        };
        let verb = method.map_or(Ok(MethodMatch::Any), |method| verb(entry, method))?;
        let rule = match place.split_once("://") {
            Some((scheme, rest)) => url(entry, scheme, rest, verb, if inspect { Tls::Open } else { Tls::Closed })?,
            None if inspect || method.is_some() => return Err(needs_url(entry, place)),
            None => bare(entry, place)?,
        };
        Ok(Self { private, ..rule })
    }

    /// The addresses it may lead to.
    #[must_use]
    pub fn reach(&self) -> AddressReach {
        let named = match &self.hosts {
            HostMatch::Only(NetworkHost::Ip(ip)) => return AddressReach::Exactly(*ip),
            HostMatch::Only(host) => host.clone(),
            HostMatch::Below(parent) => NetworkHost::Name(parent.clone()),
        };
        if named.is_localhost() {
            AddressReach::Loopback
        } else if self.private || named.is_private_name() {
            AddressReach::Private
        } else {
            AddressReach::Public
        }
    }

    /// Whether this rule names everything that the other rule names.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.hosts.cover(&other.hosts) && self.ports.cover(other.ports)
    }
}

const EXAMPLES: &str = "write a host such as `docs.example.org`, `*.example.org` or `example.org:8443`, or a limit such as \
                        `GET http://example.org/api/*`";

fn no_host(entry: &str, hint: &str) -> NetworkRuleError {
    NetworkRuleError::new(format!("{} is not a host", quoted(entry)), hint)
}

/// Removes a leading word.
fn take(words: &mut Vec<&str>, word: &str) -> bool {
    let there = words.first() == Some(&word);
    if there {
        words.remove(0);
    }
    there
}

fn verb(entry: &str, method: &str) -> Result<MethodMatch, NetworkRuleError> {
    match METHODS.iter().find(|known| **known == method) {
        Some(known) => Ok(MethodMatch::Only(known)),
        None => {
            let what = format!("{} begins with {}, which is not a method", quoted(entry), quoted(method));
            Err(NetworkRuleError::new(what, format!("one of {}", METHODS.join(", "))))
        }
    }
}

/// The error for a method or `inspect` before a bare host.
fn needs_url(entry: &str, place: &str) -> NetworkRuleError {
    let what = format!("{} limits requests, but has no URL", quoted(entry));
    let (plain, tls) = (format!("GET http://{place}/*"), format!("inspect GET https://{place}/*"));
    NetworkRuleError::new(what, format!("write {}, or {} for TLS", quoted(&plain), quoted(&tls)))
}

/// Parses a bare host.
fn bare(entry: &str, place: &str) -> Result<NetworkRule, NetworkRuleError> {
    if let Some((host, _)) = place.split_once(['/', '?', '#']) {
        let plain = format!("GET http://{place}");
        let hint = format!("write {} for the whole host, or {} for a path on plain HTTP", quoted(host), quoted(&plain));
        return Err(no_host(entry, &hint));
    }
    if METHODS.contains(&place) {
        return Err(no_host(entry, "a method needs a URL after it, such as `GET http://example.org/api/*`"));
    }
    let (hosts, port) = authority(entry, place)?;
    Ok(NetworkRule {
        hosts,
        ports: port.map_or(PortMatch::Web, PortMatch::Only),
        access: RuleAccess::Any,
        private: false,
    })
}

/// Whether the proxy should open TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tls {
    Open,
    Closed,
}

fn url(entry: &str, scheme: &str, rest: &str, verb: MethodMatch, tls: Tls) -> Result<NetworkRule, NetworkRuleError> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let (hosts, port) = authority(entry, place)?;
    let paths = paths(entry, path)?;
    let whole = verb == MethodMatch::Any && matches!(path, "" | "/" | "/*");
    let (usual, access) = match (scheme, tls) {
        ("http", Tls::Closed) => (80, RuleAccess::Plain(verb, paths)),
        ("https", Tls::Open) => (443, RuleAccess::Opened(verb, paths)),
        ("http", Tls::Open) => {
            let what = format!("{} asks to open TLS for plain HTTP", quoted(entry));
            return Err(NetworkRuleError::new(what, "remove `inspect`: the proxy sees plain HTTP anyway"));
        }
        ("https", Tls::Closed) if whole => {
            return Err(no_host(entry, &format!("write {} for the whole host", quoted(place))));
        }
        ("https", Tls::Closed) => return Err(unseen(entry, place)),
        _ => {
            let what = format!("{} has a scheme that the proxy does not support", quoted(entry));
            return Err(NetworkRuleError::new(what, "use `http://` with a method or path, or a host alone"));
        }
    };
    Ok(NetworkRule { hosts, ports: PortMatch::Only(port.unwrap_or(usual)), access, private: false })
}

fn unseen(entry: &str, place: &str) -> NetworkRuleError {
    let what = format!("{} limits what is inside TLS, which the proxy does not see", quoted(entry));
    let open = format!("inspect {}", entry.trim().trim_start_matches("private").trim_start());
    let hint = format!(
        "write {} to open the TLS of the round with its own certificate, or {} for the whole host",
        quoted(&open),
        quoted(place)
    );
    NetworkRuleError::new(what, hint)
}

/// Parses the host or hosts, and a port.
fn authority(entry: &str, place: &str) -> Result<(HostMatch, Option<u16>), NetworkRuleError> {
    let (name, port) = split_port(place).map_err(|error| spelled(entry, error))?;
    if name.len() > 1 && name.ends_with('.') {
        return Err(no_host(entry, "remove the trailing dot"));
    }
    if name == "*" {
        return Err(no_host(entry, "name the hosts; `*` would be the whole internet"));
    }
    let Some(parent) = name.strip_prefix("*.") else {
        let host = NetworkHost::parse(name).map_err(|error| spelled(entry, error))?;
        return Ok((HostMatch::Only(usable(entry, host)?), port));
    };
    match NetworkHost::parse(parent).map_err(|error| spelled(entry, error))? {
        NetworkHost::Name(parent) if parent.contains('.') => Ok((HostMatch::Below(parent), port)),
        NetworkHost::Name(_) => {
            Err(no_host(entry, "`*.` needs a domain of at least two labels, such as `*.example.org`"))
        }
        NetworkHost::Ip(_) => Err(no_host(entry, "`*.` is allowed only before a name")),
    }
}

/// Refuses addresses that no single host can have.
fn usable(entry: &str, host: NetworkHost) -> Result<NetworkHost, NetworkRuleError> {
    match &host {
        NetworkHost::Ip(ip) if ip.is_unspecified() || ip.is_multicast() || ip.to_string() == "255.255.255.255" => {
            Err(no_host(entry, "name the address of one host"))
        }
        _ => Ok(host),
    }
}

fn spelled(entry: &str, error: TargetError) -> NetworkRuleError {
    let hint = match error {
        TargetError::Unicode => "write the name in its ASCII form, which begins with `xn--`",
        TargetError::User => "remove the user before `@`; the proxy carries no passwords",
        TargetError::Address => "write an address as `192.0.2.7` or `[2001:db8::7]`",
        TargetError::Port => "a port is a number from 1 to 65535",
        TargetError::Name if entry.contains('*') => "`*` is allowed only at the start, as in `*.example.org`",
        TargetError::Empty | TargetError::Long | TargetError::Name => EXAMPLES,
    };
    no_host(entry, hint)
}

fn paths(entry: &str, path: &str) -> Result<PathMatch, NetworkRuleError> {
    let wrong = |hint: &str| {
        let what = format!("{} has a path that cannot be compared", quoted(entry));
        Err(NetworkRuleError::new(what, hint))
    };
    if path.is_empty() || path == "/*" {
        return Ok(PathMatch::All);
    }
    if path.contains(['?', '#']) {
        return wrong("remove everything after `?` or `#`; rules match paths only");
    }
    let (head, rest) = path.split_once('*').map_or((path, None), |(head, rest)| (head, Some(rest)));
    if rest.is_some_and(|rest| !rest.is_empty()) {
        return wrong("`*` is allowed only at the end of a path");
    }
    if !is_plain(head) {
        return wrong("write it without `.` and `..`, doubled slashes and encoded separators");
    }
    Ok(if rest.is_some() { PathMatch::Under(head.to_owned()) } else { PathMatch::Only(head.to_owned()) })
}

/// Whether every server parses the path in the same way: no dot segments, no empty segments, no encoded separators.
fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
    let disguised = ["%2e", "%2f", "%5c", "%25", "%00", "//", "\\"].iter().any(|text| lower.contains(text));
    path.starts_with('/')
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !disguised
        && !path.split('/').any(dots)
}

impl HostMatch {
    /// Whether the rule names this host.
    #[must_use]
    pub fn matches(&self, host: &NetworkHost) -> bool {
        match (self, host) {
            (Self::Only(only), _) => only == host,
            (Self::Below(parent), NetworkHost::Name(name)) => below(name, parent),
            (Self::Below(_), NetworkHost::Ip(_)) => false,
        }
    }

    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Only(host)) => self.matches(host),
            (Self::Below(parent), Self::Below(name)) => parent == name || below(name, parent),
            (Self::Only(_), Self::Below(_)) => false,
        }
    }
}

impl PortMatch {
    /// Whether the rule names this port.
    #[must_use]
    pub fn matches(self, port: u16) -> bool {
        match self {
            Self::Web => port == 80 || port == 443,
            Self::Only(only) => port == only,
        }
    }

    fn cover(self, other: Self) -> bool {
        match other {
            Self::Only(port) => self.matches(port),
            Self::Web => self == Self::Web,
        }
    }
}

impl MethodMatch {
    /// Whether the rule names this method.
    #[must_use]
    pub fn matches(self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == method || only == "GET" && method == "HEAD",
        }
    }
}

impl PathMatch {
    /// Whether the rule names this path, ignoring its query. A path that servers parse in different ways matches no
    /// limit.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        match self {
            Self::All => true,
            Self::Only(only) => path == only,
            Self::Under(head) => is_plain(path) && path.starts_with(head.as_str()),
        }
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.private {
            out.write_str("private ")?;
        }
        let (scheme, usual, verb, paths) = match &self.access {
            RuleAccess::Any => return write!(out, "{}{}", self.hosts, port(self.ports, 0)),
            RuleAccess::Plain(verb, paths) => ("http", 80, verb, paths),
            RuleAccess::Opened(verb, paths) => ("https", 443, verb, paths),
        };
        if usual == 443 {
            out.write_str("inspect ")?;
        }
        if let MethodMatch::Only(method) = verb {
            write!(out, "{method} ")?;
        }
        write!(out, "{scheme}://{}{}", self.hosts, port(self.ports, usual))?;
        match paths {
            PathMatch::All => Ok(()),
            PathMatch::Only(path) => out.write_str(path),
            PathMatch::Under(head) => write!(out, "{head}*"),
        }
    }
}

fn port(ports: PortMatch, usual: u16) -> String {
    match ports {
        PortMatch::Only(port) if port != usual => format!(":{port}"),
        PortMatch::Only(_) | PortMatch::Web => String::new(),
    }
}

impl fmt::Display for HostMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(host) => host.fmt(out),
            Self::Below(parent) => write!(out, "*.{parent}"),
        }
    }
}

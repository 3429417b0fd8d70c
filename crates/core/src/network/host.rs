//! Names and addresses of hosts, in the one spelling that is compared: lower case, no trailing dot, addresses as
//! numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name in the domain name system.
const NAME_MAX: usize = 253;
/// The longest label of a name.
const LABEL_MAX: usize = 63;

/// A host on the network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkHost {
    /// A name, in lower case and without a trailing dot.
    Name(String),
    /// An address.
    Ip(IpAddr),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkTarget {
    /// The host.
    pub host: NetworkHost,
    /// The port.
    pub port: u16,
}

/// The reason why a text is not a host or target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is empty.
    #[error("the host is missing")]
    Empty,
    /// The text is longer than the domain name system allows.
    #[error("the host is too long")]
    Long,
    /// A letter outside ASCII.
    #[error("the host has a letter outside ASCII")]
    Unicode,
    /// A name and password before the host.
    #[error("there is a user before the host")]
    User,
    /// An address in a spelling that programs read in different ways.
    #[error("the address is not in its usual spelling")]
    Address,
    /// A character or label that no host has.
    #[error("the host name is not valid")]
    Name,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

impl NetworkHost {
    /// Parses a name or an address; an IPv6 address needs brackets. One trailing dot is dropped.
    ///
    /// # Errors
    /// The reason why the text is not a host.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let text = text.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(text);
        if text.is_empty() {
            return Err(TargetError::Empty);
        }
        if text.len() > NAME_MAX + 2 {
            return Err(TargetError::Long);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(TargetError::Address)?;
            return inner.parse::<Ipv6Addr>().map(|ip| Self::Ip(ip.into())).map_err(|_| TargetError::Address);
        }
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(ip.into()));
        }
        name(text)
    }

    /// Whether the name itself shows that it is not on the public internet: a name of one label, or below a reserved
    /// ending.
    #[must_use]
    pub fn is_private_name(&self) -> bool {
        const ENDINGS: [&str; 6] = ["internal", "local", "lan", "home.arpa", "intranet", "corp"];
        match self {
            Self::Name(_) if self.is_localhost() => false,
            Self::Name(name) => !name.contains('.') || ENDINGS.iter().any(|ending| below(name, ending)),
            Self::Ip(_) => false,
        }
    }

    /// Whether it is the usual name of this machine.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || below(name, "localhost"))
    }
}

/// Whether a name is one or more labels below another.
pub(super) fn below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|head| head.len() > 1 && head.ends_with('.'))
}

/// A name. A name whose last label is a number is an address that programs parse in different ways (`127.1`, `0x7f.1`),
/// so it is an error.
fn name(text: &str) -> Result<NetworkHost, TargetError> {
    if !text.is_ascii() {
        return Err(TargetError::Unicode);
    }
    if text.contains('@') {
        return Err(TargetError::User);
    }
    if text.len() > NAME_MAX {
        return Err(TargetError::Long);
    }
    let lower = text.to_ascii_lowercase();
    let last = lower.rsplit('.').next().unwrap_or_default();
    let number = last.strip_prefix("0x").unwrap_or(last).chars().all(|c| c.is_ascii_digit())
        || last.starts_with("0x") && last[2..].chars().all(|c| c.is_ascii_hexdigit());
    if !lower.split('.').all(is_label) {
        return Err(TargetError::Name);
    }
    if number { Err(TargetError::Address) } else { Ok(NetworkHost::Name(lower)) }
}

fn is_label(label: &str) -> bool {
    let known = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    known && !label.is_empty() && label.len() <= LABEL_MAX && !label.starts_with('-') && !label.ends_with('-')
}

impl NetworkTarget {
    /// Parses `host:port`; the port is `default` if missing.
    ///
    /// # Errors
    /// The reason why the text is not a target.
    pub fn parse(text: &str, default: u16) -> Result<Self, TargetError> {
        let (host, port) = split_port(text)?;
        Ok(Self { host: NetworkHost::parse(host)?, port: port.unwrap_or(default) })
    }
}

/// The host's text, and the port after its colon.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), TargetError> {
    if text.parse::<Ipv6Addr>().is_ok() || text.starts_with('[') && !text.contains(']') {
        return Err(TargetError::Address);
    }
    let end = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text[end..].find(':').map(|at| at + end) else { return Ok((text, None)) };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    if host.contains('@') || port.contains('@') {
        return Err(TargetError::User);
    }
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0).ok_or(TargetError::Port)?;
    Ok((host, Some(port)))
}

impl fmt::Display for NetworkHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(out),
            Self::Ip(IpAddr::V6(ip)) => write!(out, "[{ip}]"),
        }
    }
}

impl fmt::Display for NetworkTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

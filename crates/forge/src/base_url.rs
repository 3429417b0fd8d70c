//! The address of a server, from the configuration. Requests only append a path and a query to it, so a forge's answer
//! cannot choose another host.

use std::fmt;

/// A checked address: `https`, or `http` on this machine, without a user, a query or a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    pub(crate) is_tls: bool,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Starts with `/` and does not end with it; empty for the root.
    pub(crate) path: String,
}

impl BaseUrl {
    /// Parses an address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("address `{}`: {why}", shown(text));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("must start with `https://`"))?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['?', '#', '\\', '"', '<', '>']) {
            return Err(wrong("must be plain, without a query or a fragment"));
        }
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        if authority.contains('@') {
            return Err(wrong("must not contain a user or a password"));
        }
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("must start with `https://`")),
        };
        let (host, port) =
            host_and_port(authority, if is_tls { 443 } else { 80 }).ok_or_else(|| wrong("has no host"))?;
        if !is_tls && !is_this_machine(&host) {
            return Err(wrong("needs `https://`: a token must not cross a network in plain text"));
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { is_tls, host, port, path })
    }

    /// `host` or `host:port`, as the `Host` header has it.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        if self.port == usual { self.bracketed() } else { self.host_and_port() }
    }

    /// `host:port`.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The same server with another path.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), ..self.clone() }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// Splits `host`, `host:port` or `[v6]:port`.
pub(crate) fn host_and_port(authority: &str, usual: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, after.strip_prefix(':').or_else(|| after.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = if port.is_empty() { usual } else { port.parse().ok()? };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'_');
    (!host.is_empty() && host.bytes().all(is_plain)).then(|| (host.to_ascii_lowercase(), port))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An address for a message: without anything before an `@`, which may be a password.
fn shown(text: &str) -> String {
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    text.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Percent-encodes one segment of a path, or one part of a query.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// As [`encode`], and slashes stay: a branch in a path.
pub(crate) fn encode_path(text: &str) -> String {
    text.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_shown_in_one_form() {
        let table = [
            ("https://api.github.com", "https://api.github.com"),
            ("https://api.github.com:443/", "https://api.github.com"),
            ("https://GHE.example/api/v3/", "https://ghe.example/api/v3"),
            ("https://forge.example:8443/sub/path/api/v1", "https://forge.example:8443/sub/path/api/v1"),
            ("http://127.0.0.1:3000/api/v1", "http://127.0.0.1:3000/api/v1"),
            ("http://[::1]:3000", "http://[::1]:3000"),
        ];
        for (text, expected) in table {
            assert_eq!(BaseUrl::parse(text).map(|url| url.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn addresses_that_could_leak_a_token_are_errors_and_show_no_password() {
        let bad = [
            "http://forge.example/api/v1",
            "https://me:hunter2@forge.example",
            "https://forge.example/?a=b",
            "https://",
            "ftp://forge.example",
            "forge.example",
            "https://a b",
            "https://host:port",
            "http://127.0.0.1@forge.example/",
        ];
        for text in bad {
            let error = BaseUrl::parse(text).expect_err(text);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn segments_are_encoded() {
        assert_eq!(encode("a/b c#1?é"), "a%2Fb%20c%231%3F%C3%A9");
        assert_eq!(encode_path("loop/a b/r1"), "loop/a%20b/r1");
    }
}

//! The checks before a request reaches a route: its host, its sender, and for writes its origin. No check depends on the
//! route, so that none can be forgotten.

use super::access::{AccessEntry, AccessRegistry, AccessRole};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use loopwright_core::config::WebConfig;
use loopwright_core::hash::{hash_bytes, hash_fields};
use std::net::SocketAddr;
use std::path::Path;

/// The most bytes of a secret that are hashed.
const SECRET_MAX: usize = 200;

/// A sender that was identified.
#[derive(Debug, Clone)]
pub(crate) struct SignedIn {
    pub(crate) entry: AccessEntry,
    /// The value that forms of this browser carry; `None` for a token in a header, which no foreign page can send.
    pub(crate) csrf: Option<String>,
}

impl SignedIn {
    /// Whether its role is enough.
    pub(crate) fn may(&self, role: AccessRole) -> bool {
        self.entry.role >= role
    }
}

/// The rules of one server.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    registry: AccessRegistry,
    hosts: Vec<String>,
    cookie: String,
    scheme: &'static str,
}

impl RequestGuard {
    /// The rules for an address.
    pub(crate) fn new(state: &Path, address: SocketAddr, config: &WebConfig) -> Self {
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        if !address.ip().is_unspecified() {
            hosts.push(match address {
                SocketAddr::V4(address) => address.ip().to_string(),
                SocketAddr::V6(address) => format!("[{}]", address.ip()),
            });
        }
        hosts.extend(config.hosts.iter().map(|host| host.to_ascii_lowercase()));
        // Browsers share the cookies of a host among its ports, so each state directory has a name of its own.
        let place = hash_bytes(state.as_os_str().as_encoded_bytes());
        let cookie = format!("loopwright-{}", place.get(..12).unwrap_or_default());
        let scheme = if config.is_encrypted() { "https" } else { "http" };
        Self { registry: AccessRegistry::new(state), hosts, cookie, scheme }
    }

    /// The tokens and sessions.
    pub(crate) fn registry(&self) -> &AccessRegistry {
        &self.registry
    }

    /// Whether the request names one of our hosts; a page of another site that rebinds its name does not.
    pub(crate) fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        host.to_str().is_ok_and(|host| self.has_host(host))
    }

    fn has_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
            _ => host,
        };
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a request comes from one of our own pages, or from no page at all.
    pub(crate) fn is_own_origin(&self, headers: &HeaderMap) -> Option<bool> {
        let origin = headers.get(ORIGIN)?;
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let own = [format!("http://{host}"), format!("https://{host}")];
        let is_own = |origin: &str| own.iter().any(|own| own.eq_ignore_ascii_case(origin)) && self.has_host(host);
        Some(origin.to_str().is_ok_and(is_own))
    }

    /// The sender: a token in the header `Authorization`, or the cookie of a browser.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Option<SignedIn> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let secret = value.to_str().ok()?.strip_prefix("Bearer ")?.trim();
            return Some(SignedIn { entry: self.find(secret)?, csrf: None });
        }
        let secret = self.cookie_value(headers)?;
        Some(SignedIn { entry: self.find(&secret)?, csrf: Some(csrf_of(&secret)) })
    }

    /// Whether a sender that was identified earlier still has its access.
    pub(crate) fn is_valid(&self, sender: &SignedIn) -> bool {
        let entries = self.registry.entries();
        entries.is_ok_and(|entries| entries.iter().any(|entry| entry.id == sender.entry.id))
    }

    fn find(&self, secret: &str) -> Option<AccessEntry> {
        if secret.len() > SECRET_MAX { None } else { self.registry.find(secret) }
    }

    fn cookie_value(&self, headers: &HeaderMap) -> Option<String> {
        let mut pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let of = |text: &str| {
            let own = |pair: &str| Some(pair.trim().strip_prefix(&self.cookie)?.strip_prefix('=')?.to_owned());
            text.split(';').find_map(own)
        };
        pairs.find_map(of)
    }

    /// The cookie of a session; an empty secret ends it.
    pub(crate) fn cookie(&self, secret: &str, lasts_s: i64) -> String {
        let secure = if self.scheme == "https" { "; Secure" } else { "" };
        format!("{}={secret}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }

    /// Whether a write of a browser comes from a form of ours.
    pub(crate) fn is_own_form(&self, sender: &SignedIn, headers: &HeaderMap, csrf: Option<&str>) -> bool {
        match (&sender.csrf, self.is_own_origin(headers)) {
            (_, Some(false)) => false,
            (None, _) => true,
            (Some(expected), Some(true)) => csrf == Some(expected),
            (Some(_), None) => false,
        }
    }
}

fn csrf_of(secret: &str) -> String {
    hash_fields(&[b"csrf", secret.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn guard(hosts: &[&str]) -> RequestGuard {
        let config = WebConfig { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..WebConfig::default() };
        RequestGuard::new(Path::new("/nowhere"), "127.0.0.1:7117".parse().expect("an address"), &config)
    }

    fn headers(pairs: &[(hyper::header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a header"))).collect()
    }

    #[test]
    fn only_names_of_this_machine_and_configured_ones_are_own_hosts() {
        let guard = guard(&["Loops.example.org"]);
        for host in ["localhost:7117", "127.0.0.1", "LOCALHOST", "[::1]:7117", "loops.example.org:443"] {
            assert!(guard.is_own_host(&headers(&[(HOST, host)])), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7117", "", "localhost:x", "@localhost"]
        {
            assert!(!guard.is_own_host(&headers(&[(HOST, host)])), "{host}");
        }
        assert!(!guard.is_own_host(&HeaderMap::new()));
    }

    #[test]
    fn origin_is_own_only_if_it_is_the_host_of_the_request() {
        let guard = guard(&[]);
        let own = |origin: &str| guard.is_own_origin(&headers(&[(HOST, "127.0.0.1:7117"), (ORIGIN, origin)]));
        assert_eq!(own("http://127.0.0.1:7117"), Some(true));
        for origin in ["http://127.0.0.1:9", "null", "http://evil.example", "http://localhost:7117"] {
            assert_eq!(own(origin), Some(false), "{origin}");
        }
        assert_eq!(guard.is_own_origin(&headers(&[(HOST, "127.0.0.1:7117")])), None);
    }
}

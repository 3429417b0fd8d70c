//! The HTTP server of the daemon in the user's own configuration: its address, its names, and how it is protected beyond
//! loopback. Tokens are in the state directory, not here.

use super::webhooks::address;
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::SpecValue;
use serde::Serialize;
use std::net::SocketAddr;

/// The `web:` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebConfig {
    /// Whether the daemon serves it; it does unless this is `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The address; a free port of loopback if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Host names by which clients reach it, besides those of loopback.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether a proxy with TLS is in front of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_proxy: Option<bool>,
    /// The files of its own TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
}

/// The files of a server's TLS, both PEM, by absolute paths or paths below the home folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The certificate, followed by those of its issuers.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl WebConfig {
    /// Whether the daemon serves it.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled != Some(false)
    }

    /// Whether other machines may reach the address, because a proxy with TLS protects it.
    #[must_use]
    pub fn is_behind_proxy(&self) -> bool {
        self.behind_proxy == Some(true)
    }

    /// Whether clients reach it over TLS: its own, or that of a proxy.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_behind_proxy() || self.tls.is_some()
    }

    pub(super) fn merge(mut self, over: Self) -> Self {
        self.hosts.extend(over.hosts);
        Self {
            enabled: over.enabled.or(self.enabled),
            listen: over.listen.or(self.listen),
            hosts: self.hosts,
            behind_proxy: over.behind_proxy.or(self.behind_proxy),
            tls: over.tls.or(self.tls),
        }
    }
}

pub(super) fn read(at: &SpecValue<'_>) -> Option<WebConfig> {
    let fields = at.fields("enabled listen hosts behind_proxy tls")?;
    let mut config = WebConfig {
        enabled: fields.option("enabled", SpecValue::flag),
        listen: fields.option("listen", address),
        behind_proxy: fields.option("behind_proxy", SpecValue::flag),
        tls: fields.option("tls", tls_files),
        hosts: Vec::new(),
    };
    fields.set("hosts", &mut config.hosts, SpecValue::texts);
    for host in config.hosts.iter().filter(|host| !is_host(host)) {
        let what = format!("{} is not a host name", quoted(host));
        at.add_problem(ProblemKind::Value, what, Some("such as `loops.example.org`, without a port".to_owned()));
    }
    if config.listen.is_some_and(|listen| !listen.ip().is_loopback()) && !config.is_encrypted() {
        let what = "other machines could reach this address without TLS".to_owned();
        let hint = "listen on loopback, name the files of TLS as `tls: { certificate: FILE, key: FILE }`, or put a proxy \
                    with TLS in front of it and write `behind_proxy: true`";
        at.add_problem(ProblemKind::Value, what, Some(hint.to_owned()));
    }
    Some(config)
}

fn tls_files(at: &SpecValue<'_>) -> Option<TlsFiles> {
    let fields = at.fields("certificate key")?;
    let certificate = fields.required("certificate", "/etc/loopwright/tls.pem", SpecValue::text);
    let key = fields.required("key", "/etc/loopwright/tls.key", SpecValue::text);
    Some(TlsFiles { certificate: certificate?, key: key? })
}

fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    (1..=253).contains(&name.len()) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use crate::config::read_config_file;

    #[test]
    fn address_beyond_loopback_needs_tls_files_or_a_proxy() {
        let read = |text: &str| read_config_file("config.yaml", text.as_bytes());
        let web = read("web: { listen: 0.0.0.0:7117, behind_proxy: true, hosts: [loops.example.org] }")
            .expect("a good file")
            .web;
        assert!(web.is_enabled() && web.is_behind_proxy() && web.hosts == ["loops.example.org"]);
        assert!(read("web: { listen: 127.0.0.1:7117 }").is_ok() && read("web: { enabled: false }").is_ok());
        let web =
            read("web: { listen: 0.0.0.0:7117, tls: { certificate: /a.pem, key: /a.key } }").expect("a good file").web;
        assert!(web.is_encrypted() && !web.is_behind_proxy() && web.tls.is_some_and(|files| files.key == "/a.key"));
        for (text, expected) in [
            ("web: { listen: 0.0.0.0:7117, tls: { certificate: /a.pem } }", "missing key `key`"),
            ("web: { listen: 0.0.0.0:7117 }", "without TLS"),
            ("web: { listen: '[::]:7117', behind_proxy: false }", "without TLS"),
            ("web: { hosts: [\"loops.example.org:80\"] }", "not a host name"),
        ] {
            let message = read(text).expect_err("a bad file").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}

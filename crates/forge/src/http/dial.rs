//! Connections: directly or through a proxy, with TLS that is verified against the system's certificate authorities and
//! those of a file.

use crate::base_url::{BaseUrl, host_and_port};
use crate::secret::SecretText;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// The longest answer of a proxy to `CONNECT`.
const PROXY_ANSWER_MAX: usize = 8 << 10;

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// The HTTP proxy for all requests: `http://host:port` or `http://user:password@host:port`.
    pub proxy: Option<SecretText>,
    /// A PEM file with certificate authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The limit for a connection with TLS.
    pub connect_timeout: Duration,
    /// The limit for a request with its answer.
    pub total_timeout: Duration,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        let (connect_timeout, total_timeout) = (Duration::from_secs(10), Duration::from_secs(60));
        Self { proxy: None, ca_file: None, connect_timeout, total_timeout }
    }
}

/// A stream of bytes in both directions.
pub(crate) trait ForgeStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ForgeStream for T {}

/// Opens connections.
pub(crate) struct ForgeDialer {
    proxy: Option<ProxyAddress>,
    tls: Option<Arc<ClientConfig>>,
    connect_timeout: Duration,
}

struct ProxyAddress {
    host: String,
    port: u16,
    authorization: Option<SecretText>,
}

impl ForgeDialer {
    pub(crate) fn new(network: &NetworkSettings, needs_tls: bool) -> Result<Self, String> {
        let proxy = network.proxy.as_ref().map(|proxy| ProxyAddress::parse(proxy.expose())).transpose()?;
        let tls = if needs_tls { Some(client_config(network)?) } else { None };
        Ok(Self { proxy, tls, connect_timeout: network.connect_timeout })
    }

    /// A connection to the server, ready for HTTP.
    pub(crate) async fn connect(&self, to: &BaseUrl) -> Result<Box<dyn ForgeStream>, String> {
        let late = |_| format!("connect to {}: no connection within {} s", to.host, self.connect_timeout.as_secs());
        timeout(self.connect_timeout, self.dial(to)).await.map_err(late)?
    }

    async fn dial(&self, to: &BaseUrl) -> Result<Box<dyn ForgeStream>, String> {
        let failed = |error: std::io::Error| format!("connect to {}: {error}", to.host_and_port());
        let stream = match &self.proxy {
            Some(proxy) => proxy.tunnel(to).await?,
            None => TcpStream::connect((to.host.as_str(), to.port)).await.map_err(failed)?,
        };
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(to.host.clone()).map_err(|error| format!("host `{}`: {error}", to.host))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(|error| {
            format!("TLS with {}: {error}; a private certificate authority needs `ca_file`", to.host)
        })?;
        Ok(Box::new(stream))
    }
}

impl ProxyAddress {
    fn parse(text: &str) -> Result<Self, String> {
        // The text may contain a password, so no message repeats it.
        let wrong = || "proxy: must be `http://host:port` or `http://user:password@host:port`".to_owned();
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        let (user, authority) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let (host, port) = host_and_port(authority, 3128).ok_or_else(wrong)?;
        let authorization = user.map(|user| SecretText::new(format!("Basic {}", STANDARD.encode(decoded(user)))));
        Ok(Self { host, port, authorization })
    }

    /// A connection to the server through the proxy. `CONNECT` also for plain HTTP, so that the proxy sees no token.
    async fn tunnel(&self, to: &BaseUrl) -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| format!("proxy {}:{}: {error}", self.host, self.port);
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(failed)?;
        let target = to.host_and_port();
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("Proxy-Authorization: {}\r\n", authorization.expose()));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.map_err(failed)?;
        let answer = read_head(&mut stream).await.map_err(failed)?;
        let status = answer.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some("200") => Ok(stream),
            Some("407") => Err(format!("proxy {}:{} needs a user and a password", self.host, self.port)),
            _ => Err(format!("proxy {}:{} refuses {target}: `{}`", self.host, self.port, status.escape_debug())),
        }
    }
}

/// Reads up to the empty line, byte by byte, so that nothing of the tunnel is consumed.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_ANSWER_MAX {
            return Err(std::io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Percent-decodes a user and password.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits = [ahead.next(), ahead.next()].map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                bytes = ahead;
            }
            _ => out.push(byte),
        }
    }
    out
}

fn client_config(network: &NetworkSettings) -> Result<Arc<ClientConfig>, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = &network.ca_file {
        let wrong = |error: &dyn std::fmt::Display| format!("certificate authorities `{}`: {error}", file.display());
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
        let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
        if certificates.is_empty() {
            return Err(wrong(&"no certificate in it"));
        }
        for certificate in certificates {
            store.add(certificate).map_err(|error| wrong(&error))?;
        }
    }
    if store.is_empty() {
        return Err("this host has no certificates to trust; install `ca-certificates`".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_parsed_and_their_password_is_never_shown() {
        let proxy = ProxyAddress::parse("http://ada:p%40ss@proxy.example:8080/").expect("an address");
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 8080));
        assert_eq!(proxy.authorization, Some(SecretText::new(format!("Basic {}", STANDARD.encode("ada:p@ss")))));
        let error = ProxyAddress::parse("socks5://ada:secret@proxy").map(drop).expect_err("another protocol");
        assert!(!error.contains("secret"), "{error}");
    }
}

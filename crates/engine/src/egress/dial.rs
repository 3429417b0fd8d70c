//! Outgoing connections: names are resolved only here, and the proxy dials exactly the address that it checked.

use super::ledger::EgressLimits;
use loopwright_core::network::{AddressReach, DenialReason, NetworkHost, NetworkTarget};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Number of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;

/// The network as the proxy sees it. By default it is the real one; tests override name resolution and routes, and
/// every check stays in force.
#[derive(Debug, Clone, Default)]
pub struct NetworkOverrides {
    /// Addresses by name, instead of the system's resolver.
    pub names: Option<BTreeMap<String, Vec<IpAddr>>>,
    /// The real destination of a dialled address.
    pub redirects: BTreeMap<SocketAddr, SocketAddr>,
    /// The certificate authorities that the far side's certificate must come from.
    pub roots: TrustedRoots,
}

/// The trusted certificate authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TrustedRoots {
    /// The system's.
    #[default]
    System,
    /// These, in DER.
    Only(Vec<Vec<u8>>),
}

impl TrustedRoots {
    /// The certificates that can be read.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        match self {
            Self::System => rustls_native_certs::load_native_certs().certs,
            Self::Only(some) => some.iter().cloned().map(CertificateDer::from).collect(),
        }
    }
}

/// The addresses that a connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressBound {
    /// Those of the rule that allowed it.
    By(AddressReach),
    /// Any: the address comes from the configuration, not from an agent.
    Trusted,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub(super) enum DialError {
    /// Policy denies it.
    Denied(DenialReason),
    /// The connection failed.
    Failed(String),
}

/// A stream of bytes in both directions.
pub(super) trait ConnectionStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ConnectionStream for T {}

/// Opens connections.
#[derive(Debug)]
pub(super) struct ProxyDialer {
    world: NetworkOverrides,
    limits: EgressLimits,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl ProxyDialer {
    pub(super) fn new(world: NetworkOverrides, limits: EgressLimits) -> Self {
        Self { world, limits, tls: OnceLock::new() }
    }

    /// A connection to one of the target's addresses that the bound permits.
    pub(super) async fn tcp(&self, target: &NetworkTarget, bound: AddressBound) -> Result<TcpStream, DialError> {
        let addresses = self.addresses(target).await?;
        let permitted = |address: &SocketAddr| match bound {
            AddressBound::By(reach) => reach.permits(address.ip()),
            AddressBound::Trusted => true,
        };
        let allowed: Vec<SocketAddr> = addresses.into_iter().filter(permitted).take(ADDRESSES_MAX).collect();
        if allowed.is_empty() {
            return Err(DialError::Denied(DenialReason::Address));
        }
        let mut last = None;
        for address in allowed {
            match self.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(failed(target, last.map_or_else(String::new, |error| error.to_string())))
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let place = self.world.redirects.get(&address).copied().unwrap_or(address);
        let stream = timeout(self.limits.greeting, TcpStream::connect(place)).await.map_err(io::Error::other)??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Resolves the name. There is always at least one address.
    async fn addresses(&self, target: &NetworkTarget) -> Result<Vec<SocketAddr>, DialError> {
        let at = |ip: &IpAddr| SocketAddr::new(*ip, target.port);
        let found = match (&target.host, &self.world.names) {
            (NetworkHost::Ip(ip), _) => vec![at(ip)],
            (NetworkHost::Name(name), Some(names)) => names.get(name).into_iter().flatten().map(at).collect(),
            (NetworkHost::Name(name), None) => self.look_up(name, target).await?,
        };
        if found.is_empty() { Err(failed(target, "the name has no address".to_owned())) } else { Ok(found) }
    }

    async fn look_up(&self, name: &str, target: &NetworkTarget) -> Result<Vec<SocketAddr>, DialError> {
        let found = timeout(self.limits.greeting, lookup_host((name, target.port))).await;
        let found = found.map_err(|late| failed(target, late.to_string()))?;
        Ok(found.map_err(|error| failed(target, error.to_string()))?.collect())
    }

    /// As [`ProxyDialer::tcp`], with TLS that is verified as any client would.
    pub(super) async fn tls(
        &self,
        target: &NetworkTarget,
        bound: AddressBound,
    ) -> Result<Box<dyn ConnectionStream>, DialError> {
        let config = self.tls.get_or_init(|| client_config(&self.world.roots)).clone();
        let config = config.map_err(|error| failed(target, error))?;
        let name = match &target.host {
            NetworkHost::Ip(ip) => ServerName::IpAddress((*ip).into()),
            NetworkHost::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| failed(target, error.to_string()))?
            }
        };
        let stream = self.tcp(target, bound).await?;
        let greeting = timeout(self.limits.greeting, TlsConnector::from(config).connect(name, stream)).await;
        let greeted = greeting.map_err(|late| failed(target, late.to_string()))?;
        Ok(Box::new(greeted.map_err(|error| failed(target, error.to_string()))?))
    }
}

fn failed(target: &NetworkTarget, error: String) -> DialError {
    DialError::Failed(format!("connect to {target}: {error}"))
}

fn client_config(roots: &TrustedRoots) -> Result<Arc<ClientConfig>, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.certificates());
    if store.is_empty() {
        return Err("this host has no certificates to trust; install `ca-certificates`".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

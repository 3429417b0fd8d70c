//! The only way from a round to the network: Loopwright's proxy outside the sandbox, behind a socket that is the only
//! thing a confined program reaches. It enforces the loop's [`NetworkPolicy`], resolves names, and puts provider keys
//! into requests; no other part of the program sees a key.
//!
//! ```text
//! agent ─► 127.0.0.1:3128 inside ─► Unix socket ─► CONNECT host:443       policy, then the name in the TLS greeting
//!                                                  GET http://host/path   policy of host, method and path
//!                                                  /provider/NAME/…       the start's token in, the real key out
//! ```
//!
//! Without kernel isolation the proxy cannot be enforced, so it serves only providers: it listens on a free port of
//! 127.0.0.1. It requires a token there too, so that no agent ever holds a key.
//!
//! The kernel's part is not done here: the sandbox ensures that nothing else is reachable.

mod authority;
mod body;
mod dial;
pub(crate) mod exchange_log;
mod forward;
mod grant;
mod hello;
mod key;
mod ledger;
mod provider;
mod proxy_state;
mod routes;
mod serve;
mod signing;
mod socket;
mod ticket;
mod tunnel;
pub(crate) mod usage;

pub(crate) use authority::system_bundle;
pub use dial::{NetworkOverrides, TrustedRoots};
pub use grant::ProviderGrant;
pub use key::{ProviderKey, ProviderKeyError};
pub use ledger::{EgressLimits, UsedBytes};
pub use loopwright_core::config::KeyStyle;
pub use provider::{CloudApi, ModelProvider, ProviderError, SilenceLimits};
pub use routes::{EgressRoute, EgressRoutes};
pub use signing::{RequestSigner, SignerError};

use loopwright_core::network::{NetworkPolicy, NetworkRuleError, NetworkTraffic};
use proxy_state::ProxyState;
use serve::ProxyListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The proxy's port on 127.0.0.1 inside the sandbox.
pub const PORT: u16 = 3128;
/// The path at which a confined program sees the certificates it may trust, if some TLS is decrypted.
pub const BUNDLE_INSIDE: &str = "/run/loopwright/certificates.pem";

/// The options of a proxy.
#[derive(Debug, Default)]
pub struct EgressOptions {
    /// The hosts that may be reached.
    pub policy: NetworkPolicy,
    /// The model providers that agents of this round may use.
    pub providers: Vec<ModelProvider>,
    /// Bytes, connections and times.
    pub limits: EgressLimits,
    /// The bytes that the round has already used; all proxies of one round share it.
    pub used: UsedBytes,
    /// The real network, or a test's overrides.
    pub network: NetworkOverrides,
}

impl EgressOptions {
    /// Whether there is anything to reach; otherwise a round needs no proxy and gets no socket.
    #[must_use]
    pub fn reaches_anything(&self) -> bool {
        !self.policy.is_empty() || !self.providers.is_empty()
    }
}

/// Why a proxy could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// An entry of `network` that is not valid.
    #[error("read `{entry}` of `network`")]
    Entry {
        /// The entry.
        entry: String,
        /// The problem with it.
        #[source]
        source: NetworkRuleError,
    },
    /// Its socket or files could not be created.
    #[error("open the egress socket in `{}`", folder.display())]
    Socket {
        /// The folder of the socket.
        folder: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Its port on loopback could not be opened.
    #[error("open a port on 127.0.0.1")]
    Port(#[source] std::io::Error),
    /// The token of a start could not be created.
    #[error("create the token of a start")]
    Token(#[source] std::io::Error),
    /// The certificate of the round could not be created.
    #[error("create the certificate of a round: {0}")]
    Certificate(String),
}

/// A running proxy. It ends, with all its connections, when it is closed or dropped.
#[derive(Debug)]
pub struct EgressProxy {
    shared: Arc<ProxyState>,
    /// The socket that the sandbox forwards to; without one, the proxy has a port of this machine's loopback.
    front: Option<socket::ProxySocket>,
    bundle: Option<PathBuf>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl EgressProxy {
    /// Opens a proxy with a socket in this folder, which is created, private to its owner, if it does not exist.
    /// Requires a tokio runtime.
    ///
    /// # Errors
    /// When the socket or the round's secrets cannot be created.
    pub fn open(folder: &Path, options: EgressOptions) -> Result<Self, EgressError> {
        let at = |source| EgressError::Socket { folder: folder.to_owned(), source };
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(ProxyState::new(options, PORT, stopped)?);
        let socket = socket::ProxySocket::bind(folder).map_err(at)?;
        let beside = |text: &str| socket.write_beside("certificates.pem", text.as_bytes());
        let bundle = shared.authority.as_ref().map(|authority| beside(authority.bundle()));
        let bundle = bundle.transpose().map_err(at)?;
        let listener = ProxyListener::Socket(socket.listener().map_err(at)?);
        let task = tokio::spawn(serve::accept(Arc::clone(&shared), listener));
        Ok(Self { shared, front: Some(socket), bundle, stop, task })
    }

    /// Opens a proxy to only these providers at a free port of 127.0.0.1. Requires a tokio runtime.
    ///
    /// # Errors
    /// When no port is free, or the round's secrets cannot be created.
    pub fn open_on_loopback(providers: Vec<ModelProvider>) -> Result<Self, EgressError> {
        let bound = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
        let bound = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?.port(), TcpListener::from_std(listener)?)));
        let (port, listener) = bound.map_err(EgressError::Port)?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(ProxyState::new(EgressOptions { providers, ..EgressOptions::default() }, port, stopped)?);
        let task = tokio::spawn(serve::accept(Arc::clone(&shared), ProxyListener::Port(listener)));
        Ok(Self { shared, front: None, bundle: None, stop, task })
    }

    /// The host's socket, if the sandbox forwards to one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.front.as_ref().map(socket::ProxySocket::path)
    }

    /// The host's file with the certificates a confined program may trust, to be mounted at [`BUNDLE_INSIDE`]; only if
    /// some TLS is decrypted.
    #[must_use]
    pub fn bundle(&self) -> Option<&Path> {
        self.bundle.as_deref()
    }

    /// The environment variables by which a program finds the proxy. There are none without kernel isolation, because
    /// the proxy then serves only providers.
    #[must_use]
    pub fn env(&self) -> Vec<(&'static str, String)> {
        if self.front.is_none() {
            return Vec::new();
        }
        let direct = self.shared.direct();
        let proxied = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        let mut env: Vec<_> = proxied.into_iter().map(|name| (name, self.address())).collect();
        env.extend([("NO_PROXY", direct.clone()), ("no_proxy", direct), ("NODE_USE_ENV_PROXY", "1".to_owned())]);
        if self.bundle.is_some() {
            env.extend(CERTIFICATE_VARIABLES.map(|name| (name, BUNDLE_INSIDE.to_owned())));
        }
        env
    }

    /// The proxy's address for programs of the round.
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.shared.port)
    }

    /// Grants one start of an agent access to those of these providers that this proxy was opened with, and to no
    /// others.
    ///
    /// # Errors
    /// When no token can be created.
    pub fn grant_access(&self, providers: &[&str]) -> Result<ProviderGrant, EgressError> {
        ProviderGrant::new(&self.shared, &self.address(), providers)
    }

    /// The traffic so far.
    #[must_use]
    pub fn traffic(&self) -> NetworkTraffic {
        self.shared.ledger.traffic()
    }

    /// Ends it with all its connections, and returns the traffic.
    pub async fn close(mut self) -> NetworkTraffic {
        self.stop.send_replace(true);
        // An accept loop that panicked accepts nothing more; its traffic is in the ledger anyway.
        let _ = (&mut self.task).await;
        self.shared.ledger.traffic()
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// The variables with which programs find certificates: OpenSSL and Go, Node, Python, git, cargo, curl, pip, Deno.
pub(crate) const CERTIFICATE_VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "DENO_CERT",
];

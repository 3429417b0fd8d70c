//! A small internet: servers on loopback behind public addresses, a proxy, and ways to connect to it.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use loopwright::egress::{
    EgressLimits, EgressOptions, EgressProxy, ModelProvider, NetworkOverrides, ProviderGrant, TrustedRoots,
};
use loopwright_core::network::{DenialReason, DeniedAccess, NetworkPolicy};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Longer than any answer takes.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A request that a server received.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A response with a text.
pub(crate) fn says(text: &str) -> Answer {
    Response::new(Full::new(Bytes::from(text.to_owned())).boxed_unsync())
}

/// A server.
#[derive(Clone, Default)]
pub(crate) struct Site {
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Site {
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("no panic").clone()
    }

    async fn serve<S>(self, stream: S, answer: Arc<dyn Fn(&Heard) -> Answer + Send + Sync>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request: Request<Incoming>| {
            let (site, answer) = (self.clone(), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let headers = parts.headers.iter();
                let heard = Heard {
                    method: parts.method.to_string(),
                    path: parts.uri.to_string(),
                    headers: headers
                        .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into()))
                        .collect(),
                    body: String::from_utf8_lossy(&body).into(),
                };
                site.heard.lock().expect("no panic").push(heard.clone());
                Ok::<_, Infallible>(answer(&heard))
            }
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// The internet of one test.
pub(crate) struct Internet {
    world: NetworkOverrides,
    authority: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Internet {
    pub(crate) fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let key = rcgen::KeyPair::generate().expect("a key");
        let authority = rcgen::CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let roots = TrustedRoots::Only(vec![authority.der().to_vec()]);
        Self {
            world: NetworkOverrides {
                names: Some(std::collections::BTreeMap::new()),
                roots,
                ..NetworkOverrides::default()
            },
            authority,
        }
    }

    /// Sets the addresses of a name.
    pub(crate) fn name(&mut self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.world.names.as_mut().expect("names").insert(host.to_owned(), addresses);
    }

    /// Routes a public address to a local listener.
    pub(crate) fn place(&mut self, address: &str, port: u16, really: SocketAddr) {
        let ip: IpAddr = address.parse().expect("an address");
        self.world.redirects.insert(SocketAddr::new(ip, port), really);
    }

    /// An HTTP server.
    pub(crate) async fn plain(&mut self, host: &str, address: &str) -> Site {
        self.plain_with(host, address, |heard| says(&format!("hello from {}", heard.path))).await
    }

    pub(crate) async fn plain_with(
        &mut self,
        host: &str,
        address: &str,
        answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static,
    ) -> Site {
        let (site, really) = plain_site(answer).await;
        self.name(host, &[address]);
        self.place(address, 80, really);
        site
    }

    /// A TLS server with a certificate for `speaks_for`.
    pub(crate) async fn tls(&mut self, host: &str, address: &str, speaks_for: &str) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        self.name(host, &[address]);
        self.place(address, 443, listener.local_addr().expect("an address"));
        let acceptor = self.acceptor(speaks_for);
        let site = Site::default();
        let serving = site.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, site) = (acceptor.clone(), serving.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        site.serve(
                            stream,
                            Arc::new(|heard: &Heard| says(&format!("secret hello from {}", heard.path))),
                        )
                        .await;
                    }
                });
            }
        });
        site
    }

    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        let leaf = params.signed_by(&key, &self.authority).expect("a certificate");
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into());
        TlsAcceptor::from(Arc::new(config.expect("a configuration")))
    }

    /// The root certificate of the servers' certificates.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.authority.der().to_vec()
    }

    /// A proxy with these `network` entries.
    pub(crate) fn proxy(&self, network: &[&str]) -> Proxy {
        self.open(network, Vec::new(), EgressLimits::default())
    }

    pub(crate) fn open(&self, network: &[&str], providers: Vec<ModelProvider>, limits: EgressLimits) -> Proxy {
        let entries: Vec<String> = network.iter().map(|entry| (*entry).to_owned()).collect();
        let policy = NetworkPolicy::read(&entries).expect("readable entries");
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            EgressOptions { policy, providers, limits, network: self.world.clone(), ..EgressOptions::default() };
        let names: Vec<String> = options.providers.iter().map(|provider| provider.name().to_owned()).collect();
        let egress = EgressProxy::open(&folder.path().join("door"), options).expect("an open proxy");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pass = egress.grant_access(&names).expect("a pass");
        Proxy { egress, pass, _folder: folder }
    }
}

/// An HTTP server at a local port.
pub(crate) async fn plain_site(answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static) -> (Site, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let really = listener.local_addr().expect("an address");
    let site = Site::default();
    let (serving, answer) = (site.clone(), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serving.clone().serve(stream, Arc::clone(&answer) as Arc<_>));
        }
    });
    (site, really)
}

/// An open proxy.
pub(crate) struct Proxy {
    pub(crate) egress: EgressProxy,
    /// A grant for all of its providers.
    pub(crate) pass: ProviderGrant,
    _folder: tempfile::TempDir,
}

impl Proxy {
    pub(crate) async fn wire(&self) -> UnixStream {
        UnixStream::connect(self.egress.socket().expect("a socket")).await.expect("a connection to the proxy")
    }

    /// Sends bytes unchanged, and reads until the proxy closes the connection.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut wire = self.wire().await;
        let _ = wire.write_all(bytes.as_ref()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(SOON, wire.read_to_end(&mut answer)).await.expect("an answer in time");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// One request with an absolute URL.
    pub(crate) async fn ask(&self, method: &str, url: &str, headers: &str) -> String {
        self.raw(format!("{method} {url} HTTP/1.1\r\nHost: spoofed.example\r\nConnection: close\r\n{headers}\r\n"))
            .await
    }

    /// Requests a tunnel: the connection, or the proxy's answer.
    pub(crate) async fn tunnel(&self, target: &str) -> Result<UnixStream, String> {
        let mut wire = self.wire().await;
        let ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        wire.write_all(ask.as_bytes()).await.expect("a request");
        let head = head(&mut wire).await;
        if head.starts_with("HTTP/1.1 200") { Ok(wire) } else { Err(head) }
    }

    /// The denials so far.
    pub(crate) fn denied(&self) -> Vec<(String, u16, DenialReason, u64)> {
        let row = |denied: DeniedAccess| (denied.host, denied.port, denied.why, denied.count);
        self.egress.traffic().denied.into_iter().map(row).collect()
    }

    /// The proxy as programs inside a sandbox see it: a TCP port, forwarded to the socket.
    pub(crate) async fn door(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let socket = self.egress.socket().expect("a socket").to_owned();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let socket = socket.clone();
                tokio::spawn(async move {
                    let mut far = UnixStream::connect(socket).await.expect("the proxy's socket");
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        address
    }
}

/// The head of an answer, without reading any byte after it.
pub(crate) async fn head<S: AsyncRead + Unpin>(wire: &mut S) -> String {
    let mut head = Vec::new();
    let read = async {
        while !head.ends_with(b"\r\n\r\n") {
            match wire.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
    };
    tokio::time::timeout(SOON, read).await.expect("a head in time");
    String::from_utf8_lossy(&head).into_owned()
}

/// Starts TLS over a tunnel, naming a host.
pub(crate) async fn tls<S>(wire: S, name: &str, root: Vec<u8>) -> std::io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut store = RootCertStore::empty();
    store.add(CertificateDer::from(root)).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let greeted = tokio::time::timeout(SOON, TlsConnector::from(Arc::new(config)).connect(name, wire)).await;
    greeted.expect("a greeting in time")
}

/// One request over any connection, read to the end.
pub(crate) async fn request<S: AsyncRead + AsyncWrite + Unpin>(mut wire: S, text: &str) -> String {
    wire.write_all(text.as_bytes()).await.expect("a request");
    wire.flush().await.expect("a request");
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, wire.read_to_end(&mut answer)).await.expect("an answer in time");
    String::from_utf8_lossy(&answer).into_owned()
}

//! Tunnels: forwarded unchanged if the host is allowed and the TLS hello in them names that host, or decrypted if the
//! loop asks for it.

use super::body::AnyBody;
use super::dial::{AddressBound, DialError};
use super::hello::{self, GREETING_MAX, Greeting};
use super::ledger::{BytesExhausted, ConnectionAccount};
use super::proxy_state::ProxyState;
use super::serve::{ConnectionSlot, builder, deny_request, refusal_response};
use super::{body, forward};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use loopwright_core::network::{DenialReason, NetworkHost, NetworkTarget, RequestTransport, TunnelDecision};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The client's side of a tunnel.
type ClientStream = TokioIo<Upgraded>;

const CONNECT: &str = "CONNECT";
/// Bytes that are copied at a time.
const PIECE: usize = 16 << 10;

/// Answers a request for a tunnel. The tunnel itself runs in its own task.
pub(super) async fn open_tunnel(
    shared: Arc<ProxyState>,
    place: ConnectionSlot,
    request: Request<Incoming>,
) -> Response<AnyBody> {
    let asked = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let target = match NetworkTarget::parse(&asked, 443) {
        Ok(target) => target,
        Err(error) => {
            shared.ledger.deny(&asked, 0, CONNECT, DenialReason::Request);
            return refusal_response(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    let tunnel = match shared.policy.tunnel(&target) {
        Ok(tunnel) => tunnel,
        Err(why) => return deny_request(&shared, &target, CONNECT, why),
    };
    // Dialled before the answer, so that the client can distinguish an unreachable host from one that closes the
    // connection.
    let far = match tunnel {
        TunnelDecision::Opened(_) => None,
        TunnelDecision::Through(reach) => match shared.dialer.tcp(&target, AddressBound::By(reach)).await {
            Ok(far) => Some(far),
            Err(DialError::Denied(why)) => return deny_request(&shared, &target, CONNECT, why),
            Err(DialError::Failed(text)) => return refusal_response(StatusCode::BAD_GATEWAY, &text),
        },
    };
    let task = Arc::clone(&shared);
    shared.spawn(async move {
        let _place = place;
        // The client did not start its tunnel.
        let Ok(client) = hyper::upgrade::on(request).await else { return };
        carry(&task, &target, TokioIo::new(client), far).await;
    });
    Response::new(body::text_body(""))
}

/// Forwards a tunnel to its far side, or decrypts it if there is no far side yet.
async fn carry(shared: &Arc<ProxyState>, target: &NetworkTarget, mut client: ClientStream, far: Option<TcpStream>) {
    let account = shared.account(target, CONNECT);
    let greeting = match timeout(shared.limits.greeting, greeting(&mut client, &target.host)).await {
        Ok(Ok(greeting)) => greeting,
        Ok(Err(Some(why))) => return account.deny(why),
        // The client disconnected, or sent nothing.
        Ok(Err(None)) | Err(_) => return,
    };
    match far {
        Some(far) => through(&account, client, far, &greeting).await,
        None => inspect_tls(shared, target, client, greeting).await,
    }
}

/// Reads the TLS hello, which must name the tunnel's host. `None` means that the client disconnected.
async fn greeting(client: &mut ClientStream, host: &NetworkHost) -> Result<Vec<u8>, Option<DenialReason>> {
    let mut bytes = Vec::with_capacity(2048);
    loop {
        match hello::read(&bytes) {
            Greeting::Hello(name) if is_for(name.as_deref(), host) => return Ok(bytes),
            Greeting::Hello(_) => return Err(Some(DenialReason::ServerName)),
            Greeting::Not => return Err(Some(DenialReason::NotTls)),
            Greeting::More => {}
        }
        let room = GREETING_MAX.saturating_sub(bytes.len()).clamp(1, PIECE) as u64;
        match (&mut *client).take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Err(None),
            Ok(_) => {}
        }
    }
}

/// Clients send a host's name; for a host that is an IP address they send none.
fn is_for(name: Option<&str>, host: &NetworkHost) -> bool {
    match (name, host) {
        (Some(name), NetworkHost::Name(_)) => NetworkHost::parse(name).as_ref() == Ok(host),
        (None, NetworkHost::Ip(_)) => true,
        (None, NetworkHost::Name(_)) | (Some(_), NetworkHost::Ip(_)) => false,
    }
}

/// Copies bytes both ways until both sides have ended, or both are silent for too long.
async fn through(account: &ConnectionAccount, client: ClientStream, mut far: TcpStream, greeting: &[u8]) {
    account.reached();
    if account.charge_sent(greeting.len()).is_err() || far.write_all(greeting).await.is_err() {
        return;
    }
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_far, mut to_far) = far.split();
    let moved = AtomicU64::new(0);
    let both = async {
        let up = pump(&mut from_client, &mut to_far, &moved, |bytes| account.charge_sent(bytes));
        let down = pump(&mut from_far, &mut to_client, &moved, |bytes| account.charge_received(bytes));
        tokio::try_join!(up, down)
    };
    tokio::select! {
        // In every case both sides are closed now.
        _ = both => {}
        () = silence(&moved, account) => {}
    }
}

/// Copies bytes one way until the source ends.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
    charge: impl Fn(usize) -> Result<(), BytesExhausted>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        charge(count).map_err(io::Error::other)?;
        to.write_all(&piece[..count]).await?;
        to.flush().await?;
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

/// Resolves when no bytes were copied for the longest allowed silence.
async fn silence(moved: &AtomicU64, account: &ConnectionAccount) {
    let mut ticks = tokio::time::interval(account.idle());
    ticks.tick().await;
    let mut before = None;
    loop {
        let now = Some(moved.load(Ordering::Relaxed));
        if now == before {
            return;
        }
        before = now;
        ticks.tick().await;
    }
}

/// Decrypts the TLS with the round's own certificate and answers the requests in it.
async fn inspect_tls(shared: &Arc<ProxyState>, target: &NetworkTarget, client: ClientStream, greeting: Vec<u8>) {
    let Some(Ok(acceptor)) = shared.authority.as_ref().map(|authority| authority.acceptor(&target.host)) else {
        return;
    };
    let (read, write) = tokio::io::split(client);
    let again = tokio::io::join(io::Cursor::new(greeting).chain(read), write);
    // A client that does not trust the certificate disconnects.
    let Ok(Ok(stream)) = timeout(shared.limits.greeting, acceptor.accept(again)).await else { return };
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(forward::forward_request(shared, RequestTransport::Opened, target, request).await)
    });
    // A connection error affects only this connection; its client has seen it.
    let _ = builder(shared).serve_connection(TokioIo::new(stream), service).await;
}

//! Tunnels: carried as they are when the host is allowed and the TLS greeting in them names that host, or opened when the
//! loop asks for it.

use super::body::AnyBody;
use super::dial::{Bound, DialError};
use super::hello::{self, GREETING_MAX, Greeting};
use super::ledger::{Account, Spent};
use super::serve::{Place, builder, denied, refusal};
use super::shared::Shared;
use super::{body, forward};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use loopwright_core::network::{Host, Target, Tunnel, Why};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT: &str = "CONNECT";
/// Bytes that are moved at a time.
const PIECE: usize = 16 << 10;

/// Answers a request for a tunnel. The tunnel itself lives on in a task of its own.
pub(super) async fn open(shared: Arc<Shared>, place: Place, request: Request<Incoming>) -> Response<AnyBody> {
    let asked = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let target = match Target::parse(&asked, 443) {
        Ok(target) => target,
        Err(error) => {
            shared.ledger.deny(&asked, 0, CONNECT, Why::Request);
            return refusal(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    let tunnel = match shared.policy.tunnel(&target) {
        Ok(tunnel) => tunnel,
        Err(why) => return denied(&shared, &target, CONNECT, why),
    };
    // Dialled before the answer, so that a host that is not there can be told from one that hangs up.
    let far = match tunnel {
        Tunnel::Opened(_) => None,
        Tunnel::Through(reach) => match shared.dialer.tcp(&target, Bound::By(reach)).await {
            Ok(far) => Some(far),
            Err(DialError::Denied(why)) => return denied(&shared, &target, CONNECT, why),
            Err(DialError::Failed(text)) => return refusal(StatusCode::BAD_GATEWAY, &text),
        },
    };
    let task = Arc::clone(&shared);
    shared.spawn(async move {
        let _place = place;
        // A client that does not take up its tunnel has none.
        let Ok(client) = hyper::upgrade::on(request).await else { return };
        carry(&task, &target, TokioIo::new(client), far).await;
    });
    Response::new(body::text(""))
}

/// Carries a tunnel to its far side, or looks into it where there is none yet.
async fn carry<C>(shared: &Arc<Shared>, target: &Target, mut client: C, far: Option<TcpStream>)
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let account = shared.account(target, CONNECT);
    let greeting = match timeout(shared.limits.greeting, greeting(&mut client, &target.host)).await {
        Ok(Ok(greeting)) => greeting,
        Ok(Err(Some(why))) => return account.deny(why),
        // The client went away, or said nothing.
        Ok(Err(None)) | Err(_) => return,
    };
    match far {
        Some(far) => through(&account, client, far, &greeting).await,
        None => look_into(shared, target, client, greeting).await,
    }
}

/// Reads the TLS greeting; what it says must be for the host of the tunnel. `None` is a client that went away.
async fn greeting<C: AsyncRead + Unpin>(client: &mut C, host: &Host) -> Result<Vec<u8>, Option<Why>> {
    let mut bytes = Vec::with_capacity(2048);
    loop {
        match hello::read(&bytes) {
            Greeting::Hello(name) if is_for(name.as_deref(), host) => return Ok(bytes),
            Greeting::Hello(_) => return Err(Some(Why::ServerName)),
            Greeting::Not => return Err(Some(Why::NotTls)),
            Greeting::More => {}
        }
        let room = GREETING_MAX.saturating_sub(bytes.len()).clamp(1, PIECE) as u64;
        match (&mut *client).take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Err(None),
            Ok(_) => {}
        }
    }
}

/// Clients name a host by its name; one that is known by its address only is not named at all.
fn is_for(name: Option<&str>, host: &Host) -> bool {
    match (name, host) {
        (Some(name), Host::Name(_)) => Host::parse(name).as_ref() == Ok(host),
        (None, Host::Ip(_)) => true,
        (None, Host::Name(_)) | (Some(_), Host::Ip(_)) => false,
    }
}

/// Carries bytes both ways until both sides are done, or neither says anything for too long.
async fn through<C>(account: &Account, client: C, mut far: TcpStream, greeting: &[u8])
where
    C: AsyncRead + AsyncWrite + Send + Unpin,
{
    account.reached();
    if account.up(greeting.len()).is_err() || far.write_all(greeting).await.is_err() {
        return;
    }
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_far, mut to_far) = far.split();
    let moved = AtomicU64::new(0);
    let both = async {
        let up = pump(&mut from_client, &mut to_far, &moved, |bytes| account.up(bytes));
        let down = pump(&mut from_far, &mut to_client, &moved, |bytes| account.down(bytes));
        tokio::try_join!(up, down)
    };
    tokio::select! {
        // Whatever ended it, both sides are closed now.
        _ = both => {}
        () = silence(&moved, account) => {}
    }
}

/// Moves bytes one way until its source is done.
async fn pump<R, W>(
    from: &mut R,
    to: &mut W,
    moved: &AtomicU64,
    charge: impl Fn(usize) -> Result<(), Spent>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
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

/// Resolves when nothing moved for the longest silence.
async fn silence(moved: &AtomicU64, account: &Account) {
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

/// Opens the TLS with the round's own certificate and answers the requests in it.
async fn look_into<C>(shared: &Arc<Shared>, target: &Target, client: C, greeting: Vec<u8>)
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(Ok(acceptor)) = shared.authority.as_ref().map(|authority| authority.acceptor(&target.host)) else {
        return;
    };
    let (read, write) = tokio::io::split(client);
    let again = tokio::io::join(io::Cursor::new(greeting).chain(read), write);
    // A client that does not trust the certificate goes away.
    let Ok(Ok(stream)) = timeout(shared.limits.greeting, acceptor.accept(again)).await else { return };
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(forward::opened(shared, target, request).await)
    });
    // What breaks a connection breaks nothing else; its client has seen it.
    let _ = builder(shared).serve_connection(TokioIo::new(stream), service).await;
}

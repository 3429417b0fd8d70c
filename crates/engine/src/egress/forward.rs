//! Requests that the proxy sees in full: plain HTTP, and HTTP inside TLS that it opened. Each is judged, written anew and
//! sent over a connection of its own.

use super::body::{AnyBody, Direction, Metered};
use super::dial::{Bound, DialError, Wire};
use super::ledger::Account;
use super::serve::{denied, refusal};
use super::shared::Shared;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use loopwright_core::network::{Seen, Target};
use std::sync::Arc;
use tokio::time::timeout;

/// A request for `http://…`.
pub(super) async fn plain(shared: &Arc<Shared>, target: &Target, request: Request<Incoming>) -> Response<AnyBody> {
    judged(shared, Seen::Plain, target, request).await
}

/// A request inside a tunnel whose TLS was opened.
pub(super) async fn opened(shared: &Arc<Shared>, target: &Target, request: Request<Incoming>) -> Response<AnyBody> {
    judged(shared, Seen::Opened, target, request).await
}

async fn judged(shared: &Arc<Shared>, seen: Seen, target: &Target, request: Request<Incoming>) -> Response<AnyBody> {
    let method = request.method().as_str().to_owned();
    let reach = match shared.policy.request(seen, &method, target, request.uri().path()) {
        Ok(reach) => Bound::By(reach),
        Err(why) => return denied(shared, target, &method, why),
    };
    let wire = match seen {
        Seen::Plain => shared.dialer.tcp(target, reach).await.map(|stream| Box::new(stream) as Box<dyn Wire>),
        Seen::Opened => shared.dialer.tls(target, reach).await,
    };
    let wire = match wire {
        Ok(wire) => wire,
        Err(DialError::Denied(why)) => return denied(shared, target, &method, why),
        Err(DialError::Failed(text)) => return refusal(StatusCode::BAD_GATEWAY, &text),
    };
    let account = shared.account(target, &method);
    let (parts, body) = request.into_parts();
    let mut outward = Request::new(Metered::new(body, account.clone(), Direction::Up));
    *outward.method_mut() = parts.method;
    *outward.uri_mut() = origin_form(&parts.uri);
    *outward.headers_mut() = parts.headers;
    let usual = if seen == Seen::Plain { 80 } else { 443 };
    address(outward.headers_mut(), target, usual);
    match send(shared, wire, outward, &account).await {
        Ok(response) => response.map(|body| Metered::new(body, account, Direction::Down).boxed_unsync()),
        Err(text) => refusal(StatusCode::BAD_GATEWAY, &text),
    }
}

/// Sends a request and waits for the head of its answer.
pub(super) async fn send(
    shared: &Arc<Shared>,
    wire: Box<dyn Wire>,
    mut request: Request<Metered>,
    account: &Account,
) -> Result<Response<Incoming>, String> {
    strip(request.headers_mut());
    *request.version_mut() = Version::HTTP_11;
    let greeted = http1::handshake(TokioIo::new(wire)).await;
    let (mut sender, connection) = greeted.map_err(|error| error.to_string())?;
    shared.spawn(async move {
        // The sender and the body see what breaks a connection.
        let _ = connection.await;
    });
    account.reached();
    let answered = timeout(account.idle(), sender.send_request(request)).await;
    let mut response = answered.map_err(|late| late.to_string())?.map_err(|error| error.to_string())?;
    strip(response.headers_mut());
    Ok(response)
}

/// The path and query alone.
pub(super) fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().and_then(|path| path.as_str().parse().ok()).unwrap_or_else(|| Uri::from_static("/"))
}

/// The host that a request is for is the one it was judged by, whatever its header said.
pub(super) fn address(headers: &mut HeaderMap, target: &Target, usual: u16) {
    let text = if target.port == usual { target.host.to_string() } else { target.to_string() };
    let value = HeaderValue::from_str(&text).expect("a host is made of visible ASCII");
    headers.insert(header::HOST, value);
}

/// Headers of one connection, which end at the proxy (RFC 9110 §7.6.1), and those meant for it.
const OURS: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::VIA,
];

pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A client cannot have what frames or addresses its request taken away.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    named.iter().chain(&OURS).for_each(|name| drop(headers.remove(name)));
    for name in ["keep-alive", "proxy-connection", "alt-svc", "forwarded", "x-forwarded-for"] {
        headers.remove(name);
    }
}

//! Requests that the proxy sees in full: plain HTTP, and HTTP inside TLS that it decrypted. Each is checked, rewritten
//! and sent over its own connection.

use super::body::{AnyBody, BodyDirection, BodyError, MeteredBody};
use super::dial::{AddressBound, ConnectionStream, DialError};
use super::ledger::ConnectionAccount;
use super::proxy_state::ProxyState;
use super::serve::{deny_request, refusal_response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use loopwright_core::network::{NetworkTarget, RequestTransport};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Forwards a request for `http://…`, or one inside a tunnel whose TLS the proxy decrypted.
pub(super) async fn forward_request(
    shared: &Arc<ProxyState>,
    seen: RequestTransport,
    target: &NetworkTarget,
    request: Request<Incoming>,
) -> Response<AnyBody> {
    let method = request.method().as_str().to_owned();
    let reach = match shared.policy.request(seen, &method, target, request.uri().path()) {
        Ok(reach) => AddressBound::By(reach),
        Err(why) => return deny_request(shared, target, &method, why),
    };
    let wire = match seen {
        RequestTransport::Plain => {
            shared.dialer.tcp(target, reach).await.map(|stream| Box::new(stream) as Box<dyn ConnectionStream>)
        }
        RequestTransport::Opened => shared.dialer.tls(target, reach).await,
    };
    let wire = match wire {
        Ok(wire) => wire,
        Err(DialError::Denied(why)) => return deny_request(shared, target, &method, why),
        Err(DialError::Failed(text)) => return refusal_response(StatusCode::BAD_GATEWAY, &text),
    };
    let account = shared.account(target, &method);
    let (parts, body) = request.into_parts();
    let mut outward = Request::new(MeteredBody::new(body, account.clone(), BodyDirection::Up));
    *outward.method_mut() = parts.method;
    *outward.uri_mut() = origin_form(&parts.uri);
    *outward.headers_mut() = parts.headers;
    let usual = if seen == RequestTransport::Plain { 80 } else { 443 };
    set_target_host(outward.headers_mut(), target, usual);
    match send(shared, wire, outward, &account).await {
        Ok(response) => response.map(|body| MeteredBody::new(body, account, BodyDirection::Down).boxed_unsync()),
        Err(error) => refusal_response(error.status(), &error.to_string()),
    }
}

/// Why no head of a response came.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// Nothing came in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The client's request did not arrive completely.
    #[error("the request ended early: {0}")]
    Client(hyper::Error),
    /// The connection failed.
    #[error("{0}")]
    Failed(hyper::Error),
}

impl SendError {
    /// The status that the client gets.
    pub(super) fn status(&self) -> StatusCode {
        if matches!(self, Self::Late(_)) { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY }
    }

    fn from_error(error: hyper::Error) -> Self {
        if error.is_user() { Self::Client(error) } else { Self::Failed(error) }
    }
}

/// Sends a request and waits for the head of the response.
pub(super) async fn send<B>(
    shared: &Arc<ProxyState>,
    wire: Box<dyn ConnectionStream>,
    mut request: Request<B>,
    account: &ConnectionAccount,
) -> Result<Response<Incoming>, SendError>
where
    B: Body<Data = Bytes, Error = BodyError> + Send + 'static,
{
    strip_hop_headers(request.headers_mut());
    *request.version_mut() = Version::HTTP_11;
    let greeted = http1::handshake(TokioIo::new(wire)).await;
    let (mut sender, connection) = greeted.map_err(SendError::from_error)?;
    shared.spawn(async move {
        // The sender and the body report connection errors.
        let _ = connection.await;
    });
    account.reached();
    let answered = timeout(account.idle(), sender.send_request(request)).await;
    let mut response = answered.map_err(|_| SendError::Late(account.idle()))?.map_err(SendError::from_error)?;
    strip_hop_headers(response.headers_mut());
    Ok(response)
}

/// Only the path and query.
pub(super) fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().and_then(|path| path.as_str().parse().ok()).unwrap_or_else(|| Uri::from_static("/"))
}

/// Sets the host header to the host that was checked, whatever the client sent.
pub(super) fn set_target_host(headers: &mut HeaderMap, target: &NetworkTarget, usual: u16) {
    let text = if target.port == usual { target.host.to_string() } else { target.to_string() };
    let value = HeaderValue::from_str(&text).expect("a host is made of visible ASCII");
    headers.insert(header::HOST, value);
}

/// Headers that end at the proxy: those of one connection (RFC 9110 §7.6.1), and those meant for a proxy.
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

pub(super) fn strip_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A client cannot request the removal of headers that frame or address its request.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    named.iter().chain(&OURS).for_each(|name| drop(headers.remove(name)));
    for name in ["keep-alive", "proxy-connection", "alt-svc", "forwarded", "x-forwarded-for"] {
        headers.remove(name);
    }
}

//! Answers of the HTTP server: their body, and the headers that every answer has.

use super::markup::Markup;
use crate::error::CommandErrorKind;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The policy of every page: own style sheet and script, nothing inline, no frame, no foreign address.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The body of an answer.
pub(crate) enum WebBody {
    /// All of it at once.
    Whole(Option<Bytes>),
    /// Pieces as they appear.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

/// An answer.
pub(crate) type WebReply = Response<WebBody>;

fn reply(status: StatusCode, kind: &'static str, body: WebBody) -> WebReply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    let fixed = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, Chromium sends forms of our own pages with `Origin: null`, and each one would be refused.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> WebReply {
    reply(status, kind, WebBody::Whole(Some(body.into())))
}

/// A JSON document.
pub(crate) fn document(status: StatusCode, document: &Value) -> WebReply {
    whole(status, "application/json", format!("{document:#}\n"))
}

/// An error as `--json` prints it.
pub(crate) fn error_document(status: StatusCode, kind: CommandErrorKind, text: &str, hints: &[String]) -> WebReply {
    let error = json!({"kind": kind, "text": text, "hints": hints, "places": []});
    document(status, &json!({"schema": 1, "error": error}))
}

/// A page.
pub(crate) fn page(status: StatusCode, page: Markup) -> WebReply {
    whole(status, "text/html; charset=utf-8", page.into_text())
}

/// A file that is part of the program.
pub(crate) fn asset(kind: &'static str, text: &'static str) -> WebReply {
    let mut reply = whole(StatusCode::OK, kind, text);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=300"));
    reply
}

/// Plain text of a kind that is not a page.
pub(crate) fn text(kind: &'static str, text: String) -> WebReply {
    whole(StatusCode::OK, kind, text)
}

/// A stream of events.
pub(crate) fn stream(pieces: mpsc::Receiver<Bytes>) -> WebReply {
    reply(StatusCode::OK, "text/event-stream", WebBody::Stream(pieces))
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> WebReply {
    whole(status, "text/plain; charset=utf-8", "")
}

/// Leads to another page of this server.
pub(crate) fn see_other(path: &str) -> WebReply {
    let mut reply = whole(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "see the other page\n");
    let place = HeaderValue::from_str(path).unwrap_or_else(|_| HeaderValue::from_static("/"));
    reply.headers_mut().insert(LOCATION, place);
    reply
}

/// Shorter bodies are sent as they are: they fit into one packet anyway.
const GZIP_MIN: usize = 1 << 10;

/// The same answer in gzip, if the client takes it. A page has a secret of its session, the value of its forms; only that
/// session can ask for the page, because its cookie is not sent for other sites.
pub(crate) fn compressed(reply: WebReply, request: &HeaderMap) -> WebReply {
    let (mut head, mut body) = reply.into_parts();
    if let WebBody::Whole(Some(plain)) = &body
        && plain.len() >= GZIP_MIN
    {
        head.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if takes_gzip(request)
            && let Some(packed) = gzip(plain)
        {
            head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            body = WebBody::Whole(Some(packed));
        }
    }
    Response::from_parts(head, body)
}

fn takes_gzip(request: &HeaderMap) -> bool {
    let sent = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let is_gzip = |one: &str| match one.split_once(';') {
        None => one.trim().eq_ignore_ascii_case("gzip"),
        Some((name, weight)) => {
            let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
            name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
        }
    };
    sent.flat_map(|value| value.split(',')).any(is_gzip)
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::default());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// The same answer with a cookie.
pub(crate) fn with_cookie(mut reply: WebReply, cookie: &str) -> WebReply {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        reply.headers_mut().insert(SET_COOKIE, cookie);
    }
    reply
}

/// The same answer, after which the connection ends: the rest of its request is not read.
pub(crate) fn closing(mut reply: WebReply) -> WebReply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn asked(encodings: &str) -> WebReply {
        let mut request = HeaderMap::new();
        request.insert(ACCEPT_ENCODING, HeaderValue::from_str(encodings).expect("a header"));
        compressed(text("text/plain", "all is well. ".repeat(1_000)), &request)
    }

    #[test]
    fn only_a_client_that_takes_gzip_gets_it() {
        for encodings in ["gzip", "deflate, gzip;q=0.5", "br, GZIP"] {
            let (head, body) = asked(encodings).into_parts();
            assert_eq!(head.headers[CONTENT_ENCODING], "gzip", "{encodings}");
            let WebBody::Whole(Some(packed)) = body else { panic!("a whole body") };
            let mut plain = String::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut plain).expect("it can be unpacked");
            assert!(packed.len() < 200 && plain == "all is well. ".repeat(1_000), "{}", packed.len());
        }
        for encodings in ["", "identity", "gzip;q=0", "gzipped", "br"] {
            let reply = asked(encodings);
            assert!(!reply.headers().contains_key(CONTENT_ENCODING), "{encodings}");
            assert_eq!(reply.headers()[VARY], "accept-encoding");
        }
    }
}

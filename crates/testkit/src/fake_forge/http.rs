//! Requests and answers of the fake forge as values, with pages, `Link` headers and `ETag`s. It opens no sockets.

use super::log::ForgeFace;
use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct RawRequest {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    pub(super) query: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
}

/// An answer as it is sent.
#[derive(Debug, Clone)]
pub(super) struct RawAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl RawRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The address that the client used, without a path.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.header("host").unwrap_or("localhost"))
    }

    /// The parameters of the query, decoded.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(k, v)| (decode_query(k), decode_query(v)))
            .collect()
    }

    /// The token, from the places where forges accept one.
    pub(super) fn token(&self) -> Option<String> {
        if let Some(token) = self.header("private-token") {
            return Some(token.to_owned());
        }
        if let Some((kind, value)) = self.header("authorization").and_then(|value| value.split_once(' ')) {
            if !kind.eq_ignore_ascii_case("basic") {
                return Some(value.trim().to_owned());
            }
            let bytes = base64::engine::general_purpose::STANDARD.decode(value.trim()).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (user, password) = text.split_once(':').unwrap_or((&text, ""));
            // Forges accept a token in the place of the user, too.
            return Some(if matches!(password, "" | "x-oauth-basic") { user } else { password }.to_owned());
        }
        let names = ["private_token", "access_token", "token"];
        self.parameters().into_iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value)
    }
}

/// A request to one of the forges' APIs.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) face: ForgeFace,
    pub(super) method: String,
    /// The parts of the path below the API's base, decoded.
    pub(super) words: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
    /// The API's address as the client used it, such as `http://127.0.0.1:1/api/v3`.
    pub(super) base: String,
    /// The address of the forge for people.
    pub(super) web: String,
    /// The path and query below the base, for links to other pages.
    pub(super) path: String,
    /// The account and rights of the token; `None` without one.
    pub(super) token: Option<super::access::FakeToken>,
}

impl ApiRequest {
    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A text field of the body.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.body[name].as_str()
    }

    /// A list of texts in the body.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        let rows = self.body[name].as_array()?;
        Some(rows.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The account of the token; empty without one.
    pub(super) fn login(&self) -> &str {
        self.token.as_ref().map_or("", |token| token.user.as_str())
    }

    /// One page of rows with links to its neighbours.
    pub(super) fn page(&self, rows: Vec<Value>) -> ApiAnswer {
        let (rows, headers) = self.cut_page(rows);
        ApiAnswer { status: 200, body: Value::Array(rows), headers }
    }

    /// One page of rows inside an object, as GitHub lists check runs.
    pub(super) fn page_in(&self, field: &str, rows: Vec<Value>) -> ApiAnswer {
        let count = rows.len();
        let (rows, headers) = self.cut_page(rows);
        ApiAnswer { status: 200, body: json!({"total_count": count, field: rows}), headers }
    }

    fn number(&self, names: &[&str], default: usize) -> usize {
        let found = names.iter().find_map(|name| self.parameter(name)?.parse().ok());
        found.filter(|number| *number > 0).unwrap_or(default)
    }

    fn cut_page(&self, rows: Vec<Value>) -> (Vec<Value>, Vec<(String, String)>) {
        // The default and the largest number of rows of each forge.
        let (default, most) = match self.face {
            ForgeFace::GitLab => (20, 100),
            ForgeFace::Gitea => (30, 50),
            ForgeFace::GitHub | ForgeFace::Git => (30, 100),
        };
        let size = self.number(&["per_page", "limit"], default).min(most);
        let page = self.number(&["page"], 1);
        let total = rows.len();
        let last = total.div_ceil(size).max(1);
        let link = |number: usize, rel: &str| {
            let mut pairs: Vec<String> =
                self.query.iter().filter(|(name, _)| name != "page").map(encode_pair).collect();
            pairs.push(format!("page={number}"));
            format!("<{}{}?{}>; rel=\"{rel}\"", self.base, self.path, pairs.join("&"))
        };
        let mut links = Vec::new();
        if page > 1 {
            links.extend([link(page - 1, "prev"), link(1, "first")]);
        }
        if page < last {
            links.extend([link(page + 1, "next"), link(last, "last")]);
        }
        let mut headers = Vec::new();
        if !links.is_empty() {
            headers.push(("link".to_owned(), links.join(", ")));
        }
        let totals = match self.face {
            ForgeFace::GitLab => gitlab_totals(total, page, size),
            ForgeFace::Gitea => vec![("x-total-count", total.to_string())],
            ForgeFace::GitHub | ForgeFace::Git => Vec::new(),
        };
        headers.extend(totals.into_iter().map(|(name, value)| (name.to_owned(), value)));
        (rows.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect(), headers)
    }
}

/// GitLab's headers of a page; a page that does not exist is empty.
fn gitlab_totals(total: usize, page: usize, size: usize) -> Vec<(&'static str, String)> {
    let last = total.div_ceil(size).max(1);
    let value = |number: Option<usize>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        ("x-total", total.to_string()),
        ("x-total-pages", last.to_string()),
        ("x-page", page.to_string()),
        ("x-per-page", size.to_string()),
        ("x-next-page", value((page < last).then_some(page + 1))),
        ("x-prev-page", value((page > 1).then(|| page - 1))),
    ]
}

/// The answer of an API.
#[derive(Debug, Clone)]
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    /// `Null` for an answer without a body.
    pub(super) body: Value,
    pub(super) headers: Vec<(String, String)>,
}

/// Both variants are sent; an error ends the work early.
pub(super) type ApiResult = Result<ApiAnswer, ApiAnswer>;

impl ApiAnswer {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, headers: Vec::new() }
    }

    pub(super) fn ok(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(super) fn created(body: Value) -> Self {
        Self::new(201, body)
    }

    pub(super) fn empty() -> Self {
        Self::new(204, Value::Null)
    }

    /// The bytes to send. An unchanged resource is answered without a body.
    pub(super) fn into_raw(self, request: &RawRequest) -> RawAnswer {
        // A text alone is the content of a file, such as a log.
        let (body, kind) = match &self.body {
            Value::Null => (Vec::new(), ""),
            Value::String(text) => (text.clone().into_bytes(), "text/plain; charset=utf-8"),
            other => (other.to_string().into_bytes(), "application/json; charset=utf-8"),
        };
        let mut headers = self.headers;
        if !kind.is_empty() {
            headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        if request.method == "GET" && self.status == 200 {
            let digest = Sha256::digest([&body[..], request.token().unwrap_or_default().as_bytes()].concat());
            let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            let tag = format!("W/\"{hex}\"");
            headers.push(("etag".to_owned(), tag.clone()));
            let bare = |text: &str| text.trim().trim_start_matches("W/").to_owned();
            let known = request.header("if-none-match").unwrap_or_default();
            if known.split(',').any(|one| bare(one) == bare(&tag)) {
                // A server need not repeat its other headers here.
                headers.retain(|(name, _)| name != "link");
                return RawAnswer { status: 304, headers, body: Vec::new() };
            }
        }
        RawAnswer { status: self.status, headers, body }
    }
}

/// Decodes a part of a query, in which `+` is a space.
pub(super) fn decode_query(text: &str) -> String {
    decode_path(&text.replace('+', " "))
}

/// Decodes a part of a path.
pub(super) fn decode_path(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let code = std::str::from_utf8(&digits).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
                bytes.push(code.unwrap_or(b'%'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn encode_pair((name, value): &(String, String)) -> String {
    format!("{}={}", encode(name), encode(value))
}

/// Encodes a part of a URL.
pub(super) fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if is_plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

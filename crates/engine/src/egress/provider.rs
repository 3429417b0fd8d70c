//! The endpoint that agents use instead of a model provider. It checks and removes the token of their start, inserts
//! the real key, and returns the answers without the key, counting their usage.

use super::body::{AnyBody, BodyDirection, MeteredBody, ScrubbedBody};
use super::dial::{AddressBound, ConnectionStream, DialError};
use super::forward::{self, SendError};
use super::grant::GrantRecords;
use super::key::ProviderKey;
use super::ledger::{ByteBudget, ConnectionAccount};
use super::proxy_state::ProxyState;
use super::serve::refusal_response;
use super::usage::{AnswerUsage, Form, RequestCopy, RequestRefusal};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use loopwright_core::config::{DEFAULT_SILENCE_SECS, KeyStyle};
use loopwright_core::network::{DenialReason, NetworkTarget, PathMatch};
use loopwright_core::provider::ExchangeEnd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The methods of a Gemini model that agents use.
const ASKS: [&str; 5] =
    ["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"];

/// Every header that a token may come in, and that a key may leave in.
const HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Headers that some servers use as the method of a request, whatever its first line states.
const METHODS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Query parameters that some servers use as a key, as headers or as the method of the request. They are removed: the
/// start's own account sends the request, and no data may be sent to another account.
const QUERY_KEYS: [&str; 9] =
    ["key", "api_key", "api-key", "apikey", "access_token", "oauth_token", "token", "$httpheaders", "$httpmethod"];

/// Puts a key into the header that its provider expects.
fn put(style: KeyStyle, key: &ProviderKey, headers: &mut HeaderMap) {
    if key.is_keyless() {
        return;
    }
    let (name, value) = match style {
        KeyStyle::Bearer => ("authorization", key.header("Bearer ")),
        KeyStyle::XApiKey | KeyStyle::XGoogApiKey | KeyStyle::ApiKey => (style.word(), key.header("")),
    };
    headers.insert(HeaderName::from_static(name), value);
}

/// A model provider that agents may use.
#[derive(Debug, Clone)]
pub struct ModelProvider {
    name: String,
    is_tls: bool,
    usual_port: u16,
    target: NetworkTarget,
    base: String,
    style: KeyStyle,
    key: ProviderKey,
    paths: Vec<PathMatch>,
    silence: SilenceLimits,
    is_metered: bool,
    query: Vec<(String, String)>,
    headers: HeaderMap,
}

/// The longest silences of a provider. After them the exchange is cut, and counts as the provider's trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceLimits {
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two parts of the answer.
    pub between_bytes: Duration,
}

impl Default for SilenceLimits {
    fn default() -> Self {
        let [first_byte, between_bytes] = DEFAULT_SILENCE_SECS.map(Duration::from_secs);
        Self { first_byte, between_bytes }
    }
}

/// Why a provider cannot be set up. The error does not contain the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The name is not valid in a path.
    #[error("provider `{0}`: a name consists of letters, digits and dashes")]
    Name(String),
    /// The upstream is not an address to send requests to.
    #[error("provider `{0}`: the upstream is not an `https://host/path` without user, query and fragment")]
    Upstream(String),
    /// A parameter or a header cannot be added.
    #[error("provider `{0}`: `{1}` cannot be added to its requests")]
    Addition(String, String),
    /// The key would be sent unencrypted.
    #[error("provider `{0}`: the upstream is plain HTTP to another machine, so the key would be sent unencrypted")]
    Clear(String),
}

impl ModelProvider {
    /// A provider by its name, the base URL of its API's paths, and its key.
    ///
    /// # Errors
    /// When the name or the base URL cannot be used.
    pub fn new(name: &str, upstream: &str, style: KeyStyle, key: ProviderKey) -> Result<Self, ProviderError> {
        let named =
            !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !named {
            return Err(ProviderError::Name(name.chars().take(64).collect()));
        }
        let wrong = || ProviderError::Upstream(name.to_owned());
        let uri: Uri = upstream.trim().parse().map_err(|_| wrong())?;
        let (is_tls, usual_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            Some(_) | None => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let target = NetworkTarget::parse(authority.as_str(), usual_port).map_err(|_| wrong())?;
        let base = uri.path().trim_end_matches('/').to_owned();
        if uri.query().is_some() || upstream.contains('#') || !base.is_empty() && !is_plain(&base) {
            return Err(wrong());
        }
        if !is_tls && !is_near(&target) {
            return Err(ProviderError::Clear(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            is_tls,
            usual_port,
            target,
            base,
            style,
            key,
            paths: Vec::new(),
            silence: SilenceLimits::default(),
            is_metered: true,
            query: Vec::new(),
            headers: HeaderMap::new(),
        })
    }

    /// Adds these parameters and headers to every request. They replace those of the agent.
    ///
    /// # Errors
    /// When one cannot be sent, or would replace a header that the proxy itself sets.
    pub fn with_additions(
        mut self,
        query: &BTreeMap<String, String>,
        headers: &BTreeMap<String, String>,
    ) -> Result<Self, ProviderError> {
        let wrong = |name: &str| ProviderError::Addition(self.name.clone(), name.chars().take(64).collect());
        for (name, value) in query {
            let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:".contains(&b));
            if name.is_empty() || !is_plain(name) || !is_plain(value) || QUERY_KEYS.contains(&name.as_str()) {
                return Err(wrong(name));
            }
        }
        let mut added = HeaderMap::new();
        for (name, value) in headers {
            let parsed = HeaderName::try_from(name.as_str()).ok().filter(may_add);
            let (Some(header), Ok(value)) = (parsed, HeaderValue::from_str(value)) else { return Err(wrong(name)) };
            added.insert(header, value);
        }
        self.query = query.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        self.headers = added;
        Ok(self)
    }

    /// Its answers cost nothing.
    #[must_use]
    pub fn without_cost(mut self) -> Self {
        self.is_metered = false;
        self
    }

    /// Limits its silences.
    #[must_use]
    pub fn with_silence(mut self, limits: SilenceLimits) -> Self {
        self.silence = limits;
        self
    }

    /// Allows these paths below the base, instead of the usual ones of model APIs.
    #[must_use]
    pub fn with_paths(mut self, paths: Vec<PathMatch>) -> Self {
        self.paths = paths;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its answers cost money.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.is_metered
    }

    /// Whether a request is one that agents need: using a model and listing models. An account's other resources
    /// (files, fine-tuning, administration) are refused. So is work that is billed later and cannot be counted:
    /// batches, and operations that continue in the background.
    fn passes(&self, method: &str, path: &str) -> bool {
        if !matches!(method, "GET" | "POST") || !is_plain(path) {
            return false;
        }
        if !self.paths.is_empty() {
            return self.paths.iter().any(|paths| paths.matches(path));
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let parts = if parts.first().is_some_and(|first| is_version(first)) { &parts[1..] } else { &parts[..] };
        match parts {
            ["messages" | "responses" | "completions" | "complete" | "embeddings" | "models"] => true,
            ["messages", "count_tokens"] | ["responses", "compact" | "input_tokens"] | ["chat", "completions"] => true,
            ["models", model] => {
                method == "GET" || model.rsplit_once(':').is_some_and(|(_, does)| ASKS.contains(&does))
            }
            _ => false,
        }
    }

    async fn wire(&self, shared: &ProxyState) -> Result<Box<dyn ConnectionStream>, DialError> {
        match self.is_tls {
            false => Ok(Box::new(shared.dialer.tcp(&self.target, AddressBound::Trusted).await?)),
            true => shared.dialer.tls(&self.target, AddressBound::Trusted).await,
        }
    }
}

/// Whether the target is this machine, or its name or address is one of the local network.
fn is_near(target: &NetworkTarget) -> bool {
    use loopwright_core::network::{AddressReach, NetworkHost};
    match &target.host {
        NetworkHost::Ip(ip) => !AddressReach::Public.permits(*ip),
        host => host.is_localhost() || host.is_private_name(),
    }
}

fn is_plain(path: &str) -> bool {
    PathMatch::Under("/".to_owned()).matches(path)
}

/// `v1`, `v1beta` and the like.
fn is_version(part: &str) -> bool {
    let mut letters = part.chars();
    letters.next() == Some('v') && letters.next().is_some_and(|c| c.is_ascii_digit())
}

/// Serves a request to the proxy itself: `/provider/NAME/…`.
pub(super) async fn serve_provider(shared: &Arc<ProxyState>, request: Request<Incoming>) -> Response<AnyBody> {
    let method = request.method().as_str().to_owned();
    let path = request.uri().path().to_owned();
    let asked = path.strip_prefix("/provider/").and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let deny = |why| shared.ledger.deny(&format!("provider/{}", asked.0), 0, &method, why);
    let Some(provider) = shared.providers.iter().find(|provider| provider.name == asked.0) else {
        deny(DenialReason::Provider);
        return refusal_response(StatusCode::NOT_FOUND, "there is no such provider in this round");
    };
    let records = match find_grant(shared, provider, request.headers()) {
        Ok(records) => records,
        Err((status, why)) => {
            deny(why);
            return refusal_response(status, why.text());
        }
    };
    let inner = format!("/{}", asked.1);
    if !provider.passes(&method, &inner) {
        deny(DenialReason::Provider);
        return refusal_response(StatusCode::FORBIDDEN, &format!("{method} {inner} is not allowed for a provider"));
    }
    let answer = match counts(&method, &inner) {
        true => match records.tally.acquire_slot(request.body().size_hint().exact()).await {
            Ok(place) => {
                let answer = AnswerUsage::new(place, model_of(&inner), records.exchanges.begin(&provider.name));
                Some(if provider.is_metered { answer } else { answer.of_unmetered(&provider.name) })
            }
            Err(no_room) => {
                let (status, why) = no_way(no_room);
                deny(why);
                return refusal_response(status, why.text());
            }
        },
        false => None,
    };
    match pass_on(shared, provider, &inner, request, answer).await {
        Ok(response) => response,
        Err((status, text)) => refusal_response(status, &text),
    }
}

/// Finds the sender's grant by the token in one of the headers that clients put keys in, and checks that it covers this
/// provider now.
fn find_grant(
    shared: &ProxyState,
    provider: &ModelProvider,
    headers: &HeaderMap,
) -> Result<GrantRecords, (StatusCode, DenialReason)> {
    let shown = HEADERS.iter().flat_map(|name| headers.get_all(*name)).map(HeaderValue::as_bytes);
    let shown: Vec<&[u8]> = shown.map(|value| value.strip_prefix(b"Bearer ").unwrap_or(value)).collect();
    let guests = shared.grants();
    // Every token is compared with every header, so that the time reveals nothing.
    let found = guests.iter().fold(None, |found, guest| {
        let is_it = shown.iter().fold(false, |is_it, value| is_it | guest.token.matches(value));
        if is_it { Some(guest) } else { found }
    });
    let guest = found.ok_or((StatusCode::UNAUTHORIZED, DenialReason::Token))?;
    if !guest.providers.contains(&provider.name) {
        return Err((StatusCode::FORBIDDEN, DenialReason::Role));
    }
    if guest.records.tally.passed_ceiling().is_some() {
        return Err(no_way(RequestRefusal::Ceiling));
    }
    Ok(guest.records.clone())
}

fn no_way(no_room: RequestRefusal) -> (StatusCode, DenialReason) {
    match no_room {
        RequestRefusal::Ceiling => (StatusCode::FORBIDDEN, DenialReason::Ceiling),
        RequestRefusal::Closed => (StatusCode::UNAUTHORIZED, DenialReason::Token),
    }
}

/// Whether a request may cost something: requests that run a model, not those that only count or list.
fn counts(method: &str, path: &str) -> bool {
    method == "POST" && !path.ends_with("/count_tokens") && !path.ends_with(":countTokens")
}

/// The model that a path names, as Gemini's do.
fn model_of(path: &str) -> Option<&str> {
    let (_, named) = path.rsplit_once("/models/")?;
    named.rsplit_once(':').map(|(model, _)| model)
}

async fn pass_on(
    shared: &Arc<ProxyState>,
    provider: &ModelProvider,
    path: &str,
    request: Request<Incoming>,
    mut answer: Option<AnswerUsage>,
) -> Result<Response<AnyBody>, (StatusCode, String)> {
    let wire = match provider.wire(shared).await {
        Ok(wire) => wire,
        Err(error) => {
            // No request was sent.
            close_refused(answer, ExchangeEnd::Unreachable);
            let text = match error {
                DialError::Denied(why) => why.text().to_owned(),
                DialError::Failed(text) => text,
            };
            return Err((StatusCode::BAD_GATEWAY, text));
        }
    };
    let whom = format!("provider/{}", provider.name);
    let method = request.method().as_str().to_owned();
    let account = ConnectionAccount::new(
        &shared.ledger,
        shared.limits,
        ByteBudget::Providers,
        (&whom, provider.target.port),
        &method,
    )
    .with_idle(provider.silence.first_byte);
    let (parts, body) = request.into_parts();
    let copy = answer.as_ref().map(|_| RequestCopy::default());
    let body = MeteredBody::new(body, account.clone(), BodyDirection::Up)
        .counting_into(answer.as_ref().map(AnswerUsage::sent_bytes))
        .copying_into(copy.clone());
    let mut outward = Request::new(body);
    *outward.method_mut() = parts.method;
    *outward.uri_mut() = upstream(provider, path, parts.uri.query()).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    *outward.headers_mut() = parts.headers;
    rewrite_headers(provider, outward.headers_mut());
    let sent = forward::send(shared, wire, outward, &account).await;
    if let (Some(answer), Some(copy)) = (&mut answer, copy) {
        answer.set_request(copy.take_facts());
    }
    let mut response = match sent {
        Ok(response) => response,
        Err(error) => {
            // The provider served nothing. If the client goes away instead, this future is dropped.
            close_refused(answer, end_without_answer(&error));
            return Err((error.status(), error.to_string()));
        }
    };
    scrub(response.headers_mut(), &provider.key);
    let key = provider.key.clone();
    if let Some(answer) = &mut answer {
        begin_answer(answer, &response);
    }
    let between = provider.silence.between_bytes;
    let metered = |body| MeteredBody::new(body, account, BodyDirection::Down).idle_between(between);
    Ok(response.map(|body| ScrubbedBody::new(metered(body), key, answer).boxed_unsync()))
}

/// Whether a header may be added: one that neither carries a key nor frames the request.
fn may_add(name: &HeaderName) -> bool {
    const OWN: [&str; 8] = [
        "host",
        "connection",
        "content-length",
        "content-type",
        "transfer-encoding",
        "accept-encoding",
        "cookie",
        "upgrade",
    ];
    !OWN.iter().chain(&HEADERS).chain(&METHODS).any(|own| name.as_str() == *own)
}

/// The headers of a request as the provider gets them.
fn rewrite_headers(provider: &ModelProvider, headers: &mut HeaderMap) {
    // First the headers that the client wants removed: it must not name the ones inserted below.
    forward::strip_hop_headers(headers);
    HEADERS.iter().chain(&METHODS).for_each(|name| drop(headers.remove(*name)));
    headers.remove(header::COOKIE);
    // A compressed answer cannot be searched for the key.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    provider.headers.iter().for_each(|(name, value)| drop(headers.insert(name.clone(), value.clone())));
    put(provider.style, &provider.key, headers);
    forward::set_target_host(headers, &provider.target, provider.usual_port);
}

/// An answer whose head was received. An error response costs nothing, and neither does a page of a proxy or a portal in
/// the place of an answer.
fn begin_answer(answer: &mut AnswerUsage, response: &Response<Incoming>) {
    answer.head(response.status().as_u16(), response.headers());
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_accepted = response.status().is_success();
    if is_accepted && kind.starts_with(b"text/html") {
        answer.mark_page();
    }
    if !is_accepted || kind.starts_with(b"text/html") {
        answer.mark_refused();
        return;
    }
    let form = if kind.starts_with(b"text/event-stream") { Form::Events } else { Form::Document };
    if form == Form::Events || kind.starts_with(b"application/json") {
        answer.mark_typed();
    }
    answer.begin(form);
}

/// Ends an exchange without an answer, which costs nothing.
fn close_refused(answer: Option<AnswerUsage>, end: ExchangeEnd) {
    if let Some(mut answer) = answer {
        answer.mark_refused();
        answer.interrupt(end);
    }
}

fn end_without_answer(error: &SendError) -> ExchangeEnd {
    match error {
        SendError::Late(_) => ExchangeEnd::NoFirstByte,
        SendError::Client(_) => ExchangeEnd::Left,
        SendError::Failed(_) => ExchangeEnd::Unreachable,
    }
}

/// The query without parameters that name an account or change the request.
fn plain_query(query: &str) -> String {
    let names_key = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        QUERY_KEYS.contains(&unescaped(name).to_ascii_lowercase().as_str())
    };
    query.split(['&', ';']).filter(|part| !names_key(part)).collect::<Vec<_>>().join("&")
}

/// A name without its percent escapes; invalid escapes stay.
fn unescaped(name: &str) -> String {
    let bytes = name.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|two| std::str::from_utf8(two).ok());
        let escaped = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn upstream(provider: &ModelProvider, path: &str, query: Option<&str>) -> Result<Uri, String> {
    let own = |part: &&str| !provider.query.iter().any(|(name, _)| part.split('=').next() == Some(name.as_str()));
    let asked = query.map(plain_query).unwrap_or_default();
    let asked = asked.split('&').filter(|part| !part.is_empty()).filter(own).map(str::to_owned);
    let added = provider.query.iter().map(|(name, value)| format!("{name}={value}"));
    let query = Some(asked.chain(added).collect::<Vec<_>>().join("&")).filter(|query| !query.is_empty());
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{path}{query}", provider.base).parse().map_err(|_| "the path cannot be forwarded".to_owned())
}

/// Removes headers that contain the key, and the provider's cookies, from an answer.
fn scrub(headers: &mut HeaderMap, key: &ProviderKey) {
    let holds = |value: &HeaderValue| {
        !key.is_keyless() && value.as_bytes().windows(key.bytes().len()).any(|part| part == key.bytes())
    };
    let found: Vec<HeaderName> =
        headers.iter().filter(|(_, value)| holds(value)).map(|(name, _)| name.clone()).collect();
    found.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(header::SET_COOKIE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(upstream: &str) -> Result<ModelProvider, ProviderError> {
        ModelProvider::new("anthropic", upstream, KeyStyle::XApiKey, ProviderKey::new("sk-1").expect("a key"))
    }

    #[test]
    fn an_upstream_is_https_or_near() {
        for good in [
            "https://api.example.org",
            "https://api.example.org/v1/",
            "http://127.0.0.1:8080",
            "http://gateway:4000/v1",
            "http://10.0.0.7/",
        ] {
            assert!(provider(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "api.example.org",
            "ftp://x.org",
            "https://",
            "https://u:p@x.org",
            "https://x.org/?k=v",
            "https://x.org/a/../b",
            "https://x.org/#f",
        ] {
            assert_eq!(provider(bad).expect_err(bad), ProviderError::Upstream("anthropic".to_owned()), "{bad}");
        }
        assert_eq!(
            provider("http://api.example.org").expect_err("clear"),
            ProviderError::Clear("anthropic".to_owned())
        );
        assert!(!format!("{:?}", provider("https://x.org")).contains("sk-1"));
    }

    #[test]
    fn query_parameters_that_name_an_account_are_removed() {
        for (query, passed) in [
            ("alt=sse", "alt=sse"),
            ("beta=true&key=evil", "beta=true"),
            ("K%65y=evil&alt=sse&access_token=evil", "alt=sse"),
            ("alt=sse;key=evil", "alt=sse"),
            ("%24httpHeaders=x-goog-api-key%3Aevil&pageToken=7", "pageToken=7"),
            ("api-version=2026-01-01&%zz=1", "api-version=2026-01-01&%zz=1"),
            ("key=evil", ""),
        ] {
            assert_eq!(plain_query(query), passed);
        }
    }

    #[test]
    fn additions_replace_those_of_the_agent_and_never_carry_a_key() {
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let (version, tenant) = (map("api-version", "2024-10-21"), map("x-tenant", "7"));
        let azure = provider("https://x.org/openai/deployments/d").expect("a provider");
        let azure = azure.with_additions(&version, &tenant).expect("additions");
        for (asked, sent) in [
            (None, "/openai/deployments/d/chat/completions?api-version=2024-10-21"),
            (Some("api-version=1&stream=1"), "/openai/deployments/d/chat/completions?stream=1&api-version=2024-10-21"),
        ] {
            assert_eq!(upstream(&azure, "/chat/completions", asked).expect("an address").to_string(), sent);
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-tenant", HeaderValue::from_static("agent"));
        rewrite_headers(&azure, &mut headers);
        assert_eq!(
            (&headers["x-tenant"], &headers["x-api-key"]),
            (&HeaderValue::from_static("7"), &HeaderValue::from_static("sk-1"))
        );
        for (query, header) in [("key", "x-a"), ("a b", "x-a"), ("a", "authorization"), ("a", "Host"), ("a", "x y")] {
            let refused =
                provider("https://x.org").expect("a provider").with_additions(&map(query, "1"), &map(header, "1"));
            assert!(matches!(refused, Err(ProviderError::Addition(..))), "{query} {header}");
        }
    }

    #[test]
    fn model_requests_pass_and_requests_for_other_resources_do_not() {
        let usual = provider("https://x.org").expect("a provider");
        for path in [
            "/v1/messages",
            "/v1/messages/count_tokens",
            "/chat/completions",
            "/v1beta/models/gemini:streamGenerateContent",
            "/v1/models",
        ] {
            assert!(usual.passes("POST", path), "{path}");
        }
        for path in
            ["/v1/files", "/v1/organizations/me", "/", "/v1/messages/../files", "/v1//messages", "/v1/fine_tuning/jobs"]
        {
            assert!(!usual.passes("POST", path), "{path}");
        }
        // Work that is billed later and cannot be counted.
        for path in [
            "/v1/messages/batches",
            "/v1/chat/completions/batches",
            "/v1beta/models/gemini:batchGenerateContent",
            "/v1beta/models/veo:predictLongRunning",
            "/v1/responses/r1/cancel",
        ] {
            assert!(!usual.passes("POST", path), "{path}");
        }
        assert!(!usual.passes("DELETE", "/v1/messages"));
        let own = usual.with_paths(vec![PathMatch::Only("/v1/files".to_owned())]);
        assert!(own.passes("GET", "/v1/files") && !own.passes("GET", "/v1/messages"));
    }
}

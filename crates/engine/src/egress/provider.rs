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
use super::signing::{RequestSigner, TokenError, remove_signature};
use super::ticket::RequestTicket;
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

mod cloud_paths;

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
        // The ticket of the request authorizes it.
        KeyStyle::Aws | KeyStyle::GoogleCloud => return,
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
    pub(super) key: ProviderKey,
    paths: Vec<PathMatch>,
    silence: SilenceLimits,
    is_metered: bool,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    pub(super) signer: Option<RequestSigner>,
}

/// The interface of a cloud that serves models of several makers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudApi {
    /// Amazon Bedrock.
    Bedrock {
        /// The region that signatures name.
        region: String,
    },
    /// Google Vertex AI.
    Vertex {
        /// The project.
        project: String,
        /// Its location, such as `global` or `us-east5`.
        location: String,
    },
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
            signer: None,
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

    /// Authorizes its requests in this way, and not with a key.
    #[must_use]
    pub fn signed_by(mut self, signer: RequestSigner) -> Self {
        self.signer = Some(signer);
        self
    }

    /// The secrets of its signer, if it has one.
    #[must_use]
    pub fn signer_secrets(&self) -> Option<Vec<String>> {
        self.signer.as_ref().map(RequestSigner::secrets)
    }

    /// The interface of a cloud that agents have to know, if it is one.
    #[must_use]
    pub fn cloud_api(&self) -> Option<CloudApi> {
        match self.signer.as_ref()? {
            RequestSigner::Aws(_) => Some(CloudApi::Bedrock { region: self.signer.as_ref()?.region()?.to_owned() }),
            RequestSigner::Google(_) => {
                let (project, location) = cloud_paths::project_of(&self.base)?;
                Some(CloudApi::Vertex { project: project.to_owned(), location: location.to_owned() })
            }
        }
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
        if !matches!(method, "GET" | "POST") {
            return false;
        }
        if let Some(signer) = &self.signer
            && cloud_paths::asks_model(signer, method, path)
        {
            return true;
        }
        if !is_plain(path) {
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
pub(super) fn is_near(target: &NetworkTarget) -> bool {
    use loopwright_core::network::{AddressReach, NetworkHost};
    match &target.host {
        NetworkHost::Ip(ip) => !AddressReach::Public.permits(*ip),
        host => host.is_localhost() || host.is_private_name(),
    }
}

pub(super) fn is_plain(path: &str) -> bool {
    PathMatch::Under("/".to_owned()).matches(path)
}

/// `v1`, `v1beta` and the like.
pub(super) fn is_version(part: &str) -> bool {
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
                let answer =
                    AnswerUsage::new(place, model_of(&inner).as_deref(), records.exchanges.begin(&provider.name));
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
    let only_counts = ["/count_tokens", ":countTokens", "/count-tokens", "/count-tokens:rawPredict"];
    method == "POST" && !only_counts.iter().any(|end| path.ends_with(end))
}

/// The model that a path names, as those of Gemini and of clouds do.
fn model_of(path: &str) -> Option<String> {
    if let Some(model) = path.strip_prefix("/model/").and_then(|rest| rest.split('/').next()) {
        return Some(unescaped(model));
    }
    let (_, named) = path.rsplit_once("/models/")?;
    named.rsplit_once(':').map(|(model, _)| unescaped(model))
}

async fn pass_on(
    shared: &Arc<ProxyState>,
    provider: &ModelProvider,
    path: &str,
    request: Request<Incoming>,
    mut answer: Option<AnswerUsage>,
) -> Result<Response<AnyBody>, (StatusCode, String)> {
    let ticket = match RequestTicket::issue(shared, provider).await {
        Ok(ticket) => ticket,
        Err(error) => return Err(close_without_token(answer, error)),
    };
    let wire = match provider.wire(shared).await {
        Ok(wire) => wire,
        Err(error) => return Err(close_without_wire(answer, error)),
    };
    let account = provider_account(shared, provider, request.method().as_str());
    let (parts, body) = request.into_parts();
    let copy = answer.as_ref().map(|_| RequestCopy::default());
    let body = MeteredBody::new(body, account.clone(), BodyDirection::Up)
        .counting_into(answer.as_ref().map(AnswerUsage::sent_bytes))
        .copying_into(copy.clone());
    let outward = match ticket.authorize(outward_head(provider, path, parts)?, body).await {
        Ok(outward) => outward,
        Err(refused) => {
            close_refused(answer, ExchangeEnd::Left);
            return Err(refused);
        }
    };
    let sent = forward::send(shared, wire, outward, &account).await;
    if let (Some(answer), Some(copy)) = (&mut answer, copy) {
        answer.set_request(copy.take_facts());
    }
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            // The provider served nothing. If the client goes away instead, this future is dropped.
            close_refused(answer, end_without_answer(&error));
            return Err((error.status(), error.to_string()));
        }
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        ticket.reject(provider).await;
    }
    receive(provider, response, ticket.sent_secret(provider), account, answer)
}

/// The request as the provider gets it, without its body.
fn outward_head(
    provider: &ModelProvider,
    path: &str,
    parts: hyper::http::request::Parts,
) -> Result<Request<()>, (StatusCode, String)> {
    let mut outward = Request::new(());
    *outward.method_mut() = parts.method;
    *outward.uri_mut() = upstream(provider, path, parts.uri.query()).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    *outward.headers_mut() = parts.headers;
    rewrite_headers(provider, outward.headers_mut());
    Ok(outward)
}

/// Passes an answer on, without the secret that its request contained.
fn receive(
    provider: &ModelProvider,
    mut response: Response<Incoming>,
    secret: ProviderKey,
    account: ConnectionAccount,
    mut answer: Option<AnswerUsage>,
) -> Result<Response<AnyBody>, (StatusCode, String)> {
    scrub(response.headers_mut(), &secret);
    if let Some(answer) = &mut answer {
        begin_answer(answer, &response);
    }
    if is_compressed(response.headers()) {
        // It could hide the secret, and its usage cannot be read.
        return Err((StatusCode::BAD_GATEWAY, close_compressed(answer)));
    }
    let between = provider.silence.between_bytes;
    let metered = |body| MeteredBody::new(body, account, BodyDirection::Down).idle_between(between);
    Ok(response.map(|body| ScrubbedBody::new(metered(body), secret, answer).boxed_unsync()))
}

/// Ends an exchange of which no request was sent.
fn close_without_wire(answer: Option<AnswerUsage>, error: DialError) -> (StatusCode, String) {
    close_refused(answer, ExchangeEnd::Unreachable);
    let text = match error {
        DialError::Denied(why) => why.text().to_owned(),
        DialError::Failed(text) => text,
    };
    (StatusCode::BAD_GATEWAY, text)
}

fn provider_account(shared: &ProxyState, provider: &ModelProvider, method: &str) -> ConnectionAccount {
    let whom = format!("provider/{}", provider.name);
    let whom = (whom.as_str(), provider.target.port);
    ConnectionAccount::new(&shared.ledger, shared.limits, ByteBudget::Providers, whom, method)
        .with_idle(provider.silence.first_byte)
}

/// Whether an answer is compressed although its request asked for plain text.
fn is_compressed(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::CONTENT_ENCODING);
    codings.iter().any(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

fn close_compressed(answer: Option<AnswerUsage>) -> String {
    let text = "the provider compressed its answer although it was asked for plain text";
    if let Some(mut answer) = answer {
        answer.interrupt(ExchangeEnd::Malformed);
    }
    text.to_owned()
}

/// Ends an exchange for which there is no token.
fn close_without_token(answer: Option<AnswerUsage>, error: TokenError) -> (StatusCode, String) {
    match error {
        TokenError::Refused(status, words) => {
            let text = format!("the token server of the provider refuses the credentials: {words}");
            if let Some(mut answer) = answer {
                // The provider would answer in the same way.
                answer.head(StatusCode::UNAUTHORIZED.as_u16(), &HeaderMap::new());
                answer.mark_refused();
                answer.push(text.as_bytes());
                answer.finish();
            }
            (StatusCode::UNAUTHORIZED, format!("{text} ({})", status.as_u16()))
        }
        TokenError::Unreachable(text) => {
            close_refused(answer, ExchangeEnd::Unreachable);
            (StatusCode::BAD_GATEWAY, text)
        }
    }
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
    remove_signature(headers);
    put(provider.style, &provider.key, headers);
    forward::set_target_host(headers, &provider.target, provider.usual_port);
}

/// An answer whose head was received. An error response costs nothing, and neither does a page of a proxy or a portal in
/// the place of an answer.
fn begin_answer(answer: &mut AnswerUsage, response: &Response<Incoming>) {
    answer.head(response.status().as_u16(), response.headers());
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.trim_ascii().to_ascii_lowercase();
    let is_accepted = response.status().is_success();
    if is_accepted && kind.starts_with(b"text/html") {
        answer.mark_page();
    }
    if !is_accepted || kind.starts_with(b"text/html") {
        answer.mark_refused();
        return;
    }
    let form = match kind.as_slice() {
        kind if kind.starts_with(b"text/event-stream") => Form::Events,
        kind if kind.starts_with(b"application/vnd.amazon.eventstream") => Form::Frames,
        _ => Form::Document,
    };
    if form != Form::Document || kind.starts_with(b"application/json") {
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
    let path = match &provider.signer {
        Some(RequestSigner::Google(_)) => cloud_paths::below_base(&provider.base, path),
        Some(RequestSigner::Aws(_)) | None => path.to_owned(),
    };
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
mod tests;

//! Slack: messages by an incoming webhook or by a bot, with Block Kit. A bot's messages carry the item's key, so they
//! are found after a lost answer; those of a webhook cannot be.

mod message;

pub use message::{SlackButtons, SlackMessage};

use crate::base_url::{BaseUrl, encode};
use crate::connection::ConnectionError;
use crate::http::{HttpAnswer, HttpCall, HttpClient, NetworkSettings, NowMs};
use crate::inspect::ForgeFinding;
use crate::lost::LostCreates;
use crate::messenger;
use crate::secret::SecretText;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt, QuestionPart,
};
use loopwright_core::spec::ActionKind;
use serde::Deserialize;
use serde_json::json;

/// The address of Slack's API.
const API: &str = "https://slack.com/api";
/// A message is sent again within days, so an older one cannot be it.
const AGE_MAX_SECS: i64 = 7 * 24 * 3600;
/// The most pages of a channel's history that a look-up reads.
const HISTORY_PAGES_MAX: usize = 10;

/// How messages reach Slack.
#[derive(Debug, Clone)]
pub enum SlackAccess {
    /// An incoming webhook; its address is a secret.
    Webhook(SecretText),
    /// A bot with a token, in one channel.
    Bot {
        /// The bot's token, `xoxb-…`, with the scope `chat:write`, and for look-ups `channels:history`.
        token: SecretText,
        /// The channel's id.
        channel: String,
        /// The address of the API; Slack's own if it is `None`.
        api_url: Option<String>,
    },
}

/// The place of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackPost {
    /// The channel's id; empty for a webhook, which does not report it.
    pub channel: String,
    /// The message's time, which answers in its thread name; empty for a webhook.
    pub ts: String,
}

/// The part of an address before the channel.
const ARCHIVES: &str = "https://slack.com/archives/";
/// Slack's times have six digits after the point, which addresses leave out.
const TS_FRACTION: usize = 6;

impl SlackPost {
    /// Slack opens this address in the workspace of the reader.
    fn place(&self) -> String {
        match self.ts.is_empty() {
            true => "slack:webhook".to_owned(),
            false => format!("{ARCHIVES}{}/p{}", self.channel, self.ts.replace('.', "")),
        }
    }

    /// The message at a place of a receipt; `None` for a webhook's.
    fn at(place: &str) -> Option<Self> {
        let (channel, digits) = place.strip_prefix(ARCHIVES)?.split_once("/p")?;
        let (seconds, fraction) = digits.split_at_checked(digits.len().checked_sub(TS_FRACTION)?)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !seconds.is_empty();
        is_number.then(|| Self { channel: channel.to_owned(), ts: format!("{seconds}.{fraction}") })
    }
}

/// A connection to Slack.
pub struct SlackReceiver {
    http: HttpClient,
    bot: Option<(SecretText, String)>,
    lost: LostCreates,
}

#[derive(Debug, Deserialize)]
struct SlackAnswer {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
    #[serde(default)]
    messages: Vec<HistoryMessage>,
    response_metadata: Option<HistoryCursor>,
}

#[derive(Debug, Deserialize)]
struct HistoryMessage {
    ts: String,
    metadata: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct HistoryCursor {
    #[serde(default)]
    next_cursor: String,
}

impl SlackReceiver {
    /// Prepares a connection; nothing is sent.
    ///
    /// # Errors
    /// If an address is unusable.
    pub fn new(access: &SlackAccess, network: &NetworkSettings, now: NowMs) -> Result<Self, ConnectionError> {
        let wrong = |why: String| ConnectionError(format!("slack: {why}"));
        let (base, bot) = match access {
            // The message of the parser would repeat the address, which is a secret.
            SlackAccess::Webhook(url) => {
                (BaseUrl::parse(url.expose()).map_err(|_| wrong("the webhook's address is no URL".to_owned()))?, None)
            }
            SlackAccess::Bot { token, channel, api_url } => {
                let base = BaseUrl::parse(api_url.as_deref().unwrap_or(API)).map_err(wrong)?;
                (base, Some((token.clone(), channel.clone())))
            }
        };
        Ok(Self { http: HttpClient::new(base, network, now).map_err(wrong)?, bot, lost: LostCreates::default() })
    }

    /// Posts a message.
    ///
    /// # Errors
    /// As a delivery: a lost answer leaves the message in doubt.
    pub async fn post(&self, message: &SlackMessage) -> Result<SlackPost, DeliverError> {
        let mut body = message.body();
        let Some((token, channel)) = &self.bot else {
            let answer = self.send(HttpCall::new(Method::POST, "").json(&body)).await?;
            return match answer.body.starts_with(b"ok") {
                true => Ok(SlackPost { channel: String::new(), ts: String::new() }),
                false => Err(self.status(&answer)),
            };
        };
        body["channel"] = json!(channel);
        let call = HttpCall::new(Method::POST, "/chat.postMessage").json(&body);
        posted(self.ask(call, token).await?, channel)
    }

    /// Replaces a message of the bot. The same update twice has one effect.
    async fn update(&self, message: &SlackMessage, place: &str) -> Result<SlackPost, DeliverError> {
        let (Some((token, _)), Some(post)) = (&self.bot, SlackPost::at(place)) else {
            return Err(DeliverError::refused("only a bot's message can be updated"));
        };
        let mut body = message.body();
        (body["channel"], body["ts"]) = (json!(post.channel), json!(post.ts));
        let call = HttpCall::new(Method::POST, "/chat.update").json(&body);
        posted(self.ask(call, token).await?, &post.channel)
    }

    /// Checks the bot's token and its scopes. It changes nothing. A webhook has nothing to check.
    pub async fn inspect(&self) -> Vec<ForgeFinding> {
        let Some((token, channel)) = &self.bot else {
            let text = "an incoming webhook sends messages; questions with buttons need a bot token";
            return vec![ForgeFinding::good("access", text)];
        };
        let header = SecretText::new(format!("Bearer {}", token.expose()));
        let call = HttpCall::new(Method::POST, "/auth.test").json(&json!({}));
        let call = call.secret_header(AUTHORIZATION, &header).map_err(|error| messenger::failure("Slack", &error));
        let sent = match call {
            Ok(call) => self.send(call).await,
            Err(error) => Err(error),
        };
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => return vec![ForgeFinding::bad("reachable", error.text)],
        };
        let read: Option<SlackAnswer> = serde_json::from_slice(&answer.body).ok();
        match read {
            Some(read) if read.ok => {}
            read => {
                let word = read.and_then(|read| read.error).unwrap_or_default();
                return vec![ForgeFinding::bad("token", refusal(&word).text)];
            }
        }
        let scopes = answer.header("x-oauth-scopes").unwrap_or_default();
        vec![ForgeFinding::good("token", format!("the bot's token is valid; channel {channel}")), scope_finding(scopes)]
    }

    async fn send(&self, call: HttpCall) -> Result<HttpAnswer, DeliverError> {
        let writes = call.writes();
        let answer =
            self.http.send(&call).await.map_err(|error| match (messenger::failure("Slack", &error), writes) {
                (error, true) => error,
                (error, false) => DeliverError::transient(error.text),
            })?;
        if answer.status == 200 { Ok(answer) } else { Err(self.status(&answer)) }
    }

    fn status(&self, answer: &HttpAnswer) -> DeliverError {
        let words = String::from_utf8_lossy(&answer.body).into_owned();
        messenger::status("Slack", answer, self.http.now_ms(), &words)
    }

    async fn ask(&self, call: HttpCall, token: &SecretText) -> Result<SlackAnswer, DeliverError> {
        let header = SecretText::new(format!("Bearer {}", token.expose()));
        let writes = call.writes();
        let call = call.secret_header(AUTHORIZATION, &header).map_err(|error| messenger::failure("Slack", &error))?;
        let answer = self.send(call).await?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            let text = format!("Slack's answer is not as documented: {error}");
            if writes { DeliverError::in_doubt(text) } else { DeliverError::transient(text) }
        })
    }

    async fn send_item(&self, item: &Delivery) -> Result<DeliveryReceipt, DeliverError> {
        if item.item.kind != ActionKind::Slack {
            return Err(DeliverError::refused(format!("{} is not an item for Slack", item.item.kind)));
        }
        if let DeliveryLookup::Yes(receipt) = self.look(item).await? {
            return Ok(receipt);
        }
        let message = SlackMessage::for_item(item);
        let post = match &item.question {
            Some(QuestionPart::Close { place }) => self.update(&message, place).await?,
            Some(QuestionPart::Ask { .. } | QuestionPart::Reply { .. }) | None => {
                let posted = self.post(&message).await;
                if posted.as_ref().is_err_and(|error| error.kind == DeliverErrorKind::InDoubt) {
                    self.lost.add(&item.key, self.http.now_ms());
                }
                posted?
            }
        };
        Ok(self.receipt(&post))
    }

    fn receipt(&self, post: &SlackPost) -> DeliveryReceipt {
        let place = post.place();
        let seconds = post.ts.split('.').next().and_then(|seconds| seconds.parse::<i64>().ok());
        let at_ms = seconds.map_or_else(|| self.http.now_ms(), |seconds| seconds.saturating_mul(1000));
        DeliveryReceipt { place, head: None, at_ms, note: None }
    }

    /// Whether the message arrived. After a lost answer, "no" needs several look-ups with pauses.
    async fn look(&self, item: &Delivery) -> Result<DeliveryLookup, DeliverError> {
        let found = self.look_once(item).await?;
        match &found {
            DeliveryLookup::Yes(_) => self.lost.remove(&item.key),
            DeliveryLookup::No => {
                if let Some(at_ms) = self.lost.next_look(&item.key, self.http.now_ms()) {
                    let text = "Slack did not confirm this message and does not show it yet; it may be late, so Loopwright \
                                searches again";
                    return Err(DeliverError::transient(text).retry_at(Some(at_ms)));
                }
            }
            DeliveryLookup::Unknown => {}
        }
        Ok(found)
    }

    /// Searches the channel for the item's key. Without the permission to read it, the answer is unknown.
    async fn look_once(&self, item: &Delivery) -> Result<DeliveryLookup, DeliverError> {
        let parent = match &item.question {
            // An update can be repeated, so it is never looked for.
            Some(QuestionPart::Close { .. }) => return Ok(DeliveryLookup::No),
            Some(QuestionPart::Reply { place }) => SlackPost::at(place),
            Some(QuestionPart::Ask { .. }) | None => None,
        };
        if let Some(parent) = parent {
            let found = self.search(item, "/conversations.replies", &format!("&ts={}", parent.ts)).await?;
            if !matches!(found, DeliveryLookup::No) {
                return Ok(found);
            }
        }
        // An earlier attempt may not have known the thread yet.
        self.search(item, "/conversations.history", "").await
    }

    /// Searches the pages of one listing.
    async fn search(&self, item: &Delivery, method: &str, more: &str) -> Result<DeliveryLookup, DeliverError> {
        let Some((token, channel)) = &self.bot else { return Ok(DeliveryLookup::Unknown) };
        let oldest = self.http.now_ms().div_euclid(1000) - AGE_MAX_SECS;
        let mut cursor = String::new();
        for _ in 0..HISTORY_PAGES_MAX {
            let query = format!(
                "channel={}&include_all_metadata=true&limit=200&oldest={oldest}&cursor={}{more}",
                encode(channel),
                encode(&cursor)
            );
            let call = HttpCall::new(Method::GET, method).query(query);
            let answer = self.ask(call, token).await?;
            match answer.error.as_deref() {
                None => {}
                Some("ratelimited") => return Err(DeliverError::transient("Slack limits messages")),
                Some(_) => return Ok(DeliveryLookup::Unknown),
            }
            if let Some(found) = answer.messages.iter().find(|message| message.has_key(&item.key)) {
                let post = SlackPost { channel: channel.clone(), ts: found.ts.clone() };
                return Ok(DeliveryLookup::Yes(self.receipt(&post)));
            }
            cursor = answer.response_metadata.map(|next| next.next_cursor).unwrap_or_default();
            if cursor.is_empty() {
                return Ok(DeliveryLookup::No);
            }
        }
        Ok(DeliveryLookup::Unknown)
    }
}

impl HistoryMessage {
    fn has_key(&self, key: &str) -> bool {
        let found = self.metadata.as_ref().and_then(|metadata| metadata.pointer("/event_payload/key"));
        found.and_then(serde_json::Value::as_str) == Some(key)
    }
}

/// Posting needs one scope; a look-up after a lost answer needs another, which depends on the kind of the channel.
fn scope_finding(scopes: &str) -> ForgeFinding {
    let has = |wanted: &str| scopes.split(',').any(|scope| scope.trim() == wanted);
    match (has("chat:write"), has("channels:history") || has("groups:history")) {
        (true, true) => ForgeFinding::good("scopes", format!("the token has the scopes `{scopes}`")),
        (true, false) => ForgeFinding::doubtful(
            "scopes",
            "add the scope `channels:history`, or `groups:history` for a private channel: without it a message whose \
             answer is lost stays in doubt",
        ),
        (false, _) => {
            ForgeFinding::bad("scopes", "the token has no scope `chat:write`; add it and install the app again")
        }
    }
}

/// The place of a message that Slack accepted.
fn posted(answer: SlackAnswer, channel: &str) -> Result<SlackPost, DeliverError> {
    match (answer.ok, answer.ts) {
        (true, Some(ts)) => Ok(SlackPost { channel: answer.channel.unwrap_or_else(|| channel.to_owned()), ts }),
        _ => Err(refusal(&answer.error.unwrap_or_default())),
    }
}

/// The error of a word that Slack answers with.
fn refusal(word: &str) -> DeliverError {
    let shown: String = word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
    match word {
        "ratelimited" | "rate_limited" => DeliverError::transient("Slack limits messages; it is tried again later"),
        "internal_error" | "fatal_error" | "request_timeout" | "service_unavailable" => {
            DeliverError::in_doubt(format!("Slack failed: {shown}"))
        }
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired" | "missing_scope"
        | "no_permission" => DeliverError::blocked(format!(
            "Slack does not accept the bot's token ({shown}); it needs the scope `chat:write`"
        )),
        "channel_not_found" | "not_in_channel" | "is_archived" => DeliverError::blocked(format!(
            "the bot cannot post to the channel ({shown}); invite it, or change the channel"
        )),
        _ => DeliverError::refused(format!("Slack rejects the message: {shown}")),
    }
}

impl Deliver for SlackReceiver {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(self.send_item(item))
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(self.look(item))
    }

    fn expect_earlier(&self, item: &Delivery) {
        if !matches!(item.question, Some(QuestionPart::Close { .. })) {
            self.lost.expect(&item.key, self.http.now_ms());
        }
    }
}

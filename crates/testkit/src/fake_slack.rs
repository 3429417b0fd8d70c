//! A fake Slack on loopback: the methods of its API that a bot uses, and signed presses of buttons as Slack sends them.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The token that it accepts.
pub const SLACK_TOKEN: &str = "xoxb-1-test";

/// A running fake Slack. Its thread ends with the test's process.
#[derive(Debug)]
pub struct FakeSlack {
    url: String,
    state: Arc<Mutex<SlackState>>,
}

#[derive(Debug, Default)]
struct SlackState {
    /// Messages in the order of posting, as their last JSON.
    messages: Vec<Value>,
    scopes: String,
}

impl FakeSlack {
    /// Starts it on a free port.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/api", listener.local_addr().expect("an address"));
        let state = SlackState { scopes: "chat:write,channels:history".to_owned(), ..SlackState::default() };
        let state = Arc::new(Mutex::new(state));
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&own);
                // A client that is gone has no answer.
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { url, state }
    }

    /// The base of its API.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The scopes of the token from now on.
    ///
    /// # Panics
    /// If a request panicked.
    pub fn set_scopes(&self, scopes: &str) {
        self.state.lock().expect("no panic").scopes = scopes.to_owned();
    }

    /// The messages of the channel and of its threads, as they are now.
    ///
    /// # Panics
    /// If a request panicked.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.state.lock().expect("no panic").messages.clone()
    }

    /// The body of a request for a press of a button below a message.
    #[must_use]
    pub fn press(message: &Value, action: &str, user: &str) -> String {
        let blocks = message["blocks"].as_array().into_iter().flatten();
        let buttons = blocks.flat_map(|block| block["elements"].as_array().into_iter().flatten());
        let value = buttons.clone().find(|button| button["action_id"] == action).map(|button| button["value"].clone());
        Self::press_value(value.unwrap_or_default(), action, user)
    }

    /// The same with any value.
    #[must_use]
    pub fn press_value(value: Value, action: &str, user: &str) -> String {
        static PRESSES: AtomicU64 = AtomicU64::new(1);
        let payload = json!({
            "type": "block_actions", "trigger_id": PRESSES.fetch_add(1, Ordering::Relaxed).to_string(), "user": { "id": user, "username": user.to_lowercase(), "team_id": "T1" },
            "actions": [{ "action_id": action, "type": "button", "value": value }],
        });
        let encoded: String = payload.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("payload={encoded}")
    }
}

/// Sends a body to a daemon's listener as Slack does; returns the first line and the body of the answer.
///
/// # Panics
/// If the listener does not answer.
#[must_use]
pub fn send_signed(address: &str, secret: &str, seconds: i64, body: &str) -> String {
    let signature = slack_signature(secret, seconds, body);
    send_with(address, &signature, seconds, body)
}

/// The same with any signature. The answer is empty if the listener closes the connection before it has read everything.
///
/// # Panics
/// If it does not listen.
#[must_use]
pub fn send_with(address: &str, signature: &str, seconds: i64, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!(
        "POST /hooks/slack HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
         application/x-www-form-urlencoded\r\nx-slack-request-timestamp: {seconds}\r\nx-slack-signature: \
         {signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    let sent = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    if sent.is_err() {
        return String::new();
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    format!("{} {}", head.lines().next().unwrap_or_default(), body.trim())
}

/// `v0=` and the HMAC over version, time and body.
#[must_use]
pub fn slack_signature(secret: &str, seconds: i64, body: &str) -> String {
    format!("v0={}", hmac_hex(secret, &format!("v0:{seconds}:{body}")))
}

/// The HMAC with SHA-256 of a text, in hexadecimal digits: GitHub signs its deliveries with it as well. A secret has at
/// most 64 bytes.
#[must_use]
pub fn hmac_hex(secret: &str, text: &str) -> String {
    let (mut inner, mut outer) = ([0x36_u8; 64], [0x5c_u8; 64]);
    for (at, byte) in secret.bytes().enumerate() {
        inner[at] ^= byte;
        outer[at] ^= byte;
    }
    let digest = Sha256::new().chain_update(inner).chain_update(text.as_bytes()).finalize();
    let mac = Sha256::new().chain_update(outer).chain_update(digest).finalize();
    mac.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serve(mut stream: TcpStream, state: &Mutex<SlackState>) -> Option<()> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() < length.unwrap_or(0_usize) {
            continue;
        }
        let mut state = state.lock().expect("no panic");
        let answer = answer(&mut state, head, body).to_string();
        let response = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-oauth-scopes: {}\r\nconnection: \
             close\r\ncontent-length: {}\r\n\r\n{answer}",
            state.scopes,
            answer.len()
        );
        return stream.write_all(response.as_bytes()).ok();
    }
}

fn answer(state: &mut SlackState, head: &str, body: &str) -> Value {
    if !head.to_lowercase().contains(&format!("authorization: bearer {SLACK_TOKEN}")) {
        return json!({ "ok": false, "error": "invalid_auth" });
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (method, query) = path.split_once('?').unwrap_or((path, ""));
    let mut sent: Value = serde_json::from_str(body).unwrap_or_default();
    match method.trim_start_matches("/api/") {
        "auth.test" => json!({ "ok": true, "user": "loopwright", "team": "acme" }),
        "chat.postMessage" => {
            let ts = format!("17000000{:02}.000100", state.messages.len());
            sent["ts"] = json!(ts);
            state.messages.push(sent);
            json!({ "ok": true, "channel": "C1", "ts": ts })
        }
        "chat.update" => match state.messages.iter_mut().find(|message| message["ts"] == sent["ts"]) {
            Some(message) => {
                let ts = sent["ts"].clone();
                *message = sent;
                json!({ "ok": true, "channel": "C1", "ts": ts })
            }
            None => json!({ "ok": false, "error": "message_not_found" }),
        },
        "conversations.history" => listed(state, |message| message["thread_ts"].is_null()),
        "conversations.replies" => {
            let ts = query.split('&').find_map(|pair| pair.strip_prefix("ts=")).unwrap_or_default();
            listed(state, |message| message["thread_ts"] == ts || message["ts"] == ts)
        }
        _ => json!({ "ok": false, "error": "unknown_method" }),
    }
}

fn listed(state: &SlackState, wanted: impl Fn(&Value) -> bool) -> Value {
    let messages: Vec<&Value> = state.messages.iter().filter(|message| wanted(message)).collect();
    json!({ "ok": true, "messages": messages, "response_metadata": { "next_cursor": "" } })
}

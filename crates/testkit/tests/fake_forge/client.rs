//! A plain HTTP client for the tests of the fake forge: one request for each connection.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// An answer; `status` is 0 if the connection ended without one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let rows = self.head.lines().filter_map(|line| line.split_once(": "));
        rows.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A request with further headers, each as one line.
pub(crate) fn ask(url: &str, method: &str, path: &str, headers: &[String], body: &str) -> Answer {
    let rest = url.strip_prefix("http://").expect("an address");
    let (host, base) = rest.split_once('/').map_or((rest, String::new()), |(host, base)| (host, format!("/{base}")));
    let mut stream = TcpStream::connect(host).expect("the forge listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut head = format!("{method} {base}{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    head.push_str(&format!("user-agent: test\r\ncontent-length: {}\r\n", body.len()));
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("the request can be sent");
    let mut bytes = Vec::new();
    // A scripted fault may cut the connection; the bytes before the cut count.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), text: body.to_owned() }
}

/// A caller of one API with one token.
pub(crate) struct Caller {
    pub(crate) url: String,
    pub(crate) header: Option<String>,
}

impl Caller {
    pub(crate) fn new(url: &str, header: impl Into<String>) -> Self {
        Self { url: url.to_owned(), header: Some(header.into()) }
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers: Vec<String> = self.header.iter().cloned().collect();
        let text = if body.is_null() { String::new() } else { body.to_string() };
        ask(&self.url, method, path, &headers, &text)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &Value::Null)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body)
    }
}

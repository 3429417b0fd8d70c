//! The HTTP server of a daemon under test, and a client that sends exactly the headers of a case.

use crate::world::{Daemon, LONG, World};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// The pages without a name in their path.
pub(crate) const PAGES: [&str; 6] = ["/", "/loops", "/inbox", "/spend", "/calendar", "/health"];

/// The server of a running daemon.
pub(crate) struct Server {
    pub(crate) port: u16,
    daemon: Daemon,
}

/// An answer: its status, its head and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The bytes of the body.
    pub(crate) size: usize,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Server {
    pub(crate) fn start(world: &World) -> Self {
        let daemon = world.up();
        let line = daemon.wait_for("http://127.0.0.1:");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        Self { port: port.parse().expect("a port"), daemon }
    }

    /// Stops its daemon and starts another one on the same state.
    pub(crate) fn restart(self, world: &World) -> Self {
        let port = self.port;
        self.daemon.stop();
        let next = Self::start(world);
        assert_eq!(next.port, port, "open pages find the next daemon at the same address");
        next
    }

    /// Ends its daemon without any warning.
    pub(crate) fn kill(mut self) {
        self.daemon.signal("KILL");
        let _ = self.daemon.ended();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a timeout can be set");
        stream
    }

    /// Sends a request with these headers; `Host` is added if it is not among them.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: 127.0.0.1:{}\r\n", self.port));
        }
        if method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        // A server that refuses a large body closes before it has read all of it.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        let mut raw = Vec::new();
        // A server that closes early has sent its answer before.
        let _ = stream.read_to_end(&mut raw);
        let text = String::from_utf8_lossy(&raw).into_owned();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let size = raw.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| raw.len() - at - 4);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned(), size }
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Answer {
        self.send("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
    }

    pub(crate) fn post(&self, path: &str, token: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.send("POST", path, &headers, &body.to_string())
    }
}

pub(crate) fn token(world: &World, name: &str, role: &str) -> String {
    let added = world.json(&format!("token add {name} --role {role}"));
    added["token"].as_str().expect("a token").to_owned()
}

//! Receivers on loopback for messages that leave the daemon: one for HTTP and one for mail. Each keeps what it got.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as the receiver saw it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// The head in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A receiver; its thread ends with the test's process.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Answers every request with 200.
    pub(crate) fn http() -> Self {
        Self::start(TcpListener::bind("127.0.0.1:0").expect("a port"), answer_http)
    }

    /// The same on a port that was free.
    pub(crate) fn http_on(port: u16) -> Self {
        Self::start(TcpListener::bind(("127.0.0.1", port)).expect("the port is free"), answer_http)
    }

    /// Accepts every message.
    pub(crate) fn mail() -> Self {
        Self::start(TcpListener::bind("127.0.0.1:0").expect("a port"), answer_mail)
    }

    fn start(listener: TcpListener, answer: fn(TcpStream) -> Option<Received>) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::<Mutex<Vec<Received>>>::default();
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(received) = answer(stream) {
                    kept.lock().expect("no reader panics").push(received);
                }
            }
        });
        Self { port, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Received> {
        self.seen.lock().expect("no reader panics").clone()
    }
}

/// A port on which nothing listens.
pub(crate) fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

fn answer_http(stream: TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    reader.into_inner().write_all(answer).ok()?;
    Some(Received { path, head, body: String::from_utf8_lossy(&body).into_owned() })
}

fn answer_mail(stream: TcpStream) -> Option<Received> {
    let mut to = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    to.write_all(b"220 mail.test\r\n").ok()?;
    let (mut head, mut body) = (String::new(), String::new());
    while let Some(line) = lines.next() {
        head.push_str(&line);
        head.push('\n');
        let answer = match line.split(' ').next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "EHLO" | "HELO" => "250 mail.test\r\n",
            "DATA" => {
                to.write_all(b"354 go on\r\n").ok()?;
                for line in lines.by_ref().take_while(|line| line != ".") {
                    body.push_str(&line);
                    body.push('\n');
                }
                "250 accepted\r\n"
            }
            "QUIT" => {
                // The client may have gone already.
                let _ = to.write_all(b"221 bye\r\n");
                break;
            }
            _ => "250 fine\r\n",
        };
        to.write_all(answer.as_bytes()).ok()?;
    }
    Some(Received { path: String::new(), head, body })
}

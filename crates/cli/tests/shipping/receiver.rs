//! A receiver of webhooks that loses answers. It cannot be asked whether a message arrived, so an item whose answer was
//! lost is in doubt.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The messages by their keys, or by their texts if they have no key, and how often each one arrived.
type Arrived = Arc<Mutex<BTreeMap<String, usize>>>;

/// A receiver on loopback that performs every request and cuts the connection of every third one, from the first on.
pub(crate) struct LossyReceiver {
    pub(crate) url: String,
    arrived: Arrived,
}

impl LossyReceiver {
    pub(crate) fn start() -> Self {
        Self::cutting(|number| number % 3 == 0)
    }

    /// A receiver that answers every request.
    pub(crate) fn reliable() -> Self {
        Self::cutting(|_| false)
    }

    /// `is_cut` decides by the number of a request whether its connection is cut.
    fn cutting(is_cut: fn(usize) -> bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/run", listener.local_addr().expect("an address"));
        let arrived = Arrived::default();
        let known = Arc::clone(&arrived);
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                receive(stream, &known, is_cut(number));
            }
        });
        Self { url, arrived }
    }

    /// How many messages arrived.
    pub(crate) fn total(&self) -> usize {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// How often messages without a key arrived that contain this text.
    pub(crate) fn arrivals_with(&self, text: &str) -> usize {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.iter().filter(|(message, _)| message.contains(text)).map(|(_, count)| count).sum()
    }

    /// How often the message with this key arrived.
    pub(crate) fn arrivals(&self, key: &str) -> usize {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }
}

/// Reads one request; a request that ends early did not arrive.
fn receive(mut stream: TcpStream, arrived: &Arrived, is_cut: bool) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
        if body.len() >= length {
            let key = header("webhook-id").unwrap_or_else(|| body.to_owned());
            *arrived.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
            break;
        }
    }
    if !is_cut {
        // A sender that was killed does not read the answer.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    }
}

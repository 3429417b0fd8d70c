//! A proxy in front of a server on loopback that fails as networks do: it cuts connections, swallows everything, or loses
//! one answer. It knows no protocol except the word that commits.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A running proxy. Its threads end with the test process.
pub struct WireProxy {
    port: u16,
    wire: Arc<Wire>,
}

/// The treatment of all connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WireMode {
    Pass,
    Swallow,
    Refuse,
}

struct Wire {
    server: u16,
    mode: AtomicU8,
    is_commit_lost: AtomicBool,
    is_last_commit: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl WireProxy {
    /// A proxy to a port on loopback.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let wire = Arc::new(Wire {
            server,
            mode: AtomicU8::new(WireMode::Pass as u8),
            is_commit_lost: AtomicBool::new(false),
            is_last_commit: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let shared = Arc::clone(&wire);
        drop(std::thread::spawn(move || listener.incoming().flatten().for_each(|client| shared.join(client))));
        Self { port, wire }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same address with this proxy's port.
    #[must_use]
    pub fn through(&self, url: &str) -> String {
        let server = self.wire.server;
        url.replace(&format!(":{server}"), &format!(":{}", self.port))
    }

    /// The next answer to a commit gets lost, and its connection with it.
    pub fn lose_next_commit(&self) {
        self.wire.is_commit_lost.store(true, Ordering::SeqCst);
    }

    /// The next answer to a commit gets lost, and from then on nothing arrives any more.
    pub fn swallow_from_next_commit(&self) {
        self.wire.is_last_commit.store(true, Ordering::SeqCst);
        self.lose_next_commit();
    }

    /// Whether [`Self::lose_next_commit`] has not happened yet.
    #[must_use]
    pub fn is_about_to_lose_a_commit(&self) -> bool {
        self.wire.is_commit_lost.load(Ordering::SeqCst)
    }

    /// Connections stay open, and nothing arrives any more in either direction.
    pub fn swallow(&self) {
        self.wire.set(WireMode::Swallow);
    }

    /// All connections end, and new ones are refused.
    pub fn cut(&self) {
        self.wire.set(WireMode::Refuse);
        self.wire.end_all();
    }

    /// New connections work again; those that lost bytes end.
    pub fn heal(&self) {
        self.wire.end_all();
        self.wire.set(WireMode::Pass);
    }
}

impl Wire {
    fn set(&self, mode: WireMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn is(&self, mode: WireMode) -> bool {
        self.mode.load(Ordering::SeqCst) == mode as u8
    }

    fn end_all(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Forwards a new connection in both directions.
    fn join(self: &Arc<Self>, client: TcpStream) {
        if self.is(WireMode::Refuse) {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)) else { return };
        let clones = (client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(from_client), Ok(from_server), Ok(kept_client), Ok(kept_server)) = clones else { return };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend([kept_client, kept_server]);
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        drop(std::thread::spawn(move || there.forward(from_client, server, Direction::There)));
        drop(std::thread::spawn(move || back.forward(from_server, client, Direction::Back)));
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let is_commit = direction == Direction::Back && bytes[..count].windows(7).any(|part| part == b"COMMIT\0");
            if is_commit && self.is_commit_lost.swap(false, Ordering::SeqCst) {
                if self.is_last_commit.swap(false, Ordering::SeqCst) {
                    self.set(WireMode::Swallow);
                }
                break;
            }
            if !self.is(WireMode::Swallow) && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

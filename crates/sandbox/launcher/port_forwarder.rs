//! The port forwarder: forwards connections to one port of the namespace's loopback to a socket of the host. It does
//! not inspect the data.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The largest number of open connections; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 256;

/// The threads only copy, with a buffer of this size on their stack.
const BUFFER: usize = 16 << 10;
const STACK: usize = BUFFER + (48 << 10);

pub struct PortForwarder {
    listener: TcpListener,
    socket: OwnedFd,
}

/// The number of open connections.
#[derive(Default)]
struct ConnectionCount {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl PortForwarder {
    /// Starts listening; connections wait until `keep`.
    pub fn open(socket: OwnedFd, port: u16) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(("127.0.0.1", port))?, socket })
    }

    /// Forwards connections until the namespace ends. Called after the program was started, because a fork with other
    /// threads running would copy their locks.
    pub fn keep(self) {
        let _ = thread::Builder::new().stack_size(STACK).spawn(move || {
            let seats = Arc::new(ConnectionCount::default());
            loop {
                let seat = OpenConnection::take(&seats);
                if let Ok((inside, _)) = self.listener.accept() {
                    self.carry(inside, seat);
                }
            }
        });
    }

    /// The socket's path does not exist inside, so the descriptor that was opened outside names it.
    fn carry(&self, inside: TcpStream, seat: OpenConnection) {
        let Ok(outside) = UnixStream::connect(format!("/proc/self/fd/{}", self.socket.as_raw_fd())) else { return };
        let _ = inside.set_nodelay(true);
        // If no thread can be started, the connection ends: its halves are dropped here.
        let _ = thread::Builder::new().stack_size(STACK).spawn(move || both_ways(inside, outside, seat));
    }
}

fn both_ways(inside: TcpStream, outside: UnixStream, _seat: OpenConnection) {
    let back = back_way(&inside, &outside);
    if back.is_some() {
        copy(&inside, &outside);
        let _ = outside.shutdown(Shutdown::Write);
    }
    if let Some(back) = back {
        let _ = back.join();
    }
}

fn back_way(inside: &TcpStream, outside: &UnixStream) -> Option<JoinHandle<()>> {
    let (inside, outside) = (inside.try_clone().ok()?, outside.try_clone().ok()?);
    let back = move || {
        copy(&outside, &inside);
        let _ = inside.shutdown(Shutdown::Write);
    };
    thread::Builder::new().stack_size(STACK).spawn(back).ok()
}

/// Copies until the end of the input, or until an error on either side, which the other side then sees as an end.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if to.write_all(&buffer[..count]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// One open connection.
struct OpenConnection(Arc<ConnectionCount>);

impl OpenConnection {
    fn take(seats: &Arc<ConnectionCount>) -> Self {
        let taken = seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken =
            seats.freed.wait_while(taken, |taken| *taken >= CONNECTIONS_MAX).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self(Arc::clone(seats))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

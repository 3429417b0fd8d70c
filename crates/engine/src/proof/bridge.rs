//! Connects an exercise with an application in another sandbox: connections to the application's port in the exercise's
//! network go through a socket file to the application's network. The data is copied and never inspected.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The largest number of open connections; a further one ends at once.
const CONNECTIONS_MAX: usize = 256;
const BUFFER: usize = 16 << 10;
const STACK: usize = BUFFER + (48 << 10);

/// Accepts the exercise's connections at the socket file, and forwards them to the application.
pub(super) fn serve(socket: &Path, port: u16) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let open = OpenConnections::default();
    background(move || {
        for outside in listener.incoming().flatten() {
            carry(&open, move || Ok((connect(port)?, outside)));
        }
    })
}

/// Accepts connections to the application's port in this network, and forwards them to the socket file.
pub(super) fn forward(socket: &Path, port: u16) -> io::Result<()> {
    let open = OpenConnections::default();
    listen(TcpListener::bind(("127.0.0.1", port))?, socket.to_owned(), open.clone())?;
    // A network without IPv6 has only the first address.
    if let Ok(second) = TcpListener::bind(("::1", port)) {
        listen(second, socket.to_owned(), open)?;
    }
    Ok(())
}

fn listen(listener: TcpListener, socket: PathBuf, open: OpenConnections) -> io::Result<()> {
    background(move || {
        for inside in listener.incoming().flatten() {
            let socket = socket.clone();
            carry(&open, move || Ok((inside, UnixStream::connect(&socket)?)));
        }
    })
}

/// Some applications listen on one of the two addresses only.
fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", port)).or_else(|_| TcpStream::connect(("::1", port)))
}

fn background(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

/// One connection, on threads of its own. If no side or no thread is available, both ends are closed, which each side
/// sees as an end.
fn carry(open: &OpenConnections, sides: impl FnOnce() -> io::Result<(TcpStream, UnixStream)> + Send + 'static) {
    let Some(connection) = open.take() else { return };
    let both_ways = move || {
        let _connection = connection;
        let Ok((tcp, unix)) = sides() else { return };
        let (Ok(tcp_too), Ok(unix_too)) = (tcp.try_clone(), unix.try_clone()) else { return };
        let back = thread::Builder::new().stack_size(STACK).spawn(move || {
            copy(&unix_too, &tcp_too);
            let _ = tcp_too.shutdown(Shutdown::Write);
        });
        let Ok(back) = back else { return };
        copy(&tcp, &unix);
        let _ = unix.shutdown(Shutdown::Write);
        let _ = back.join();
    };
    let _ = background(both_ways);
}

/// Copies until the end of the input, or until an error on either side.
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

/// The number of open connections.
#[derive(Clone, Default)]
struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    fn take(&self) -> Option<OpenConnection> {
        let connection = OpenConnection(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX).then_some(connection)
    }
}

struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_through_the_socket_file_and_its_end_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("app.sock");
        let app = TcpListener::bind("127.0.0.1:0").expect("a port");
        let app_port = app.local_addr().expect("an address").port();
        thread::spawn(move || {
            let (mut stream, _) = app.accept().expect("a connection");
            let mut asked = String::new();
            stream.read_to_string(&mut asked).expect("a question");
            stream.write_all(format!("{asked} 42").as_bytes()).expect("an answer");
        });
        serve(&socket, app_port).expect("serves");
        let own_port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
        forward(&socket, own_port).expect("forwards");
        let mut stream = TcpStream::connect(("127.0.0.1", own_port)).expect("a connection");
        stream.write_all(b"answer?").expect("asks");
        stream.shutdown(Shutdown::Write).expect("ends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "answer? 42");
    }

    #[test]
    fn connections_beyond_the_limit_end_at_once_and_make_room_again() {
        let open = OpenConnections::default();
        let mut held: Vec<_> = (0..CONNECTIONS_MAX).map(|_| open.take().expect("room")).collect();
        assert!(open.take().is_none());
        held.pop();
        assert!(open.take().is_some());
    }
}

//! Sockets of the host that no confined program may reach. Each records whether it was reached.

use std::io::Read as _;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// One listener of every kind.
#[derive(Debug)]
pub struct Tripwires {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    unix: UnixListener,
    path: PathBuf,
    hidden: UnixListener,
    name: String,
}

impl Tripwires {
    /// Listens: on every address, on a socket in `folder`, and on an abstract one.
    pub fn listen(folder: &Path) -> Self {
        let path = folder.join("agent.sock");
        let name = format!("loopwright-{}", crate::Canary::new().value());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name is an address");
        let wires = Self {
            tcp: TcpListener::bind("0.0.0.0:0").expect("a port is free"),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("0.0.0.0:0").expect("a port is free"),
            unix: UnixListener::bind(&path).expect("a socket can be made"),
            path,
            hidden: UnixListener::bind_addr(&address).expect("an abstract socket can be made"),
            name,
        };
        wires.never_wait().expect("sockets can be asked without waiting");
        wires
    }

    fn never_wait(&self) -> std::io::Result<()> {
        self.tcp.set_nonblocking(true)?;
        self.udp.set_nonblocking(true)?;
        self.unix.set_nonblocking(true)?;
        self.hidden.set_nonblocking(true)?;
        self.tcp6.as_ref().map_or(Ok(()), |socket| socket.set_nonblocking(true))
    }

    /// The TCP port.
    pub fn tcp(&self) -> u16 {
        self.tcp.local_addr().map_or(0, |address| address.port())
    }

    /// The TCP port of IPv6's loopback; the IPv4 port if there is no IPv6.
    pub fn tcp6(&self) -> u16 {
        self.tcp6.as_ref().and_then(|socket| socket.local_addr().ok()).map_or_else(|| self.tcp(), |at| at.port())
    }

    /// The UDP port.
    pub fn udp(&self) -> u16 {
        self.udp.local_addr().map_or(0, |address| address.port())
    }

    /// The socket in a folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The abstract socket's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connections since the last call, with their first bytes.
    pub fn touched(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (kind, socket) in [("tcp", Some(&self.tcp)), ("tcp6", self.tcp6.as_ref())] {
            if let Some(Ok((stream, from))) = socket.map(TcpListener::accept) {
                found.push(format!("{kind} from {from}: {}", first_bytes(stream)));
            }
        }
        let mut bytes = [0; 64];
        if let Ok((count, from)) = self.udp.recv_from(&mut bytes) {
            found.push(format!("udp from {from}: {}", String::from_utf8_lossy(&bytes[..count])));
        }
        for (kind, socket) in [("unix", &self.unix), ("abstract", &self.hidden)] {
            if let Ok((stream, _)) = socket.accept() {
                found.push(format!("{kind}: {}", first_bytes(stream)));
            }
        }
        found
    }

    /// Panics with the connections, if there are any.
    #[track_caller]
    pub fn assert_untouched(&self) {
        let found = self.touched();
        assert!(found.is_empty(), "the host's sockets were reached: {found:?}");
    }
}

fn first_bytes(mut stream: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    // The peer may be gone, or send nothing; the connection itself is enough.
    let _ = stream.by_ref().take(64).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address from which this machine would connect to others, if it has any. Nothing is sent to find out.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    #[test]
    fn every_kind_of_connection_is_recorded() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let wires = Tripwires::listen(folder.path());
        wires.assert_untouched();
        drop(TcpStream::connect(("127.0.0.1", wires.tcp())).expect("it listens"));
        drop(UnixStream::connect(wires.path()).expect("it listens"));
        let hidden = SocketAddr::from_abstract_name(wires.name()).expect("a short name is an address");
        drop(UnixStream::connect_addr(&hidden).expect("it listens"));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.send_to(b"hello", ("127.0.0.1", wires.udp())).expect("it is sent");
        let mut found = Vec::new();
        crate::wait::until("all four visits", std::time::Duration::from_secs(5), || {
            found.extend(wires.touched());
            found.len() == 4
        });
    }
}

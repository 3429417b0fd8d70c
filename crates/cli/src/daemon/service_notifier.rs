//! Reports the daemon's state to the service manager, with systemd's protocol. Without a `NOTIFY_SOCKET` it does
//! nothing.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

/// The manager's address: `NOTIFY_SOCKET`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceNotifier(Option<PathBuf>);

impl ServiceNotifier {
    /// Notifies this address, if there is one.
    pub(crate) fn new(address: Option<PathBuf>) -> Self {
        Self(address)
    }

    /// The daemon is ready.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The daemon is ending.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=waiting for rounds to end");
    }

    /// Failures are ignored: the daemon works without a manager.
    fn send(&self, text: &str) {
        let Some(path) = &self.0 else { return };
        let address = match path.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(path),
        };
        let socket = UnixDatagram::unbound();
        if let (Ok(address), Ok(socket)) = (address, socket) {
            let _ = socket.set_nonblocking(true);
            let _ = socket.send_to_addr(text.as_bytes(), &address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_notified_when_we_are_ready() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("notify");
        let ear = UnixDatagram::bind(&path).expect("it can be bound");
        ServiceNotifier::new(Some(path)).ready("3 loops");
        let mut heard = [0; 64];
        let length = ear.recv(&mut heard).expect("something came");
        assert_eq!(&heard[..length], b"READY=1\nSTATUS=3 loops");
        ServiceNotifier::new(None).stopping();
    }
}

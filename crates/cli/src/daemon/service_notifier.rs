//! Tells the manager of services how the daemon stands, in systemd's own words. Nobody is told where nobody asked.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

/// The manager's ear: `NOTIFY_SOCKET`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceNotifier(Option<PathBuf>);

impl ServiceNotifier {
    /// At this address, if there is one.
    pub(crate) fn new(address: Option<PathBuf>) -> Self {
        Self(address)
    }

    /// The daemon works.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=lets its rounds end");
    }

    /// A manager that does not listen changes nothing for us.
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
    fn the_manager_hears_when_we_are_ready() {
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

//! The proxy's socket: in a folder that only its owner can enter, with a path that is short enough for the kernel.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The name of the socket in its folder.
const NAME: &str = "egress.sock";

/// A bound socket; its folder is removed with it.
#[derive(Debug)]
pub(super) struct ProxySocket {
    folder: PathBuf,
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
}

impl ProxySocket {
    /// Binds in a folder of its own. Replaces a socket that a dead engine left there.
    pub(super) fn bind(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        let path = folder.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = bind_in(folder)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { folder: folder.to_owned(), path, listener })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The listening side, registered with the current runtime.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        UnixListener::from_std(self.listener.try_clone()?)
    }

    /// Puts a file beside the socket.
    pub(super) fn write_beside(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(libc_nofollow());
        options.open(&path)?.write_all(bytes)?;
        Ok(path)
    }
}

/// The flag that refuses to follow a link at the file's path.
fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

/// The kernel limits the path to 107 bytes, and state directories are deeper than that: the folder is named by its
/// descriptor.
fn bind_in(folder: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let held = fs::File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())).join(NAME);
    std::os::unix::net::UnixListener::bind(short)
}

impl Drop for ProxySocket {
    fn drop(&mut self) {
        // A leftover is in the round's own folder and is removed with it.
        let _ = fs::remove_file(&self.path);
    }
}

//! The control socket as a file: its path, its permissions, and the workaround for a path that is too long for the
//! kernel.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Its name in the state directory.
const NAME: &str = "control.sock";

/// The size of `sun_path`, without the zero at its end.
const PATH_MAX: usize = 107;

/// The socket of a state directory. The folder stays open as long as this lives, because the path may lead through it.
struct SocketAddress {
    path: PathBuf,
    _folder: Option<std::fs::File>,
}

impl SocketAddress {
    fn of(state: &Path) -> io::Result<Self> {
        let path = state.join(NAME);
        if path.as_os_str().len() <= PATH_MAX {
            return Ok(Self { path, _folder: None });
        }
        let folder = std::fs::File::open(state)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
        Ok(Self { path, _folder: Some(folder) })
    }
}

/// Listens for the owner of the state directory's store. A socket without a listener belongs to a dead daemon and is
/// removed.
pub(crate) async fn bind(state: &Path) -> io::Result<UnixListener> {
    if connect(state).await?.is_some() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon answers there"));
    }
    match std::fs::remove_file(state.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let address = SocketAddress::of(state)?;
    // The folder already denies access to other users; the mode of the file repeats that.
    let listener = UnixListener::bind(&address.path)?;
    std::fs::set_permissions(state.join(NAME), std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the socket.
pub(crate) fn remove(state: &Path) {
    // If it stays, the next daemon finds it dead.
    let _ = std::fs::remove_file(state.join(NAME));
}

/// Connects to the daemon of a state directory; `None` if none listens there.
pub(crate) async fn connect(state: &Path) -> io::Result<Option<UnixStream>> {
    let Ok(address) = SocketAddress::of(state) else { return Ok(None) };
    match UnixStream::connect(&address.path).await {
        // A child that the daemon had just started can hold the socket of a dead daemon for a moment. Nothing accepts
        // the connection, and it is reset when the child executes its program.
        Ok(stream) => Ok(Some(stream).filter(|stream| !is_orphaned(stream))),
        Err(error) if is_no_listener(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the process that listens is gone. The kernel reports the process that made the listener.
fn is_orphaned(stream: &UnixStream) -> bool {
    let Ok(Some(number)) = stream.peer_cred().map(|peer| peer.pid()) else { return false };
    let Some(pid) = rustix::process::Pid::from_raw(number) else { return false };
    let is_gone = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    is_gone || process_state(number) == Some('Z')
}

/// The state of a process as one letter. It follows the command's closing parenthesis, because the command may contain
/// any character.
pub(crate) fn process_state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a daemon might listen there, for one system call.
pub(crate) fn exists(state: &Path) -> bool {
    std::fs::symlink_metadata(state.join(NAME)).is_ok()
}

fn is_no_listener(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | ConnectionRefused | PermissionDenied)
}

/// Whether to trust a peer with this user id: our own user, or root, who has all rights here anyway.
pub(crate) fn is_trusted_peer(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_longer_than_the_kernel_takes_works_and_is_private() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = folder.path().join("x".repeat(120));
        std::fs::create_dir(&state).expect("a folder can be made");
        let listener = bind(&state).await.expect("it can be bound");
        let mode = std::fs::metadata(state.join(NAME)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(connect(&state).await.expect("it can be tried").is_some());
        assert!(bind(&state).await.is_err(), "a second daemon took it");
        drop(listener);
        assert!(connect(&state).await.expect("it can be tried").is_none(), "a dead socket is no daemon");
        assert!(bind(&state).await.is_ok(), "a dead socket does not block a new daemon");
    }

    #[test]
    fn only_our_own_user_and_root_are_trusted() {
        let own = rustix::process::getuid().as_raw();
        assert!(is_trusted_peer(own) && is_trusted_peer(0) && !is_trusted_peer(own.wrapping_add(4711)));
    }
}

//! The verbs that end an agent by a signal, show what it sees, and try what it can reach.

use super::{Done, print, print_result};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Becomes a shell that kills itself: this program's runtime handles some signals and ignores one.
#[expect(clippy::disallowed_methods, reason = "replaces this process, starts none")]
pub(super) fn die(signal: &str) -> Done {
    let error = Command::new("/bin/sh").args(["-c", "ulimit -c 0; kill -s \"$0\" $$; exit 1", signal]).exec();
    Err(format!("die {signal}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "shows what an agent sees")]
pub(super) fn env() -> Done {
    let mut lines: Vec<_> =
        std::env::vars_os().map(|(key, value)| format!("{}={}\n", key.display(), value.display())).collect();
    lines.sort();
    print(lines.concat().as_bytes())
}

pub(super) fn connect(address: &str) -> Done {
    let first = address.to_socket_addrs().map(|mut all| all.next());
    let found = first.and_then(|first| {
        let first = first.ok_or_else(|| std::io::Error::other("no address"))?;
        TcpStream::connect_timeout(&first, CONNECT_MAX).map(|_| "connected".to_owned())
    });
    print_result(&format!("connect {address}"), found)
}

pub(super) fn resolve(name: &str) -> Done {
    let found = (name, 0).to_socket_addrs().map(|all| {
        let all: Vec<_> = all.map(|address| address.ip().to_string()).collect();
        all.join(" ")
    });
    print_result(&format!("resolve {name}"), found)
}

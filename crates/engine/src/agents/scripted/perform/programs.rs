//! The verbs that run programs, end an agent by a signal, show what it sees, and try what it can reach.

use super::{Done, print, print_result};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Runs a program with the streams of the script and waits. A bad exit is printed, and does not fail the script.
#[expect(clippy::disallowed_methods, reason = "a performer is an agent: the engine ends the tree of its children")]
pub(super) fn run(argv: &[String]) -> Done {
    let Some((program, args)) = argv.split_first() else { return Ok(()) };
    let status = Command::new(program).args(args).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => print(format!("run {program}: {status}\n").as_bytes()),
        Err(error) => print(format!("run {program}: could not start: {error}\n").as_bytes()),
    }
}

pub(super) fn git(args: &[String]) -> Done {
    let identity = ["git", "-c", "user.name=scripted", "-c", "user.email=scripted@example.invalid"];
    let argv: Vec<String> = identity.into_iter().map(str::to_owned).chain(args.iter().cloned()).collect();
    run(&argv)
}

pub(super) fn commit(message: &str) -> Done {
    git(&["add".to_owned(), "--all".to_owned()])?;
    git(&["commit".to_owned(), "--quiet".to_owned(), format!("--message={message}")])
}

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

//! What a hostile agent tries: to die, to stay, to use the host up, to look and to reach where it should not.

use super::super::wire::Task;
use super::{Done, children, hang, print, tell};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Generations of the fork bomb: two in the first, 62 processes in all.
const GENERATIONS: u32 = 5;

const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Becomes a shell that kills itself: the runtime of this program handles some signals and ignores one.
#[expect(clippy::disallowed_methods, reason = "replaces this process, starts none")]
pub(super) fn die(signal: &str) -> Done {
    let error = Command::new("/bin/sh").args(["-c", "ulimit -c 0; kill -s \"$0\" $$; exit 1", signal]).exec();
    Err(format!("die {signal}: {error}"))
}

/// Takes SIGTERM from now on and does nothing about it.
pub(super) fn ignore_term() -> Done {
    let failed = |error: std::io::Error| format!("ignore-term: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let guard = runtime.enter();
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(failed)?);
    drop(guard);
    // The handler stays for the life of the process; the runtime has to, too.
    std::mem::forget(runtime);
    Ok(())
}

pub(super) fn stop_self() -> Done {
    kill_process(getpid(), Signal::STOP).map_err(|error| format!("stop-self: {error}"))
}

pub(super) fn fork_bomb() -> Done {
    multiply(GENERATIONS)
}

/// A child of the bomb: goes on with it and stays.
pub(super) fn bomb(depth: u32) -> i32 {
    // A full process table is what the bomb wants; the rest stays.
    let _ = multiply(depth);
    hang()
}

fn multiply(generations: u32) -> Done {
    let Some(depth) = generations.checked_sub(1) else { return Ok(()) };
    for _ in 0..2 {
        children::start(Task::Bomb { depth }, Stdio::null(), Stdio::null())?;
    }
    Ok(())
}

/// Touches every page, since memory that was never written is never given.
pub(super) fn eat(eaten: &mut Vec<Vec<u8>>, bytes: u64) -> Done {
    for _ in 0..bytes >> 20 {
        eaten.push(vec![0xA5; 1 << 20]);
    }
    Ok(())
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
    tell(&format!("connect {address}"), found)
}

pub(super) fn resolve(name: &str) -> Done {
    let found = (name, 0).to_socket_addrs().map(|all| {
        let all: Vec<_> = all.map(|address| address.ip().to_string()).collect();
        all.join(" ")
    });
    tell(&format!("resolve {name}"), found)
}

pub(super) fn kill_parent(signal: &str) -> Done {
    let Some(parent) = getppid() else { return tell("kill-parent", Err("no parent is to be seen")) };
    let sent = kill_process(parent, number(signal)).map(|()| format!("sent {signal}"));
    tell("kill-parent", sent)
}

fn number(signal: &str) -> Signal {
    match signal {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "ILL" => Signal::ILL,
        "ABRT" => Signal::ABORT,
        "FPE" => Signal::FPE,
        "SEGV" => Signal::SEGV,
        "PIPE" => Signal::PIPE,
        "ALRM" => Signal::ALARM,
        "TERM" => Signal::TERM,
        "BUS" => Signal::BUS,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => Signal::KILL,
    }
}

/// Opens another process's memory and reads its first map: the kernel asks the same question as for attaching to it.
pub(super) fn ptrace(pid: &str) -> Done {
    let pid = match pid {
        "parent" => Pid::as_raw(getppid()).to_string(),
        other => other.to_owned(),
    };
    let opened = std::fs::File::open(format!("/proc/{pid}/mem"));
    let maps = || std::fs::File::open(format!("/proc/{pid}/maps")).and_then(|mut file| file.read(&mut [0; 64]));
    let found = opened.and_then(|_| maps()).map(|_| "allowed".to_owned());
    tell(&format!("ptrace {pid}"), found)
}

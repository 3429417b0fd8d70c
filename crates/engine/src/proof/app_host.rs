//! The parts of a proof that run inside a sandbox: a free port, the application, its readiness, the exercise, and the
//! end of the application. It prints one line about the result and returns the verdict as its exit code.

use super::{
    APP_LOG, BROKEN, EXERCISE_LOG, FOLDER_VAR, ProofLink, ProofPart, ProofTask, SHARED_VAR, UNVERIFIABLE, bridge,
};
use crate::proc;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The most bytes of an HTTP answer and of the log that is searched for a line.
const READ_MAX: u64 = 1 << 20;

/// An end without a pass: the exit code, and what happened.
struct ProofEnd(i32, String);

fn broken(text: impl Into<String>) -> ProofEnd {
    ProofEnd(BROKEN, text.into())
}

fn unverifiable(text: impl Into<String>) -> ProofEnd {
    ProofEnd(UNVERIFIABLE, text.into())
}

/// Performs a proof and returns its exit code.
pub(crate) fn perform(task: &ProofTask) -> i32 {
    // The application has the same user; it must not write into the memory of the process that gives the verdict.
    if let Err(error) = proc::hide_memory() {
        let _ = writeln!(std::io::stdout(), "protect the proof: {error}");
        return UNVERIFIABLE;
    }
    let (code, text) = match prove(task) {
        Ok(text) => (0, text),
        Err(ProofEnd(code, text)) => (code, text),
    };
    // The exit code is the verdict; a line that cannot be printed changes nothing.
    let _ = writeln!(std::io::stdout(), "{text}");
    code
}

fn prove(task: &ProofTask) -> Result<String, ProofEnd> {
    let deadline = Instant::now() + Duration::from_millis(task.timeout_ms);
    let folder = PathBuf::from(&task.folder);
    match &task.part {
        ProofPart::Whole => whole(task, &folder, deadline),
        ProofPart::Application(link) => application(task, &folder, link, deadline),
        ProofPart::Exercise(link) => {
            reach(link, deadline)?;
            exercise(task, &folder, link.port, deadline)
        }
    }
}

/// Starts the application and lets the exercise connect to it. It ends only with a problem: the engine ends it when the
/// exercise has ended.
fn application(task: &ProofTask, folder: &Path, link: &ProofLink, deadline: Instant) -> Result<String, ProofEnd> {
    let mut app = start(task, folder, link.port)?;
    ready(task, folder, link.port, app.as_mut(), deadline)?;
    if link.is_split {
        bridge::serve(&link.socket(), link.port)
            .map_err(|error| unverifiable(format!("connect the exercise with the application: {error}")))?;
    }
    File::create(link.ready()).map_err(|error| unverifiable(format!("start the exercise: {error}")))?;
    loop {
        std::thread::park();
    }
}

/// Waits until the application of the other sandbox is ready, and connects its port.
fn reach(link: &ProofLink, deadline: Instant) -> Result<(), ProofEnd> {
    while !link.ready().exists() {
        if Instant::now() >= deadline {
            return Err(broken("the application was not ready in time"));
        }
        pause();
    }
    if !link.is_split {
        return Ok(());
    }
    bridge::forward(&link.socket(), link.port)
        .map_err(|error| unverifiable(format!("connect the exercise with the application: {error}")))
}

fn whole(task: &ProofTask, folder: &Path, deadline: Instant) -> Result<String, ProofEnd> {
    let port = free_port().map_err(|error| unverifiable(format!("no free port: {error}")))?;
    let mut app = start(task, folder, port)?;
    let result =
        ready(task, folder, port, app.as_mut(), deadline).and_then(|()| exercise(task, folder, port, deadline));
    if let Some(app) = &mut app {
        // It may have ended already; the engine ends whatever it left behind.
        let _ = app.kill();
        let _ = app.wait();
    }
    result
}

/// A port that no program uses now.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn words(argv: &[String], port: u16) -> Vec<String> {
    argv.iter().map(|word| word.replace("{port}", &port.to_string())).collect()
}

/// A command whose whole output goes to a log.
#[expect(clippy::disallowed_methods, reason = "it runs inside the sandbox, whose whole process tree the engine ends")]
fn command(task: &ProofTask, argv: &[String], port: u16, folder: &Path, log: &str) -> std::io::Result<Command> {
    let output = File::create(folder.join(log))?;
    let errors = output.try_clone()?;
    let words = words(argv, port);
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(&words[1.min(words.len())..]).stdin(Stdio::null()).stdout(output).stderr(errors);
    command.env("PORT", port.to_string());
    if let Some(shared) = task.part.shared() {
        command.env(SHARED_VAR, shared);
    }
    Ok(command)
}

fn start(task: &ProofTask, folder: &Path, port: u16) -> Result<Option<Child>, ProofEnd> {
    if task.start.is_empty() {
        return Ok(None);
    }
    let mut command = command(task, &task.start, port, folder, APP_LOG)
        .map_err(|error| unverifiable(format!("prepare the application's log: {error}")))?;
    let spawned = command.spawn();
    spawned.map(Some).map_err(|error| broken(format!("the application cannot be started: {error}")))
}

/// Waits until the application is ready, has ended, or is too late.
fn ready(
    task: &ProofTask,
    folder: &Path,
    port: u16,
    app: Option<&mut Child>,
    deadline: Instant,
) -> Result<(), ProofEnd> {
    let (Some(app), Some(wanted)) = (app, &task.ready) else { return Ok(()) };
    let wanted = wanted.replace("{port}", &port.to_string());
    let is_ready = || match wanted.starts_with("http://") {
        true => get(&wanted, CONNECT_MAX).is_ok_and(|(status, _)| status < 500),
        false => log_has(&folder.join(APP_LOG), &wanted),
    };
    loop {
        if is_ready() {
            return Ok(());
        }
        if let Ok(Some(status)) = app.try_wait() {
            return Err(broken(format!("the application ended before it was ready: {status}")));
        }
        if Instant::now() >= deadline {
            return Err(broken("the application was not ready in time"));
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the application reports nothing when it becomes ready, so this polls")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

fn log_has(log: &Path, wanted: &str) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|file| file.take(READ_MAX).read_to_end(&mut bytes));
    read.is_ok() && String::from_utf8_lossy(&bytes).lines().any(|line| line.contains(wanted))
}

fn exercise(task: &ProofTask, folder: &Path, port: u16, deadline: Instant) -> Result<String, ProofEnd> {
    match &task.http {
        Some((url, status, contains)) => {
            let left = deadline.saturating_duration_since(Instant::now()).max(LOOK_EVERY);
            request(&url.replace("{port}", &port.to_string()), left, *status, contains, folder)
        }
        None => run(task, folder, port, deadline),
    }
}

fn run(task: &ProofTask, folder: &Path, port: u16, deadline: Instant) -> Result<String, ProofEnd> {
    let mut command = command(task, &task.exercise, port, folder, EXERCISE_LOG)
        .map_err(|error| unverifiable(format!("prepare the exercise's log: {error}")))?;
    command.env(FOLDER_VAR, folder);
    let mut child =
        command.spawn().map_err(|error| unverifiable(format!("the exercise cannot be started: {error}")))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok("the exercise passed".to_owned()),
            Ok(Some(status)) => return Err(broken(format!("the exercise failed: {status}"))),
            Ok(None) if Instant::now() >= deadline => {
                let _ = child.kill();
                return Err(broken("the exercise did not end in time"));
            }
            Ok(None) => pause(),
            Err(error) => return Err(unverifiable(format!("wait for the exercise: {error}"))),
        }
    }
}

fn request(
    url: &str,
    left: Duration,
    status: u16,
    contains: &Option<String>,
    folder: &Path,
) -> Result<String, ProofEnd> {
    let (found, answer) = get(url, left).map_err(|error| broken(format!("GET {url}: {error}")))?;
    std::fs::write(folder.join(EXERCISE_LOG), &answer)
        .map_err(|error| unverifiable(format!("keep the answer: {error}")))?;
    if found != status {
        return Err(broken(format!("GET {url}: status {found}, expected {status}")));
    }
    match contains {
        Some(text) if !String::from_utf8_lossy(body(&answer)).contains(text.as_str()) => {
            Err(broken(format!("GET {url}: the answer does not contain {text:?}")))
        }
        Some(_) | None => Ok(format!("GET {url}: status {found}")),
    }
}

/// The answer without its headers, which often have digits and words that prove nothing.
fn body(answer: &[u8]) -> &[u8] {
    let end = |sign: &[u8]| answer.windows(sign.len()).position(|part| part == sign).map(|at| at + sign.len());
    let from = [end(b"\r\n\r\n"), end(b"\n\n")].into_iter().flatten().min();
    &answer[from.unwrap_or(answer.len())..]
}

/// A plain request to the loopback: the status, and the whole answer. `wait` is the longest pause of the application.
fn get(url: &str, wait: Duration) -> std::io::Result<(u16, Vec<u8>)> {
    let wrong = || std::io::Error::other("not an address of the loopback");
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).ok_or_else(wrong)?;
    let path = if path.is_empty() { "/" } else { path };
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_MAX)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(CONNECT_MAX))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(READ_MAX).read_to_end(&mut answer)?;
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let status = String::from_utf8_lossy(line).split(' ').nth(1).and_then(|word| word.trim().parse().ok());
    Ok((status.ok_or_else(|| std::io::Error::other("not an HTTP answer"))?, answer))
}

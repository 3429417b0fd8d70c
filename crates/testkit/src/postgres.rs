//! A real PostgreSQL for tests: Debian's package, started in a temporary folder on loopback as an unprivileged user,
//! stopped and removed when the test process ends in any way.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A running server. Its guard is a shell that waits for the end of a pipe from this process, which the kernel closes
/// also after `kill -9`; then it stops the server and removes the folder.
pub struct PostgresServer {
    bin: PathBuf,
    port: u16,
    _guard: Child,
}

/// The script of the guard: it starts the server in the background, waits for the end of this process, and cleans up.
const GUARD: &str = r#"
"$@" </dev/null &
server=$!
read -r _
kill -QUIT "$server"
wait "$server"
rm -rf "$FOLDER"
"#;

/// The test process's server, started at the first call.
///
/// # Panics
/// If PostgreSQL is not installed or does not start: a test that needs it must fail, not pass.
#[must_use]
pub fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(start)
}

impl PostgresServer {
    /// Creates an empty database and returns its address.
    ///
    /// # Panics
    /// If the server refuses.
    #[must_use]
    pub fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let port = self.port.to_string();
        run(Command::new(self.bin.join("createdb"))
            .args(["-h", "127.0.0.1", "-p", &port, "-U", USER, &name])
            .env_clear());
        format!("postgres://{USER}@127.0.0.1:{port}/{name}")
    }

    /// Runs statements in a database, and returns their output.
    ///
    /// # Panics
    /// If the server refuses.
    #[must_use]
    pub fn sql(&self, url: &str, text: &str) -> String {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text, url]).env_clear();
        let output = psql.stdin(Stdio::null()).output().expect("psql is there");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The server's port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

const USER: &str = "loopwright";

/// The programs of the newest installed version.
fn find_bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .max_by_key(|bin| bin.to_string_lossy().trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok());
    newest.expect("PostgreSQL is not installed; run `cargo xtask setup`")
}

/// The user and group without any files, if this process is root: PostgreSQL refuses to run as root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the list of users");
    let find = |name: &str| {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        fields.into_iter().find(|fields| fields.len() > 3 && fields[0] == name)
    };
    let fields = find("postgres").or_else(|| find("nobody")).expect("a user without rights");
    Some((fields[2].parse().expect("a user id"), fields[3].parse().expect("a group id")))
}

/// A command that runs without this process's rights.
fn humble(program: &Path) -> Command {
    let Some((user, group)) = unprivileged() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
    command.args(["--clear-groups", "--inh-caps=-all", "--"]).arg(program);
    command
}

fn start() -> PostgresServer {
    let bin = find_bin();
    // Another process may take the free port between the check and the server's start.
    let started = try_start(&bin).or_else(|_| try_start(&bin));
    match started {
        Ok((port, guard)) => PostgresServer { bin, port, _guard: guard },
        Err(log) => panic!("PostgreSQL did not start:\n{log}"),
    }
}

/// Creates a cluster and serves it; the server's log if that fails.
fn try_start(bin: &Path) -> Result<(u16, Child), String> {
    // Directly under /tmp, because a socket's path is limited to about a hundred characters and the other user must be
    // able to reach it.
    let folder = tempfile::Builder::new().prefix("lw-pg-").tempdir_in("/tmp").expect("a folder").keep();
    if let Some((user, group)) = unprivileged() {
        chown(&folder, Some(user), Some(group)).expect("the folder's owner");
    }
    let data = folder.join("data");
    run(humble(&bin.join("initdb"))
        .args(["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
        .arg(&data)
        .current_dir("/tmp"));
    serve(bin, &folder, &data)
}

/// Starts the server on a free port under its guard.
fn serve(bin: &Path, folder: &Path, data: &Path) -> Result<(u16, Child), String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let log = File::create(folder.join("log")).expect("the log");
    let server = humble(&bin.join("postgres"));
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", GUARD, "sh"]).arg(server.get_program()).args(server.get_args());
    guard.arg("-D").arg(data).arg("-k").arg(folder).args(["-p", &port.to_string()]);
    for setting in [
        "listen_addresses=127.0.0.1",
        "fsync=off",
        "full_page_writes=off",
        "shared_buffers=16MB",
        "max_connections=60",
        "autovacuum=off",
    ] {
        guard.args(["-c", setting]);
    }
    guard.env("FOLDER", folder).current_dir("/tmp").stdin(Stdio::piped());
    guard.stdout(log.try_clone().expect("the log")).stderr(log);
    let mut guard = guard.spawn().expect("a shell");
    if ready(bin, port) {
        return Ok((port, guard));
    }
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    drop(guard.stdin.take());
    let _ = guard.wait();
    Err(log)
}

fn ready(bin: &Path, port: u16) -> bool {
    let answers = || {
        let mut ask = Command::new(bin.join("pg_isready"));
        ask.args(["-q", "-h", "127.0.0.1", "-U", USER, "-p", &port.to_string()]);
        ask.status().is_ok_and(|status| status.success()).then_some(())
    };
    crate::wait::within(Duration::from_secs(20), answers).is_some()
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("a program of PostgreSQL");
    if !output.status.success() {
        let _ = std::io::stderr().write_all(&output.stderr);
        panic!("{command:?} failed: {}", output.status);
    }
}

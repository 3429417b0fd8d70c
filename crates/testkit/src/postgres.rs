//! A real PostgreSQL for tests: Debian's package, started in a temporary folder on loopback as an unprivileged user,
//! stopped and removed when the test process ends in any way.

use crate::tls_files::CertificateFiles;
use std::fs::File;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// A running server. Its guard is a shell that waits for the end of a pipe from this process, which the kernel closes
/// also after `kill -9`; then it stops the server and removes the folder.
pub struct PostgresServer {
    bin: PathBuf,
    port: u16,
    guard: Mutex<Child>,
    /// The password of the user, and the file with the certificate that the server shows.
    secured: Option<(&'static str, PathBuf)>,
}

/// The script of the guard: it starts the server in the background, stops and starts it on request, and cleans
/// up at the end of this process.
const GUARD: &str = r#"
"$@" </dev/null &
server=$!
while read -r word; do
    case $word in
        stop) kill -INT "$server"; wait "$server" ;;
        start) "$@" </dev/null & server=$! ;;
    esac
done
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
    SERVER.get_or_init(|| start(ServerDoor::Open))
}

/// A server of a test's own, which it may stop.
///
/// # Panics
/// As [`server`].
#[must_use]
pub fn own_server() -> PostgresServer {
    start(ServerDoor::Open)
}

/// A server that admits only encrypted connections with a password, and shows a certificate for `localhost`.
///
/// # Panics
/// As [`server`].
#[must_use]
pub fn secured_server() -> PostgresServer {
    start(ServerDoor::Secured)
}

/// The clients that may connect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerDoor {
    Open,
    Secured,
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
        let mut createdb = Command::new(self.bin.join("createdb"));
        createdb.args(["-h", "127.0.0.1", "-p", &port, "-U", USER, &name]).env_clear();
        let Some((password, _)) = self.secured else {
            run(&mut createdb);
            return format!("postgres://{USER}@127.0.0.1:{port}/{name}");
        };
        run(createdb.env("PGPASSWORD", password));
        format!("postgres://{USER}:{password}@localhost:{port}/{name}")
    }

    /// The file with the certificate of a secured server.
    ///
    /// # Panics
    /// If it is not secured.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.secured.as_ref().expect("a secured server").1
    }

    /// Ends all connections and the server.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&self) {
        self.tell("stop");
        let is_down = || TcpStream::connect(("127.0.0.1", self.port)).is_err();
        crate::wait::until("the end of the server", Duration::from_secs(20), is_down);
    }

    /// Starts the server after [`Self::stop`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(&self) {
        self.tell("start");
        assert!(ready(&self.bin, self.port), "PostgreSQL did not start again");
    }

    fn tell(&self, word: &str) {
        let mut guard = self.guard.lock().expect("no test panicked here");
        writeln!(guard.stdin.as_mut().expect("a pipe"), "{word}").expect("the guard listens");
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

    /// Dumps a database with `pg_dump`, restores it into a new one, and returns the address of that.
    ///
    /// # Panics
    /// If a program fails.
    #[must_use]
    pub fn restored_dump(&self, url: &str) -> String {
        let mut dump = Command::new(self.bin.join("pg_dump"));
        let dump = dump.arg(url).env_clear().stdin(Stdio::null()).output().expect("pg_dump is there");
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        let (folder, new) = (tempfile::tempdir().expect("a folder"), self.database());
        let file = folder.path().join("dump.sql");
        std::fs::write(&file, dump.stdout).expect("the dump can be written");
        let mut restore = Command::new(self.bin.join("psql"));
        run(restore
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f"])
            .arg(&file)
            .arg(&new)
            .env_clear());
        new
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

fn start(door: ServerDoor) -> PostgresServer {
    let bin = find_bin();
    // Another process may take the free port between the check and the server's start.
    let started = try_start(&bin, door).or_else(|_| try_start(&bin, door));
    match started {
        Ok((port, guard, folder)) => {
            let secured = (door == ServerDoor::Secured).then(|| (PASSWORD, folder.join("tls.pem")));
            PostgresServer { bin, port, guard: Mutex::new(guard), secured }
        }
        Err(log) => panic!("PostgreSQL did not start:\n{log}"),
    }
}

/// Only servers of tests have it.
const PASSWORD: &str = "only-a-test";

/// Creates a cluster and serves it; the server's log if that fails.
fn try_start(bin: &Path, door: ServerDoor) -> Result<(u16, Child, PathBuf), String> {
    // Directly under /tmp, because a socket's path is limited to about a hundred characters and the other user must be
    // able to reach it.
    let folder = tempfile::Builder::new().prefix("lw-pg-").tempdir_in("/tmp").expect("a folder").keep();
    let data = folder.join("data");
    let mut initdb = humble(&bin.join("initdb"));
    initdb.args(["-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]).arg(&data).current_dir("/tmp");
    match door {
        ServerDoor::Open => initdb.args(["-A", "trust"]),
        ServerDoor::Secured => {
            std::fs::write(folder.join("password"), PASSWORD).expect("a file");
            let _ = CertificateFiles::write(&folder, &["localhost"]);
            initdb.args(["-A", "scram-sha-256", "--pwfile"]).arg(folder.join("password"))
        }
    };
    if let Some((user, group)) = unprivileged() {
        for path in [&folder, &folder.join("password"), &folder.join("tls.key"), &folder.join("tls.pem")] {
            if path.exists() {
                chown(path, Some(user), Some(group)).expect("the owner");
            }
        }
    }
    run(&mut initdb);
    let mut settings = SETTINGS.to_vec();
    let (key, certificate) = (folder.join("tls.key"), folder.join("tls.pem"));
    let files = [format!("ssl_key_file={}", key.display()), format!("ssl_cert_file={}", certificate.display())];
    if door == ServerDoor::Secured {
        std::fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").expect("the rules");
        settings.extend(["ssl=on", &files[0], &files[1]]);
    }
    let (port, guard) = serve(bin, &folder, &data, &settings)?;
    Ok((port, guard, folder))
}

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_connections=60",
    "autovacuum=off",
];

/// Starts the server on a free port under its guard.
fn serve(bin: &Path, folder: &Path, data: &Path, settings: &[&str]) -> Result<(u16, Child), String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let log = File::create(folder.join("log")).expect("the log");
    let server = humble(&bin.join("postgres"));
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", GUARD, "sh"]).arg(server.get_program()).args(server.get_args());
    guard.arg("-D").arg(data).arg("-k").arg(folder).args(["-p", &port.to_string()]);
    for setting in settings {
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

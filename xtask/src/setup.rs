//! `cargo xtask setup`: installs everything that the tests need and that is missing, by Debian package name.

use crate::command::{cargo, first_output_line, program, run as run_command};
use crate::{agents, clients};
use std::path::{Path, PathBuf};

/// The test runner's version: the one that this workspace's `rust-version` can build.
const NEXTEST_VERSION: &str = "0.9.143";

/// While this file exists, Debian's PostgreSQL package starts no server of its own.
const NO_DEFAULT_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/loopwright-tests.conf";

/// Tests search programs here (`testkit::TRUSTED_PATH`): a program that only the developer's shell finds is missing.
pub(crate) const TRUSTED_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that tests start, the package that contains it, and how to check for it.
struct Component {
    package: &'static str,
    version: fn() -> Option<String>,
}

const COMPONENTS: [Component; 11] = [
    Component { package: "git", version: || version_of("git") },
    Component { package: "git-lfs", version: || version_of("git-lfs") },
    Component { package: "postgresql", version: postgres_version },
    Component { package: "python3", version: || version_of("python3") },
    Component { package: "python3-pytest", version: pytest_version },
    Component { package: "python3-pip", version: pip_version },
    Component { package: "nodejs", version: || version_of("node") },
    Component { package: "gnupg", version: || version_of("gpg") },
    Component { package: "openssh-client", version: ssh_version },
    Component { package: "chromium", version: || version_of("chromium") },
    // Has `promtool`, which reads our metrics as the server does.
    Component { package: "prometheus", version: || version_of("promtool") },
];

pub(crate) fn run() -> Result<(), String> {
    let missing: Vec<&Component> = COMPONENTS.iter().filter(|one| (one.version)().is_none()).collect();
    install_packages(&missing.iter().map(|one| one.package).collect::<Vec<_>>())?;
    for component in &COMPONENTS {
        let word = if missing.iter().any(|one| one.package == component.package) { "installed" } else { "present" };
        let version =
            (component.version)().ok_or(format!("`{}` is still missing after its installation", component.package))?;
        report(component.package, word, &version);
    }
    setup_nextest()?;
    agents::setup()?;
    clients::setup()
}

/// pytest of the system's own Python, which tests start.
fn pytest_version() -> Option<String> {
    let mut command = program("python3");
    command.args(["-m", "pytest", "--version"]).env("PATH", TRUSTED_PATH);
    first_output_line(command)
}

/// pip of the system's own Python, which installs clients for tests.
fn pip_version() -> Option<String> {
    let mut command = program("python3");
    command.args(["-m", "pip", "--version"]).env("PATH", TRUSTED_PATH);
    first_output_line(command)
}

/// OpenSSH, whose `ssh-keygen` makes and checks signatures of commits. Only `ssh` names its version, on standard error.
fn ssh_version() -> Option<String> {
    let keygen = TRUSTED_PATH.split(':').any(|folder| Path::new(folder).join("ssh-keygen").is_file());
    let mut command = program("ssh");
    command.arg("-V").env("PATH", TRUSTED_PATH);
    let output = command.output().ok().filter(|output| keygen && output.status.success())?;
    String::from_utf8_lossy(&output.stderr).lines().next().map(str::to_owned)
}

pub(crate) fn report(name: &str, word: &str, version: &str) {
    println!("  {name:<14} {word:<10} {version}");
}

pub(crate) fn install_packages(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    if !is_root() {
        return Err(format!(
            "please install as root: apt-get install -y --no-install-recommends {}",
            packages.join(" ")
        ));
    }
    let guard = Path::new(NO_DEFAULT_CLUSTER);
    let guarded = packages.contains(&"postgresql") && !guard.exists();
    if guarded {
        write_guard(guard)?;
    }
    let ended = run_command(apt(&["update"])).and_then(|()| {
        let words: Vec<&str> = ["install", "-y", "--no-install-recommends"].iter().chain(packages).copied().collect();
        run_command(apt(&words))
    });
    if guarded {
        // The setting is for this installation only; a later package of the machine's owner behaves as usual.
        let _ = std::fs::remove_file(guard);
    }
    ended
}

fn write_guard(guard: &Path) -> Result<(), String> {
    let folder = guard.parent().expect("the guard is a file in a folder");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(guard, "create_main_cluster = false\n"))
        .map_err(|error| format!("write `{}`: {error}", guard.display()))
}

fn apt(words: &[&str]) -> std::process::Command {
    let mut command = program("apt-get");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    let mut id = program("id");
    id.arg("-u");
    first_output_line(id).as_deref() == Some("0")
}

fn version_of(name: &str) -> Option<String> {
    let mut command = program(name);
    command.arg("--version").env("PATH", TRUSTED_PATH);
    first_output_line(command)
}

/// Debian keeps the server's binaries off the path, in one folder for each version; the newest version counts.
fn postgres_version() -> Option<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut servers: Vec<PathBuf> =
        versions.flatten().map(|entry| entry.path().join("bin/postgres")).filter(|path| path.is_file()).collect();
    servers.sort();
    version_of(servers.last()?.to_str()?)
}

fn nextest_version() -> Option<String> {
    let mut command = cargo();
    command.args(["nextest", "--version"]);
    first_output_line(command)
}

fn setup_nextest() -> Result<(), String> {
    if let Some(version) = nextest_version() {
        report("cargo-nextest", "present", &version);
        return Ok(());
    }
    let mut install = cargo();
    install.args(["install", "cargo-nextest", "--locked", "--version", NEXTEST_VERSION]);
    // Without self-update there is no HTTP client to build.
    install.args(["--no-default-features", "--features", "default-no-update"]);
    run_command(install)?;
    let version = nextest_version().ok_or("`cargo nextest` is still missing after its installation")?;
    report("cargo-nextest", "installed", &version);
    Ok(())
}

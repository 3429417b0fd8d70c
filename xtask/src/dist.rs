//! `dist`: the archive that people install, with its checksum, and `dist --try`, which installs it in a bare Debian.
//! It does not publish anything.

use crate::command::{cargo, program, root, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The fully static target. It needs its own standard library and C compiler, which rustup and Debian can install.
const MUSL: &str = "x86_64-unknown-linux-musl";
/// The usual target; linked statically with the C library of this machine.
const GNU: &str = "x86_64-unknown-linux-gnu";
/// The Debian in which the archive is tried.
const SUITE: &str = "bookworm";

/// The options of `dist`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DistOptions {
    tries: bool,
    profile: String,
}

impl DistOptions {
    /// Reads `[--try] [--profile NAME]`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { tries: false, profile: "dist".to_owned() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--try" => options.tries = true,
                "--profile" => {
                    let name = words.next().ok_or("`--profile` needs a name")?;
                    (*name).clone_into(&mut options.profile);
                }
                other => return Err(format!("unknown option `{other}`; see `cargo xtask help`")),
            }
        }
        Ok(options)
    }

    /// Builds the archive, and tries it if asked.
    pub(crate) fn run(&self) -> Result<(), String> {
        let target = installed_target();
        if target == GNU {
            println!(
                "{MUSL} is not installed, so the program is linked statically with glibc: rustup target add {MUSL}"
            );
        }
        let binary = self.build(target)?;
        let archive = pack(&binary, target)?;
        println!("archive: {}", archive.display());
        if self.tries { try_in_debian(&archive) } else { Ok(()) }
    }

    fn build(&self, target: &str) -> Result<PathBuf, String> {
        let mut build = cargo();
        build.args(["build", "--locked", "-p", "loopwright-cli", "--profile", &self.profile, "--target", target]);
        if target == GNU {
            build.env("RUSTFLAGS", "-C target-feature=+crt-static");
        }
        run(build)?;
        let folder = if self.profile == "dev" { "debug" } else { &self.profile };
        Ok(root().join("target").join(target).join(folder).join("loopwright"))
    }
}

fn installed_target() -> &'static str {
    let listed = program("rustup").args(["target", "list", "--installed"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if listed.lines().any(|line| line.trim() == MUSL) { MUSL } else { GNU }
}

/// The archive: everything below one folder, in the places of `/usr/local`.
fn pack(binary: &Path, target: &str) -> Result<PathBuf, String> {
    let name = format!("loopwright-{}-{target}", env!("CARGO_PKG_VERSION"));
    let dist = root().join("target/archive");
    let stage = dist.join(&name);
    let _ = fs::remove_dir_all(&stage);
    let place = |path: &str| -> Result<PathBuf, String> {
        let path = stage.join(path);
        fs::create_dir_all(path.parent().expect("a path in a folder")).map_err(shown("make a folder"))?;
        Ok(path)
    };
    fs::copy(binary, place("bin/loopwright")?).map_err(shown("copy the program"))?;
    let manual = place("share/man/man1/x")?;
    let mut write_manual = program(&binary.display().to_string());
    write_manual.arg("manual").arg(manual.parent().expect("a folder"));
    run(write_manual)?;
    let scripts = [
        ("bash", "share/bash-completion/completions/loopwright"),
        ("zsh", "share/zsh/site-functions/_loopwright"),
        ("fish", "share/fish/vendor_completions.d/loopwright.fish"),
    ];
    for (shell, path) in scripts {
        fs::write(place(path)?, output(binary, &["completions", shell])?).map_err(shown("write a script"))?;
    }
    fs::write(place("lib/systemd/user/loopwright.service")?, UNIT).map_err(shown("write the unit"))?;
    for page in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "docs/install.md"] {
        let file = Path::new(page).file_name().expect("a file").to_string_lossy().into_owned();
        let path = place(&format!("share/doc/loopwright/{file}"))?;
        fs::copy(root().join(page), path).map_err(shown("copy a document"))?;
    }
    let file = format!("{name}.tar.gz");
    let mut tar = program("tar");
    tar.current_dir(&dist).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf", &file, &name]);
    run(tar)?;
    let sum = program("sha256sum").current_dir(&dist).arg(&file).output().map_err(shown("sum"))?;
    fs::write(dist.join(format!("{file}.sha256")), sum.stdout).map_err(shown("write the checksum"))?;
    Ok(dist.join(file))
}

/// A unit for every user; `loopwright service install` writes one for a repository with its own paths.
const UNIT: &str = "\
[Unit]
Description=Loopwright: starts loops when they are due

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/local/bin/loopwright up
ExecReload=/bin/kill -HUP $MAINPID
EnvironmentFile=-%h/.config/loopwright/environment
Restart=on-failure
RestartSec=2s
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=90s
Delegate=yes
OOMPolicy=continue
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
";

/// Installs the archive in a bare Debian, upgrades the state of an earlier build, refuses a newer state, and removes
/// everything. It needs root, debootstrap and the network.
fn try_in_debian(archive: &Path) -> Result<(), String> {
    let system = root().join("target/archive/debian");
    if !system.join("bin/sh").exists() {
        let mut make = program("debootstrap");
        make.args(["--variant=minbase", "--include=git,man-db,python3-minimal,libpython3-stdlib", SUITE]).arg(&system);
        run(make)?;
    }
    let state = root().join("crates/cli/tests/fixtures/state-v4.tar.gz");
    for (from, to) in [(archive, "tmp/loopwright.tar.gz"), (state.as_path(), "tmp/state.tar.gz")] {
        fs::copy(from, system.join(to)).map_err(shown("copy into the system"))?;
    }
    fs::write(system.join("tmp/try.sh"), TRY).map_err(shown("write the script"))?;
    let mut chroot: Command = program("chroot");
    chroot.arg(&system).args(["/usr/bin/env", "-i", "HOME=/root", "PATH=/usr/local/bin:/usr/bin:/bin"]);
    chroot.args(["LC_ALL=C.UTF-8", "/bin/sh", "-eux", "/tmp/try.sh"]);
    run(chroot)?;
    println!("installed, tried, upgraded, downgraded with a refusal, and removed in Debian {SUITE}");
    Ok(())
}

/// Every step ends the script if it fails.
const TRY: &str = r#"
mount -t proc proc /proc
trap 'umount /proc' EXIT
tar -xzf /tmp/loopwright.tar.gz -C /usr/local --strip-components=1
loopwright --version
test -f /usr/local/share/man/man1/loopwright-logs.1
man loopwright-run | grep -q loopwright
bash -n /usr/local/share/bash-completion/completions/loopwright
loopwright doctor > /tmp/doctor.txt
rm -rf /tmp/repo /tmp/work && mkdir /tmp/repo /tmp/work && cd /tmp/repo
git init -q -b main && echo x > a && git add a
git -c user.name=a -c user.email=a@b commit -qm first
loopwright init
loopwright check
loopwright run "$(loopwright completions --names run | head -n 1)"
loopwright status
# The state of an earlier build is upgraded.
tar -xzf /tmp/state.tar.gz -C /tmp/work
loopwright --state /tmp/work/state rounds --all | grep -q "^r[0-9a-z]"
loopwright --state /tmp/work/state gc --dry-run
loopwright --state /tmp/work/state verify
test -f /tmp/work/state/store.db.bak-v4
# A state of a newer build is refused, with the way back.
python3 -c 'import sqlite3
c = sqlite3.connect("/tmp/work/state/store.db")
c.execute("update meta set schema_version = 99")
c.commit()'
if loopwright --state /tmp/work/state status 2> /tmp/refused.txt; then exit 1; fi
grep -q "schema version 99" /tmp/refused.txt && grep -q "docs/install.md" /tmp/refused.txt
# The way back of docs/install.md: the copy takes the place of the newer store.
mkdir /tmp/work/newer && mv /tmp/work/state/store.db /tmp/work/newer/
mv /tmp/work/state/store.db.bak-v4 /tmp/work/state/store.db
loopwright --state /tmp/work/state rounds --all | grep -q "^r[0-9a-z]"
# Removal leaves nothing of the archive, and nothing of the state.
rm -r /root/.local/state/loopwright
tar -tzf /tmp/loopwright.tar.gz | grep -v '/$' | sed 's#^[^/]*/#/usr/local/#' | xargs rm
test -z "$(find /usr/local -name '*loopwright*' -type f)"
"#;

fn output(binary: &Path, words: &[&str]) -> Result<Vec<u8>, String> {
    let ran = program(&binary.display().to_string()).args(words).output().map_err(shown("start the program"))?;
    if ran.status.success() { Ok(ran.stdout) } else { Err(format!("`loopwright {}` failed", words.join(" "))) }
}

fn shown(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let dist = DistOptions { tries: false, profile: "dist".to_owned() };
        assert_eq!(DistOptions::parse(&[]), Ok(dist));
        let tried = DistOptions { tries: true, profile: "dev".to_owned() };
        assert_eq!(DistOptions::parse(&["--try", "--profile", "dev"]), Ok(tried));
        assert!(DistOptions::parse(&["--tray"]).is_err() && DistOptions::parse(&["--profile"]).is_err());
    }
}

//! The machine that a gate seems to run on: its places, its user, its name, its time zone. Gates run the maker's code, and
//! code that is right only where it is judged is wrong. So a gate's first machine looks like any other, and a second run
//! has another one, which no maker can know.

use super::{SetupLayer, inside};
use crate::proc::{SandboxIdentity, SpawnRequest};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Time zones with unusual offsets: code that assumes UTC or whole hours shows it there.
const ZONES: [&str; 4] = ["Asia/Kathmandu", "America/St_Johns", "Pacific/Auckland", "Australia/Adelaide"];
const USERS: [&str; 6] = ["ada", "maria", "tom", "wei", "olga", "sam"];

/// Files of a HOME that no test runner reads.
const HOME_FILES: [(&str, &str); 4] = [
    (".profile", "umask 022\n"),
    (".bash_history", "git status\nls\n"),
    (".config/user-dirs.locale", "en_US\n"),
    ("Documents/notes.txt", "Call the office.\n"),
];

/// The places and names of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProfile {
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    pub(super) identity: SandboxIdentity,
    /// The folder of temporary files below `/tmp`; empty for `/tmp` itself.
    pub(crate) tmp: String,
    zone: &'static str,
    is_second: bool,
    /// Whether programs may write to the folders of tests.
    has_writable_tests: bool,
}

impl MachineProfile {
    /// The machine of roles and of set-up, with the documented places.
    pub(super) fn of_roles() -> Self {
        Self {
            workspace: inside::WORKSPACE.into(),
            home: inside::HOME.into(),
            identity: SandboxIdentity::default(),
            tmp: String::new(),
            zone: "UTC",
            is_second: false,
            has_writable_tests: false,
        }
    }

    /// The machine of a gate. A set-up may have recorded its own places, such as in the first line of a script, so a
    /// gate after one keeps them.
    #[must_use]
    pub fn first(layer: Option<&SetupLayer>) -> Self {
        let identity = |user: &str, home: &str| SandboxIdentity {
            user: user.to_owned(),
            id: 1000,
            home: home.into(),
            host: "devbox".to_owned(),
            last_pid: 1200,
            uptime_ahead: 0,
            shows_cookie: false,
        };
        if layer.is_some() {
            return Self { identity: identity("loop", inside::HOME), ..Self::of_roles() };
        }
        Self {
            workspace: "/projects/app".into(),
            home: "/home/dev".into(),
            identity: identity("dev", "/home/dev"),
            ..Self::of_roles()
        }
    }

    /// Another machine, from a secret roll.
    #[must_use]
    pub fn second(layer: Option<&SetupLayer>, roll: u64) -> Self {
        let pick = |list: &[&'static str], shift: u32| list[(roll >> shift) as usize % list.len()];
        let (user, zone) = (pick(&USERS, 0), pick(&ZONES, 8));
        let part = |shift: u32| format!("{:x}", 0x1000 + ((roll >> shift) & 0xefff));
        let first = Self::first(layer);
        let (workspace, home) = match layer {
            Some(_) => (first.workspace, first.home),
            None => {
                // No usual name such as `/build`, which code could ask for on both machines.
                let letter = |at: u32| char::from(b'a' + u8::try_from((roll >> (16 + 5 * at)) % 26).unwrap_or(0));
                let top: String = (0..6).map(letter).collect();
                (PathBuf::from(format!("/{top}/{}", part(24))), PathBuf::from(format!("/home/{user}")))
            }
        };
        Self {
            workspace,
            identity: SandboxIdentity {
                user: user.to_owned(),
                id: 1001 + u32::try_from((roll >> 32) % 900).unwrap_or(0),
                home: home.clone(),
                host: format!("n{}", part(40)),
                // Away from the first machine's range, and below the sandbox's largest id.
                last_pid: 1500 + u32::try_from((roll >> 48) % 600).unwrap_or(0),
                // Between an hour and two months.
                uptime_ahead: 3600 + (roll >> 20) % 5_000_000,
                shows_cookie: false,
            },
            home,
            tmp: format!("t{}", part(12)),
            zone,
            is_second: true,
            has_writable_tests: false,
        }
    }

    /// The machine with folders of tests that programs may write to. On the first machine they may not; code that is
    /// right only where they may not is wrong. Only a run with falsified tests may use it: code that rewrites tests
    /// would also make the falsified ones pass.
    #[must_use]
    pub(crate) fn with_writable_tests(mut self) -> Self {
        self.has_writable_tests = true;
        self
    }

    /// Whether programs may write to the folders of tests here.
    pub(crate) fn has_writable_tests(&self) -> bool {
        self.has_writable_tests
    }

    /// Starts a program from a shell, so that its parent is not the first process, as it is on the first machine.
    pub(crate) fn with_parent(&self, mut spawn: SpawnRequest) -> SpawnRequest {
        if !self.is_second || spawn.confine.is_none() {
            return spawn;
        }
        let program = std::mem::replace(&mut spawn.program, "/bin/sh".into());
        // Without the last part a shell would become the program.
        let head = ["-c".into(), "\"$@\"; exit $?".into(), "sh".into(), program.into_os_string()];
        spawn.args.splice(0..0, head);
        spawn
    }

    /// Adds what a person's HOME has, where nothing is in its place: an empty HOME would show code where it is.
    pub(crate) fn furnish(&self, home: &Path) -> std::io::Result<()> {
        if !self.is_second {
            return Ok(());
        }
        for (name, text) in HOME_FILES {
            let place = home.join(name);
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(place, text)?;
        }
        Ok(())
    }

    /// A path below the roles' HOME, as this machine has it.
    pub(super) fn in_home(&self, path: &Path) -> PathBuf {
        path.strip_prefix(inside::HOME).map_or_else(|_| path.to_owned(), |rest| self.home.join(rest))
    }

    /// Changes the variables of a program to those of this machine.
    pub(super) fn adapt(&self, env: &mut BTreeMap<OsString, OsString>) {
        let home = self.home.to_string_lossy();
        for value in env.values_mut() {
            let text = value.to_string_lossy();
            if text.contains(inside::HOME) && self.home != Path::new(inside::HOME) {
                *value = text.replace(inside::HOME, &home).into();
            }
        }
        if !self.is_second {
            return;
        }
        for name in ["CI", "NO_COLOR", "PAGER", "GIT_PAGER", "EDITOR", "GIT_EDITOR"] {
            env.remove(std::ffi::OsStr::new(name));
        }
        let user = self.identity.user.as_str();
        for (name, value) in [
            ("TZ", self.zone),
            ("LANG", "en_US.UTF-8"),
            ("USER", user),
            ("LOGNAME", user),
            ("SHELL", "/bin/bash"),
            ("SHLVL", "2"),
            ("HISTSIZE", "1000"),
            ("XDG_SESSION_TYPE", "tty"),
        ] {
            env.insert(name.into(), value.into());
        }
        // A flag of Go that other commands ignore.
        env.entry("GOFLAGS".into()).or_insert_with(|| "-shuffle=on".into());
    }
}

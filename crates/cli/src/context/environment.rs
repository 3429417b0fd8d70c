//! The inputs of a command besides its arguments and files, read once. No other code reads the environment, so this
//! file lists everything that a command depends on.

use loopwright::KnownSecrets;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that a browser needs.
const SCREEN: [&str; 6] =
    ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// The environment variables and the current folder of a command. Empty variables count as absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandEnvironment {
    /// The folder the command was started in.
    pub(crate) cwd: PathBuf,
    /// `LOOPWRIGHT_CONFIG`: the user's configuration file.
    pub(crate) config: Option<PathBuf>,
    /// `LOOPWRIGHT_STATE_DIR`: the state directory.
    pub(crate) state_dir: Option<PathBuf>,
    /// `LOOPWRIGHT_STORE`: the database when it is not in the state directory.
    pub(crate) store: Option<String>,
    /// `LOOPWRIGHT_LOG`: how much to log while a round runs (`off`, `info`, `debug`).
    pub(crate) log: Option<String>,
    /// `XDG_CONFIG_HOME`; relative values are ignored, as its specification says.
    pub(crate) xdg_config: Option<PathBuf>,
    /// `XDG_STATE_HOME`; relative values are ignored, as its specification says.
    pub(crate) xdg_state: Option<PathBuf>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `PATH`.
    pub(crate) path: OsString,
    /// Every variable, so that the engine knows which values may not leave; a name or value that is not UTF-8 is left
    /// out.
    pub(crate) secrets: KnownSecrets,
    /// `NO_COLOR` is set.
    pub(crate) no_colour: bool,
    /// `PAGER`: the program that shows long pages.
    pub(crate) pager: Option<String>,
    /// `TERM`, for the pager.
    pub(crate) term: Option<OsString>,
    /// `LANG`, for the pager.
    pub(crate) lang: Option<OsString>,
    /// The variables with which a browser finds the screen and itself, where they are set: `BROWSER`, `DISPLAY` and others.
    pub(crate) screen: Vec<(&'static str, OsString)>,
    /// `TZ`: the zone that a loop without `timezone` means, where it names one of the zone database.
    pub(crate) tz: Option<String>,
    /// The folder of the machine's zone database, if it is not the usual one (`TZDIR`).
    pub(crate) tz_folder: Option<String>,
    /// `SSH_AUTH_SOCK`: the SSH agent, which may hold the key that signs commits.
    pub(crate) ssh_agent: Option<OsString>,
    /// `LOOPWRIGHT_TOKEN`: the token of the program that `mcp` serves.
    pub(crate) token: Option<String>,
    /// `NOTIFY_SOCKET`: where the service manager expects the daemon's state.
    pub(crate) notify: Option<PathBuf>,
}

impl CommandEnvironment {
    /// Reads the environment of this process.
    pub(crate) fn read() -> Self {
        let path = |name| variable(name).map(PathBuf::from);
        let absolute = |name| path(name).filter(|path| path.is_absolute());
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            // If the folder was deleted, the code that needs it reports that.
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            config: path("LOOPWRIGHT_CONFIG"),
            state_dir: path("LOOPWRIGHT_STATE_DIR"),
            store: text("LOOPWRIGHT_STORE"),
            log: text("LOOPWRIGHT_LOG"),
            xdg_config: absolute("XDG_CONFIG_HOME"),
            xdg_state: absolute("XDG_STATE_HOME"),
            home: absolute("HOME"),
            path: variable("PATH").unwrap_or_default(),
            secrets: secrets(),
            no_colour: variable("NO_COLOR").is_some(),
            pager: text("PAGER"),
            term: variable("TERM"),
            lang: variable("LANG"),
            screen: SCREEN.iter().filter_map(|name| Some((*name, variable(name)?))).collect(),
            tz: text("TZ"),
            tz_folder: text("TZDIR"),
            ssh_agent: variable("SSH_AUTH_SOCK"),
            token: text("LOOPWRIGHT_TOKEN"),
            notify: path("NOTIFY_SOCKET"),
        }
    }

    /// The default path of the user's own configuration.
    pub(crate) fn user_config(&self) -> Option<PathBuf> {
        let folder = self.xdg_config.clone().or_else(|| Some(self.home.as_ref()?.join(".config")));
        Some(folder?.join("loopwright").join("config.yaml"))
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn secrets() -> KnownSecrets {
    let texts = std::env::vars_os().map(|(name, value)| (name.into_string(), value.into_string()));
    KnownSecrets::from_environment(texts.filter_map(|(name, value)| Some((name.ok()?, value.ok()?))))
}

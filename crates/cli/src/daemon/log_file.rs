//! The log of a daemon without a terminal: one file and one before it, both bounded.

use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// From this size on a new file is begun.
const BYTES_MAX: u64 = 8 << 20;

/// Where it is.
pub(crate) fn log_path(state: &Path) -> PathBuf {
    state.join("daemon.log")
}

/// The state directory, made where it is not there.
pub(super) fn create_state_dir(state: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)
}

/// Opens it to be written at its end, beginning a new one where it is long.
pub(super) fn open_log(log: &Path) -> io::Result<File> {
    if std::fs::metadata(log).is_ok_and(|meta| meta.len() > BYTES_MAX) {
        std::fs::rename(log, log.with_extension("log.1"))?;
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(log, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The streams of a daemon without a terminal.
#[derive(Debug)]
pub(crate) struct DaemonLogFile(PathBuf);

impl DaemonLogFile {
    /// Makes standard output the log too, as standard error is from the start.
    pub(crate) fn redirect_stdout(state: &Path) -> Self {
        let streams = Self(log_path(state));
        if let Ok(file) = open_log(&streams.0) {
            let _ = rustix::stdio::dup2_stdout(&file);
        }
        streams
    }

    /// Begins a new file where the present one is long. One that cannot be begun leaves the old one in use.
    pub(crate) fn rotate(&self) {
        if !std::fs::metadata(&self.0).is_ok_and(|meta| meta.len() > BYTES_MAX) {
            return;
        }
        if let Ok(file) = open_log(&self.0) {
            let _ = rustix::stdio::dup2_stdout(&file);
            let _ = rustix::stdio::dup2_stderr(&file);
        }
    }
}

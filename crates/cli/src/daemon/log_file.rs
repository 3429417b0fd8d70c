//! The log of a daemon without a terminal: the current file and the one before it, both bounded.

use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The size at which a new file begins.
const BYTES_MAX: u64 = 8 << 20;

/// The path of the log.
pub(crate) fn log_path(state: &Path) -> PathBuf {
    state.join("daemon.log")
}

/// Creates the state directory if it does not exist.
pub(super) fn create_state_dir(state: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)
}

/// Opens the log for appending; begins a new file if it is too long.
pub(super) fn open_log(log: &Path) -> io::Result<File> {
    if std::fs::metadata(log).is_ok_and(|meta| meta.len() > BYTES_MAX) {
        std::fs::rename(log, log.with_extension("log.1"))?;
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(log, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The log file behind the streams of a daemon without a terminal.
#[derive(Debug)]
pub(crate) struct DaemonLogFile(PathBuf);

impl DaemonLogFile {
    /// Redirects standard output to the log; standard error goes there from the start.
    pub(crate) fn redirect_stdout(state: &Path) -> Self {
        let streams = Self(log_path(state));
        if let Ok(file) = open_log(&streams.0) {
            let _ = rustix::stdio::dup2_stdout(&file);
        }
        streams
    }

    /// Begins a new file if the current one is too long. If that fails, the old one stays in use.
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

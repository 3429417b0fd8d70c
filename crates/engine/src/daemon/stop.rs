//! The global stop as a file: any user who can write into the state directory can stop everything, with or without a
//! daemon, and the stop survives restarts. The row in the store has the same effect; either is enough.

use crate::error::EngineError;
use crate::state_dir::{StateDir, StateFileError};
use std::io::Read as _;
use std::path::PathBuf;

/// The file's name in the state directory.
pub const STOP_FILE: &str = "STOP";
/// The most bytes of the file that are read as a reason.
const READ_MAX: u64 = 500;

/// The file.
pub(super) struct StopFile(PathBuf);

impl StopFile {
    pub(super) fn in_state_dir(places: &StateDir) -> Self {
        Self(places.root().join(STOP_FILE))
    }

    /// Whether the file exists: one system call.
    pub(super) fn exists(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// Its first line.
    pub(super) fn reason(&self) -> String {
        let mut text = Vec::new();
        // Only a plain file is opened: opening a pipe would block the daemon.
        if self.0.metadata().is_ok_and(|meta| meta.is_file()) {
            // A file that cannot be read gives no reason.
            let _ = std::fs::File::open(&self.0).and_then(|file| file.take(READ_MAX).read_to_end(&mut text));
        }
        let first = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned();
        if first.is_empty() { format!("the file {} is there", self.0.display()) } else { first }
    }

    pub(super) fn write(&self, places: &StateDir, why: &str) -> Result<(), EngineError> {
        Ok(places.write(&self.0, format!("{why}\n").as_bytes())?)
    }

    pub(super) fn remove(&self) -> Result<(), EngineError> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StateFileError::new("remove", &self.0, error).into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};

    #[test]
    fn stop_file_of_any_kind_yields_a_reason_without_blocking() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("text"), "\n").expect("it can be written");
        std::fs::write(place("said"), "the pager rang\nand rang\n").expect("it can be written");
        std::fs::create_dir(place("folder")).expect("it can be made");
        rustix::fs::mknodat(CWD, place("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("it can be made");
        for name in ["text", "folder", "pipe", "nothing"] {
            let (file, (sender, receiver)) = (StopFile(place(name)), std::sync::mpsc::channel());
            std::thread::spawn(move || sender.send(file.reason()));
            let why = receiver.recv_timeout(std::time::Duration::from_secs(10));
            assert!(why.expect("the read does not wait for a writer").starts_with("the file "), "{name}");
        }
        assert_eq!(StopFile(place("said")).reason(), "the pager rang");
    }
}

//! Transcripts: what an agent wrote, byte for byte up to a cap, in the state directory. Never read back as evidence.

use crate::agents::{AgentEvent, AgentLog};
use crate::progress::{Notice, Progress};
use loopwright_core::spec::Role;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes kept of one agent start.
const KEPT_MAX: u64 = 16 << 20;

/// One agent start's transcript.
pub(super) struct Transcript<'a> {
    progress: &'a dyn Progress,
    role: Role,
    file: Option<BufWriter<fs::File>>,
    path: PathBuf,
    left: u64,
}

impl<'a> Transcript<'a> {
    /// Opens the file; a transcript that cannot be kept does not stop the round.
    pub(super) fn open(folder: &Path, role: Role, name: &str, progress: &'a dyn Progress) -> Self {
        let path = folder.join(format!("{name}.log"));
        let opened = crate::places::make_dir(folder)
            .ok()
            .and_then(|()| fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).ok());
        Self { progress, role, file: opened.map(BufWriter::new), path, left: KEPT_MAX }
    }

    /// The hash of what was kept, for the record.
    pub(super) fn finish(mut self) -> Option<String> {
        self.file.as_mut()?.flush().ok()?;
        drop(self.file.take());
        fs::read(&self.path).ok().map(|bytes| loopwright_core::hash::of_bytes(&bytes))
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(file) = self.file.as_mut() else { return };
        let take = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // Line by line, so that a round can be followed while it runs.
        let written = file.write_all(&bytes[..take]).and_then(|()| file.write_all(b"\n")).and_then(|()| file.flush());
        self.left = self.left.saturating_sub(take as u64 + 1);
        if written.is_err() || self.left == 0 {
            self.file = None;
        }
    }
}

impl AgentLog for Transcript<'_> {
    fn line(&mut self, event: AgentEvent<'_>) {
        if let AgentEvent::Text { bytes, .. } = event {
            self.keep(bytes);
            let shown: String = String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(500).collect();
            self.progress.notice(&Notice::Agent { role: self.role, line: &shown });
        }
    }
}

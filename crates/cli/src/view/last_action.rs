//! The running rounds of a list of loops: stage, attempt, elapsed time, and the last action of the agent, from the end
//! of its newest transcript. It works for rounds of any process.

use super::transcript::last_line_of;
use super::{safe, time};
use crate::context::open_plain;
use loopwright::store::RoundRow;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The end of a transcript that is read.
const TAIL: u64 = 64 << 10;

/// One running round.
#[derive(Debug, Clone)]
pub(crate) struct RunningLine {
    pub(crate) title: String,
    pub(crate) round: String,
    pub(crate) stage: String,
    pub(crate) attempt: i64,
    pub(crate) started_ms: i64,
}

impl RunningLine {
    /// The line of a round, under the name that the list uses for its loop.
    pub(crate) fn new(row: &RoundRow, title: String) -> Self {
        let stage = row.phase.word().to_owned();
        Self { title, round: row.id.clone(), stage, attempt: row.attempts, started_ms: row.started_ms }
    }

    /// For people, in one line of at most this width.
    pub(crate) fn render(&self, state: &Path, now: i64, width: usize) -> String {
        let elapsed = time::elapsed_text(now.saturating_sub(self.started_ms));
        let attempt = if self.attempt > 0 { format!(", attempt {}", self.attempt) } else { String::new() };
        let (title, round) = (safe(&self.title), safe(&self.round));
        let action = last_action(state, &self.round).map_or(String::new(), |action| format!("  {action}"));
        let line = format!("{title} {round}: {}{attempt}, {elapsed}{action}", self.stage);
        line.chars().take(width).collect()
    }
}

/// The last action of the agent that wrote last.
pub(crate) fn last_action(state: &Path, round: &str) -> Option<String> {
    let path = newest_transcript(&state.join("transcripts").join(round))?;
    let mut file = open_plain(&path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let whole = match length > TAIL {
        true => bytes.iter().position(|byte| *byte == b'\n').map_or(&[][..], |at| &bytes[at + 1..]),
        false => bytes.as_slice(),
    };
    last_line_of(whole, &path.file_stem()?.to_string_lossy())
}

fn newest_transcript(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    logs.max_by_key(|path| path.symlink_metadata().and_then(|about| about.modified()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_round_shows_stage_attempt_time_and_its_last_action() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("transcripts/r1");
        fs::create_dir_all(&folder).expect("a folder");
        let call = r#"{"type":"tool_use","tool_name":"write_file","parameters":{"file_path":"a.md","content":"x"}}"#;
        let long = "x".repeat(70_000);
        fs::write(folder.join("maker-1.log"), format!("{long}\nI will write\n{call}\n")).expect("writes");
        let line =
            RunningLine { title: "fix".into(), round: "r1".into(), stage: "make".into(), attempt: 1, started_ms: 0 };
        let shown = line.render(state.path(), 12_345, 200);
        assert_eq!(shown, "fix r1: make, attempt 1, 12s  maker-1 > write_file a.md (1 line)");
        assert_eq!(line.render(state.path(), 0, 10), "fix r1: ma");
    }
}

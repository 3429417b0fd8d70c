//! The last row of a terminal while a set-up command or a gate runs: its name, the elapsed time, and its last line. A
//! thread refreshes the time; every other line first clears the row. Without a terminal there is no row.

use crate::output::{CommandOutput, safe};
use crate::view::time;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How often the elapsed time changes.
const REFRESH: Duration = Duration::from_millis(500);
/// A program that is faster than this is not shown.
const QUIET: Duration = Duration::from_millis(300);

/// The row of one display.
#[derive(Debug)]
pub(crate) struct LiveRow(Option<Arc<Mutex<RowState>>>);

#[derive(Debug)]
struct RowState {
    out: CommandOutput,
    running: Option<RunningProgram>,
    /// Whether the row is on the screen now.
    is_shown: bool,
}

#[derive(Debug)]
struct RunningProgram {
    name: String,
    since: Instant,
    line: String,
}

impl LiveRow {
    /// A row for a terminal; none with `--json`.
    pub(crate) fn new(out: &CommandOutput) -> Self {
        if !out.streams().err_is_terminal || out.is_json() {
            return Self(None);
        }
        let row = Arc::new(Mutex::new(RowState { out: out.duplicate(), running: None, is_shown: false }));
        let refreshed = Arc::downgrade(&row);
        // The display works without the thread; only the elapsed time then does not change.
        let _ = std::thread::Builder::new().name("progress".to_owned()).spawn(move || refresh(&refreshed));
        Self(Some(row))
    }

    /// No row.
    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// A program started, or wrote a line.
    pub(crate) fn program(&self, name: &str, line: &str) {
        self.with(|row| {
            if line.is_empty() || row.running.as_ref().is_none_or(|running| running.name != name) {
                row.running =
                    Some(RunningProgram { name: name.to_owned(), since: Instant::now(), line: String::new() });
            }
            if let Some(running) = row.running.as_mut() {
                line.clone_into(&mut running.line);
            }
            row.draw();
        });
    }

    /// No program runs any more.
    pub(crate) fn end(&self) {
        self.with(|row| row.running = None);
        self.clear();
    }

    /// Makes room for another line.
    pub(crate) fn clear(&self) {
        self.with(|row| {
            if std::mem::take(&mut row.is_shown) {
                row.out.overwrite_row("");
            }
        });
    }

    fn with(&self, change: impl FnOnce(&mut RowState)) {
        if let Some(mut row) = self.0.as_ref().and_then(|row| row.lock().ok()) {
            change(&mut row);
        }
    }
}

impl Drop for LiveRow {
    fn drop(&mut self) {
        self.end();
    }
}

impl RowState {
    fn draw(&mut self) {
        let Some(running) = self.running.as_ref().filter(|running| running.since.elapsed() >= QUIET) else { return };
        let elapsed = i64::try_from(running.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let text = row_text(&running.name, elapsed, &running.line, self.out.streams().width);
        self.out.overwrite_row(&text);
        self.is_shown = true;
    }
}

/// The row, cut to the width of the terminal so that it never wraps.
fn row_text(name: &str, elapsed_ms: i64, line: &str, width: Option<u16>) -> String {
    let elapsed = time::elapsed_text(elapsed_ms);
    let text = format!("         {} {elapsed}  {}", safe(name), safe(line));
    text.trim_end().chars().take(usize::from(width.unwrap_or(80)).saturating_sub(1)).collect()
}

fn refresh(row: &Weak<Mutex<RowState>>) {
    while let Some(row) = row.upgrade() {
        if let Ok(mut row) = row.lock() {
            row.draw();
        }
        drop(row);
        std::thread::park_timeout(REFRESH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_the_program_its_time_and_its_last_line_and_never_wraps() {
        assert_eq!(row_text("tests", 12_345, "ok 3 \x1b[2J", Some(80)), r"         tests 12s  ok 3 \u{1b}[2J");
        assert_eq!(row_text("tests", 0, &"x".repeat(500), Some(30)).chars().count(), 29);
    }
}

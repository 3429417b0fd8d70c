//! The last line of a running program, for a display: reported a few times a second at most, and not kept. The output
//! itself is kept by the runner.

use crate::proc::{OutputStream, OutputWatch, WatchFlow};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two reports.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest line that is reported, in bytes.
const LINE_MAX: usize = 400;

/// Called with the name of a running program and its last line; the line is empty when the program starts.
#[derive(Clone, Copy)]
pub struct ProgramReport<'a>(pub &'a (dyn Fn(&str, &str) + Sync));

impl ProgramReport<'_> {
    /// Reports nothing.
    pub const NONE: ProgramReport<'static> = ProgramReport(&|_, _| ());
}

impl std::fmt::Debug for ProgramReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProgramReport")
    }
}

/// Watches the output of one program.
pub(crate) struct LiveLine<'a> {
    program: &'a str,
    report: ProgramReport<'a>,
    /// The beginning of the current line.
    line: Vec<u8>,
    reported: Option<Instant>,
}

impl<'a> LiveLine<'a> {
    /// Reports the start of a program and watches it.
    pub(crate) fn start(program: &'a str, report: ProgramReport<'a>) -> Self {
        (report.0)(program, "");
        Self { program, report, line: Vec::new(), reported: None }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let is_early = self.reported.is_some_and(|at| at.elapsed() < PAUSE);
        if !is_early && !line.trim().is_empty() {
            (self.report.0)(self.program, line.trim());
            self.reported = Some(Instant::now());
        }
        self.line.clear();
    }
}

impl OutputWatch for LiveLine<'_> {
    fn chunk(&mut self, _: OutputStream, bytes: &[u8]) -> WatchFlow {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let room = LINE_MAX.saturating_sub(self.line.len());
            let text = piece.strip_suffix(b"\n").or_else(|| piece.strip_suffix(b"\r"));
            self.line.extend(text.unwrap_or(piece).iter().take(room));
            if text.is_some() {
                self.end_line();
            }
        }
        WatchFlow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn the_start_and_whole_lines_are_reported_and_a_flood_is_not() {
        let seen = Mutex::new(Vec::new());
        let report = |program: &str, line: &str| seen.lock().expect("a lock").push(format!("{program}: {line}"));
        let mut live = LiveLine::start("tests", ProgramReport(&report));
        for bytes in [&b"one"[..], b" line\r\nnext\n", b"\xff\n".repeat(10_000).as_slice()] {
            live.chunk(OutputStream::Stdout, bytes);
        }
        assert_eq!(*seen.lock().expect("a lock"), ["tests: ", "tests: one line"]);
    }
}

//! The transcript of one start of an agent, as lines for people: the agent's activity, or the recorded stream. It reads
//! from where it stopped, so that a running agent can be followed.

use super::safe;
use crate::context::open_plain;
use crate::output::{CommandOutput, TextStyle};
use loopwright::agents::{ActivityReader, AgentActivity, ToolEnd};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

/// A longer line is shown in pieces.
const PIECE_MAX: u64 = (1 << 20) + 1;
/// The lines of a tool's result that are shown.
const RESULT_LINES: usize = 4;
/// The characters of a line of a tool's result that are shown.
const RESULT_CHARS: usize = 200;

/// How a transcript is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TranscriptForm {
    /// The messages, tools and results.
    Activity,
    /// The stream as it was recorded.
    Raw,
}

/// The position of a reader in a transcript.
pub(crate) struct TranscriptReader {
    path: PathBuf,
    name: String,
    form: TranscriptForm,
    offset: u64,
    activity: ActivityReader,
}

impl TranscriptReader {
    /// At the beginning of a transcript, whose lines are shown with this name.
    pub(crate) fn new(path: PathBuf, name: String, form: TranscriptForm) -> Self {
        Self { path, name, form, offset: 0, activity: ActivityReader::new() }
    }

    /// Shows the whole lines that were added. A file that cannot be read has none; its round is not affected.
    pub(crate) fn show_new(&mut self, out: &CommandOutput) {
        let _ = self.read(&mut |line| out.print(line), &|look, text| out.style(look, text), LineEnd::Required);
    }

    /// Shows the rest, also a last line without an end.
    pub(crate) fn finish(&mut self, out: &CommandOutput) {
        let paint = |look: TextStyle, text: &str| out.style(look, text);
        let _ = self.read(&mut |line| out.print(line), &paint, LineEnd::Optional);
        for activity in self.activity.finish() {
            shown(&activity, &self.name, &paint).iter().for_each(|line| out.print(line));
        }
    }

    fn read(
        &mut self,
        tell: &mut dyn FnMut(&str),
        paint: &dyn Fn(TextStyle, &str) -> String,
        end: LineEnd,
    ) -> io::Result<()> {
        let mut file = open_plain(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut file = BufReader::new(file);
        loop {
            let mut piece = Vec::new();
            let length = file.by_ref().take(PIECE_MAX).read_until(b'\n', &mut piece)? as u64;
            let is_whole = piece.ends_with(b"\n") || length == PIECE_MAX || end == LineEnd::Optional;
            if length == 0 || !is_whole {
                return Ok(());
            }
            self.offset += length;
            self.lines(piece.trim_ascii_end(), paint).iter().for_each(|line| tell(line));
        }
    }

    fn lines(&mut self, piece: &[u8], paint: &dyn Fn(TextStyle, &str) -> String) -> Vec<String> {
        match self.form {
            TranscriptForm::Raw => vec![prefixed(&self.name, '|', &String::from_utf8_lossy(piece))],
            TranscriptForm::Activity => {
                let done = self.activity.line(piece);
                done.iter().flat_map(|activity| shown(activity, &self.name, paint)).collect()
            }
        }
    }
}

/// The last line of this activity, without its indent; `None` if there is none.
pub(crate) fn last_line_of(transcript: &[u8], name: &str) -> Option<String> {
    let mut reader = ActivityReader::new();
    let mut done: Vec<AgentActivity> =
        transcript.split(|byte| *byte == b'\n').flat_map(|line| reader.line(line)).collect();
    done.extend(reader.finish());
    let lines = done.last().map(|activity| shown(activity, name, &|_, text| text.to_owned()))?;
    lines.last().map(|line| line.trim_start().to_owned())
}

/// Whether a line counts before its end was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Required,
    Optional,
}

/// An activity in lines: `|` text, `>` a tool, `<` its result, `!` its failure, `✗` its refusal, `*` a notice.
fn shown(activity: &AgentActivity, name: &str, paint: &dyn Fn(TextStyle, &str) -> String) -> Vec<String> {
    let dim = |line: String| paint(TextStyle::Dim, &line);
    match activity {
        AgentActivity::Message(text) | AgentActivity::Output(text) => {
            text.trim().lines().map(|line| prefixed(name, '|', line)).collect()
        }
        AgentActivity::ToolCall { name: tool, arguments } => {
            vec![paint(TextStyle::Bold, &prefixed(name, '>', &format!("{tool} {arguments}")))]
        }
        AgentActivity::ToolResult { end: ToolEnd::Done, text } => {
            shortened(text).iter().map(|line| dim(prefixed(name, '<', line))).collect()
        }
        AgentActivity::ToolResult { end: ToolEnd::Failed, text } => {
            marked(name, '!', "failed", text).iter().map(|line| paint(TextStyle::Yellow, line)).collect()
        }
        AgentActivity::ToolResult { end: ToolEnd::Refused, text } => {
            marked(name, '✗', "refused", text).iter().map(|line| paint(TextStyle::Red, line)).collect()
        }
        AgentActivity::Notice(text) => vec![dim(prefixed(name, '*', text))],
    }
}

fn marked(name: &str, mark: char, word: &str, text: &str) -> Vec<String> {
    let mut lines = shortened(text);
    match lines.first_mut() {
        Some(first) => *first = format!("{word}: {first}"),
        None => lines.push(word.to_owned()),
    }
    lines.iter().map(|line| prefixed(name, mark, line)).collect()
}

/// The first lines of a tool's result, and how many follow.
fn shortened(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let short = |line: &&str| match line.char_indices().nth(RESULT_CHARS) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => (*line).to_owned(),
    };
    let mut first: Vec<String> = lines.iter().take(RESULT_LINES).map(short).collect();
    if lines.len() > RESULT_LINES {
        first.push(format!("… {} more lines", lines.len() - RESULT_LINES));
    }
    first
}

fn prefixed(name: &str, mark: char, text: &str) -> String {
    format!("  {} {mark} {}", safe(name), safe(text)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(transcript: &mut TranscriptReader, end: LineEnd) -> Vec<String> {
        let mut seen = Vec::new();
        transcript.read(&mut |line| seen.push(line.to_owned()), &|_, text| text.to_owned(), end).expect("reads");
        seen
    }

    fn transcript(bytes: &[u8], form: TranscriptForm) -> (tempfile::TempDir, TranscriptReader) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("maker-1.log");
        fs::write(&path, bytes).expect("writes");
        (dir, TranscriptReader::new(path, "maker-1".to_owned(), form))
    }

    #[test]
    fn whole_lines_are_shown_once_and_escaped() {
        let (_dir, mut maker) = transcript(b"one\n\x1b[2Jtwo\nha", TranscriptForm::Activity);
        let mut seen = read(&mut maker, LineEnd::Required);
        fs::write(&maker.path, b"one\n\x1b[2Jtwo\nhalf\nlast").expect("writes");
        seen.extend(read(&mut maker, LineEnd::Required));
        assert_eq!(seen, ["  maker-1 | one", r"  maker-1 | \u{1b}[2Jtwo", "  maker-1 | half"]);
        assert_eq!(read(&mut maker, LineEnd::Optional), ["  maker-1 | last"]);
    }

    #[test]
    fn a_refused_call_looks_refused_and_the_raw_form_keeps_the_stream() {
        let stream = concat!(
            r#"{"type":"tool_use","tool_name":"write_file","parameters":{"file_path":"a.md","content":"no"}}"#,
            "\n",
            r#"{"type":"tool_result","status":"error","output":"not found","error":{"type":"tool_not_registered"}}"#,
            "\n",
        );
        let (_dir, mut maker) = transcript(stream.as_bytes(), TranscriptForm::Activity);
        let lines = ["  maker-1 > write_file a.md (1 line)", "  maker-1 ✗ refused: not found"];
        assert_eq!(read(&mut maker, LineEnd::Required), lines);
        let (_dir, mut maker) = transcript(stream.as_bytes(), TranscriptForm::Raw);
        let raw = read(&mut maker, LineEnd::Required);
        assert!(raw[0].starts_with(r#"  maker-1 | {"type":"tool_use""#) && raw.len() == 2, "{raw:?}");
    }

    #[test]
    fn a_long_result_is_shortened_and_a_pipe_is_not_read() {
        let text = "1\n2\n3\n4\n5\n6".to_owned();
        let result = AgentActivity::ToolResult { end: ToolEnd::Done, text };
        let lines = shown(&result, "m", &|_, text| text.to_owned());
        assert_eq!(lines, ["  m < 1", "  m < 2", "  m < 3", "  m < 4", "  m < … 2 more lines"]);
        let (dir, mut maker) = transcript(b"", TranscriptForm::Raw);
        maker.path = dir.path().join("pipe.log");
        rustix::fs::mkfifoat(rustix::fs::CWD, &maker.path, 0o600.into()).expect("a pipe");
        let read = maker.read(&mut |_| (), &|_, text| text.to_owned(), LineEnd::Optional);
        assert!(read.is_err(), "a pipe without a writer would block");
    }
}

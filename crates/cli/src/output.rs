//! The only printer. Answers go to standard output, everything else to standard error; with `--json` the answer is
//! exactly one document. A command that runs in a daemon prints to the process that sent it. Control characters in
//! foreign text are escaped, so that no text can move the cursor, change colours or pass for a line of ours.

pub(crate) mod browser;
mod channel;
mod escape;
mod pager;
mod table;

pub(crate) use channel::{OutputChunk, OutputReceiver, OutputSender, StreamInfo};
pub(crate) use escape::{safe, safe_lines};
pub(crate) use table::TextTable;

use crate::args::GlobalFlags;
use crate::context::CommandEnvironment;
use crate::error::{CommandError, CommandExit, VerbResult};
use serde::Serialize;
use serde_json::json;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};
use std::sync::Mutex;

/// The longest answer to a question, in bytes.
const ANSWER_MAX: u64 = 1000;

/// The few styles of text; it stays readable without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// Headings.
    Bold,
    /// Less important text.
    Dim,
    /// Good.
    Green,
    /// Waiting.
    Yellow,
    /// Bad.
    Red,
}

impl TextStyle {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Red => "31",
        }
    }
}

/// The destination of text.
#[derive(Debug, Clone)]
enum OutputTarget {
    /// To this process's own streams.
    Own,
    /// To the process that sent the command.
    Remote(OutputSender),
}

impl OutputTarget {
    fn streams(&self) -> StreamInfo {
        match self {
            Self::Own => own_streams(),
            Self::Remote(line) => line.streams,
        }
    }

    fn write(&self, said: OutputChunk) -> io::Result<()> {
        match (self, said) {
            (Self::Remote(line), said) => line.send(said),
            (Self::Own, OutputChunk::Out(text)) => write_text(&mut io::stdout().lock(), &text),
            (Self::Own, OutputChunk::Err(text)) => write_text(&mut io::stderr().lock(), &text),
        }
    }
}

/// The printer of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    is_json: bool,
    target: OutputTarget,
    colour_out: bool,
    colour_err: bool,
    write_error: Mutex<Option<io::Error>>,
}

impl CommandOutput {
    /// A printer for one command; `line` leads to the process that sent it, if another process did.
    pub(crate) fn new(flags: &GlobalFlags, env: &CommandEnvironment, line: Option<OutputSender>) -> Self {
        let target = line.map_or(OutputTarget::Own, OutputTarget::Remote);
        let (may, streams) = (!flags.no_color && !env.no_colour, target.streams());
        Self {
            is_json: flags.json,
            target,
            colour_out: may && streams.out_is_terminal,
            colour_err: may && streams.err_is_terminal,
            write_error: Mutex::new(None),
        }
    }

    /// Another printer for the same streams.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            is_json: self.is_json,
            target: self.target.clone(),
            colour_out: self.colour_out,
            colour_err: self.colour_err,
            write_error: Mutex::new(None),
        }
    }

    /// The streams that it prints to.
    pub(crate) fn streams(&self) -> StreamInfo {
        self.target.streams()
    }

    /// Prints the output of a printer in another process, unchanged.
    pub(crate) fn relay(&self, said: OutputChunk) {
        let is_answer = matches!(said, OutputChunk::Out(_));
        let written = self.target.write(said);
        if is_answer {
            self.remember_error(written);
        }
    }

    /// Whether the answer is one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether standard output shows colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour_out
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.target.streams().out_is_terminal
    }

    /// How many characters a line may have: the width of the terminal, or no limit without one.
    pub(crate) fn width(&self) -> usize {
        self.target.streams().width.map_or(usize::MAX, usize::from)
    }

    /// Text in lines that fit the terminal.
    pub(crate) fn wrapped(&self, text: &str) -> String {
        table::wrap(text, self.width()).join("\n")
    }

    /// Whether the output still has a reader.
    pub(crate) fn has_reader(&self) -> bool {
        self.write_error.lock().is_ok_and(|trouble| trouble.is_none())
    }

    /// Clears the screen and prints a page; only for a terminal.
    pub(crate) fn redraw(&self, page: &str) {
        self.print(&format!("\x1b[H\x1b[2J{page}"));
    }

    /// Prints the answer of a command that did its work: the document with `--json`, else the page.
    pub(crate) fn answer<T: Serialize>(&self, document: &T, page: impl FnOnce() -> String) -> CommandExit {
        if self.is_json { self.document(document) } else { self.script(&page()) }
    }

    /// Prints a JSON document as the whole answer.
    pub(crate) fn document<T: Serialize>(&self, document: &T) -> CommandExit {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.print_raw(&text),
            Err(error) => self.note(&format!("error: write JSON: {error}")),
        }
        CommandExit::DONE
    }

    /// Prints a line or a page of the answer; does nothing with `--json`.
    pub(crate) fn print(&self, text: &str) {
        if !self.is_json {
            self.print_raw(text);
        }
    }

    /// Prints text in either format: a page, or a text that is meant for another program.
    pub(crate) fn script(&self, text: &str) -> CommandExit {
        self.print_raw(text);
        CommandExit::DONE
    }

    /// Prints a page, in the user's pager if this process has the terminal.
    pub(crate) fn paged(&self, page: &str, env: &CommandEnvironment) -> CommandExit {
        let has_terminal = matches!(self.target, OutputTarget::Own) && self.is_terminal();
        if has_terminal && pager::show(&whole_line(page), env) { CommandExit::DONE } else { self.script(page) }
    }

    /// Whether this process can ask a person: it has the terminal in both directions.
    pub(crate) fn can_ask(&self) -> bool {
        matches!(self.target, OutputTarget::Own) && !self.is_json && self.is_terminal() && io::stdin().is_terminal()
    }

    /// Asks a question that only `y` or `yes` answers with yes.
    pub(crate) fn ask(&self, question: &str) -> bool {
        self.remember_error(self.target.write(OutputChunk::Out(format!("{question} [y/N] "))));
        let mut answer = String::new();
        let read = io::stdin().lock().take(ANSWER_MAX).read_line(&mut answer);
        read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
    }

    /// Replaces the row of the cursor on standard error, without a line end; only for a terminal.
    pub(crate) fn overwrite_row(&self, text: &str) {
        // A failure to write to standard error cannot be reported anywhere.
        let _ = self.target.write(OutputChunk::Err(format!("\r\x1b[K{text}")));
    }

    /// Asks for a line of text, which is empty if there is no answer.
    pub(crate) fn ask_line(&self, question: &str) -> String {
        self.remember_error(self.target.write(OutputChunk::Out(format!("{question} "))));
        let mut answer = String::new();
        match io::stdin().lock().take(ANSWER_MAX).read_line(&mut answer) {
            Ok(_) => answer.trim().to_owned(),
            Err(_) => String::new(),
        }
    }

    /// Prints a line on standard error.
    pub(crate) fn note(&self, text: &str) {
        // A failure to write to standard error cannot be reported anywhere.
        let _ = self.target.write(OutputChunk::Err(whole_line(text)));
    }

    /// Text in a style, if standard output shows it.
    pub(crate) fn style(&self, look: TextStyle, text: &str) -> String {
        apply_style(self.colour_out, look, text)
    }

    /// Text in a style, if standard error shows it.
    pub(crate) fn style_note(&self, look: TextStyle, text: &str) -> String {
        apply_style(self.colour_err, look, text)
    }

    /// Prints the error of a command.
    pub(crate) fn error(&self, error: &CommandError) {
        if self.is_json {
            let CommandError { kind, text, hints, places, .. } = error;
            let error = json!({"kind": kind, "text": text, "hints": hints, "places": places});
            self.document(&json!({"schema": 1, "error": error}));
            return;
        }
        let text = match &error.detail {
            Some(detail) => {
                self.note(&detail.rendered);
                self.note("");
                &detail.summary
            }
            None => &error.text,
        };
        self.note(&format!("{} {}", self.style_note(TextStyle::Red, "error:"), safe_lines(text)));
        for hint in &error.hints {
            self.note(&format!("{} {}", self.style_note(TextStyle::Bold, "hint:"), safe_lines(hint)));
        }
    }

    /// Prints the error of a verb and ends printing: an answer that could not be written is a failure, except when its
    /// reader has gone.
    pub(crate) fn finish(&self, ended: VerbResult) -> CommandExit {
        let exit = ended.unwrap_or_else(|error| {
            self.error(&error);
            error.kind.exit()
        });
        let trouble = self.write_error.lock().ok().and_then(|mut trouble| trouble.take());
        match trouble {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.note(&format!("error: write to standard output: {error}"));
                if exit == CommandExit::DONE { CommandExit::FAILED } else { exit }
            }
            _ => exit,
        }
    }

    fn print_raw(&self, text: &str) {
        self.remember_error(self.target.write(OutputChunk::Out(whole_line(text))));
    }

    fn remember_error(&self, written: io::Result<()>) {
        if let (Err(error), Ok(mut trouble)) = (written, self.write_error.lock()) {
            trouble.get_or_insert(error);
        }
    }
}

fn own_streams() -> StreamInfo {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    StreamInfo {
        out_is_terminal: io::stdout().is_terminal(),
        err_is_terminal: io::stderr().is_terminal(),
        width: size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0),
    }
}

/// Prints a line on standard error, where no printer is available.
pub(crate) fn note(text: &str) {
    // A failure to write to standard error cannot be reported anywhere.
    let _ = OutputTarget::Own.write(OutputChunk::Err(whole_line(text)));
}

fn whole_line(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

fn apply_style(on: bool, look: TextStyle, text: &str) -> String {
    if on { format!("\x1b[{}m{text}\x1b[0m", look.code()) } else { text.to_owned() }
}

//! The only printer. Answers go to standard output, everything else to standard error; with `--json` the answer is
//! exactly one document. A command that runs in a daemon prints to whoever typed it. What others wrote is shown with its control characters escaped, so that no text can move the
//! cursor, change colours or pass for a line of ours.

mod escape;
mod line;
mod table;

pub(crate) use escape::{safe, safe_lines};
pub(crate) use line::{Heard, Line, Said, Streams};
pub(crate) use table::Table;

use crate::error::CommandError;
use crate::exit::Exit;
use serde::Serialize;
use serde_json::json;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;

/// What form answers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

/// Whether colour may be used at all; each stream still has to be a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On terminals.
    Terminals,
    /// Never.
    Never,
}

/// The few looks that text can have; each is readable without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// Good.
    Green,
    /// Waiting.
    Yellow,
    /// Bad.
    Red,
}

impl Look {
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

/// Where text goes.
#[derive(Debug, Clone)]
enum Voice {
    /// To this process's own streams.
    Own,
    /// To whoever typed the command, in another process.
    Line(Line),
}

impl Voice {
    fn streams(&self) -> Streams {
        match self {
            Self::Own => own_streams(),
            Self::Line(line) => line.streams,
        }
    }

    fn say(&self, said: Said) -> io::Result<()> {
        match (self, said) {
            (Self::Line(line), said) => line.say(said),
            (Self::Own, Said::Out(text)) => write_text(&mut io::stdout().lock(), &text),
            (Self::Own, Said::Err(text)) => write_text(&mut io::stderr().lock(), &text),
        }
    }
}

/// Where everything is printed.
#[derive(Debug)]
pub(crate) struct Output {
    form: Form,
    voice: Voice,
    colour_out: bool,
    colour_err: bool,
    trouble: Mutex<Option<io::Error>>,
}

impl Output {
    /// A printer for one command.
    pub(crate) fn new(form: Form, colour: Colour) -> Self {
        Self::with(Voice::Own, form, colour)
    }

    /// A printer for a command that was typed in another process.
    pub(crate) fn on_line(line: Line, form: Form, colour: Colour) -> Self {
        Self::with(Voice::Line(line), form, colour)
    }

    fn with(voice: Voice, form: Form, colour: Colour) -> Self {
        let (may, streams) = (colour == Colour::Terminals, voice.streams());
        Self {
            form,
            voice,
            colour_out: may && streams.out_is_terminal,
            colour_err: may && streams.err_is_terminal,
            trouble: Mutex::new(None),
        }
    }

    /// Another printer for the same streams.
    pub(crate) fn twin(&self) -> Self {
        Self {
            form: self.form,
            voice: self.voice.clone(),
            colour_out: self.colour_out,
            colour_err: self.colour_err,
            trouble: Mutex::new(None),
        }
    }

    /// What the streams are that it prints to.
    pub(crate) fn streams(&self) -> Streams {
        self.voice.streams()
    }

    /// Prints what a printer elsewhere said, as it is.
    pub(crate) fn relay(&self, said: Said) {
        let is_answer = matches!(said, Said::Out(_));
        let written = self.voice.say(said);
        if is_answer {
            self.remember(written);
        }
    }

    /// Whether the answer is one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Whether a person looks at standard output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.voice.streams().out_is_terminal
    }

    /// How many characters a line may have: the terminal's, or any number where there is none.
    pub(crate) fn width(&self) -> usize {
        self.voice.streams().width.map_or(usize::MAX, usize::from)
    }

    /// Whether what is printed still reaches somebody.
    pub(crate) fn is_heard(&self) -> bool {
        self.trouble.lock().is_ok_and(|trouble| trouble.is_none())
    }

    /// Clears the screen and prints a page; only for a terminal.
    pub(crate) fn redraw(&self, page: &str) {
        self.say(&format!("\x1b[H\x1b[2J{page}"));
    }

    /// Prints the answer: the document with `--json`, else the page.
    pub(crate) fn answer<T: Serialize>(&self, document: &T, page: impl FnOnce() -> String) {
        match self.form {
            Form::Json => self.document(document),
            Form::Text => self.say(&page()),
        }
    }

    /// Prints a JSON document as the whole answer.
    pub(crate) fn document<T: Serialize>(&self, document: &T) {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.say_raw(&text),
            Err(error) => self.note(&format!("error: write JSON: {error}")),
        }
    }

    /// Prints a line or a page of the answer; nothing with `--json`.
    pub(crate) fn say(&self, text: &str) {
        match self.form {
            Form::Text => self.say_raw(text),
            Form::Json => {}
        }
    }

    /// Prints text that is meant for another program, whatever the form.
    pub(crate) fn script(&self, text: &str) {
        self.say_raw(text);
    }

    /// Prints a line beside the answer.
    pub(crate) fn note(&self, text: &str) {
        // There is nobody left to tell when it cannot be written.
        let _ = self.voice.say(Said::Err(whole_line(text)));
    }

    /// Text in a look, where standard output shows it.
    pub(crate) fn look(&self, look: Look, text: &str) -> String {
        paint(self.colour_out, look, text)
    }

    /// Text in a look, where standard error shows it.
    pub(crate) fn note_look(&self, look: Look, text: &str) -> String {
        paint(self.colour_err, look, text)
    }

    /// Prints why a command did not do what it was asked.
    pub(crate) fn error(&self, error: &CommandError) {
        match self.form {
            Form::Json => self.document(&json!({
                "schema": 1,
                "error": {
                    "kind": error.kind,
                    "text": error.text,
                    "hints": error.hints,
                    "places": error.places,
                },
            })),
            Form::Text => self.error_text(error),
        }
    }

    fn error_text(&self, error: &CommandError) {
        let text = match &error.detail {
            Some(detail) => {
                self.note(&detail.rendered);
                self.note("");
                &detail.summary
            }
            None => &error.text,
        };
        self.note(&format!("{} {}", self.note_look(Look::Red, "error:"), safe_lines(text)));
        for hint in &error.hints {
            self.note(&format!("{} {}", self.note_look(Look::Bold, "hint:"), safe_lines(hint)));
        }
    }

    /// Ends printing: an answer that could not be written is a failure, except to a reader that has gone.
    pub(crate) fn finish(&self, exit: Exit) -> Exit {
        let trouble = self.trouble.lock().ok().and_then(|mut trouble| trouble.take());
        match trouble {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.note(&format!("error: write to standard output: {error}"));
                if exit == Exit::DONE { Exit::FAILED } else { exit }
            }
            _ => exit,
        }
    }

    fn say_raw(&self, text: &str) {
        self.remember(self.voice.say(Said::Out(whole_line(text))));
    }

    fn remember(&self, written: io::Result<()>) {
        if let (Err(error), Ok(mut trouble)) = (written, self.trouble.lock()) {
            trouble.get_or_insert(error);
        }
    }
}

fn own_streams() -> Streams {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    Streams {
        out_is_terminal: io::stdout().is_terminal(),
        err_is_terminal: io::stderr().is_terminal(),
        width: size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0),
    }
}

/// Prints a line beside the answer, from where no printer is at hand.
pub(crate) fn note(text: &str) {
    // There is nobody left to tell when standard error cannot be written.
    let _ = Voice::Own.say(Said::Err(whole_line(text)));
}

fn whole_line(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

fn paint(on: bool, look: Look, text: &str) -> String {
    if on { format!("\x1b[{}m{text}\x1b[0m", look.code()) } else { text.to_owned() }
}

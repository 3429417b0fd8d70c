//! Performing a script, in a process of its own. Harm is bounded: what a verb takes from the host has a ceiling.

mod children;
pub(super) mod files;
mod look;
mod verdict;

use super::verb::{Flood, OnFailure, Step, Verb};
use super::wire::{Payload, Task, WireNote};
use std::collections::BTreeMap;
use std::io::Write;

/// How a step failed, for people.
pub(super) type Done = Result<(), String>;

/// Does the work of a host process and gives its exit code.
pub(super) fn task(payload: Payload) -> i32 {
    match payload.task {
        Task::Steps(steps) => Performer::new(payload.marker).perform(steps),
        #[cfg(feature = "hostile")]
        Task::Hostile(task) => super::hostile::task(task),
    }
}

/// A complaint on standard error; nobody is left to tell when that is gone.
pub(super) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "scripted: {text}");
}

struct Performer {
    marker: String,
    usage: BTreeMap<String, String>,
    #[cfg(feature = "hostile")]
    eaten: Vec<Vec<u8>>,
}

impl Performer {
    fn new(marker: String) -> Self {
        Self {
            marker,
            usage: BTreeMap::new(),
            #[cfg(feature = "hostile")]
            eaten: Vec::new(),
        }
    }

    fn perform(mut self, steps: Vec<Step>) -> i32 {
        for step in steps {
            if let Err(why) = self.step(step.verb) {
                complain(&format!("line {}: {why}", step.line));
                if step.on_failure == OnFailure::Exit {
                    return 1;
                }
            }
        }
        0
    }

    /// Long because it is the table of verbs.
    fn step(&mut self, verb: Verb) -> Done {
        match verb {
            Verb::Say(text) => self.say(&text),
            Verb::Flood(flood) => pour(flood),
            Verb::Bytes(bytes) => print(&bytes),
            Verb::Write { path, text } => files::write(&path, &text),
            Verb::Append { path, text } => files::append(&path, &text),
            Verb::Replace { path, old, new } => files::replace(&path, &old, &new),
            Verb::Delete(path) => files::delete(&path),
            Verb::Symlink { path, target } => files::symlink(&path, &target),
            Verb::Hardlink { path, target } => files::hardlink(&path, &target),
            Verb::Fifo(path) => files::fifo(&path),
            Verb::Commit(message) => children::commit(&message),
            Verb::Git(args) => children::git(&args),
            Verb::Run(argv) => children::run(&argv),
            Verb::Stage { name, text } => files::stage(&name, &text),
            Verb::Cannot(text) => files::stage("CANNOT.md", &text),
            Verb::Verdict { word, scores, summary } => verdict::write(&word, &scores, &summary),
            Verb::VerdictRaw(text) => verdict::write_raw(&text),
            Verb::Usage(counts) => self.usage(counts),
            Verb::UsageWord(word) => self.usage(vec![("input".to_owned(), word)]),
            Verb::Trouble(word) => self.note(&WireNote::Trouble(word)),
            Verb::Exit(code) => std::process::exit(code),
            Verb::Die(signal) => look::die(&signal),
            Verb::Hang => hang(),
            Verb::SleepUntil(path) => files::wait_for(&path),
            Verb::Read(path) => files::read(&path),
            Verb::Env => look::env(),
            Verb::Connect(address) => look::connect(&address),
            Verb::Resolve(name) => look::resolve(&name),
            #[cfg(feature = "hostile")]
            Verb::Hostile(verb) => super::hostile::step(verb, &mut self.eaten),
        }
    }

    fn say(&self, text: &str) -> Done {
        self.note(&WireNote::Turn)?;
        print(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Counts that a report leaves out stay as they were.
    fn usage(&mut self, counts: Vec<(String, String)>) -> Done {
        self.usage.extend(counts);
        self.note(&WireNote::Usage(self.usage.clone()))
    }

    fn note(&self, note: &WireNote) -> Done {
        let json = serde_json::to_string(note).map_err(|error| error.to_string())?;
        print(format!("{}{json}\n", self.marker).as_bytes())
    }
}

/// Prints bytes at once; half a line is not kept back.
pub(super) fn print(bytes: &[u8]) -> Done {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| format!("print: {error}"))
}

/// What a verb that only looks found out.
pub(super) fn tell(what: &str, found: Result<String, impl std::fmt::Display>) -> Done {
    let line = match found {
        Ok(found) => format!("{what}: {found}\n"),
        Err(error) => format!("{what}: refused: {error}\n"),
    };
    print(line.as_bytes())
}

fn pour(flood: Flood) -> Done {
    let (piece, mut left) = match flood {
        Flood::Bytes(bytes) => ([[b'x'; 79].as_slice(), b"\n"].concat().repeat(800), bytes),
        Flood::OneLine(bytes) => (vec![b'x'; 64_000], bytes),
        Flood::TinyLines(lines) => (b"x\n".repeat(32_000), lines.saturating_mul(2)),
    };
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        print(&piece[..now])?;
        left -= now as u64;
    }
    Ok(())
}

pub(super) fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

#[expect(clippy::disallowed_methods, reason = "a performer is an agent: the environment is all it knows of its role")]
fn variable(name: &str) -> Result<std::path::PathBuf, String> {
    std::env::var_os(name).map(Into::into).ok_or_else(|| format!("the role has no {name}"))
}

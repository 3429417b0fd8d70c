//! Performs a script, in a process of its own. Harm is bounded: each resource that a verb takes from the host has a
//! limit.

pub(super) mod files;
mod findings;
mod programs;
mod verdict;

use super::host_protocol::{HostNote, HostPayload, HostTask};
use super::verb::{FloodKind, OnFailure, ScriptFinding, ScriptStep, ScriptVerb};
use loopwright_core::goal_plan::{BRIEF_FILE, PLAN_FILE};
use std::collections::BTreeMap;
use std::io::Write;

/// The result of a step; the error is for people.
pub(super) type Done = Result<(), String>;

/// Performs the task of a host process and returns its exit code.
pub(super) fn task(payload: HostPayload) -> i32 {
    match payload.task {
        HostTask::Steps(steps) => Performer::new(payload.marker).perform(steps),
        #[cfg(feature = "hostile")]
        HostTask::Hostile(task) => super::hostile::task(task),
    }
}

/// Prints an error on standard error; a failure to print is ignored.
pub(super) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "scripted: {text}");
}

struct Performer {
    marker: String,
    usage: BTreeMap<String, String>,
    /// The findings so far: an attacker writes its file once.
    findings: Vec<ScriptFinding>,
    #[cfg(feature = "hostile")]
    eaten: Vec<Vec<u8>>,
}

impl Performer {
    fn new(marker: String) -> Self {
        Self {
            marker,
            usage: BTreeMap::new(),
            findings: Vec::new(),
            #[cfg(feature = "hostile")]
            eaten: Vec::new(),
        }
    }

    fn perform(mut self, steps: Vec<ScriptStep>) -> i32 {
        for step in steps {
            if let Err(why) = self.step(step.verb) {
                complain(&format!("line {}: {why}", step.line));
                if step.on_failure == OnFailure::Exit {
                    return 1;
                }
            }
        }
        self.report_findings().map_or(1, |()| 0)
    }

    /// Writes the findings of the steps before.
    fn report_findings(&mut self) -> Done {
        let findings = std::mem::take(&mut self.findings);
        if findings.is_empty() { Ok(()) } else { findings::write(findings) }
    }

    /// Long because it is the table of verbs.
    fn step(&mut self, verb: ScriptVerb) -> Done {
        match verb {
            ScriptVerb::Say(text) => self.print_text(&text),
            ScriptVerb::Flood(flood) => pour(flood),
            ScriptVerb::Bytes(bytes) => print(&bytes),
            ScriptVerb::Write(path, text) => files::write(&path, &text),
            ScriptVerb::Append(path, text) => files::append(&path, &text),
            ScriptVerb::Replace(path, old, new) => files::replace(&path, &old, &new),
            ScriptVerb::Delete(path) => files::delete(&path),
            ScriptVerb::Symlink(path, target) => files::symlink(&path, &target),
            ScriptVerb::Hardlink(path, target) => files::hardlink(&path, &target),
            ScriptVerb::Fifo(path) => files::fifo(&path),
            ScriptVerb::Commit(message) => programs::commit(&message),
            ScriptVerb::Git(args) => programs::git(&args),
            ScriptVerb::Run(argv) => programs::run(&argv),
            ScriptVerb::Stage(name, text) => files::stage(&name, &text),
            ScriptVerb::Cannot(text) => files::stage("CANNOT.md", &text),
            ScriptVerb::Brief(text) => findings::write_plan(BRIEF_FILE, &text),
            ScriptVerb::Plan(text) => findings::write_plan(PLAN_FILE, &text),
            ScriptVerb::Finding(finding) => {
                self.findings.push(finding);
                Ok(())
            }
            ScriptVerb::NoFindings => findings::write_none(),
            ScriptVerb::RawFindings(text) => findings::write_raw(&text),
            ScriptVerb::Verdict(verdict) => verdict::write(&verdict),
            ScriptVerb::Usage(counts) => self.usage(counts),
            ScriptVerb::UsageWord(word) => self.usage(vec![("input".to_owned(), word)]),
            ScriptVerb::Trouble(word) => self.note(&HostNote::Trouble(word)),
            ScriptVerb::Exit(code) => {
                self.report_findings()?;
                std::process::exit(code)
            }
            ScriptVerb::Die(signal) => programs::die(&signal),
            ScriptVerb::Hang => {
                self.report_findings()?;
                hang()
            }
            ScriptVerb::SleepUntil(path) => files::wait_for(&path),
            ScriptVerb::Read(path) => files::read(&path),
            ScriptVerb::Env => programs::env(),
            ScriptVerb::Connect(address) => programs::connect(&address),
            ScriptVerb::Resolve(name) => programs::resolve(&name),
            #[cfg(feature = "hostile")]
            ScriptVerb::Hostile(verb) => super::hostile::step(verb, &mut self.eaten),
        }
    }

    fn print_text(&self, text: &str) -> Done {
        self.note(&HostNote::Turn)?;
        print(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Counts that a report omits stay unchanged.
    fn usage(&mut self, counts: Vec<(String, String)>) -> Done {
        self.usage.extend(counts);
        self.note(&HostNote::Usage(self.usage.clone()))
    }

    fn note(&self, note: &HostNote) -> Done {
        let json = serde_json::to_string(note).map_err(|error| error.to_string())?;
        print(format!("{}{json}\n", self.marker).as_bytes())
    }
}

/// Prints bytes immediately; an incomplete line is not buffered.
pub(super) fn print(bytes: &[u8]) -> Done {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| format!("print: {error}"))
}

/// Prints the result of a verb that only reads.
pub(super) fn print_result(what: &str, found: Result<String, impl std::fmt::Display>) -> Done {
    let line = match found {
        Ok(found) => format!("{what}: {found}\n"),
        Err(error) => format!("{what}: refused: {error}\n"),
    };
    print(line.as_bytes())
}

fn pour(flood: FloodKind) -> Done {
    let (piece, mut left) = match flood {
        FloodKind::Bytes(bytes) => ([[b'x'; 79].as_slice(), b"\n"].concat().repeat(800), bytes),
        FloodKind::OneLine(bytes) => (vec![b'x'; 64_000], bytes),
        FloodKind::TinyLines(lines) => (b"x\n".repeat(32_000), lines.saturating_mul(2)),
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

#[expect(clippy::disallowed_methods, reason = "a performer is an agent: it knows its role only from the environment")]
fn variable(name: &str) -> Result<std::path::PathBuf, String> {
    std::env::var_os(name).map(Into::into).ok_or_else(|| format!("the role has no {name}"))
}

//! What a person sees while a round runs, on standard error. Lines of agents are escaped, indented and prefixed, so that
//! none of them can pass for a line of ours.

use crate::output::{Look, Output, safe};
use crate::signals::Running;
use crate::view::time;
use loopwright::progress::{Notice, Progress};
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::round::Round;
use std::sync::Arc;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Telling {
    /// Nothing.
    Off,
    /// Stages, gates, and what agents write.
    Info,
    /// Also every move of the round.
    Debug,
}

impl Telling {
    /// Reads `LOOPWRIGHT_LOG`; nothing said means the middle.
    pub(crate) fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("info") => Some(Self::Info),
            Some("off") => Some(Self::Off),
            Some("debug") => Some(Self::Debug),
            Some(_) => None,
        }
    }
}

/// Shows a round as it goes.
#[derive(Debug)]
pub(crate) struct Screen<'o> {
    out: &'o Output,
    telling: Telling,
    running: Running,
}

impl<'o> Screen<'o> {
    /// A screen; with `--json` it stays dark.
    pub(crate) fn new(out: &'o Output, telling: Telling, running: &Running) -> Self {
        let telling = if out.is_json() { Telling::Off } else { telling };
        Self { out, telling, running: Arc::clone(running) }
    }

    fn tell(&self, least: Telling, line: impl FnOnce() -> String) {
        if self.telling >= least {
            self.out.note(&line());
        }
    }

    fn stage(&self, word: &str, text: &str) -> String {
        format!("{} {}", self.out.note_look(Look::Bold, &format!("{word:<8}")), safe(text.trim_end()))
    }

    fn gate(&self, gate: &GateResult) -> String {
        let (look, sign) = match gate.status {
            GateStatus::Passed => (Look::Green, "✓"),
            GateStatus::Rejected => (Look::Red, "✗"),
            GateStatus::Failed => (Look::Red, "!"),
            GateStatus::Skipped => (Look::Dim, "-"),
        };
        let status = self.out.note_look(look, &format!("{sign} {}", gate.status));
        let reason = gate.reason.as_ref().map_or(String::new(), |reason| format!(" ({})", safe(reason)));
        format!("         {status} {}{reason}, {} ms", safe(&gate.name), gate.duration_ms)
    }

    fn moved(&self, round: &Round) {
        let started = &round.facts().started;
        if self.running.set(started.round.clone()).is_ok() {
            let text = format!("{} of {} at {}", started.round, started.spec.name, started.spec.level.short());
            self.tell(Telling::Info, || self.stage("round", &text));
        }
        self.tell(Telling::Debug, || self.out.note_look(Look::Dim, &format!("         → {}", round.phase().word())));
    }
}

impl Progress for Screen<'_> {
    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::Stage { stage, text } => self.tell(Telling::Info, || self.stage(stage.word(), text)),
            Notice::Agent { role, line } => self.tell(Telling::Info, || {
                self.out.note_look(Look::Dim, &format!("         {} | {}", role.word(), safe(line)))
            }),
            Notice::Gate(gate) => self.tell(Telling::Info, || self.gate(gate)),
            Notice::Moved(round) => self.moved(round),
            Notice::Waits { until_ms, why } => self.tell(Telling::Info, || {
                let left = time::until(*until_ms, time::now_ms());
                let when = format!("until {} UTC, {left}; Ctrl-C ends the round", time::clock(*until_ms));
                self.stage("waits", &format!("{when} ({why})"))
            }),
            Notice::SinkFailed { round, error } => {
                self.tell(Telling::Info, || self.stage("warning", &format!("round {round} was not told on: {error}")));
            }
        }
    }
}

//! The progress of a round for people, on standard error. Lines of agents are escaped, indented and prefixed, so that
//! none of them can pass for a line of ours.

mod live_row;

use crate::output::{CommandOutput, TextStyle, safe};
use crate::signals::CurrentRound;
use crate::view::time;
pub(crate) use live_row::LiveRow;
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::level::LoopLevel;
use std::sync::Arc;

/// How much to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProgressDetail {
    /// Print nothing.
    Off,
    /// Print stages, gates, and the output of agents.
    Info,
    /// Also every transition of the round.
    Debug,
}

impl ProgressDetail {
    /// Reads `LOOPWRIGHT_LOG`; the default is `info`.
    pub(crate) fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("info") => Some(Self::Info),
            Some("off") => Some(Self::Off),
            Some("debug") => Some(Self::Debug),
            Some(_) => None,
        }
    }
}

/// Prints a round as it runs.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    out: CommandOutput,
    detail: ProgressDetail,
    running: CurrentRound,
    row: LiveRow,
}

impl ProgressDisplay {
    /// A display; with `--json` it prints nothing.
    pub(crate) fn new(out: &CommandOutput, telling: ProgressDetail, running: &CurrentRound) -> Self {
        let detail = if out.is_json() { ProgressDetail::Off } else { telling };
        let row = if detail == ProgressDetail::Off { LiveRow::off() } else { LiveRow::new(out) };
        Self { out: out.duplicate(), detail, running: Arc::clone(running), row }
    }

    fn print(&self, least: ProgressDetail, line: impl FnOnce() -> String) {
        if self.detail >= least {
            self.row.clear();
            self.out.note(&line());
        }
    }

    fn stage(&self, word: &str, text: &str) -> String {
        format!("{} {}", self.out.style_note(TextStyle::Bold, &format!("{word:<8}")), safe(text.trim_end()))
    }

    fn gate(&self, gate: &GateResult) -> String {
        let (look, mark) = gate_mark(gate);
        format!("         {} {}", self.out.style_note(look, &mark), gate_text(gate))
    }

    fn recorded(&self, event: &LiveEvent, phase: &str, level: LoopLevel) {
        let round = event.round.clone().unwrap_or_default();
        let text = format!("{round} of {} at {}", event.loop_name(), level.short());
        if self.running.set(round).is_ok() {
            self.print(ProgressDetail::Info, || self.stage("round", &text));
        }
        self.print(ProgressDetail::Debug, || self.out.style_note(TextStyle::Dim, &format!("         → {phase}")));
    }
}

/// A gate's result as a sign and a word, and its colour.
pub(crate) fn gate_mark(gate: &GateResult) -> (TextStyle, String) {
    let (look, sign) = match gate.status {
        GateStatus::Passed => (TextStyle::Green, "✓"),
        GateStatus::Rejected => (TextStyle::Red, "✗"),
        GateStatus::Failed => (TextStyle::Red, "!"),
        GateStatus::Skipped => (TextStyle::Dim, "-"),
    };
    (look, format!("{sign} {}", gate.status))
}

/// A gate's name, its reason and how long it took.
pub(crate) fn gate_text(gate: &GateResult) -> String {
    let reason = gate.reason.as_ref().map_or(String::new(), |reason| format!(" ({})", safe(reason)));
    format!("{}{reason}, {} ms", safe(&gate.name), gate.duration_ms)
}

impl EventSink for ProgressDisplay {
    fn event(&self, event: &LiveEvent) {
        match &event.kind {
            EventKind::Stage { stage, text } => {
                self.row.end();
                self.print(ProgressDetail::Info, || self.stage(stage.word(), text));
            }
            EventKind::ProgramLine { program, line } => self.row.program(program, line),
            EventKind::AgentLine { role, line } => self.print(ProgressDetail::Info, || {
                self.out.style_note(TextStyle::Dim, &format!("         {} | {}", role.word(), safe(line)))
            }),
            EventKind::Gate(gate) => {
                self.row.end();
                self.print(ProgressDetail::Info, || self.gate(gate));
            }
            EventKind::Recorded { phase, level, .. } => {
                self.row.end();
                self.recorded(event, phase, *level);
            }
            EventKind::ProviderWait { until_ms, why } => self.print(ProgressDetail::Info, || {
                let left = time::time_until(*until_ms, time::now_ms());
                let when = format!("until {}, {left}; Ctrl-C ends the round", time::time_of_day(*until_ms));
                self.stage("waits", &format!("{when} ({why})"))
            }),
            _ => {}
        }
    }
}

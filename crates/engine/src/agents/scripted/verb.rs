//! The verbs of a script as data: the parser creates it, the host performs it, and between the two it is JSON.

use super::script_text::ScriptVerdict;
use loopwright_core::provider::TroubleKind;
use serde::{Deserialize, Serialize};

/// A step with its line number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScriptStep {
    /// From 1.
    pub(super) line: usize,
    /// Whether a failure of the step ends the script.
    pub(super) on_failure: OnFailure,
    /// The action.
    pub(super) verb: ScriptVerb,
}

/// The consequence of a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum OnFailure {
    /// The agent exits with 1.
    Exit,
    /// The failure is printed, and the script continues (`try …`).
    GoOn,
}

/// The size and form of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FloodKind {
    /// Bytes in lines of ordinary length.
    Bytes(u64),
    /// Bytes in one endless line.
    OneLine(u64),
    /// Lines of one letter.
    TinyLines(u64),
}

/// A provider's trouble in a `trouble` step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScriptTrouble {
    pub(super) kind: TroubleKind,
    pub(super) status: Option<u16>,
    /// Seconds.
    pub(super) retry_after: Option<u32>,
    pub(super) text: String,
}

/// An attacker's finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScriptFinding {
    pub(super) severity: String,
    pub(super) title: String,
    pub(super) path: String,
    pub(super) line: Option<u32>,
    pub(super) trigger: String,
    pub(super) reproduction: Option<String>,
}

/// Every verb, with its words in the order of the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ScriptVerb {
    Say(String),
    Flood(FloodKind),
    Bytes(Vec<u8>),
    Write(String, String),
    Append(String, String),
    Replace(String, String, String),
    Delete(String),
    Symlink(String, String),
    Hardlink(String, String),
    Fifo(String),
    Commit(String),
    Git(Vec<String>),
    Run(Vec<String>),
    Stage(String, String),
    Cannot(String),
    Brief(String),
    Plan(String),
    Finding(ScriptFinding),
    /// An attacker's file without a finding.
    NoFindings,
    /// An attacker's file, exactly this.
    RawFindings(String),
    Verdict(ScriptVerdict),
    Usage(Vec<(String, String)>),
    UsageWord(String),
    Trouble(ScriptTrouble),
    Exit(i32),
    Die(String),
    Hang,
    SleepUntil(String),
    Read(String),
    Env,
    Connect(String),
    Resolve(String),
    #[cfg(feature = "hostile")]
    Hostile(super::hostile::HostileVerb),
}

//! A scenario as data: blocks of turns, and the faults before a turn succeeds. [`super::parse`] reads the file;
//! [`super::scenario_player`] selects a block and a turn.

use loopwright::agents::scripted::script_text::ScriptVerdict;
use loopwright_core::budget::Tokens;
use loopwright_core::spec::Role;
use serde_json::Value;

/// A parsed scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelScenario {
    pub(super) blocks: Vec<ScenarioBlock>,
}

/// The answers of one conversation, turn by turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScenarioBlock {
    pub(super) header: ScenarioHeader,
    pub(super) turns: Vec<ScenarioTurn>,
}

/// The conversations that a block answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScenarioHeader {
    /// Conversations that no other block answers.
    Any,
    /// Conversations whose prompt contains this text.
    Text(String),
    /// Conversations of a role, in every attempt or in one.
    Role { role: Role, attempt: Option<u32> },
}

impl std::fmt::Display for ScenarioHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => write!(f, "any"),
            Self::Text(text) => write!(f, "text {text:?}"),
            Self::Role { role, attempt: None } => write!(f, "{}", role.word()),
            Self::Role { role, attempt: Some(attempt) } => write!(f, "{} attempt={attempt}", role.word()),
        }
    }
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScenarioTurn {
    /// The line of its act in the scenario.
    pub(super) line: usize,
    /// The text of the answer; may be empty.
    pub(super) say: String,
    /// The delay before the answer.
    pub(super) delay_ms: u64,
    pub(super) usage: Tokens,
    /// The faults before the answer succeeds, in order.
    pub(super) faults: Vec<TurnFault>,
    pub(super) act: TurnAction,
}

/// The action of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnAction {
    /// Ends the conversation with its text.
    End,
    /// Writes a text into a path.
    Write(String, String),
    /// Replaces, in a path, one text by another.
    Replace(String, String, String),
    Run(String),
    Read(String),
    /// Calls the tool with this name, such as that of a server, with these arguments.
    Call(String, Value),
    /// Puts a file into the round's outbox folder.
    Stage(String, String),
    /// In its raw text, `$NONCE`, `$TREE` and `$CANDIDATE` are replaced.
    Verdict(ScriptVerdict),
    /// A structured answer.
    Answer(Value),
    /// The provider's own refusal.
    Refuse,
    /// The answer is cut at the maximum length.
    Length,
}

/// A fault instead of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnFault {
    pub(super) kind: TurnFaultKind,
    /// How often, before the turn succeeds; every time if `None`.
    pub(super) times: Option<u32>,
}

/// The kind of a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnFaultKind {
    /// An answer with an error status.
    Error(ErrorReply),
    /// An error in the middle of an answer that began well.
    Failed { code: String, text: String },
    /// The connection is cut in the middle of the answer.
    Cut,
    /// The answer begins and hangs.
    Hang,
    /// No answer begins.
    Silent,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ErrorReply {
    pub(super) status: u16,
    /// The provider's word for it; if `None`, the usual one of the status.
    pub(super) kind: Option<String>,
    pub(super) text: String,
    /// Headers besides the usual ones.
    pub(super) headers: Vec<(String, String)>,
    /// The whole body, if the scenario has one.
    pub(super) body: Option<String>,
}

/// The usage of a turn without a `usage` line.
pub(super) const USUAL_USAGE: Tokens = Tokens { input: 1200, output: 60, cache_read: 800, cache_write: 0 };

/// All input tokens.
pub(super) fn prompt_tokens(usage: Tokens) -> u64 {
    Tokens { output: 0, ..usage }.total()
}

impl TurnAction {
    /// The word for it in the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Write(..) => "write",
            Self::Replace(..) => "replace",
            Self::Run(_) => "run",
            Self::Read(_) => "read",
            Self::Call(..) => "call",
            Self::Stage(..) => "stage",
            Self::Verdict(_) => "verdict",
            Self::Answer(_) => "answer",
            Self::Refuse => "refuse",
            Self::Length => "length",
        }
    }
}

//! What a scenario says, as data: blocks of turns, and what happens to a turn before it succeeds. Reading the file is
//! [`super::parse`]'s, choosing a block and a turn [`super::choose`]'s.

use loopwright_core::spec::Role;
use serde::Serialize;
use serde_json::Value;

/// A scenario, read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelScenario {
    pub(super) blocks: Vec<ScenarioBlock>,
}

/// What one conversation is answered with, turn by turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScenarioBlock {
    pub(super) header: ScenarioHeader,
    pub(super) turns: Vec<ScenarioTurn>,
}

/// Which conversations a block is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScenarioHeader {
    /// Whatever no other block is for.
    Any,
    /// Those whose prompt has these words.
    Text(String),
    /// A role's, in every attempt or in one.
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
    /// The scenario's line of its act.
    pub(super) line: usize,
    /// What it says with it; may be empty.
    pub(super) say: String,
    /// How long it thinks first.
    pub(super) delay_ms: u64,
    pub(super) usage: ScenarioUsage,
    /// What goes wrong before it comes, in order.
    pub(super) faults: Vec<TurnFault>,
    pub(super) act: TurnAction,
}

/// What a turn does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnAction {
    /// It ends the conversation with its words.
    End,
    Write {
        path: String,
        text: String,
    },
    Replace {
        path: String,
        old: String,
        new: String,
    },
    Run(String),
    Read(String),
    /// Puts a file into the round's outbox folder.
    Stage {
        name: String,
        text: String,
    },
    Verdict(ScenarioVerdict),
    /// A structured answer.
    Answer(Value),
    /// The provider's own refusal.
    Refuse,
    /// The answer is cut off at its longest length.
    Length,
}

/// A checker's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScenarioVerdict {
    /// Bound to what the brief says.
    Honest { word: String, scores: Vec<ScenarioScore>, summary: String },
    /// As it stands, but for `$NONCE`, `$TREE` and `$CANDIDATE`.
    Raw(String),
}

/// One dimension's score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScenarioScore {
    pub(super) dimension: String,
    pub(super) score: i64,
    pub(super) evidence: Vec<ScoreEvidence>,
}

/// What a score rests on. A quote that is not given is looked up in what the brief shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScoreEvidence {
    Gate(String),
    Line { path: String, line: u32, quote: Option<String> },
    Item { item: String, line: u32, quote: Option<String> },
}

/// Something that goes wrong instead of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnFault {
    pub(super) kind: TurnFaultKind,
    /// How often, before the turn comes; every time when not said.
    pub(super) times: Option<u32>,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnFaultKind {
    /// An answer with an error status.
    Error(ErrorReply),
    /// An error in the middle of an answer that began well.
    Failed { code: String, text: String },
    /// The connection is cut in the middle of the answer.
    Cut,
    /// The answer begins and does not go on.
    Hang,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorReply {
    pub(super) status: u16,
    /// The provider's word for it; the usual one of the status when not said.
    pub(super) kind: Option<String>,
    pub(super) text: String,
    /// Headers besides the usual ones.
    pub(super) headers: Vec<(String, String)>,
    /// The whole body, where the scenario writes it.
    pub(super) body: Option<String>,
}

/// Tokens of one answer. Input is what no cache had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct ScenarioUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

impl ScenarioUsage {
    /// What a turn costs when the scenario does not say.
    pub(super) const USUAL: Self = Self { input: 1200, output: 60, cache_read: 800, cache_write: 0 };

    /// The same tokens for a protocol that has no word for tokens written to a cache.
    pub(super) fn without_cache_write(self) -> Self {
        Self { input: self.input.saturating_add(self.cache_write), cache_write: 0, ..self }
    }

    /// All tokens that went in.
    pub(super) fn prompt(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All tokens.
    pub(super) fn total(self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Adds another answer's.
    pub(super) fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

impl TurnAction {
    /// The word for it in the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Write { .. } => "write",
            Self::Replace { .. } => "replace",
            Self::Run(_) => "run",
            Self::Read(_) => "read",
            Self::Stage { .. } => "stage",
            Self::Verdict(_) => "verdict",
            Self::Answer(_) => "answer",
            Self::Refuse => "refuse",
            Self::Length => "length",
        }
    }
}

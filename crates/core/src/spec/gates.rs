//! Mechanical gates as a loop file declares them. [`crate::gate`] judges their results; the engine runs them.

use super::Argv;
use crate::paths::SensitiveKind;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::Serialize;

/// One mechanical check; its key determines its kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a loop has a handful of gates, and a box would only blur the type")]
pub enum Gate {
    /// Runs a command on the sealed tree.
    Run(RunGate),
    /// Bounds the change itself.
    Diff(DiffGate),
    /// Changed data files parse.
    Parse(ParseGate),
    /// No conflict markers, stubs or to-dos in added lines.
    Markers(MarkersGate),
    /// A text is short enough.
    Length(LengthGate),
    /// No secrets; always on, so declaring it only changes its name in reports.
    Secrets(SecretsGate),
}

impl Gate {
    /// The gate's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Run(gate) => &gate.name,
            Self::Diff(gate) => &gate.name,
            Self::Parse(gate) => &gate.name,
            Self::Markers(gate) => &gate.name,
            Self::Length(gate) => &gate.name,
            Self::Secrets(gate) => &gate.name,
        }
    }
}

/// A gate that runs a command.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct RunGate {
    /// Its name.
    pub name: String,
    /// The command.
    pub run: Argv,
    /// Globs of files that decide the gate; base's versions are restored. Default: relative files named in `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// Must fail on base before the maker starts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub red_before: bool,
    /// Wall time; the engine's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// How often a failing run may be repeated; a flaky result is recorded.
    #[serde(skip_serializing_if = "super::is_default")]
    pub retries: u32,
    /// Hosts that the gate may reach in addition to the loop's; the entries are those of the loop's `network`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Conditions on the run beyond its exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<ExpectRule>,
    /// Positive evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceRule>,
    /// A number that is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreRule>,
    /// Whether tests are falsified to prove that they can fail; `auto` does so for gates that run tests.
    #[serde(skip_serializing_if = "super::is_default")]
    pub canary: CanaryMode,
    /// Whether the gate runs again on a machine with other names, places and time zone.
    #[serde(skip_serializing_if = "super::is_default")]
    pub vary: VaryMode,
    /// Lets the gate change its own inputs while it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inputs_writable: bool,
}

/// Whether a gate's tests are falsified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryMode {
    /// For gates that run tests, above L1.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Whether a gate runs again on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VaryMode {
    /// For gates that run tests, above L1, if they take at most two minutes.
    #[default]
    Auto,
    /// Above L1, however long it takes.
    Always,
    /// Never.
    Off,
}

impl RunGate {
    /// A gate with only a command.
    #[must_use]
    pub fn new(name: impl Into<String>, run: Argv) -> Self {
        Self { name: name.into(), run, ..Self::default() }
    }
}

/// Conditions on a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct ExpectRule {
    /// The exit code; zero if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// A pattern that stdout must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A pattern that stderr must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// A value in stdout read as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonRule>,
}

/// A value at a path of JSON output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JsonRule {
    /// Dotted path from the root, such as `$.summary.failed` or `$.items[0].ok`.
    pub path: String,
    /// The value it must equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<serde_json::Value>,
    /// The smallest allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The largest allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// Positive evidence that a gate really ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct EvidenceRule {
    /// A JUnit report the run must write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub junit: Option<String>,
    /// How many tests must have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests_at_least: Option<CountFloor>,
    /// Files the run must write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// A minimum: a number, or the count on base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CountFloor {
    /// A number.
    Number(f64),
    /// As many as on base, written `base`.
    Base(BaseWord),
}

/// The word `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaseWord {
    /// The count on the base commit.
    Base,
}

/// A number a run prints.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScoreRule {
    /// A pattern whose first group is the number.
    pub pattern: String,
    /// The better direction.
    pub better: ScoreDirection,
    /// The threshold (for `better: lower` it is the maximum).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<CountFloor>,
}

/// The better direction of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreDirection {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A gate on the change itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiffGate {
    /// Its name.
    pub name: String,
    /// The bounds.
    pub diff: DiffRule,
}

/// Bounds of a change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct DiffRule {
    /// Most files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_max: Option<u64>,
    /// Most added plus removed lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_max: Option<u64>,
    /// The only paths that may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Paths whose files may not be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_deletes: Vec<String>,
}

/// Every changed data file under these globs parses.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ParseGate {
    /// Its name.
    pub name: String,
    /// Globs of JSON, YAML and TOML files.
    pub parse: Vec<String>,
}

/// No unwanted markers in added lines.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MarkersGate {
    /// Its name.
    pub name: String,
    /// The markers.
    pub markers: Vec<LeftoverMarker>,
}

/// A kind of leftover text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LeftoverMarker {
    /// Merge conflict markers.
    Conflict,
    /// To-do notes.
    Todo,
    /// Stubs such as `unimplemented!()`.
    Stub,
}

/// A text is short enough.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LengthGate {
    /// Its name.
    pub name: String,
    /// The rule.
    pub length: LengthRule,
}

/// A bound in UTF-16 units.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LengthRule {
    /// The file.
    pub file: String,
    /// The most units, after one trailing newline is stripped.
    pub max: u64,
}

/// The secrets gate under a name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SecretsGate {
    /// Its name.
    pub name: String,
    /// Always on.
    pub secrets: super::OnOff,
}

/// A kind of sensitive change that a loop allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AllowedSensitive {
    /// The kind.
    pub kind: SensitiveKind,
    /// Why it may proceed without a person.
    pub because: String,
}

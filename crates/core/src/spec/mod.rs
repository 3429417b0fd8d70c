//! The loop as data: the contents of a loop file. Inert: cloned, serialised, compared, never run by itself.
//!
//! [`LoopSpec`] is the whole schema of a loop file; its canonical JSON has the same keys. [`LoopSpec::check`] turns it
//! into a [`CheckedSpec`], which is always valid and the only form that the engine accepts.

mod agents;
mod budget;
mod checked;
pub(crate) mod file;
mod gates;
mod json;
mod markdown;
mod output;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod reader;
pub(crate) mod rules;
mod scalar;
pub mod schema;
mod seed;
pub(crate) mod seed_cadence;
pub(crate) mod source;
pub(crate) mod tree;
mod triggers;
pub(crate) mod write;

pub use agents::{AgentSpec, AgentUse, Role};
pub use budget::{BudgetSpec, Ceilings};
pub use checked::CheckedSpec;
pub use file::read_loop_file;
pub use gates::{
    BaseWord, CountFloor, DiffGate, DiffRule, EvidenceRule, ExpectRule, Gate, JsonRule, LeftoverMarker, LengthGate,
    LengthRule, MarkersGate, ParseGate, RunGate, ScoreDirection, ScoreRule, SecretsGate,
};
pub use output::{ActionKind, OutputSpec};
pub use problem::{ProblemKind, SpecProblem, SpecProblems};
pub use schema::schema;
pub use seed::UnreadText;
pub use triggers::{Ask, CatchUp, ItemsForm, OWN_BRANCHES, Overlap, ProbeSpec, Triggers};
pub use write::{WrittenLoop, write_loop_file};

use crate::level::LoopLevel;
use crate::units::TimeSpan;
use crate::words::worded;
use schemars::JsonSchema;
use serde::Serialize;

/// A command as a list of words; a shell runs only if the command names one.
pub type Argv = Vec<String>;

/// The declaration of a loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct LoopSpec {
    /// Stable identifier, safe as a path and as a ref.
    pub name: String,
    /// One sentence: the purpose of this loop. It is part of every maker turn and every report.
    pub intent: String,
    /// How far the loop is trusted.
    pub level: LoopLevel,
    /// The triggers that make the loop due.
    #[serde(skip_serializing_if = "is_default")]
    pub on: Triggers,
    /// The shape of the work.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: LoopMode,
    /// Branch or commit that the work starts from; the checked-out branch if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Sparse scope: only these paths are checked out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether submodules are followed.
    #[serde(skip_serializing_if = "is_default")]
    pub submodules: OnOff,
    /// Whether large files are fetched.
    #[serde(skip_serializing_if = "is_default")]
    pub lfs: OnOff,
    /// The agent of each role.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub agents: std::collections::BTreeMap<Role, AgentSpec>,
    /// Skill files for the roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Further files of the repository shown to the maker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// Ceilings.
    pub budget: BudgetSpec,
    /// How often a maker may try within a round.
    pub attempts: u32,
    /// Mechanical checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// Paths whose existing files may not change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// When present, the only paths that may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_paths: Vec<String>,
    /// Checks that live outside the repository and are mounted only for the gate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heldout: Vec<HeldoutSpec>,
    /// Whether an independent checker must judge the candidate.
    #[serde(skip_serializing_if = "is_default")]
    pub check: CheckMode,
    /// The dimensions that the checker scores.
    pub rubric: Rubric,
    /// How the running application is exercised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prover: Option<ProverSpec>,
    /// The attackers that try to break the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attack: Option<AttackSpec>,
    /// Action kinds that may proceed without a human at L3.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<ActionKind>,
    /// The actions that the loop may send.
    pub output: Vec<OutputSpec>,
    /// The hosts that the loop may reach: `docs.example.org`, `*.example.org`, `example.org:8443`,
    /// `GET http://example.org/api/*`, `inspect GET https://example.org/api/*`; none if empty. `private` before an
    /// entry allows its name to resolve to a private network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// The forge that receives outputs.
    pub forge: String,
    /// The people who may approve; any person with local access if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// How many approvals are needed, and whether the person who started a round counts.
    #[serde(skip_serializing_if = "is_default")]
    pub approvals: ApprovalRule,
    /// How many proposals of this loop may be open at once.
    pub open_max: u32,
    /// Commands run on base, with network, before the maker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Argv>,
    /// Read-only shared paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
    /// Read-only homes of toolchains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub toolchains: Vec<String>,
    /// Names of secrets passed to gates only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Explicit opt-out of the sandbox, shown everywhere.
    #[serde(skip_serializing_if = "is_default")]
    pub sandbox: SandboxMode,
    /// Order among due loops; higher first.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: i32,
    /// Locks that only one round holds at a time: `path:src/`, `branch:main`, `issue:12`, `item` for the round's own
    /// items, or a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Wall time of a whole round; the round's budget if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// The prompt of each role.
    pub prompts: RolePrompts,
    /// Text that a builder method could not parse; [`LoopSpec::check`] reports it.
    #[doc(hidden)]
    #[serde(skip)]
    pub unread: Vec<UnreadText>,
}

/// The shape of a loop's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopMode {
    /// One pass.
    #[default]
    SingleRun,
    /// Works toward a measurable goal.
    GoalLoop,
    /// Recurring or watching.
    TimeLoop,
    /// Over many items.
    DynamicWorkflow,
}

/// On or off, written as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnOff {
    /// Off.
    #[default]
    Off,
    /// On.
    On,
}

/// Whether the checker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckMode {
    /// An independent verdict is required.
    #[default]
    Required,
    /// No checker; allowed only for an L1 loop.
    None,
}

/// Whether the sandbox is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// The strongest sandbox that the host supports.
    #[default]
    On,
    /// No sandbox, by explicit choice.
    Off,
}

/// The dimensions that the checker scores, and the scores needed to pass.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rubric {
    /// The mean score that must be reached.
    pub threshold: f64,
    /// The score that every dimension must reach.
    pub floor: u8,
    /// Dimension and its meaning; empty means the built-in ones.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub dimensions: std::collections::BTreeMap<String, String>,
}

impl Default for Rubric {
    fn default() -> Self {
        Self { threshold: 3.5, floor: 3, dimensions: std::collections::BTreeMap::new() }
    }
}

worded! {
    /// A place where people are asked about a waiting candidate, besides the inbox.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum AskPlace {
        /// A message with buttons.
        Slack = "slack",
        /// A comment on the item's issue or pull request, or an issue.
        Forge = "forge",
    }
}

/// The approvals that a waiting candidate needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApprovalRule {
    /// How many different people have to approve.
    pub quorum: u32,
    /// Whether the person who started the round manually may not approve it.
    pub separate: bool,
    /// Where people are asked, besides the inbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<AskPlace>,
}

impl Default for ApprovalRule {
    fn default() -> Self {
        Self { quorum: 1, separate: false, ask: Vec::new() }
    }
}

/// How the engine starts and exercises the application.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProverSpec {
    /// Starts the application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Argv,
    /// The address that responds when it is ready; `{port}` is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Exercises it.
    pub exercise: Argv,
}

/// The attackers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttackSpec {
    /// Their roles.
    pub roles: Vec<String>,
}

/// A check whose expected values never enter the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HeldoutSpec {
    /// Its name.
    pub name: String,
    /// The command under test.
    pub run: Argv,
    /// Files outside the repository, mounted for the gate only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Lines of `{"in": …, "out": …}`.
    pub cases: String,
}

/// The prompt of each role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct RolePrompts {
    /// For the planner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// For the maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maker: Option<String>,
    /// For the prover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prover: Option<String>,
    /// For the attackers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacker: Option<String>,
    /// For the checker; the built-in prompt if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checker: Option<String>,
}

impl LoopSpec {
    /// The agents of a role, in the order in which they are tried. If the loop does not name a checker, a fresh start
    /// of the maker's agent checks.
    #[must_use]
    pub fn chain(&self, role: Role) -> Vec<AgentSpec> {
        let named = self.agents.get(&role);
        let named = if role == Role::Checker { named.or_else(|| self.agents.get(&Role::Maker)) } else { named };
        named.map(AgentSpec::chain).unwrap_or_default()
    }

    /// Whether its rounds lock the items they work on.
    #[must_use]
    pub fn locks_items(&self) -> bool {
        self.locks.iter().any(|lock| lock == crate::dispatch::OWN_ITEMS)
    }

    /// A loop with safe defaults: the seed's constructor. A loop without triggers starts only manually.
    #[must_use]
    pub fn new(name: impl Into<String>, intent: impl Into<String>, level: LoopLevel) -> Self {
        Self {
            name: name.into(),
            intent: intent.into(),
            level,
            attempts: 3,
            output: vec![OutputSpec::new(ActionKind::Report)],
            forge: "local".to_owned(),
            open_max: 3,
            ..Self::default()
        }
    }

    /// Whether the loop may send this kind.
    #[must_use]
    pub fn outputs(&self, kind: ActionKind) -> bool {
        self.output.iter().any(|output| output.kind == kind)
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

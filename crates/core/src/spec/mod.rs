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
mod withhold;
mod workflow;
pub(crate) mod write;

pub(crate) use agents::is_provider_name;
pub use agents::{AgentSpec, AgentUse, Role};
pub use budget::{BudgetSpec, Ceilings};
pub use checked::CheckedSpec;
pub use file::read_loop_file;
pub use gates::{
    AllowedSensitive, BaseWord, CanaryMode, CountFloor, DiffGate, DiffRule, EvidenceRule, ExpectRule, Gate, JsonRule,
    LeftoverMarker, LengthGate, LengthRule, MarkersGate, ParseGate, RunGate, ScoreDirection, ScoreRule, SecretsGate,
    VaryMode,
};
pub use output::{ActionKind, OutputSpec};
pub use problem::{ProblemKind, SpecProblem, SpecProblems};
pub use rules::outward::is_label;
pub use schema::schema;
pub use seed::UnreadText;
pub use triggers::{Ask, CatchUp, ItemsForm, OWN_BRANCHES, Overlap, ProbeSpec, Triggers};
pub use withhold::{WITHHELD_DEFAULT, WithholdOff, WithholdRule};
pub use workflow::{ItemJoin, WorkflowSpec};
pub use write::{WrittenLoop, write_loop_file};

use crate::attack::AttackRole;
use crate::level::LoopLevel;
use crate::units::TimeSpan;
use crate::words::worded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The files at the root of a repository in which people write instructions for agents; `instructions` shows them.
pub const INSTRUCTION_FILES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

/// A command as a list of words; a shell runs only if the command names one.
pub type Argv = Vec<String>;

/// The usual `chain_max`.
const CHAIN_MAX: u32 = 3;

fn is_usual_chain(most: &u32) -> bool {
    *most == CHAIN_MAX
}

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
    /// The items of a dynamic workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowSpec>,
    /// Branch or commit that the work starts from; the checked-out branch if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Sparse scope: only these paths are checked out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether workspaces have the files of submodules, from your local clones. A round cannot change them.
    #[serde(skip_serializing_if = "is_default")]
    pub submodules: OnOff,
    /// Whether workspaces have the content of Git LFS files, from your local store. A round cannot change them.
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
    /// Whether the maker's brief shows the repository's own instructions for agents (`AGENTS.md`, `CLAUDE.md`,
    /// `GEMINI.md` at the root of base), as data.
    #[serde(skip_serializing_if = "is_default")]
    pub instructions: OnOff,
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
    /// Kinds of sensitive changes that do not need a human, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_sensitive: Vec<AllowedSensitive>,
    /// When present, the only paths that may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_paths: Vec<String>,
    /// Checks that live outside the repository and are mounted only for the gate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heldout: Vec<HeldoutSpec>,
    /// Tests that are absent while the maker and the checker work: a share such as `20%`, patterns of paths, or `off`.
    /// If absent, 20% at L3 where base has at least 20 tests, otherwise none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withhold: Option<WithholdRule>,
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
    /// When attempts without a better result end the round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plateau: Option<PlateauSpec>,
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
    /// How often a planted change tests the checker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrate: Option<TimeSpan>,
    /// How many answers of loops to each other's comments, issues and pull requests may follow one another within an
    /// hour; after that a person is asked.
    #[serde(skip_serializing_if = "is_usual_chain")]
    pub chain_max: u32,
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
    /// Labels that the machine must have: rounds of the loop run on a worker with all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
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

worded! {
    /// The shape of a loop's work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum LoopMode {
        /// One pass.
        #[default]
        SingleRun = "single-run",
        /// Works toward a measurable goal.
        GoalLoop = "goal-loop",
        /// Recurring or watching.
        TimeLoop = "time-loop",
        /// Over many items.
        DynamicWorkflow = "dynamic-workflow",
    }
}

/// On or off, written as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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

/// How the engine starts and exercises the application. Exactly one of `exercise` and `http` exercises it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct ProverSpec {
    /// Starts the application; `{port}` is replaced by a free port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Argv,
    /// When it is ready: an address that answers (`http://127.0.0.1:{port}/health`), or text of a line that it prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// A command that exercises it; `{port}` is replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exercise: Argv,
    /// A request that exercises it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<ProofRequest>,
    /// The time limit of the whole proof; two minutes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// Whether a passing exercise counts as a gate named `proof`, which the checker may cite.
    #[serde(skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// An HTTP request to the application, and the expected answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProofRequest {
    /// The address, such as `http://127.0.0.1:{port}/add?a=1&b=2`.
    pub url: String,
    /// The expected status; 200 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Text that the answer must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

/// The attackers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttackSpec {
    /// Their roles.
    pub roles: Vec<AttackRole>,
    /// The time limit of each attacker; ten minutes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
}

/// The rule for a plateau.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlateauSpec {
    /// After how many attempts in a row without a better result the round ends; at most `attempts` minus two, so that it
    /// can save an attempt.
    pub window: u32,
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
    /// of the maker's agent checks, with the usual tools of a checker and no servers; the same holds for the planner and the
    /// attackers.
    #[must_use]
    pub fn chain(&self, role: Role) -> Vec<AgentSpec> {
        if let Some(named) = self.agents.get(&role) {
            return named.chain();
        }
        let maker = self.agents.get(&Role::Maker).filter(|_| role != Role::Prover);
        let least = |maker: &AgentSpec| AgentSpec { tools: Vec::new(), mcp_servers: Vec::new(), ..maker.clone() };
        let inherited = maker.map(least);
        inherited.as_ref().map(AgentSpec::chain).unwrap_or_default()
    }

    /// The ceilings of one start of a role. A role that another one's agent plays does not inherit that one's ceilings.
    #[must_use]
    pub fn role_ceilings(&self, role: Role) -> Ceilings {
        let own = self.agents.get(&role).map(|agent| agent.budget).unwrap_or_default();
        self.budget.role.tightest(own)
    }

    /// Whether a round of this loop starts agents of a role.
    #[must_use]
    pub fn plays(&self, role: Role) -> bool {
        match role {
            Role::Maker => true,
            Role::Planner => self.mode == LoopMode::GoalLoop || self.workflow.as_ref().is_some_and(plans),
            Role::Checker => self.check == CheckMode::Required,
            Role::Attacker => self.attack.is_some(),
            // The engine itself exercises the application.
            Role::Prover => false,
        }
    }

    /// The exercise of the prover as a gate.
    #[must_use]
    pub fn exercise_gate(&self) -> Option<Gate> {
        let exercise = &self.prover.as_ref()?.exercise;
        (!exercise.is_empty()).then(|| Gate::Run(RunGate::new("proof", exercise.clone())))
    }

    /// Every gate, and the exercise of the prover: base has to have the scripts of all of them.
    #[must_use]
    pub fn gates_and_exercise(&self) -> Vec<Gate> {
        self.gates.iter().cloned().chain(self.exercise_gate()).collect()
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
            chain_max: CHAIN_MAX,
            ..Self::default()
        }
    }

    /// Whether the loop may send this kind.
    #[must_use]
    pub fn outputs(&self, kind: ActionKind) -> bool {
        self.output.iter().any(|output| output.kind == kind)
    }
}

/// Whether a workflow has a planner: it lists the items, or plans each of them.
fn plans(workflow: &WorkflowSpec) -> bool {
    workflow.plan == OnOff::On || workflow.each == LoopMode::GoalLoop
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

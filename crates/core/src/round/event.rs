//! The events of a round. Every event is recorded before the engine acts on it; a round is the fold of its events.

use super::goal_event::{AttackFinished, AttackerResult, PlannerResult, ProofFinished};
use crate::actor::Actor;
use crate::autonomy::{LevelCeiling, LoopDebts};
use crate::budget::{BudgetAccount, BudgetLimit, CountedUsage, ModelSpend, Reservation, Spend};
use crate::calibration::PlantKind;
use crate::gate::GateResult;
use crate::human_gate::GateDecision;
use crate::memory::{MemoryEntry, MemoryNotes};
use crate::network::NetworkTraffic;
use crate::outbox::StagedItem;
use crate::provider::ProviderTrouble;
use crate::spec::Role;
use crate::verdict::Judgement;
use crate::words::worded;
use crate::workflow::WorkflowPlace;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One recorded event.
// `remote = "Self"` keeps the derived code out of the traits, so that reading can convert events of earlier builds
// first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The round exists.
    Started(Box<RoundStarted>),
    /// The loop's memory was read.
    Recalled(MemoryRecalled),
    /// The probe answered.
    Probed(ProbeAnswer),
    /// A private workspace at a pinned base exists.
    Isolated(WorkspaceIsolated),
    /// The gates that compare with base ran on it.
    Baselined(BaselineFinished),
    /// The agent of a role is about to start; its worst case is reserved.
    RoleStarted(RoleStarted),
    /// The agent's process tree has ended and its results were read.
    RoleEnded(Box<RoleEnded>),
    /// A known-bad change is planted for the checker of a calibration round.
    Planted(Box<PlantedChange>),
    /// The candidate is frozen.
    Sealed(Box<CandidateSealed>),
    /// The gates ran on the sealed candidate.
    Gated(GatesFinished),
    /// The engine exercised the application.
    Proved(ProofFinished),
    /// The reproductions of the attackers' findings ran.
    Attacked(AttackFinished),
    /// The human gate of the level answered.
    Decided {
        /// Its answer for the round's kinds together.
        decision: GateDecision,
    },
    /// A person approved.
    Approved(PersonDecision),
    /// A person denied.
    Denied(PersonDecision),
    /// No answer arrived in time.
    Expired(Expired),
    /// The delivery of one outbox item ended.
    Delivered(DeliveryEnded),
    /// Report and counters are written.
    Recorded(RoundRecorded),
    /// A ceiling leaves no budget for another agent.
    Ceiling(CeilingReached),
    /// Loopwright or its environment failed.
    Broke(StageFailed),
    /// A person or a signal stopped the round.
    Stopped(RoundStopped),
    /// A new engine found the round unfinished.
    Recovered,
    /// The wait of the round is over.
    Waited,
    /// A person resumes a suspended round.
    Resumed(RoundResumed),
    /// The engine sends an approved candidate again, which its receiver had blocked.
    Resent,
    /// A person's words for the agents that start from now on.
    Steered(PersonSteer),
    /// A person pauses the round before its next agent.
    Paused(RoundPaused),
    /// A person gives a waiting question more time.
    QuestionHeld(QuestionHeld),
}

impl Event {
    /// The event's name in the journal.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Recalled(_) => "recalled",
            Self::Probed(_) => "probed",
            Self::Isolated(_) => "isolated",
            Self::Baselined(_) => "baselined",
            Self::RoleStarted(_) => "role-started",
            Self::RoleEnded(_) => "role-ended",
            Self::Planted(_) => "planted",
            Self::Sealed(_) => "sealed",
            Self::Gated(_) => "gated",
            Self::Proved(_) => "proved",
            Self::Attacked(_) => "attacked",
            Self::Decided { .. } => "decided",
            Self::Approved(_) => "approved",
            Self::Denied(_) => "denied",
            Self::Expired(_) => "expired",
            Self::Delivered(_) => "delivered",
            Self::Recorded(_) => "recorded",
            Self::Ceiling(_) => "ceiling",
            Self::Broke(_) => "broke",
            Self::Stopped(_) => "stopped",
            Self::Recovered => "recovered",
            Self::Waited => "waited",
            Self::Resumed(_) => "resumed",
            Self::Resent => "resent",
            Self::Steered(_) => "steered",
            Self::Paused(_) => "paused",
            Self::QuestionHeld(_) => "question-held",
        }
    }

    /// The role whose agent started or ended.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        match self {
            Self::RoleStarted(started) => Some(started.role),
            Self::RoleEnded(ended) => Some(ended.role()),
            _ => None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let recorded = converted(Value::deserialize(deserializer)?);
        Self::deserialize(recorded).map_err(serde::de::Error::custom)
    }
}

/// Earlier builds had one kind of event for each role; the other fields are the same.
fn converted(mut recorded: Value) -> Value {
    let (kind, role) = match recorded.get("event").and_then(Value::as_str) {
        Some("maker-started") => ("role-started", Role::Maker),
        Some("made") => ("role-ended", Role::Maker),
        Some("checker-started") => ("role-started", Role::Checker),
        Some("checked") => ("role-ended", Role::Checker),
        _ => return recorded,
    };
    if let Some(fields) = recorded.as_object_mut() {
        fields.insert("event".to_owned(), kind.into());
        fields.insert("role".to_owned(), role.word().into());
    }
    recorded
}

/// The start of a round: everything that must not change while it runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoundStarted {
    /// The round's id.
    pub round: String,
    /// The repository's id.
    pub repo: String,
    /// The repository's folder.
    pub repo_path: String,
    /// The trigger that made the loop due.
    pub trigger: String,
    /// The occurrence's key; unique per loop.
    pub occurrence: String,
    /// The loop as it was read, in canonical JSON.
    pub spec: crate::spec::LoopSpec,
    /// Its hash.
    pub spec_hash: String,
    /// The actor that started it.
    pub actor: String,
    /// An item that a person named, or that a signal or an earlier probe brought.
    pub item: Option<ProbeItem>,
    /// The other items, if one round takes several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<ProbeItem>,
    /// The number of effects of loops that led to the start itself, such as the commit of a push; items have their own
    /// numbers.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub chain: u32,
    /// Whether outputs are only shown.
    pub dry_run: bool,
    /// The boundary around agents and gates.
    pub boundary: Boundary,
    /// Why this host may not run the loop at its level; nothing is started then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Files outside the spec that the round depends on (scripts, skills): path and hash.
    pub inputs: Vec<(String, String)>,
    /// How long it may wait for providers in total, in milliseconds; if zero, it is suspended at once.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub provider_wait_ms: u64,
    /// Whether a blocked agent is waited for before the next one of its chain starts. Rounds of earlier versions started
    /// the next one at once; their records are read by that order.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub waits_first: bool,
    /// The ended round that this one retries, for the same item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Whether the round only shows a planted change to the checker. Such a round sends nothing.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub calibration: bool,
    /// The open proposal that the round moves onto a newer base. Such a round starts no maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebase: Option<RebaseOrigin>,
    /// The workflow that the round is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowPlace>,
    /// The contract that the round works toward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalOrigin>,
}

/// The contract of a goal's round, as it was when the round started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GoalOrigin {
    /// Its file, from the root of the working copy.
    pub file: String,
    /// Each criterion, and the gate that decides it; without one, a person judges it.
    pub criteria: Vec<(String, Option<String>)>,
}

/// An open proposal of an earlier round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RebaseOrigin {
    /// The round that proposed it first.
    pub round: String,
    /// The proposal's branch.
    pub branch: String,
    /// The commit that the branch has now, which the engine pushed.
    pub commit: String,
    /// The pull request as it was approved.
    pub items: Vec<StagedItem>,
}

/// The confinement of agents on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Boundary {
    /// How strong it is.
    pub level: BoundaryLevel,
    /// How files are confined.
    pub filesystem: String,
    /// How the network is confined.
    pub network: String,
    /// How process trees are confined.
    pub processes: String,
    /// The parts that are not confined.
    pub gaps: Vec<String>,
}

worded! {
    /// How strong a boundary is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BoundaryLevel {
        /// The kernel confines files, network and processes.
        Kernel = "kernel",
        /// Process trees are ended as a whole; nothing else is confined, because this host cannot.
        #[default]
        Process = "process",
        /// The same, because the loop file requests it.
        Off = "off",
    }
}

/// A unit of outside work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeItem {
    /// Stable, revision-bound key.
    pub key: String,
    /// A title for people.
    #[serde(default)]
    pub title: Option<String>,
    /// Untrusted data for the maker.
    #[serde(default)]
    pub data: Option<String>,
    /// How many effects of loops, each an answer to the one before it, led to this item within the last hour. 0 if a
    /// person caused it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chain: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The loop's memory and budgets at the start of the round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryRecalled {
    /// The loop's spend today, settled and reserved.
    pub day_micros: u64,
    /// Keys of items that are done or given up.
    pub settled_items: Vec<String>,
    /// The last rounds, one line each, for the maker.
    pub history: Vec<String>,
    /// The day and month budgets that this round draws on, as they were before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<BudgetAccount>,
    /// The loop's memory, latest first. Data, never instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryEntry>,
    /// The highest level at which the round may run, if that is below the level in the loop file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<LevelCeiling>,
}

/// A probe's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// There is work.
    Work {
        /// The items to work on; empty if the probe names none.
        items: Vec<ProbeItem>,
    },
    /// There is no work.
    Nothing,
    /// The probe failed.
    Failed {
        /// How.
        text: String,
    },
}

/// A workspace at a pinned base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceIsolated {
    /// The base commit.
    pub base: String,
    /// The branch it came from, if it is on one.
    pub branch: Option<String>,
}

/// Gates on base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineFinished {
    /// Their results there.
    pub results: Vec<GateResult>,
}

/// The start of a role's agent, recorded before the agent starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleStarted {
    /// The role.
    pub role: Role,
    /// The attempt, from 1; 0 for a planner.
    pub attempt: u32,
    /// For an attacker: its role in the loop file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The agent's name.
    pub agent: String,
    /// Its program's version, if it is known before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The cookie that identifies its process tree after a crash.
    pub cookie: String,
    /// Its worst case.
    pub reserved: Reservation,
    /// The day that its cost counts against, `YYYY-MM-DD`; in old records the day of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The day of its loop, in the loop's zone, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_day: Option<String>,
    /// For a checker: the nonce that its verdict must carry.
    #[serde(default)]
    pub nonce: Option<String>,
    /// Its place in the chain of its role, from zero.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub place: u32,
    /// How many of the chain come after it.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub left: u32,
}

impl RoleStarted {
    /// The agent's name in reasons.
    #[must_use]
    pub fn label(&self) -> String {
        agent_label(&self.agent, self.model.as_deref())
    }
}

pub(super) fn agent_label(agent: &str, model: Option<&str>) -> String {
    model.map_or_else(|| agent.to_owned(), |model| format!("{agent} ({model})"))
}

/// How an agent's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum AgentEnd {
    /// It exited with a code.
    Exited {
        /// The code.
        code: i32,
    },
    /// A signal that the engine did not send ended it.
    Signaled {
        /// The signal.
        signal: i32,
    },
    /// The engine ended it because a ceiling was reached.
    Limit {
        /// The ceiling.
        limit: BudgetLimit,
        /// A description.
        text: String,
    },
    /// It could not be run.
    Unusable {
        /// Why.
        text: String,
    },
    /// It ran, and its model provider blocked it.
    Provider {
        /// The trouble.
        trouble: ProviderTrouble,
        /// When, in milliseconds since 1970; waits are counted from it.
        #[serde(default)]
        at_ms: i64,
    },
}

/// The end of a role's agent: how it ended, what it cost and what it produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleEnded {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The start that ended; `None` in records of earlier builds, where only one agent ran at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// How it ended.
    pub end: AgentEnd,
    /// Its cost.
    pub spend: Spend,
    /// The same by model, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelSpend>,
    /// The source of these counts.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub counted: CountedUsage,
    /// Its tool calls that were refused, as its output shows them. For people only; nothing depends on it.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub refused_calls: u32,
    /// Content hash of the transcript.
    pub transcript: Option<String>,
    /// The results of its role.
    #[serde(flatten)]
    pub result: RoleResult,
}

impl RoleEnded {
    /// The role that ended.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.result {
            RoleResult::Planner(_) => Role::Planner,
            RoleResult::Maker(_) => Role::Maker,
            RoleResult::Attacker(_) => Role::Attacker,
            RoleResult::Checker(_) => Role::Checker,
        }
    }
}

/// The results of an agent, by its role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum RoleResult {
    /// The planner's files.
    Planner(PlannerResult),
    /// The maker's staged items and text.
    Maker(MakerResult),
    /// An attacker's findings.
    Attacker(AttackerResult),
    /// The checker's verdict.
    Checker(CheckerResult),
}

/// The maker's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MakerResult {
    /// Its final text; at L1 the report if nothing was staged, otherwise kept as a claim.
    pub text: String,
    /// The reason it gave for not being able to do the work.
    pub cannot: Option<String>,
    /// The items it staged.
    pub staged: StagedBatch,
    /// Secrets found in the staged items; the items are recorded without them, so only this field reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Processes that had to be killed after it ended.
    pub survivors: u32,
    /// Its notes for later rounds.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub notes: MemoryNotes,
}

/// A batch of staged items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "batch", rename_all = "kebab-case")]
pub enum StagedBatch {
    /// Well-formed and permitted.
    Items {
        /// The items.
        items: Vec<StagedItem>,
    },
    /// One bad item refuses the batch.
    Refused {
        /// The problems.
        problems: Vec<String>,
    },
}

/// A planted change, committed in the engine's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlantedChange {
    /// The kind of change.
    pub kind: PlantKind,
    /// The changed file.
    pub path: String,
    /// The changed line, from 1.
    pub line: u32,
    /// The tree with the change.
    pub tree: String,
    /// The commit of it.
    pub commit: String,
    /// The hash that the verdict must carry.
    pub candidate: String,
    /// The changed file, as the checker sees it.
    pub changes: Vec<ChangeFact>,
}

/// The frozen candidate and the engine's findings in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateSealed {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The tree, if files changed.
    pub tree: String,
    /// The engine's own commit of it.
    pub commit: String,
    /// The hash that everything later is bound to.
    pub candidate: String,
    /// The changed files.
    pub changes: Vec<ChangeFact>,
    /// The staged items, as they would be sent.
    pub items: Vec<StagedItem>,
    /// The findings.
    pub findings: SealFindings,
    /// The forge and the repository that the items are for, from the user's configuration at the seal. `None` for a
    /// receiver that the configuration does not name, and in records of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeFact {
    /// Its path.
    pub path: String,
    /// `added`, `modified`, `deleted`, `type-changed`.
    pub status: String,
    /// Added lines.
    pub added: u64,
    /// Removed lines.
    pub removed: u64,
}

/// The engine's findings in a sealed candidate, as text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SealFindings {
    /// Paths that may not be sealed at all (links out of the tree, devices, nested repositories).
    pub refused_paths: Vec<String>,
    /// The places of secrets; never their values.
    pub secrets: Vec<String>,
    /// Protected files that changed.
    pub protected: Vec<String>,
    /// Tests that were removed, skipped or emptied.
    pub missing_tests: Vec<String>,
    /// Changes outside the allowed paths.
    pub outside: Vec<String>,
    /// Paths that need a human.
    pub sensitive: Vec<String>,
    /// Code that needs a human unless falsified tests proved that the gates can fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<String>,
    /// Settings of test runners that need a human unless falsified tests failed with them as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runner_files: Vec<String>,
    /// Tests that assert less often than in base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened_tests: Vec<String>,
    /// Facts worth pointing out.
    pub notes: Vec<String>,
    /// The earlier proposal of the same change, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_before: Option<String>,
}

/// Gates on the candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GatesFinished {
    /// The attempt, from 1.
    pub attempt: u32,
    /// Their results.
    pub results: Vec<GateResult>,
    /// Gate inputs that the maker edited; the gates ran with base's versions, and a human must review the edits.
    pub inputs_edited: Vec<String>,
}

/// The checker's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckerResult {
    /// The verdict from its sink.
    pub judgement: Judgement,
    /// Whether it was shown the whole change.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub shown: ShownChange,
}

/// How much of the change a checker was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShownChange {
    /// All of it.
    #[default]
    Whole,
    /// Only a part, because the whole did not fit.
    Part,
}

/// A person's answer, bound to the candidate they saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonDecision {
    /// The person.
    pub actor: Actor,
    /// The candidate they saw.
    pub candidate: String,
    /// The reason, if they gave one.
    pub why: Option<String>,
    /// When, in milliseconds since 1970. `None` only in records of builds before the approval policy; those builds
    /// accepted them by their own rules, so they are not checked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// For a delivery in doubt, the position of the item that the answer is about; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// For a denial: the round with the same candidate that was answered instead. The work itself was not turned down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// The time for an answer has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Expired {
    /// When the engine noticed it, in milliseconds since 1970; `None` in records of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

/// The period in which a waiting round may be answered, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWindow {
    /// When the question was asked.
    pub from_ms: i64,
    /// When the unanswered question counts as denied.
    pub until_ms: i64,
}

/// A person gives a waiting question more time: it expires not before a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionHeld {
    /// The person.
    pub actor: Actor,
    /// The candidate that the person saw; empty if the answer binds none.
    pub candidate: String,
    /// The moment, in milliseconds since 1970.
    pub until_ms: i64,
    /// The reason, if they gave one.
    pub why: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The end of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryEnded {
    /// The item's position in the batch.
    pub position: u32,
    /// Its result.
    pub result: DeliveryResult,
}

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum DeliveryResult {
    /// It is visible at the receiver.
    Sent {
        /// Where.
        place: String,
        /// The part of it that the receiver did not accept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The result cannot be known; a human checks the receiver.
    InDoubt {
        /// Why.
        text: String,
    },
    /// The receiver, or Loopwright's own check, refused it.
    Refused {
        /// Why.
        text: String,
    },
    /// It failed too often.
    Quarantined {
        /// Why.
        text: String,
    },
    /// The item is kept: its receiver accepts nothing until something outside of Loopwright changes, or the sending
    /// was stopped.
    Blocked {
        /// Why.
        text: String,
        /// Whether an attempt may have had an effect. The engine searches for the item before it sends it again.
        #[serde(default, skip_serializing_if = "crate::spec::is_default")]
        maybe_sent: bool,
    },
}

/// The report and counters of the round are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundRecorded {
    /// Path of the report.
    pub report: Option<String>,
    /// The network requests since the last record.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub network: NetworkTraffic,
    /// For a round that waits for a person: the answer window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<AnswerWindow>,
    /// The debts of the loop at this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debts: Option<LoopDebts>,
}

/// A ceiling that leaves no budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeilingReached {
    /// The ceiling.
    pub limit: BudgetLimit,
    /// A description.
    pub text: String,
}

/// A failure and its stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailed {
    /// The stage.
    pub stage: Stage,
    /// A short code.
    pub code: String,
    /// A description.
    pub text: String,
}

/// A stop of the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundStopped {
    /// A signal (interrupted) or a person's `stop` (cancelled).
    pub by: StoppedBy,
    /// A description.
    pub text: String,
}

/// A person's words for the agents of a running round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonSteer {
    /// The person.
    pub actor: String,
    /// The words.
    pub text: String,
}

/// A person's pause of a running round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundPaused {
    /// The person.
    pub actor: String,
    /// The reason.
    pub why: String,
}

/// The resumption of a suspended round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundResumed {
    /// The actor that resumes it.
    pub actor: String,
    /// How long it may wait for providers from now on, in milliseconds.
    #[serde(default)]
    pub provider_wait_ms: u64,
    /// The amount allowed on top of the round's ceilings.
    #[serde(default)]
    pub raised: Reservation,
}

/// The source of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// A signal.
    Signal,
    /// A person.
    Person,
}

worded! {
    /// A step of a round.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Stage {
        /// Reads what the loop remembers.
        Recall = "recall",
        /// Asks whether there is work.
        Probe = "probe",
        /// Makes the workspace.
        Isolate = "isolate",
        /// The planner writes the plan.
        Plan = "plan",
        /// The maker works.
        Make = "make",
        /// The candidate is frozen.
        Seal = "seal",
        /// The gates run.
        Gate = "gate",
        /// The engine exercises the application.
        Prove = "prove",
        /// Attackers look for holes.
        Attack = "attack",
        /// The checker judges.
        Check = "check",
        /// The human gate.
        Approve = "approve",
        /// Deliveries.
        Send = "send",
        /// Report and counters.
        Record = "record",
    }
}

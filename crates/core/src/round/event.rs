//! What can happen to a round. Every event is recorded before anything is done about it; a round is the fold of its events.

use crate::actor::Actor;
use crate::budget::{BudgetAccount, BudgetLimit, CountedUsage, ModelSpend, Reservation, Spend};
use crate::gate::GateResult;
use crate::human_gate::GateDecision;
use crate::memory::{MemoryEntry, MemoryNotes};
use crate::network::NetworkTraffic;
use crate::outbox::StagedItem;
use crate::provider::ProviderTrouble;
use crate::spec::Role;
use crate::verdict::Judgement;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One recorded happening.
// `remote = "Self"` keeps the derived code out of the traits, so that reading can convert events of earlier builds first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The round exists.
    Started(Box<RoundStarted>),
    /// What the loop remembers was read.
    Recalled(MemoryRecalled),
    /// The probe answered.
    Probed(ProbeAnswer),
    /// A private workspace stands at a pinned base.
    Isolated(WorkspaceIsolated),
    /// Gates that compare with base were run on it.
    Baselined(BaselineFinished),
    /// The agent of a role is about to start; its worst case is reserved.
    RoleStarted(RoleStarted),
    /// The agent's process tree is dead and its results were read.
    RoleEnded(Box<RoleEnded>),
    /// The candidate is frozen.
    Sealed(Box<CandidateSealed>),
    /// The gates ran on the sealed candidate.
    Gated(GatesFinished),
    /// The human gate of the level answered.
    Decided {
        /// Its answer for the round's kinds together.
        decision: GateDecision,
    },
    /// A person said yes.
    Approved(PersonDecision),
    /// A person said no.
    Denied(PersonDecision),
    /// Nobody answered in time.
    Expired(Expired),
    /// One outbox item came to an end.
    Delivered(DeliveryEnded),
    /// Report and counters are written.
    Recorded(RoundRecorded),
    /// A ceiling does not leave room for another agent.
    Ceiling(CeilingReached),
    /// Something of ours or of the world broke.
    Broke(StageFailed),
    /// A person or a signal stopped the round.
    Stopped(RoundStopped),
    /// A new engine found the round unfinished.
    Recovered,
    /// The moment that the round waited for has come.
    Waited,
    /// A person lets a suspended round go on.
    Resumed(RoundResumed),
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
            Self::Sealed(_) => "sealed",
            Self::Gated(_) => "gated",
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

/// The round's birth: everything that must not change under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundStarted {
    /// The round's id.
    pub round: String,
    /// The repository's id.
    pub repo: String,
    /// The repository's folder.
    pub repo_path: String,
    /// What made the loop due.
    pub trigger: String,
    /// The occurrence's key; unique per loop.
    pub occurrence: String,
    /// The loop as it was read, in canonical JSON.
    pub spec: crate::spec::LoopSpec,
    /// Its hash.
    pub spec_hash: String,
    /// Who started it.
    pub actor: String,
    /// An item named by a person, or brought by a signal or a probe that was asked before.
    pub item: Option<ProbeItem>,
    /// The items beside it, where one round takes several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<ProbeItem>,
    /// Whether outputs are only shown.
    pub dry_run: bool,
    /// The boundary around agents and gates.
    pub boundary: Boundary,
    /// Why this host may not run the loop at its level; nothing is started then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Facts about files outside the spec that the round depends on (scripts, skills): path and hash.
    pub inputs: Vec<(String, String)>,
    /// How long it may wait for providers in all, in milliseconds; without, it is suspended at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub provider_wait_ms: u64,
    /// The ended round that this one was started after, for the same item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// What holds an agent on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Boundary {
    /// How strong it is.
    pub level: BoundaryLevel,
    /// How files are held.
    pub filesystem: String,
    /// How the network is held.
    pub network: String,
    /// How process trees are held.
    pub processes: String,
    /// What is not held.
    pub gaps: Vec<String>,
}

/// How strong a boundary is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundaryLevel {
    /// The kernel holds files, network and processes.
    Kernel,
    /// Process trees are ended whole; nothing else is held, because this host cannot.
    #[default]
    Process,
    /// The same, because the loop says so.
    Off,
}

impl BoundaryLevel {
    /// The word in reports and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Process => "process",
            Self::Off => "off",
        }
    }
}

/// A unit of outside work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeItem {
    /// Stable, revision-bound key.
    pub key: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// Untrusted data for the maker.
    #[serde(default)]
    pub data: Option<String>,
}

/// What the loop remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryRecalled {
    /// Money of this loop today, settled and reserved.
    pub day_micros: u64,
    /// Keys of items that are done or given up.
    pub settled_items: Vec<String>,
    /// Last rounds in a line each, for the maker.
    pub history: Vec<String>,
    /// Days and months that this round draws on, as they stand before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<BudgetAccount>,
    /// What the loop remembers, latest first. Data, never instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryEntry>,
}

/// A probe's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// There is work.
    Work {
        /// What to work on; empty when the probe names no items.
        items: Vec<ProbeItem>,
    },
    /// There is none.
    Nothing,
    /// The probe broke.
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
    /// The branch it came from, when on one.
    pub branch: Option<String>,
}

/// Gates on base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineFinished {
    /// Their results there.
    pub results: Vec<GateResult>,
}

/// The start of a role's agent, recorded before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleStarted {
    /// The role.
    pub role: Role,
    /// Which attempt.
    pub attempt: u32,
    /// The agent's name.
    pub agent: String,
    /// Its program's version, where that is known before it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What finds its process tree again after a crash.
    pub cookie: String,
    /// Its worst case.
    pub reserved: Reservation,
    /// The day that bears its cost, `YYYY-MM-DD`; on old records the day of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// For a checker: what its verdict must carry.
    #[serde(default)]
    pub nonce: Option<String>,
    /// Its place in the chain of its role, from zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub place: u32,
    /// How many of the chain come after it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u32,
}

/// How an agent's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum AgentEnd {
    /// By itself, with a code.
    Exited {
        /// The code.
        code: i32,
    },
    /// By a signal that was not ours.
    Signaled {
        /// Which.
        signal: i32,
    },
    /// We ended it: a ceiling was met.
    Limit {
        /// Which.
        limit: BudgetLimit,
        /// In words.
        text: String,
    },
    /// It could not be run.
    Unusable {
        /// Why.
        text: String,
    },
    /// It ran, and its model provider kept it from its work.
    Provider {
        /// How.
        trouble: ProviderTrouble,
        /// When, in milliseconds since 1970; waits are counted from it.
        #[serde(default)]
        at_ms: i64,
    },
}

/// The end of a role's agent: how it ended, what it cost and what it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleEnded {
    /// Which attempt.
    pub attempt: u32,
    /// Which start ended; records of earlier builds, where only one agent ran at a time, do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// How it ended.
    pub end: AgentEnd,
    /// What it cost.
    pub spend: Spend,
    /// The same by model, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelSpend>,
    /// Who counted that.
    #[serde(default, skip_serializing_if = "CountedUsage::is_plain")]
    pub counted: CountedUsage,
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
            RoleResult::Maker(_) => Role::Maker,
            RoleResult::Checker(_) => Role::Checker,
        }
    }
}

/// What an agent left, by its role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum RoleResult {
    /// The maker's staged items and words.
    Maker(MakerResult),
    /// The checker's verdict.
    Checker(CheckerResult),
}

/// What the maker left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MakerResult {
    /// Its last words; a report at L1 when nothing was staged, otherwise kept as a claim.
    pub text: String,
    /// The reason it gave for not being able to.
    pub cannot: Option<String>,
    /// What it staged.
    pub staged: StagedBatch,
    /// Secrets found in what it staged; the items are recorded without them, so only this tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Processes that had to be killed after it.
    pub survivors: u32,
    /// What it wants later rounds to know.
    #[serde(default, skip_serializing_if = "MemoryNotes::is_empty")]
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
        /// What is wrong.
        problems: Vec<String>,
    },
}

/// The frozen candidate and what the engine saw in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateSealed {
    /// Which attempt.
    pub attempt: u32,
    /// The tree, when files changed.
    pub tree: String,
    /// The engine's own commit of it.
    pub commit: String,
    /// The hash everything later is bound to.
    pub candidate: String,
    /// What changed.
    pub changes: Vec<ChangeFact>,
    /// The staged items, as they would be sent.
    pub items: Vec<StagedItem>,
    /// What was found in it.
    pub findings: SealFindings,
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

/// What the engine found in a sealed candidate, in words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SealFindings {
    /// Paths that may not be sealed at all (links out of the tree, devices, nested repositories).
    pub refused_paths: Vec<String>,
    /// Where secrets were seen; never their values.
    pub secrets: Vec<String>,
    /// Protected files that changed.
    pub protected: Vec<String>,
    /// Tests that are gone, skipped or emptied.
    pub missing_tests: Vec<String>,
    /// Changes outside the allowed paths.
    pub outside: Vec<String>,
    /// Paths that need a human.
    pub sensitive: Vec<String>,
    /// Facts worth pointing out.
    pub notes: Vec<String>,
}

/// Gates on the candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GatesFinished {
    /// Which attempt.
    pub attempt: u32,
    /// Their results.
    pub results: Vec<GateResult>,
    /// Gate inputs that the maker edited; base's were run, and a human must look.
    pub inputs_edited: Vec<String>,
}

/// What the checker left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckerResult {
    /// What its sink says.
    pub judgement: Judgement,
    /// Whether it was shown the whole change.
    #[serde(default, skip_serializing_if = "ShownChange::is_whole")]
    pub shown: ShownChange,
}

/// How much of the change a checker was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShownChange {
    /// All of it.
    #[default]
    Whole,
    /// Only a part: it did not fit.
    Part,
}

impl ShownChange {
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// A person's answer, bound to what they saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonDecision {
    /// The person.
    pub actor: Actor,
    /// The candidate they saw.
    pub candidate: String,
    /// Why, when they said.
    pub why: Option<String>,
    /// When, in milliseconds since 1970. Only records of builds before the approval policy have none; the rules of those
    /// builds let them in, so they are not judged again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

/// The time for an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Expired {
    /// When that was noticed, in milliseconds since 1970; records of earlier builds do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

/// From when until when a waiting round may be answered, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWindow {
    /// When the question was asked.
    pub from_ms: i64,
    /// When silence becomes a no.
    pub until_ms: i64,
}

/// One delivery's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryEnded {
    /// The item's position in the batch.
    pub position: u32,
    /// What came of it.
    pub result: DeliveryResult,
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum DeliveryResult {
    /// It is visible there.
    Sent {
        /// Where.
        place: String,
    },
    /// It cannot be known; a human looks.
    InDoubt {
        /// Why.
        text: String,
    },
    /// The other side, or our own check, said no.
    Refused {
        /// Why.
        text: String,
    },
    /// It failed too often.
    Quarantined {
        /// Why.
        text: String,
    },
}

/// The round's story is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundRecorded {
    /// Path of the report.
    pub report: Option<String>,
    /// What was asked of the network since the last record.
    #[serde(default, skip_serializing_if = "NetworkTraffic::is_empty")]
    pub network: NetworkTraffic,
    /// For a round that waits for a person: how long it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<AnswerWindow>,
}

/// A ceiling that leaves no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeilingReached {
    /// Which.
    pub limit: BudgetLimit,
    /// In words.
    pub text: String,
}

/// What broke, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailed {
    /// The stage.
    pub stage: Stage,
    /// A short code.
    pub code: String,
    /// In words.
    pub text: String,
}

/// Who stopped the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundStopped {
    /// A signal (interrupted) or a person's `stop` (cancelled).
    pub by: StoppedBy,
    /// In words.
    pub text: String,
}

/// A suspended round goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundResumed {
    /// Who lets it.
    pub actor: String,
    /// How long it may wait for providers from now on, in milliseconds.
    #[serde(default)]
    pub provider_wait_ms: u64,
    /// What is allowed on top of the round's ceilings.
    #[serde(default)]
    pub raised: Reservation,
}

/// What kind of stop it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// A signal.
    Signal,
    /// A person.
    Person,
}

/// A step of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Reads what the loop remembers.
    Recall,
    /// Asks whether there is work.
    Probe,
    /// Makes the workspace.
    Isolate,
    /// The maker works.
    Make,
    /// The candidate is frozen.
    Seal,
    /// The gates run.
    Gate,
    /// The checker judges.
    Check,
    /// The human gate.
    Approve,
    /// Deliveries.
    Send,
    /// Report and counters.
    Record,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 10] = [
        Self::Recall,
        Self::Probe,
        Self::Isolate,
        Self::Make,
        Self::Seal,
        Self::Gate,
        Self::Check,
        Self::Approve,
        Self::Send,
        Self::Record,
    ];

    /// The word used everywhere.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::Probe => "probe",
            Self::Isolate => "isolate",
            Self::Make => "make",
            Self::Seal => "seal",
            Self::Gate => "gate",
            Self::Check => "check",
            Self::Approve => "approve",
            Self::Send => "send",
            Self::Record => "record",
        }
    }
}

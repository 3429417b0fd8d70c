//! The report of a round, for machines (JSON) and for people (Markdown). Engine facts come first; text of an agent is
//! quoted and marked as such.

mod goal;
mod markdown;

pub use goal::{CycleSummary, FindingSummary, GoalReport, PlanSummary};

use crate::autonomy::LoopDebts;
use crate::budget::{CountedBy, SpendKnown, StartBill, Tokens};
use crate::gate::GateResult;
use crate::level::LoopLevel;
use crate::network::NetworkTraffic;
use crate::outcome::RoundOutcome;
use crate::round::{Attempt, Boundary, ChangeFact, Round, RoundFacts, RoundReason};
use crate::secrets;
use crate::spec::{ActionKind, OnOff, Role};
use crate::units::Usd;
use crate::verdict::{Judgement, ScoredVerdict};
use serde::{Deserialize, Serialize};

/// The report of one round, as `run --json` and `show --json` print it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Version of this document.
    pub schema: u32,
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_name: String,
    /// The round.
    pub round: String,
    /// The outcome, also of a round that waits for a person; `None` while the round runs.
    pub outcome: Option<RoundOutcome>,
    /// The exit code of that outcome.
    pub exit: Option<u8>,
    /// The reasons, in order.
    pub reasons: Vec<RoundReason>,
    /// The pinned base commit.
    pub base: Option<String>,
    /// The sealed tree of the last attempt.
    pub tree: Option<String>,
    /// The hash that gates, verdict and approval are bound to.
    pub candidate: Option<String>,
    /// The number of attempts.
    pub attempts: u32,
    /// Gates of the last attempt.
    pub gates: Vec<GateResult>,
    /// The verdict of the last attempt.
    pub verdict: Option<ScoredVerdict>,
    /// The items that the round would send.
    pub outbox: Vec<OutboxLine>,
    /// The boundary that confined the agents.
    pub boundary: Boundary,
    /// The spend.
    pub spend: SpendLine,
    /// Path of the Markdown report.
    pub report: Option<String>,
    /// The time from which a retry of a rate-limited round makes sense, as RFC 3339; `None` if unknown.
    #[serde(default)]
    pub retry_at: Option<String>,
    /// The ended round that this one retries.
    #[serde(default)]
    pub retry_of: Option<String>,
    /// The loop's purpose.
    pub intent: String,
    /// The loop's trust level.
    pub level: LoopLevel,
    /// Whether the maker saw the repository's own instructions for agents, as data.
    #[serde(default)]
    pub instructions: OnOff,
    /// The item of the round; of several items, the first ones in one line.
    pub item: Option<String>,
    /// All items of the round.
    #[serde(default)]
    pub items: Vec<String>,
    /// The person or program that started the round.
    pub actor: String,
    /// The changes of the last attempt.
    pub changes: Vec<ChangeFact>,
    /// Notable facts.
    pub notes: Vec<String>,
    /// The report that an agent staged or, at L1, its last message.
    pub agent_report: Option<String>,
    /// The round's network requests and denials.
    #[serde(default)]
    pub network: NetworkTraffic,
    /// The tool calls that were refused, by role and agent.
    #[serde(default)]
    pub refused_calls: Vec<RefusedCalls>,
    /// The debts of the loop when the report was written; `None` in records of earlier builds.
    #[serde(default)]
    pub debts: Option<LoopDebts>,
    /// The work toward a goal: plan, attempts, proof and findings; `None` for a loop without any of them.
    #[serde(default)]
    pub goal: Option<GoalReport>,
}

/// One item of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxLine {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its delivery state.
    pub state: String,
    /// Its target.
    pub target: Option<String>,
    /// The receiver's answer.
    pub receipt: Option<String>,
}

/// The tool calls of one agent in one role that were refused: by the agent's program, or because the role does not have
/// the tool. The agent's output shows them; nothing depends on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCalls {
    /// The role.
    pub role: Role,
    /// The agent.
    pub agent: String,
    /// The number of calls.
    pub count: u32,
}

impl RefusedCalls {
    /// The line for people.
    #[must_use]
    pub fn text(&self) -> String {
        let calls = if self.count == 1 { "call" } else { "calls" };
        format!("{} ({}): {} tool {calls} refused", self.role.word(), self.agent, self.count)
    }
}

/// The spend of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendLine {
    /// Tokens by kind.
    pub tokens: Tokens,
    /// Dollars.
    pub usd: Usd,
    /// Agents' wall time.
    pub wall_ms: u64,
    /// Whether all of it was reported, by the agents or in the answers of their models.
    pub known: bool,
    /// `measured`, `estimated` or `reserved`; empty in reports of earlier versions.
    #[serde(default)]
    pub basis: String,
    /// The same by role, agent and model, in the order of the starts.
    #[serde(default)]
    pub by: Vec<SpendPart>,
}

/// The spend of one role on one model with one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendPart {
    /// The role.
    pub role: Role,
    /// The agent.
    pub agent: String,
    /// The model; `None` if it was not reported.
    pub model: Option<String>,
    /// The number of starts of the agent.
    pub starts: u32,
    /// Tokens by kind.
    pub tokens: Tokens,
    /// Dollars.
    pub usd: Usd,
    /// Whether it was reported.
    pub known: bool,
    /// `measured`, `estimated` or `reserved`; empty in reports of earlier versions.
    #[serde(default)]
    pub basis: String,
    /// The source of the count: the agent itself, or the proxy from the answers of its model.
    #[serde(default)]
    pub counted_by: CountedBy,
}

impl RoundReport {
    /// The command that raises the ceiling at which the round stopped, as its last reason names it; `None` if no
    /// command raises it.
    #[must_use]
    pub fn raise_command(&self) -> Option<&str> {
        let text = self.reasons.last()?.text.as_str();
        text.split('`').skip(1).step_by(2).find(|command| command.starts_with("loopwright budget raise "))
    }

    /// Builds the report of a round.
    #[must_use]
    pub fn from_round(round: &Round, outbox: Vec<OutboxLine>) -> Self {
        let facts = round.facts();
        let attempt = facts.attempt();
        let outcome = round.outcome();
        let report = Self {
            schema: 1,
            loop_name: facts.started.spec.name.clone(),
            round: facts.started.round.clone(),
            outcome,
            exit: outcome.map(RoundOutcome::exit_code),
            retry_at: round.retry_at_ms().map(crate::round::format_moment),
            retry_of: facts.started.retry_of.clone(),
            reasons: facts.reasons.clone(),
            base: facts.base.clone(),
            tree: attempt.and_then(|attempt| attempt.tree.clone()),
            candidate: attempt.and_then(|attempt| attempt.candidate.clone()),
            attempts: facts.attempt_number(),
            gates: attempt.map(|attempt| attempt.gates.clone()).unwrap_or_default(),
            verdict: attempt.and_then(scored),
            outbox: if outbox.is_empty() { staged(facts) } else { outbox },
            boundary: facts.boundary().clone(),
            network: facts.network.clone(),
            refused_calls: refused_calls(facts),
            spend: SpendLine {
                tokens: facts.spend.tokens,
                usd: facts.spend.usd,
                wall_ms: facts.spend.wall_ms,
                known: facts.spend.known == SpendKnown::Yes,
                basis: facts.spend.known.basis().to_owned(),
                by: parts(&facts.bills),
            },
            report: facts.report.clone(),
            intent: facts.started.spec.intent.clone(),
            level: facts.started.spec.level,
            instructions: facts.started.spec.instructions,
            item: facts.item(),
            items: facts.items.iter().map(|item| item.key.clone()).collect(),
            actor: facts.started.actor.clone(),
            changes: attempt.map(|attempt| attempt.changes.clone()).unwrap_or_default(),
            notes: own_words(facts).chain(attempt.map(notes).unwrap_or_default()).chain(counts(facts)).collect(),
            agent_report: attempt.and_then(agent_report),
            debts: facts.debts.clone(),
            goal: GoalReport::from_facts(facts),
        };
        report.without_secrets()
    }

    /// The report contains agents' text, file names and output of gates; a secret in any of them is never shown.
    fn without_secrets(self) -> Self {
        let clean = serde_json::to_value(&self).map(secrets::redact_json).and_then(serde_json::from_value);
        // A report that cannot be converted to JSON and back is shown without the text of others.
        clean.unwrap_or_else(|_| Self {
            reasons: Vec::new(),
            gates: Vec::new(),
            verdict: None,
            outbox: Vec::new(),
            network: NetworkTraffic::default(),
            refused_calls: Vec::new(),
            item: None,
            items: Vec::new(),
            changes: Vec::new(),
            notes: Vec::new(),
            agent_report: None,
            goal: None,
            ..self
        })
    }

    /// The report as Markdown.
    #[must_use]
    pub fn render(&self) -> String {
        markdown::render(self)
    }

    /// All tokens, as the seed counts them.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.spend.tokens.total()
    }

    /// Whether a person should receive the report: every outcome is worth one, including automatic deliveries.
    #[must_use]
    pub fn should_deliver(&self) -> bool {
        self.outcome.is_some_and(|outcome| outcome != RoundOutcome::NothingToDo)
    }
}

impl SpendLine {
    /// The basis of the amount, in words for people.
    #[must_use]
    pub fn basis_text(&self) -> &'static str {
        match self.basis.as_str() {
            _ if self.known => "measured",
            "estimated" => "estimated from the text of answers that reported no usage",
            _ => "reserved: usage was not reported, and the reservation is charged",
        }
    }
}

impl SpendPart {
    /// The basis of the amount, in words for people.
    #[must_use]
    pub fn basis_text(&self) -> &str {
        match (self.basis.as_str(), self.known, self.counted_by) {
            ("measured", _, CountedBy::Proxy) | ("", true, CountedBy::Proxy) => "measured by the proxy",
            ("", true, CountedBy::Agent) => "measured",
            ("", false, _) => "reserved",
            (basis, ..) => basis,
        }
    }
}

/// Sums the bills by role, agent, model and basis.
fn parts(bills: &[StartBill]) -> Vec<SpendPart> {
    let mut parts: Vec<SpendPart> = Vec::new();
    for bill in bills {
        for line in bill.lines() {
            let model = (!line.model.is_empty()).then_some(line.model);
            let (basis, tokens, usd) = (line.known.basis(), line.tokens, line.usd);
            let same = |part: &&mut SpendPart| {
                part.role == bill.role
                    && part.agent == bill.agent
                    && part.model == model
                    && part.basis == basis
                    && part.counted_by == bill.counted.by
            };
            match parts.iter_mut().find(same) {
                Some(part) => {
                    part.starts += 1;
                    part.tokens = part.tokens.plus(tokens);
                    part.usd = Usd(part.usd.0.saturating_add(usd.0));
                }
                None => {
                    let (role, agent) = (bill.role, bill.agent.clone());
                    let (known, basis, counted_by) = (line.known == SpendKnown::Yes, basis.to_owned(), bill.counted.by);
                    parts.push(SpendPart { role, agent, model, starts: 1, tokens, usd, known, basis, counted_by });
                }
            }
        }
    }
    parts
}

fn refused_calls(facts: &RoundFacts) -> Vec<RefusedCalls> {
    let all = facts.refused_calls.iter();
    all.map(|((role, agent), count)| RefusedCalls { role: *role, agent: agent.clone(), count: *count }).collect()
}

fn scored(attempt: &Attempt) -> Option<ScoredVerdict> {
    match attempt.judgement.as_ref()? {
        Judgement::Pass { scored } | Judgement::Fail { scored, .. } | Judgement::Escalate { scored, .. } => {
            Some(scored.clone())
        }
        Judgement::Malformed { .. } | Judgement::Missing | Judgement::Forged { .. } => None,
    }
}

/// Items without a row in the outbox: a report is already delivered, other items were only staged.
fn staged(facts: &RoundFacts) -> Vec<OutboxLine> {
    let items = facts.attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    let line = |item: &crate::outbox::StagedItem| OutboxLine {
        id: format!("{}-{}", facts.started.round, item.position),
        kind: item.kind.word().to_owned(),
        state: if item.kind == ActionKind::Report && facts.report.is_some() { "sent" } else { "staged" }.to_owned(),
        target: item.target.clone(),
        receipt: facts.report.clone().filter(|_| item.kind == ActionKind::Report),
    };
    items.iter().map(line).collect()
}

/// The repository's own texts that replaced the built-in ones.
fn own_words(facts: &RoundFacts) -> impl Iterator<Item = String> {
    let words = facts.started.inputs.iter().filter(|(path, _)| path.starts_with(".loopwright/prompts/"));
    words.map(|(path, hash)| format!("own text for a role: {path} ({})", hash.chars().take(12).collect::<String>()))
}

/// Starts whose counts by the agent and by the proxy differ, or are both incomplete.
fn counts(facts: &RoundFacts) -> impl Iterator<Item = String> {
    facts.bills.iter().filter_map(|bill| {
        let note = bill.counted.note()?;
        Some(format!("spend of the {} ({}, attempt {}): {note}", bill.role.word(), bill.agent, bill.attempt))
    })
}

/// The most characters of a claim.
const CLAIM_CHARS_MAX: usize = 300;

/// The last line `RESULT: …` of the maker, as the seed's loops end with. It is a claim: nothing depends on it.
fn claim(attempt: &Attempt) -> Option<String> {
    let has_secrets = !attempt.findings.secrets.is_empty() || !attempt.staged_secrets.is_empty();
    let said = attempt.text.lines().rev().map(str::trim).find(|line| line.starts_with("RESULT:"));
    let said: String = said.filter(|_| !has_secrets)?.chars().take(CLAIM_CHARS_MAX).collect();
    Some(format!("the maker claims, unchecked: {said}"))
}

fn notes(attempt: &Attempt) -> Vec<String> {
    let sensitive = attempt.findings.sensitive.iter().map(|path| format!("sensitive: {path}"));
    let edited = attempt.inputs_edited.iter().map(|path| format!("gate input edited, base's version was used: {path}"));
    attempt.findings.notes.iter().cloned().chain(sensitive).chain(edited).chain(claim(attempt)).collect()
}

/// Text with a secret in it is not shown.
fn agent_report(attempt: &Attempt) -> Option<String> {
    if !attempt.findings.secrets.is_empty() {
        return None;
    }
    attempt.items.iter().find(|item| item.kind == ActionKind::Report).map(|item| item.body.clone())
}

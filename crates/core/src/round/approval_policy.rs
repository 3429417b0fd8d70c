//! The approval policy: which person may answer for a waiting candidate, how many approvals it needs, and until when.
//!
//! Every answer passes through here, whether it came from the command line or the library. Nothing here reads a clock:
//! the time of an answer is in its event.

use super::event::{PersonDecision, QuestionHeld};
use super::facts::RoundFacts;
use super::provider_waits::format_moment;
use crate::actor::Actor;

/// An approval that counts towards the quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The person.
    pub actor: Actor,
    /// When, in milliseconds since 1970; `None` in records of earlier builds.
    pub at_ms: Option<i64>,
}

/// Why an answer is refused. Nothing is recorded, and the round still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The loop names its approvers, and the person is not among them.
    #[error("`{actor}` may not {verb} for loop `{loop_name}`")]
    NotAnApprover {
        /// The person.
        actor: String,
        /// `approve` or `deny`.
        verb: &'static str,
        /// The loop.
        loop_name: String,
        /// The people who may answer.
        approvers: Vec<String>,
    },
    /// The loop requires separation of duties, and the person started the round.
    #[error("`{actor}` started this round, and loop `{loop_name}` requires another person to approve it")]
    StartedIt {
        /// The person.
        actor: String,
        /// The loop.
        loop_name: String,
        /// The people who may approve; empty if every other person may.
        approvers: Vec<String>,
    },
    /// The person has approved already; the quorum counts people.
    #[error("`{actor}` has already approved this candidate: {count} of {quorum} approvals")]
    Repeated {
        /// The person.
        actor: String,
        /// How many approvals there are.
        count: u32,
        /// How many it needs.
        quorum: u32,
    },
    /// The answer came too late.
    #[error("the question expired at {until} and counts as denied")]
    Expired {
        /// The end of the answer window, as RFC 3339.
        until: String,
    },
    /// An answer from elsewhere belongs to one question, and the round asks another one now.
    #[error("the question that this answers is closed")]
    Closed,
    /// The answer is about a different candidate than the waiting one.
    #[error("the answer is for a different candidate than the waiting one")]
    Stale,
}

impl Refusal {
    /// The people who may answer instead, if the loop names them.
    #[must_use]
    pub fn approvers(&self) -> &[String] {
        match self {
            Self::NotAnApprover { approvers, .. } | Self::StartedIt { approvers, .. } => approvers,
            Self::Repeated { .. } | Self::Expired { .. } | Self::Closed | Self::Stale => &[],
        }
    }
}

/// Checks an approval of the waiting candidate.
pub(super) fn may_approve(facts: &RoundFacts, said: &PersonDecision, candidate: &str) -> Result<(), Refusal> {
    if said.candidate != candidate {
        return Err(Refusal::Stale);
    }
    let Some(at_ms) = said.at_ms else { return Ok(()) };
    is_approver(facts, &said.actor, "approve")?;
    is_in_time(facts, at_ms)?;
    is_separate(facts, said)?;
    is_first(facts, said)
}

/// Checks the request to send an approved candidate again, which its receiver had blocked.
pub(super) fn may_send_again(facts: &RoundFacts, said: &PersonDecision, candidate: &str) -> Result<(), Refusal> {
    if said.candidate != candidate {
        return Err(Refusal::Stale);
    }
    let Some(at_ms) = said.at_ms else { return Ok(()) };
    is_asked(said)?;
    is_approver(facts, &said.actor, "approve")?;
    is_in_time(facts, at_ms)?;
    is_separate(facts, said)
}

/// Checks a denial of the waiting candidate. One person may deny at any time; an expired question counts as a denial
/// too. A denial that names a candidate binds it, as those from elsewhere do.
pub(super) fn may_deny(facts: &RoundFacts, said: &PersonDecision, candidate: &str) -> Result<(), Refusal> {
    if said.at_ms.is_none() {
        return Ok(());
    }
    if !said.candidate.is_empty() && said.candidate != candidate {
        return Err(Refusal::Stale);
    }
    is_approver(facts, &said.actor, "deny")
}

/// Checks a hold. It is for people who may answer, and while there is time to answer: a late question counts as denied.
pub(super) fn may_hold(facts: &RoundFacts, held: &QuestionHeld, candidate: &str) -> Result<(), Refusal> {
    if !held.candidate.is_empty() && held.candidate != candidate {
        return Err(Refusal::Stale);
    }
    is_approver(facts, &held.actor, "hold the question")?;
    is_in_time(facts, held.at_ms)
}

/// Checks a statement that a delivery in doubt has arrived.
pub(super) fn may_confirm(facts: &RoundFacts, said: &PersonDecision, candidate: &str) -> Result<(), Refusal> {
    if said.candidate != candidate {
        return Err(Refusal::Stale);
    }
    if said.at_ms.is_none() {
        return Ok(());
    }
    is_asked(said)?;
    is_approver(facts, &said.actor, "approve")
}

/// Checks a statement that a delivery in doubt has not arrived.
pub(super) fn may_dispute(facts: &RoundFacts, said: &PersonDecision) -> Result<(), Refusal> {
    if said.at_ms.is_none() {
        return Ok(());
    }
    is_asked(said)?;
    is_approver(facts, &said.actor, "deny")
}

/// A question elsewhere asks only whether a candidate may be sent. An answer to it says nothing about a delivery.
fn is_asked(said: &PersonDecision) -> Result<(), Refusal> {
    if said.actor.is_account() { Err(Refusal::Closed) } else { Ok(()) }
}

/// Whether the question is still open at this moment.
pub(super) fn is_open(facts: &RoundFacts, at_ms: i64) -> bool {
    facts.window.is_some_and(|window| at_ms < window.until_ms)
}

fn is_approver(facts: &RoundFacts, actor: &Actor, verb: &'static str) -> Result<(), Refusal> {
    let spec = &facts.started.spec;
    if spec.approvers.is_empty() || spec.approvers.iter().any(|name| name == actor.name()) {
        return Ok(());
    }
    Err(Refusal::NotAnApprover {
        actor: actor.name().to_owned(),
        verb,
        loop_name: spec.name.clone(),
        approvers: spec.approvers.clone(),
    })
}

fn is_in_time(facts: &RoundFacts, at_ms: i64) -> Result<(), Refusal> {
    match facts.window {
        Some(window) if at_ms >= window.until_ms => Err(Refusal::Expired { until: format_moment(window.until_ms) }),
        Some(_) | None => Ok(()),
    }
}

fn is_separate(facts: &RoundFacts, said: &PersonDecision) -> Result<(), Refusal> {
    let spec = &facts.started.spec;
    if !spec.approvals.separate || facts.started.actor != said.actor.name() {
        return Ok(());
    }
    let others = spec.approvers.iter().filter(|name| *name != said.actor.name());
    Err(Refusal::StartedIt {
        actor: said.actor.name().to_owned(),
        loop_name: spec.name.clone(),
        approvers: others.cloned().collect(),
    })
}

fn is_first(facts: &RoundFacts, said: &PersonDecision) -> Result<(), Refusal> {
    if !facts.approvals.iter().any(|approval| approval.actor.is_same_person(&said.actor)) {
        return Ok(());
    }
    Err(Refusal::Repeated {
        actor: said.actor.name().to_owned(),
        count: u32::try_from(facts.approvals.len()).unwrap_or(u32::MAX),
        quorum: facts.started.spec.approvals.quorum,
    })
}

//! Where rounds of a loop with labels run: on a worker that has all of them, the loop's agents, and a free slot. The
//! dispatcher counts slots; the store decides which worker takes a round.

use crate::spec::LoopSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The requirements of a loop on the machine that runs its rounds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlacementNeeds {
    /// The labels, sorted.
    pub labels: Vec<String>,
    /// The agents that a round starts first, sorted.
    pub agents: Vec<String>,
}

/// A worker, as far as placement depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetMember {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// The agents that its machine has.
    pub agents: BTreeSet<String>,
    /// How many rounds it runs at once.
    pub slots: usize,
    /// Whether it takes no more rounds.
    pub is_draining: bool,
}

/// Why a worker does not take the rounds of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "gap", content = "of", rename_all = "kebab-case")]
pub enum PlacementGap {
    /// It lacks a label.
    Label(String),
    /// It lacks an agent.
    Agent(String),
    /// It takes no more rounds.
    Draining,
}

impl PlacementNeeds {
    /// The needs of a loop; `None` for a loop without labels, whose rounds run where they are started.
    #[must_use]
    pub fn from_spec(spec: &LoopSpec) -> Option<Self> {
        if spec.labels.is_empty() {
            return None;
        }
        let labels: BTreeSet<String> = spec.labels.iter().cloned().collect();
        let agents = super::spec_facts::agents(spec).iter().map(ToString::to_string).collect();
        Some(Self { labels: labels.into_iter().collect(), agents })
    }

    /// The first reason why a worker cannot take a round; `None` if it can.
    #[must_use]
    pub fn gap(&self, member: &FleetMember) -> Option<PlacementGap> {
        let label = self.labels.iter().find(|label| !member.labels.contains(*label));
        let agent = || self.agents.iter().find(|agent| !member.agents.contains(*agent));
        let lacks = label.cloned().map(PlacementGap::Label);
        let lacks = lacks.or_else(|| agent().cloned().map(PlacementGap::Agent));
        lacks.or(member.is_draining.then_some(PlacementGap::Draining))
    }

    /// How many rounds the workers that can take them run at once.
    #[must_use]
    pub fn slots(&self, members: &[FleetMember]) -> usize {
        let fitting = members.iter().filter(|member| self.gap(member).is_none());
        fitting.fold(0, |sum, member| sum.saturating_add(member.slots))
    }

    /// The needs as text.
    #[must_use]
    pub fn text(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        let word = if labels.len() == 1 { "label" } else { "labels" };
        let agents =
            if self.agents.is_empty() { String::new() } else { format!(" and with {}", self.agents.join(", ")) };
        format!("a worker with the {word} {}{agents}", labels.join(", "))
    }
}

impl PlacementGap {
    /// The gap as the end of a sentence about the worker.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Label(label) => format!("lacks the label `{label}`"),
            Self::Agent(agent) => format!("lacks the agent {agent}"),
            Self::Draining => "takes no more rounds (drained)".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn member(name: &str, labels: &str, agents: &str, slots: usize) -> FleetMember {
        FleetMember { name: name.into(), labels: set(labels), agents: set(agents), slots, is_draining: false }
    }

    #[test]
    fn only_workers_with_every_label_and_agent_that_are_not_drained_give_slots() {
        let (labels, agents) = (vec!["big".to_owned(), "gpu".to_owned()], vec!["claude".to_owned()]);
        let needs = PlacementNeeds { labels, agents };
        let mut fits = member("a", "big gpu extra", "claude codex", 2);
        let gaps = [
            (member("b", "gpu", "claude", 4), PlacementGap::Label("big".into())),
            (member("c", "big gpu", "codex", 8), PlacementGap::Agent("claude".into())),
        ];
        for (member, gap) in &gaps {
            assert_eq!(needs.gap(member).as_ref(), Some(gap), "{}", member.name);
        }
        let members = |own: &FleetMember| vec![gaps[0].0.clone(), own.clone(), gaps[1].0.clone()];
        assert_eq!((needs.gap(&fits), needs.slots(&members(&fits))), (None, 2));
        fits.is_draining = true;
        assert_eq!((needs.gap(&fits), needs.slots(&members(&fits))), (Some(PlacementGap::Draining), 0));
        assert_eq!(needs.text(), "a worker with the labels `big`, `gpu` and with claude");
    }
}

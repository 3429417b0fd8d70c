//! Maturity levels: how much a loop may do by itself. Code decides what a level permits, never a prompt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The trust level of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum LoopLevel {
    /// L1: reads and reports; it has no other outward action.
    #[default]
    #[serde(rename = "L1", alias = "l1-report")]
    L1Report,
    /// L2: reads and writes in its workspace; every outward action waits for a person.
    #[serde(rename = "L2", alias = "l2-assisted")]
    L2Assisted,
    /// L3: allowlisted actions proceed after verification; all others wait for a person.
    #[serde(rename = "L3", alias = "l3-unattended")]
    L3Unattended,
}

impl LoopLevel {
    /// Parses a level as people and the seed's JSON write it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "L1" | "l1" | "l1-report" | "L1-report" => Some(Self::L1Report),
            "L2" | "l2" | "l2-assisted" | "L2-assisted" => Some(Self::L2Assisted),
            "L3" | "l3" | "l3-unattended" | "L3-unattended" => Some(Self::L3Unattended),
            _ => None,
        }
    }

    /// Whether a maker may change files at this level.
    #[must_use]
    pub fn maker_may_write(self) -> bool {
        self != Self::L1Report
    }

    /// The seed's label, for reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::L1Report => "L1-report",
            Self::L2Assisted => "L2-assisted",
            Self::L3Unattended => "L3-unattended",
        }
    }

    /// The short spelling used in loop files and JSON.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::L1Report => "L1",
            Self::L2Assisted => "L2",
            Self::L3Unattended => "L3",
        }
    }
}

//! The repositories that a daemon manages, with all or some of their loops, and the limits on concurrent rounds.

use crate::spec::reader::value::SpecValue;
use crate::spec::tree::YamlValue;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A repository that the daemon manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoEntry {
    /// Its path; `~/` is the user's home.
    pub path: String,
    /// The loops that start by themselves; all if empty.
    pub loops: Vec<String>,
}

impl Serialize for RepoEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'r> {
            path: &'r str,
            loops: &'r [String],
        }
        match self.loops.as_slice() {
            [] => self.path.serialize(serializer),
            loops => Whole { path: &self.path, loops }.serialize(serializer),
        }
    }
}

/// How many rounds may run at once; the daemon has defaults for missing values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ConcurrencyConfig {
    /// In all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Of one repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<u32>,
    /// With one agent, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, u32>,
}

impl ConcurrencyConfig {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn merge(mut self, over: Self) -> Self {
        self.agents.extend(over.agents);
        Self { total: over.total.or(self.total), repo: over.repo.or(self.repo), agents: self.agents }
    }
}

/// A path, or a mapping with `path` and `loops`, as a list.
pub(super) fn repos(at: &SpecValue<'_>) -> Option<Vec<RepoEntry>> {
    let blank = || RepoEntry { path: String::new(), loops: Vec::new() };
    at.one_or_many("a list of paths, or of `path` with `loops`", blank, repo)
}

fn repo(at: &SpecValue<'_>) -> Option<RepoEntry> {
    if is_mapping(at) {
        let fields = at.fields("path loops")?;
        let path = fields.required("path", "~/projects/my-app", SpecValue::text);
        let loops = fields.option("loops", SpecValue::texts).unwrap_or_default();
        return Some(RepoEntry { path: path?, loops });
    }
    Some(RepoEntry { path: at.text()?, loops: Vec::new() })
}

/// A number, or numbers for all, for a repository and for agents.
pub(super) fn concurrency(at: &SpecValue<'_>) -> Option<ConcurrencyConfig> {
    if !is_mapping(at) {
        return Some(ConcurrencyConfig { total: Some(count(at)?), ..ConcurrencyConfig::default() });
    }
    let fields = at.fields("total repo agents")?;
    let mut agents = BTreeMap::new();
    fields.set("agents", &mut agents, |at| at.map_of("a mapping of agent to a number", count));
    Some(ConcurrencyConfig { total: fields.option("total", count), repo: fields.option("repo", count), agents })
}

fn is_mapping(at: &SpecValue<'_>) -> bool {
    matches!(at.node.value, YamlValue::Map(_))
}

fn count(at: &SpecValue<'_>) -> Option<u32> {
    at.whole(1..=1000)
}

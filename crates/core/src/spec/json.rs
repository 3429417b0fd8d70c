//! The canonical JSON of a spec: the keys of a loop file, without loss. Reading JSON goes through the file reader.

use super::reader::value::{ProblemCollector, SpecValue};
use super::source::SourceText;
use super::tree::YamlNode;
use super::{ActionKind, BudgetSpec, Ceilings, LoopSpec, OutputSpec, SpecProblems, reader};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

impl<'de> Deserialize<'de> for LoopSpec {
    /// Reads canonical JSON, or the seed's; problems of every kind are reported at once, rules are left to `check`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let root = YamlNode::from_json(&value);
        let source = SourceText::none();
        let findings = ProblemCollector::new(&source);
        let spec = reader::read_spec(&SpecValue::root(&findings, &root));
        let problems = SpecProblems::new(findings.into_problems());
        if problems.is_empty() { Ok(spec) } else { Err(serde::de::Error::custom(problems)) }
    }
}

/// The ceilings of one scope against their defaults, to distinguish a lifted ceiling from one that is not named.
struct Scope<'c> {
    ceilings: &'c Ceilings,
    defaults: Ceilings,
}

impl Serialize for Scope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (ceilings, defaults) = (self.ceilings, &self.defaults);
        let mut map = serializer.serialize_map(None)?;
        ceiling(&mut map, "tokens", &ceilings.tokens, &defaults.tokens)?;
        ceiling(&mut map, "usd", &ceilings.usd, &defaults.usd)?;
        ceiling(&mut map, "wall", &ceilings.wall, &defaults.wall)?;
        ceiling(&mut map, "turns", &ceilings.turns, &defaults.turns)?;
        ceiling(&mut map, "idle", &ceilings.idle, &defaults.idle)?;
        map.end()
    }
}

fn ceiling<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: &Option<T>,
    default: &Option<T>,
) -> Result<(), M::Error> {
    match (value, default) {
        (Some(value), _) => map.serialize_entry(key, value),
        (None, Some(_)) => map.serialize_entry(key, "none"),
        (None, None) => Ok(()),
    }
}

impl Serialize for BudgetSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let defaults = Self::default();
        let mut map = serializer.serialize_map(None)?;
        for ((key, ceilings), (_, usual)) in self.scopes().into_iter().zip(defaults.scopes()) {
            if ceilings != usual || matches!(key, "round" | "day") {
                map.serialize_entry(key, &Scope { ceilings, defaults: *usual })?;
            }
        }
        map.end()
    }
}

/// The limits of one output, without its kind.
struct Limits<'o>(&'o OutputSpec);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OutputSpec { kind, max, day_max, target_max, draft, labels, targets } = self.0;
        let mut map = serializer.serialize_map(None)?;
        if *kind == ActionKind::PullRequest || !draft {
            map.serialize_entry("draft", draft)?;
        }
        if !labels.is_empty() {
            map.serialize_entry("labels", labels)?;
        }
        if !targets.is_empty() {
            map.serialize_entry("targets", targets)?;
        }
        map.serialize_entry("max", max)?;
        for (key, limit) in [("day_max", day_max), ("target_max", target_max)] {
            if let Some(limit) = limit {
                map.serialize_entry(key, limit)?;
            }
        }
        map.end()
    }
}

impl Serialize for OutputSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.kind.word(), &Limits(self))?;
        map.end()
    }
}

impl JsonSchema for OutputSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OutputSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = ActionKind::ALL.map(ActionKind::word);
        let limits = serde_json::json!({
            "type": "object",
            "properties": {
                "draft": { "type": "boolean", "description": "Whether a pull request starts as a draft." },
                "labels": { "type": "array", "items": { "type": "string" }, "description": "Labels put on what is created. For `issue-label`, the only labels allowed, if there are any." },
                "targets": { "type": "array", "items": { "type": ["string", "integer"] }, "description": "The only targets allowed. By default those of the round's own items, or any if it has none; `*` allows all." },
                "max": { "type": "integer", "minimum": 1, "maximum": 50, "description": "How many a round may send." },
                "day_max": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "How many the loop may send in 24 hours." },
                "target_max": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "How many the loop may send to one target in 24 hours." },
            },
            "additionalProperties": false,
        });
        let kinds: serde_json::Map<_, _> = words.iter().map(|word| ((*word).to_owned(), limits.clone())).collect();
        json_schema!({
            "description": "One permitted kind, alone or with its limits.",
            "anyOf": [
                { "type": "string", "enum": words },
                { "type": "object", "properties": kinds, "minProperties": 1, "maxProperties": 1, "additionalProperties": false },
            ],
        })
    }
}

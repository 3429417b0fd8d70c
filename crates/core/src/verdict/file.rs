//! The verdict file as a checker writes it: its types, its limits, its strict parser. It decides nothing.

use crate::outbox::json;
use crate::words::worded;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The size limit of the file.
pub const BYTES_MAX: usize = 256 << 10;

/// The limit on the nesting of lists and maps.
const DEPTH_MAX: usize = 16;
const ID_MAX: usize = 200;
const NAME_MAX: usize = 200;
const PATH_MAX: usize = 4096;
const QUOTE_MAX: usize = 2000;
const WHY_MAX: usize = 8000;
const SUMMARY_MAX: usize = 16_000;
const SCORES_MAX: usize = 64;
const EVIDENCE_MAX: usize = 64;

/// The reason why a file is not a verdict, with the place in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
#[serde(transparent)]
pub struct MalformedVerdict(pub String);

worded! {
    /// The verdict of a checker.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum VerdictWord {
        /// The candidate is good.
        Pass = "pass",
        /// The candidate is not good.
        Fail = "fail",
        /// A human must decide.
        Escalate = "escalate",
    }
}

/// A well-formed verdict file; [`super::judge`] decides whether it is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictFile {
    /// The round's secret, as the checker received it.
    pub nonce: String,
    /// The sealed tree.
    pub tree: String,
    /// The candidate: tree and staged items.
    pub candidate: String,
    /// The checker's word.
    pub verdict: VerdictWord,
    /// Its summary; may be empty.
    pub summary: String,
    /// Its scores.
    pub scores: Vec<DimensionScore>,
}

/// One dimension's score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DimensionScore {
    /// The dimension of the rubric.
    pub dimension: String,
    /// 1 to 5.
    pub score: u8,
    /// The checker's reason; may be empty.
    pub why: String,
    /// The evidence for the score.
    pub evidence: Vec<VerdictCitation>,
}

/// Evidence that the engine can look up itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum VerdictCitation {
    /// A line of a file at the sealed commit.
    Line {
        /// Path from the root of the tree.
        path: String,
        /// From 1.
        line: u32,
        /// Text of that line.
        quote: String,
    },
    /// A gate that passed.
    Gate {
        /// Its name.
        gate: String,
    },
    /// A line of a staged item.
    Item {
        /// The item's file name in the outbox.
        item: String,
        /// From 1.
        line: u32,
        /// Text of that line.
        quote: String,
    },
}

impl std::fmt::Display for VerdictCitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line { path, line, .. } => write!(f, "{path}:{line}"),
            Self::Gate { gate } => write!(f, "gate {gate}"),
            Self::Item { item, line, .. } => write!(f, "item {item}:{line}"),
        }
    }
}

impl VerdictFile {
    /// Parses a file strictly: size, UTF-8, JSON, depth, keys, types, ranges and lengths.
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedVerdict> {
        if bytes.len() > BYTES_MAX {
            return Err(MalformedVerdict(format!("{} bytes, at most {BYTES_MAX} are read", bytes.len())));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| MalformedVerdict(format!("not UTF-8: {error}")))?;
        let value = json::read_shallow(text, DEPTH_MAX)
            .map_err(|error| MalformedVerdict(format!("not valid JSON: {error}")))?;
        let mut map = Fields::of(value, String::new())?;
        let file = Self {
            nonce: map.text("nonce", ID_MAX)?,
            tree: map.text("tree", ID_MAX)?,
            candidate: map.text("candidate", ID_MAX)?,
            verdict: map.verdict("verdict")?,
            summary: map.optional_text("summary", SUMMARY_MAX)?,
            scores: map.list("scores", SCORES_MAX)?.map(score).collect::<Result<_, _>>()?,
        };
        map.done()?;
        Ok(file)
    }
}

fn score((place, value): (String, Value)) -> Result<DimensionScore, MalformedVerdict> {
    let mut map = Fields::of(value, place)?;
    let score = DimensionScore {
        dimension: map.text("dimension", NAME_MAX)?,
        score: map.score("score")?,
        why: map.optional_text("why", WHY_MAX)?,
        evidence: map.list("evidence", EVIDENCE_MAX)?.map(evidence).collect::<Result<_, _>>()?,
    };
    map.done()?;
    Ok(score)
}

/// Each of the three forms has one key that only it has; a mixture has a key too many and is malformed.
fn evidence((place, value): (String, Value)) -> Result<VerdictCitation, MalformedVerdict> {
    let mut map = Fields::of(value, place)?;
    let found = if map.has("gate") {
        VerdictCitation::Gate { gate: map.text("gate", NAME_MAX)? }
    } else if map.has("item") {
        VerdictCitation::Item {
            item: map.text("item", PATH_MAX)?,
            line: map.line("line")?,
            quote: map.text("quote", QUOTE_MAX)?,
        }
    } else {
        VerdictCitation::Line {
            path: map.text("path", PATH_MAX)?,
            line: map.line("line")?,
            quote: map.text("quote", QUOTE_MAX)?,
        }
    };
    map.done()?;
    Ok(found)
}

/// The type of a value, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A map whose fields are removed one by one; the rest at the end is unknown.
struct Fields {
    place: String,
    left: Map<String, Value>,
}

impl Fields {
    fn of(value: Value, place: String) -> Result<Self, MalformedVerdict> {
        match value {
            Value::Object(left) => Ok(Self { place, left }),
            other => Err(MalformedVerdict(format!("{}is {}, not a map", Self::prefix(&place), kind(&other)))),
        }
    }

    fn prefix(place: &str) -> String {
        if place.is_empty() { "the document ".to_owned() } else { format!("`{place}` ") }
    }

    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn wrong<T>(&self, key: &str, what: impl std::fmt::Display) -> Result<T, MalformedVerdict> {
        Err(MalformedVerdict(format!("`{}` {what}", self.at(key))))
    }

    fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.left.shift_remove(key)
    }

    fn required(&mut self, key: &str) -> Result<Value, MalformedVerdict> {
        match self.take(key) {
            Some(value) => Ok(value),
            None => self.wrong(key, "is missing"),
        }
    }

    fn text(&mut self, key: &str, bytes_max: usize) -> Result<String, MalformedVerdict> {
        let value = self.required(key)?;
        self.as_text(key, value, bytes_max)
    }

    fn optional_text(&mut self, key: &str, bytes_max: usize) -> Result<String, MalformedVerdict> {
        self.take(key).map_or(Ok(String::new()), |value| self.as_text(key, value, bytes_max))
    }

    fn as_text(&self, key: &str, value: Value, bytes_max: usize) -> Result<String, MalformedVerdict> {
        match value {
            Value::String(text) if text.len() <= bytes_max => Ok(text),
            Value::String(text) => self.wrong(key, format_args!("has {} bytes, at most {bytes_max}", text.len())),
            other => self.wrong(key, format_args!("is {}, not a string", kind(&other))),
        }
    }

    fn verdict(&mut self, key: &str) -> Result<VerdictWord, MalformedVerdict> {
        match VerdictWord::parse(&self.text(key, NAME_MAX)?) {
            Some(word) => Ok(word),
            None => self.wrong(key, "is not pass, fail or escalate"),
        }
    }

    fn score(&mut self, key: &str) -> Result<u8, MalformedVerdict> {
        let value = self.required(key)?;
        match value.as_u64().and_then(|score| u8::try_from(score).ok()) {
            Some(score @ 1..=5) => Ok(score),
            _ if value.is_number() => self.wrong(key, "is not a whole number from 1 to 5"),
            _ => self.wrong(key, format_args!("is {}, not a number", kind(&value))),
        }
    }

    fn line(&mut self, key: &str) -> Result<u32, MalformedVerdict> {
        match self.required(key)?.as_u64().and_then(|line| u32::try_from(line).ok()) {
            Some(line) if line > 0 => Ok(line),
            _ => self.wrong(key, "is not a line number"),
        }
    }

    /// The elements with their places.
    fn list(
        &mut self,
        key: &str,
        most: usize,
    ) -> Result<impl Iterator<Item = (String, Value)> + use<>, MalformedVerdict> {
        let list = match self.required(key)? {
            Value::Array(list) if list.len() <= most => list,
            Value::Array(list) => {
                return self.wrong(key, format_args!("has {} entries, at most {most}", list.len()));
            }
            other => return self.wrong(key, format_args!("is {}, not a list", kind(&other))),
        };
        let at = self.at(key);
        Ok(list.into_iter().enumerate().map(move |(index, value)| (format!("{at}[{index}]"), value)))
    }

    fn done(self) -> Result<(), MalformedVerdict> {
        match self.left.iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(MalformedVerdict(format!("unknown field {:?}", self.at(key)))),
        }
    }
}

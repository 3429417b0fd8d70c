//! The way to a value inside a spec, such as `gates[1].run`: how rules name what they object to, and how its place is found.

use super::source::SourceSpan;
use super::tree::{YamlNode, YamlValue};
use std::borrow::Cow;
use std::fmt;

/// One step of a way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// Nearly all keys are words of the format, which are not copied for a way that mostly nobody asks for.
    Key(Cow<'static, str>),
    Index(usize),
}

/// The way from the root to a value. Every rule has one at hand and nearly none objects, so the first step, which most have
/// alone, takes no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SpecPath {
    first: Option<Segment>,
    rest: Vec<Segment>,
}

impl SpecPath {
    /// The way to a key of the root.
    pub(crate) fn root_key(key: impl Into<Cow<'static, str>>) -> Self {
        Self { first: Some(Segment::Key(key.into())), rest: Vec::new() }
    }

    /// One key further.
    pub(crate) fn key(&self, key: impl Into<Cow<'static, str>>) -> Self {
        self.then(Segment::Key(key.into()))
    }

    /// One item further.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Self {
        let Some(first) = self.first.clone() else { return Self { first: Some(segment), rest: Vec::new() } };
        let mut rest = Vec::with_capacity(self.rest.len() + 1);
        rest.extend_from_slice(&self.rest);
        rest.push(segment);
        Self { first: Some(first), rest }
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.first.iter().chain(&self.rest)
    }

    /// Whether one of the two lies on the way to the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.segments().zip(other.segments()).all(|(mine, theirs)| mine == theirs)
    }

    /// The place of the value, or of the nearest thing on the way to it that the file has.
    pub(crate) fn span_in(&self, root: &YamlNode) -> SourceSpan {
        let (mut node, mut place) = (root, root.place);
        for segment in self.segments() {
            let next = match (segment, &node.value) {
                (Segment::Key(key), YamlValue::Map(_)) => {
                    node.get(key).or_else(|| node.get(seed_word(key))).map(|entry| {
                        let container =
                            matches!(entry.value.value, YamlValue::Map(_) | YamlValue::List(_) | YamlValue::Null);
                        (&entry.value, if container { entry.place } else { entry.value.place })
                    })
                }
                (Segment::Index(at), YamlValue::List(items)) => items.get(*at).map(|item| (item, item.place)),
                // One value where a list is allowed stands for its own first item.
                (Segment::Index(0), YamlValue::Text(_) | YamlValue::Map(_)) => Some((node, place)),
                _ => None,
            };
            match next {
                Some(next) => (node, place) = next,
                None => break,
            }
        }
        place
    }
}

/// The seed's word for one of our keys.
fn seed_word(key: &str) -> &str {
    match key {
        "on" => "cadence",
        "output" => "action_kind",
        other => other,
    }
}

impl fmt::Display for SpecPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.segments().enumerate() {
            match segment {
                Segment::Key(key) if at == 0 => f.write_str(&super::problem::printable(key))?,
                Segment::Key(key) => write!(f, ".{}", super::problem::printable(key))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

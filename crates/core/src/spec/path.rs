//! The path to a value inside a spec, such as `gates[1].run`: rules name a value by it, and it leads to the position in
//! the file.

use super::source::SourceSpan;
use super::tree::{YamlNode, YamlValue};
use std::borrow::Cow;
use std::fmt;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(Cow<'static, str>),
    Index(usize),
}

/// The path from the root to a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SpecPath(Vec<Segment>);

impl SpecPath {
    /// The path to a key of the root.
    pub(crate) fn root_key(key: impl Into<Cow<'static, str>>) -> Self {
        Self::default().key(key)
    }

    /// Appends a key.
    pub(crate) fn key(&self, key: impl Into<Cow<'static, str>>) -> Self {
        self.then(Segment::Key(key.into()))
    }

    /// Appends an index.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Self {
        Self(self.0.iter().cloned().chain([segment]).collect())
    }

    /// Whether one of the two is a prefix of the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine == theirs)
    }

    /// The position of the value, or of its nearest ancestor in the file.
    pub(crate) fn span_in(&self, root: &YamlNode) -> SourceSpan {
        let (mut node, mut place) = (root, root.place);
        for segment in &self.0 {
            let next = match (segment, &node.value) {
                (Segment::Key(key), YamlValue::Map(_)) => {
                    node.get(key).or_else(|| node.get(seed_word(key))).map(|entry| {
                        let container =
                            matches!(entry.value.value, YamlValue::Map(_) | YamlValue::List(_) | YamlValue::Null);
                        (&entry.value, if container { entry.place } else { entry.value.place })
                    })
                }
                (Segment::Index(at), YamlValue::List(items)) => items.get(*at).map(|item| (item, item.place)),
                // A single value where a list is allowed counts as its own first item.
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

/// The seed's word for a key.
fn seed_word(key: &str) -> &str {
    match key {
        "on" => "cadence",
        "output" => "action_kind",
        other => other,
    }
}

impl fmt::Display for SpecPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if at == 0 => f.write_str(&super::problem::printable(key))?,
                Segment::Key(key) => write!(f, ".{}", super::problem::printable(key))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

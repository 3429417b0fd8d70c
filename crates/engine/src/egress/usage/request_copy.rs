//! A copy of a request's body as it passes, to find the model that it names and whether it offers tools. The price of an
//! answer is that of the requested model, whatever the answer calls it.

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of one request that are kept.
const COPY_MAX: usize = 8 << 20;

/// The facts of a request's body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    /// The model that it names.
    pub(crate) model: Option<String>,
    /// It offers tools.
    pub(crate) has_tools: bool,
}

/// The beginning of a request's body; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestCopy(Arc<Mutex<KeptBody>>);

#[derive(Debug, Default)]
struct KeptBody {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl RequestCopy {
    /// Adds sent bytes.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut copy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = COPY_MAX.saturating_sub(copy.bytes.len());
        copy.is_cut |= bytes.len() > room;
        copy.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The facts of the body, and frees the copy.
    pub(crate) fn take_facts(&self) -> RequestFacts {
        let copy = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // The rest after a cut is unknown. Only an agent's work is that long, and work has tools.
        let mut facts = RequestFacts { has_tools: copy.is_cut, ..RequestFacts::default() };
        // A body that was cut off names its model if the name came before the cut.
        let _ = serde_json::Deserializer::from_slice(&copy.bytes).deserialize_map(FactFinder(&mut facts));
        facts.model = facts.model.filter(|model| !model.is_empty());
        facts
    }
}

/// Finds the values of `model` and `tools` at the top of a document.
struct FactFinder<'m>(&'m mut RequestFacts);

impl<'de> Visitor<'de> for FactFinder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request to a model")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match &*key {
                "model" => self.0.model = Some(map.next_value()?),
                "tools" => {
                    let tools = map.next_value::<Option<Vec<IgnoredAny>>>()?;
                    self.0.has_tools |= tools.is_some_and(|tools| !tools.is_empty());
                }
                "toolConfig" => self.0.has_tools |= map.next_value::<Option<IgnoredAny>>()?.is_some(),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_the_one_at_the_top_of_the_body() {
        let table = [
            (r#"{"model":"gpt-6-luna","input":[]}"#, Some("gpt-6-luna")),
            (r#"{"messages":[{"model":"other"}],"model":"claude-opus-5-5"}"#, Some("claude-opus-5-5")),
            (r#"{"model":"early","messages":[{"content":"cut o"#, Some("early")),
            (r#"{"messages":[{"model":"other"}]}"#, None),
            (r#"{"tools":null,"model":"after"}"#, Some("after")),
            (r#"{"model":7}"#, None),
            (r#"{"model":""}"#, None),
            ("no JSON", None),
            ("", None),
        ];
        for (body, model) in table {
            let copy = RequestCopy::default();
            body.as_bytes().chunks(7).for_each(|part| copy.push(part));
            assert_eq!(copy.take_facts().model.as_deref(), model, "{body}");
        }
    }

    #[test]
    fn long_body_is_kept_in_part() {
        let copy = RequestCopy::default();
        copy.push(br#"{"model":"first","messages":""#);
        (0..20).for_each(|_| copy.push(&vec![b'x'; 1 << 20]));
        assert!(copy.0.lock().expect("no panic").bytes.len() <= COPY_MAX);
        let facts = copy.take_facts();
        assert_eq!((facts.model.as_deref(), facts.has_tools), (Some("first"), true));
    }
}

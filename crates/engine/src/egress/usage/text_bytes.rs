//! The size of the text that a model wrote in one JSON document of its answer, for an estimate where the provider
//! reports no usage. Identifiers, types and figures do not count.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The keys that hold a model's text in the formats of Anthropic, OpenAI and Gemini: answers, thoughts, and arguments of
/// tools.
const TEXT_KEYS: [&str; 11] = [
    "text",
    "content",
    "delta",
    "thinking",
    "partial_json",
    "arguments",
    "args",
    "input",
    "reasoning",
    "reasoning_content",
    "refusal",
];

/// The bytes of text in a document; 0 for anything else than JSON.
pub(super) fn count(document: &[u8]) -> u64 {
    let mut sum = 0;
    let mut reader = serde_json::Deserializer::from_slice(document);
    // A document that ends early counts as far as it goes.
    let _ = TextCounter { sum: &mut sum, is_text: false }.deserialize(&mut reader);
    sum
}

struct TextCounter<'s> {
    sum: &'s mut u64,
    /// The value belongs to a key that holds text.
    is_text: bool,
}

impl<'de> DeserializeSeed<'de> for TextCounter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextCounter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.is_text {
            *self.sum = self.sum.saturating_add(text.len() as u64);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let is_text = TEXT_KEYS.contains(&&*key);
            map.next_value_seed(TextCounter { sum: self.sum, is_text })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(TextCounter { sum: self.sum, is_text: self.is_text })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_of_a_model_counts() {
        let table = [
            (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"12345"}}"#, 5),
            (r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#, 5),
            (r#"{"type":"response.output_text.delta","item_id":"msg_1","delta":"123"}"#, 3),
            (r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"12"}}]}"#, 2),
            (r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}}]}"#, 2),
            (r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"1234"}]}}],"modelVersion":"g"}"#, 4),
            (r#"{"type":"ping"}"#, 0),
            ("<html>", 0),
            ("", 0),
            (r#"{"text":"12","rest":"#, 2),
        ];
        for (document, bytes) in table {
            assert_eq!(count(document.as_bytes()), bytes, "{document}");
        }
    }
}

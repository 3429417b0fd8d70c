//! Strict JSON parsing: a duplicate key is an error, because two readers could use two different values. There may be
//! nothing after the value and no hidden characters in keys.

use super::invisible;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses one JSON value.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    read_shallow(text, usize::MAX).map_err(|error| format!("bad JSON: {error}"))
}

/// Parses one JSON value whose lists and maps nest no deeper than this. The parser's own limit also applies.
pub(crate) fn read_shallow(text: &str, depth_max: usize) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth_left: depth_max }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Parses one JSON value into a type.
pub(crate) fn read_as<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    serde_json::from_value(read(text)?).map_err(|error| format!("bad JSON: {error}"))
}

#[derive(Clone, Copy)]
struct Strict {
    depth_left: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Self { depth_left })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let (inner, mut values) = (self.deeper()?, Vec::new());
        while let Some(value) = seq.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (inner, mut values) = (self.deeper()?, Map::new());
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            if !invisible::is_clean_line(&key) {
                return Err(A::Error::custom("a key with hidden characters"));
            }
            if values.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key `{}`", invisible::printable(&key, 40))));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_unambiguous_value_is_read() {
        let table = [
            (r#"{"a":[1,-2,2.5,null,true,"x"]}"#, r#"{"a":[1,-2,2.5,null,true,"x"]}"#),
            (r#"{"a":1,"a":1}"#, "bad JSON: duplicate key `a` at line 1 column 13"),
            (r#"[{"a":{"b":1,"\u0062":2}}]"#, "bad JSON: duplicate key `b` at line 1 column 24"),
            (r#"{"a\u200b":1}"#, "bad JSON: a key with hidden characters at line 1 column 13"),
            (r#"{} {}"#, "bad JSON: trailing characters at line 1 column 4"),
            (r#"{"a":NaN}"#, "bad JSON: expected value at line 1 column 6"),
            ("", "bad JSON: EOF while parsing a value at line 1 column 0"),
        ];
        for (text, expected) in table {
            let shown = read(text).map_or_else(|error| error, |value| value.to_string());
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}

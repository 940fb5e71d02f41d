//! JSON without duplicate members. Parsers disagree on which duplicate counts, so both are rejected.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a document; a duplicate member is an error.
pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Unique)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                // The name may be a misplaced secret, so it is not repeated.
                return Err(A::Error::custom("an object has the same key twice"));
            }
            let value = members.next_value_seed(Unique)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_matches_serde_but_refuses_duplicate_members() {
        for text in [
            r#"{"a": [1, -2, 3.5, 1e3, null, true, "x\u00e9"], "b": {"c": {}}}"#,
            "18446744073709551615",
            "\"\"",
            "[]",
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), plain);
        }
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"x": {"a": 1, "b": 2, "\u0061": 3}}]"#, "{", "1 2", ""] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(9_000), "]".repeat(9_000));
        assert!(parse(deep.as_bytes()).is_err());
    }
}

//! JSON that no two parsers interpret as different documents.
//!
//! For a duplicate key, some parsers take the first value and others the last; parsers written in Go treat `Layers` and
//! `layers` as equal, as well as `ſize` and `size`. A manifest that is validated here and interpreted elsewhere must leave
//! no such choice. So two keys of an object must differ in more than case, even in annotations, where it would be harmless;
//! there is no use for such keys.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// Maximum nesting depth of arrays and objects.
const DEEPEST: usize = 16;
/// Maximum number of values in a document.
const MOST_VALUES: usize = 200_000;

/// Rejects a document with duplicate keys, too much nesting, too many values, or one of these top-level keys in another
/// spelling. Keeps nothing of it in memory.
pub(crate) fn check(bytes: &[u8], keys: &[&str]) -> Result<(), serde_json::Error> {
    let values = Cell::new(0);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Check { depth: 0, values: &values, keys }.deserialize(&mut deserializer)?;
    deserializer.end()
}

#[derive(Clone, Copy)]
struct Check<'a> {
    depth: usize,
    values: &'a Cell<usize>,
    keys: &'a [&'a str],
}

impl Check<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == DEEPEST {
            return Err(E::custom(format!("it is nested more than {DEEPEST} levels deep")));
        }
        Ok(Self { depth: self.depth + 1, keys: &[], ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.values.set(self.values.get() + 1);
        if self.values.get() > MOST_VALUES {
            return Err(D::Error::custom(format!("it has more than {MOST_VALUES} values")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
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

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        while entries.next_element_seed(deeper)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let shown = || key.chars().take(60).collect::<String>();
            let folded = folded(&key);
            let other_letters = |known: &&&str| **known != key && known.to_lowercase() == folded;
            if let Some(known) = self.keys.iter().find(other_letters) {
                return Err(A::Error::custom(format!("the key {:?} must be spelled {known:?}", shown())));
            }
            if !seen.insert(folded) {
                let why = format!("the key {:?} occurs twice, perhaps in different case", shown());
                return Err(A::Error::custom(why));
            }
            entries.next_value_seed(deeper)?;
        }
        Ok(())
    }
}

/// Folds case like a case-insensitive parser: via upper case, because `ſ` is a lower-case letter with the upper case `S`.
fn folded(key: &str) -> String {
    key.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(text: &str) -> String {
        check(text.as_bytes(), &["layers"]).unwrap_err().to_string()
    }

    #[test]
    fn ordinary_documents_pass() {
        for text in
            ["{}", "[]", "1", "-1.5e3", "null", "\"a\"", r#"{"a":{"b":[1,{"b":2}]},"b":null,"layers":[]}"#]
        {
            assert!(check(text.as_bytes(), &["layers"]).is_ok(), "{text}");
        }
        assert!(check(br#"{"a":{"Layers":1}}"#, &["layers"]).is_ok(), "only the top is looked at");
    }

    #[test]
    fn ambiguous_documents_do_not() {
        for (text, says) in [
            (r#"{"a":1,"a":1}"#, "twice"),
            (r#"{"a":1,"\u0061":1}"#, "twice"),
            (r#"[{"x":{"a":1,"b":2,"a":3}}]"#, "twice"),
            (r#"[{"digest":1,"Digest":2}]"#, "twice"),
            (r#"[{"size":1,"ſize":2}]"#, "twice"),
            ("{\"x\":{\"key\":1,\"\u{212a}ey\":2}}", "twice"),
            (r#"{"layerſ":1}"#, "must be spelled"),
            (r#"{"Layers":1}"#, "must be spelled"),
            (r#"{"layers":1,"LAYERS":1}"#, "must be spelled"),
            ("{} {}", "trailing"),
            ("", "EOF"),
            ("{", "EOF"),
        ] {
            assert!(refusal(text).contains(says), "{text}: {}", refusal(text));
        }
        assert!(refusal(&("[".repeat(17) + &"]".repeat(17))).contains("nested"));
        assert!(check(("[".repeat(16) + &"]".repeat(16)).as_bytes(), &[]).is_ok());
        assert!(refusal(&"[".repeat(1 << 20)).contains("nested"));
        assert!(refusal(&format!("[{}0]", "0,".repeat(MOST_VALUES))).contains("values"));
    }

    proptest! {
        #[test]
        fn accepted_bytes_are_valid_json(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:a1 \\u0\xff".to_vec()), 0..40)) {
            if check(&bytes, &[]).is_ok() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            }
        }
    }
}

//! JSON that two readers cannot take for two different documents.
//!
//! Of a key that stands twice one reader takes the first and another the last, and the readers that are written in Go do not
//! tell `Layers` from `layers`, nor `ſize` from `size`. A manifest that is checked by us and followed by somebody else must
//! leave no such choice. So two keys of one object must differ in more than their letters' case, even where that is
//! harmless, in annotations; nobody has a use for those.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// How deeply arrays and objects may lie in one another.
const DEEPEST: usize = 16;
/// How many values a document may have.
const MOST_VALUES: usize = 200_000;

/// Refuses a document that has a key twice, lies too deep, has too many values or spells one of these keys, at its top, in
/// other letters. Nothing of it is kept in memory.
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
            return Err(E::custom(format!("it is nested more than {DEEPEST} deep")));
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
                let why = format!("the key {:?} stands in it twice, perhaps in other letters", shown());
                return Err(A::Error::custom(why));
            }
            entries.next_value_seed(deeper)?;
        }
        Ok(())
    }
}

/// As a reader sees it that does not tell capital letters from small ones. By way of the capital letter, because `ſ` is a
/// small letter whose capital is `S`.
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
        fn what_passes_is_json(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:a1 \\u0\xff".to_vec()), 0..40)) {
            if check(&bytes, &[]).is_ok() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            }
        }
    }
}

//! Labels on resources, and the selectors that filter lists by them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Key and value pairs that the platform stores and never interprets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

impl Labels {
    /// No labels.
    pub fn new() -> Self {
        Self::default()
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl PartialSchema for Labels {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .property_names(Some(text().pattern(Some("^[a-z0-9-][a-z0-9._/-]{0,62}$")).build()))
            .additional_properties(Some(text().max_length(Some(255))))
            .max_properties(Some(64))
            .into()
    }
}

impl ToSchema for Labels {}

/// Reports whether `key` is a valid label key: letters, digits, dots, slashes and dashes, up to 63. The narrow alphabet also
/// keeps keys from being read as paths by the databases' JSON operators.
pub fn is_key(key: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._/-".contains(&byte);
    (1..=63).contains(&key.len()) && key.bytes().all(inner) && !key.starts_with('.') && !key.starts_with('/')
}

/// Returns the first error in a set of labels.
pub fn fault(labels: &Labels) -> Option<String> {
    if labels.0.len() > 64 {
        return Some("there are more than 64 labels".to_owned());
    }
    labels.0.iter().find_map(|(key, value)| match (is_key(key), value.len() <= 255) {
        (false, _) => Some(format!("`{key}` cannot be a key: use a-z, 0-9, '.', '/', '-', up to 63 of them")),
        (true, false) => Some(format!("the value of `{key}` is longer than 255 bytes")),
        (true, true) => None,
    })
}

/// A label selector such as `team=ml,stage!=test`: every term must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Keys that must have exactly this value.
    pub equal: BTreeMap<String, String>,
    /// Keys that must not have this value; a missing key passes.
    pub not_equal: BTreeMap<String, String>,
}

impl LabelSelector {
    /// Parses the text of the `labels` parameter; the error names the invalid term.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut selector = Self::default();
        for term in text.split(',').filter(|term| !term.is_empty()) {
            let (key, value, map) = match term.split_once("!=") {
                Some((key, value)) => (key, value, &mut selector.not_equal),
                None => match term.split_once('=') {
                    Some((key, value)) => (key, value, &mut selector.equal),
                    None => return Err(format!("the term `{term}` is neither key=value nor key!=value")),
                },
            };
            if !is_key(key) {
                return Err(format!("`{key}` in the term `{term}` cannot be a label's key"));
            }
            if map.insert(key.to_owned(), value.to_owned()).is_some_and(|before| before != value) {
                return Err(format!("the key `{key}` is requested twice"));
            }
        }
        Ok(selector)
    }

    /// Returns the `equal` part as a JSON object, the format of the statements.
    pub fn equal_json(&self) -> Value {
        object(&self.equal)
    }

    /// Returns the `not_equal` part likewise.
    pub fn not_equal_json(&self) -> Value {
        object(&self.not_equal)
    }
}

fn object(map: &BTreeMap<String, String>) -> Value {
    Value::Object(
        map.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::LabelSelector;

    #[test]
    fn terms_are_parsed_and_faults_are_named() {
        let selector = LabelSelector::parse("team=ml,stage!=test").unwrap();
        assert_eq!(selector.equal["team"], "ml");
        assert_eq!(selector.not_equal["stage"], "test");
        assert!(LabelSelector::parse("team").unwrap_err().contains("`team`"));
        assert!(LabelSelector::parse("=x").unwrap_err().contains("cannot be"));
        assert!(LabelSelector::parse("a=1,a=2").unwrap_err().contains("twice"));
    }
}

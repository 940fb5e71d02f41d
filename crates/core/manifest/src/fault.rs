//! Errors in a document, with their paths.

use serde::Serialize;
use serde_json::Value;

/// Maximum number of reported errors: more are reported once the first ones are fixed.
pub(crate) const MOST: usize = 200;

/// Maximum length of any list in a manifest.
const LONGEST_LIST: usize = 256;

/// One error in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// JSON pointer into the document.
    pub path: String,
    /// Violated rule: a stable identifier.
    pub rule: &'static str,
    /// The fault and how to fix it.
    pub message: String,
    /// Whether the document is rejected for it; otherwise it is a warning.
    pub error: bool,
}

impl Fault {
    pub(crate) fn error(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule, message: message.into(), error: true }
    }

    pub(crate) fn warning(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule, message: message.into(), error: false }
    }
}

/// Truncates a list that is too long, with a final entry for the rest.
pub(crate) fn bounded(mut faults: Vec<Fault>) -> Vec<Fault> {
    if faults.len() > MOST {
        let more = faults.len() - MOST;
        faults.truncate(MOST);
        let message = format!("there are {more} more faults: fix these first and lint again");
        faults.push(Fault::error("", "too_many_faults", message));
    }
    faults
}

/// Escapes a name for a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A position in a possibly invalid document: a missing or mistyped value counts as absent, so that each rule works on the
/// rest.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub(crate) value: Option<&'a Value>,
    pub(crate) path: String,
}

impl<'a> At<'a> {
    pub(crate) fn root(document: &'a Value) -> Self {
        Self { value: Some(document), path: String::new() }
    }

    pub(crate) fn get(&self, name: &str) -> At<'a> {
        let value = self.value.and_then(|value| value.as_object()?.get(name));
        At { value, path: format!("{}/{}", self.path, escaped(name)) }
    }

    /// Returns the entries of a list. No list of a manifest may be longer, and the schema reports one that is: rules ignore
    /// the rest, so that their cost stays bounded.
    pub(crate) fn items(&self) -> Vec<At<'a>> {
        let items = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let item = |(index, value)| At { value: Some(value), path: format!("{}/{index}", self.path) };
        items.iter().take(LONGEST_LIST).enumerate().map(item).collect()
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        self.value?.as_str()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value?.as_i64()
    }

    pub(crate) fn is_true(&self) -> bool {
        self.value == Some(&Value::Bool(true))
    }

    pub(crate) fn is_there(&self) -> bool {
        self.value.is_some()
    }
}

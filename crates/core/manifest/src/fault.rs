//! What is wrong with a document, by place, so that whoever wrote it finds it.

use serde::Serialize;
use serde_json::Value;

/// No document is told more faults than this: whoever made so many mends the first ones and asks again.
pub(crate) const MOST: usize = 200;

/// The most entries that any list of a manifest may have.
const LONGEST_LIST: usize = 256;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where, as a JSON pointer into the document.
    pub path: String,
    /// Which rule it breaks: a word that stays the same when the sentence changes.
    pub rule: &'static str,
    /// What is wrong and what to do about it.
    pub says: String,
    /// Whether the document is refused for it. What is not an error is a warning.
    pub error: bool,
}

impl Fault {
    pub(crate) fn error(path: impl Into<String>, rule: &'static str, says: impl Into<String>) -> Self {
        Self { path: path.into(), rule, says: says.into(), error: true }
    }

    pub(crate) fn warning(path: impl Into<String>, rule: &'static str, says: impl Into<String>) -> Self {
        Self { path: path.into(), rule, says: says.into(), error: false }
    }
}

/// Cuts a list that is too long, and says so in its last line.
pub(crate) fn bounded(mut faults: Vec<Fault>) -> Vec<Fault> {
    if faults.len() > MOST {
        let more = faults.len() - MOST;
        faults.truncate(MOST);
        let says = format!("there are {more} faults more: mend these first and ask again");
        faults.push(Fault::error("", "too_many_faults", says));
    }
    faults
}

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A place in a document that may not be what it should: what cannot be read there is simply not there, so that a rule works on
/// whatever is.
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

    /// The entries of a list. No list of a manifest may have more than these, and the schema says so of one that does: what it
    /// has beyond them is looked at by no rule, so that no rule takes longer than it would for a good one.
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

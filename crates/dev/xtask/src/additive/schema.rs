//! Compares two versions of one schema. Requests of old clients must still be accepted, so the old must fit into the new;
//! responses must still be understood, so the new must fit into the old. Both are one question: does every value of `inner`
//! fit `outer`?

use std::collections::BTreeSet;

use serde_json::{Map, Value};

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Request,
    Response,
}

/// One comparison; it records the visited pairs of named schemas, because schemas may be recursive.
pub(super) struct Comparison<'d> {
    direction: Direction,
    old: &'d Value,
    new: &'d Value,
    seen: BTreeSet<(String, String)>,
    findings: Vec<String>,
}

/// A limit, and whether a larger number makes it stricter.
const LIMITS: [(&str, bool); 10] = [
    ("minimum", true),
    ("exclusiveMinimum", true),
    ("minLength", true),
    ("minItems", true),
    ("minProperties", true),
    ("maximum", false),
    ("exclusiveMaximum", false),
    ("maxLength", false),
    ("maxItems", false),
    ("maxProperties", false),
];

impl<'d> Comparison<'d> {
    /// Compares request schemas.
    pub(super) fn request(old: &'d Value, new: &'d Value) -> Self {
        Self { direction: Direction::Request, old, new, seen: BTreeSet::new(), findings: Vec::new() }
    }

    /// Compares response schemas.
    pub(super) fn response(old: &'d Value, new: &'d Value) -> Self {
        Self { direction: Direction::Response, ..Self::request(old, new) }
    }

    /// Returns the breaking changes, each with its path.
    pub(super) fn compare(mut self, at: &str, old: &Value, new: &Value) -> Vec<String> {
        self.schema(at, old, new);
        self.findings
    }

    fn schema(&mut self, at: &str, old: &Value, new: &Value) {
        if let (Some(before), Some(after)) = (old["$ref"].as_str(), new["$ref"].as_str())
            && !self.seen.insert((before.to_owned(), after.to_owned()))
        {
            return;
        }
        let (old, new) = (resolve(self.old, old), resolve(self.new, new));
        let (inner, outer) = match self.direction {
            Direction::Request => (&old, &new),
            Direction::Response => (&new, &old),
        };
        self.kind(at, inner, outer);
        self.words(at, inner, outer);
        self.limits(at, inner, outer);
        self.actions(at, inner, outer);
        self.members(at, &old, &new);
        if let Some(after) = new.get("items") {
            self.schema(&format!("{at}[]"), old.get("items").unwrap_or(&Value::Null), after);
        }
    }

    fn found(&mut self, at: &str, what: &str) {
        self.findings.push(format!("{at}: {what}"));
    }

    fn kind(&mut self, at: &str, inner: &Value, outer: &Value) {
        let accepted = types(outer);
        let fits =
            |kind: &String| accepted.contains(kind) || (kind == "integer" && accepted.contains("number"));
        if !accepted.is_empty() && (types(inner).is_empty() || !types(inner).iter().all(fits)) {
            self.found(at, "its type has changed");
        }
    }

    /// Compares enums and text formats. An enum that grows in a response is an addition: clients must expect it.
    fn words(&mut self, at: &str, inner: &Value, outer: &Value) {
        let list = |schema: &Value| {
            let constant = schema.get("const").map(|only| vec![only.clone()]);
            schema["enum"].as_array().cloned().or(constant)
        };
        if self.direction == Direction::Request
            && let Some(accepted) = list(outer)
        {
            match list(inner) {
                Some(sent) => {
                    for word in sent.iter().filter(|word| !accepted.contains(word)) {
                        self.found(at, &format!("the value {word} is no longer accepted"));
                    }
                }
                None => self.found(at, "only certain values are accepted now"),
            }
        }
        for keyword in ["pattern", "format"] {
            if outer.get(keyword).is_some_and(|form| inner.get(keyword) != Some(form)) {
                self.found(at, &format!("its {keyword} has changed"));
            }
        }
    }

    fn limits(&mut self, at: &str, inner: &Value, outer: &Value) {
        for (keyword, larger_is_stricter) in LIMITS {
            let Some(limit) = outer[keyword].as_f64() else { continue };
            let fits = inner[keyword]
                .as_f64()
                .is_some_and(|kept| if larger_is_stricter { kept >= limit } else { kept <= limit });
            if !fits {
                self.found(at, &format!("its {keyword} is narrower"));
            }
        }
    }

    /// Compares alternatives: each inner one must fit an outer one. `allOf` is compared part by part.
    fn actions(&mut self, at: &str, inner: &Value, outer: &Value) {
        for keyword in ["oneOf", "anyOf", "allOf"] {
            let Some(accepted) = outer[keyword].as_array() else { continue };
            let offered = inner[keyword].as_array().cloned().unwrap_or_else(|| vec![inner.clone()]);
            for action in &offered {
                if !accepted.iter().any(|other| self.fits(action, other)) {
                    self.found(at, &format!("an alternative under {keyword} has changed"));
                }
            }
        }
    }

    fn fits(&self, inner: &Value, outer: &Value) -> bool {
        let (old, new) = match self.direction {
            Direction::Request => (inner, outer),
            Direction::Response => (outer, inner),
        };
        let trial = Comparison { seen: self.seen.clone(), findings: Vec::new(), ..*self };
        trial.compare("", old, new).is_empty()
    }

    fn members(&mut self, at: &str, old: &Value, new: &Value) {
        let empty = Map::new();
        let before = old["properties"].as_object().unwrap_or(&empty);
        let after = new["properties"].as_object().unwrap_or(&empty);
        for (name, described) in before {
            match after.get(name) {
                Some(kept) => self.schema(&format!("{at}.{name}"), described, kept),
                None => self.found(&format!("{at}.{name}"), "it is gone"),
            }
        }
        let requires =
            |schema: &Value, name: &str| super::items(&schema["required"]).any(|required| required == name);
        for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            match self.direction {
                Direction::Request if requires(new, name) && !requires(old, name) => {
                    self.found(&format!("{at}.{name}"), "it is now required");
                }
                Direction::Response
                    if requires(old, name) && !requires(new, name) && after.contains_key(name) =>
                {
                    self.found(&format!("{at}.{name}"), "it may now be absent");
                }
                _ => {}
            }
        }
        self.others(at, old, new);
    }

    /// Compares fields beyond the named ones: maps, and objects that reject unknown fields.
    fn others(&mut self, at: &str, old: &Value, new: &Value) {
        match (&old["additionalProperties"], &new["additionalProperties"]) {
            (Value::Object(_), Value::Object(_)) => {
                let (before, after) = (&old["additionalProperties"], &new["additionalProperties"]);
                self.schema(&format!("{at}.*"), before, after);
            }
            (Value::Bool(false), _) => {}
            (_, Value::Bool(false)) if self.direction == Direction::Request => {
                self.found(at, "members that are not named are refused now");
            }
            (Value::Null | Value::Bool(true), Value::Object(_)) if self.direction == Direction::Request => {
                self.found(at, "members that are not named must now have a certain form");
            }
            _ => {}
        }
    }
}

fn types(schema: &Value) -> BTreeSet<String> {
    match &schema["type"] {
        Value::String(only) => BTreeSet::from([only.clone()]),
        Value::Array(several) => several.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect(),
        _ => BTreeSet::new(),
    }
}

/// Resolves a reference.
fn resolve(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => document.pointer(pointer).cloned().unwrap_or(Value::Null),
        None => schema.clone(),
    }
}

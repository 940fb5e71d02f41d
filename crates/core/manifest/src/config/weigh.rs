//! Computes the cost of validating with a schema, without running it: the targets of its references, and its size once each
//! reference is replaced by its target. Without circular references, no part of the schema is applied to a part of the
//! document more often than it occurs, so that size bounds the work.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fault::{Fault, escaped};

/// Maximum number of parts of a schema, with every reference expanded.
const HEAVIEST: u64 = 10_000;
/// Maximum nesting depth, references included.
const DEEPEST: usize = 200;
/// Keywords with data values, not schemas.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords with maps of schemas.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "$defs", "dependentSchemas"];
/// Keywords with context-dependent references.
const MOVING: [&str; 4] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the errors in the references of a schema at `at`.
pub(super) fn faults(schema: &Value, at: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    references(schema, schema, at, at, &mut faults);
    if faults.is_empty() {
        let mut scale = Scale { whole: schema, known: BTreeMap::new() };
        match scale.weigh(schema, "", false, 0) {
            Err(Weightless::Deep(path)) => {
                let message = "with its references resolved it is nested too deeply here: flatten it";
                faults.push(fault(format!("{at}{path}"), message));
            }
            Err(Weightless::Circle(path)) => {
                let message = "the reference is circular: write out the possible levels";
                faults.push(fault(format!("{at}{path}"), message));
            }
            Ok(weight) if weight > HEAVIEST => {
                let message =
                    format!("with its references resolved it has {weight} parts, and {HEAVIEST} are allowed");
                faults.push(fault(at.to_owned(), format!("{message}: use fewer references")));
            }
            Ok(_) => {}
        }
    }
    faults
}

fn fault(path: String, message: impl Into<String>) -> Fault {
    Fault::error(path, "config_schema", message)
}

/// Checks every reference at the positions where a schema can occur.
fn references(whole: &Value, schema: &Value, root: &str, at: &str, faults: &mut Vec<Fault>) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            for (index, item) in items.iter().enumerate() {
                references(whole, item, root, &format!("{at}/{index}"), faults);
            }
        }
        return;
    };
    for (name, value) in object {
        let path = format!("{at}/{}", escaped(name));
        match name.as_str() {
            "$ref" => match value.as_str().and_then(|text| text.strip_prefix('#')) {
                Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    if pointer.contains('%') || whole.pointer(pointer).is_none() {
                        faults.push(fault(
                            path,
                            "nothing exists at this place of the schema: check its spelling",
                        ));
                    }
                }
                _ => faults.push(fault(
                    path,
                    "it points outside the schema, and nothing is fetched: write it as #/$defs/…",
                )),
            },
            "$id" if at != root => {
                faults
                    .push(fault(path, "only the whole schema has a name: remove it, and refer by #/$defs/…"));
            }
            "$schema" if value != DRAFT => {
                faults.push(fault(
                    path,
                    format!("schemas are read as draft 2020-12: write {DRAFT}, or remove it"),
                ));
            }
            moving if MOVING.contains(&moving) => {
                faults.push(fault(path, "it depends on the path of references: refer by $ref and #/$defs/…"));
            }
            data if DATA.contains(&data) => {}
            by_name if BY_NAME.contains(&by_name) => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    references(whole, inner, root, &format!("{path}/{}", escaped(name)), faults);
                }
            }
            _ => references(whole, value, root, &path, faults),
        }
    }
}

/// Why a schema has no weight.
enum Weightless {
    /// The reference at this path is circular.
    Circle(String),
    /// The value at this path is nested too deeply, references included.
    Deep(String),
}

struct Scale<'a> {
    whole: &'a Value,
    /// Weights by path, as a schema or as a map of schemas. One still being computed has no value.
    known: BTreeMap<(String, bool), Option<u64>>,
}

impl Scale<'_> {
    /// Returns the number of parts at a path with every reference expanded.
    fn weigh(&mut self, part: &Value, at: &str, by_name: bool, depth: usize) -> Result<u64, Weightless> {
        if depth > DEEPEST {
            return Err(Weightless::Deep(at.to_owned()));
        }
        let key = (at.to_owned(), by_name);
        match self.known.get(&key) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err(Weightless::Circle(at.to_owned())),
            None => {}
        }
        self.known.insert(key.clone(), None);
        let mut sum: u64 = 1;
        for (name, value) in part.as_object().into_iter().flatten() {
            let path = format!("{at}/{}", escaped(name));
            let weight = match name.as_str() {
                _ if by_name => self.weigh(value, &path, false, depth + 1)?,
                data if DATA.contains(&data) => 1,
                "$ref" => self.follow(value, path, depth)?,
                name => self.weigh(value, &path, BY_NAME.contains(&name), depth + 1)?,
            };
            sum = sum.saturating_add(weight);
        }
        for (index, item) in part.as_array().into_iter().flatten().enumerate() {
            sum = sum.saturating_add(self.weigh(item, &format!("{at}/{index}"), false, depth + 1)?);
        }
        self.known.insert(key, Some(sum));
        Ok(sum)
    }

    fn follow(&mut self, reference: &Value, path: String, depth: usize) -> Result<u64, Weightless> {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
        let whole = self.whole;
        let Some((pointer, target)) = pointer.and_then(|pointer| Some((pointer, whole.pointer(pointer)?)))
        else {
            return Ok(1);
        };
        self.weigh(target, pointer, false, depth + 1).map_err(|why| match why {
            Weightless::Circle(_) => Weightless::Circle(path),
            deep => deep,
        })
    }
}

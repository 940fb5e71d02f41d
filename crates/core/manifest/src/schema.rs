//! The published JSON Schema of a manifest, and validation against it. The schema is generated from the types, so it cannot
//! promise anything that the platform does not read.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

use crate::explain::explain;
use crate::fault::{At, Fault, escaped};
use crate::{Manifest, fault};

/// Id of the schema: a name, not an address that would be fetched.
pub const SCHEMA_ID: &str = "urn:muster:manifest:v1";

/// Returns the JSON Schema, draft 2020-12, of a manifest, without external references.
pub fn schema() -> Value {
    let mut definitions = Vec::new();
    Manifest::schemas(&mut definitions);
    let mut parts: Map<String, Value> = Map::new();
    for (name, part) in definitions {
        parts.entry(name).or_insert_with(|| plain(part));
    }
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID});
    if let (Value::Object(schema), Value::Object(manifest)) = (&mut schema, plain(Manifest::schema())) {
        schema.extend(manifest);
        parts.sort_keys();
        schema.insert("$defs".to_owned(), Value::Object(parts));
    }
    schema
}

/// Converts a derived OpenAPI schema to a plain one, as strict as the types.
fn plain(schema: impl serde::Serialize) -> Value {
    let mut schema = serde_json::to_value(schema).unwrap_or_default();
    tighten(&mut schema, "");
    schema
}

fn tighten(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/$defs/");
            }
            if let Some(example) = object.remove("example") {
                object.insert("examples".to_owned(), json!([example]));
            }
            // A variant of an enum rejects unknown fields, but its derived schema does not.
            if object.get("properties").is_some_and(Value::is_object) {
                object.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            // All unsigned integers are derived alike, as signed 32-bit integers without a maximum.
            if object.get("type").is_some_and(|kind| kind == "integer") {
                let most = match object.remove("format").as_ref().and_then(Value::as_str) {
                    Some("int32") if matches!(name, "port" | "tcp") => i64::from(u16::MAX),
                    Some("int32") if object.get("minimum").is_some() => i64::from(u32::MAX),
                    Some("int32") => i64::from(i32::MAX),
                    _ => i64::MAX,
                };
                object.entry("maximum").or_insert(json!(most));
                object.entry("minimum").or_insert(json!(-most));
            }
            object.iter_mut().for_each(|(name, inner)| tighten(inner, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| tighten(item, "")),
        _ => {}
    }
}

/// Returns the errors in the shape of a document.
pub(crate) fn shape_faults(document: &Value) -> Vec<Fault> {
    static SHAPE: OnceLock<(Value, Validator)> = OnceLock::new();
    let (schema, validator) = SHAPE.get_or_init(|| {
        let schema = schema();
        let validator =
            jsonschema::draft202012::new(&schema).expect("the published schema is a valid schema");
        (schema, validator)
    });
    let errors = validator.iter_errors(document).take(fault::MOST + 1);
    let mut faults: Vec<Fault> = errors.flat_map(|error| explain(&error, schema, "")).collect();
    let root = At::root(document);
    for (name, _) in document.as_object().into_iter().flatten() {
        // A schema may compare with fractions; nothing else here needs them.
        if name != "config_schema" {
            fractions(root.get(name), &mut faults);
        }
    }
    faults
}

/// Rejects `1.0` as an integer: a schema accepts it, and the deserializer does not.
fn fractions(at: At<'_>, faults: &mut Vec<Fault>) {
    match at.value {
        Some(Value::Number(number)) if number.is_f64() && number.as_f64().is_some_and(is_whole) => {
            faults.push(Fault::error(at.path, "wrong_type", "write the number without a decimal point"));
        }
        Some(Value::Array(_)) => at.items().into_iter().for_each(|item| fractions(item, faults)),
        Some(Value::Object(object)) => {
            for (name, value) in object {
                let path = format!("{}/{}", at.path, escaped(name));
                fractions(At { value: Some(value), path }, faults);
            }
        }
        _ => {}
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

/// Reads a manifest. It checks the shape only, not the rules of [`lint`](crate::lint()): a release published before a rule
/// existed stays readable.
pub fn read(document: &Value) -> Result<Manifest, Vec<Fault>> {
    let faults = shape_faults(document);
    if !faults.is_empty() {
        return Err(fault::bounded(faults));
    }
    serde::Deserialize::deserialize(document).map_err(|error: serde_json::Error| {
        vec![Fault::error(
            "",
            "unreadable",
            format!("it cannot be read: {error}; write it as the schema requires"),
        )]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_stands_by_itself_and_is_a_schema() {
        let schema = schema();
        assert!(jsonschema::draft202012::meta::is_valid(&schema));
        assert_eq!(schema["$id"], SCHEMA_ID);
        let text = schema.to_string();
        assert!(!text.contains("#/components/"), "{text}");
        for reference in text.split("\"$ref\":\"").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schema.pointer(name.strip_prefix('#').unwrap()).is_some(), "{name}");
        }
    }

    #[test]
    fn a_form_that_was_meant_is_explained_by_its_own_faults() {
        let told = |root: Value| {
            let document = json!({"app": "a", "version": "1", "artifact_kind": "oci",
                "compatibility": {"requires_capacity_shape": ["baremetal"]},
                "components": [{"key": "a", "count": {"min": 1, "max": 1}, "capacity": {"cpus": 1, "memory_mb": 1},
                                "runtime": {"root": root}}]});
            let faults = shape_faults(&document);
            faults.into_iter().map(|fault| (fault.path, fault.rule, fault.message)).collect::<Vec<_>>()
        };
        let at = "/components/0/runtime/root";
        let says = |says: &str| says.to_owned();
        assert_eq!(
            told(json!({"host": 5})),
            [(
                format!("{at}/host"),
                "wrong_type",
                says("it must be of type array, and is of type integer: change it")
            )]
        );
        assert_eq!(
            told(json!("host")),
            [(at.to_owned(), "not_a_choice", says("it must be one of {\"artifact\": …}, {\"host\": …}"))]
        );
        let [(path, "unknown_field", _)] = &told(json!({"artifact": "a", "x/y": 1}))[..] else { panic!() };
        assert_eq!(path, &format!("{at}/x~1y"));
    }
}

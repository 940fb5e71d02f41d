//! Requests are checked against the published schemas themselves, so that the document cannot promise what the server
//! does not hold.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use jsonschema::Validator;
use muster_api::{Code, FieldError, Operation, Problem, self_contained};
use serde_json::{Map, Value, json};

/// The schemas of all bodies and queries. Each is compiled by the first request that needs it: compiling all of them at each
/// start was most of a server's start, and a test starts many servers.
pub(crate) struct Schemas {
    validators: HashMap<String, OnceLock<Validator>>,
    document: Cow<'static, Value>,
}

impl Schemas {
    /// Those of the public API, once a process.
    pub(crate) fn public() -> &'static Self {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
            let operations = muster_api::operations();
            let shapes =
                operations.iter().flat_map(|operation| operation.body.iter().chain(operation.query.iter()));
            Schemas::new(Cow::Borrowed(muster_api::document()), shapes.map(|shape| shape.name()))
        });
        &SCHEMAS
    }

    /// Those of the agents' wire, once a process.
    pub(crate) fn of_nodes() -> &'static Self {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
            let bodies = muster_wire::OPERATIONS.iter().map(|operation| operation.body.name());
            Schemas::new(Cow::Owned(muster_wire::document()), bodies)
        });
        &SCHEMAS
    }

    fn new(document: Cow<'static, Value>, names: impl Iterator<Item = String>) -> Self {
        Self { validators: names.map(|name| (name, OnceLock::new())).collect(), document }
    }

    fn validator(&self, name: &str) -> Option<&Validator> {
        let validator = self.validators.get(name)?;
        Some(validator.get_or_init(|| {
            let schema = json!({"$ref": format!("#/components/schemas/{name}")});
            jsonschema::draft202012::options()
                .should_validate_formats(true)
                .build(&self_contained(&self.document, &schema))
                .expect("a published schema is a valid schema")
        }))
    }

    /// Checks a body; every fault is named by its place.
    pub(crate) fn check_body(&self, operation: &Operation, body: &Value) -> Result<(), Problem> {
        let Some(shape) = operation.body else { return Ok(()) };
        self.check(&shape.name(), body, "")
    }

    /// Whether a request of this shape may hold a secret: then no fault of it repeats anything that came.
    fn is_silent(&self, name: &str) -> bool {
        let properties = self.document["components"]["schemas"][name]["properties"].as_object();
        properties.is_some_and(|properties| properties.values().any(|property| property["writeOnly"] == true))
    }

    /// The same for the body of an operation.
    pub(crate) fn has_silent_body(&self, operation: &Operation) -> bool {
        operation.body.is_some_and(|shape| self.is_silent(&shape.name()))
    }

    /// Reads the query of an operation into an object, with numbers and booleans where the schema says so, and checks it.
    pub(crate) fn read_query(&self, operation: &Operation, raw: &str) -> Result<Value, Problem> {
        let properties = operation
            .query
            .map(|shape| self.document["components"]["schemas"][shape.name()]["properties"].clone())
            .unwrap_or_default();
        let mut object = Map::new();
        for (name, text) in url::form_urlencoded::parse(raw.as_bytes()) {
            let Some(schema) = properties.get(name.as_ref()) else {
                return Err(Problem::field(format!("query/{name}"), "there is no such parameter"));
            };
            let value = match schema["type"].as_str() {
                Some("integer") => text.parse::<i64>().map(Value::from).unwrap_or_else(|_| json!(text)),
                Some("boolean") => text.parse::<bool>().map(Value::from).unwrap_or_else(|_| json!(text)),
                _ => json!(text),
            };
            if object.insert(name.clone().into_owned(), value).is_some() {
                return Err(Problem::field(format!("query/{name}"), "it is given twice"));
            }
        }
        let object = Value::Object(object);
        if let Some(shape) = operation.query {
            self.check(&shape.name(), &object, "query")?;
        }
        Ok(object)
    }

    /// Checks a value against the schema of this name; `at` is where it stands in the request.
    pub(crate) fn check(&self, name: &str, value: &Value, at: &str) -> Result<(), Problem> {
        let Some(validator) = self.validator(name) else { return Ok(()) };
        let silent = self.is_silent(name);
        let mut errors: Vec<FieldError> = validator
            .iter_errors(value)
            .take(20)
            .map(|error| FieldError {
                pointer: format!("{at}{}", error.instance_path()),
                detail: shorten(if silent { error.masked().to_string() } else { error.to_string() }),
            })
            .collect();
        if let Some(pointer) = nul(value, at.to_owned()) {
            errors.push(FieldError { pointer, detail: "the character U+0000 cannot be stored".to_owned() });
        }
        let Some(first) = errors.first() else { return Ok(()) };
        let more = if errors.len() > 1 { format!(" (and {} more)", errors.len() - 1) } else { String::new() };
        let place = if first.pointer.is_empty() { "the body" } else { &first.pointer };
        let detail = format!("{place}: {}{more}", first.detail);
        Err(Problem::new(Code::InvalidRequest, detail).with_errors(errors))
    }
}

/// A validator repeats the offending value; a megabyte of it helps nobody.
fn shorten(text: String) -> String {
    if text.chars().count() <= 200 { text } else { text.chars().take(197).collect::<String>() + "…" }
}

/// The place of the first U+0000: JSON allows it, PostgreSQL's text does not.
fn nul(value: &Value, at: String) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then_some(at),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| nul(item, format!("{at}/{index}")))
        }
        Value::Object(object) => object.iter().find_map(|(key, item)| {
            if key.contains('\0') { Some(at.clone()) } else { nul(item, format!("{at}/{key}")) }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_schema_compiles() {
        for schemas in [Schemas::public(), Schemas::of_nodes()] {
            assert!(schemas.validators.len() > 5);
            for name in schemas.validators.keys() {
                assert!(
                    schemas.document["components"]["schemas"][name].is_object(),
                    "{name} is not published"
                );
                assert!(schemas.validator(name).is_some(), "{name}");
            }
        }
        assert!(Schemas::public().check("NoSuchName", &json!(1), "").is_ok());
    }
}

//! Requests are checked against the published schemas themselves, so that the document cannot promise what the server
//! does not hold.

use std::collections::HashMap;

use jsonschema::Validator;
use muster_api::{Code, FieldError, Operation, Problem};
use serde_json::{Map, Value, json};

/// The compiled schemas of all bodies and queries.
pub(crate) struct Schemas {
    validators: HashMap<String, Validator>,
    document: Value,
}

impl Schemas {
    /// Those of the public API.
    pub(crate) fn new() -> Self {
        let operations = muster_api::operations();
        let shapes =
            operations.iter().flat_map(|operation| operation.body.iter().chain(operation.query.iter()));
        Self::of(muster_api::document(), shapes.map(|shape| shape.name()))
    }

    /// Those of a document with these names.
    pub(crate) fn of(document: Value, names: impl Iterator<Item = String>) -> Self {
        let mut validators = HashMap::new();
        for name in names {
            if validators.contains_key(&name) {
                continue;
            }
            let schema = json!({
                "$ref": format!("#/components/schemas/{name}"),
                "components": {"schemas": reached(&document, &name)},
            });
            let validator = jsonschema::draft202012::options()
                .should_validate_formats(true)
                .build(&schema)
                .expect("a published schema is a valid schema");
            validators.insert(name, validator);
        }
        Self { validators, document }
    }

    pub(crate) fn document(&self) -> &Value {
        &self.document
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
        let Some(validator) = self.validators.get(name) else { return Ok(()) };
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

/// The schemas that one leads to, itself included. A validator keeps what it is given, and there is one for each request.
fn reached(document: &Value, name: &str) -> Map<String, Value> {
    let mut reached = Map::new();
    let mut waiting = vec![name.to_owned()];
    while let Some(name) = waiting.pop() {
        let schema = &document["components"]["schemas"][&name];
        if !schema.is_null() && !reached.contains_key(&name) {
            references(schema, &mut waiting);
            reached.insert(name, schema.clone());
        }
    }
    reached
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            let name = object
                .get("$ref")
                .and_then(|reference| reference.as_str()?.strip_prefix("#/components/schemas/"));
            found.extend(name.map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
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

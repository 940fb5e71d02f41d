//! Validates requests against the published schemas, so that the document and the server cannot diverge.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use muster_control::{Error, Result};

use jsonschema::Validator;
use muster_api::{Code, Endpoint, FieldError, self_contained};
use serde_json::{Map, Value, json};

/// Schemas of all bodies and queries, compiled on first use: compiling all of them dominated the server's start, and
/// tests start many servers.
pub(crate) struct Schemas {
    validators: HashMap<String, OnceLock<Validator>>,
    document: Cow<'static, Value>,
}

impl Schemas {
    /// Returns the schemas of the public API, once per process.
    pub(crate) fn public() -> &'static Self {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
            let endpoints = muster_api::endpoints();
            let shapes =
                endpoints.iter().flat_map(|endpoint| endpoint.body.iter().chain(endpoint.query.iter()));
            Schemas::new(Cow::Borrowed(muster_api::document()), shapes.map(|shape| shape.name()))
        });
        &SCHEMAS
    }

    /// Returns the schemas of the agent protocol, once per process.
    pub(crate) fn of_nodes() -> &'static Self {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
            let bodies = muster_wire::ENDPOINTS.iter().map(|endpoint| endpoint.body.name());
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

    /// Validates a body; reports every error by its location.
    pub(crate) fn check_body(&self, endpoint: &Endpoint, body: &Value) -> Result<()> {
        let Some(shape) = endpoint.body else { return Ok(()) };
        self.check(&shape.name(), body, "")
    }

    /// Reports whether a request of this shape may contain a secret; then no error repeats any of its content.
    fn is_silent(&self, name: &str) -> bool {
        let properties = self.document["components"]["schemas"][name]["properties"].as_object();
        properties.is_some_and(|properties| properties.values().any(|property| property["writeOnly"] == true))
    }

    /// The same for the body of an endpoint.
    pub(crate) fn has_silent_body(&self, endpoint: &Endpoint) -> bool {
        endpoint.body.is_some_and(|shape| self.is_silent(&shape.name()))
    }

    /// Parses and validates the query of an endpoint, with numbers and booleans converted according to the schema.
    pub(crate) fn read_query(&self, endpoint: &Endpoint, raw: &str) -> Result<Value> {
        let properties = endpoint
            .query
            .map(|shape| self.document["components"]["schemas"][shape.name()]["properties"].clone())
            .unwrap_or_default();
        let mut object = Map::new();
        for (name, text) in url::form_urlencoded::parse(raw.as_bytes()) {
            let Some(schema) = properties.get(name.as_ref()) else {
                return Err(Error::field(format!("query/{name}"), "there is no such parameter"));
            };
            let value = match schema["type"].as_str() {
                Some("integer") => text.parse::<i64>().map(Value::from).unwrap_or_else(|_| json!(text)),
                Some("boolean") => text.parse::<bool>().map(Value::from).unwrap_or_else(|_| json!(text)),
                _ => json!(text),
            };
            if object.insert(name.clone().into_owned(), value).is_some() {
                return Err(Error::field(format!("query/{name}"), "it is given twice"));
            }
        }
        let object = Value::Object(object);
        if let Some(shape) = endpoint.query {
            self.check(&shape.name(), &object, "query")?;
        }
        Ok(object)
    }

    /// Validates a value against a named schema; `at` is its location in the request.
    pub(crate) fn check(&self, name: &str, value: &Value, at: &str) -> Result<()> {
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
        if let Some(pointer) =
            self.fraction(&self.document["components"]["schemas"][name], value, at.to_owned())
        {
            let detail = "write a whole number without a fraction: 1, not 1.0".to_owned();
            errors.push(FieldError { pointer, detail });
        }
        let Some(first) = errors.first() else { return Ok(()) };
        let more = if errors.len() > 1 { format!(" (and {} more)", errors.len() - 1) } else { String::new() };
        let place = if first.pointer.is_empty() { "the body" } else { &first.pointer };
        let detail = format!("{place}: {}{more}", first.detail);
        Err(Error::new(Code::InvalidRequest, detail).with_fields(errors))
    }

    /// Returns the location of the first number such as 1.0 in the place of an integer: JSON Schema takes it for one, and the types
    /// of the API do not.
    fn fraction(&self, schema: &Value, value: &Value, at: String) -> Option<String> {
        if let Some(name) =
            schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/components/schemas/"))
        {
            return self.fraction(&self.document["components"]["schemas"][name], value, at);
        }
        for choice in ["oneOf", "anyOf", "allOf"].iter().filter_map(|word| schema[word].as_array()).flatten()
        {
            if let Some(found) = self.fraction(choice, value, at.clone()) {
                return Some(found);
            }
        }
        match value {
            Value::Number(number) if number.is_f64() => {
                let is_integer = |kind: &Value| kind == "integer";
                let kind = &schema["type"];
                (is_integer(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_integer)))
                    .then_some(at)
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, item)| self.fraction(&schema["items"], item, format!("{at}/{index}"))),
            Value::Object(members) => members.iter().find_map(|(key, item)| {
                let of_member = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
                self.fraction(of_member, item, format!("{at}/{key}"))
            }),
            _ => None,
        }
    }
}

/// Truncates the offending value that a validator repeats.
fn shorten(text: String) -> String {
    if text.chars().count() <= 200 { text } else { text.chars().take(197).collect::<String>() + "…" }
}

/// Returns the location of the first U+0000: valid in JSON, invalid in PostgreSQL's text.
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

    #[test]
    fn a_number_with_a_fraction_in_the_place_of_an_integer_is_refused_by_its_field() {
        let schemas = Schemas::public();
        let check = |body: Value| schemas.check("AllocationCreate", &body, "");
        check(json!({"name": "a", "gpus": 1})).unwrap();
        let refused = check(json!({"name": "a", "gpus": 1.0})).unwrap_err();
        assert_eq!(refused.fields[0].pointer, "/gpus", "{refused:?}");
    }

    #[test]
    fn display_names_have_no_control_characters() {
        let check = |name: &str| {
            Schemas::public().check("TenantCreate", &json!({"slug": "acme", "display_name": name}), "")
        };
        check("Ärzte für GPUs ✓").unwrap();
        for name in ["a\u{1b}[31m", "a\nb", "a\n", "a\u{85}b", "\u{7f}"] {
            assert_eq!(check(name).unwrap_err().fields[0].pointer, "/display_name", "{name:?}");
        }
    }
}

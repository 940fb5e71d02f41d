//! The OpenAPI 3.1 document, assembled from the table of endpoints.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::shape::{Schemas, Shape};
use crate::{Answer, Code, Credential, Endpoint, Kind, Problem, endpoints, shape};

/// Version of the contract; additive changes increment the minor number.
pub const VERSION: &str = "1.0.0";

/// Returns the document, assembled on first use. The server shares one copy for serving it and for validating responses.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(assemble);
    &DOCUMENT
}

/// Returns a schema with only the components it refers to: a validator keeps, and walks, everything it is given.
pub fn self_contained(document: &Value, schema: &Value) -> Value {
    let mut reached = Map::new();
    let mut waiting = Vec::new();
    references(schema, &mut waiting);
    while let Some(name) = waiting.pop() {
        let component = &document["components"]["schemas"][&name];
        if !component.is_null() && !reached.contains_key(&name) {
            references(component, &mut waiting);
            reached.insert(name, component.clone());
        }
    }
    let mut schema = schema.clone();
    schema["components"] = json!({"schemas": reached});
    schema
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

fn assemble() -> Value {
    let endpoints = endpoints();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in &endpoints {
        let item = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        item[endpoint.method.as_str().to_ascii_lowercase()] = describe(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": VERSION,
            "description": "The app platform of a GPU cloud. Every command is idempotent, audited and \
                            published as an event; every \"done\" is verified.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components(&endpoints),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: mst_pat_… or mst_sat_…"},
                "session": {"type": "apiKey", "in": "cookie", "name": "muster_session",
                            "description": "A browser session; requests that change something also send X-CSRF-Token"},
            },
        },
    })
}

/// Returns every schema that an endpoint uses, sorted by name.
fn components(endpoints: &[Endpoint]) -> Value {
    let mut collected: Schemas = Vec::new();
    shape::<Problem>().collect(&mut collected);
    for endpoint in endpoints {
        for shape in endpoint.body.iter().chain(endpoint.query.iter()) {
            shape.collect(&mut collected);
        }
        answer_shape(endpoint).collect(&mut collected);
    }
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for (name, schema) in collected {
        let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
        absent_instead_of_null(&mut schema);
        schemas.insert(name, schema);
    }
    serde_json::to_value(schemas).expect("a map of JSON is JSON")
}

fn answer_shape(endpoint: &Endpoint) -> Shape {
    match endpoint.answer {
        Answer::Json(shape)
        | Answer::EventStream(shape)
        | Answer::JsonLines(shape)
        | Answer::Socket(shape) => shape,
    }
}

/// Removes `null` from optional fields: our JSON omits absent values and never contains null. Schema derivation cannot
/// know that, so the document is corrected here once instead of with an attribute on every optional field.
fn absent_instead_of_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get("type") {
                let left: Vec<Value> = types.iter().filter(|kind| *kind != "null").cloned().collect();
                if left.len() == 1 {
                    object.insert("type".to_owned(), left[0].clone());
                }
            }
            if let Some(Value::Array(actions)) = object.get("oneOf") {
                let left: Vec<Value> =
                    actions.iter().filter(|action| action["type"] != "null").cloned().collect();
                if left.len() == 1 && left.len() < actions.len() {
                    object.remove("oneOf");
                    if let Value::Object(only) = left[0].clone() {
                        object.extend(only);
                    }
                }
            }
            object.values_mut().for_each(absent_instead_of_null);
        }
        Value::Array(array) => array.iter_mut().for_each(absent_instead_of_null),
        _ => {}
    }
}

fn reference(shape: Shape) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", shape.name())})
}

fn describe(endpoint: &Endpoint) -> Value {
    let mut described = json!({
        "operationId": endpoint.id,
        "tags": [endpoint.path.split('/').nth(2).unwrap_or("v1")],
        "summary": endpoint.summary,
        "x-kind": endpoint.kind.as_str(),
        "parameters": parameters(endpoint),
        "responses": responses(endpoint),
    });
    if !endpoint.description.is_empty() {
        described["description"] = json!(endpoint.description);
    }
    if !endpoint.permission.is_empty() {
        described["x-permission"] = json!(endpoint.permission);
    }
    if let Some(body) = endpoint.body {
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": reference(body)}}});
    }
    if endpoint.credential == Credential::None {
        described["security"] = json!([]);
    }
    described
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let mut parameters: Vec<Value> = endpoint
        .path_parameters()
        .into_iter()
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "description": "An id or a name.",
                   "schema": {"type": "string", "minLength": 1, "maxLength": 254}})
        })
        .collect();
    if endpoint.needs_idempotency_key() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": true,
            "description": "Any text of your own. The same key and body give the same response for a day, and one effect.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}}));
    }
    if endpoint.if_match {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "required": true,
            "description": "The version that you read, in quotes, or * for the current one.",
            "schema": {"type": "string", "pattern": "^(\\*|\"[0-9]{1,18}\")$"}}));
    }
    if matches!(endpoint.answer, Answer::EventStream(_)) {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The number of the last received event.", "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"}}));
    }
    if let Some(query) = endpoint.query {
        parameters.extend(query_parameters(query));
    }
    parameters
}

/// Turns each field of a query type into a parameter.
fn query_parameters(query: Shape) -> Vec<Value> {
    let mut collected: Schemas = Vec::new();
    query.collect(&mut collected);
    let mut schema = serde_json::to_value(&collected[0].1).expect("a schema is JSON");
    absent_instead_of_null(&mut schema);
    let required: Vec<String> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let Value::Object(properties) = schema["properties"].take() else { return Vec::new() };
    properties
        .into_iter()
        .map(|(name, mut schema)| {
            let description = schema.as_object_mut().and_then(|object| object.remove("description"));
            json!({"name": name, "in": "query", "required": required.contains(&name),
                   "description": description.unwrap_or_else(|| json!("")), "schema": schema})
        })
        .collect()
}

fn responses(endpoint: &Endpoint) -> Value {
    let content = match endpoint.answer {
        Answer::Json(shape) => Some(("application/json", reference(shape))),
        Answer::EventStream(_) => Some(("text/event-stream", json!({"type": "string"}))),
        Answer::JsonLines(_) => Some(("application/x-ndjson", json!({"type": "string"}))),
        Answer::Socket(_) => None,
    };
    let mut headers = json!({"X-Correlation-Id": {"description": "The correlation id of audit, events and logs.",
                                                  "schema": {"type": "string"}}});
    if matches!(endpoint.answer, Answer::Json(_)) {
        headers["ETag"] = json!({"description": "The version, in quotes, of a resource that has one.",
                                 "schema": {"type": "string"}});
    }
    if endpoint.kind == Kind::Command {
        headers["Idempotency-Replayed"] = json!({"description": "`true` if this is the stored first response.",
                                                 "schema": {"type": "string"}});
    }
    let mut responses = Map::new();
    let mut success = json!({"description": endpoint.summary, "headers": headers});
    if let Some((media_type, schema)) = content {
        success["content"] = json!({media_type: {"schema": schema}});
    }
    responses.insert(endpoint.status.to_string(), success);
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in Code::ALL.iter().filter(|code| can_answer(endpoint, **code)) {
        by_status.entry(code.status()).or_default().push(code.as_str());
    }
    for (status, codes) in by_status {
        responses.insert(
            status.to_string(),
            json!({"description": codes.join(", "),
                   "content": {"application/problem+json": {"schema": reference(shape::<Problem>())}}}),
        );
    }
    Value::Object(responses)
}

/// Reports whether an endpoint can return this problem code.
fn can_answer(endpoint: &Endpoint, code: Code) -> bool {
    let command = endpoint.kind == Kind::Command;
    match code {
        Code::Internal => false,
        Code::MethodNotAllowed => false,
        Code::IdempotencyKeyRequired | Code::IdempotencyKeyReused => endpoint.needs_idempotency_key(),
        Code::InvalidState => command || endpoint.id == "stream_join",
        Code::NameTaken | Code::NotEmpty | Code::LastOperator => command,
        Code::QuotaExceeded => {
            let more = [
                "instance_create",
                "instance_apply",
                "instance_scale",
                "member_add",
                "ssh_key_create",
                "webhook_create",
            ];
            command && (endpoint.id.starts_with("allocation_") || more.contains(&endpoint.id))
        }
        Code::MemberStepRunning | Code::TooManyTasks => endpoint.id == "adapter_task_create",
        Code::CsrfRequired | Code::OriginNotAllowed => command,
        Code::VersionMismatch | Code::VersionRequired => endpoint.if_match,
        Code::UrlNotAllowed => endpoint.id.starts_with("webhook_") && command,
        Code::BodyTooLarge | Code::UnsupportedMediaType => endpoint.body.is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_answer_is_described() {
        let document = document();
        let mut seen = std::collections::BTreeSet::new();
        for endpoint in endpoints() {
            assert!(seen.insert(endpoint.id), "{} stands twice", endpoint.id);
            assert!(!endpoint.summary.is_empty(), "{} has no summary", endpoint.id);
            let described = &document["paths"][endpoint.path][endpoint.method.as_str().to_ascii_lowercase()];
            for (status, response) in described["responses"].as_object().unwrap() {
                assert!(response["description"].is_string(), "{} {status}", endpoint.id);
            }
        }
    }

    #[test]
    fn a_self_contained_schema_has_every_component_that_it_leads_to_and_no_other() {
        let document = json!({"components": {"schemas": {
            "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
            "B": {"items": [{"$ref": "#/components/schemas/A"}]},
            "C": {},
        }}});
        let schema = self_contained(&document, &json!({"$ref": "#/components/schemas/A"}));
        assert_eq!(schema["$ref"], "#/components/schemas/A");
        let names: Vec<&String> = schema["components"]["schemas"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["A", "B"]);
    }

    #[test]
    fn nothing_in_the_document_is_nullable() {
        assert!(!document().to_string().contains("\"null\""));
    }
}

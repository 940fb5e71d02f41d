//! The OpenAPI 3.1 document of the wire protocol, assembled from the endpoint table.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::endpoint::{ENDPOINTS, Endpoint, STREAM, Schemas, Shape, shape};
use crate::problem::Problem;

/// Contract version. Additive changes raise the minor number.
pub const VERSION: &str = "1.0.0";

/// Error responses, and the agent's reaction to each.
const REFUSALS: &[(u16, &str)] = &[
    (400, "The request does not match the schema: a fault of the agent"),
    (
        401,
        "The token is invalid, the certificate is missing or expired, or the node is retired: only joining again helps",
    ),
    (408, "The body did not arrive in time: retry"),
    (409, "The session is over: send hello again. For a join: the name that the token sets is taken"),
    (413, "The body is too large"),
    (415, "The body is not JSON"),
    (429, "Too many requests: wait and repeat"),
    (500, "The server failed"),
    (503, "The server cannot answer now: retry, here or at another replica"),
];

/// Additional error responses for a secret request.
const NOT_TOLD: &[(u16, &str)] = &[(
    404,
    "There is nothing to deliver: the cell is not on this node, has another incarnation, is being destroyed, or names no such secret",
)];

/// Returns the complete document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = ENDPOINTS
        .iter()
        .map(|endpoint| (endpoint.path.to_owned(), json!({"post": describe(endpoint)})))
        .collect();
    paths.insert(STREAM.path.to_owned(), json!({"get": describe_stream()}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Muster, the wire of node agents",
            "version": VERSION,
            "description": "The API of node agents. They only dial out, to any replica. People and adapters \
                            use the platform's API instead.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"certificate": []}],
        "paths": paths,
        "components": {
            "schemas": components(),
            "securitySchemes": {
                "certificate": {"type": "mutualTLS", "description": "The certificate issued by the join, or its successor"},
            },
        },
    })
}

fn components() -> Value {
    let mut collected: Schemas = Vec::new();
    shape::<Problem>().collect(&mut collected);
    for endpoint in ENDPOINTS {
        endpoint.body.collect(&mut collected);
        endpoint.answer.collect(&mut collected);
    }
    STREAM.control.collect(&mut collected);
    let schemas: BTreeMap<String, Value> = collected
        .into_iter()
        .map(|(name, schema)| {
            let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
            absent_instead_of_null(&mut schema);
            (name, schema)
        })
        .collect();
    serde_json::to_value(schemas).expect("a map of JSON is JSON")
}

/// Removes null from schemas: absent values are left out, which schema derivation cannot express.
fn absent_instead_of_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for word in ["type", "oneOf"] {
                let Some(Value::Array(choices)) = object.get(word) else { continue };
                let null = |choice: &Value| choice == "null" || choice["type"] == "null";
                let left: Vec<Value> = choices.iter().filter(|choice| !null(choice)).cloned().collect();
                let [only] = &left[..] else { continue };
                if choices.len() == 1 {
                    continue;
                }
                let only = only.clone();
                object.remove(word);
                match only {
                    Value::Object(inner) => object.extend(inner),
                    kind => drop(object.insert(word.to_owned(), kind)),
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
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({
            "description": endpoint.summary,
            "headers": {"X-Correlation-Id": {"description": "The correlation id of the server's logs.",
                                             "schema": {"type": "string"}}},
            "content": {"application/json": {"schema": reference(endpoint.answer)}},
        }),
    );
    for (status, description) in REFUSALS.iter().chain(NOT_TOLD.iter().filter(|_| endpoint.id == "secret")) {
        responses.insert(
            status.to_string(),
            json!({"description": description,
                   "content": {"application/problem+json": {"schema": reference(shape::<Problem>())}}}),
        );
    }
    let mut described = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "x-kind": "machine",
        "requestBody": {"required": true, "content": {"application/json": {"schema": reference(endpoint.body)}}},
        "responses": responses,
    });
    if !endpoint.certificate {
        described["security"] = json!([]);
    }
    described
}

/// Describes the stream upgrade. It is refused without a certificate, and for a stream that this server does not wait for.
fn describe_stream() -> Value {
    let problem = |description: &str| {
        json!({"description": description,
               "content": {"application/problem+json": {"schema": reference(shape::<Problem>())}}})
    };
    json!({
        "operationId": STREAM.id,
        "summary": STREAM.summary,
        "description": format!(
            "An upgrade to WebSocket. Messages are binary; the first byte is the channel: 0 input, 1 output, \
             2 error output, 3 {} as JSON.", STREAM.control.name()),
        "x-kind": "machine",
        "x-control": reference(STREAM.control),
        "parameters": [{"name": "stream", "in": "path", "required": true, "description": "The stream's id.",
                        "schema": {"type": "string", "minLength": 1, "maxLength": 254}}],
        "responses": {
            "101": {"description": STREAM.summary},
            "400": problem("It is not an upgrade to WebSocket: a fault of the agent"),
            "401": problem("The certificate is missing or expired, or the node is retired"),
            "404": problem("This server does not wait for this stream from this node: another replica does, or the stream has ended"),
            "500": problem("The server failed"),
            "503": problem("The server cannot answer now: retry"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_that_is_named_is_there_and_none_is_nullable() {
        let document = document();
        let text = document.to_string();
        assert!(!text.contains("\"null\""));
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(document["components"]["schemas"][name].is_object(), "{name} is not in the document");
        }
    }

    #[test]
    fn only_joining_needs_no_certificate() {
        let open: Vec<&str> =
            ENDPOINTS.iter().filter(|endpoint| !endpoint.certificate).map(|endpoint| endpoint.id).collect();
        assert_eq!(open, ["join"]);
        for endpoint in ENDPOINTS {
            assert_eq!(endpoint.path, format!("/node/v1/{}", endpoint.id));
        }
    }
}

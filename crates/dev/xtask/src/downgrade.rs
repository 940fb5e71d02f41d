//! Converts the API document to OpenAPI 3.0.3, the only version that the generator of the Rust client supports.
//!
//! Keywords unknown to 3.0 are translated or dropped. Beyond that, three choices: every limit on a value (lengths, patterns,
//! ranges) is removed, because the generator would create a type for every short string, an old client would reject values
//! that a newer server allows, and the server reports the invalid field better than a failed conversion does; the many error
//! statuses become two, because all of them carry a problem document; and schemas that no response or body uses are omitted.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Dropped from every schema.
const LIMITS: [&str; 11] = [
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "propertyNames",
    "contentEncoding",
];

/// Returns the same API in the older format.
pub(crate) fn downgrade(document: &Value) -> Value {
    let mut document = document.clone();
    document["openapi"] = json!("3.0.3");
    if let Some(license) = document.pointer_mut("/info/license").and_then(Value::as_object_mut) {
        license.remove("identifier");
    }
    walk(&mut document);
    keep_what_is_used(&mut document);
    document
}

/// Drops unused schemas: those of queries exist for the server, which validates with them; their fields are parameters too.
fn keep_what_is_used(document: &mut Value) {
    let mut used = BTreeSet::new();
    references(&document["paths"], &mut used);
    loop {
        let known = used.len();
        for name in used.clone() {
            references(&document["components"]["schemas"][&name], &mut used);
        }
        if used.len() == known {
            break;
        }
    }
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        schemas.retain(|name, _| used.contains(name));
    }
}

fn references(value: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::Array(array) => array.iter().for_each(|inner| references(inner, used)),
        Value::Object(object) => {
            let name = object.get("$ref").and_then(|reference| reference.as_str()?.rsplit('/').next());
            used.extend(name.map(str::to_owned));
            object.values().for_each(|inner| references(inner, used));
        }
        _ => {}
    }
}

/// Property names may equal a keyword of JSON schema, so they are skipped.
fn walk(value: &mut Value) {
    match value {
        Value::Array(array) => array.iter_mut().for_each(walk),
        Value::Object(object) => {
            if is_schema(object) {
                schema(object);
            }
            if let Some(content) = object.get_mut("content").and_then(Value::as_object_mut)
                && let Some(problem) = content.remove("application/problem+json")
            {
                content.insert("application/json".to_owned(), problem);
            }
            if let Some(responses) = object.get_mut("responses").and_then(Value::as_object_mut) {
                two_failures(responses);
            }
            for (key, inner) in object.iter_mut() {
                match (key.as_str(), inner) {
                    ("properties" | "schemas", Value::Object(named)) => named.values_mut().for_each(walk),
                    (_, inner) => walk(inner),
                }
            }
        }
        _ => {}
    }
}

fn two_failures(responses: &mut Map<String, Value>) {
    for class in ["4", "5"] {
        let statuses: Vec<String> =
            responses.keys().filter(|status| status.starts_with(class)).cloned().collect();
        let all: Vec<Value> = statuses.iter().filter_map(|status| responses.remove(status)).collect();
        if let Some(first) = all.into_iter().next() {
            responses.insert(format!("{class}XX"), first);
        }
    }
}

/// Reports whether it is a schema: `in` marks a parameter, and security schemes have a scheme or a location.
fn is_schema(object: &Map<String, Value>) -> bool {
    let typed = object.get("type").is_some_and(|kind| kind.is_string() || kind.is_array());
    !object.contains_key("in")
        && !object.contains_key("scheme")
        && (typed
            || object.contains_key("$ref")
            || object.contains_key("const")
            || object.contains_key("oneOf"))
}

fn schema(object: &mut Map<String, Value>) {
    if let Some(reference) = object.get("$ref").cloned() {
        // OpenAPI 3.0 allows nothing beside a reference; with a description it would be read as a schema without a
        // reference.
        object.retain(|key, _| key == "$ref");
        object.insert("$ref".to_owned(), reference);
        return;
    }
    object.retain(|key, _| !LIMITS.contains(&key.as_str()));
    if let Some(constant) = object.remove("const") {
        object.entry("type").or_insert_with(|| json!("string"));
        object.insert("enum".to_owned(), json!([constant]));
    }
    if let Some(Value::Array(examples)) = object.remove("examples")
        && let Some(first) = examples.into_iter().next()
    {
        object.insert("example".to_owned(), first);
    }
    if let Some(Value::Array(types)) = object.get("type") {
        let only: Vec<&Value> = types.iter().filter(|kind| *kind != "null").collect();
        if let [only] = only[..] {
            let (only, nullable) = (only.clone(), types.len() > 1);
            object.insert("type".to_owned(), only);
            if nullable {
                object.insert("nullable".to_owned(), json!(true));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_3_1_become_words_of_3_0() {
        let old = downgrade(&json!({
            "openapi": "3.1.0",
            "info": {"license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
            "paths": {"/things": {"get": {"responses": {
                "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                "404": {"description": "a", "content": {"application/problem+json": {}}},
                "409": {"description": "b", "content": {"application/problem+json": {}}}}}}},
            "components": {"schemas": {
                "Id": {"type": "string", "examples": ["a", "b"], "pattern": "^x$"},
                "ThingQuery": {"type": "object"},
                "Thing": {"type": "object", "properties": {
                    "pattern": {"type": ["string", "null"], "maxLength": 3},
                    "kind": {"const": "thing"},
                    "id": {"$ref": "#/components/schemas/Id", "description": "Its id."}}}}},
        }));
        assert_eq!(old["info"]["license"], json!({"name": "Apache-2.0"}));
        let responses = &old["paths"]["/things"]["get"]["responses"];
        assert_eq!(responses.as_object().unwrap().keys().collect::<Vec<_>>(), ["200", "4XX"]);
        assert!(responses["4XX"]["content"]["application/json"].is_object());
        let schemas = &old["components"]["schemas"];
        assert!(schemas.get("ThingQuery").is_none(), "nobody refers to it");
        assert_eq!(schemas["Id"], json!({"type": "string", "example": "a"}));
        let properties = &schemas["Thing"]["properties"];
        assert_eq!(
            properties["pattern"],
            json!({"type": "string", "nullable": true}),
            "a property may be called pattern"
        );
        assert_eq!(properties["kind"], json!({"type": "string", "enum": ["thing"]}));
        assert_eq!(properties["id"], json!({"$ref": "#/components/schemas/Id"}));
    }

    #[test]
    fn parameters_and_security_schemes_are_left_alone() {
        let header =
            json!({"name": "If-Match", "in": "header", "schema": {"type": "string", "pattern": "^a$"}});
        let document = downgrade(&json!({"paths": {"/a": {"get": {"parameters": [header]}}},
            "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}}));
        assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
        let parameter = &document["paths"]["/a"]["get"]["parameters"][0];
        assert_eq!(*parameter, json!({"name": "If-Match", "in": "header", "schema": {"type": "string"}}));
    }
}

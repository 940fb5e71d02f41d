use serde_json::{Value, json};

use super::breaking;

/// One command and one read over one schema each, with everything in them that can be narrowed.
fn document() -> Value {
    json!({
        "paths": {"/v1/things": {
            "post": {
                "operationId": "thing_create",
                "parameters": [{"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}},
                               {"name": "force", "in": "query", "required": false, "schema": {"type": "boolean"}}],
                "requestBody": {"required": true,
                                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Make"}}}},
                "responses": {"201": {"headers": {"ETag": {}},
                                      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                              "409": {}}},
            "get": {"operationId": "thing_list", "security": [], "parameters": [],
                    "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}}}},
        "components": {"schemas": {
            "Make": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "count": {"type": "number", "minimum": 1},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "tags": {"type": "array", "items": {"type": "string"}}}},
            "Thing": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "state": {"type": "string", "enum": ["on", "off"]},
                "size": {"type": "integer"},
                "parent": {"$ref": "#/components/schemas/Thing"}}}}},
    })
}

/// Returns the findings after one change at `pointer`.
fn after(pointer: &str, value: Value) -> Vec<String> {
    let mut changed = document();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = changed.pointer_mut(parent).expect("the pointer is right");
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(&key.replace("~1", "/"));
    } else {
        parent[key.replace("~1", "/")] = value;
    }
    breaking(&document(), &changed)
}

const POST: &str = "/paths/~1v1~1things/post";
const MAKE: &str = "/components/schemas/Make";
const THING: &str = "/components/schemas/Thing";

#[test]
fn unchanged_document_is_not_breaking() {
    assert_eq!(breaking(&document(), &document()), Vec::<String>::new());
}

#[test]
fn additions_are_not_breaking() {
    assert_eq!(
        after("/paths/~1v1~1others", json!({"get": {"operationId": "other_list"}})),
        Vec::<String>::new()
    );
    assert_eq!(after(&format!("{MAKE}/properties/size"), json!({"type": "integer"})), Vec::<String>::new());
    assert_eq!(after(&format!("{MAKE}/properties/name/maxLength"), json!(20)), Vec::<String>::new());
    assert_eq!(after(&format!("{MAKE}/properties/name/pattern"), Value::Null), Vec::<String>::new());
    assert_eq!(after(&format!("{MAKE}/properties/kind/enum"), json!(["a", "b", "c"])), Vec::<String>::new());
    assert_eq!(
        after(&format!("{THING}/properties/state/enum"), json!(["on", "off", "asleep"])),
        Vec::<String>::new()
    );
    assert_eq!(after(&format!("{THING}/properties/name"), json!({"type": "string"})), Vec::<String>::new());
    assert_eq!(after(&format!("{THING}/required"), json!(["id", "state"])), Vec::<String>::new());
    let optional = json!([
        {"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "force", "in": "query", "required": false, "schema": {"type": "boolean"}},
        {"name": "note", "in": "query", "required": false, "schema": {"type": "string"}}]);
    assert_eq!(after(&format!("{POST}/parameters"), optional), Vec::<String>::new());
    assert_eq!(after(&format!("{POST}/responses/409"), Value::Null), Vec::<String>::new());
}

#[test]
fn breaking_change_of_a_request_is_named() {
    let cases = [
        (after("/paths/~1v1~1things", Value::Null), "thing_create: POST /v1/things is gone"),
        (after(&format!("{POST}/operationId"), json!("thing_make")), "it is now called"),
        (after("/paths/~1v1~1things/get/security", Value::Null), "thing_list: it now needs a credential"),
        (
            after(&format!("{POST}/parameters/1/required"), json!(true)),
            "query parameter force is now required",
        ),
        (after(&format!("{POST}/parameters/1/name"), json!("hard")), "the query parameter force is gone"),
        (
            after(&format!("{POST}/parameters/1/schema/type"), json!("string")),
            "query parameter force: its type has changed",
        ),
        (after(&format!("{MAKE}/required"), json!(["name", "kind"])), "body.kind: it is now required"),
        (after(&format!("{MAKE}/properties/kind"), Value::Null), "body.kind: it is gone"),
        (
            after(&format!("{MAKE}/properties/kind/enum"), json!(["a"])),
            "body.kind: the value \"b\" is no longer accepted",
        ),
        (
            after(&format!("{MAKE}/properties/name/pattern"), json!("^a$")),
            "body.name: its pattern has changed",
        ),
        (
            after(&format!("{MAKE}/properties/name/enum"), json!(["a"])),
            "body.name: only certain values are accepted now",
        ),
        (
            after(&format!("{MAKE}/properties/name/maxLength"), json!(5)),
            "body.name: its maxLength is narrower",
        ),
        (
            after(&format!("{MAKE}/properties/name/minLength"), json!(5)),
            "body.name: its minLength is narrower",
        ),
        (
            after(&format!("{MAKE}/properties/count/type"), json!("integer")),
            "body.count: its type has changed",
        ),
        (
            after(&format!("{MAKE}/properties/tags/items/type"), json!("integer")),
            "body.tags[]: its type has changed",
        ),
        (
            after(&format!("{MAKE}/properties/labels/additionalProperties/pattern"), json!("^a$")),
            "body.labels.*: its pattern has changed",
        ),
    ];
    for (findings, expected) in cases {
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
    }
}

#[test]
fn breaking_change_of_a_response_is_named() {
    let cases = [
        (after(&format!("{THING}/properties/size"), Value::Null), "answer.size: it is gone"),
        (
            after(&format!("{THING}/properties/size/type"), json!("number")),
            "answer.size: its type has changed",
        ),
        (after(&format!("{THING}/required"), json!([])), "answer.id: it may now be absent"),
        (after(&format!("{POST}/responses/201"), Value::Null), "it no longer answers 201"),
        (
            after(&format!("{POST}/responses/201/headers/ETag"), Value::Null),
            "the answer's header ETag is gone",
        ),
    ];
    for (findings, expected) in cases {
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
    }
}

#[test]
fn a_new_required_parameter_is_named() {
    let required = json!([
        {"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "force", "in": "query", "required": false, "schema": {"type": "boolean"}},
        {"name": "reason", "in": "query", "required": true, "schema": {"type": "string"}}]);
    assert_eq!(
        after(&format!("{POST}/parameters"), required),
        ["thing_create: the query parameter reason is new and required"]
    );
}

#[test]
fn published_document_is_not_breaking_against_itself() {
    let document = muster_api::document();
    assert_eq!(breaking(document, document), Vec::<String>::new());
}

//! A configuration gets all its errors at once, and no schema makes the platform fetch, hang or run out of resources.

use std::time::{Duration, Instant};

use muster_manifest::{check_config, lint, read};
use serde_json::{Map, Value, json};

use crate::example::{CONTEXT, good, with};

fn told(schema: Value, config: Value) -> Vec<(String, &'static str)> {
    let mut manifest = read(&good()).unwrap();
    manifest.config_schema = schema;
    check_config(&manifest, &config).into_iter().map(|fault| (fault.path, fault.rule)).collect()
}

fn schema_faults(schema: Value) -> Vec<String> {
    let faults = lint(&with("/config_schema", schema), &CONTEXT);
    assert!(faults.iter().all(|fault| fault.rule == "config_schema" && fault.error), "{faults:?}");
    faults.into_iter().map(|fault| fault.path).collect()
}

#[test]
fn all_faults_of_a_configuration_are_told_by_place() {
    let schema = good()["config_schema"].clone();
    assert_eq!(told(schema.clone(), json!({"size": 3, "name": "abc", "default": 1.5})), []);
    let mut faults = told(schema, json!({"name": "A1", "default": 0.3, "x/y": 1}));
    faults.sort();
    let expected = [
        ("/config/default", "shape"),
        ("/config/name", "pattern"),
        ("/config/size", "missing_field"),
        ("/config/x~1y", "unknown_field"),
    ];
    assert_eq!(faults, expected.map(|(path, rule)| (path.to_owned(), rule)));
    assert_eq!(told(json!({}), json!({"anything": [1, 2]})), []);
}

#[test]
fn no_sentence_repeats_a_value() {
    let mut manifest = read(&good()).unwrap();
    manifest.config_schema = json!({"properties": {
        "a": {"pattern": "^x$"}, "b": {"enum": ["x"]}, "c": {"format": "ipv4"}, "d": {"not": {}}, "e": {"maxLength": 2},
        "f": {"anyOf": [{"type": "integer"}, {"const": "x"}]}, "g": {"type": "integer"}, "h": {"contains": {"const": 1}},
        "i": {"propertyNames": {"maxLength": 1}}, "j": {"uniqueItems": true}}});
    let secret = "hunter2-hunter2";
    let mut config = Map::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        config.insert(name.to_owned(), json!(secret));
    }
    config.insert("h".to_owned(), json!([secret]));
    config.insert("j".to_owned(), json!([secret, secret]));
    let faults = check_config(&manifest, &Value::Object(config));
    assert!(faults.len() >= 9, "{faults:?}");
    assert!(faults.iter().all(|fault| !fault.message.contains("hunter2")), "{faults:?}");
}

#[test]
fn a_schema_refers_to_nothing_but_itself() {
    for (schema, path) in [
        (json!({"$ref": "https://example.test/schema.json"}), "/config_schema/$ref"),
        (json!({"properties": {"a": {"$ref": "other.json#/x"}}}), "/config_schema/properties/a/$ref"),
        (
            json!({"properties": {"default": {"$ref": "file:///etc/passwd"}}}),
            "/config_schema/properties/default/$ref",
        ),
        (json!({"$ref": "#anchor", "$anchor": "anchor"}), "/config_schema/$ref"),
        (json!({"$ref": "#/$defs/none"}), "/config_schema/$ref"),
        (json!({"$dynamicRef": "#x"}), "/config_schema/$dynamicRef"),
        (
            json!({"allOf": [{"$id": "https://example.test/", "$ref": "#/x", "x": {}}]}),
            "/config_schema/allOf/0/$id",
        ),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "/config_schema/$schema"),
    ] {
        let paths = schema_faults(schema.clone());
        assert!(paths.contains(&path.to_owned()), "{schema}: {paths:?}");
        // Without a lint, nothing is fetched either.
        assert_eq!(told(schema.clone(), json!({})), [("/config".to_owned(), "config_schema")], "{schema}");
    }
}

#[test]
fn a_schema_must_be_one() {
    assert_eq!(schema_faults(json!({"type": "strin"})), ["/config_schema/type"]);
    assert_eq!(schema_faults(json!({"properties": {"a": 5}})), ["/config_schema/properties/a"]);
    let mut both = schema_faults(json!({"minLength": -1, "required": "x"}));
    both.sort();
    assert_eq!(both, ["/config_schema/minLength", "/config_schema/required"]);
    for pattern in ["(", "(?=a)a", "(a)\\1", "((a{100}){100}){100}"] {
        assert_eq!(schema_faults(json!({"properties": {"a": {"pattern": pattern}}})).len(), 1, "{pattern}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_or_blows_up_is_refused_quickly() {
    let begun = Instant::now();
    for circle in [
        json!({"$ref": "#"}),
        json!({"properties": {"a": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"const": {"$ref": "#/const"}, "$ref": "#/const"}),
    ] {
        assert_eq!(schema_faults(circle.clone()).len(), 1, "{circle}");
        assert_eq!(told(circle.clone(), json!({})), [("/config".to_owned(), "config_schema")], "{circle}");
    }
    // Each level applies the next twice: a billion evaluations at the thirtieth.
    let mut levels = Map::new();
    for level in 0..30 {
        let next = format!("#/$defs/l{}", level + 1);
        levels.insert(format!("l{level}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
    }
    levels.insert("l30".to_owned(), json!(true));
    let bomb = json!({"$ref": "#/$defs/l0", "$defs": levels});
    assert_eq!(schema_faults(bomb.clone()), ["/config_schema"]);
    assert_eq!(told(bomb, json!({})), [("/config".to_owned(), "config_schema")]);
    // A chain that would need a stack frame for each link.
    let mut chain = Map::new();
    for link in 0..1_500 {
        chain.insert(format!("c{link}"), json!({"$ref": format!("#/$defs/c{}", link + 1)}));
    }
    chain.insert("c1500".to_owned(), json!(true));
    assert_eq!(schema_faults(json!({"$ref": "#/$defs/c0", "$defs": chain})).len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn oversized_configuration_and_schema_are_refused_and_faults_capped() {
    let long = "x".repeat(70_000);
    assert_eq!(told(json!({}), json!({"a": long})), [("/config".to_owned(), "too_long")]);
    assert_eq!(schema_faults(json!({"description": long})), ["/config_schema"]);
    let many: Vec<u32> = (0..5_000).collect();
    let faults = told(json!({"items": {"type": "string"}}), json!(many));
    assert_eq!(faults.len(), 201);
    assert_eq!(faults.last().unwrap().1, "too_many_faults");
}

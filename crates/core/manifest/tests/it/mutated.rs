//! The example with any value in place of any part: the lint always returns, and a manifest that passes it can be read.

use muster_manifest::{check_config, lint, read};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::example::{CONTEXT, good};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-10i64..100_000).prop_map(Value::from),
        (-10i64..100).prop_map(|number| json!(number as f64)),
        any::<f64>().prop_map(|number| json!(number)),
        "[a-z{}./$#0-9:(~]{0,12}".prop_map(Value::from),
        proptest::sample::select(vec![
            "self",
            "head",
            "#",
            "#/$defs/name",
            "10m",
            "/usr",
            "{member.name}",
            "majority"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = proptest::sample::select(vec![
            "in",
            "exec",
            "min",
            "max",
            "at_least",
            "artifact",
            "host",
            "tcp",
            "http",
            "port",
            "path",
            "$ref",
            "type",
            "properties",
            "allOf",
            "name",
            "x/~y",
            "",
        ]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

fn places(value: &Value, at: String, found: &mut Vec<String>) {
    found.push(at.clone());
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                places(inner, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                places(inner, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Reports whether an error's path exists in the document, or is missing with its parent or grandparent present.
fn is_place(document: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let above = parent.rsplit_once('/').map_or("", |(above, _)| above);
    [path, parent, above].iter().any(|place| document.pointer(place).is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_lint_answers_and_what_it_lets_through_is_read(
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any_value()), 1..4),
    ) {
        let mut document = good();
        for (index, value) in edits {
            let mut found = Vec::new();
            places(&document, String::new(), &mut found);
            if let Some(place) = document.pointer_mut(&found[index.index(found.len())]) {
                *place = value;
            }
        }
        let faults = lint(&document, &CONTEXT);
        for fault in &faults {
            // The schema is as strict as the types: the deserializer finds no further errors.
            prop_assert_ne!(fault.rule, "unreadable", "{}", fault.message);
            prop_assert!(is_place(&document, &fault.path), "{}", fault.path);
        }
        if faults.iter().all(|fault| !fault.error) {
            let manifest = read(&document);
            prop_assert!(manifest.is_ok());
            let config = check_config(&manifest.unwrap(), &json!({"size": 1}));
            prop_assert!(config.iter().all(|fault| fault.path.starts_with("/config") && fault.rule != "config_schema"));
        }
    }
}

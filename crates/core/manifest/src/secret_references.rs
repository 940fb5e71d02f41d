//! Finds the project secrets that an instance's configuration names. A field counts only if the release's schema marks it as
//! the name of a secret: a text that happens to equal a name is no consent.

use serde_json::Value;

use crate::config::schema_faults;

/// The `format` that marks a text of the configuration as the name of a secret.
pub const SECRET_FORMAT: &str = "muster-secret";

/// Returns the names of secrets in a configuration, as marked by its schema. Marks are found through `properties`,
/// `additionalProperties`, `items`, `$ref`, `allOf`, `anyOf` and `oneOf`.
pub fn secret_references<'c>(schema: &Value, config: &'c Value) -> Vec<&'c str> {
    let mut found = Vec::new();
    // A circular schema would never end.
    if schema_faults(schema, "").is_empty() {
        collect(schema, schema, config, &mut found);
    }
    found
}

fn collect<'c>(whole: &Value, schema: &Value, config: &'c Value, found: &mut Vec<&'c str>) {
    let mut follow = |schema: &Value, config: &'c Value| collect(whole, schema, config, found);
    if let Some(target) = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#')) {
        whole.pointer(target).into_iter().for_each(|schema| follow(schema, config));
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        schema[word].as_array().into_iter().flatten().for_each(|schema| follow(schema, config));
    }
    match config {
        Value::Object(members) => {
            for (name, member) in members {
                let named = schema["properties"].get(name);
                named
                    .or_else(|| schema.get("additionalProperties"))
                    .into_iter()
                    .for_each(|schema| follow(schema, member));
            }
        }
        Value::Array(items) => {
            for item in items {
                schema.get("items").into_iter().for_each(|schema| follow(schema, item));
            }
        }
        Value::String(text) if schema["format"] == SECRET_FORMAT => found.push(text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_marked_fields_name_secrets() {
        let secret = json!({"type": "string", "format": SECRET_FORMAT});
        let schema = json!({
            "$defs": {"key": secret},
            "properties": {
                "title": {"type": "string"},
                "password": secret,
                "keys": {"items": {"$ref": "#/$defs/key"}},
                "by_name": {"additionalProperties": {"anyOf": [{"type": "integer"}, secret]}},
            },
        });
        let config = json!({"title": "a", "password": "b", "keys": ["c", "d"], "by_name": {"x": "e", "y": 1}, "other": "f"});
        let mut found = secret_references(&schema, &config);
        found.sort_unstable();
        assert_eq!(found, ["b", "c", "d", "e"]);
        assert!(secret_references(&json!({}), &json!({"password": "b"})).is_empty());
    }

    #[test]
    fn a_schema_that_leads_back_to_itself_ends() {
        let schema = json!({"$ref": "#"});
        assert!(secret_references(&schema, &json!("a")).is_empty());
    }
}

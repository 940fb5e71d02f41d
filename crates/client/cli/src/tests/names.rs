//! `-o name` of every command, against responses generated from the contract: no command with a result prints nothing.

use muster_sdk::DOCUMENT;
use muster_sdk::describe::Description;
use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::operate::names;
use crate::words::generated;

/// Commands without a name in their response; they refuse `-o name`.
const NAMELESS: [&str; 1] = ["app schema"];

struct Document(Value);

impl Document {
    fn resolve<'d>(&'d self, schema: &'d Value) -> &'d Value {
        match schema["$ref"].as_str().and_then(|reference| self.0.pointer(reference.strip_prefix('#')?)) {
            Some(found) => self.resolve(found),
            None => schema,
        }
    }

    /// Returns a response with every member of the schema, and one element in every list.
    fn sample(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let schema = self.resolve(schema);
        for choice in ["oneOf", "anyOf", "allOf"] {
            let some = schema[choice].as_array().into_iter().flatten().find(|one| one["type"] != "null");
            if let Some(some) = some {
                return self.sample(some, name, depth);
            }
        }
        if let Some(word) = schema["enum"].as_array().and_then(|words| words.first()) {
            return word.clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null").cloned().unwrap_or_default(),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("array") if depth > 0 => json!([self.sample(&schema["items"], name, depth - 1)]),
            Some("array") => json!([]),
            Some("object") if depth > 0 => {
                let members = schema["properties"].as_object().into_iter().flatten();
                let members =
                    members.map(|(name, schema)| (name.clone(), self.sample(schema, name, depth - 1)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Some("object") => json!({}),
            Some("integer" | "number") => json!(7),
            Some("boolean") => json!(true),
            _ => json!(format!("the-{}", name.replace('_', "-"))),
        }
    }

    fn answer(&self, id: &str) -> Option<Value> {
        let paths = self.0["paths"].as_object()?.values().filter_map(Value::as_object);
        let described =
            paths.flat_map(|path| path.values()).find(|described| described["operationId"] == id)?;
        let (_, answer) =
            described["responses"].as_object()?.iter().find(|(status, _)| status.starts_with('2'))?;
        Some(self.sample(&answer["content"]["application/json"]["schema"], "", 4))
    }
}

#[test]
fn every_command_prints_a_name_for_its_result() {
    let document = Document(serde_json::from_str(DOCUMENT).unwrap());
    let mut checked = 0;
    for (operation, words) in generated(Description::embedded()) {
        let path = words.path();
        let answer =
            document.answer(&operation.id).unwrap_or_else(|| panic!("{} has no answer", operation.id));
        if Contract::embedded().starts(&operation.id) {
            let printed = names(&["operation", "get"], &answer["operation"]).unwrap();
            assert_eq!(printed, "the-id\n", "{path:?}: of what was started, the operation's id alone");
            assert!(
                answer["operation"]["items"][0]["id"].is_string(),
                "the sample has items to confuse it with"
            );
        } else if NAMELESS.contains(&path.join(" ").as_str()) {
            assert!(names(&path, &answer).is_err(), "{path:?} has a name after all");
        } else {
            let printed =
                names(&path, &answer).unwrap_or_else(|failure| panic!("{path:?}: {}", failure.detail));
            assert!(!printed.trim().is_empty(), "{path:?} prints nothing for {answer}");
            assert_eq!(printed.lines().count(), 1, "{path:?}: {printed}");
        }
        checked += 1;
    }
    assert!(checked > 100, "only {checked} commands were checked");
}

#[test]
fn printed_names_match_the_reference() {
    let cases: [(&[&str], Value, &str); 8] = [
        (
            &["app-version", "publish"],
            json!({"app_version": {"id": "apv_1", "name": "1.2"}, "faults": []}),
            "apv_1",
        ),
        (
            &["entitlement", "grant"],
            json!({"entitlement": {"id": "ent_1"}, "permissions": ["cell.list"]}),
            "ent_1",
        ),
        (
            &["entitlement", "grant"],
            json!({"permissions": ["cell.list", "member.get"]}),
            "cell.list member.get",
        ),
        (&["can-i"], json!({"permission": "x", "allowed": false, "reason": "no"}), "no"),
        (&["quota", "get"], json!({"project_id": "prj_1", "max_gpus": 2}), "prj_1"),
        (&["instance", "endpoints"], json!({"endpoints": [{"name": "web"}, {"name": "rpc"}]}), "web rpc"),
        (&["instance", "endpoints"], json!({"endpoints": []}), ""),
        (&["audit", "head"], json!({"chain": "platform", "sequence": 7}), "7"),
    ];
    for (words, answer, expected) in cases {
        let printed = names(words, &answer).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>().join(" "), expected, "{words:?}");
    }
}

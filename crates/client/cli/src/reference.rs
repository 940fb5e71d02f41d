//! References that other commands accept, for `-o name`. `docs/reference/cli.md` documents them.

use serde_json::Value;

/// Members of a response that are the command's subject; the response itself has no id.
const WRAPPED: [&str; 5] = ["app_version", "entitlement", "artifact", "step", "operation"];
/// Lists inside a response, each with the member that names an element.
const LISTS: [(&str, &str); 6] = [
    ("items", ""),
    ("steps", ""),
    ("endpoints", "name"),
    ("logs", "service"),
    ("phases", "operation_id"),
    ("permissions", ""),
];
/// References of a response about another resource: the project, the chain, or the release.
const FACTS: [&str; 3] = ["project_id", "chain", "version"];

/// Returns every reference in a response: one for a resource, one each for a list. `None` if there is none.
pub(crate) fn references(words: &[&str], answer: &Value) -> Option<Vec<String>> {
    if let Some(allowed) = answer["allowed"].as_bool() {
        return Some(vec![if allowed { "yes" } else { "no" }.to_owned()]);
    }
    if let Some(name) = reference(words, answer) {
        return Some(vec![name]);
    }
    if let Some(thing) = WRAPPED.iter().map(|name| &answer[*name]).find(|thing| thing.is_object()) {
        return reference(words, thing).map(|name| vec![name]);
    }
    for (list, name) in LISTS {
        let Some(elements) = answer[list].as_array() else { continue };
        let named = |element: &Value| match element.as_str().or_else(|| element[name].as_str()) {
            Some(name) => Some(name.to_owned()),
            None => references(words, element)?.into_iter().next(),
        };
        let mut names: Vec<String> = elements.iter().filter_map(named).collect();
        names.dedup();
        // An empty list is a result; a list of elements without names is not.
        return (elements.is_empty() || !names.is_empty()).then_some(names);
    }
    let fact = FACTS.iter().find_map(|name| answer[*name].as_str());
    fact.map(|fact| vec![fact.to_owned()])
}

/// Returns the reference that another command accepts, for `-o name`: the platform-wide name if there is one, else the
/// id.
pub(crate) fn reference(words: &[&str], thing: &Value) -> Option<String> {
    let text = |key: &str| thing[key].as_str();
    let name = match words {
        ["tenant", ..] => text("slug").map(str::to_owned),
        ["project", ..] => text("tenant").zip(text("name")).map(|(tenant, name)| format!("{tenant}.{name}")),
        ["user", ..] => text("email").map(str::to_owned),
        ["app", ..] => text("slug").map(str::to_owned),
        ["member", ..] => text("instance_id").zip(text("name")).map(|(of, name)| format!("{of}/{name}")),
        ["key" | "secret" | "repository", ..] => text("name").map(str::to_owned),
        ["node", ..] => text("name").filter(|_| thing["state"].is_string()).map(str::to_owned),
        ["event" | "audit", ..] => thing["sequence"].as_i64().map(|number| number.to_string()),
        _ => None,
    };
    name.or_else(|| text("id").or(text("name")).map(str::to_owned))
}

//! Checks that clients of the last release still work: within `/v1` the only allowed change is an addition.
//!
//! Existing comparison tools were rejected: they support OpenAPI 3.0, and none knows our own rule that a request with an
//! unknown field is rejected, so that removing a field breaks the clients that send it.

mod schema;

use serde_json::Value;

use schema::Comparison;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Returns every way in which `new` breaks a client of `old`, one line each.
pub(crate) fn breaking(old: &Value, new: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, item) in members(&old["paths"]) {
        for method in METHODS.into_iter().filter(|method| item.get(method).is_some()) {
            let before = &item[method];
            let id = before["operationId"].as_str().unwrap_or(path);
            match new["paths"][path].get(method) {
                Some(after) => findings.extend(operation(old, new, id, before, after)),
                None => findings.push(format!("{id}: {} {path} is gone", method.to_uppercase())),
            }
        }
    }
    findings
}

fn operation(old: &Value, new: &Value, id: &str, before: &Value, after: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    if before["operationId"] != after["operationId"] {
        findings.push(format!(
            "it is now called {}: clients and commands are named after it",
            after["operationId"]
        ));
    }
    let open = |described: &Value| described["security"].as_array().is_some_and(Vec::is_empty);
    if open(before) && !open(after) {
        findings.push("it now needs a credential".to_owned());
    }
    parameters(old, new, before, after, &mut findings);
    body(old, new, before, after, &mut findings);
    for (status, response) in members(&before["responses"]).filter(|(status, _)| status.starts_with('2')) {
        match after["responses"].get(status) {
            Some(answered) => answer(old, new, response, answered, &mut findings),
            None => findings.push(format!("it no longer answers {status}")),
        }
    }
    findings.into_iter().map(|finding| format!("{id}: {finding}")).collect()
}

fn parameters(old: &Value, new: &Value, before: &Value, after: &Value, findings: &mut Vec<String>) {
    let find = |described: &Value, parameter: &Value| {
        let same = |other: &&Value| other["name"] == parameter["name"] && other["in"] == parameter["in"];
        items(&described["parameters"]).find(same).cloned()
    };
    let required = |parameter: &Value| parameter["required"] == Value::Bool(true);
    let word = |parameter: &Value| {
        format!(
            "{} parameter {}",
            parameter["in"].as_str().unwrap_or(""),
            parameter["name"].as_str().unwrap_or("")
        )
    };
    for parameter in items(&before["parameters"]) {
        let Some(kept) = find(after, parameter) else {
            findings.push(format!("the {} is gone", word(parameter)));
            continue;
        };
        if required(&kept) && !required(parameter) {
            findings.push(format!("the {} is now required", word(parameter)));
        }
        let at = word(parameter);
        findings.extend(Comparison::request(old, new).compare(&at, &parameter["schema"], &kept["schema"]));
    }
    for parameter in items(&after["parameters"]).filter(|parameter| required(parameter)) {
        if find(before, parameter).is_none() {
            findings.push(format!("the {} is new and required", word(parameter)));
        }
    }
}

fn body(old: &Value, new: &Value, before: &Value, after: &Value, findings: &mut Vec<String>) {
    let (before, after) = (&before["requestBody"], &after["requestBody"]);
    if after["required"] == true && before["required"] != true {
        findings.push("a body is now required".to_owned());
    }
    for (media, described) in members(&before["content"]) {
        match after["content"].get(media) {
            Some(kept) => findings.extend(Comparison::request(old, new).compare(
                "body",
                &described["schema"],
                &kept["schema"],
            )),
            None => findings.push(format!("it no longer takes {media}")),
        }
    }
}

fn answer(old: &Value, new: &Value, before: &Value, after: &Value, findings: &mut Vec<String>) {
    for (media, described) in members(&before["content"]) {
        match after["content"].get(media) {
            Some(kept) => findings.extend(Comparison::response(old, new).compare(
                "answer",
                &described["schema"],
                &kept["schema"],
            )),
            None => findings.push(format!("it no longer answers with {media}")),
        }
    }
    for (header, _) in members(&before["headers"]) {
        if after["headers"].get(header).is_none() {
            findings.push(format!("the answer's header {header} is gone"));
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests;

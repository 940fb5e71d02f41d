//! Views of artifacts: a line in a list, or a single one with its signatures.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::tree::Tree;
use crate::age::{exact, instant, relative};
use crate::amount::bytes;
use crate::operation::text;

/// Prepares an artifact for a list: short digest, readable size, and trust level.
pub(crate) fn row(artifact: &mut Value) {
    artifact["short"] = json!(short(&text(artifact, "digest")));
    artifact["kind"] = json!(kind(artifact));
    artifact["shown_state"] = json!(state(artifact));
    artifact["trust"] = json!(trust(artifact));
    size_in_words(artifact);
}

/// Adds a readable size for lists.
pub(crate) fn size_in_words(thing: &mut Value) {
    thing["shown_size"] = json!(thing["size"].as_u64().map(bytes).unwrap_or_default());
}

/// Returns enough of a digest to identify it.
fn short(digest: &str) -> String {
    digest.chars().take("sha256:".len() + 12).collect()
}

fn state(artifact: &Value) -> String {
    match artifact["canary_percent"].as_i64() {
        Some(percent) => format!("canary {percent} %"),
        None => text(artifact, "state"),
    }
}

fn trust(artifact: &Value) -> String {
    let verdict = &artifact["verdict"];
    match (verdict["trust"].as_str(), verdict["reason"].as_str()) {
        (None, _) => "not verified".to_owned(),
        (Some(_), Some(_)) => format!("{}: {}", text(verdict, "trust"), text(verdict, "reason")),
        (Some(_), None) => text(verdict, "trust"),
    }
}

fn kind(artifact: &Value) -> String {
    match artifact["kind"].as_str() {
        Some("oci") => "image".to_owned(),
        Some("blob") => "files".to_owned(),
        _ => text(artifact, "kind"),
    }
}

/// Formats one artifact.
pub(crate) fn shown(artifact: &Value, now: Timestamp) -> String {
    let time = |name: &str| artifact[name].as_str().and_then(|at| exact(at, now)).unwrap_or_default();
    let verdict = &artifact["verdict"];
    let looked = verdict["checked_at"].as_str().and_then(instant).map(|then| relative(now, then));
    let says = match (text(verdict, "message"), looked) {
        (says, Some(when)) => format!("{}; {says} (verified {when})", text(verdict, "trust")),
        (_, None) => "not verified yet; run `muster artifact verify`".to_owned(),
    };
    let size = artifact["size"].as_u64().unwrap_or_default();
    let labels = artifact["labels"].as_object().is_some_and(|labels| !labels.is_empty());
    let lines = [
        ("artifact", text(artifact, "id")),
        ("repository", text(artifact, "repository")),
        ("digest", text(artifact, "digest")),
        ("is", format!("{}, {} ({size} bytes)", kind(artifact), bytes(size))),
        ("state", state(artifact)),
        ("trust", says),
        ("smoke test", text(artifact, "smoke_witness_id")),
        ("line", text(artifact, "line")),
        ("replaced by", text(artifact, "superseded_by")),
        ("can be retired", time("retirable_at")),
        ("labels", if labels { crate::table::plain(&artifact["labels"]) } else { String::new() }),
        ("published", time("created_at")),
        ("changed", time("updated_at")),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    lines.map(|(name, value)| format!("{:<15} {value}\n", format!("{name}:"))).collect()
}

/// Formats everything that depends on an artifact, from signature to running cell.
pub(crate) fn references(answer: &Value, now: Timestamp) -> String {
    let artifact = &answer["artifact"];
    let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let texts = |name: &str| {
        let found = list(name);
        found
            .iter()
            .filter_map(Value::as_str)
            .map(|word| crate::printable::printable(word).into_owned())
            .collect::<Vec<_>>()
    };
    let size = artifact["size"].as_u64().map(bytes).unwrap_or_default();
    let mut tree = Tree::new(format!(
        "{}@{}  {}, {size}, {}",
        text(artifact, "repository"),
        text(artifact, "digest"),
        kind(artifact),
        text(artifact, "id")
    ));
    tree.branch("tags", vec![texts("tags").join(", ")]);
    tree.branch(&format!("signatures: {}", trust(artifact)), signatures(answer));
    tree.branch("part of the indexes", texts("indexes"));
    tree.branch("lint", list("lint").iter().map(finding).collect());
    tree.branch(
        &format!("state: {}", state(artifact)),
        list("changes").iter().map(|change| step(change, now)).collect(),
    );
    tree.branch("replaces", texts("supersedes"));
    tree.branch("live cells", list("cells").iter().map(cell).collect());
    tree.branch("cannot be retired or removed now", texts("holds"));
    tree.shown()
}

fn signatures(answer: &Value) -> Vec<String> {
    let verdict = &answer["artifact"]["verdict"];
    let found = answer["signatures"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = found
        .map(|signature| {
            let form = if signature["by"] == "tag" { "under its tag" } else { "attached" };
            format!("{}  {form}, {}", short(&text(signature, "digest")), text(signature, "artifact_type"))
        })
        .collect();
    if verdict.is_object() {
        lines.push(text(verdict, "message"));
    }
    lines
}

fn finding(finding: &Value) -> String {
    let mark = if finding["error"] == true { '✗' } else { '!' };
    format!("{mark} {}: {}; {}", text(finding, "rule"), text(finding, "message"), text(finding, "fix"))
}

fn step(change: &Value, now: Timestamp) -> String {
    let when = change["at"].as_str().and_then(instant).map(|then| relative(now, then)).unwrap_or_default();
    let after = text(change, "after");
    let moved = match text(change, "before") {
        before if before.is_empty() => after,
        before => format!("{before} → {after}"),
    };
    format!("{moved}  {when}, by {}: {}", text(change, "actor_id"), text(change, "reason"))
}

fn cell(cell: &Value) -> String {
    format!(
        "{}  {}, incarnation {}, {}",
        text(cell, "name"),
        text(cell, "state"),
        cell["incarnation"],
        text(cell, "id")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T09:10:29Z".parse().unwrap()
    }

    fn artifact() -> Value {
        json!({
            "id": "art_1", "repository": "train/base", "digest": format!("sha256:{}", "ab".repeat(32)), "kind": "oci",
            "size": 1_288_490_189, "line": "main", "state": "canary", "canary_percent": 10, "labels": {},
            "verdict": {"trust": "untrusted", "reason": "other_key", "message": "it is signed by another", "policy": 1,
                        "checked_at": "2026-11-15T09:08:20Z"},
            "created_at": "2026-11-15T09:08:20Z", "updated_at": "2026-11-15T09:08:20Z",
        })
    }

    #[test]
    fn one_artifact_is_shown_without_what_it_has_not() {
        let expected = format!(
            "\
artifact:       art_1
repository:     train/base
digest:         sha256:{}
is:             image, 1.2 GiB (1288490189 bytes)
state:          canary 10 %
trust:          untrusted; it is signed by another (verified 2 min ago)
line:           main
published:      2026-11-15T09:08:20Z (2 min ago)
changed:        2026-11-15T09:08:20Z (2 min ago)
",
            "ab".repeat(32)
        );
        assert_eq!(shown(&artifact(), now()), expected);
        let mut fresh = artifact();
        fresh["verdict"] = Value::Null;
        assert!(
            shown(&fresh, now()).contains("trust:          not verified yet; run `muster artifact verify`\n")
        );
    }

    #[test]
    fn a_line_of_the_list_fits() {
        let mut line = artifact();
        row(&mut line);
        assert_eq!(line["short"], "sha256:abababababab");
        assert_eq!(line["trust"], "untrusted: other_key");
        assert_eq!(line["shown_size"], "1.2 GiB");
    }

    #[test]
    fn references_lead_from_the_signature_to_the_cell_and_nothing_hostile_gets_out() {
        let answer = json!({
            "artifact": artifact(), "tags": ["v1", "latest"],
            "signatures": [{"digest": "sha256:cdcdcdcdcdcdcdcd", "by": "referrer", "artifact_type": "bundle"}],
            "indexes": [], "supersedes": [],
            "lint": [{"error": true, "rule": "title_missing", "message": "no title", "fix": "push it again"}],
            "changes": [{"after": "draft", "actor_id": "usr_1", "reason": "pushed\u{1b}[2J", "at": "2026-11-15T09:08:20Z"},
                        {"before": "draft", "after": "staged", "actor_id": "usr_1", "reason": "good", "at": "2026-11-15T09:09:29Z"}],
            "cells": [{"id": "cel_1", "name": "web", "state": "running", "incarnation": 2}],
            "holds": ["the cell web (running) was created from it"],
        });
        let expected = format!(
            "\
train/base@sha256:{}  image, 1.2 GiB, art_1
├─ tags
│  └─ v1, latest
├─ signatures: untrusted: other_key
│  ├─ sha256:cdcdcdcdcdcd  attached, bundle
│  └─ it is signed by another
├─ lint
│  └─ ✗ title_missing: no title; push it again
├─ state: canary 10 %
│  ├─ draft  2 min ago, by usr_1: pushed\u{fffd}[2J
│  └─ draft → staged  1 min ago, by usr_1: good
├─ live cells
│  └─ web  running, incarnation 2, cel_1
└─ cannot be retired or removed now
   └─ the cell web (running) was created from it
",
            "ab".repeat(32)
        );
        assert_eq!(references(&answer, now()), expected);
    }
}

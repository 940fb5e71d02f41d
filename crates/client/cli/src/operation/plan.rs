//! A plan: the steps of an operation before it runs.

use jiff::Timestamp;
use serde_json::Value;

use super::steps;
use super::text;
use crate::age::exact;
use crate::amount::amount;
use crate::printable::printable;

/// Formats the plan as a list.
pub(crate) fn shown(plan: &Value, now: Timestamp) -> String {
    let steps = steps::of(plan);
    let (width, count) = (steps::width(plan), steps.len());
    let plural = if count == 1 { "step" } else { "steps" };
    if count == 0 {
        return format!("{} would change nothing\n", text(plan, "kind"));
    }
    let mut shown = format!("{} would take {count} {plural}:\n", text(plan, "kind"));
    for (number, step) in (1..).zip(steps) {
        let mut does = text(step, "does");
        for (fact, words) in [("verifies", "collects evidence"), ("has_undo", "can be undone")] {
            if step[fact] == Value::Bool(true) {
                does.push_str(&format!(" [{words}]"));
            }
        }
        shown.push_str(&format!("  {number}. {:<width$}  {does}\n", text(step, "name")));
    }
    for item in plan["items"].as_array().into_iter().flatten() {
        shown.push_str(&format!(
            "{}: {}: {}\n",
            text(item, "name"),
            text(item, "action"),
            text(item, "message")
        ));
    }
    for (name, value) in facts(plan, now) {
        shown.push_str(&format!("{:<10} {value}\n", format!("{name}:")));
    }
    shown
}

fn facts(plan: &Value, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let locks = plan["locks"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let locks: Vec<_> = locks.map(printable).collect();
    if !locks.is_empty() {
        facts.push(("locks", locks.join(", ")));
    }
    let adds: Vec<String> = rows(plan, "adds")
        .map(|members| format!("{} {}", members["count"], text(members, "component_key")))
        .collect();
    if !adds.is_empty() {
        facts.push(("adds", adds.join(", ")));
    }
    if plan["capacity"].is_object() {
        facts.push(("capacity", amount(&plan["capacity"])));
    }
    match plan["fits_now"].as_bool() {
        Some(true) => facts.push(("fits now", "yes; guaranteed only once it is claimed".to_owned())),
        Some(false) => facts.push((
            "fits now",
            match text(plan, "short") {
                short if short.is_empty() => "no; `muster capacity` shows the free capacity".to_owned(),
                short => format!("no: {short}"),
            },
        )),
        None => {}
    }
    for pull in rows(plan, "pulls") {
        let megabytes = (pull["size"].as_i64().unwrap_or(0) + 999_999) / 1_000_000;
        facts.push(("pulls", format!("{} ({megabytes} MB), unless the node has it", text(pull, "image"))));
    }
    if let Some(seconds) = plan["expected_seconds"].as_i64() {
        facts.push(("takes", format!("about {seconds} s, if nothing delays it")));
    }
    facts.extend(
        plan["deadline_at"].as_str().and_then(|text| exact(text, now)).map(|time| ("deadline", time)),
    );
    facts
}

fn rows<'p>(plan: &'p Value, field: &str) -> impl Iterator<Item = &'p Value> {
    plan[field].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::now;
    use serde_json::json;

    #[test]
    fn a_plan_is_a_list_that_can_be_read() {
        let plan = json!({
            "kind": "allocation.create",
            "steps": [
                {"name": "claim", "does": "finds a node", "verifies": false, "has_undo": true},
                {"name": "verify_active", "does": "looks at it", "verifies": true, "has_undo": false},
            ],
            "locks": ["alc_1"], "capacity": {"gpus": 2, "cpus": 1, "memory_mb": 1024, "disk_mb": 500},
            "fits_now": true, "expected_seconds": 3, "deadline_at": "2026-11-15T12:40:20Z",
        });
        let expected = "\
allocation.create would take 2 steps:
  1. claim          finds a node [can be undone]
  2. verify_active  looks at it [collects evidence]
locks:     alc_1
capacity:  2 GPUs, 1 CPU, 1 GiB memory, 500 MiB disk
fits now:  yes; guaranteed only once it is claimed
takes:     about 3 s, if nothing delays it
deadline:  2026-11-15T12:40:20Z (in 15 min)
";
        assert_eq!(shown(&plan, now()), expected);
        let drain = json!({
            "kind": "node.drain",
            "steps": [{"name": "move_members", "does": "replaces members", "verifies": false, "has_undo": false}],
            "items": [{"id": "mem_1", "name": "lab-worker-1", "action": "replace", "message": "capacity is available now"},
                      {"id": "mem_2", "name": "lab-controller-1", "action": "wait", "message": "it is replaced old-first"}],
        });
        let expected = "\
node.drain would take 1 step:
  1. move_members  replaces members
lab-worker-1: replace: capacity is available now
lab-controller-1: wait: it is replaced old-first
";
        assert_eq!(shown(&drain, now()), expected);
        let launch = json!({
            "kind": "instance.create", "steps": [{"name": "start", "does": "adds members"}], "locks": ["huge"],
            "adds": [{"component_key": "hub", "count": 1}, {"component_key": "unit", "count": 100}], "fits_now": false,
            "short": "unit: 5 of 100 fit; the next needs 1 CPU; most free on one node: 0",
            "pulls": [{"image": "acme.train/unit@sha256:ab", "size": 66_000_001}], "expected_seconds": 12,
        });
        let expected = "\
instance.create would take 1 step:
  1. start  adds members
locks:     huge
adds:      1 hub, 100 unit
fits now:  no: unit: 5 of 100 fit; the next needs 1 CPU; most free on one node: 0
pulls:     acme.train/unit@sha256:ab (67 MB), unless the node has it
takes:     about 12 s, if nothing delays it
";
        assert_eq!(shown(&launch, now()), expected);
        let nothing = json!({"kind": "instance.apply", "steps": [], "deadline_at": "2026-11-15T12:25:20Z"});
        assert_eq!(shown(&nothing, now()), "instance.apply would change nothing\n");
    }
}

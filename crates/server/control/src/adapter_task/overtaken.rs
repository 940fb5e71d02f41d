//! Detection of tasks that a later task may have undone. A step that runs again requests the same tasks in the same order;
//! the stored result of an "off" is no answer if an "on" followed it.

use std::collections::BTreeSet;

use muster_model::task::{Task, TaskState};
use muster_wire::task::{CellAct, FilesOrder};

/// Marks the payload of a task that only reads. Nodes ignore it.
pub(super) const READS: &str = "reads";

/// Reports whether another task of the same step may have undone this one: a later task in the same cell that changes
/// something and did not definitely fail.
pub(super) fn is_overtaken(done: &Task, of_step: &[Task]) -> bool {
    let Some(act) = act_of(done) else { return false };
    let cell = &done.payload["cell"]["cell_id"];
    of_step
        .iter()
        .filter(|other| other.id != done.id && other.queued_at >= done.queued_at && other.id > done.id)
        .filter(|other| other.state != TaskState::Failed && other.payload["cell"]["cell_id"] == *cell)
        .filter(|other| other.payload[READS] != true)
        .any(|other| act_of(other).is_some_and(|later| undoes(&later, &act)))
}

fn act_of(task: &Task) -> Option<CellAct> {
    serde_json::from_value(task.payload["act"].clone()).ok()
}

/// Reports whether the later act may undo the earlier one. A command may do anything. A service reads files at its start, so
/// later files invalidate a start, but a start undoes no file.
fn undoes(later: &CellAct, earlier: &CellAct) -> bool {
    match (later, earlier) {
        (CellAct::Probe(_), _) | (_, CellAct::Probe(_)) => false,
        (CellAct::Command(_), _) | (_, CellAct::Command(_)) => true,
        (CellAct::Files(later), CellAct::Files(earlier)) => !paths(later).is_disjoint(&paths(earlier)),
        (CellAct::Files(_), CellAct::Service(_)) => true,
        (CellAct::Service(_), CellAct::Files(_)) => false,
        (CellAct::Service(later), CellAct::Service(earlier)) => later.name == earlier.name,
    }
}

fn paths(order: &FilesOrder) -> BTreeSet<String> {
    let written = order.write.iter().map(|file| file.path.clone()).chain(order.remove.iter().cloned());
    written.chain(order.secrets.iter().map(|secret| format!("secret {}", secret.file))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn act(value: Value) -> CellAct {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_may_have_undone_an_act_undoes_it() {
        let conf = act(json!({"files": {"write": [{"path": "/etc/a", "text": "on"}]}}));
        let other = act(json!({"files": {"write": [{"path": "/etc/b", "text": "on"}]}}));
        let gone = act(json!({"files": {"remove": ["/etc/a"]}}));
        let apply = act(json!({"command": {"command": ["/bin/apply"]}}));
        let probe = act(json!({"probe": {"command": ["/bin/true"]}}));
        let service = |name: &str, action: &str| act(json!({"service": {"name": name, "action": action}}));
        for (later, earlier) in [
            (&gone, &conf),
            (&conf, &conf),
            (&apply, &conf),
            (&conf, &apply),
            (&apply, &apply),
            (&service("d", "stop"), &service("d", "start")),
            (&conf, &service("d", "restart")),
            (&service("d", "stop"), &apply),
        ] {
            assert!(undoes(later, earlier), "{later:?} {earlier:?}");
        }
        for (later, earlier) in [
            (&other, &conf),
            (&probe, &conf),
            (&probe, &apply),
            (&apply, &probe),
            (&service("d", "restart"), &conf),
            (&service("d", "stop"), &service("e", "start")),
        ] {
            assert!(!undoes(later, earlier), "{later:?} {earlier:?}");
        }
    }
}

//! Detection of tasks that a later task may have undone. A step that runs again requests the same tasks in the same order;
//! the stored result of an "off" is no answer if an "on" followed it.

use std::collections::BTreeSet;

use muster_api::adapter_step::CellTask;
use muster_engine::parse_act;
use muster_ids::CellId;
use muster_model::task::{Task, TaskState};
use muster_wire::task::FilesOrder;

/// Marks the payload of a task that only reads. Nodes ignore it.
pub(super) const READS: &str = "reads";

/// Reports whether another task of the same step may have undone this one: a later task in the same cell that changes
/// something and did not definitely fail.
pub(super) fn is_overtaken(done: &Task, of_step: &[Task]) -> bool {
    let Some((cell, task)) = cell_task(done) else { return false };
    let undoes_it = |other: &Task| {
        cell_task(other).is_some_and(|(in_cell, later)| in_cell == cell && undoes(&later, &task))
    };
    of_step
        .iter()
        .filter(|other| other.id != done.id && other.queued_at >= done.queued_at && other.id > done.id)
        .filter(|other| other.state != TaskState::Failed)
        .filter(|other| other.payload[READS] != true)
        .any(undoes_it)
}

fn cell_task(task: &Task) -> Option<(CellId, CellTask)> {
    let (cell, task) = CellTask::from_act(parse_act(task).ok()?)?;
    Some((cell.cell_id, task))
}

/// Reports whether the later act may undo the earlier one. A command may do anything. A service reads files at its start, so
/// later files invalidate a start, but a start undoes no file.
fn undoes(later: &CellTask, earlier: &CellTask) -> bool {
    match (later, earlier) {
        (CellTask::Probe(_), _) | (_, CellTask::Probe(_)) => false,
        (CellTask::Command(_), _) | (_, CellTask::Command(_)) => true,
        (CellTask::Files(later), CellTask::Files(earlier)) => !paths(later).is_disjoint(&paths(earlier)),
        (CellTask::Files(_), CellTask::Service(_)) => true,
        (CellTask::Service(_), CellTask::Files(_)) => false,
        (CellTask::Service(later), CellTask::Service(earlier)) => later.name == earlier.name,
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

    fn act(value: Value) -> CellTask {
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

//! Proof of death: a reachable node found no process left of a cell in that exact incarnation.
//!
//! Such a proof stands in for checks that a dead cell can never answer, so that its removal does not wait for its
//! cooperation. An unreachable node proves nothing, and no death ever proves that a member works.

use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TaskId};
use muster_manifest::Manifest;
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellState};
use muster_model::instance::Instance;
use muster_model::member::Member;
use muster_model::task::Task;
use muster_wire::cell::CellFindings;
use serde_json::{Value, json};

use crate::cell::{inspect_act, order, seen};
use crate::proof::cell_of;
use crate::task::{Asked, ask, ask_anew};
use crate::{StepAction, StepCx};

/// Liveness of a cell, or of all cells of a component.
pub(crate) enum Life {
    /// An agent has to inspect it first; the step does this meanwhile.
    Pending(StepAction),
    /// Dead, with this proof.
    Dead(Death),
    /// Alive, or not provably dead, and why.
    NotProved(String),
}

/// Proof that a cell is dead.
#[derive(Debug, Clone, Default)]
pub(crate) struct Death {
    /// Checks, one entry for each cell.
    pub(crate) checked: Vec<Value>,
    /// Node of the agent.
    pub(crate) node: Option<NodeId>,
    /// Its task.
    pub(crate) task: Option<TaskId>,
}

/// Derives the proof from an agent's findings: the cell does not run, no other incarnation of it exists, and no process is
/// alive.
pub(crate) fn death_of(cell: &Cell, found: &CellFindings, task: &Task) -> Option<Death> {
    let counted = found.death.as_ref().filter(|death| death.is_proved())?;
    // A cell without any record left nothing behind: its name is the same in every incarnation.
    if found.present || ![0, cell.incarnation].contains(&found.incarnation) {
        return None;
    }
    let checked = json!({"what": "its cell", "lost": true, "cell_id": cell.id, "cell": cell.name,
                         "incarnation": cell.incarnation, "boot_id": counted.boot_id, "processes": counted.processes,
                         "namespaces": counted.namespaces, "mounts": counted.mounts, "node_id": task.node_id,
                         "task_id": task.id, "at": task.finished_at});
    Some(Death { checked: vec![checked], node: Some(task.node_id), task: Some(task.id) })
}

/// Has the node inspect a cell now and returns whether it is dead.
pub(crate) async fn cell_life(cx: &StepCx<'_>, cell: &Cell) -> Result<Life> {
    if let Some(death) = gone(cell) {
        return Ok(Life::Dead(death));
    }
    let node = cx.store.node_lookup(cell.node_id).await?;
    if let Some((node, since)) = node.and_then(|node| Some((node.name, node.unreachable_since?))) {
        return Ok(Life::NotProved(format!("node {node} is unreachable since {since}")));
    }
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    if cell.incarnation == 0 || allocation.state != AllocationState::Active {
        let why = format!("{} is {} in an allocation that is {}", cell.name, cell.state, allocation.state);
        return Ok(Life::NotProved(why));
    }
    let wanted = order(cell, &allocation, inspect_act(cell, &allocation), format!("life of {}", cell.id));
    Ok(match ask(cx, &wanted).await? {
        Asked::Pending(act) => Life::Pending(act),
        Asked::Failed(why) => Life::NotProved(why),
        // Findings become stale: a cell that ran earlier may be dead by now, and vice versa.
        Asked::Done(task, _) if task.finished_at.is_none_or(|at| cx.now >= at + cx.timing.task) => {
            Life::Pending(ask_anew(cx, &wanted, &task)?)
        }
        Asked::Done(task, found) => match death_of(cell, &seen(&found), &task) {
            Some(death) => Life::Dead(death),
            None => Life::NotProved(format!("{} is not verified dead", cell.name)),
        },
    })
}

/// Returns the evidence of destruction as the proof of death.
pub(crate) fn gone(cell: &Cell) -> Option<Death> {
    let witness = cell.destroyed_witness_id.filter(|_| cell.state == CellState::Destroyed)?;
    let checked = json!({"what": "its cell", "lost": true, "cell_id": cell.id, "cell": cell.name, "state": cell.state,
                         "incarnation": cell.incarnation, "witness_id": witness});
    Some(Death { checked: vec![checked], node: Some(cell.node_id), task: None })
}

/// Reports whether every cell of a component of an instance is dead. A component without cells counts as dead.
pub(crate) async fn component_life(cx: &StepCx<'_>, instance: &Instance, key: &str) -> Result<Life> {
    let mut members = cx.store.member_living(instance.id).await?;
    members.retain(|member| member.component_key == key);
    let (mut death, mut acts) = (Death::default(), Vec::new());
    for member in &members {
        let Some(cell) = cell_of(cx, member).await?.filter(|cell| !cell.state.is_final()) else { continue };
        match cell_life(cx, &cell).await? {
            Life::Pending(act) => acts.push(act),
            Life::NotProved(why) => return Ok(Life::NotProved(why)),
            Life::Dead(found) => {
                death.checked.extend(found.checked);
                (death.node, death.task) = (found.node, found.task);
            }
        }
    }
    Ok(match StepAction::combine(acts) {
        Some(act) => Life::Pending(act),
        None => Life::Dead(death),
    })
}

/// Reports whether a member's own cell is dead, or all cells of a component in which its checks run: its adapter then has
/// nothing left to act on.
pub(crate) async fn lost_ground(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
) -> Result<Life> {
    let mut acts = Vec::new();
    let mut why = "it has no cell".to_owned();
    if let Some(cell) = cell_of(cx, member).await? {
        match cell_life(cx, &cell).await? {
            Life::Dead(death) => return Ok(Life::Dead(death)),
            Life::Pending(act) => acts.push(act),
            Life::NotProved(not) => why = not,
        }
    }
    let declared = manifest.component(&member.component_key).map(|component| &component.witnesses);
    let checks = declared.into_iter().flat_map(|of| of.drained.iter().chain(&of.removed));
    let mut places: Vec<&str> = checks.map(|check| check.place.as_str()).collect();
    places.sort_unstable();
    places.dedup();
    for place in places.into_iter().filter(|place| *place != "self" && *place != member.component_key) {
        match component_life(cx, instance, place).await? {
            Life::Dead(death) => return Ok(Life::Dead(death)),
            Life::Pending(act) => acts.push(act),
            Life::NotProved(not) => why = not,
        }
    }
    Ok(match StepAction::combine(acts) {
        Some(act) => Life::Pending(act),
        None => Life::NotProved(why),
    })
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::task::{TaskKind, TaskState};
    use muster_wire::cell::CellDeath;

    use super::*;
    use crate::cell::tests::cell;

    fn task(env: &Env) -> Task {
        Task {
            id: env.id(),
            node_id: env.id(),
            operation_id: env.id(),
            key: "verify_drained/look/0/0000".to_owned(),
            kind: TaskKind::CellInspect,
            allocation_id: None,
            incarnation: 1,
            generation: 1,
            payload: Value::Null,
            state: TaskState::Done,
            result: None,
            message: None,
            correlation_id: String::new(),
            queued_at: env.now(),
            delivered_at: None,
            finished_at: Some(env.now()),
            expires_at: env.now(),
        }
    }

    #[test]
    fn only_a_counted_death_of_this_very_incarnation_is_a_proof() {
        let env = Env::for_tests(1);
        let (cell, task) = (cell(&env), task(&env));
        let counted =
            |processes, namespaces| CellDeath { boot_id: "b".to_owned(), processes, namespaces, mounts: 3 };
        let found = |present, incarnation, death| CellFindings {
            present,
            incarnation,
            death,
            ..CellFindings::default()
        };
        let proves = |found: CellFindings| death_of(&cell, &found, &task).is_some();
        assert!(proves(found(false, cell.incarnation, Some(counted(0, 0)))));
        assert!(proves(found(false, 0, Some(counted(0, 0)))), "nothing at all is left of it");
        for (present, incarnation, death, why) in [
            (true, cell.incarnation, Some(counted(0, 0)), "it runs"),
            (false, cell.incarnation, None, "nobody counted"),
            (false, cell.incarnation, Some(counted(1, 0)), "a process is left"),
            (false, cell.incarnation, Some(counted(0, 1)), "a namespace is held"),
            (false, cell.incarnation - 1, Some(counted(0, 0)), "an older one died"),
            (false, cell.incarnation + 1, Some(counted(0, 0)), "a later one died"),
        ] {
            assert!(!proves(found(present, incarnation, death)), "{why}");
        }
    }
}

//! The act of a stored task. The model does not know the wire, so its tasks keep the payload as JSON: this is the one place
//! where an act becomes a payload, and a payload an act.

use muster_db::{Result, StoreError};
use muster_ids::AllocationId;
use muster_model::task::{Task, TaskKind};
use muster_wire::act::Act;
use muster_wire::task::TaskKind as WireKind;
use serde_json::Value;

/// The columns of a task that its act determines.
#[derive(Debug, Clone)]
pub struct StoredAct {
    /// Kind, for queries.
    pub kind: TaskKind,
    /// Allocation, for queries.
    pub allocation_id: Option<AllocationId>,
    /// The act.
    pub payload: Value,
}

impl StoredAct {
    /// Converts an act to the columns of its task.
    pub fn from_act(act: &Act) -> Result<Self> {
        let allocation_id = act.allocation().map(|owned| owned.allocation_id);
        let payload = serde_json::to_value(act).map_err(|_| corrupt())?;
        Ok(Self { kind: stored_kind(act.kind()), allocation_id, payload })
    }
}

/// Parses the act of a stored task. Its kind and its allocation are those of the columns beside it.
pub fn parse_act(task: &Task) -> Result<Act> {
    let act: Act = serde_json::from_value(task.payload.clone()).map_err(|_| corrupt())?;
    let allocation_id = act.allocation().map(|owned| owned.allocation_id);
    if stored_kind(act.kind()) != task.kind || allocation_id != task.allocation_id {
        return Err(corrupt());
    }
    Ok(act)
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("the act of a task")
}

/// Returns the stored name of a kind.
fn stored_kind(kind: WireKind) -> TaskKind {
    match kind {
        WireKind::Prepare => TaskKind::Prepare,
        WireKind::Inspect => TaskKind::Inspect,
        WireKind::Resize => TaskKind::Resize,
        WireKind::Destroy => TaskKind::Destroy,
        WireKind::Wipe => TaskKind::Wipe,
        WireKind::Survey => TaskKind::Survey,
        WireKind::CellCreate => TaskKind::CellCreate,
        WireKind::CellInspect => TaskKind::CellInspect,
        WireKind::CellDestroy => TaskKind::CellDestroy,
        WireKind::KeepLogs => TaskKind::KeepLogs,
        WireKind::Stream => TaskKind::Stream,
        WireKind::Sweep => TaskKind::Sweep,
        WireKind::CellFiles => TaskKind::CellFiles,
        WireKind::CellService => TaskKind::CellService,
        WireKind::CellCommand => TaskKind::CellCommand,
        WireKind::CellProbe => TaskKind::CellProbe,
        WireKind::ImagePull => TaskKind::ImagePull,
        WireKind::ShareRemove => TaskKind::ShareRemove,
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::task::TaskState;
    use muster_wire::act::{OwnedAllocation, SandboxDevices};
    use serde_json::json;

    use super::*;

    fn task(env: &Env, stored: StoredAct) -> Task {
        Task {
            id: env.id(),
            node_id: env.id(),
            operation_id: env.id(),
            key: "wipe/wipe/0/0000".to_owned(),
            kind: stored.kind,
            allocation_id: stored.allocation_id,
            incarnation: 1,
            generation: 1,
            payload: stored.payload,
            state: TaskState::Queued,
            result: None,
            message: None,
            correlation_id: String::new(),
            queued_at: env.now(),
            delivered_at: None,
            finished_at: None,
            expires_at: env.now(),
        }
    }

    #[test]
    fn an_act_is_parsed_as_it_was_stored_and_corrupt_otherwise() {
        let env = Env::for_tests(1);
        let allocation =
            OwnedAllocation { allocation_id: env.id(), tenant_id: env.id(), project_id: env.id() };
        let wipe = Act::Wipe(SandboxDevices { allocation, devices: vec!["GPU-0".to_owned()] });
        let stored = task(&env, StoredAct::from_act(&wipe).unwrap());
        assert_eq!((stored.kind, stored.allocation_id), (TaskKind::Wipe, Some(allocation.allocation_id)));
        assert_eq!(parse_act(&stored).unwrap(), wipe);
        let of_payload = |payload| Task { payload, ..stored.clone() };
        let without_devices = json!({"kind": "wipe", "allocation": allocation});
        for corrupt in [
            of_payload(json!({"kind": "shell"})),
            of_payload(without_devices),
            of_payload(json!({"kind": "survey"})),
            Task { kind: TaskKind::Destroy, ..stored.clone() },
            Task { allocation_id: Some(env.id()), ..stored.clone() },
            Task { allocation_id: None, ..stored.clone() },
        ] {
            assert!(
                matches!(parse_act(&corrupt), Err(StoreError::Corrupt("the act of a task"))),
                "{corrupt:?}"
            );
        }
    }

    #[test]
    fn a_kind_has_the_same_name_stored_and_on_the_wire() {
        for kind in TaskKind::ALL {
            let on_the_wire: WireKind = serde_json::from_value(json!(kind.as_str())).unwrap();
            assert_eq!(stored_kind(on_the_wire), *kind);
        }
    }
}

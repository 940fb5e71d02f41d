//! Adapter tasks: node tasks that adapters run in the cells of their members, each under the lease of a step.

mod check;
mod create;
mod get;
mod overtaken;
mod wait;

pub use create::create;
pub use get::get;

use muster_api::adapter_step as api;
use muster_ids::{OperationId, TypedId as _};
use muster_model::adapter::AdapterStep;
use muster_model::task::{Task, TaskState};
use muster_wire::task::{Findings, Refusal};

/// Prefix of the keys of all adapter tasks. The engine's own task keys begin with the name of a step.
pub(crate) const PREFIX: &str = "adapter/";

/// Returns the key of a task in the table. It excludes the generation, so that the next lease holder finds the same task.
fn key_of(step: &AdapterStep, key: &str) -> String {
    format!("{PREFIX}{}/{key}", step.id)
}

/// Returns the operation that a step's tasks belong to. A scheduled reconcile has none, so its own id stands in.
fn operation_of(step: &AdapterStep) -> OperationId {
    step.operation_id.unwrap_or(OperationId::from_uuid(step.id.uuid()))
}

fn state(state: TaskState) -> api::AdapterTaskState {
    match state {
        TaskState::Queued => api::AdapterTaskState::Queued,
        TaskState::Delivered => api::AdapterTaskState::Delivered,
        TaskState::Running => api::AdapterTaskState::Running,
        TaskState::Done => api::AdapterTaskState::Done,
        TaskState::Failed => api::AdapterTaskState::Failed,
        TaskState::Expired => api::AdapterTaskState::Expired,
    }
}

/// Returns the reason code of a failed task.
fn reason(task: &Task, refusal: Option<Refusal>) -> Option<api::AdapterTaskReason> {
    (task.state == TaskState::Failed).then_some(match refusal {
        Some(Refusal::CellDead) => api::AdapterTaskReason::CellDead,
        Some(Refusal::Secret) => api::AdapterTaskReason::SecretUnavailable,
        Some(Refusal::ArtifactDamaged | Refusal::ArtifactPull | Refusal::ArtifactUntrusted) => {
            api::AdapterTaskReason::ImageDamaged
        }
        Some(Refusal::Unsupported | Refusal::NodeFull) | None => api::AdapterTaskReason::Refused,
    })
}

fn view(step: &AdapterStep, task: &Task) -> api::AdapterTask {
    let findings = task.result.clone().and_then(|found| serde_json::from_value::<Findings>(found).ok());
    let key = task.key.strip_prefix(&key_of(step, "")).unwrap_or(&task.key);
    api::AdapterTask {
        id: task.id,
        key: key.to_owned(),
        state: state(task.state),
        reason: reason(task, findings.as_ref().and_then(|found| found.refusal)),
        message: task.message.clone(),
        ran: findings.and_then(|found| found.ran),
        queued_at: task.queued_at,
        finished_at: task.finished_at,
    }
}

//! Lookups shared by the steps on a cell.

use muster_db::{Result, StoreError};
use muster_ids::{CellId, Digest, ProjectId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::cell::{Cell, CellFailure};
use muster_model::operation::OperationKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::act::{
    Act, CellCreate, CellDestroy, CellInspect, CellTarget, Executor, ImagePull, KeepLogs,
};
use muster_wire::cell::{Attachment, CellFindings, CellSpec, Pull, Trust, TrustKey};
use muster_wire::task::Findings;
use serde_json::{Value, json};

use crate::allocation::{is_exclusive, owned_allocation};
use crate::task::Ask;
use crate::{StepCx, StepOutcome};

/// Returns the cell that the operation works on.
pub(crate) async fn subject(cx: &StepCx<'_>) -> Result<Cell> {
    let id = CellId::from_uuid(cx.operation.subject_id);
    cx.store.cell_lookup(id).await?.ok_or(StoreError::Gone("cell".to_owned()))
}

/// Returns the API path of a cell.
pub(crate) fn path(cell: &Cell) -> String {
    format!("/v1/projects/{}/cells/{}", cell.project_id, cell.id)
}

/// Returns its allocation.
pub(crate) async fn allocation(cx: &StepCx<'_>, cell: &Cell) -> Result<Allocation> {
    let found = cx.store.allocation_lookup(cell.allocation_id).await?;
    found.ok_or(StoreError::Gone("allocation".to_owned()))
}

/// Builds a request to its node.
pub(crate) fn order(
    cell: &Cell,
    allocation: &Allocation,
    act: Act,
    purpose: impl Into<std::borrow::Cow<'static, str>>,
) -> Ask {
    Ask { node: cell.node_id, purpose: purpose.into(), incarnation: allocation.incarnation, act }
}

/// Returns the cell as tasks name it.
pub fn cell_target(cell: &Cell) -> CellTarget {
    CellTarget { executor: Executor::Cell, cell_id: cell.id, incarnation: cell.incarnation }
}

/// Builds the act that creates the cell.
pub(super) async fn create_act(cx: &StepCx<'_>, cell: &Cell, allocation: &Allocation) -> Result<Act> {
    let network = cx.store.network_lookup(cell.network_id).await?;
    let network = network.ok_or(StoreError::Gone("network".to_owned()))?;
    let address = network.address(cell.host).ok_or(StoreError::Corrupt("a network's addresses"))?;
    let vni = u32::try_from(network.vni).map_err(|_| StoreError::Corrupt("a network's number"))?;
    let (network_id, subnet) = (network.id, network.subnet);
    let attachment = Attachment { network_id, vni, subnet, address: address.to_string() };
    Ok(Act::CellCreate(Box::new(CellCreate {
        allocation: owned_allocation(allocation),
        cell: cell_target(cell),
        name: cell.name.clone(),
        exclusive: is_exclusive(allocation),
        spec: with_ports(cx, cell).await?,
        attachment: Some(attachment),
        pull: pull(cx, cell).await?,
    })))
}

/// Builds the act that pulls the image of the cell's next incarnation.
pub(crate) async fn pull_act(
    cx: &StepCx<'_>,
    cell: &Cell,
    allocation: &Allocation,
    spec: CellSpec,
) -> Result<Act> {
    Ok(Act::ImagePull(ImagePull {
        allocation: owned_allocation(allocation),
        cell: cell_target(cell),
        exclusive: is_exclusive(allocation),
        root: spec.root,
        pull: pull(cx, cell).await?,
    }))
}

/// Builds the act that inspects the cell.
pub(crate) fn inspect_act(cell: &Cell, allocation: &Allocation) -> Act {
    Act::CellInspect(CellInspect { allocation: owned_allocation(allocation), cell: cell_target(cell) })
}

/// Builds the act that destroys the cell.
pub(crate) fn destroy_act(cx: &StepCx<'_>, cell: &Cell, allocation: &Allocation) -> Act {
    let keep_state = matches!(
        cx.operation.kind,
        OperationKind::CellRestart | OperationKind::AllocationRestart | OperationKind::AllocationResize
    );
    Act::CellDestroy(CellDestroy {
        allocation: owned_allocation(allocation),
        cell: cell_target(cell),
        keep_state,
    })
}

/// Builds the act that archives the logs of the cell.
pub(crate) fn keep_logs_act(cell: &Cell, allocation: &Allocation) -> Act {
    Act::KeepLogs(KeepLogs { allocation: owned_allocation(allocation), cell: Some(cell_target(cell)) })
}

/// Returns the source of its image and the keys trusted for it now.
async fn pull(cx: &StepCx<'_>, cell: &Cell) -> Result<Option<Pull>> {
    let Some(id) = cell.artifact_id else { return Ok(None) };
    let artifact = cx.store.artifact_lookup(id).await?.ok_or(StoreError::Gone("artifact".to_owned()))?;
    // The publisher decides which keys are trusted: its own project, or that of the app it belongs to.
    let policy = cx.store.trust_policy_lookup(artifact.project_id).await?.unwrap_or_default();
    let keys = cx.store.key_of_project(artifact.project_id).await?;
    let found = artifact.verdict.as_ref().map(|outcome| outcome.trust.as_str()).unwrap_or_default();
    let mut keys: Vec<TrustKey> = keys
        .into_iter()
        .map(|key| TrustKey {
            id: key.id.to_string(),
            public_key: key.public_key,
            revoked: key.revoked_at.is_some(),
        })
        .collect();
    keys.sort_by(|one, other| one.id.cmp(&other.id));
    let required = !policy.lets_unsigned(artifact.state);
    let name = policy_name(artifact.project_id, policy.policy, required, found, &keys);
    Ok(Some(Pull {
        repository: format!("{}/{}", artifact.project_id, artifact.repository),
        digest: artifact.digest.clone(),
        trust: Trust { required, policy: name, keys },
    }))
}

/// Cache key under which a node remembers that an image may run: a hash of every input of the decision. It includes the
/// project, because policy editions are numbered in each project separately and keys of other projects do not apply. It
/// includes the server's verdict: a node that cached "unsigned" must verify again when that changes.
fn policy_name(project: ProjectId, edition: i64, required: bool, found: &str, keys: &[TrustKey]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| (&key.id, &key.public_key, key.revoked)).collect();
    Digest::of(json!([project, edition, required, found, keys]).to_string().as_bytes()).to_string()
}

/// Returns its spec with the assigned node ports.
async fn with_ports(cx: &StepCx<'_>, cell: &Cell) -> Result<CellSpec> {
    let corrupt = || StoreError::Corrupt("a cell specification");
    let mut spec: CellSpec = serde_json::from_value(cell.spec.clone()).map_err(|_| corrupt())?;
    let ports = cx.store.node_port_of(cell.id).await?;
    for ingress in &mut spec.ingress {
        let protocol = json!(ingress.protocol);
        let chosen = ports.iter().find(|port| {
            port.cell_port == i64::from(ingress.port) && protocol.as_str() == Some(port.protocol.as_str())
        });
        let port = chosen.ok_or_else(corrupt)?.port;
        ingress.node_port = Some(u16::try_from(port).map_err(|_| corrupt())?);
    }
    Ok(spec)
}

/// Returns the agent's findings about the cell.
pub(crate) fn seen(found: &Findings) -> CellFindings {
    found.cell.clone().unwrap_or_default()
}

pub(crate) fn refused(reason: CellFailure, message: impl Into<String>) -> StepOutcome {
    StepOutcome::Refused { reason: reason.as_str(), message: message.into() }
}

/// Builds the evidence that this step collected by a task.
pub(crate) fn evidence(
    cx: &StepCx<'_>,
    cell: &Cell,
    transition: Transition,
    task: &muster_model::task::Task,
    checked: Value,
) -> Witness {
    Witness {
        id: cx.env.id(),
        subject_id: cell.id.uuid(),
        transition,
        kind: WitnessKind::Witnessed,
        incarnation: cell.incarnation,
        operation_id: Some(cx.operation.id),
        node_id: Some(task.node_id),
        task_id: Some(task.id),
        actor_id: None,
        checked,
        result: task.result.clone().unwrap_or_else(|| json!({})),
        at: cx.now,
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;

    use super::*;

    #[test]
    fn a_policy_has_another_name_in_each_project_and_with_each_key() {
        let env = Env::for_tests(1);
        let (one, other): (ProjectId, ProjectId) = (env.id(), env.id());
        let key = |id: &str, revoked| TrustKey { id: id.to_owned(), public_key: "pem".to_owned(), revoked };
        let (good, revoked) = ([key("a", false)], [key("a", true)]);
        let names = [
            policy_name(one, 2, true, "trusted", &good),
            policy_name(other, 2, true, "trusted", &good),
            policy_name(one, 3, true, "trusted", &good),
            policy_name(one, 2, false, "trusted", &good),
            policy_name(one, 2, true, "unsigned", &good),
            policy_name(one, 2, true, "trusted", &revoked),
            policy_name(one, 2, true, "trusted", &[]),
            policy_name(one, 2, true, "trusted", &[key("a", false), key("b", false)]),
        ];
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:#?}");
        assert_eq!(names[0], policy_name(one, 2, true, "trusted", &good));
    }
}

//! Provisions a member's cell from its release. The undo destroys it if this operation created it.

use muster_db::{OperationChild, Result, StoreError};
use muster_ids::{AppVersionId, ArtifactId, CellId, TypedId as _};
use muster_manifest::{Component, Expose, Manifest, RootFrom};
use muster_model::cell::Cell;
use muster_model::event::{EventType, Timeline};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::OperationState;
use muster_model::operation_input::OperationInput;
use muster_wire::cell::{CellSpec, Ingress, Root};
use serde_json::json;

use super::subject::{instance, manifest_of, refused, subject, wanted_version};
use super::{share, trust};
use crate::cell::{CREATE, CellRefusal, RESTART, assign, choose_ports, open, path as cell_path};
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{cell_of, component};
use crate::{StepAction, StepOutcome, supersede};

pub(super) const PROVISION: Step = Step {
    name: "provision",
    does: "create the cell from the release",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if let Some(child) = child::find(cx, "cell").await? {
        return match child.state {
            OperationState::Succeeded => made(cx, member).await,
            state if !state.is_final() => Ok(child::wait(cx, &child)),
            _ => Ok(refused(reason_of(&child), child::why(&child)).into()),
        };
    }
    let instance = instance(cx, &member).await?;
    let version = wanted_version(cx, &instance);
    let manifest = manifest_of(cx, version).await?;
    let component = component(&manifest, &member)?;
    let spec = spec_of(&manifest, component, &member, &instance.name)?;
    let artifact = artifact_of(cx, version, component).await?;
    // Checked before a running cell is stopped to be recreated.
    if let Some(id) = artifact
        && let Some(why) = trust::refusal_of(cx, id).await?
    {
        return Ok(refused(MemberFailure::Permission, why).into());
    }
    let living = cell_of(cx, &member).await?.filter(|cell| !cell.state.is_final());
    match living {
        Some(cell) => remake(cx, member, cell, &spec, artifact).await,
        None => make(cx, member, instance.network_id, spec, artifact).await,
    }
}

/// Returns the artifact of a release from which a component's cells are made, if any.
pub(super) async fn artifact_of(
    cx: &StepCx<'_>,
    version: AppVersionId,
    component: &Component,
) -> Result<Option<ArtifactId>> {
    let RootFrom::Artifact(name) = &component.runtime.root else { return Ok(None) };
    let artifacts = cx.store.app_version_artifacts(version).await?;
    Ok(artifacts.into_iter().find(|(of, _)| of == name).map(|(_, id)| id))
}

/// Recreates an existing cell in place: state directories, name and address stay. An operation that is already recreating
/// it, or failed to, is superseded: it holds the cell's lock until then.
async fn remake(
    cx: &StepCx<'_>,
    member: Member,
    cell: Cell,
    spec: &CellSpec,
    artifact: Option<ArtifactId>,
) -> Result<StepAction> {
    let spec = spec.clone();
    let node = share::node(cx, cell.node_id).await?;
    let under_way = cx.store.operation_open_on(cell.id.uuid()).await?;
    let mut opened = child::make(cx, "cell", child_request(cx, &RESTART, &cell));
    let (now, look, operation_id, env) = (cx.now, cx.timing.look, cx.operation.id, cx.env.clone());
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            if let Some(name) = tx.secret_missing(member.project_id, &json!(spec)).await? {
                return Ok(refusal(CellRefusal::NoSecret(name)));
            }
            // Another release may expose other ports; the common ones keep their node ports.
            if let Some(refusal) = share::hold(tx, cell.network_id, node, &spec).await? {
                return Ok(refusal);
            }
            let held = tx.node_port_of_now(cell.id).await?;
            let ports = match choose_ports(tx, cell.node_id, &spec, &held).await? {
                Ok(ports) => ports,
                Err(why) => return Ok(refusal(why)),
            };
            tx.node_port_free(cell.id).await?;
            for port in &ports {
                tx.node_port_insert(cell.node_id, cell.id, port).await?;
            }
            for old in &under_way {
                supersede(tx, &env, old, &mut opened, now).await?;
            }
            tx.cell_remake(&cell, &json!(spec), artifact, now).await?;
            tx.operation_open(&opened).await?;
            let after = Member {
                state: MemberState::Provisioning,
                operation_id: Some(operation_id),
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            Ok(StepOutcome::Wait { reason: "its cell is being recreated".to_owned(), until: now + look })
        })
    }))
}

async fn make(
    cx: &StepCx<'_>,
    member: Member,
    network_id: muster_ids::NetworkId,
    spec: CellSpec,
    artifact_id: Option<ArtifactId>,
) -> Result<StepAction> {
    let allocation = match member.allocation_id {
        Some(id) => cx.store.allocation_lookup(id).await?,
        None => None,
    };
    let Some((allocation, node_id)) = allocation.and_then(|held| held.node_id.map(|node| (held, node)))
    else {
        return Ok(refused(MemberFailure::AllocationEnded, "it has no allocation").into());
    };
    let network = cx.store.network_lookup(network_id).await?.ok_or(StoreError::Gone("network".to_owned()))?;
    let node = share::node(cx, node_id).await?;
    let id: CellId = cx.env.id();
    let requested = Cell::requested(id, &allocation, node_id, network.id, &member.name, json!(spec), cx.now);
    let mut cell = Cell { artifact_id, member_id: Some(member.id), ..requested };
    let opened = child::make(cx, "cell", child_request(cx, &CREATE, &cell));
    cell.operation_id = Some(opened.id);
    let (now, look, operation_id) = (cx.now, cx.timing.look, cx.operation.id);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            // Before any write: a refusal commits too, with all earlier writes.
            let ports = match assign(tx, &mut cell, &spec, &network.name, now).await? {
                Ok(ports) => ports,
                Err(why) => return Ok(refusal(why)),
            };
            if let Some(refusal) = share::hold(tx, network.id, node, &spec).await? {
                return Ok(refusal);
            }
            let neighbours = open(tx, &cell, &ports, &opened).await?;
            // Notify the neighbours at once; otherwise they would reconcile only at their next poll.
            effects.tasks_for.extend(neighbours);
            let after = Member { cell_id: Some(id), operation_id: Some(operation_id), ..member.clone() };
            tx.member_move(&member, &after, now).await?;
            let data =
                json!({"name": cell.name, "allocation_id": cell.allocation_id, "member_id": member.id});
            effects.events.push((EventType::CellRequested, cell_path(&cell), data));
            Ok(StepOutcome::Wait { reason: "its cell is being created".to_owned(), until: now + look })
        })
    }))
}

fn refusal(why: CellRefusal) -> StepOutcome {
    let (reason, why) = match why {
        CellRefusal::NoSecret(name) => {
            (MemberFailure::Permission, format!("the project has no secret {name}: create it, then retry"))
        }
        CellRefusal::NoAddress => (
            MemberFailure::ProvisionFailed,
            "every address of the instance's network is in use: remove a member first".to_owned(),
        ),
        CellRefusal::PortTaken(_) | CellRefusal::NoPort => {
            (MemberFailure::ProvisionFailed, "every publishable port of the node is in use".to_owned())
        }
    };
    refused(reason, why)
}

fn child_request<'p>(cx: &StepCx<'_>, definition: &'p crate::Definition, cell: &Cell) -> ChildRequest<'p> {
    ChildRequest {
        definition,
        subject_kind: "cell",
        subject_id: cell.id.uuid(),
        subject_name: cell.name.clone(),
        timeline: Timeline::default(),
        input: OperationInput::default(),
        deadline_at: cx.operation.deadline_at,
    }
}

/// Records the incarnation of the created cell.
async fn made(cx: &StepCx<'_>, member: Member) -> Result<StepAction> {
    let Some(cell) = cell_of(cx, &member).await? else {
        return Err(StoreError::Corrupt("a cell of a member"));
    };
    if member.incarnation == cell.incarnation {
        return Ok(StepOutcome::with(json!({"cell_id": cell.id, "incarnation": cell.incarnation})).into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let after = Member { incarnation: cell.incarnation, ..member.clone() };
            tx.member_move(&member, &after, now).await?;
            Ok(StepOutcome::with(json!({"cell_id": cell.id, "incarnation": cell.incarnation})))
        })
    }))
}

fn reason_of(child: &OperationChild) -> MemberFailure {
    match child.reason.as_deref() {
        Some("artifact_pull") => MemberFailure::ArtifactPull,
        Some("artifact_untrusted" | "artifact_damaged" | "secret_refused") => MemberFailure::Permission,
        Some("deadline_passed") => MemberFailure::BootstrapTimeout,
        Some("allocation_ended") => MemberFailure::AllocationEnded,
        _ => MemberFailure::ProvisionFailed,
    }
}

/// Returns why an operation that provisions a member failed. The deadline of the operation is that of its child too, so it
/// usually passes first here; for a cell that was created, the owner needs to know that its services were not ready in time.
pub(super) async fn failure_of(cx: &StepCx<'_>) -> Result<MemberFailure> {
    let given = cx.operation.reason.as_deref().and_then(MemberFailure::parse);
    let given = given.unwrap_or(MemberFailure::ProvisionFailed);
    if given != MemberFailure::DeadlinePassed {
        return Ok(given);
    }
    let children = cx.store.operation_children(cx.operation.id).await?;
    let makes = |child: &&OperationChild| [CREATE.kind, RESTART.kind].contains(&child.kind);
    let Some(child) = children.iter().rfind(makes).filter(|child| child.state != OperationState::Succeeded)
    else {
        return Ok(given);
    };
    let child = cx.store.operation_lookup(child.id).await?;
    let made = child.and_then(|child| child.step("provision")?.ended_at).is_some();
    Ok(if made { MemberFailure::BootstrapTimeout } else { given })
}

/// Builds the spec of a member's cell from the release: pure.
pub(super) fn spec_of(
    manifest: &Manifest,
    component: &Component,
    member: &Member,
    instance: &str,
) -> Result<CellSpec> {
    let runtime = &component.runtime;
    let root = match &runtime.root {
        RootFrom::Host(directories) => Root::Host(directories.clone()),
        RootFrom::Artifact(name) => {
            let artifact = manifest.artifacts.iter().find(|artifact| artifact.name == *name);
            Root::Image(artifact.ok_or(StoreError::Corrupt("an artifact of a manifest"))?.digest.clone())
        }
    };
    let mut environment = runtime.environment.clone();
    for (key, value) in
        [("MUSTER_INSTANCE", instance), ("MUSTER_COMPONENT", &component.key), ("MUSTER_MEMBER", &member.name)]
    {
        environment.insert(key.to_owned(), value.to_owned());
    }
    let exposed = runtime.ports.iter().filter(|port| port.expose == Expose::Node);
    Ok(CellSpec {
        root,
        services: runtime.services.clone(),
        files: Vec::new(),
        state: component.state.clone(),
        environment,
        gpus: None,
        egress: runtime.egress,
        ingress: exposed
            .map(|port| Ingress { port: port.port, protocol: port.protocol, node_port: None })
            .collect(),
        shared: component.shared.clone(),
        people: runtime.people,
        secrets: runtime.secrets.clone(),
        restart: component.restart,
        stop_after_partition: component.stop_after_partition,
    })
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    // An earlier cell stays, with the member's data in it.
    let children = cx.store.operation_children(cx.operation.id).await?;
    let made = |child: &OperationChild| {
        child.kind == CREATE.kind && member.cell_id.is_some_and(|cell| cell.uuid() == child.subject_id)
    };
    if !children.iter().any(made) {
        // Open operations on it end first. A blocked one is left to be superseded by the next operation.
        let moves =
            |child: &&OperationChild| !child.state.is_final() && child.state != OperationState::Blocked;
        return Ok(match children.iter().find(moves) {
            Some(child) => child::wait(cx, child),
            None => StepOutcome::with_message("its cell existed before, and stays").into(),
        });
    }
    // A destruction supersedes any open creation, and verifies the result itself.
    super::destroy_cell::destroy_cell(cx, &member).await
}

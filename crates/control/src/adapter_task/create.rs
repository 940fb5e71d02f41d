//! Have something done in the cell of a member, under the lease of a step of that very instance.

use jiff::SignedDuration;
use muster_api::adapter_step::AdapterTaskCreate;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_ids::TaskId;
use muster_model::adapter::AdapterStep;
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::{Cell, CellState};
use muster_model::member::{Member, MemberState};
use muster_model::task::{Task, TaskKind, TaskState};
use muster_node_api::task::CellAct;
use muster_operations::cell::errand;
use muster_store::StoreError;

use super::wait::until_ended;
use super::{check, key_of, operation_of, view};
use crate::adapter_step::{fenced, own};
use crate::instance::manifest_of;
use crate::refuse::{Result, refuse};
use crate::{Answer, Cx};

/// Answers `adapter_task_create`.
pub async fn create(cx: &Cx, project: &str, reference: &str, body: AdapterTaskCreate) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterTaskCreate).await?;
    let (operation, key) = (operation_of(&step), key_of(&step, &body.key));
    let store = &cx.platform.store;
    let asked = store.task_by_key(operation, &key).await.map_err(refuse)?;
    let planned = match asked {
        Some(asked) => {
            same(cx, &asked, &body).await?;
            None
        }
        None => Some(planned(cx, &step, &body, key.clone()).await?),
    };
    let mut tx = store.begin().await.map_err(refuse)?;
    let written = async {
        tx.adapter_step_fence(step.id, body.generation, cx.now).await?;
        if let Some(planned) = &planned {
            tx.cell_hold(planned.cell.id, planned.cell.incarnation).await?;
            tx.task_queue(&planned.task).await?;
        }
        Ok(())
    };
    match written.await {
        Ok(()) => tx.commit().await.map_err(refuse)?,
        Err(error) => {
            tx.rollback().await;
            return Err(match error {
                StoreError::Fenced => fenced(),
                error => refuse(error),
            });
        }
    }
    if let Some(planned) = &planned {
        cx.platform.fleet.wake(planned.task.node_id);
    }
    // Whoever asked first, this server or another, what is there is what counts.
    let gone = || refuse(StoreError::Gone("task".to_owned()));
    let task = store.task_by_key(operation, &key).await.map_err(refuse)?.ok_or_else(gone)?;
    let task = until_ended(cx, task, body.wait_seconds.unwrap_or(0)).await?;
    Ok(Answer::new(&view(&step, &task)))
}

struct Planned {
    task: Task,
    cell: Cell,
}

async fn planned(cx: &Cx, step: &AdapterStep, body: &AdapterTaskCreate, key: String) -> Result<Planned> {
    if let Some((field, why)) = check::fault(&body.act) {
        return Err(Problem::field(field, why));
    }
    let (_, cell, allocation) = place(cx, step, body).await?;
    let store = &cx.platform.store;
    let gone = || refuse(StoreError::Gone("instance".to_owned()));
    let instance = store.instance_lookup(step.instance_id).await.map_err(refuse)?.ok_or_else(gone)?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    check::secrets(cx, &instance, &manifest, &body.act).await?;
    let details = errand(store, &cell, &allocation, body.act.clone()).await.map_err(refuse)?;
    let corrupt = || refuse(StoreError::Corrupt("details of a task"));
    let task = Task {
        id: cx.platform.world.id::<TaskId>(),
        node_id: cell.node_id,
        operation_id: operation_of(step),
        key,
        kind: kind(&body.act),
        allocation_id: Some(allocation.id),
        incarnation: allocation.incarnation,
        generation: body.generation,
        payload: serde_json::to_value(&details).map_err(|_| corrupt())?,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: step.correlation_id.clone(),
        queued_at: cx.now,
        delivered_at: None,
        finished_at: None,
        expires_at: cx.now + cx.platform.engine.timing().task + runs_for(&body.act),
    };
    Ok(Planned { task, cell })
}

/// The member's cell. A member of another instance is not there, as far as whoever holds this step is concerned.
async fn place(cx: &Cx, step: &AdapterStep, body: &AdapterTaskCreate) -> Result<(Member, Cell, Allocation)> {
    let store = &cx.platform.store;
    let found = store.member_lookup(body.member_id).await.map_err(refuse)?;
    let member = found
        .filter(|member| member.instance_id == step.instance_id && member.state != MemberState::Removed)
        .ok_or_else(|| Problem::not_found("member"))?;
    let no = |why: String| Problem::new(Code::InvalidState, why);
    if member.fenced {
        return Err(no(format!(
            "nobody hears from the node of {}, which was cut off: leave it out",
            member.name
        )));
    }
    let cell = match member.cell_id {
        Some(id) => store.cell_lookup(id).await.map_err(refuse)?,
        None => None,
    };
    let Some(cell) = cell.filter(|cell| cell.state == CellState::Running && !cell.fenced) else {
        return Err(no(format!(
            "the cell of {} does not run: {} is {}",
            member.name, member.name, member.state
        )));
    };
    let gone = || refuse(StoreError::Gone("allocation".to_owned()));
    let allocation = store.allocation_lookup(cell.allocation_id).await.map_err(refuse)?.ok_or_else(gone)?;
    if allocation.state != AllocationState::Active {
        return Err(no(format!("the allocation of {} is {}", member.name, allocation.state)));
    }
    Ok((member, cell, allocation))
}

fn kind(act: &CellAct) -> TaskKind {
    match act {
        CellAct::Files(_) => TaskKind::CellFiles,
        CellAct::Service(_) => TaskKind::CellService,
        CellAct::Command(_) => TaskKind::CellCommand,
        CellAct::Probe(_) => TaskKind::CellProbe,
    }
}

/// How long it may run by its own word, which is no reason to think that nobody heard of it.
fn runs_for(act: &CellAct) -> SignedDuration {
    let seconds = match act {
        CellAct::Files(_) | CellAct::Service(_) => 0,
        CellAct::Command(order) => order.timeout_seconds,
        CellAct::Probe(order) => order.timeout_seconds,
    };
    SignedDuration::from_secs(seconds.into())
}

/// Goes on only if the same was asked for under this key: otherwise the adapter would take the end of one thing for that of
/// another.
async fn same(cx: &Cx, asked: &Task, body: &AdapterTaskCreate) -> Result<()> {
    let member = cx.platform.store.member_lookup(body.member_id).await.map_err(refuse)?;
    let cell = member.and_then(|member| member.cell_id).map(|cell| cell.to_string());
    let is_there = cell.is_none_or(|cell| asked.payload["cell"]["cell_id"] == cell.as_str());
    let act = serde_json::to_value(&body.act).unwrap_or_default();
    if is_there && asked.payload["act"] == act {
        return Ok(());
    }
    let why = "something else was asked for under this key: choose another key, or ask for the same again";
    Err(Problem::new(Code::InvalidState, why))
}

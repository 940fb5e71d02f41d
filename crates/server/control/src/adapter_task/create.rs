//! Create a task in a member's cell, under the lease of a step of the same instance.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::adapter_step::{AdapterTaskCreate, CellTask, TaskEffect};
use muster_authz::Permission;
use muster_db::{StoreError, Tx};
use muster_engine::allocation::owned_allocation;
use muster_engine::cell::cell_target;
use muster_engine::{StoredAct, parse_act};
use muster_ids::TaskId;
use muster_model::adapter::{AdapterStep, AdapterVerb};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::{Cell, CellState};
use muster_model::member::{Member, MemberState};
use muster_model::origin::Audited;
use muster_model::task::{Task, TaskState};
use muster_wire::act::CellTarget;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::overtaken::{READS, is_overtaken};
use super::wait::until_ended;
use super::{check, key_of, operation_of, view};
use crate::adapter_step::{fenced, own};
use crate::commit::target;
use crate::instance::manifest_of;
use crate::{Answer, Cx, Error, Result};

/// Maximum number of open tasks per lease. Further tasks are rejected until some have ended, so that one step cannot fill a
/// node's queue.
const MOST_OPEN: i64 = 256;
/// Maximum number of tasks per lease. A step that needs more returns itself and continues under the next lease.
const MOST: i64 = 4096;

/// Handles `adapter_task_create`.
pub async fn create(cx: &Cx, project: &str, reference: &str, body: AdapterTaskCreate) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterTaskCreate).await?;
    let (operation, key) = (operation_of(&step), key_of(&step, &body.key));
    let store = &cx.platform.store;
    let asked = store.task_by_key(operation, &key).await?;
    let mut aside = None;
    let planned = match asked {
        Some(asked) => {
            same(cx, &asked, &body).await?;
            aside = overtaken(cx, &step, asked, &body).await?;
            match &aside {
                Some(_) => Some(planned(cx, &step, &body, key.clone()).await?),
                None => None,
            }
        }
        None => Some(planned(cx, &step, &body, key.clone()).await?),
    };
    let mut tx = store.begin().await?;
    let written = match &planned {
        Some(planned) => queue(cx, &mut tx, &step, &body, planned, aside.as_ref()).await,
        None => tx.adapter_step_fence(step.id, body.generation, cx.now).await.map_err(refuse_task),
    };
    match written {
        Ok(()) => {
            tx.commit().await?;
            cx.platform.sealer_wake.notify_one();
        }
        Err(error) => {
            tx.rollback().await;
            return Err(error);
        }
    }
    if let Some(planned) = &planned {
        cx.platform.fleet.wake(planned.task.node_id);
    }
    // The stored task is authoritative, whichever server or request created it first.
    let gone = || Error::from(StoreError::Gone("task".to_owned()));
    let task = store.task_by_key(operation, &key).await?.ok_or_else(gone)?;
    let task = until_ended(cx, task, body.wait_seconds.unwrap_or(0)).await?;
    Ok(Answer::new(&view(&step, &task)))
}

/// Queues the task in one transaction with the fence.
async fn queue(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    body: &AdapterTaskCreate,
    planned: &Planned,
    aside: Option<&Task>,
) -> Result<()> {
    tx.adapter_step_fence(step.id, body.generation, cx.now).await.map_err(refuse_task)?;
    if step.verb == AdapterVerb::Reconcile
        && effect_of(body) == TaskEffect::Changes
        && tx.adapter_step_of_members(step.instance_id, step.due_at).await.map_err(refuse_task)?
    {
        return Err(member_step_running());
    }
    let counted = tx.task_count_of(operation_of(step), &key_of(step, ""), body.generation).await;
    ensure_few(counted.map_err(refuse_task)?)?;
    tx.cell_hold(planned.cell.id, planned.cell.incarnation).await.map_err(refuse_task)?;
    if let Some(aside) = aside {
        let free = format!("{}~{}", aside.key, aside.id);
        tx.task_set_aside(aside.id, &aside.key, &free).await.map_err(refuse_task)?;
    }
    if tx.task_queue(&planned.task).await.map_err(refuse_task)? {
        let line = audited(step, planned, &body.act);
        cx.outbox_append(tx, &cx.origin(step.scope()), Some(line), Vec::new()).await.map_err(refuse_task)?;
    }
    Ok(())
}

fn effect_of(body: &AdapterTaskCreate) -> TaskEffect {
    body.effect.unwrap_or(match body.act {
        CellTask::Probe(_) => TaskEffect::Reads,
        CellTask::Files(_) | CellTask::Service(_) | CellTask::Command(_) => TaskEffect::Changes,
    })
}

fn refuse_task(error: StoreError) -> Error {
    match error {
        StoreError::Fenced => fenced(),
        error => Error::from(error),
    }
}

/// Returns the error for a change by a reconcile step. Its snapshot may be stale: the change could undo the work of a
/// member's step.
fn member_step_running() -> Error {
    let why = "a step of a member is open, or ended since this reconcile began: change nothing in it, \
               complete it, and reconcile again; send `\"effect\": \"reads\"` for a task that only reads, \
               and `\"concurrent\"` for a change that is safe beside such steps";
    Error::new(Code::MemberStepRunning, why)
}

/// Ensures that a lease has not created too many tasks.
fn ensure_few((all, open): (i64, i64)) -> Result<()> {
    if open >= MOST_OPEN {
        let why = format!("{open} tasks of this lease have not ended: wait for some of them, then retry");
        return Err(Error::new(Code::RateLimited, why));
    }
    if all >= MOST {
        let why = format!(
            "this lease created {all} tasks: fail the step with `retry_after_seconds`, and continue under the next lease"
        );
        return Err(Error::new(Code::TooManyTasks, why));
    }
    Ok(())
}

/// Returns the task if it was done under an earlier lease and another task may have undone it since. It is then repeated.
async fn overtaken(
    cx: &Cx,
    step: &AdapterStep,
    asked: Task,
    body: &AdapterTaskCreate,
) -> Result<Option<Task>> {
    if asked.state != TaskState::Done || asked.generation >= body.generation {
        return Ok(None);
    }
    let mut of_step = cx.platform.store.task_list(operation_of(step)).await?;
    of_step.retain(|task| task.key.starts_with(&key_of(step, "")));
    Ok(is_overtaken(&asked, &of_step).then_some(asked))
}

struct Planned {
    task: Task,
    cell: Cell,
    member: Member,
}

/// Returns the entry for the consumer's audit: an adapter acts as root in cells that are not its own. Command arguments may
/// hold a secret, so everything but the program is recorded as a digest, which can be compared with the publisher's own
/// records.
fn audited(step: &AdapterStep, planned: &Planned, act: &CellTask) -> Audited {
    let words = match act {
        CellTask::Command(order) => order.command.as_slice(),
        CellTask::Probe(order) => order.command.as_slice(),
        CellTask::Files(_) | CellTask::Service(_) => &[],
    };
    let digest = Sha256::digest(json!(act).to_string().as_bytes());
    Audited::success(
        "adapter_task.create",
        target("member", planned.member.id, &planned.member.name),
        json!({
            "kind": planned.task.kind.as_str(),
            "task_id": planned.task.id,
            "step_id": step.id,
            "instance_id": step.instance_id,
            "cell_id": planned.cell.id,
            "program": words.first(),
            "act_sha256": muster_model::hex::encode(&digest),
        }),
    )
}

async fn planned(cx: &Cx, step: &AdapterStep, body: &AdapterTaskCreate, key: String) -> Result<Planned> {
    if let Some((field, why)) = check::fault(&body.act) {
        return Err(Error::field(field, why));
    }
    let (member, cell, allocation) = place(cx, step, body).await?;
    let store = &cx.platform.store;
    let gone = || Error::from(StoreError::Gone("instance".to_owned()));
    let instance = store.instance_lookup(step.instance_id).await?.ok_or_else(gone)?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    check::secrets(cx, &instance, &manifest, &body.act).await?;
    let act = body.act.clone().into_act(owned_allocation(&allocation), cell_target(&cell));
    let StoredAct { kind, allocation_id, mut payload } = StoredAct::from_act(&act)?;
    if effect_of(body) == TaskEffect::Reads {
        payload[READS] = json!(true);
    }
    let task = Task {
        id: cx.platform.env.id::<TaskId>(),
        node_id: cell.node_id,
        operation_id: operation_of(step),
        key,
        kind,
        allocation_id,
        incarnation: allocation.incarnation,
        generation: body.generation,
        payload,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: step.correlation_id.clone(),
        queued_at: cx.now,
        delivered_at: None,
        finished_at: None,
        expires_at: cx.now + cx.platform.engine.timing().task + runs_for(&body.act),
    };
    Ok(Planned { task, cell, member })
}

/// Returns the member's cell. A member of another instance is reported as not found.
async fn place(cx: &Cx, step: &AdapterStep, body: &AdapterTaskCreate) -> Result<(Member, Cell, Allocation)> {
    let store = &cx.platform.store;
    let found = store.member_lookup(body.member_id).await?;
    let member = found
        .filter(|member| member.instance_id == step.instance_id && member.state != MemberState::Removed)
        .ok_or_else(|| Error::not_found("member"))?;
    let no = |why: String| Error::new(Code::InvalidState, why);
    if member.fenced {
        return Err(no(format!(
            "the node of {} is unreachable, and the member is fenced: leave it out",
            member.name
        )));
    }
    let cell = match member.cell_id {
        Some(id) => store.cell_lookup(id).await?,
        None => None,
    };
    let Some(cell) = cell.filter(|cell| cell.state == CellState::Running && !cell.fenced) else {
        return Err(no(format!(
            "the cell of {} does not run: {} is {}",
            member.name, member.name, member.state
        )));
    };
    let gone = || Error::from(StoreError::Gone("allocation".to_owned()));
    let allocation = store.allocation_lookup(cell.allocation_id).await?.ok_or_else(gone)?;
    if allocation.state != AllocationState::Active {
        return Err(no(format!("the allocation of {} is {}", member.name, allocation.state)));
    }
    Ok((member, cell, allocation))
}

/// Returns the task's own timeout. It extends the expiry, so that a long-running task is not taken for an undelivered one.
fn runs_for(act: &CellTask) -> SignedDuration {
    let seconds = match act {
        CellTask::Files(_) | CellTask::Service(_) => 0,
        CellTask::Command(order) => order.timeout_seconds,
        CellTask::Probe(order) => order.timeout_seconds,
    };
    SignedDuration::from_secs(seconds.into())
}

/// Ensures that a repeated key comes with the same request: otherwise the adapter would take the result of one task for that
/// of another.
async fn same(cx: &Cx, asked: &Task, body: &AdapterTaskCreate) -> Result<()> {
    let member = cx.platform.store.member_lookup(body.member_id).await?;
    let cell = member.and_then(|member| member.cell_id);
    let stored = CellTask::from_act(parse_act(asked)?);
    let is_same = |(stored_cell, task): (CellTarget, CellTask)| {
        cell.is_none_or(|cell| stored_cell.cell_id == cell) && task == body.act
    };
    if stored.is_some_and(is_same) {
        return Ok(());
    }
    let why = "this key was used for a different task: choose another key, or repeat the same task";
    Err(Error::new(Code::InvalidState, why))
}

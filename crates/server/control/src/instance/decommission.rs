//! Decommission an instance, and verify that nothing of it is left. It supersedes every open operation on the instance: this
//! must always be possible.

use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_api::instance::InstanceAct;
use muster_authz::Permission;
use muster_engine::instance::DECOMMISSION;
use muster_ids::TypedId as _;
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::operation::{ItemState, Operation, OperationState};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::subject;
use crate::operation::{self, Submission, deadline, item_of, submit};
use crate::{Cx, Error, PreparedCommand, Result};

/// Default time limit.
pub const WITHIN: SignedDuration = SignedDuration::from_hours(2);

/// Prepares `instance_decommission`.
pub async fn decommission(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: InstanceAct,
) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    let force = body.force.unwrap_or(false);
    let permission = match force {
        true => Permission::InstanceForceDecommission,
        false => Permission::InstanceDecommission,
    };
    cx.authorize(permission, instance.scope(), "instance")?;
    if instance.state == InstanceState::Stopped {
        return Err(Error::new(Code::InvalidState, "it is stopped: nothing of it is left"));
    }
    unprotected(&instance)?;
    let deadline_at: Timestamp = deadline(cx, body.ready_until, WITHIN)?;
    let store = &cx.platform.store;
    let (touching, living) =
        tokio::try_join!(store.operations_locking(instance.id.uuid()), store.member_living(instance.id))?;
    let dry_run = body.dry_run.unwrap_or(false);
    // A forced decommission supersedes one that is not forced, or is blocked.
    let same = touching.iter().find(|operation| operation.kind == DECOMMISSION.kind);
    let again = |same: &Operation| force && (!same.input.force || is_blocked(same));
    if let Some(same) = same.filter(|same| !dry_run && !again(same)) {
        let why = format!(
            "{} is already in progress: follow it with `muster operation watch {}`",
            same.kind, same.id
        );
        return Err(Error::new(Code::InvalidState, why));
    }
    let mut touched = vec![instance.id.to_string()];
    touched.extend(living.iter().map(|member| member.id.to_string()));
    let reason = body.reason.unwrap_or_default();
    let submission = Submission {
        definition: &DECOMMISSION,
        scope: instance.scope(),
        subject: subject(&instance),
        exclusive_locks: vec![instance.id.uuid()],
        shared_locks: Vec::new(),
        items: living.iter().map(item_of).collect(),
        input: OperationInput { force, ..OperationInput::because(&reason) },
        deadline_at,
        event_data: json!({"name": instance.name, "force": force, "reason": reason}),
        before: Some(
            json!({"state": instance.state, "members": living.iter().map(|member| &member.name).collect::<Vec<_>>()}),
        ),
        event: EventType::OperationAccepted,
        supersedes: in_the_way(&instance, touching),
        plan: operation::plan(&DECOMMISSION, &touched, deadline_at),
        dry_run,
    };
    let commit = submit(cx, submission);
    if dry_run {
        return Ok(commit);
    }
    // It may have been protected since it was read.
    Ok(commit.check_before_commit(move |tx| {
        Box::pin(async move {
            let now = tx.instance_hold(instance.id).await?;
            unprotected(now.as_ref().unwrap_or(&instance))?;
            Ok(())
        })
    }))
}

/// Reports whether it is blocked, or one of its items is.
fn is_blocked(operation: &Operation) -> bool {
    operation.state == OperationState::Blocked
        || operation.items.iter().any(|item| item.state == ItemState::Blocked)
}

/// Ensures that the instance is not protected.
fn unprotected(instance: &Instance) -> Result<()> {
    if !instance.protected {
        return Ok(());
    }
    let why =
        format!("it is protected: run `muster instance update {} --protected=false` first", instance.name);
    Err(Error::new(Code::InvalidState, why))
}

/// Returns the operations that lock the instance, exclusively or shared: the decommission would have to wait for all of
/// them, and an instance to be removed must not be scaled or repaired first.
pub fn in_the_way(instance: &Instance, touching: Vec<Operation>) -> Vec<Operation> {
    let holds = |operation: &Operation| {
        operation.exclusive_locks.contains(&instance.id.uuid())
            || operation.shared_locks.contains(&instance.id.uuid())
    };
    touching.into_iter().filter(holds).collect()
}
